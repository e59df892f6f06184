#include "ptx/sim/memory/memory.h"

#include <algorithm>
#include <cstring>

#include "ptx/sim/memory/heap.h"

namespace ptx::sim {

void GlobalMemory::add(Range range) {
  const auto at = std::upper_bound(ranges_.begin(), ranges_.end(), range.begin,
                                   [](std::uint64_t begin, const Range& r) { return begin < r.begin; });
  ranges_.insert(at, std::move(range));
}

// Arguments may be views of one allocation, so ranges may overlap: of those that hold the address, the longest.
const Range* GlobalMemory::find(std::uint64_t address) const {
  const Range* best = nullptr;
  for (const Range& r : ranges_) {
    if (r.begin > address) break;
    if (address < r.end && (!best || r.end - address > best->end - address)) best = &r;
  }
  return best || !heap_ ? best : heap_->find(address);
}

const Range* GlobalMemory::nearest(std::uint64_t address) const {
  const Range* best = nullptr;
  std::uint64_t distance = ~0ull;
  for (const Range& r : ranges_) {
    const std::uint64_t d = address < r.begin ? r.begin - address : address >= r.end ? address - r.end : 0;
    if (d < distance) distance = d, best = &r;
  }
  return best;
}

void LocalMemory::resize(std::size_t bytes_a_thread) {
  if (bytes_a_thread <= stride) return;
  const std::size_t grown = (bytes_a_thread + 63) / 64 * 64;
  std::vector<std::byte> new_bytes(32 * grown);
  std::vector<std::uint8_t> new_shadow(32 * grown);
  for (std::size_t lane = 0; lane < 32 && stride; ++lane) {
    std::memcpy(&new_bytes[lane * grown], &bytes[lane * stride], stride);
    std::memcpy(&new_shadow[lane * grown], &shadow[lane * stride], stride);
  }
  bytes = std::move(new_bytes), shadow = std::move(new_shadow);
  stride = grown;
}

}  // namespace ptx::sim
