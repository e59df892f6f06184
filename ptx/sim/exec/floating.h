// Manual 9.7.3: f32 and f64. What is marked .approx or .full is the special function unit's result, with what the
// assembler does around the unit where subnormals count (9.7.3 has their bounds alone).
#pragma once

#include <cmath>

#include "ptx/sim/exec/numeric.h"
#include "ptx/sim/numerics/special_functions.h"

namespace ptx::sim {

// 9.7.3.1  testp: zeros count as normal
constexpr auto sem_testp = []<Real T>(T a, Mods m) -> bool {
  if (m.finite) return !is_nan(a) && !is_infinite(a);
  if (m.infinite) return is_infinite(a);
  if (m.number) return !is_nan(a);
  if (m.notanumber) return is_nan(a);
  if (m.normal) return !is_nan(a) && !is_infinite(a) && !is_subnormal(a);
  return is_subnormal(a);
};

// 9.7.3.2  copysign: the sign of a, the value of b
constexpr auto sem_copysign = []<Real T>(T a, T b) -> T {
  return from_bits<T>(bits_of(magnitude(b)) | bits_of(signed_zero(a)));
};

// 9.7.3.3  add
constexpr auto add_f32 = [](f32 a, f32 b, Mods m) -> f32 {
  return finish(add(flush(a, m.ftz), flush(b, m.ftz), rounding(m)), m);
};

constexpr auto sem_add_f32 = add_f32;
constexpr auto sem_add_f32x2 = [](Pack<f32, 2> a, Pack<f32, 2> b, Mods m) -> Pack<f32, 2> {
  return each<f32>([m](f32 x, f32 y) { return add_f32(x, y, m); }, a, b);
};
constexpr auto sem_add_f64 = [](f64 a, f64 b, Mods m) -> f64 { return add(a, b, rounding(m)); };

// 9.7.3.4  sub
constexpr auto sem_sub_f32 = [](f32 a, f32 b, Mods m) -> f32 { return add_f32(a, negate(b), m); };
constexpr auto sem_sub_f32x2 = [](Pack<f32, 2> a, Pack<f32, 2> b, Mods m) -> Pack<f32, 2> {
  return each<f32>([m](f32 x, f32 y) { return add_f32(x, negate(y), m); }, a, b);
};
constexpr auto sem_sub_f64 = [](f64 a, f64 b, Mods m) -> f64 { return add(a, is_nan(b) ? b : -b, rounding(m)); };

// 9.7.3.5  mul
constexpr auto mul_f32 = [](f32 a, f32 b, Mods m) -> f32 { return mul(a, b, rounding(m), m); };

constexpr auto sem_mul_f32 = mul_f32;
constexpr auto sem_mul_f32x2 = [](Pack<f32, 2> a, Pack<f32, 2> b, Mods m) -> Pack<f32, 2> {
  return each<f32>([m](f32 x, f32 y) { return mul_f32(x, y, m); }, a, b);
};
constexpr auto sem_mul_f64 = [](f64 a, f64 b, Mods m) -> f64 { return mul(a, b, rounding(m), m); };

// 9.7.3.6  fma
constexpr auto fma_f32 = [](f32 a, f32 b, f32 c, Mods m) -> f32 { return fma(a, b, c, rounding(m), m); };

constexpr auto sem_fma_f32 = fma_f32;
constexpr auto sem_fma_f32x2 = [](Pack<f32, 2> a, Pack<f32, 2> b, Pack<f32, 2> c, Mods m) -> Pack<f32, 2> {
  return each<f32>([m](f32 x, f32 y, f32 z) { return fma_f32(x, y, z, m); }, a, b, c);
};
constexpr auto sem_fma_f64 = [](f64 a, f64 b, f64 c, Mods m) -> f64 { return fma(a, b, c, rounding(m), m); };

// 9.7.3.7  mad: from sm_20 on it is fma
constexpr auto sem_mad_f32 = sem_fma_f32;
constexpr auto sem_mad_f64 = sem_fma_f64;

// 9.7.3.8  div
constexpr auto div_f32 = [](f32 a, f32 b, Mods m) -> f32 { return div(a, b, rounding(m), m); };

// The unit on a number times a power of two where that keeps it and its result normal, and the power taken back behind
// it.
template <u32 unit(u32)>
f32 scaled(f32 a, f32 before, f32 behind) {
  return from_bits<f32>(unit(bits_of(a * before))) * behind;
}
template <u32 unit(u32)>
f32 of_unit(f32 a) {
  return from_bits<f32>(unit(bits_of(a)));
}

constexpr auto sem_div_approx = [](f32 a, f32 b, Mods m) -> f32 {  // a * (1 / b), and 1 / b is 0 beyond 2^126
  if (!m.ftz && (is_subnormal(b) || b == 0)) a *= 0x1p24f, b *= 0x1p24f;
  return mul(a, of_unit<special::rcp>(b), Rounding::rn, m);
};
constexpr auto sem_div_full = [](f32 a, f32 b, Mods m) -> f32 {
  if (magnitude(b) > 0x1p126f) a = flush(a, m.ftz) * 0.25f, b *= 0.25f;
  return sem_div_approx(a, b, m);
};
constexpr auto sem_div_f32 = div_f32;
constexpr auto sem_div_f64 = [](f64 a, f64 b, Mods m) -> f64 { return div(a, b, rounding(m), m); };

// 9.7.3.9  abs: a NaN of f64 passes with its sign, quieted, as through neg: both are additions to zero
constexpr auto sem_abs_f32 = [](f32 a, Mods m) -> f32 { return finish(magnitude(a), m); };
constexpr auto sem_abs_f64 = [](f64 a) -> f64 { return with_nan(magnitude(a), a); };

// 9.7.3.10  neg
constexpr auto sem_neg_f32 = [](f32 a, Mods m) -> f32 { return finish(negate(a), m); };
constexpr auto sem_neg_f64 = [](f64 a) -> f64 { return with_nan(negate(a), a); };

// 9.7.3.11  min
constexpr auto sem_min_f32 = [](f32 a, f32 b, Mods m) -> f32 { return extreme(a, b, true, m); };
constexpr auto sem_min_f32_xorsign = sem_min_f32;
constexpr auto sem_min_f32_3 = [](f32 a, f32 b, f32 c, Mods m) -> f32 {
  return extreme(extreme(a, b, true, m), c, true, m);
};
constexpr auto sem_min_f64 = [](f64 a, f64 b, Mods m) -> f64 { return extreme(a, b, true, m); };

// 9.7.3.12  max
constexpr auto sem_max_f32 = [](f32 a, f32 b, Mods m) -> f32 { return extreme(a, b, false, m); };
constexpr auto sem_max_f32_xorsign = sem_max_f32;
constexpr auto sem_max_f32_3 = [](f32 a, f32 b, f32 c, Mods m) -> f32 {
  return extreme(extreme(a, b, false, m), c, false, m);
};
constexpr auto sem_max_f64 = [](f64 a, f64 b, Mods m) -> f64 { return extreme(a, b, false, m); };

// 9.7.3.13  rcp
constexpr auto sem_rcp_f32 = [](f32 a, Mods m) -> f32 { return div_f32(1.0f, a, m); };
constexpr auto sem_rcp_approx = [](f32 a, Mods m) -> f32 {
  if (!m.ftz && is_subnormal(a)) return scaled<special::rcp>(a, 0x1p24f, 0x1p24f);
  if (!m.ftz && magnitude(a) > 0x1p126f && !is_infinite(a) && !is_nan(a)) return scaled<special::rcp>(a, 0.25f, 0.25f);
  return of_unit<special::rcp>(a);
};
constexpr auto sem_rcp_f64 = [](f64 a, Mods m) -> f64 { return div(1.0, a, rounding(m), m); };

// 9.7.3.14  rcp.approx.ftz.f64: the upper words only
constexpr f64 of_upper(u32 word) { return from_bits<f64>(u64{word} << 32); }
constexpr u32 upper_of(f64 x) { return static_cast<u32>(bits_of(x) >> 32); }

constexpr auto sem_rcp_approx_f64 = [](f64 a) -> f64 { return of_upper(special::rcp_upper(upper_of(a))); };

// 9.7.3.15  sqrt
constexpr auto sem_sqrt_f32 = [](f32 a, Mods m) -> f32 { return finish(sqrt(flush(a, m.ftz), rounding(m)), m); };
constexpr auto sem_sqrt_approx = [](f32 a, Mods m) -> f32 {
  if (!m.ftz && is_subnormal(a)) return scaled<special::sqrt>(a, 0x1p24f, 0x1p-12f);
  return of_unit<special::sqrt>(a);
};
constexpr auto sem_sqrt_f64 = [](f64 a, Mods m) -> f64 { return sqrt(a, rounding(m)); };

// 9.7.3.16  rsqrt
constexpr auto sem_rsqrt_f32 = [](f32 a, Mods m) -> f32 {
  if (!m.ftz && is_subnormal(a)) return scaled<special::rsqrt>(a, 0x1p24f, 0x1p12f);
  return of_unit<special::rsqrt>(a);
};
// The assembler makes one step of Newton's method of the unit's result, and scales subnormals.
inline f64 rsqrt_by_step(f64 a) {
  const f64 y = of_upper(special::rsqrt_upper(upper_of(a)));
  const f64 square = y * y, rest = std::fma(a, -square, 1.0), correction = y * rest;
  return std::fma(std::fma(rest, 0.375, 0.5), correction, y);
}
constexpr auto sem_rsqrt_f64 = [](f64 a) -> f64 {
  if (is_nan(a)) return from_bits<f64>(bits_of(a) | u64{1} << 51);
  if (a == 0 || a == std::numeric_limits<f64>::infinity()) return 1.0 / a;
  if (a < 0) return from_bits<f64>(0xfff8000000000000);
  return is_subnormal(a) ? rsqrt_by_step(a * 0x1p54) * 0x1p27 : rsqrt_by_step(a);
};

// 9.7.3.17  rsqrt.approx.ftz.f64
constexpr auto sem_rsqrt_approx_f64 = [](f64 a) -> f64 { return of_upper(special::rsqrt_upper(upper_of(a))); };

// 9.7.3.18  sin: the unit takes turns, which are cut
inline f32 of_turns(f32 a, bool cosine, Mods m) {
  const f32 turns = mul(a, from_bits<f32>(0x3e22f983), Rounding::rz, Mods{.ftz = m.ftz});
  return from_bits<f32>(special::sine(bits_of(turns), cosine));
}
constexpr auto sem_sin = [](f32 a, Mods m) -> f32 { return of_turns(a, false, m); };

// 9.7.3.19  cos
constexpr auto sem_cos = [](f32 a, Mods m) -> f32 { return of_turns(a, true, m); };

// 9.7.3.20  lg2
constexpr auto sem_lg2 = [](f32 a, Mods m) -> f32 {
  if (!m.ftz && is_subnormal(a)) return of_unit<special::lg2>(a * 0x1p24f) - 24.0f;
  return of_unit<special::lg2>(a);
};

// 9.7.3.21  ex2
constexpr auto sem_ex2_f32 = [](f32 a, Mods m) -> f32 {
  if (m.ftz || !(a < -126.0f)) return of_unit<special::ex2>(a);
  const f32 root = of_unit<special::ex2>(a * 0.5f);
  return root * root;
};

// 9.7.3.22  tanh
constexpr auto sem_tanh_f32 = [](f32 a) -> f32 { return of_unit<special::tanh>(a); };

}  // namespace ptx::sim
