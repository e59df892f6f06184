// Exact rounding. A result of two or three operands is first brought to a double that is exact or odd: an inexact result ends in a
// one bit, so the second rounding, to f32 or narrower and in any direction, is the only one that counts. For f64, where there is
// no wider type, directed rounding uses the machine's own mode. Nothing here knows PTX modifiers beyond the rounding.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ptx::sim::exec {

enum class Rounding : std::uint8_t { rn, rz, rm, rp, rna, rs };

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
  const double rest = std::fma(-quotient, b, a);   // its sign is that of the error times b
  return odd(quotient, b > 0 ? rest : -rest);
}

inline double sqrt_odd(double a) {
  const double root = std::sqrt(a);
  if (!std::isfinite(root) || root == 0) return root;
  return odd(root, std::fma(-root, root, a));
}

// One ulp away from or towards zero.
inline float step(float x, int by) {
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(x) + by);
}

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
template <Rounding R>
double zero_sum(double sum, double a, double b) {
  if constexpr (R == Rounding::rm) {
    if (sum == 0 && (std::signbit(a) || std::signbit(b))) return -0.0;
  }
  return sum;
}

// f64 in a direction: the operands must not be folded before the mode is set.
template <Rounding R, class F>
[[gnu::noinline]] double directed(F operation, volatile double a, volatile double b, volatile double c) {
  constexpr int mode = R == Rounding::rz ? FE_TOWARDZERO : R == Rounding::rm ? FE_DOWNWARD : FE_UPWARD;
  const int before = std::fegetround();
  std::fesetround(mode);
  volatile double result = operation(a, b, c);
  std::fesetround(before);
  return result;
}

template <Rounding R, class F>
double in_f64(F operation, double a, double b = 0, double c = 0) {
  if constexpr (R == Rounding::rn) return operation(a, b, c);
  return directed<R>(operation, a, b, c);
}

// A magnitude with its fraction, to an integer. `random` of `random_bits` bits is for stochastic rounding.
inline double round_magnitude(double x, bool negative, Rounding r, std::uint32_t random = 0, int random_bits = 0) {
  const double whole = x < 4503599627370496.0 ? static_cast<double>(static_cast<std::int64_t>(x)) : x;
  const double rest = x - whole;
  bool up = false;
  switch (r) {
    case Rounding::rn: up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0); break;
    case Rounding::rna: up = rest >= 0.5; break;
    case Rounding::rz: break;
    case Rounding::rm: up = negative && rest > 0; break;
    case Rounding::rp: up = !negative && rest > 0; break;
    case Rounding::rs: up = std::floor(std::ldexp(rest, random_bits)) + random >= std::ldexp(1, random_bits); break;
  }
  return whole + (up ? 1 : 0);
}

// A float of fewer bits than f32: sign, exponent, mantissa.
struct Format {
  int exponent, mantissa, bias;
  std::uint32_t largest;      // bits of the largest finite magnitude (MAX_NORM)
  std::uint32_t infinity;     // bits of +infinity; 0: there is none
  std::uint32_t nan;          // bits of the canonical NaN; 0: there is none
  bool has_sign = true;
  constexpr int sign_bit() const { return exponent + mantissa; }
};

namespace format {
inline constexpr Format f16{5, 10, 15, 0x7bff, 0x7c00, 0x7fff};
inline constexpr Format bf16{8, 7, 127, 0x7f7f, 0x7f80, 0x7fff};
inline constexpr Format tf32{8, 10, 127, 0x3fbff, 0x3fc00, 0x3ffff};   // without the 13 low bits of its register
inline constexpr Format e4m3{4, 3, 7, 0x7e, 0, 0x7f};
inline constexpr Format e5m2{5, 2, 15, 0x7b, 0x7c, 0x7f};
inline constexpr Format e2m3{2, 3, 1, 0x1f, 0, 0};
inline constexpr Format e3m2{3, 2, 3, 0x1f, 0, 0};
inline constexpr Format e2m1{2, 1, 1, 0x7, 0, 0};
inline constexpr Format ue5m3{5, 3, 15, 0xfe, 0, 0xff, false};
}  // namespace format

// x to a narrow format; x is exact or odd. Beyond the largest: with `finite` the largest, else infinity (NaN where there is none)
// or, where the direction says so, the largest.
inline std::uint32_t narrow(const Format& f, double x, Rounding r, bool finite, std::uint32_t random = 0, int random_bits = 0) {
  const bool negative = std::signbit(x);
  const std::uint32_t sign = negative && f.has_sign ? 1u << f.sign_bit() : 0;
  if (std::isnan(x)) return f.nan ? f.nan : f.largest;
  if (negative && !f.has_sign) return 0;
  const bool inward = r == Rounding::rz || r == Rounding::rs || (r == Rounding::rm && !negative) || (r == Rounding::rp && negative);
  const std::uint32_t beyond = sign | (finite || (f.infinity == 0 && f.nan == 0) ? f.largest : f.infinity ? f.infinity : f.nan);
  if (std::isinf(x)) return beyond;
  if (x == 0) return sign;
  const int least = 1 - f.bias - f.mantissa;   // exponent of the smallest subnormal
  const int quantum = std::max(std::ilogb(x) - f.mantissa, least);
  if (quantum - least > 1 << f.exponent) return inward && f.infinity ? sign | f.largest : beyond;
  const double magnitude = round_magnitude(std::ldexp(std::fabs(x), -quantum), negative, r, random, random_bits);
  const std::uint32_t bits = static_cast<std::uint32_t>(magnitude) + (static_cast<std::uint32_t>(quantum - least) << f.mantissa);
  if (bits > f.largest) return inward && f.infinity ? sign | f.largest : beyond;
  return sign | bits;
}

inline double widen(const Format& f, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & ((1u << f.sign_bit()) - 1);
  const bool negative = f.has_sign && (bits >> f.sign_bit() & 1);
  double x;
  if (f.infinity && magnitude == f.infinity) {
    x = std::numeric_limits<double>::infinity();
  } else if (magnitude > f.largest) {
    x = std::numeric_limits<double>::quiet_NaN();
  } else {
    const std::uint32_t field = magnitude >> f.mantissa, rest = magnitude & ((1u << f.mantissa) - 1);
    x = std::ldexp(field ? rest + (1u << f.mantissa) : rest, static_cast<int>(field ? field - 1 : 0) + 1 - f.bias - f.mantissa);
  }
  return negative ? -x : x;
}

}  // namespace ptx::sim::exec
