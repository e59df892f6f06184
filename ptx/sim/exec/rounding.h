// Exact rounding. A result of two or three operands is first brought to a double that is exact or odd: an inexact
// result ends in a one bit, so the second rounding, to f32 or narrower and in any direction, is the only one that
// counts. For f64, where there is no wider type, directed rounding uses the machine's own mode. Nothing here knows PTX
// modifiers beyond the rounding.
#pragma once

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ptx/arch/format.h"

namespace ptx::sim {

using arch::Format;
using arch::narrow;
using arch::Rounding;
using arch::rounds_up;
using arch::widen;
namespace format = arch::format;

// `sum` was rounded to nearest and is `error` away from the exact value: makes it odd if it is inexact.
inline double odd(double sum, double error) {
  auto bits = std::bit_cast<std::int64_t>(sum);
  if ((error < 0 || error > 0) && (bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(bits);
}

inline double add_odd(double a, double b) {
  const double sum = a + b, part = sum - a;
  return odd(sum, (a - (sum - part)) + (b - part));
}

// a * b must be exact in a double: operands of at most 26 significant bits.
inline double fma_odd(double a, double b, double c) { return add_odd(a * b, c); }

inline double div_odd(double a, double b) {
  const double quotient = a / b;
  if (!std::isfinite(quotient) || quotient == 0) return quotient;
  const double rest = std::fma(-quotient, b, a);  // its sign is that of the error times b
  return odd(quotient, b > 0 ? rest : -rest);
}

inline double sqrt_odd(double a) {
  const double root = std::sqrt(a);
  if (!std::isfinite(root) || root == 0) return root;
  return odd(root, std::fma(-root, root, a));
}

// One ulp away from or towards zero.
inline float step(float x, int by) { return std::bit_cast<float>(std::bit_cast<std::int32_t>(x) + by); }

template <Rounding R>
float to_f32(double x) {
  const float near = static_cast<float>(x);
  if constexpr (R == Rounding::rn) {
    return near;
  } else if constexpr (R == Rounding::rz) {
    return std::fabs(static_cast<double>(near)) > std::fabs(x) ? step(near, -1) : near;
  } else if constexpr (R == Rounding::rm) {
    return near > x ? near > 0 ? step(near, -1) : step(-std::fabs(near), 1) : near;
  } else {
    return near < x ? near < 0 ? step(near, -1) : step(std::fabs(near), 1) : near;
  }
}

// An exact sum of zero is negative towards minus infinity, unless both parts are +0.
inline double zero_sum(double sum, double a, double b, Rounding r) {
  return r == Rounding::rm && sum == 0 && (std::signbit(a) || std::signbit(b)) ? -0.0 : sum;
}

// f64 in a direction: the operands must not be folded before the mode is set.
template <class F>
[[gnu::noinline]] double directed(F operation, int mode, double a, double b, double c) {
  const int before = std::fegetround();
  std::fesetround(mode);
  const volatile double x = a, y = b, z = c;
  const volatile double result = operation(x, y, z);
  std::fesetround(before);
  return result;
}

template <class F>
double in_f64(F operation, Rounding r, double a, double b = 0, double c = 0) {
  if (r == Rounding::rn) return operation(a, b, c);
  return directed(operation, r == Rounding::rz ? FE_TOWARDZERO : r == Rounding::rm ? FE_DOWNWARD : FE_UPWARD, a, b, c);
}

}  // namespace ptx::sim
