#include "ptx/sim/numerics/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "ptx/arch/format.h"

namespace ptx::sim {

namespace {

constexpr TensorCore cores[] = {
#define TENSOR_CORE(unit, since, factors, fraction, products, kept, zero) \
  {Unit::unit, since, Factors::factors, fraction, products, kept, zero},
#include "ptx/sim/numerics/tensor_cores.def"
#undef TENSOR_CORE
};

constexpr int least_exponent(Sum kind) { return kind == Sum::f32 ? -126 : -14; }

// To f32 of `kept` fraction bits, towards zero; beyond the largest is infinite. A sum of zero is +0.
double cut(double x, int kept) {
  if (x == 0) return 0;
  const int unit = std::max(std::ilogb(x), least_exponent(Sum::f32)) - kept;
  const double result = std::ldexp(std::trunc(std::ldexp(x, -unit)), unit);
  if (result == 0) return 0;
  return std::fabs(result) < 0x1p128 ? result : std::copysign(std::numeric_limits<double>::infinity(), x);
}

double round(const TensorCore& core, double x, Sum result) {
  if (result == Sum::f32) return cut(x, core.kept);
  const double d = arch::widen(arch::format::f16, arch::narrow(arch::format::f16, x, arch::Rounding::rn, false));
  return d == 0 ? 0 : d;
}

}  // namespace

const TensorCore* tensor_core(Unit unit, int architecture, Factors factors) {
  const TensorCore* found = nullptr;
  for (const TensorCore& row : cores) {
    if (row.unit == unit && row.factors == factors && (!found || row.since <= architecture)) found = &row;
  }
  return found;
}

double sum_value(Sum kind, std::uint32_t bits) {
  return kind == Sum::f32 ? std::bit_cast<float>(bits) : arch::widen(arch::format::f16, bits);
}

std::uint32_t sum_bits(Sum kind, double value) {
  if (kind == Sum::f16) return arch::narrow(arch::format::f16, value, arch::Rounding::rn, false);
  return std::isnan(value) ? 0x7fffffff : std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

double add_block(const TensorCore& core, std::span<const Factor> terms, double c, Sum of_c, Sum result) {
  int top = core.zero + (result == Sum::f16 ? 112 : 0);
  double special = 0;  // the sum of what is not finite
  for (const Factor& term : terms) {
    if (!std::isfinite(term.value)) {
      special += term.value;
    } else if (term.value != 0) {
      top = std::max(top, term.exponent);
    }
  }
  if (!std::isfinite(c)) {
    special += c;
  } else if (c != 0) {
    top = std::max({top, std::ilogb(c), least_exponent(of_c)});
  }
  if (special != 0) return special;  // infinite or NaN
  const int unit = top - core.fraction;
  std::int64_t sum = static_cast<std::int64_t>(std::ldexp(c, -unit));
  for (const Factor& term : terms) sum += static_cast<std::int64_t>(std::ldexp(term.value, -unit));
  return round(core, std::ldexp(static_cast<double>(sum), unit), result);
}

double dot(const TensorCore& core, std::span<const Factor> a, std::span<const Factor> b, double c, Sum of_c,
           Sum result) {
  for (std::size_t begin = 0; begin < a.size(); begin += core.products) {
    const std::size_t n = std::min<std::size_t>(core.products, a.size() - begin);
    Factor terms[32];
    for (std::size_t i = 0; i < n; ++i) {
      const Factor &x = a[begin + i], &y = b[begin + i];
      terms[i] = {x.value * y.value, x.exponent + y.exponent};
    }
    c = add_block(core, {terms, n}, c, of_c, result);
    of_c = result;
  }
  return c;
}

}  // namespace ptx::sim
