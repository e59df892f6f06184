// Manual 9.7.8: logic and shifts. Bits arrive as unsigned integers, predicates as bool.
#pragma once

#include <algorithm>

#include "ptx/sim/exec/integer.h"

namespace ptx::sim {

template <class T>
concept Logical = OneOf<T, bool, u16, u32, u64>;

// 9.7.8.1  and
constexpr auto sem_and_ = []<Logical T>(T a, T b) -> T { return static_cast<T>(a & b); };

// 9.7.8.2  or
constexpr auto sem_or_ = []<Logical T>(T a, T b) -> T { return static_cast<T>(a | b); };

// 9.7.8.3  xor
constexpr auto sem_xor_ = []<Logical T>(T a, T b) -> T { return static_cast<T>(a ^ b); };

// 9.7.8.4  not
constexpr auto sem_not_ = []<Logical T>(T a) -> T {
  if constexpr (OneOf<T, bool>) {
    return !a;
  } else {
    return static_cast<T>(~a);
  }
};

// 9.7.8.5  cnot
constexpr auto sem_cnot = []<OneOf<u16, u32, u64> T>(T a) -> T { return a == 0; };

// 9.7.8.6  lop3: bit i of the table is the result where a, b, c have the bits of i
constexpr u32 look_up_3(u32 a, u32 b, u32 c, u32 table) {
  u32 d = 0;
  for (int i = 0; i < 8; ++i) {
    const u32 here = (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    d |= here & -(table >> i & 1);
  }
  return d;
}
constexpr auto sem_lop3 = [](u32 a, u32 b, u32 c, u32 lut) -> u32 { return look_up_3(a, b, c, lut); };

constexpr auto sem_lop3_bool = [](u32 a, u32 b, u32 c, u32 lut, bool q, Mods m) -> Two<u32, bool> {
  const u32 d = look_up_3(a, b, c, lut);
  return {d, m.or_ ? d != 0 || q : d != 0 && q};
};

// 9.7.8.7  shf: b holds the upper half
constexpr auto sem_shf = [](u32 a, u32 b, u32 c, Mods m) -> u32 {
  const u32 n = m.clamp ? std::min(c, 32u) : c & 0x1f;
  const u64 both = u64{b} << 32 | a;
  return static_cast<u32>(m.left ? n == 32 ? a : both << n >> 32 : both >> n);
};

// 9.7.8.8  shl: amounts beyond the width are the width
constexpr auto sem_shl = []<OneOf<u16, u32, u64> T>(T a, u32 b) -> T {
  return static_cast<T>(b >= bits_in<T> ? 0 : a << b);
};

// 9.7.8.9  shr
constexpr auto sem_shr = []<OneOf<u16, u32, u64, s16, s32, s64> T>(T a, u32 b) -> T {
  return static_cast<T>(b < bits_in<T> ? a >> b : Signed<T> && a < 0 ? -1 : 0);
};

}  // namespace ptx::sim
