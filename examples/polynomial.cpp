// exp(x) by range reduction and a polynomial: a device function that reads a table of constants, called from a kernel.
// Prints the same PTX as examples/polynomial.py.
#include <cstdio>
#include <string>

#include "ptx/ptx.h"

using namespace ptx::modifiers;
using ptx::author::Arguments, ptx::author::Callable, ptx::author::Initial, ptx::author::Kernel, ptx::author::Reg,
    ptx::author::Variable;

constexpr int threads = 128;
constexpr int degree = 6;

// 2 ** x: the whole part goes into the exponent, the rest through Horner's scheme.
Callable power_of_two(Kernel& k) {
  return k.func(
      {.name = "power_of_two", .parameters = {{f32, "x"}}, .returns = {f32}}, [](Kernel& f, const Arguments& in) {
        const Reg whole = f.scalar(f32), rest = f.scalar(f32), y = f.scalar(f32), factor = f.scalar(f32);
        const Reg exponent = f.scalar(s32);
        f.cvt(rni, f32, f32, whole, in[0]);
        f.sub(f32, rest, in[0], whole);
        // Taylor's coefficients of 2 ** r, highest first; good to 1e-6 for r in [-0.5, 0.5].
        const Variable coefficients = f.variable(
            {.space = ptx::isa::Space::const_,
             .type = f32,
             .name = "coefficients",
             .dims = {degree + 1},
             .init = Initial{0.00015403530, 0.0013333558, 0.0096181291, 0.055504109, 0.24022651, 0.69314718, 1.0}});
        f.ld(const_, f32, y, coefficients.at(f, 0));
        for (int i = 1; i <= degree; ++i) {
          f.ld(const_, f32, factor, coefficients.at(f, i));
          f.fma(rn, f32, y, y, rest, factor);
        }
        f.cvt(rni, s32, f32, exponent, whole);
        f.shl(b32, exponent, exponent + 127, 23);
        f.mov(b32, factor, exponent);
        f.mul(f32, y, y, factor);
        f.give(y);
      });
}

int main() {
  const auto built = ptx::author::kernel({.name = "exponential", .target = "sm_90a"}, [](Kernel& k) {
    const auto [px, py] = k.pointers({"X", "Y"});
    const Reg index = k.from(k.ctaid_x(), u32);
    const Reg lane = k.from(k.tid_x(), u32);
    k.mad(lo, u32, index, index, threads, lane);
    const Reg offset = index * 4;
    const Reg x = k.scalar(f32);
    k.ld(global, f32, x, k.at(px + offset));
    k.mul(f32, x, x, 1.4426950408889634);
    const Reg y = power_of_two(k)(x);
    k.st(global, f32, k.at(py + offset), y);
    k.ret();
  });
  std::fputs(ptx::ir::emit(built.module).c_str(), stdout);
}
