// Matrices in shared memory, which are lines of units of 16 bytes (arch/descriptor.h): where the units are, and the
// elements of lines side by side as words. Nothing here reads shared memory.
#pragma once

#include <cstddef>

#include "ptx/arch/descriptor.h"
#include "ptx/sim/exec/lane.h"

namespace ptx::sim {

inline constexpr u32 unit_bytes = 16;

// MatrixDescriptor::at, worked out once where all patterns lie alike. `across`: units of a row.
class Places {
 public:
  Places(const arch::MatrixDescriptor& descriptor, bool mn_major, u32 across);
  u32 at(u32 row, u32 i) const {
    if (!alike_) return descriptor_.at(mn_major_, row, i);
    return first_[row % 8 * across_ + i] + row / 8 * descriptor_.stride;
  }

 private:
  const arch::MatrixDescriptor& descriptor_;
  bool mn_major_, alike_;
  u32 across_, first_[8 * 4];
};

struct Lines {
  int bits;  // of an element: 8, 16 or 32
  const std::byte* from;
  int count, length, stride;  // elements of a line; the last in bytes
};
// Line by line, or with lines and places exchanged; lines of `to` are to_stride apart.
void lay_out(const Lines& lines, bool exchanged, u32* to, int to_stride);

}  // namespace ptx::sim
