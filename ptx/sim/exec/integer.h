// Manual 9.7.1: integer arithmetic. Everything wraps in the unsigned type of the operands' width, which C++ defines.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include "ptx/sim/exec/lane.h"

namespace ptx::sim {

template <class T>
using unsigned_t = std::make_unsigned_t<T>;
template <class T>
inline constexpr int bits_in = static_cast<int>(sizeof(T) * 8);

template <Integer T>
constexpr T wrap_add(T a, T b) {
  return static_cast<T>(static_cast<unsigned_t<T>>(a) + static_cast<unsigned_t<T>>(b));
}
template <Integer T>
constexpr T wrap_sub(T a, T b) {
  return static_cast<T>(static_cast<unsigned_t<T>>(a) - static_cast<unsigned_t<T>>(b));
}
// The product in twice the width; wide_t has no overflow.
template <Integer T>
constexpr wide_t<T> full_product(T a, T b) {
  return static_cast<wide_t<T>>(a) * static_cast<wide_t<T>>(b);
}
template <Integer T>
constexpr T half_of(wide_t<T> t, bool high) {
  return static_cast<T>(high ? t >> bits_in<T> : t);
}
template <Integer T, class W>
constexpr T clamp_to(W x) {
  return static_cast<T>(std::clamp<W>(x, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

// 9.7.1.1  add
constexpr auto sem_add_int = []<class T>(T a, T b) -> T
  requires Integer<T> || PackedInteger<T>
{ return each<element_t<T>>([](auto x, auto y) { return wrap_add(x, y); }, a, b); };

constexpr auto sem_add_sat = []<class T>(T a, T b) -> T
  requires OneOf<T, s32, u32> || PackedInteger<T>
{ return each<element_t<T>>([](auto x, auto y) { return clamp_to<decltype(x)>(s64{x} + s64{y}); }, a, b); };

// 9.7.1.2  sub
constexpr auto sem_sub_int = []<class T>(T a, T b) -> T
  requires Integer<T> || PackedInteger<T>
{ return each<element_t<T>>([](auto x, auto y) { return wrap_sub(x, y); }, a, b); };

constexpr auto sem_sub_sat = []<class T>(T a, T b) -> T
  requires OneOf<T, s32> || PackedInteger<T>
{ return each<element_t<T>>([](auto x, auto y) { return clamp_to<decltype(x)>(s64{x} - s64{y}); }, a, b); };

// 9.7.1.3  mul
template <class T>
concept Multiplied = OneOf<T, u16, u32, u64, s16, s32, s64>;

constexpr auto sem_mul_int = []<Multiplied T>(T a, T b, Mods m) -> T { return half_of<T>(full_product(a, b), m.hi); };

constexpr auto sem_mul_wide = []<OneOf<u16, u32, s16, s32> T>(T a, T b) -> wide_t<T> { return full_product(a, b); };

// 9.7.1.4  mad
constexpr auto sem_mad_int = []<Multiplied T>(T a, T b, T c, Mods m) -> T {
  return wrap_add(half_of<T>(full_product(a, b), m.hi), c);
};

constexpr auto sem_mad_wide = []<OneOf<u16, u32, s16, s32> T>(T a, T b, wide_t<T> c) -> wide_t<T> {
  return wrap_add(full_product(a, b), c);
};

constexpr auto sem_mad_hi_sat = [](s32 a, s32 b, s32 c) -> s32 {
  return clamp_to<s32>(s64{half_of<s32>(full_product(a, b), true)} + c);
};

// 9.7.1.5  clmad
constexpr auto sem_clmad = [](u64 a, u64 b, u64 c, Mods m) -> u64 {
  u64 low = 0, high = 0;
  for (int i = 0; i < 64; ++i) {
    const u64 bit = -(b >> i & 1);
    low ^= a << i & bit;
    high ^= (i ? a >> (64 - i) : 0) & bit;
  }
  return (m.hi ? high : low) ^ c;
};

// 9.7.1.5  mul24
template <OneOf<u32, s32> T>
constexpr T product_24(T a, T b, bool high) {  // bits 47..16 or 31..0 of the 48
  const auto low_24 = [](T x) { return static_cast<s64>(static_cast<T>(static_cast<u32>(x) << 8) >> 8); };
  const s64 t = low_24(a) * low_24(b);
  return static_cast<T>(high ? t >> 16 : t);
}
constexpr auto sem_mul24 = []<OneOf<u32, s32> T>(T a, T b, Mods m) -> T { return product_24(a, b, m.hi); };

// 9.7.1.6  mad24
constexpr auto sem_mad24 = []<OneOf<u32, s32> T>(T a, T b, T c, Mods m) -> T {
  return wrap_add(product_24(a, b, m.hi), c);
};

constexpr auto sem_mad24_hi_sat = [](s32 a, s32 b, s32 c) -> s32 {
  return clamp_to<s32>(s64{product_24(a, b, true)} + c);
};

// 9.7.1.7  sad
constexpr auto sem_sad = []<Multiplied T>(T a, T b, T c) -> T {
  return wrap_add(c, a < b ? wrap_sub(b, a) : wrap_sub(a, b));
};

// 9.7.1.8  div: by zero the manual leaves the value open; the hardware gives all ones
constexpr auto sem_div_int = []<Multiplied T>(T a, T b) -> T {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (Signed<T>) {
    if (b == -1) return wrap_sub(T{0}, a);
  }
  return static_cast<T>(a / b);
};

// 9.7.1.9  rem: by zero as above
constexpr auto sem_rem = []<Multiplied T>(T a, T b) -> T {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (Signed<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
};

// 9.7.1.10  abs
constexpr auto sem_abs_int = []<OneOf<s16, s32, s64> T>(T a) -> T { return a < 0 ? wrap_sub(T{0}, a) : a; };

// 9.7.1.11  neg
constexpr auto sem_neg_int = []<class T>(T a) -> T
  requires OneOf<T, s16, s32, s64, Pack<s8, 4>>
{ return each<element_t<T>>([](auto x) { return wrap_sub(decltype(x){0}, x); }, a); };

// 9.7.1.12  min
constexpr auto sem_min_int = []<class T>(T a, T b) -> T
  requires Multiplied<T> || PackedInteger<T>
{ return each<element_t<T>>([](auto x, auto y) { return x < y ? x : y; }, a, b); };

constexpr auto sem_min_relu = []<class T>(T a, T b) -> T
  requires OneOf<T, s32, Pack<s16, 2>, Pack<s8, 4>>
{ return each<element_t<T>>([](auto x, auto y) { return std::max<decltype(x)>(x < y ? x : y, 0); }, a, b); };

// 9.7.1.13  max
constexpr auto sem_max_int = []<class T>(T a, T b) -> T
  requires Multiplied<T> || PackedInteger<T>
{ return each<element_t<T>>([](auto x, auto y) { return x > y ? x : y; }, a, b); };

constexpr auto sem_max_relu = []<class T>(T a, T b) -> T
  requires OneOf<T, s32, Pack<s16, 2>, Pack<s8, 4>>
{ return each<element_t<T>>([](auto x, auto y) { return std::max<decltype(x)>(x > y ? x : y, 0); }, a, b); };

// 9.7.1.14  popc
constexpr auto sem_popc = []<OneOf<u32, u64> T>(T a) -> u32 { return static_cast<u32>(std::popcount(a)); };

// 9.7.1.15  clz
constexpr auto sem_clz = []<OneOf<u32, u64> T>(T a) -> u32 { return static_cast<u32>(std::countl_zero(a)); };

// 9.7.1.16  bfind
constexpr auto sem_bfind = []<OneOf<u32, u64, s32, s64> T>(T a, Mods m) -> u32 {
  const auto x = static_cast<unsigned_t<T>>(a < 0 ? ~a : a);
  const u32 above = static_cast<u32>(std::countl_zero(x));
  if (x == 0) return 0xffffffff;
  return m.shiftamt ? above : bits_in<T> - 1 - above;
};

// 9.7.1.17  fns: the hardware negates the offset, and the least one stays negative
constexpr auto sem_fns = [](u32 mask, u32 base, s32 offset) -> u32 {
  if (offset == std::numeric_limits<s32>::min()) return 0;
  if (base > 31) return 0xffffffff;
  if (offset == 0) return mask >> base & 1 ? base : 0xffffffff;
  u32 count = (offset < 0 ? -static_cast<u32>(offset) : static_cast<u32>(offset)) - 1;
  for (s32 pos = static_cast<s32>(base); pos >= 0 && pos < 32; pos += offset > 0 ? 1 : -1) {
    if ((mask >> pos & 1) && count-- == 0) return static_cast<u32>(pos);
  }
  return 0xffffffff;
};

// 9.7.1.18  brev
constexpr auto sem_brev = []<OneOf<u32, u64> T>(T a) -> T {
  T d = 0;
  for (int i = 0; i < bits_in<T>; ++i) d |= (a >> i & 1) << (bits_in<T> - 1 - i);
  return d;
};

// Positions and lengths of bit fields: 8 bits for operands of 32 bits; for those of 64 bits, where the hardware has
// shifts instead of an instruction, all 32 bits, limited to the width.
template <class T>
constexpr u32 field_bits(u32 x) {
  return sizeof(T) == 8 ? std::min(x, 64u) : x & 0xff;
}

// 9.7.1.19  bfe
constexpr auto sem_bfe = []<OneOf<u32, u64, s32, s64> T>(T a, u32 b, u32 c) -> T {
  constexpr u32 msb = bits_in<T> - 1;
  const u32 pos = field_bits<T>(b), len = field_bits<T>(c);
  if (len == 0) return 0;
  const auto bits = static_cast<unsigned_t<T>>(a);
  const bool sbit = Signed<T> && (bits >> std::min(pos + len - 1, msb) & 1);
  const auto field = static_cast<unsigned_t<T>>(pos > msb ? 0 : bits >> pos);
  const u32 taken = pos > msb ? 0 : std::min(len, msb + 1 - pos);  // bits that come from a
  if (taken > msb) return static_cast<T>(field);
  const auto above = static_cast<unsigned_t<T>>(~unsigned_t<T>{0} << taken);
  return static_cast<T>((field & static_cast<unsigned_t<T>>(~above)) | (sbit ? above : 0));
};

// 9.7.1.20  bfi
constexpr auto sem_bfi = []<OneOf<u32, u64> T>(T a, T b, u32 c, u32 d) -> T {
  const u32 pos = field_bits<T>(c), len = field_bits<T>(d);
  if (pos >= bits_in<T> || len == 0) return b;
  const T mask = (len >= bits_in<T> ? ~T{0} : (T{1} << len) - 1) << pos;
  return (b & ~mask) | (a << pos & mask);
};

// 9.7.1.21  szext
constexpr auto sem_szext = []<OneOf<u32, s32> T>(T a, u32 b, Mods m) -> T {
  const u32 n = b & 0x1f, bits = static_cast<u32>(a);
  if (b >= 32 && m.clamp) return a;
  const u32 mask = ~0u << n;
  const bool sign = Signed<T> && n != 0 && (bits >> (n - 1) & 1);
  return static_cast<T>((bits & ~mask) | (sign ? mask : 0));
};

// 9.7.1.22  bmsk
constexpr auto sem_bmsk = [](u32 a, u32 b, Mods m) -> u32 {
  if (m.clamp && a >= 32) return 0;
  const u32 start = a & 0x1f, width = m.clamp ? std::min(b, 32u) : b & 0x1f;
  return static_cast<u32>(((u64{1} << width) - 1) << start);
};

// 9.7.1.23  dp4a
template <class E>
constexpr s64 element(u32 bits, int i) {  // the i-th E of a register
  return static_cast<E>(bits >> (i * bits_in<E>));
}
template <class T>
using byte_t = std::conditional_t<Signed<T>, s8, u8>;
template <class T>
using short_t = std::conditional_t<Signed<T>, s16, u16>;

constexpr auto sem_dp4a = []<OneOf<u32, s32> A, OneOf<u32, s32> B>(u32 a, u32 b, u32 c) -> u32 {
  s64 d = c;
  for (int i = 0; i < 4; ++i) d += element<byte_t<A>>(a, i) * element<byte_t<B>>(b, i);
  return static_cast<u32>(d);
};

// 9.7.1.24  dp2a
constexpr auto sem_dp2a = []<OneOf<u32, s32> A, OneOf<u32, s32> B>(u32 a, u32 b, u32 c, Mods m) -> u32 {
  s64 d = c;
  for (int i = 0; i < 2; ++i) d += element<short_t<A>>(a, i) * element<byte_t<B>>(b, (m.hi ? 2 : 0) + i);
  return static_cast<u32>(d);
};

}  // namespace ptx::sim
