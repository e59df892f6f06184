// The heap of a device: what `malloc` of kernels gave and `free` did not take back. It belongs to a simulator, as on a
// device to a context, and outlives launches. Each block is host memory of its own with a margin on either side. A
// block that was freed stays for a while, so that whoever touches it hears whose it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ptx/sim/memory/memory.h"
#include "ptx/sim/recording.h"

namespace ptx::sim {

// A call of malloc or free, for messages.
struct HeapCall {
  std::string by;  // "thread (3,0,0) of CTA (1,0,0) allocated at a.ptx:41 (`call`)"
  Site site;
};

struct HeapBlock {
  Range range;
  std::uint64_t launch = 0;  // that allocated it
  std::uint64_t number = 0;  // of all that the heap gave
  HeapCall allocated;
  std::optional<HeapCall> freed;
  std::vector<std::byte> storage;
  std::vector<std::uint8_t> shadow;

  std::string text() const;  // "the 16 bytes that thread ... allocated at ..."
};

class Heap {
 public:
  static constexpr std::uint64_t alignment = 16;  // of a block, as on a device
  using Block = std::shared_ptr<const HeapBlock>;

  // The address of a new block; 0: with it, more than `most` bytes would be in use.
  std::uint64_t allocate(std::uint64_t bytes, std::uint64_t most, std::uint64_t launch, HeapCall call);
  // False: no block that is in use begins there. `keeps`: none that was freed before is forgotten.
  bool free(std::uint64_t address, HeapCall call, bool keeps);
  // The memory in use that holds `address`; nullptr: none.
  const Range* find(std::uint64_t address) const;
  // The block, freed or not, that holds `address` or is next to it; nullptr: none is near.
  Block near(std::uint64_t address) const;
  // In use, and allocated by this launch or any (0); by address.
  std::vector<Block> in_use(std::uint64_t launch = 0) const;
  std::uint64_t new_launch();

  // What is in use, to be put back before a launch that is made again.
  struct Saved {
    std::shared_ptr<HeapBlock> block;
    std::vector<std::byte> storage;
    std::vector<std::uint8_t> shadow;
  };
  using State = std::vector<Saved>;
  State state() const;
  void set(const State& state);

 private:
  void forget();

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<HeapBlock>> blocks_;  // by begin; those that were freed too
  std::deque<std::uint64_t> freed_;                             // begins, in the order of time
  std::uint64_t used_ = 0, freed_bytes_ = 0, launches_ = 0, given_ = 0;
};

}  // namespace ptx::sim
