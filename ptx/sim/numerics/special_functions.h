// The special function unit (MUFU): rcp, sqrt, rsqrt, lg2, ex2, sin, cos and tanh of f32, bit for bit, on the bits of
// numbers. The upper bits of the significand choose a row of coefficients, the others are x in c0 + c1 * x + c2 * x *
// x: integers that are cut, not rounded. Subnormal arguments and results are zeros of their sign; exec/floating.h has
// what the assembler adds for those. The models are B. Carleton's (ptx-math); `python
// tests/oracle/special_functions.py` compares them with a GPU over all inputs.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace ptx::sim::special {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct Row {
  u32 c0, c1, c2;
};

#define EX2(...) Row{__VA_ARGS__},
inline constexpr std::array ex2_rows{
#include "ptx/sim/numerics/special_functions.def"
};
#define LG2(...) Row{__VA_ARGS__},
inline constexpr std::array lg2_rows{
#include "ptx/sim/numerics/special_functions.def"
};
#define RCP(...) Row{__VA_ARGS__},
inline constexpr std::array rcp_rows{
#include "ptx/sim/numerics/special_functions.def"
};
#define RSQRT(...) Row{__VA_ARGS__},  // two tables: of even exponents, of odd ones
inline constexpr std::array rsqrt_rows{
#include "ptx/sim/numerics/special_functions.def"
};
#define SIN(...) Row{__VA_ARGS__},  // of a quarter turn
inline constexpr std::array sin_rows{
#include "ptx/sim/numerics/special_functions.def"
};
#define SQRT(...) Row{__VA_ARGS__},
inline constexpr std::array sqrt_rows{
#include "ptx/sim/numerics/special_functions.def"
};
#define TANH(...) Row{__VA_ARGS__},
inline constexpr std::array tanh_rows{
#include "ptx/sim/numerics/special_functions.def"
};

inline constexpr u32 nan = 0x7fffffff, infinity = 0x7f800000, sign_mask = 0x80000000;

// x * x of 17 bits without what the unit's multiplier leaves out: below column 19, the diagonal and the products of the
// nine lowest bits.
constexpr u64 square(u32 x) {
  constexpr u32 columns = (1u << 19) - 1;
  u32 left_out = 0;
  for (int i = 0; i < 9; ++i) {
    const u32 bit = x >> i & 1, above = (x << (i + 1)) & (columns & ~((4u << 2 * i) - 1));
    left_out += (bit << 2 * i) + (above & (0u - bit));
  }
  return u64{x} * x - left_out - (u64{x >> 9 & 1} << 18);
}

constexpr u32 exponent(u32 x) { return x >> 23 & 0xff; }
constexpr u32 fraction(u32 x) { return x & 0x7fffff; }

constexpr u32 rcp(u32 x) {
  const u32 sign = x & sign_mask, e = exponent(x), low = x & 0xffff;
  if (e == 255) return fraction(x) ? nan : sign;
  if (e == 0) return sign | infinity;
  const Row row = rcp_rows[fraction(x) >> 16];
  u64 sum = (u64{row.c0} << 30) - (u64{row.c1} * low << 17) + row.c2 * (square(low << 1) >> 2) + 0xcfce0000;
  const u32 below_one = 1 - static_cast<u32>(sum >> 56);
  const int result = 254 - static_cast<int>(e + below_one);
  return result <= 0 ? sign
                     : sign | static_cast<u32>(result) << 23 | fraction(static_cast<u32>(sum << below_one >> 33));
}

constexpr u32 sqrt(u32 x) {
  const u32 e = exponent(x), low = x & 0x1ffff;
  if (e == 0) return x & sign_mask;
  if (x > infinity) return nan;
  if (x == infinity) return x;
  const u32 odd = ~e & 1;  // of the exponent e - 127
  const Row row = sqrt_rows[(fraction(x) >> 17) + 64 * odd];
  const u64 sum = (u64{row.c0} << 33) + (u64{row.c1} * low << 18) - row.c2 * square(low) + 0x3fffc0000;
  return (e - odd + 127) / 2 << 23 | fraction(static_cast<u32>(sum >> 35));
}

constexpr u32 rsqrt(u32 x) {
  const u32 e = exponent(x), low = x & 0x1ffff;
  if (e == 0) return (x & sign_mask) | infinity;
  if (x > infinity) return nan;
  if (x == infinity) return 0;
  const u32 odd = ~e & 1, half = (e - odd + 127) / 2;  // the exponent of the root, biased
  if (!odd && fraction(x) == 0) return (254 - half) << 23;
  const Row row = rsqrt_rows[(fraction(x) >> 17) + 64 * odd];
  const u64 sum = (u64{row.c0} << 31) - (u64{row.c1} * low << 17) + row.c2 * square(low) + 0x1fffe0000;
  return (253 - half) << 23 | fraction(static_cast<u32>(sum >> 33));
}

// Upper words of f64: the fraction of the f32 result, cut to 20 bits.
constexpr u32 rcp_upper(u32 x) {
  const u32 sign = x & sign_mask, e = x >> 20 & 0x7ff, top = x & 0xfffff;
  if (e == 0x7ff) return top ? nan : sign;
  if (e == 0) return sign | 0x7ff00000;
  const u32 y = rcp(127u << 23 | top << 3);
  const int result = static_cast<int>(exponent(y)) - 127 + 2046 - static_cast<int>(e);
  return result <= 0 ? sign : sign | static_cast<u32>(result) << 20 | fraction(y) >> 3;
}

constexpr u32 rsqrt_upper(u32 x) {
  const u32 e = x >> 20 & 0x7ff;
  if (e == 0) return (x & sign_mask) | 0x7ff00000;
  if (x > 0x7ff00000) return nan;
  if (x == 0x7ff00000) return 0;
  const u32 odd = ~e & 1, half = (e - odd + 1023) / 2;  // of the exponent e - 1023, and of the root, biased
  const u32 y = rsqrt((127 + odd) << 23 | (x & 0xfffff) << 3);
  return (exponent(y) + 2046 - 127 - half) << 20 | fraction(y) >> 3;
}

// The bits of a sum with `point` bits behind the point.
constexpr u32 normalized(u64 sum, u32 sign) {
  constexpr int point = 56;
  if (sum == 0) return sign;
  const int top = 63 - std::countl_zero(sum);
  return sign | static_cast<u32>(127 + top - point) << 23 | fraction(static_cast<u32>(sum << (63 - top) >> 40));
}

constexpr u32 lg2(u32 x) {
  const u32 e = exponent(x), low = x & 0x1ffff;
  if (e == 0) return sign_mask | infinity;
  if (x > infinity) return nan;
  if (x == infinity) return x;
  const Row row = lg2_rows[fraction(x) >> 17];
  if (x == 0x3f800000) return 0;
  u64 sum = (u64{row.c0} << 30) + (u64{row.c1} * low << 18) - row.c2 * square(low) + 0x10d160000;
  sum += (u64{e} - 127) << 56;
  if (e < 127) sum = 0 - sum;
  return normalized(sum & ~u64{0xfffff}, e < 127 ? sign_mask : 0);
}

constexpr u32 ex2(u32 x) {
  const u32 e = exponent(x), significand = fraction(x) | 0x800000;
  const bool negative = x >> 31;
  if (e == 255 && fraction(x)) return nan;
  if (e >= 127 + 8) return negative ? 0 : infinity;
  const u32 fixed = e >= 127       ? significand << (e - 127)
                    : e > 127 - 24 ? significand >> (127 - e)
                                   : 0;  // 23 bits behind the point
  const int whole = static_cast<int>(fixed >> 23);
  u32 within = fraction(fixed);
  const int power = negative ? -whole - (within != 0) : whole;
  if (negative && within != 0) within = fraction(~within);
  if (power > 127) return infinity;
  if (power < -126) return 0;
  const u32 low = within & 0x1ffff;
  const Row row = ex2_rows[within >> 17];
  const u64 sum = (u64{row.c0} << 32) + (u64{row.c1} * low << 19) + row.c2 * square(low) + 0x1bf100000;
  return static_cast<u32>(power + 127) << 23 | fraction(static_cast<u32>(sum >> 34));
}

// From 2^-8 to 8, each power of two in `1 << pieces` pieces; below it tanh is x, above it 1.
constexpr u32 tanh(u32 x) {
  constexpr u32 first = 127 - 8, count = 11;
  constexpr std::uint8_t pieces[count] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3};
  constexpr std::uint8_t begin[count] = {0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43};
  const u32 e = exponent(x), sign = x & sign_mask;
  if (e == 255 && fraction(x)) return nan;
  if (e < first) return x;
  if (e >= first + count) return sign | 0x3f800000;
  const u32 within = fraction(x) >> (6 - pieces[e - first]), low = within & 0x1ffff;
  const Row row = tanh_rows[begin[e - first] + (within >> 17)];
  const u64 sum = (u64{row.c0} << 33) + (u64{row.c1} * low << 18) - row.c2 * square(low);
  const int top = 63 - std::countl_zero(sum);  // 58 where the result has the exponent of x
  return sign | (e + static_cast<u32>(top) - 58) << 23 | fraction(static_cast<u32>(sum >> (top - 23)));
}

// Of `turns`, of which one is 2 pi.
constexpr u32 sine(u32 turns, bool cosine) {
  const u32 e = exponent(turns);
  if (e == 255) return nan;
  const u64 significand = e ? fraction(turns) | 0x800000 : 0;
  const int shift = static_cast<int>(e) - 125;  // to quarter turns with 23 bits behind the point
  const u64 fixed = shift >= 40 ? 0 : shift >= 0 ? significand << shift : shift > -24 ? significand >> -shift : 0;
  const u32 quarter = static_cast<u32>(fixed >> 23) & 3;
  const u32 sign = cosine ? (quarter + 1) >> 1 & 1 : turns >> 31 ^ quarter >> 1;
  const bool falls = cosine != ((quarter & 1) != 0);
  const u32 within = fraction(static_cast<u32>(falls ? ~fixed : fixed)), low = within & 0x1ffff;
  const Row row = sin_rows[within >> 17];
  return normalized((u64{row.c0} << 31) + (u64{row.c1} * low << 19) - row.c2 * square(low), sign << 31);
}

}  // namespace ptx::sim::special
