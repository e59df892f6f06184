// Tensor memory of one CTA (manual 9.7.16.1): 128 lanes of 512 columns of 32 bits, given out by columns. Cells exist as
// soon as some have been allocated. What instructions make of the lanes is theirs (exec/tensor_access.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ptx::sim {

struct Warp;

struct TensorAllocation {
  std::uint32_t column = 0, columns = 0;
  bool pair = false;           // of cta_group::2
  Warp* warp = nullptr;        // that allocated it,
  std::uint32_t pc = 0;        // here
  std::uint32_t freed_at = 0;  // the pc of its dealloc, once it is freed
  bool holds(std::uint32_t first, std::uint32_t count) const {
    return column <= first && first + count <= column + columns;
  }
};

// A tcgen05.alloc that waits for columns; with cta_group::2 for the other CTA of the pair, too.
struct TensorRequest {
  Warp* warp = nullptr;
  int lane = 0;
  std::uint32_t pc = 0, columns = 0;
  std::uint32_t address = 0;  // in shared memory, where the result goes
  bool pair = false;
};

class TensorMemory {
 public:
  static constexpr std::uint32_t lanes = 128, columns = 512, unit = 32;
  static constexpr std::uint64_t lane_bytes = columns * 4;

  // The first column of so many that are free here and in `other`, if that is not null; `columns` if there are none.
  std::uint32_t find(std::uint32_t count, const TensorMemory* other) const;
  void allocate(const TensorAllocation& allocation);
  void free(std::size_t index, std::uint32_t pc);
  // The allocation that holds these columns; nullptr: none.
  const TensorAllocation* holder(std::uint32_t column, std::uint32_t count) const;
  // For messages: the last one that held some of these columns and was freed; nullptr: none.
  const TensorAllocation* former(std::uint32_t column, std::uint32_t count) const;

  std::byte* cells(std::uint64_t offset) { return &bytes_[offset]; }
  std::uint8_t* states(std::uint64_t offset) { return &shadow_[offset]; }

  std::vector<TensorAllocation> allocations, freed;
  std::vector<TensorRequest> requests;  // first come, first served
  std::uint32_t least = columns;        // that was ever allocated at once: later allocations are no larger
  Warp* relinquished = nullptr;         // who executed tcgen05.relinquish_alloc_permit
  std::uint32_t relinquished_at = 0;
  std::string undefined_by;     // the first product that multiplied what nothing wrote, for messages
  std::uint8_t group = 0;       // the cta_group that the CTA has used
  std::uint8_t collectors = 0;  // bit 0: buffer a holds a matrix; bits 1 to 4: b0 to b3

 private:
  std::vector<std::byte> bytes_;  // by lanes
  std::vector<std::uint8_t> shadow_;
};

}  // namespace ptx::sim
