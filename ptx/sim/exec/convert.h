// Manual 9.7.9.21, 9.7.9.22: conversions. A source is brought to f64, which holds every format here exactly, and
// rounded once. .ftz is about f32 only: it flushes f32 sources and f32 results.
#pragma once

#include <cmath>
#include <limits>
#include <utility>

#include "ptx/sim/exec/integer.h"
#include "ptx/sim/exec/numeric.h"

namespace ptx::sim {

template <Floating T>
T flush_f32(T x, Mods m) {
  return flush(x, OneOf<T, f32> && m.ftz);
}
template <Floating T>
T finish_conversion(T d, Mods m) {
  m.ftz = m.ftz && OneOf<T, f32>;
  return finish(d, m);
}

// x to an integral value.
inline f64 integral(f64 x, Rounding r) {
  switch (r) {
    case Rounding::rz: return std::trunc(x);
    case Rounding::rm: return std::floor(x);
    case Rounding::rp: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}

// Float to integer: limited to D. NaN gives 0, or the lone top bit where f64 or 64 bits take part.
template <Integer D, Floating A>
D to_integer(A a, Mods m) {
  const f64 x = value(flush_f32(a, m));
  if (std::isnan(x)) return static_cast<D>(OneOf<A, f64> || sizeof(D) == 8 ? u64{1} << (bits_in<D> - 1) : 0);
  const f64 whole = integral(x, rounding(m));
  constexpr f64 least = static_cast<f64>(std::numeric_limits<D>::min()),
                beyond = 2.0 * (std::numeric_limits<D>::max() / 2 + 1);
  if (whole < least) return std::numeric_limits<D>::min();
  return whole >= beyond ? std::numeric_limits<D>::max() : static_cast<D>(whole);
}

// Integer to float. Above 2^53 an odd f64 stands for the integer, or it is rounded to f64 here.
template <Floating D, Integer A>
D from_integer(A a, Rounding r) {
  if constexpr (sizeof(A) < 8) {
    return rounded<D>(static_cast<f64>(a), r);
  } else {
    const bool negative = a < 0;
    const u64 size = negative ? u64{0} - static_cast<u64>(a) : static_cast<u64>(a);
    const int extra = std::max(11 - std::countl_zero(size), 0);
    const u64 rest = size & ((u64{1} << extra) - 1);
    u64 kept = size >> extra;
    if constexpr (OneOf<D, f64>) {
      kept += rounds_up(r, negative, kept & 1, rest, extra, 0, 0);
    } else {
      kept |= rest != 0;
    }
    const f64 x = static_cast<f64>(kept) * static_cast<f64>(u64{1} << extra);
    return rounded<D>(negative ? -x : x, r);
  }
}

// A NaN from or to f64 keeps its sign and the upper bits of its payload, quieted. .ftz takes a f32 through a
// multiplication first. A bf16 is the upper half of its f32, also as a NaN. Other NaNs are canonical afterwards.
template <Floating D, Floating A>
D converted_nan(A a, Mods m) {
  if (m.sat) return from_bits<D>(0);
  if constexpr (OneOf<A, bf16> && OneOf<D, f32>) {
    return m.ftz ? canonical_nan<f32>() : from_bits<f32>(u64{a.bits} << 16);
  } else if constexpr (OneOf<A, f64> || OneOf<D, f64>) {
    if (OneOf<A, f32> && m.ftz) a = canonical_nan<A>();
    constexpr int from = std::countr_zero(smallest_normal<A>), to = std::countr_zero(smallest_normal<D>);
    const u64 payload = bits_of(a) & (smallest_normal<A> - 1u);
    const u64 kept = to > from ? payload << (to - from) : payload >> (from - to);
    return quiet(from_bits<D>((is_negative(a) ? u64{sign_bit<D>} : 0) | infinity_bits<D> | kept));
  } else {
    return canonical_nan<D>();
  }
}

template <Floating D, Floating A>
D between_floats(A a, Mods m) {
  if (is_nan(a)) return converted_nan<D>(a, m);
  // To f16 the hardware does not flush, which .rm and .rp show.
  const f64 x = value(OneOf<D, f16> ? a : flush_f32(a, m));
  m.ftz = m.ftz && OneOf<D, f32>;
  return settle<D>(x, rounding(m), m);
}
template <Floating T>
T same_float(T a, Mods m) {  // with .rni and the like an integral value
  const bool to_integral = m.rni || m.rzi || m.rmi || m.rpi;
  if (is_nan(a)) return finish_conversion(to_integral ? quiet(a) : a, m);
  const f64 x = value(flush_f32(a, m));
  return finish_conversion(to_integral ? rounded<T>(integral(x, rounding(m))) : flush_f32(a, m), m);
}

// 9.7.9.21  cvt
constexpr auto sem_cvt_int = []<Integer D, Integer A>(A a, Mods m) -> D {
  if (m.sat && std::cmp_less(a, std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
  if (m.sat && std::cmp_greater(a, std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
  return static_cast<D>(a);
};
constexpr auto sem_cvt_int_float = []<Integer D, OneOf<f16, f64> A>(A a, Mods m) -> D { return to_integer<D>(a, m); };
constexpr auto sem_cvt_int_f32 = []<Integer D>(f32 a, Mods m) -> D { return to_integer<D>(a, m); };
constexpr auto sem_cvt_int_bf16 = []<Integer D>(bf16 a, Mods m) -> D { return to_integer<D>(a, m); };
constexpr auto sem_cvt_float_int = []<OneOf<f16, f64> D, Integer A>(A a, Mods m) -> D {
  return finish_conversion(from_integer<D>(a, rounding(m)), m);
};
constexpr auto sem_cvt_f32_int = []<Integer A>(A a, Mods m) -> f32 {
  return finish_conversion(from_integer<f32>(a, rounding(m)), m);
};
constexpr auto sem_cvt_bf16_int = []<Integer A>(A a, Mods m) -> bf16 { return from_integer<bf16>(a, rounding(m)); };
constexpr auto sem_cvt_f16_f16 = [](f16 a, Mods m) -> f16 { return same_float(a, m); };
constexpr auto sem_cvt_f32_f16 = [](f16 a, Mods m) -> f32 { return between_floats<f32>(a, m); };
constexpr auto sem_cvt_f64_f16 = [](f16 a, Mods m) -> f64 { return between_floats<f64>(a, m); };
constexpr auto sem_cvt_f16_f32 = [](f32 a, Mods m) -> f16 { return between_floats<f16>(a, m); };
constexpr auto sem_cvt_f32_f32 = [](f32 a, Mods m) -> f32 { return same_float(a, m); };
constexpr auto sem_cvt_f64_f32 = [](f32 a, Mods m) -> f64 { return between_floats<f64>(a, m); };
constexpr auto sem_cvt_f16_f64 = [](f64 a, Mods m) -> f16 { return between_floats<f16>(a, m); };
constexpr auto sem_cvt_f32_f64 = [](f64 a, Mods m) -> f32 { return between_floats<f32>(a, m); };
constexpr auto sem_cvt_f64_f64 = [](f64 a, Mods m) -> f64 { return same_float(a, m); };
constexpr auto sem_cvt_bf16_f32 = [](f32 a, Mods m) -> bf16 { return between_floats<bf16>(a, m); };
constexpr auto sem_cvt_f32_bf16 = [](bf16 a, Mods m) -> f32 { return between_floats<f32>(a, m); };
constexpr auto sem_cvt_bf16_f64 = [](f64 a, Mods m) -> bf16 { return between_floats<bf16>(a, m); };
constexpr auto sem_cvt_bf16_f16 = [](f16 a, Mods m) -> bf16 { return between_floats<bf16>(a, m); };
constexpr auto sem_cvt_f16_bf16 = [](bf16 a, Mods m) -> f16 { return between_floats<f16>(a, m); };
constexpr auto sem_cvt_f64_bf16 = [](bf16 a, Mods m) -> f64 { return between_floats<f64>(a, m); };
constexpr auto sem_cvt_bf16_bf16 = [](bf16 a, Mods m) -> bf16 { return same_float(a, m); };

// To a narrow format with .relu, .satfinite and .pzo.
inline u32 to_format(const Format& f, f64 x, bool finite, Mods m, u32 random = 0, int random_bits = 0) {
  const Rounding r = m.rs ? Rounding::rs : rounding(m);
  if (m.relu && std::signbit(x) && !std::isnan(x)) return 0;
  const u32 bits = narrow(f, x, r, finite, random, random_bits);
  return m.pzo && bits == 1u << f.sign_bit() ? 0 : bits;
}

constexpr auto sem_cvt_half_f32 = []<HalfElement D>(f32 a, Mods m) -> D {
  return from_bits<D>(to_format(format_of<D>, value(a), m.satfinite, m));
};

template <class T>
concept PairOfHalf = OneOf<T, Pack<f16, 2>, Pack<bf16, 2>>;

// a goes to the upper half, b to the lower.
constexpr auto sem_cvt_x2_f32 = []<PairOfHalf D>(f32 a, f32 b, Mods m) -> D {
  return {
    {sem_cvt_half_f32.template operator()<element_t<D>>(b, m), sem_cvt_half_f32.template operator()<element_t<D>>(a, m)}
  };
};

// The random bits of a are the upper half of rbits; f16 uses 13 of the 16.
constexpr auto sem_cvt_x2_f32_rs = []<PairOfHalf D>(f32 a, f32 b, u32 rbits, Mods m) -> D {
  using E = element_t<D>;
  constexpr int bits = OneOf<E, f16> ? 13 : 16;
  const auto convert = [m](f32 x, u32 random) {
    return from_bits<E>(to_format(format_of<E>, value(x), m.satfinite, m, random & ((1u << bits) - 1), bits));
  };
  return {{convert(b, rbits), convert(a, rbits >> 16)}};
};

// tf32 fills the upper 19 bits of its register.
constexpr auto sem_cvt_tf32 = [](f32 a, Mods m) -> u32 {
  return to_format(format::tf32, value(a), m.satfinite, m) << 13;
};
// .rna is integer arithmetic: half a unit is added to the bits of what is finite, and the rest is cut off, of a NaN,
// too.
constexpr auto sem_cvt_tf32_rna = [](f32 a, Mods m) -> u32 {
  const u32 bits = (is_nan(a) || is_infinite(a) ? bits_of(a) : bits_of(a) + 0x1000) & 0xffffe000;
  return m.satfinite && (bits & 0x7fffffff) >= infinity_bits<f32> ? bits - 0x2000 : bits;
};

// Two numbers in a register of f8, f6 or f4: the lower one in its lower half.
template <class T>
concept PairOfF8 = OneOf<T, Pack<e4m3, 2>, Pack<e5m2, 2>>;
template <class T>
concept PairOfF6F4 = OneOf<T, Pack<e2m3, 2>, Pack<e3m2, 2>, e2m1x2>;

// .satfinite always holds. Not inlined: some forty handlers would each have, and the compiler optimise, two copies.
template <class D>
[[gnu::noinline]] D narrow_pair(f64 low, f64 high, Mods m) {
  if constexpr (OneOf<D, e2m1x2>) {
    return {static_cast<u8>(to_format(format::e2m1, low, true, m) | to_format(format::e2m1, high, true, m) << 4)};
  } else {
    const auto convert = [m](f64 x) { return static_cast<u8>(to_format(format_of<element_t<D>>, x, true, m)); };
    return {{{convert(low)}, {convert(high)}}};
  }
}
template <class A>
f64 part(A a, int i) {  // number i of a pair
  if constexpr (OneOf<A, e2m1x2>) {
    return widen(format::e2m1, a.bits >> (4 * i) & 0xf);
  } else {
    return widen(format_of<element_t<A>>, a.at[i].bits);
  }
}
inline f64 power(u32 ue8m0) {  // the value of a scale factor
  return ue8m0 == 0xff ? std::numeric_limits<f64>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(ue8m0) - 127);
}

constexpr auto sem_cvt_f8x2_f32 = []<PairOfF8 D>(f32 a, f32 b, Mods m) -> D { return narrow_pair<D>(b, a, m); };
constexpr auto sem_cvt_f8x2_f16x2 = []<PairOfF8 D, PairOfHalf A>(A a, Mods m) -> D {
  return narrow_pair<D>(part(a, 0), part(a, 1), m);
};
constexpr auto sem_cvt_f16x2_f8x2 = []<PairOfF8 A>(A a, Mods m) -> Pack<f16, 2> {
  return {{finish(rounded<f16>(part(a, 0)), m), finish(rounded<f16>(part(a, 1)), m)}};
};
constexpr auto sem_cvt_f8x2_f32_sm_90 = sem_cvt_f8x2_f32;
constexpr auto sem_cvt_f8x2_f16x2_sm_90 = sem_cvt_f8x2_f16x2;
constexpr auto sem_cvt_f16x2_f8x2_sm_90 = sem_cvt_f16x2_f8x2;
constexpr auto sem_cvt_f6f4x2_f32 = []<PairOfF6F4 D>(f32 a, f32 b, Mods m) -> D { return narrow_pair<D>(b, a, m); };
constexpr auto sem_cvt_f6f4x2_f16x2 = []<PairOfF6F4 D, PairOfHalf A>(A a, Mods m) -> D {
  return narrow_pair<D>(part(a, 0), part(a, 1), m);
};
constexpr auto sem_cvt_f16x2_f6f4x2 = []<PairOfF6F4 A>(A a, Mods m) -> Pack<f16, 2> {
  return {{finish(rounded<f16>(part(a, 0)), m), finish(rounded<f16>(part(a, 1)), m)}};
};

// scaled::n2: converted, then multiplied by the scale of its half.
constexpr auto sem_cvt_bf16x2_f8f6f4x2 = []<class A>(A a, u16 scale, Mods m) -> Pack<bf16, 2>
  requires PairOfF8<A> || PairOfF6F4<A>
{
  const u32 factors = m.scaled_n2 ? scale : 0x7f7f;
  const auto convert = [&](int i) {
    return from_bits<bf16>(to_format(format::bf16, part(a, i) * power(factors >> (8 * i) & 0xff), m.satfinite, m));
  };
  return {{convert(0), convert(1)}};
};

// scaled::n1: subnormals are zero, then divided by the one scale.
template <Floating T>
f64 divided(T x, u8 scale, Mods m) {
  return m.scaled_n1 ? value(flush(x, true)) / power(scale) : value(x);
}
constexpr auto sem_cvt_x2_f32_107 = []<class D>(f32 a, f32 b, u8 scale, Mods m) -> D
  requires PairOfF8<D> || PairOfF6F4<D>
{ return narrow_pair<D>(divided(b, scale, m), divided(a, scale, m), m); };
constexpr auto sem_cvt_x2_f16x2_107 = []<class D, PairOfHalf A>(A a, u8 scale, Mods m) -> D
  requires PairOfF8<D> || PairOfF6F4<D>
{ return narrow_pair<D>(divided(a.at[0], scale, m), divided(a.at[1], scale, m), m); };

// ue8m0 is an exponent: 2^(bits - 127), 0xff is NaN.
inline u8 to_ue8m0(f64 x, Mods m) {
  if (std::isnan(x)) return 0xff;
  x = std::fabs(x);
  if (x <= 0x1p-127) return 0;
  if (std::isinf(x)) return m.satfinite ? 0xfe : 0xff;
  const int exponent = std::ilogb(x);
  const int bits = exponent + 127 + (m.rp && x != std::ldexp(1.0, exponent));
  return bits > 0xfe && m.satfinite ? 0xfe : static_cast<u8>(bits);
}
constexpr auto sem_cvt_ue8m0x2_f32 = [](f32 a, f32 b, Mods m) -> Pack<ue8m0, 2> {
  return {{{to_ue8m0(b, m)}, {to_ue8m0(a, m)}}};
};
constexpr auto sem_cvt_ue8m0x2_bf16x2 = [](Pack<bf16, 2> a, Mods m) -> Pack<ue8m0, 2> {
  return {{{to_ue8m0(part(a, 0), m)}, {to_ue8m0(part(a, 1), m)}}};
};
constexpr auto sem_cvt_bf16x2_ue8m0x2 = [](Pack<ue8m0, 2> a) -> Pack<bf16, 2> {
  return {{rounded<bf16>(power(a.at[0].bits)), rounded<bf16>(power(a.at[1].bits))}};
};

// s2f6 is a signed number of 64ths. Scale factors divide what becomes one, and multiply what is made of one.
inline s2f6 to_s2f6(f64 x, u32 scale, Mods m) {
  if (std::isnan(x)) return {0x7f};
  const f64 parts = integral(x / power(scale) * 64, m.rz ? Rounding::rz : Rounding::rn);
  if (std::isnan(parts)) return {0x7f};
  return {static_cast<u8>(static_cast<s8>(std::clamp(parts, m.relu ? 0.0 : -128.0, 127.0)))};
}
inline u32 scale_of(u16 factors, int i, Mods m) { return m.scaled_n2 ? factors >> (8 * i) & 0xff : 0x7f; }
constexpr auto sem_cvt_s2f6x2_f32 = [](f32 a, f32 b, u16 scale, Mods m) -> Pack<s2f6, 2> {
  return {{to_s2f6(b, scale_of(scale, 0, m), m), to_s2f6(a, scale_of(scale, 1, m), m)}};
};
constexpr auto sem_cvt_s2f6x2_bf16x2 = [](Pack<bf16, 2> a, u16 scale, Mods m) -> Pack<s2f6, 2> {
  return {{to_s2f6(part(a, 0), scale_of(scale, 0, m), m), to_s2f6(part(a, 1), scale_of(scale, 1, m), m)}};
};
// x, an element of a pair, to .bf16, times its scale factor.
inline bf16 scaled_bf16(f64 x, u16 scale, int i, Mods m) {
  return from_bits<bf16>(to_format(format::bf16, x * power(scale_of(scale, i, m)), m.satfinite, m));
}
constexpr auto sem_cvt_bf16x2_s2f6x2 = [](Pack<s2f6, 2> a, u16 scale, Mods m) -> Pack<bf16, 2> {
  const auto convert = [&](int i) { return scaled_bf16(static_cast<s8>(a.at[i].bits) / 64.0, scale, i, m); };
  return {{convert(0), convert(1)}};
};
constexpr auto sem_cvt_f16x2_ue5m3x2 = [](Pack<ue5m3, 2> a) -> Pack<f16, 2> {
  return {{rounded<f16>(widen(format::ue5m3, a.at[0].bits)), rounded<f16>(widen(format::ue5m3, a.at[1].bits))}};
};
constexpr auto sem_cvt_bf16x2_ue5m3x2 = [](Pack<ue5m3, 2> a, u16 scale, Mods m) -> Pack<bf16, 2> {
  const auto convert = [&](int i) { return scaled_bf16(widen(format::ue5m3, a.at[i].bits), scale, i, m); };
  return {{convert(0), convert(1)}};
};

// 9.7.9.22  cvt.pack: a above b; with c, above both its lower bits
template <class D>
u32 saturated(s32 x) {
  return static_cast<std::make_unsigned_t<D>>(clamp_to<D>(s64{x}));
}
constexpr auto sem_cvt_pack = []<OneOf<u16, s16> D>(s32 a, s32 b) -> u32 {
  return saturated<D>(a) << 16 | saturated<D>(b);
};

constexpr auto sem_cvt_pack_c = [](s32 a, s32 b, u32 c, Mods m) -> u32 {
  const int bits = m.u2 || m.s2 ? 2 : m.u4 || m.s4 ? 4 : 8;
  const bool is_signed = m.s2 || m.s4 || m.s8;
  const s32 least = is_signed ? -(1 << (bits - 1)) : 0, largest = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
  const u32 mask = (1u << bits) - 1;
  const auto field = [&](s32 x) { return static_cast<u32>(std::clamp(x, least, largest)) & mask; };
  return c << (2 * bits) | field(a) << bits | field(b);
};

}  // namespace ptx::sim
