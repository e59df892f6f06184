// Arithmetic that several chapters share: floats by their bits, ftz, sat and relu, the exact operations, comparison.
// NaNs are those that the hardware makes: 0x7fffffff, 0x7fff; f64 passes on the NaN of an operand, quieted, and which
// one depends on the operation alone.
#pragma once

#include <bit>
#include <cmath>

#include "ptx/sim/exec/lane.h"
#include "ptx/sim/exec/rounding.h"

namespace ptx::sim {

template <class T>
concept HalfElement = OneOf<T, f16, bf16>;
template <class T>
concept Floating = Real<T> || HalfElement<T>;

inline Rounding rounding(Mods m) {
  return m.rz || m.rzi   ? Rounding::rz
         : m.rm || m.rmi ? Rounding::rm
         : m.rp || m.rpi ? Rounding::rp
         : m.rna         ? Rounding::rna
                         : Rounding::rn;
}

template <class T>
inline constexpr Format format_of{};
// clang-format off
template <> inline constexpr Format format_of<f16> = format::f16;
template <> inline constexpr Format format_of<bf16> = format::bf16;
template <> inline constexpr Format format_of<e4m3> = format::e4m3;
template <> inline constexpr Format format_of<e5m2> = format::e5m2;
template <> inline constexpr Format format_of<e3m2> = format::e3m2;
template <> inline constexpr Format format_of<e2m3> = format::e2m3;
// clang-format on

// Floats by their bits.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, u64, std::conditional_t<sizeof(T) == 4, u32, u16>>;
template <Floating T>
constexpr Bits<T> bits_of(T x) {
  return std::bit_cast<Bits<T>>(x);
}
template <Floating T>
constexpr T from_bits(u64 bits) {
  return std::bit_cast<T>(static_cast<Bits<T>>(bits));
}
template <Floating T>
inline constexpr Bits<T> sign_bit = static_cast<Bits<T>>(u64{1} << (sizeof(T) * 8 - 1));
template <Floating T>
inline constexpr Bits<T> infinity_bits = static_cast<Bits<T>>(OneOf<T, f64>   ? 0x7ff0000000000000
                                                              : OneOf<T, f32> ? 0x7f800000
                                                              : OneOf<T, f16> ? 0x7c00
                                                                              : 0x7f80);
template <Floating T>
inline constexpr Bits<T> smallest_normal =
    static_cast<Bits<T>>(infinity_bits<T> & (~infinity_bits<T> + 1));  // the exponent's lowest bit
template <Floating T>
inline constexpr Bits<T> nan_bits = static_cast<Bits<T>>(OneOf<T, f64> ? 0xfff8000000000000 : sign_bit<T> - 1);

template <Floating T>
constexpr T magnitude(T x) {
  return from_bits<T>(bits_of(x) & ~u64{sign_bit<T>});
}
template <Floating T>
constexpr T negate(T x) {
  return from_bits<T>(bits_of(x) ^ sign_bit<T>);
}
template <Floating T>
constexpr bool is_negative(T x) {
  return (bits_of(x) & sign_bit<T>) != 0;
}
template <Floating T>
constexpr bool is_nan(T x) {
  return bits_of(magnitude(x)) > infinity_bits<T>;
}
template <Floating T>
constexpr bool is_infinite(T x) {
  return bits_of(magnitude(x)) == infinity_bits<T>;
}
template <Floating T>
constexpr bool is_subnormal(T x) {
  return bits_of(magnitude(x)) != 0 && bits_of(magnitude(x)) < smallest_normal<T>;
}
template <Floating T>
constexpr T signed_zero(T x) {
  return from_bits<T>(bits_of(x) & sign_bit<T>);
}
template <Floating T>
constexpr T canonical_nan() {
  return from_bits<T>(nan_bits<T>);
}
template <Floating T>
constexpr T quiet(T nan) {
  return from_bits<T>(bits_of(nan) | smallest_normal<T> >> 1);
}
template <Floating T>
constexpr T one() {
  return from_bits<T>(OneOf<T, f64>   ? 0x3ff0000000000000
                      : OneOf<T, f32> ? 0x3f800000
                      : OneOf<T, f16> ? 0x3c00
                                      : 0x3f80);
}

// .ftz: subnormals to zero of their sign.
template <Floating T>
constexpr T flush(T x, bool ftz) {
  return ftz && bits_of(magnitude(x)) < smallest_normal<T> ? signed_zero(x) : x;
}

template <Floating T>
constexpr f64 value(T x) {
  if constexpr (HalfElement<T>) {
    return widen(format_of<T>, x.bits);
  } else {
    return static_cast<f64>(x);
  }
}

// An exact or odd f64, rounded.
template <Floating T>
T rounded(f64 x, Rounding r = Rounding::rn) {
  if constexpr (HalfElement<T>) {
    return T{static_cast<u16>(narrow(format_of<T>, x, r, false))};
  } else if constexpr (OneOf<T, f64>) {
    return x;
  } else {
    switch (r) {
      case Rounding::rz: return to_f32<Rounding::rz>(x);
      case Rounding::rm: return to_f32<Rounding::rm>(x);
      case Rounding::rp: return to_f32<Rounding::rp>(x);
      default: return to_f32<Rounding::rn>(x);
    }
  }
}

// What becomes of a result: .ftz, .sat to 0..1 with NaN to +0, .relu, and the NaN that the hardware writes. Inlined:
// g++ calls it otherwise, once a lane, where several chapters are compiled together.
template <Floating T>
[[gnu::always_inline]] inline T finish(T d, Mods m) {
  if (is_nan(d)) return m.sat ? from_bits<T>(0) : OneOf<T, f64> ? d : canonical_nan<T>();
  d = flush(d, m.ftz);
  if ((m.sat || m.relu) && is_negative(d)) return from_bits<T>(0);
  return m.sat && bits_of(d) > bits_of(one<T>()) ? one<T>() : d;
}

// Is `exact`, rounded with an exponent without limits, below the smallest normal number? .ftz flushes such results,
// also those that T would round up to it. Twice as much is rounded in T as if there were no limit.
template <Floating T>
bool tiny(f64 exact, Rounding r) {
  return value(magnitude(rounded<T>(2 * exact, r))) < 2 * value(from_bits<T>(smallest_normal<T>));
}
// A result, exact or odd, as the instruction writes it.
template <Floating T>
T settle(f64 exact, Rounding r, Mods m) {
  const T d = rounded<T>(exact, r);
  return finish(m.ftz && tiny<T>(exact, r) ? signed_zero(d) : d, m);
}

// A result of f64: the first of the operands that is a NaN, else d.
template <class... Operands>
constexpr f64 with_nan(f64 d, Operands... operands) {
  if (!is_nan(d)) return d;
  d = canonical_nan<f64>();
  (void)((is_nan(operands) && (d = quiet(operands), true)) || ...);
  return d;
}

// The exact operations, rounded once. f32 to nearest is what the machine does; the rest goes by way of an odd f64.
// mul, fma and div do what .ftz and the like say of operands and result. A sum that is not normal is exact.
template <Floating T>
T add(T a, T b, Rounding r) {
  if constexpr (OneOf<T, f64>) {
    return with_nan(in_f64([](f64 x, f64 y, f64) { return x + y; }, r, a, b), b, a);
  } else {
    if constexpr (OneOf<T, f32>) {
      if (r == Rounding::rn) return a + b;
    }
    return rounded<T>(zero_sum(add_odd(value(a), value(b)), value(a), value(b), r), r);
  }
}
template <Floating T>
T mul(T a, T b, Rounding r, Mods m) {
  if constexpr (OneOf<T, f64>) {
    return with_nan(in_f64([](f64 x, f64 y, f64) { return x * y; }, r, a, b), b, a);
  } else {
    if constexpr (OneOf<T, f32>) {
      if (r == Rounding::rn && !m.ftz) return finish(a * b, m);
    }
    return settle<T>(value(flush(a, m.ftz)) * value(flush(b, m.ftz)), r, m);
  }
}
// a and b of T or narrower than c.
template <Floating T, Floating A = T>
T fma(A a, A b, T c, Rounding r, Mods m) {
  if constexpr (OneOf<T, f64>) {
    return with_nan(in_f64([](f64 x, f64 y, f64 z) { return std::fma(x, y, z); }, r, a, b, c), b, c, a);
  } else {
    const f64 product = value(flush(a, m.ftz)) * value(flush(b, m.ftz)), addend = value(flush(c, m.ftz));
    return settle<T>(zero_sum(add_odd(product, addend), product, addend, r), r, m);
  }
}
template <Real T>
T div(T a, T b, Rounding r, Mods m) {
  if constexpr (OneOf<T, f64>) {
    return with_nan(in_f64([](f64 x, f64 y, f64) { return x / y; }, r, a, b), a, b);
  } else {
    return settle<T>(div_odd(flush(a, m.ftz), flush(b, m.ftz)), r, m);
  }
}
template <Real T>
T sqrt(T a, Rounding r) {
  if constexpr (OneOf<T, f64>) return with_nan(in_f64([](f64 x, f64, f64) { return std::sqrt(x); }, r, a), a);
  return rounded<T>(sqrt_odd(a), r);
}

// min and max (9.7.3.11): -0 < +0; one NaN gives the other operand, with .NaN and for two of them NaN.
template <Floating T>
constexpr bool less(T a, T b) {
  const auto key = [](T x) {
    return is_negative(x) ? static_cast<Bits<T>>(~bits_of(x)) : static_cast<Bits<T>>(bits_of(x) | sign_bit<T>);
  };
  return key(a) < key(b);
}
template <Floating T>
T extreme(T a, T b, bool least, Mods m) {
  a = flush(a, m.ftz), b = flush(b, m.ftz);
  const bool sign = is_negative(a) != is_negative(b);
  if (m.abs) a = magnitude(a), b = magnitude(b);
  if (is_nan(a) && is_nan(b)) return OneOf<T, f64> ? quiet(b) : canonical_nan<T>();
  if (is_nan(a) || is_nan(b)) {
    if (m.NaN) return canonical_nan<T>();
    a = b = is_nan(a) ? b : a;
  }
  const T d = less(a, b) == least ? a : b;
  return m.xorsign ? from_bits<T>(bits_of(magnitude(d)) | (sign ? sign_bit<T> : 0)) : d;
}

// Comparison (9.3.1): which of less, equal, greater and unordered (a NaN) make it true. There is no branch on the
// modifiers here, so that 32 lanes become vector code.
struct Accepted {
  bool less, equal, greater, unordered;
};
inline Accepted accepted(Mods m) {
  const bool lt = m.lt | m.ltu | m.lo, gt = m.gt | m.gtu | m.hi, ne = m.ne | m.neu;
  const bool le = m.le | m.leu | m.ls, ge = m.ge | m.geu | m.hs, eq = m.eq | m.equ;
  const bool unordered = m.equ | m.neu | m.ltu | m.leu | m.gtu | m.geu | m.nan;
  return {bool(lt | le | ne | m.num), bool(eq | le | ge | m.num), bool(gt | ge | ne | m.num), unordered};
}
template <class T>
bool compare(T a, T b, Mods m) {
  const Accepted want = accepted(m);
  if constexpr (HalfElement<T>) {
    const f64 x = value(flush(a, m.ftz)), y = value(flush(b, m.ftz));
    return (x < y && want.less) | (x == y && want.equal) | (x > y && want.greater) |
           ((x != x || y != y) && want.unordered);
  } else if constexpr (Floating<T>) {
    const T x = flush(a, m.ftz), y = flush(b, m.ftz);
    return ((x < y) & want.less) | ((x == y) & want.equal) | ((x > y) & want.greater) |
           (((x != x) | (y != y)) & want.unordered);
  } else {
    return ((a < b) & want.less) | ((a == b) & want.equal) | ((a > b) & want.greater);
  }
}
inline bool combine(bool t, bool c, Mods m) { return ((t & (c | !m.and_)) | (c & m.or_)) ^ (c & m.xor_); }

}  // namespace ptx::sim
