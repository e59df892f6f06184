// Manual 9.7.4: f16, bf16 and their pairs. The operation is exact, its result is rounded once.
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

// 9.7.4.9  tanh
constexpr auto sem_tanh_half = []<Half T>(T a, Mods m) -> T {
  return each<element_t<T>>([m](auto x) { return approximate([](f64 y) { return std::tanh(y); }, x, m); }, a);
};

// 9.7.4.10  ex2
constexpr auto sem_ex2_f16 = []<HalfF16 T>(T a, Mods m) -> T {
  return each<element_t<T>>([m](auto x) { return approximate([](f64 y) { return std::exp2(y); }, x, m); }, a);
};
constexpr auto sem_ex2_bf16 = []<HalfBF16 T>(T a, Mods m) -> T {
  return each<element_t<T>>([m](auto x) { return approximate([](f64 y) { return std::exp2(y); }, x, m); }, a);
};

}  // namespace ptx::sim
