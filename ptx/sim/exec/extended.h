// Manual 9.7.2: carry chains. Behaviour is the same for signed and unsigned operands. CC.CF is the carry out of a sum
// of two's complement, also of sub and subc, where the manual calls it a borrow: after a - b it says a >= b.
#pragma once

#include "ptx/sim/exec/integer.h"

namespace ptx::sim {

template <class T>
concept Chained = OneOf<T, u32, s32, u64, s64>;

template <Chained T>
constexpr T add_with(T a, T b, bool carry, bool& out) {
  using U = unsigned_t<T>;
  const U sum = static_cast<U>(a) + static_cast<U>(b), d = sum + carry;
  out = sum < static_cast<U>(a) || d < sum;
  return static_cast<T>(d);
}
template <Chained T>
constexpr T sub_with(T a, T b, bool carry, bool& out) {
  return add_with(a, static_cast<T>(~b), carry, out);
}

// 9.7.2.1  add.cc
constexpr auto sem_add_cc = []<Chained T>(T a, T b, Carry& cc) -> T { return add_with(a, b, false, cc.flag); };

// 9.7.2.2  addc
constexpr auto sem_addc = []<Chained T>(T a, T b, Carry& cc, Mods m) -> T {
  bool out;
  const T d = add_with(a, b, cc.flag, out);
  if (m.cc) cc.flag = out;
  return d;
};

// 9.7.2.3  sub.cc
constexpr auto sem_sub_cc = []<Chained T>(T a, T b, Carry& cc) -> T { return sub_with(a, b, true, cc.flag); };

// 9.7.2.4  subc
constexpr auto sem_subc = []<Chained T>(T a, T b, Carry& cc, Mods m) -> T {
  bool out;
  const T d = sub_with(a, b, cc.flag, out);
  if (m.cc) cc.flag = out;
  return d;
};

// 9.7.2.5  mad.cc
constexpr auto sem_mad_cc = []<Chained T>(T a, T b, T c, Carry& cc, Mods m) -> T {
  return add_with(half_of<T>(full_product(a, b), m.hi), c, false, cc.flag);
};

// 9.7.2.6  madc
constexpr auto sem_madc = []<Chained T>(T a, T b, T c, Carry& cc, Mods m) -> T {
  bool out;
  const T d = add_with(half_of<T>(full_product(a, b), m.hi), c, cc.flag, out);
  if (m.cc) cc.flag = out;
  return d;
};

}  // namespace ptx::sim
