// What a user of the library writes: a kernel, its text, a run on the simulator. Built by each of the projects beside
// it, against public headers alone, with warnings that are errors.
#include <cstdio>
#include <vector>

#include "ptx/author/kernel.h"
#include "ptx/author/literal.h"
#include "ptx/interop/program.h"

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
  std::vector<float> x(64), y(64, 1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  using ptx::launch::Element, ptx::launch::tensor;
  ptx::interop::Program axpy(built, {tensor("x", Element::f32, {"n"}), tensor("y", Element::f32, {"n"})},
                             {.block = {64}});
  axpy.run({x, y});
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i] != 2 * x[i] + 1) return std::fprintf(stderr, "y[%zu] is %g\n", i, static_cast<double>(y[i])), 1;
  return std::puts("axpy: 64 results are right"), 0;
}
