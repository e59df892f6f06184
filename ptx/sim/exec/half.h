// Manual 9.7.4: f16, bf16 and their pairs. The operation is exact, its result is rounded once; ex2 is the special
// function unit's.
#pragma once

#include <cmath>

#include "ptx/sim/exec/floating.h"

namespace ptx::sim {

template <class T>
concept HalfF16 = OneOf<T, f16, Pack<f16, 2>>;
template <class T>
concept HalfBF16 = OneOf<T, bf16, Pack<bf16, 2>>;

template <HalfElement E>
E add_half(E a, E b, Mods m) {
  return finish(add(flush(a, m.ftz), flush(b, m.ftz), Rounding::rn), m);
}
template <HalfElement E>
E mul_half(E a, E b, Mods m) {
  return mul(a, b, Rounding::rn, m);
}
template <HalfElement E>
E fma_half(E a, E b, E c, Mods m) {
  return fma(a, b, c, Rounding::rn, m);
}

// 9.7.4.1  add
constexpr auto sem_add_f16 = []<HalfF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return add_half(x, y, m); }, a, b);
};
constexpr auto sem_add_bf16 = []<HalfBF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return add_half(x, y, m); }, a, b);
};

// 9.7.4.2  sub
constexpr auto sem_sub_f16 = []<HalfF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return add_half(x, negate(y), m); }, a, b);
};
constexpr auto sem_sub_bf16 = []<HalfBF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return add_half(x, negate(y), m); }, a, b);
};

// 9.7.4.3  mul
constexpr auto sem_mul_f16 = []<HalfF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return mul_half(x, y, m); }, a, b);
};
constexpr auto sem_mul_bf16 = []<HalfBF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return mul_half(x, y, m); }, a, b);
};

// 9.7.4.4  fma
constexpr auto sem_fma_f16 = []<HalfF16 T>(T a, T b, T c, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y, auto z) { return fma_half(x, y, z, m); }, a, b, c);
};
constexpr auto sem_fma_f16_relu = sem_fma_f16;
constexpr auto sem_fma_bf16 = []<HalfBF16 T>(T a, T b, T c, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y, auto z) { return fma_half(x, y, z, m); }, a, b, c);
};

// .oob: a factor that is OOB-NaN makes the result 0. Its bits, of either sign, are an H200's; the manual does not say
// them.
template <HalfElement E>
E fma_oob(E a, E b, E c, Mods m) {
  const auto is_oob = [](E x) { return bits_of(magnitude(x)) == 0x7ff7; };
  return is_oob(a) || is_oob(b) ? from_bits<E>(0) : fma_half(a, b, c, m);
}
constexpr auto sem_fma_oob = []<Half T>(T a, T b, T c, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y, auto z) { return fma_oob(x, y, z, m); }, a, b, c);
};

// 9.7.4.5  neg
constexpr auto sem_neg_f16 = []<HalfF16 T>(T a, Mods m) -> T {
  return each<element_t<T>>([m](auto x) { return finish(negate(x), m); }, a);
};
constexpr auto sem_neg_bf16 = []<HalfBF16 T>(T a) -> T {
  return each<element_t<T>>([](auto x) { return finish(negate(x), Mods{}); }, a);
};

// 9.7.4.6  abs
constexpr auto sem_abs_f16 = []<HalfF16 T>(T a, Mods m) -> T {
  return each<element_t<T>>([m](auto x) { return finish(magnitude(x), m); }, a);
};
constexpr auto sem_abs_bf16 = []<HalfBF16 T>(T a) -> T {
  return each<element_t<T>>([](auto x) { return finish(magnitude(x), Mods{}); }, a);
};

// 9.7.4.7  min
constexpr auto sem_min_f16 = []<HalfF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return extreme(x, y, true, m); }, a, b);
};
constexpr auto sem_min_f16_xorsign = sem_min_f16;
constexpr auto sem_min_bf16 = []<HalfBF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return extreme(x, y, true, m); }, a, b);
};
constexpr auto sem_min_bf16_xorsign = sem_min_bf16;

// 9.7.4.8  max
constexpr auto sem_max_f16 = []<HalfF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return extreme(x, y, false, m); }, a, b);
};
constexpr auto sem_max_f16_xorsign = sem_max_f16;
constexpr auto sem_max_bf16 = []<HalfBF16 T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return extreme(x, y, false, m); }, a, b);
};
constexpr auto sem_max_bf16_xorsign = sem_max_bf16;

// tanh and ex2: what the unit gives for f32, cut
template <auto function, HalfElement E>
E cut(E a) {
  const f32 x = of_unit<function>(static_cast<f32>(value(a)));
  if (is_nan(x)) return canonical_nan<E>();
  if (OneOf<E, f16> && x >= 65536.0f) return from_bits<E>(infinity_bits<E>);
  return rounded<E>(x, Rounding::rz);
}

// 9.7.4.9  tanh
constexpr auto sem_tanh_half = []<Half T>(T a) -> T {
  return each<element_t<T>>([](auto x) { return cut<special::tanh>(x); }, a);
};

// 9.7.4.10  ex2
constexpr auto sem_ex2_f16 = []<HalfF16 T>(T a) -> T {
  return each<element_t<T>>([](auto x) { return cut<special::ex2>(x); }, a);
};
constexpr auto sem_ex2_bf16 = []<HalfBF16 T>(T a) -> T {
  return each<element_t<T>>([](auto x) { return cut<special::ex2>(x); }, a);
};

}  // namespace ptx::sim
