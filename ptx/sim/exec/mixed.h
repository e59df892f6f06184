// Manual 9.7.5: operands of 16 bits are widened, which is exact, and the operation is rounded once to f32. To f16x2 and
// bf16x2 the f32 result is converted with .rz.
#pragma once

#include "ptx/sim/exec/alternate.h"
#include "ptx/sim/exec/numeric.h"

namespace ptx::sim {

template <class T>
concept HalfPair = OneOf<T, Pack<f16, 2>, Pack<bf16, 2>>;

inline f32 widened(f32 x) { return x; }
template <HalfElement T>
f32 widened(T x) {
  return static_cast<f32>(value(x));
}
// The f32 result in D, for D = f32 or an element of 16 bits.
template <Floating D>
D result_in(f32 x, Mods m) {
  if constexpr (OneOf<D, f32>) return finish(x, m);
  return finish(rounded<D>(value(finish(x, m)), Rounding::rz), m);
}

template <Floating D>
constexpr auto mixed_add = [](auto a, f32 c, bool subtract, Mods m) -> D {
  const f32 x = widened(a), y = subtract ? negate(c) : c;
  const bool to_half = !OneOf<D, f32>;  // .ftz and .rz belong to the conversion as well as to the sum
  return result_in<D>(add(flush(x, to_half && m.ftz), flush(y, to_half && m.ftz), rounding(m)), m);
};

// 9.7.5.1  add
constexpr auto sem_add_mixed = []<HalfElement A>(A a, f32 c, Mods m) -> f32 { return mixed_add<f32>(a, c, false, m); };
constexpr auto sem_add_mixed_x2 = []<HalfPair A>(A a, Pack<f32, 2> c, Mods m) -> Pack<f32, 2> {
  return each<f32>([m](auto x, f32 y) { return mixed_add<f32>(x, y, false, m); }, a, c);
};
constexpr auto sem_add_mixed_f16x2 = [](Pack<f32, 2> a, Pack<f32, 2> c, Mods m) -> Pack<f16, 2> {
  return each<f16>([m](f32 x, f32 y) { return mixed_add<f16>(x, y, false, m); }, a, c);
};
constexpr auto sem_add_mixed_bf16x2 = [](Pack<f32, 2> a, Pack<f32, 2> c, Mods m) -> Pack<bf16, 2> {
  return each<bf16>([m](f32 x, f32 y) { return mixed_add<bf16>(x, y, false, m); }, a, c);
};

// 9.7.5.2  sub
constexpr auto sem_sub_mixed = []<HalfElement A>(A a, f32 c, Mods m) -> f32 { return mixed_add<f32>(a, c, true, m); };
constexpr auto sem_sub_mixed_x2 = []<HalfPair A>(A a, Pack<f32, 2> c, Mods m) -> Pack<f32, 2> {
  return each<f32>([m](auto x, f32 y) { return mixed_add<f32>(x, y, true, m); }, a, c);
};
constexpr auto sem_sub_mixed_f16x2 = [](Pack<f32, 2> a, Pack<f32, 2> c, Mods m) -> Pack<f16, 2> {
  return each<f16>([m](f32 x, f32 y) { return mixed_add<f16>(x, y, true, m); }, a, c);
};
constexpr auto sem_sub_mixed_bf16x2 = [](Pack<f32, 2> a, Pack<f32, 2> c, Mods m) -> Pack<bf16, 2> {
  return each<bf16>([m](f32 x, f32 y) { return mixed_add<bf16>(x, y, true, m); }, a, c);
};

// 9.7.5.3  fma
constexpr auto sem_fma_mixed = []<HalfElement A>(A a, A b, f32 c, Mods m) -> f32 {
  return fma(a, b, c, rounding(m), m);
};
constexpr auto sem_fma_mixed_x2 = []<HalfPair A>(A a, Pack<f32, 2> b, Pack<f32, 2> c, Mods m) -> Pack<f32, 2> {
  return each<f32>([m](auto x, f32 y, f32 z) { return fma(widened(x), y, z, rounding(m), m); }, a, b, c);
};

// 9.7.5.4  mul
constexpr auto sem_mul_mixed_f16x2 = [](Pack<f32, 2> a, Pack<f32, 2> c, Mods m) -> Pack<f16, 2> {
  return each<f16>([m](f32 x, f32 y) { return result_in<f16>(mul(x, y, Rounding::rz, m), m); }, a, c);
};
constexpr auto sem_mul_mixed_bf16x2 = [](Pack<f32, 2> a, Pack<f32, 2> c, Mods m) -> Pack<bf16, 2> {
  return each<bf16>([m](f32 x, f32 y) { return result_in<bf16>(mul(x, y, Rounding::rz, m), m); }, a, c);
};

// 9.7.6.1 to 9.7.6.4 of PTX ISA 9.4  add, sub, mul, fma
constexpr WarpBody sem_add_alternate{alternate_body};
constexpr WarpBody sem_sub_alternate{alternate_body};
constexpr WarpBody sem_mul_alternate{alternate_body};
constexpr WarpBody sem_fma_alternate{alternate_body};

}  // namespace ptx::sim
