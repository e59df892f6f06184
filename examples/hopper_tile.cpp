// One tile of a Hopper matrix product: C(64, 128) = A(64, K) @ B(K, 128), bf16 in, f32 out, by one warpgroup. Tensor
// copies fill a ring of stages in shared memory with a swizzle of 128 bytes; each stage has an mbarrier that counts its
// bytes; wgmma reads the stages. Prints the same PTX as examples/hopper_tile.py; with --run, runs it on the simulator
// and compares with plain C++.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ptx/ptx.h"

using namespace ptx::modifiers;
using namespace ptx::author::literals;
namespace author = ptx::author;
using author::Barriers, author::Kernel, author::Operand, author::Reg, author::RegArray, author::Shared;

constexpr int M = 64, N = 128, tile_k = 64, stages = 3;
constexpr int stage_bytes = (M + N) * tile_k * 2;

author::Built hopper_tile(int K) {
  return author::kernel({.name = "hopper_tile", .target = "sm_90a"}, [&](Kernel& k) {
    for (const char* tensor : {"A", "B", "C"}) k.add_pointer(tensor);
    const Reg map_a = k.tensor_map("A"), map_b = k.tensor_map("B");
    const std::string outputs[] = {"C"};
    const Reg pc = k.global_pointers(outputs)[0];
    const Shared sa = author::wgmma_tile(k, bf16, {stages, M, tile_k}, false);
    const Shared sb = author::wgmma_tile(k, bf16, {stages, tile_k, N}, true);
    const Barriers full = author::barriers(k, stages);

    const Reg tid = k.from(k.tid_x(), u32);
    const Reg leader = tid == 0;
    k.if_(leader, [&] {
      for (int s = 0; s < stages; ++s) "mbarrier.init.shared::cta.b64"_ptx(full[s].where, 1);
      "fence.proxy.async.shared::cta"_ptx();
    });
    "bar.sync"_ptx(0);

    // A's box is 64 x 64. B's is 64 x 128, as two blocks of 64 columns (128 bytes) behind each other: a map of rank 3.
    const auto fetch = [&](const Shared& a, const Shared& b, const author::Address& bar, const Operand& at) {
      "mbarrier.arrive.expect_tx.shared::cta.b64"_ptx(k.scalar(b64), bar, stage_bytes);
      author::tensor_copy::load(k, a.address(), map_a, {at, 0}, bar);
      author::tensor_copy::load(k, b.address(), map_b, {0, at, 0}, bar);
    };
    k.if_(leader, [&] {
      for (int s = 0; s < std::min(stages, K / tile_k); ++s) fetch(sa[s], sb[s], full[s].where, s * tile_k);
    });

    const RegArray acc = k.array(f32, M * N / 128);
    const std::vector<Operand> d = k.elements(acc);
    const author::Pipeline ring = author::pipeline(k, stages);
    k.range(0, K, tile_k, [&](const Reg& at) {
      const auto [stage, phase] = ring.advance();
      const Shared a = sa[stage], b = sb[stage];
      const author::Address bar = full[stage].where;
      author::mbarrier::wait(k, bar, phase);
      "wgmma.fence.sync.aligned"_ptx();
      const Reg later = at != 0;
      for (int step = 0; step < tile_k / 16; ++step) {
        author::wgmma::mma_async(k, {M, N, 16}, f32, bf16, bf16, d, a, b,
                                 {.scale_d = step == 0 ? Operand(later) : Operand(1),
                                  .trans_b = 1,
                                  .a_k_offset = step * 16 * 2,      // 16 elements along a row of A
                                  .b_k_offset = step * 16 * 128});  // 16 rows of B
      }
      "wgmma.commit_group.sync.aligned"_ptx();
      "wgmma.wait_group.sync.aligned"_ptx(0);
      "bar.sync"_ptx(0);  // every warp has read the stage
      const Reg next = at + stages * tile_k;
      k.if_(leader, [&] { k.if_(next < K, [&] { fetch(a, b, bar, next); }); });
    });

    // The accumulator: registers 4j, 4j+1 are row r, columns c + 8j and the next; 4j+2, 4j+3 are row r + 8.
    const Reg warp_row = (tid >> 5) * 16;  // a statement of its own: C++ does not order the two sides of a +
    const Reg row = warp_row + ((tid & 31) >> 2);
    const Reg p = pc + row * (N * 4);
    p += (tid & 3) * 8;
    for (int j = 0; j < N / 8; ++j) {
      k.st(global, v2, f32, k.at(p, 32 * j), k.vector({acc[4 * j], acc[4 * j + 1]}));
      k.st(global, v2, f32, k.at(p, 32 * j + 8 * N * 4), k.vector({acc[4 * j + 2], acc[4 * j + 3]}));
    }
    k.ret();
  });
}

// The largest difference from the same sums in double, whose numbers are small integers: there is none.
double run(int K) {
  ptx::launch::TensorMapRecipe rows{.rank = 2, .box = {tile_k, M}};
  rows.swizzle = ptx::launch::Swizzle::b128;
  ptx::launch::TensorMapRecipe blocks{.rank = 3, .box = {64, tile_k, N / 64}};
  blocks.swizzle = ptx::launch::Swizzle::b128, blocks.column_blocks = true;
  ptx::Program program(
      hopper_tile(K),
      {ptx::tensor("A", ptx::Element::bf16, {M, K}).boxed(rows),
       ptx::tensor("B", ptx::Element::bf16, {K, N}).boxed(blocks), ptx::output("C", ptx::Element::f32, {M, N})},
      {.block = {128}});
  const auto k = static_cast<std::size_t>(K);
  std::vector<std::uint16_t> a(M * k), b(k * N);
  std::vector<float> c(M * N);
  const auto number = [](std::size_t i) { return static_cast<float>(i * 2654435761u % 7) - 3; };
  const auto upper_half = [](float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); };
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = upper_half(number(i));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = upper_half(number(3 * i + 1));
  program.run({ptx::view(ptx::Element::bf16, a.data(), {M, K}), ptx::view(ptx::Element::bf16, b.data(), {K, N}),
               ptx::view(c, {M, N})});
  double worst = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < k; ++j) sum += double{number(i / N * k + j)} * number(3 * (j * N + i % N) + 1);
    worst = std::max(worst, std::fabs(c[i] - sum));
  }
  return worst;
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--run") {
    const double worst = run(320);
    std::printf("hopper_tile: 64 x 128 x 320 on the simulator, largest difference %g\n", worst);
    return worst == 0 ? 0 : 1;
  }
  const int K = argc > 1 ? std::stoi(argv[1]) : 256;
  std::fputs(ptx::ir::emit(hopper_tile(K).module).c_str(), stdout);
}
