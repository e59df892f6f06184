#include "ptx/sim/numerics/scaled.h"

#include <cmath>
#include <limits>

#include "ptx/arch/format.h"
#include "ptx/sim/numerics/factors.h"

namespace ptx::sim {

Factor scale_factor(isa::Type type, std::uint32_t bits) {
  if (type == isa::Type::ue8m0) {
    if (bits == 0xff) return {std::numeric_limits<double>::quiet_NaN(), 0};
    return {std::ldexp(1.0, static_cast<int>(bits) - 127), static_cast<int>(bits) - 127};
  }
  return factor_of(arch::format::e4m3, bits & 0x7f);  // .ue4m3: the sign counts for nothing
}

double dot_f4(const TensorCore& core, std::span<const Factor> a, std::span<const Factor> b, const Factor* scale_a,
              const Factor* scale_b, int scales, double c) {
  Factor terms[8];
  const int groups = static_cast<int>(a.size()) / 16;
  for (int g = 0; g < groups; ++g) {
    double sum = 0;
    for (std::size_t i = 0; i < 16; ++i) sum += a[16 * g + i].value * b[16 * g + i].value;
    const Factor &x = scale_a[g * scales / groups], &y = scale_b[g * scales / groups];
    terms[g] = {sum * x.value * y.value, x.exponent + y.exponent};
  }
  return add_block(core, {terms, static_cast<std::size_t>(groups)}, c, Sum::f32, Sum::f32);
}

double dot_scaled(const TensorCore& core, std::span<const Factor> a, std::span<const Factor> b, Factor x, Factor y,
                  double c) {
  Factor terms[32];
  for (std::size_t i = 0; i < a.size(); ++i) {
    terms[i] = {a[i].value * b[i].value * x.value * y.value, a[i].exponent + b[i].exponent + x.exponent + y.exponent};
  }
  return add_block(core, {terms, a.size()}, c, Sum::f32, Sum::f32);
}

}  // namespace ptx::sim
