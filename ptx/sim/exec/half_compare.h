// Manual 9.7.7: comparison of f16 and bf16.
#pragma once

#include "ptx/sim/exec/compare.h"

namespace ptx::sim {

template <class T>
concept SetOfHalf = OneOf<T, u16, s16, u32, s32>;

// Both halves of a pair, packed into D: 1.0 or 0xffff each.
template <class D, HalfElement E>
D set_pair(Pack<E, 2> a, Pack<E, 2> b, bool c, Mods m) {
  const auto t = [&](int i) { return combine(compare(a.at[i], b.at[i], m), c, m); };
  if constexpr (is_pack<D>) {
    return {truth<E>(t(0)), truth<E>(t(1))};
  } else {
    return static_cast<D>(u32{truth<u16>(t(0))} | u32{truth<u16>(t(1))} << 16);
  }
}
template <HalfElement E>
Two<bool, bool> predicate_pair(Pack<E, 2> a, Pack<E, 2> b, bool c, Mods m) {
  return {combine(compare(a.at[0], b.at[0], m), c, m), combine(compare(a.at[1], b.at[1], m), c, m)};
}

// 9.7.7.1  set
constexpr auto sem_set_to_half_int = []<HalfElement D, Multiplied S>(S a, S b, bool c, Mods m) -> D {
  return truth<D>(combine(compare(a, b, m), c, m));
};
constexpr auto sem_set_to_f16 = []<OneOf<f16, f32> S>(S a, S b, bool c, Mods m) -> f16 {
  return truth<f16>(combine(compare(a, b, m), c, m));
};
constexpr auto sem_set_to_f16_f64 = [](f64 a, f64 b, bool c, Mods m) -> f16 {
  return truth<f16>(combine(compare(a, b, m), c, m));
};
constexpr auto sem_set_to_bf16 = []<Floating S>(S a, S b, bool c, Mods m) -> bf16 {
  return truth<bf16>(combine(compare(a, b, m), c, m));
};
constexpr auto sem_set_f16 = []<SetOfHalf D>(f16 a, f16 b, bool c, Mods m) -> D {
  return truth<D>(combine(compare(a, b, m), c, m));
};
constexpr auto sem_set_bf16 = []<SetOfHalf D>(bf16 a, bf16 b, bool c, Mods m) -> D {
  return truth<D>(combine(compare(a, b, m), c, m));
};
constexpr auto sem_set_f16x2 = []<OneOf<Pack<f16, 2>, u32, s32> D>(Pack<f16, 2> a, Pack<f16, 2> b, bool c,
                                                                   Mods m) -> D { return set_pair<D>(a, b, c, m); };
constexpr auto sem_set_bf16x2 = []<OneOf<Pack<bf16, 2>, u32, s32> D>(Pack<bf16, 2> a, Pack<bf16, 2> b, bool c,
                                                                     Mods m) -> D { return set_pair<D>(a, b, c, m); };

// 9.7.7.2  setp: p and q are of the lower and the upper half
constexpr auto sem_setp_f16 = [](f16 a, f16 b, bool c, Mods m) -> bool { return combine(compare(a, b, m), c, m); };
constexpr auto sem_setp_f16x2 = [](Pack<f16, 2> a, Pack<f16, 2> b, bool c, Mods m) -> Two<bool, bool> {
  return predicate_pair(a, b, c, m);
};
constexpr auto sem_setp_bf16 = [](bf16 a, bf16 b, bool c, Mods m) -> bool { return combine(compare(a, b, m), c, m); };
constexpr auto sem_setp_bf16x2 = [](Pack<bf16, 2> a, Pack<bf16, 2> b, bool c, Mods m) -> Two<bool, bool> {
  return predicate_pair(a, b, c, m);
};

}  // namespace ptx::sim
