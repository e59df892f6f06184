// What atomics and reductions make of an element in memory and an operand (manual 9.7.13.5). `atom`, `red`, and the
// reductions that finish later.
#pragma once

#include <cstring>

#include "ptx/sim/exec/lanes.h"
#include "ptx/sim/exec/numeric.h"

namespace ptx::sim::atomic_detail {

struct How {
  Mods mods;
  bool shared;  // the address is of shared memory
};

// The new value of one element. b is the operand, c the swap of cas.
struct Exchange {
  template <class T>
  static T apply(T, T b, T, How) {
    return b;
  }
};
struct CompareAndSwap {
  template <class T>
  static T apply(T old, T b, T c, How) {
    return std::memcmp(&old, &b, sizeof old) == 0 ? c : old;
  }
};
struct Logic {
  template <class T>
  static T apply(T old, T b, T, How how) {
    return how.mods.and_ ? old & b : how.mods.or_ ? old | b : how.mods.xor_ ? old ^ b : b;
  }
};
struct Extreme {
  template <class T>
  static T apply(T old, T b, T, How how) {
    if constexpr (Integer<T>) {
      return (b < old) == how.mods.min ? b : old;
    } else {
      return extreme(old, b, how.mods.min, Mods{});
    }
  }
};
struct Count {
  static u32 apply(u32 old, u32 b, u32, How how) {
    if (how.mods.inc) return old >= b ? 0 : old + 1;
    return old == 0 || old > b ? b : old - 1;
  }
};
struct Add {
  template <class T>
  static T apply(T old, T b, T, How how) {
    if constexpr (Integer<T>) {
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(b));
    } else if constexpr (std::is_same_v<T, f32>) {
      // 9.7.13.5: in global memory subnormals are flushed, in shared memory they are not.
      const bool ftz = !how.mods.noftz && !how.shared;
      return finish(add(flush(old, ftz), flush(b, ftz), Rounding::rn), Mods{.ftz = ftz});
    } else if constexpr (std::is_same_v<T, f64>) {
      return is_nan(old) ? old : add(old, b, Rounding::rn);  // a NaN in memory stays as it is
    } else {
      return finish(add(old, b, Rounding::rn), Mods{});
    }
  }
};

template <class T, class F>
T apply_each(T old, T b, T c, How how) {
  if constexpr (is_pack<T>) {
    for (int i = 0; i < T::size; ++i) old.at[i] = F::apply(old.at[i], b.at[i], c.at[i], how);
    return old;
  } else {
    return F::apply(old, b, c, how);
  }
}

}  // namespace ptx::sim::atomic_detail
