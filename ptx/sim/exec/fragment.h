// Fragments in a warp's rows: matrices by rows from the registers that hold them, and back. Where an element lies is
// ptx/arch/fragment.h's.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "ptx/arch/fragment.h"
#include "ptx/base/text.h"
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

// The words for metadata of a sparse A that arch::metadata_values does not have (manual 9.7.14.6).
inline std::string illegal_metadata(int row, int first, int chunk, u32 value, u32 legal) {
  std::string out = cat("multiplies a sparse A whose metadata of row ", row, ", numbers ", first, " to ",
                        first + chunk - 1, ", are ", value, "; legal:");
  for (u32 i = 0; i < 16; ++i) out += legal >> i & 1 ? cat(' ', i) : std::string();
  return out;
}

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
template <int bits, class T, class Decode>
void read_elements(Warp& w, const Operand* first, const Place& place, T* out, Decode decode) {
  using Cell = std::conditional_t<bits == 64, u64, u32>;
  constexpr int together = static_cast<int>(sizeof(Cell)) * 8 / bits;
  constexpr Cell mask = static_cast<Cell>(~Cell{0}) >> (sizeof(Cell) * 8 - bits);
  const std::uint16_t* at = place.at.data();
  for (int r = 0; r < place.registers; ++r) {
    const auto* row = reinterpret_cast<const Cell*>(w.row(first[r]));
    for (int lane = 0; lane < lanes; ++lane) {
      for (int i = 0; i < together; ++i, ++at) {
        if (*at != Place::none) out[*at] = decode(row[lane] >> (i * bits) & mask);
      }
    }
  }
}
template <class T, class Decode>
void read_fragment(Warp& w, const Operand* first, const Place& place, T* out, Decode decode) {
  switch (place.bits) {
    case 1: return read_elements<1>(w, first, place, out, decode);
    case 4: return read_elements<4>(w, first, place, out, decode);
    case 8: return read_elements<8>(w, first, place, out, decode);
    case 16: return read_elements<16>(w, first, place, out, decode);
    case 64: return read_elements<64>(w, first, place, out, decode);
    default: return read_elements<32>(w, first, place, out, decode);
  }
}
template <class T>
T bits_as(u64 bits) {
  return static_cast<T>(bits);
}

// The destinations of `op` from the bits of elements; what holds nothing becomes zero. A sink takes nothing.
template <int bits, class T>
void write_elements(Warp& w, const Op& op, const Place& place, const T* in, Mask active) {
  using Cell = std::conditional_t<bits == 64, u64, u32>;
  constexpr int together = static_cast<int>(sizeof(Cell)) * 8 / bits;
  const std::uint16_t* at = place.at.data();
  for (int r = 0; r < place.registers; ++r) {
    alignas(64) Cell out[lanes]{};
    for (int lane = 0; lane < lanes; ++lane) {
      for (int i = 0; i < together; ++i, ++at) {
        if (*at != Place::none) out[lane] |= static_cast<Cell>(in[*at]) << (i * bits);
      }
    }
    lane_detail::keep(reinterpret_cast<Cell*>(w.row_to_write(op.operands[r])), out, active);
  }
}
template <class T>
void write_fragment(Warp& w, const Op& op, const Place& place, const T* in, Mask active) {
  if (op.destinations < place.registers) return;
  switch (place.bits) {
    case 1: return write_elements<1>(w, op, place, in, active);
    case 4: return write_elements<4>(w, op, place, in, active);
    case 8: return write_elements<8>(w, op, place, in, active);
    case 16: return write_elements<16>(w, op, place, in, active);
    case 64: return write_elements<64>(w, op, place, in, active);
    default: return write_elements<32>(w, op, place, in, active);
  }
}

}  // namespace ptx::sim
