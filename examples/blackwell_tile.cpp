// One tile of a Blackwell matrix product: C(128, 128) = A(128, K) @ B(128, K)^T, bf16 in, f32 out, both with K last.
// One thread copies and multiplies, tcgen05.mma accumulates in tensor memory, four warps read the result. There is one
// stage, so copies and products take turns: the kernel is as short as possible, not fast. Prints the PTX; with --run,
// runs it on the simulator and compares with plain C++.
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
using author::Address, author::Kernel, author::Operand, author::Reg, author::Shared, author::when;

constexpr int M = 128, N = 128, tile_k = 64;  // a row of a stage is 128 bytes, the width of the swizzle

author::Built blackwell_tile(int K) {
  return author::kernel({.name = "blackwell_tile", .target = "sm_100a"}, [&](Kernel& k) {
    for (const char* tensor : {"A", "B", "C"}) k.add_pointer(tensor);
    const Reg map_a = k.tensor_map("A"), map_b = k.tensor_map("B");
    const std::string outputs[] = {"C"};
    const Reg pc = k.global_pointers(outputs)[0];
    const Shared a = author::shared(k, bf16, {M, tile_k}, author::Swizzle::b128);
    const Shared b = author::shared(k, bf16, {N, tile_k}, author::Swizzle::b128);
    const Shared slot = author::shared(k, b32, {1});  // the address in tensor memory, as alloc writes it
    const author::Barriers barriers = author::barriers(k, 2);
    const Address full = barriers[0].where, done = barriers[1].where;

    const Reg tid = k.from(k.tid_x(), u32);
    const Reg warp_index = tid >> 5;
    const Reg leader = tid == 0, first_warp = warp_index == 0;
    k.if_(first_warp, [&] {
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"_ptx(slot.address(), N);
      "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned"_ptx();
    });
    k.if_(leader, [&] {
      k.mbarrier(init, shared_cta, b64, full, 1);
      k.mbarrier(init, shared_cta, b64, done, 1);
      k.fence(proxy, async, shared_cta);
    });
    "tcgen05.fence::before_thread_sync"_ptx();
    "bar.sync"_ptx(0);
    "tcgen05.fence::after_thread_sync"_ptx();
    const Reg accumulator = k.scalar(b32), phase = k.scalar(u32, 0);
    k.ld(shared, b32, accumulator, slot.address());

    const std::int64_t kind = author::tcgen05::instruction_descriptor(k, {.m = M, .n = N});
    const Reg from_a = author::tcgen05::masked_descriptor(k, a), from_b = author::tcgen05::masked_descriptor(k, b);
    k.range(0, K, tile_k, [&](const Reg& at) {
      k.if_(leader, [&] {
        k.mbarrier(arrive, expect_tx, shared_cta, b64, author::sink(), full, (M + N) * tile_k * 2);
        author::tensor_copy::load(k, a.address(), map_a, {at, 0}, full);
        author::tensor_copy::load(k, b.address(), map_b, {at, 0}, full);
        author::mbarrier::wait(k, full, phase);
        const Reg later = at != 0, always = k.scalar(pred);
        "setp.eq.u32"_ptx(always, 0, 0);
        for (int step = 0; step < tile_k / 16;
             ++step) {  // 16 elements along a row: 32 bytes, two units of a descriptor
          const Reg step_a = from_a + 2 * step, step_b = from_b + 2 * step;
          k.tcgen05(mma, cta_group_1, kind_f16, k.at(accumulator), step_a, step_b, k.from(kind, u32),
                    step == 0 ? later : always);
        }
        k.tcgen05(commit, cta_group_1, mbarrier_arrive_one, shared_cluster, b64, done);
      });
      author::mbarrier::wait(k, done,
                             phase);  // the products have read the stage; after the last one, D is in tensor memory
      phase ^= 1;
    });
    "tcgen05.fence::after_thread_sync"_ptx();

    // Thread t has row t: its warp reads 32 lanes of tensor memory, 32 columns at a time.
    const Reg lanes = accumulator + (warp_index << 21);  // lane 32 * warp, in bits 31..16 of an address
    const Reg out = pc + tid * (N * 4);
    const author::RegArray values = k.array(b32, 32);
    for (int column = 0; column < N; column += 32) {
      "tcgen05.ld.sync.aligned.32x32b.x32.b32"_ptx(k.vector(values), k.at(lanes, column));
      "tcgen05.wait::ld.sync.aligned"_ptx();
      for (int i = 0; i < 32; i += 4) k.st(global, v4, b32, k.at(out, 4 * (column + i)), k.vector(values, i, 4));
    }
    "tcgen05.fence::before_thread_sync"_ptx();
    "bar.sync"_ptx(0);
    k.if_(first_warp, [&] { "tcgen05.dealloc.cta_group::1.sync.aligned.b32"_ptx(accumulator, N); });
    k.ret();
  });
}

// The largest difference from the same sums in double, whose numbers are small integers: there is none.
double run(int K) {
  const auto matrix = [&](const char* name) {
    ptx::launch::TensorMapRecipe recipe{.rank = 2, .box = {tile_k, M}};
    recipe.swizzle = ptx::launch::Swizzle::b128;
    return ptx::tensor(name, ptx::Element::bf16, {M, K}).boxed(recipe);
  };
  ptx::Program program(blackwell_tile(K), {matrix("A"), matrix("B"), ptx::output("C", ptx::Element::f32, {M, N})},
                       {.block = {128}});
  const auto k = static_cast<std::size_t>(K);
  std::vector<std::uint16_t> a(M * k), b(N * k);
  std::vector<float> c(M * N);
  const auto number = [](std::size_t i) { return static_cast<float>(i * 2654435761u % 7) - 3; };
  const auto upper_half = [](float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); };
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = upper_half(number(i)), b[i] = upper_half(number(3 * i + 1));
  program.run({ptx::view(ptx::Element::bf16, a.data(), {M, K}), ptx::view(ptx::Element::bf16, b.data(), {N, K}),
               ptx::view(c, {M, N})});
  double worst = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < k; ++j) sum += double{number(i / N * k + j)} * number(3 * (i % N * k + j) + 1);
    worst = std::max(worst, std::fabs(c[i] - sum));
  }
  return worst;
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--run") {
    const double worst = run(192);
    std::printf("blackwell_tile: 128 x 128 x 192 on the simulator, largest difference %g\n", worst);
    return worst == 0 ? 0 : 1;
  }
  const int K = argc > 1 ? std::stoi(argv[1]) : 256;
  std::fputs(ptx::ir::emit(blackwell_tile(K).module).c_str(), stdout);
}
