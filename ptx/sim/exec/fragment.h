// Fragments in a warp's rows: matrices by rows from the registers that hold them, and back. Where an element lies is
// ptx/arch/fragment.h's.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "ptx/arch/fragment.h"
#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

// The fragment of one matrix: `at[(register * 32 + lane) * together + i]` is where element i of a register lies in the
// matrix; `none` where the register holds nothing that is used.
struct Place {
  static constexpr std::uint16_t none = 0xffff;
  isa::Type type = isa::Type::none;
  int bits = 32;        // of an element in its register
  int registers = 0;    // of a lane
  int length = 0;       // of a line
  bool across = false;  // lines are columns: B
  std::vector<std::uint16_t> at;
  int together() const { return std::max(32, bits) / bits; }  // elements of a register
};

template <class F>
void lay_out(Place& place, F index) {
  const int together = place.together();
  place.at.resize(static_cast<std::size_t>(place.registers * lanes * together), Place::none);
  for (std::size_t i = 0; i < place.at.size(); ++i) {
    const int all = static_cast<int>(i), r = all / together / lanes, lane = all / together % lanes;
    const int at = index(lane, r * together + all % together);
    if (at >= 0) place.at[i] = static_cast<std::uint16_t>(at);
  }
}
inline void lay_out(Place& place, const arch::Fragment& fragment) {
  lay_out(place, [&](int lane, int i) {
    const auto [line, position] = fragment.cell(lane, i);
    if (position >= place.length) return -1;  // wmma: a second copy of A and B
    return place.across ? position * fragment.lines + line : line * place.length + position;
  });
}

// The elements of registers whose operands begin at `first`, as `decode` makes them from their bits.
template <class T, class Decode>
void read_fragment(Warp& w, const Operand* first, const Place& place, T* out, Decode decode) {
  const std::uint16_t* at = place.at.data();
  const int together = place.together();
  const u32 mask = place.bits >= 32 ? ~0u : (1u << place.bits) - 1;
  for (int r = 0; r < place.registers; ++r) {
    const std::byte* row = w.row(first[r]);
    for (int lane = 0; lane < lanes; ++lane) {
      if (place.bits == 64) {
        out[*at++] = decode(reinterpret_cast<const u64*>(row)[lane]);
        continue;
      }
      const u32 cell = reinterpret_cast<const u32*>(row)[lane];
      for (int i = 0; i < together; ++i, ++at) {
        if (*at != Place::none) out[*at] = decode(cell >> (i * place.bits) & mask);
      }
    }
  }
}
template <class T>
T bits_as(u64 bits) {
  return static_cast<T>(bits);
}

// The destinations of `op` from the bits of elements; what holds nothing becomes zero. A sink takes nothing.
template <class T>
void write_fragment(Warp& w, const Op& op, const Place& place, const T* in, Mask active) {
  if (op.destinations < place.registers) return;
  const std::uint16_t* at = place.at.data();
  const int together = place.together();
  const auto bits = [&](std::uint16_t i) { return i == Place::none ? T{} : in[i]; };
  for (int r = 0; r < place.registers; ++r) {
    alignas(64) u64 wide[lanes];
    alignas(64) u32 out[lanes]{};
    for (int lane = 0; lane < lanes; ++lane) {
      if (place.bits == 64) wide[lane] = bits(*at++);
      for (int i = 0; i < together && place.bits < 64; ++i) {
        out[lane] |= static_cast<u32>(bits(*at++)) << (i * place.bits);
      }
    }
    std::byte* row = w.row_to_write(op.operands[r]);
    if (place.bits == 64) {
      lane_detail::keep(reinterpret_cast<u64*>(row), wide, active);
    } else {
      lane_detail::keep(reinterpret_cast<u32*>(row), out, active);
    }
  }
}

}  // namespace ptx::sim
