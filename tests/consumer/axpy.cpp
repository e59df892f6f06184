// What a user of the library writes: a kernel, its text, a run on the simulator. Built by each of the projects beside
// it, against public headers alone, with warnings that are errors.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ptx/author/kernel.h"
#include "ptx/author/literal.h"
#include "ptx/sim/simulator.h"

using namespace ptx::modifiers;
using namespace ptx::author::literals;

int main() {
  const auto built = ptx::author::kernel({.name = "axpy", .target = "sm_80"}, [](ptx::author::Kernel& k) {
    auto [x, y] = k.pointers({"x", "y"});
    const auto offset = k.from(k.tid_x(), u32) * 4;
    const auto a = k.scalar(f32), b = k.scalar(f32);
    k.ld(global, f32, a, k.at(x + offset));
    k.ld(global, f32, b, k.at(y + offset));
    "fma.rn.f32"_ptx(b, a, 2.0, b);
    k.st(global, f32, k.at(y + offset), b);
    k.ret();
  });
  const std::string text = ptx::ir::emit(built.module);

  std::vector<float> x(64), y(64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i), y[i] = 1;
  ptx::launch::Record record;
  record.entry = "axpy", record.target = "sm_80", record.block.x = 64;
  for (std::uint32_t i = 0; i < 2; ++i) {
    record.tensors.push_back({i == 0 ? "x" : "y", ptx::launch::Element::f32, {{64, {}}}, 4, false, false});
    ptx::launch::append(record, {ptx::launch::Parameter::Kind::tensor, record.tensors[i].name, 0, 8, i});
  }
  std::byte parameters[16];
  const void* addresses[] = {x.data(), y.data()};
  std::memcpy(parameters, addresses, sizeof addresses);
  const ptx::launch::Buffer buffers[] = {{x.data(), {64}, {1}, 256}, {y.data(), {64}, {1}, 256}};
  ptx::sim::Simulator simulator;
  const auto program = simulator.prepare(text, record);
  const auto done = program ? program.value()->run(record, parameters, buffers, nullptr) : program.why();
  if (!done) return std::fputs(ptx::to_string(done.why()).c_str(), stderr), 1;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i] != 2 * x[i] + 1) return std::fprintf(stderr, "y[%zu] is %g\n", i, static_cast<double>(y[i])), 1;
  return std::puts("axpy: 64 results are right"), 0;
}
