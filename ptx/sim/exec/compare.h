// Manual 9.7.6: comparison and selection. Without a Boolean operator `combine` passes the comparison on.
#pragma once

#include "ptx/sim/exec/integer.h"
#include "ptx/sim/exec/numeric.h"

namespace ptx::sim {

// True in the destination's type: 1.0 for floats, all ones for integers.
template <class D>
constexpr D truth(bool t) {
  if constexpr (Floating<D>) {
    return t ? one<D>() : from_bits<D>(0);
  } else {
    return t ? static_cast<D>(-1) : D{0};
  }
}

template <class T>
concept Set = OneOf<T, u32, s32, f32>;
template <class T>
concept Selected = Multiplied<T> || Real<T>;

// 9.7.6.1  set
constexpr auto sem_set_int = []<Set D, Multiplied S>(S a, S b, bool c, Mods m) -> D {
  return truth<D>(combine(compare(a, b, m), c, m));
};
constexpr auto sem_set_f32 = []<Set D>(f32 a, f32 b, bool c, Mods m) -> D {
  return truth<D>(combine(compare(a, b, m), c, m));
};
constexpr auto sem_set_f64 = []<Set D>(f64 a, f64 b, bool c, Mods m) -> D {
  return truth<D>(combine(compare(a, b, m), c, m));
};
constexpr auto sem_set_packed = []<PackedInteger T>(T a, T b, Mods m) -> T {
  return each<element_t<T>>([m](auto x, auto y) { return truth<decltype(x)>(compare(x, y, m)); }, a, b);
};

// 9.7.6.2  setp: q is made of the complement of the comparison
inline Two<bool, bool> predicates(bool t, bool c, Mods m) { return {combine(t, c, m), combine(!t, c, m)}; }

constexpr auto sem_setp_int = []<Multiplied T>(T a, T b, bool c, Mods m) -> Two<bool, bool> {
  return predicates(compare(a, b, m), c, m);
};
constexpr auto sem_setp_f32 = [](f32 a, f32 b, bool c, Mods m) -> Two<bool, bool> {
  return predicates(compare(a, b, m), c, m);
};
constexpr auto sem_setp_f64 = [](f64 a, f64 b, bool c, Mods m) -> Two<bool, bool> {
  return predicates(compare(a, b, m), c, m);
};

// 9.7.6.3  selp
constexpr auto sem_selp = []<Selected T>(T a, T b, bool c) -> T { return c ? a : b; };

// 9.7.6.4  slct: -0 is zero, NaN selects b
constexpr auto sem_slct_s32 = []<Selected T>(T a, T b, s32 c) -> T { return c >= 0 ? a : b; };
constexpr auto sem_slct_f32 = []<Selected T>(T a, T b, f32 c, Mods m) -> T { return flush(c, m.ftz) >= 0 ? a : b; };

}  // namespace ptx::sim
