// The memories of a launch. Global, const and the parameter block are host memory, reached by host addresses and
// bounded by ranges; shared and local memory live here. A shadow byte for each byte says which of its bits were
// written, with a value that is defined. Generic addresses: host addresses as they are; shared and local memory have
// windows above every host address.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ptx/base/place.h"
#include "ptx/isa/types.h"

namespace ptx::sim {

inline constexpr std::uint64_t shared_window = 1ull << 56;
inline constexpr std::uint64_t local_window = 2ull << 56;
inline constexpr std::uint64_t function_window = 3ull << 56;  // addresses of functions: + index
inline constexpr std::uint64_t window_mask = 0xffull << 56;
// An address in shared memory, of 32 bits or in its window: bits 24.. are the rank in the cluster of the CTA that has
// it, as on sm_90 and later, where programs clear bit 24 to name the even CTA of a pair.
inline constexpr std::uint64_t shared_rank_shift = 24;
inline constexpr std::uint64_t shared_offset_mask = (1ull << shared_rank_shift) - 1;
constexpr std::uint64_t shared_rank(std::uint64_t address) { return (address & ~window_mask) >> shared_rank_shift; }

inline bool is_shared(isa::Space s) {
  return s == isa::Space::shared || s == isa::Space::shared_cta || s == isa::Space::shared_cluster;
}

inline constexpr std::uint8_t written = 0xff;  // of a shadow byte

// A piece of host memory that a kernel may touch.
struct Range {
  std::uint64_t begin = 0, end = 0;
  std::string name;                // of the argument or variable
  std::uint8_t* shadow = nullptr;  // a byte for each byte, its defined bits; nullptr: all of it is initialised
  bool writable = true;
  bool constant = false, parameter = false;
  bool input = false;  // of the call
  bool fresh = false;  // an output: the kernel is to write all of it
  bool heap = false;   // what malloc gave: it goes when it is freed
};

class Heap;

class GlobalMemory {
 public:
  void add(Range range);
  void add(const Heap& heap) { heap_ = &heap; }
  // The range that holds `address`, also one of the heap; nullptr: none.
  const Range* find(std::uint64_t address) const;
  const std::vector<Range>& ranges() const { return ranges_; }  // without those of the heap
  // For messages: of them, the range that ends before or starts after the address most closely.
  const Range* nearest(std::uint64_t address) const;

 private:
  std::vector<Range> ranges_;  // by address
  const Heap* heap_ = nullptr;
};

struct NamedBytes {  // a variable in a memory, for messages
  std::string name;
  std::uint64_t begin = 0, end = 0;
  Place place{};      // where the author allocated it; line 0: the text has it
  bool part = false;  // of dynamic shared memory
};

struct SharedMemory {
  explicit SharedMemory(std::size_t bytes) : bytes(bytes), shadow(bytes) {}
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> shadow;
};

// The local memory of one warp: `stride` bytes a thread.
struct LocalMemory {
  void resize(std::size_t bytes_a_thread);
  std::size_t stride = 0;
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> shadow;
};

}  // namespace ptx::sim
