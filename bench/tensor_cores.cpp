// What the simulator makes of products of f16 with sums of f32, in a core's processor time: wgmma m64n256k16 and
// tcgen05.mma m128n256k16, four to a wait, operands in shared memory with the 128-byte swizzle. usage:
// bench_tensor_cores [rounds]
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "ptx/base/text.h"
#include "ptx/sim/simulator.h"

namespace {

constexpr int n = 256, k = 16, together = 4;

// Registers, %r1 = %tid.x, and shared memory full of numbers of many exponents.
std::string head(std::string_view target, int bytes) {
  return ptx::cat(
      ".version 8.6\n.target ", target,
      "\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.shared .align 1024 .b8 s[", bytes,
      "];\n.shared .align 8 .b64 done;\n.shared .align 4 .b32 slot;\n.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 "
      "%rd<16>; .reg .f32 %f<128>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\nshl.b32 %r3, %r1, "
      "2;\nadd.u32 %r3, %r3, %r2;\nmad.lo.u32 %r4, %r1, 2654435761, 12345;\nmov.u32 %r5, 0;\nFILL:\nmad.lo.u32 %r4, "
      "%r4, 1664525, 1013904223;\nshr.u32 %r6, %r4, 7;\nxor.b32 %r6, %r6, %r4;\nand.b32 %r6, %r6, 0x8fff8fff;\nor.b32 "
      "%r6, %r6, 0x30003000;\nst.shared.b32 [%r3], %r6;\nadd.u32 %r3, %r3, 512;\nadd.u32 %r5, %r5, 512;\nsetp.lt.u32 "
      "%p1, %r5, ",
      bytes, ";\n@%p1 bra FILL;\nfence.proxy.async.shared::cta;\nshr.u32 %r7, %r2, 4;\n");
}

std::string wgmma(int rounds) {
  std::string list;
  for (int i = 0; i < n / 2; ++i) list += ptx::cat(i ? ", " : "", "%f", i);
  std::string text = head("sm_90a", 40960);
  for (int i = 0; i < n / 2; ++i) text += ptx::cat("mov.f32 %f", i, ", 0f00000000;\n");
  text += "bar.sync 0;\nmov.u32 %r8, 0;\nLOOP:\nwgmma.fence.sync.aligned;\n";
  for (int i = 0; i < together; ++i) {
    text += ptx::cat("add.u32 %r9, %r7, ", 2 * i, ";\ncvt.u64.u32 %rd2, %r9;\nor.b64 %rd2, %rd2, 0x4000004000010000;\n",
                     "add.u32 %r9, %r7, ", 512 + 2 * i,
                     ";\ncvt.u64.u32 %rd3, %r9;\nor.b64 %rd3, %rd3, 0x4000004000010000;\n"
                     "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {",
                     list, "}, %rd2, %rd3, 1, 1, 1, 0, 0;\n");
  }
  return text + ptx::cat(
                    "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nadd.u32 %r8, %r8, 1;\n"
                    "setp.lt.u32 %p1, %r8, ",
                    rounds,
                    ";\n@%p1 bra LOOP;\nshl.b32 %r3, %r1, 2;\ncvt.u64.u32 %rd4, %r3;\nadd.u64 %rd1, %rd1, "
                    "%rd4;\nst.global.f32 [%rd1], %f5;\nret;\n}\n");
}

std::string tcgen05(int rounds) {
  std::string text = head("sm_100a", 49152);
  text +=
      "setp.lt.u32 %p2, %r1, 32;\nsetp.eq.u32 %p3, %r1, 0;\n@%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::"
      "cta.b32 [slot], 256;\n@%p3 mbarrier.init.shared.b64 [done], 1;\ntcgen05.fence::before_thread_sync;\nbar.sync "
      "0;\ntcgen05.fence::after_thread_sync;\nld.shared.b32 %r10, [slot];\nmov.u32 %r8, 0;\nmov.u32 %r12, "
      "0x08400010;\nLOOP:\nsetp.ne.u32 %p4, %r8, 0;\nsetp.eq.u32 %p5, %r8, %r8;\n";
  for (int i = 0; i < together; ++i) {
    text += ptx::cat("add.u32 %r9, %r7, ", 2 * i, ";\ncvt.u64.u32 %rd2, %r9;\nor.b64 %rd2, %rd2, 0x4000404000010000;\n",
                     "add.u32 %r9, %r7, ", 1024 + 2 * i,
                     ";\ncvt.u64.u32 %rd3, %r9;\nor.b64 %rd3, %rd3, 0x4000404000010000;\n"
                     "@%p3 tcgen05.mma.cta_group::1.kind::f16 [%r10], %rd2, %rd3, %r12, ",
                     i ? "%p5" : "%p4", ";\n");
  }
  return text + ptx::cat(
                    "@%p3 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];\nand.b32 %r13, "
                    "%r8, 1;\nW:\nmbarrier.try_wait.parity.shared.b64 %p6, [done], %r13;\n@!%p6 bra W;\nadd.u32 %r8, "
                    "%r8, 1;\nsetp.lt.u32 %p1, %r8, ",
                    rounds,
                    ";\n@%p1 bra LOOP;\ntcgen05.fence::after_thread_sync;\nshr.u32 %r14, %r1, 5;\nshl.b32 %r14, %r14, "
                    "21;\nadd.u32 %r14, %r14, %r10;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r15}, "
                    "[%r14+5];\ntcgen05.wait::ld.sync.aligned;\nshl.b32 %r3, %r1, 2;\ncvt.u64.u32 %rd4, %r3;\nadd.u64 "
                    "%rd1, %rd1, %rd4;\nst.global.b32 [%rd1], %r15;\ntcgen05.fence::before_thread_sync;\nbar.sync "
                    "0;\n@%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 256;\nret;\n}\n");
}

double seconds_of(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const std::clock_t start = std::clock();
    work();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

double run(const std::string& text, const ptx::sim::Options& options) {
  ptx::sim::Simulator simulator(options);
  ptx::launch::Record record;
  record.entry = "k";
  record.grid = {1, 1, 1}, record.block = {128, 1, 1};
  record.tensors.resize(1);
  std::vector<float> out(128);
  const void* pointers[] = {out.data()};
  auto program = simulator.prepare(text, record);
  if (!program) {
    std::fputs(to_string(program.why()).c_str(), stderr);
    std::exit(1);
  }
  return seconds_of([&] {
    const auto done =
        (*program)->run(record, std::as_bytes(std::span(pointers)), {{{out.data(), {}, {}, 512}}}, nullptr);
    if (done) return;
    std::fputs(to_string(done.why()).c_str(), stderr);
    std::exit(1);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 500, products = rounds * together;
  std::printf("GFLOP/s of a core's processor time; best of 5 runs of %d products\n%-10s %8s %8s %8s\n", products, "",
              "plain", "checked", "ratio");
  const auto checks = *ptx::sim::checks_named("all");
  const auto row = [&](const char* name, int m, const std::string& text) {
    const double flop = 2.0 * m * n * k * products;
    const double plain = run(text, {.cores = 1}), checked = run(text, {.cores = 1, .checks = checks});
    std::printf("%-10s %8.1f %8.1f %8.2f\n", name, flop / plain * 1e-9, flop / checked * 1e-9, plain / checked);
  };
  row("wgmma", 64, wgmma(rounds));
  row("tcgen05", 128, tcgen05(rounds));
}
