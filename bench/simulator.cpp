// Thread-instructions a second of the simulator on RMSNorm (512 columns, a warp a row), on one core and on all, and on
// one with all checks.
// usage: bench_simulator [rows]
#include "ptx/sim/simulator.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "ptx/base/text.h"

namespace {

constexpr int columns = 512, items = columns / 32;

// The text of the RMSNorm example: loads, a sum by shuffles, stores, all unrolled.
std::string rms_norm() {
  ptx::Text t;
  t << ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry rms_norm(.param .u64 X, .param .u64 W, .param "
       ".u64 Y)\n{\n";
  t << ".reg .b32 %r<200>;\n.reg .b64 %rd<400>;\n.reg .f32 %f<200>;\n";
  t << "ld.param.u64 %rd0, [X];\nld.param.u64 %rd1, [W];\nld.param.u64 %rd2, [Y];\nmov.u32 %r0, %ctaid.x;\n";
  t << "mul.wide.u32 %rd3, %r0, " << columns * 4
    << ";\nadd.u64 %rd0, %rd0, %rd3;\nadd.u64 %rd2, %rd2, %rd3;\nmov.u32 %r1, %tid.x;\n";
  t << "mov.f32 %f0, 0f00000000;\n";
  for (int i = 0; i < items; ++i) {
    t << "add.u32 %r" << 10 + i << ", %r1, " << i * 32 << ";\nmul.wide.u32 %rd" << 10 + i << ", %r" << 10 + i
      << ", 4;\n";
    t << "add.u64 %rd" << 50 + i << ", %rd0, %rd" << 10 + i << ";\nld.global.f32 %f" << 10 + i << ", [%rd" << 50 + i
      << "];\n";
    t << "fma.rn.f32 %f0, %f" << 10 + i << ", %f" << 10 + i << ", %f0;\n";
  }
  for (int step = 16; step; step /= 2) {
    t << "mov.b32 %r2, %f0;\nshfl.sync.bfly.b32 %r3, %r2, " << step
      << ", 31, 0xffffffff;\nmov.b32 %f1, %r3;\nadd.f32 %f0, %f0, %f1;\n";
  }
  t << "mov.f32 %f2, 0f3B000000;\nmov.f32 %f3, 0f358637BD;\nmul.f32 %f4, %f0, %f2;\nadd.f32 %f4, %f4, "
       "%f3;\nrsqrt.approx.f32 %f5, %f4;\n";
  for (int i = 0; i < items; ++i) {
    t << "add.u32 %r" << 50 + i << ", %r1, " << i * 32 << ";\nmul.wide.u32 %rd" << 100 + i << ", %r" << 50 + i
      << ", 4;\n";
    t << "add.u64 %rd" << 150 + i << ", %rd1, %rd" << 100 + i << ";\nld.global.f32 %f" << 50 + i << ", [%rd" << 150 + i
      << "];\n";
    t << "mul.f32 %f" << 100 + i << ", %f" << 10 + i << ", %f5;\nmul.f32 %f" << 100 + i << ", %f" << 100 + i << ", %f"
      << 50 + i << ";\n";
    t << "add.u64 %rd" << 200 + i << ", %rd2, %rd" << 100 + i << ";\nst.global.f32 [%rd" << 200 + i << "], %f"
      << 100 + i << ";\n";
  }
  t << "ret;\n}\n";
  return t.take();
}

struct Seconds {
  double wall = 1e9;
  double processor = 1e9;  // of all cores together
};

Seconds seconds_of(ptx::launch::Program& program, const ptx::launch::Record& record,
                   std::span<const std::byte> parameters, const std::vector<ptx::launch::Buffer>& buffers) {
  Seconds best;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t used = std::clock();
    if (const auto done = program.run(record, parameters, buffers, nullptr); !done) {
      std::fputs(to_string(done.why()).c_str(), stderr);
      std::exit(1);
    }
    best.wall = std::min(best.wall, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    best.processor = std::min(best.processor, static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const auto rows = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 4096);
  std::vector<float> x(std::size_t{rows} * columns, 0.5f), w(columns, 1.0f), y(x.size());
  ptx::launch::Record record;
  record.entry = "rms_norm";
  record.grid = {rows, 1, 1}, record.block = {32, 1, 1};
  record.tensors.resize(3);
  record.tensors[2].output = true;
  const std::vector<ptx::launch::Buffer> buffers = {
      {x.data(), {}, {}, x.size() * 4}, {w.data(), {}, {}, w.size() * 4}, {y.data(), {}, {}, y.size() * 4}};
  const void* pointers[] = {x.data(), w.data(), y.data()};
  const std::string text = rms_norm();
  double first = 0;
  std::printf(
      "RMSNorm, %u rows of %d; best of 5 runs; ratios and a core's rate by processor time\n%-8s %8s %8s %24s %8s\n",
      rows, columns, "cores", "ms", "core ms", "thread-instructions/s", "ratio");
  struct Row {
    const char* name;
    ptx::sim::Options options;
  };
  const Row table[] = {{"1", {.cores = 1}},
                       {"2", {.cores = 2}},
                       {"all", {.cores = 0}},
                       {"checked", {.cores = 1, .checks = *ptx::sim::checks_named("all")}}};
  for (const auto& [name, options] : table) {
    ptx::sim::Simulator simulator(options);
    auto program = simulator.prepare(text, record);
    if (!program) {
      std::fputs(to_string(program.why()).c_str(), stderr);
      return 1;
    }
    const auto [wall, processor] = seconds_of(**program, record, std::as_bytes(std::span(pointers)), buffers);
    const double rate = static_cast<double>(ptx::sim::statistics().thread_instructions) / processor;
    if (first == 0) first = rate;
    std::printf("%-8s %8.2f %8.2f %24.3g %8.2f\n", name, wall * 1e3, processor * 1e3, rate, rate / first);
  }
  return std::fabs(y[0] - 1.0f) < 1e-3f ? 0 : 1;
}
