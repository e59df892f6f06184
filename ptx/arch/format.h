// Floating-point formats narrower than f32, and the one conversion between them and double: the simulator's cvt,
// numbers in PTX text and scalar arguments all go through it. NaN becomes the format's canonical one, which cvt gives
// (0x7fff of f16 and bf16): what a scalar holds is then what the same conversion on the device would have made.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace ptx::arch {

enum class Rounding : std::uint8_t { rn, rz, rm, rp, rna, rs };

// How far `rest` of 2^bits (0 <= rest < 2^bits) rounds a magnitude up. `random` of `random_bits` bits is for stochastic
// rounding.
constexpr bool rounds_up(Rounding r, bool negative, bool is_odd, std::uint64_t rest, int bits, std::uint32_t random,
                         int random_bits) {
  if (rest == 0) return false;
  const std::uint64_t half = std::uint64_t{1} << (bits - 1);
  switch (r) {
    case Rounding::rn: return rest > half || (rest == half && is_odd);
    case Rounding::rna: return rest >= half;
    case Rounding::rz: return false;
    case Rounding::rm: return negative;
    case Rounding::rp: return !negative;
    case Rounding::rs:
      return ((bits > random_bits ? rest >> (bits - random_bits) : rest << (random_bits - bits)) + random) >>
             random_bits;
  }
  return false;
}

// A float of fewer bits than f32: sign, exponent, mantissa.
struct Format {
  int exponent, mantissa, bias;
  std::uint32_t largest;   // bits of the largest finite magnitude (MAX_NORM)
  std::uint32_t infinity;  // bits of +infinity; 0: there is none
  std::uint32_t nan;       // bits of the canonical NaN; 0: there is none
  bool has_sign = true;
  constexpr int sign_bit() const { return exponent + mantissa; }
};

namespace format {
inline constexpr Format f16{5, 10, 15, 0x7bff, 0x7c00, 0x7fff};
inline constexpr Format bf16{8, 7, 127, 0x7f7f, 0x7f80, 0x7fff};
inline constexpr Format tf32{8, 10, 127, 0x3fbff, 0x3fc00, 0x3ffff};  // without the 13 low bits of its register
inline constexpr Format e4m3{4, 3, 7, 0x7e, 0, 0x7f};
inline constexpr Format e5m2{5, 2, 15, 0x7b, 0x7c, 0x7f};
inline constexpr Format e2m3{2, 3, 1, 0x1f, 0, 0};
inline constexpr Format e3m2{3, 2, 3, 0x1f, 0, 0};
inline constexpr Format e2m1{2, 1, 1, 0x7, 0, 0};
inline constexpr Format ue5m3{5, 3, 15, 0xfe, 0, 0xff, false};
}  // namespace format

// x to a narrow format; x is exact, or odd if it was rounded before. Beyond the largest: with `finite` the largest,
// else infinity (NaN where there is none) or, where the direction says so, the largest.
constexpr std::uint32_t narrow(const Format& f, double x, Rounding r, bool finite, std::uint32_t random = 0,
                               int random_bits = 0) {
  const auto bits = std::bit_cast<std::uint64_t>(x), magnitude = bits & ~(std::uint64_t{1} << 63);
  constexpr std::uint64_t infinity = std::uint64_t{0x7ff} << 52;
  if (magnitude > infinity) return f.nan ? f.nan : f.largest;
  const bool negative = bits >> 63;
  if (negative && !f.has_sign) return 0;
  const std::uint32_t sign = negative ? 1u << f.sign_bit() : 0;
  const std::uint32_t beyond = sign | (finite || (f.infinity == 0 && f.nan == 0) ? f.largest
                                       : f.infinity                              ? f.infinity
                                                                                 : f.nan);
  if (magnitude == infinity) return beyond;
  if (magnitude >> 52 == 0) {  // zero, or too small for any of the formats to see more than that it is not zero
    return sign | (rounds_up(r, negative, false, magnitude ? 1 : 0, 60, 0, 0) ? 1 : 0);
  }
  const int exponent = static_cast<int>(magnitude >> 52) - 1023, least = 1 - f.bias;
  const int above = std::max(exponent - least, 0);
  const int shift = std::min(52 - f.mantissa + std::max(least - exponent, 0), 62);
  const std::uint64_t all = (magnitude & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
  const std::uint64_t kept = all >> shift, rest = all & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t result = kept + (static_cast<std::uint64_t>(above) << f.mantissa) +
                               rounds_up(r, negative, kept & 1, rest, shift, random, random_bits);
  if (result <= f.largest) return sign | static_cast<std::uint32_t>(result);
  const bool inward =
      r == Rounding::rz || r == Rounding::rs || (r == Rounding::rm && !negative) || (r == Rounding::rp && negative);
  return inward && f.infinity ? sign | f.largest : beyond;
}

constexpr double widen(const Format& f, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & ((1u << f.sign_bit()) - 1);
  const std::uint64_t sign = f.has_sign ? static_cast<std::uint64_t>(bits >> f.sign_bit() & 1) << 63 : 0;
  if (f.infinity && magnitude == f.infinity) return std::bit_cast<double>(sign | std::uint64_t{0x7ff} << 52);
  if (magnitude > f.largest) return std::numeric_limits<double>::quiet_NaN();
  const std::uint64_t field = magnitude >> f.mantissa, rest = magnitude & ((1u << f.mantissa) - 1);
  if (field) return std::bit_cast<double>(sign | (field - f.bias + 1023) << 52 | rest << (52 - f.mantissa));
  const double unit = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + 1 - f.bias - f.mantissa) << 52);
  return sign ? -(static_cast<double>(rest) * unit) : static_cast<double>(rest) * unit;
}

}  // namespace ptx::arch
