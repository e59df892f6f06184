// Encoded tensor maps, kept a thread: a map depends on its recipe, the address, shape and strides alone, so one that
// was encoded for the same is the same map, whoever owns the memory meanwhile. No lock, and a fixed amount of room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ptx::interop {

struct KeptMap {
  alignas(64) std::array<std::byte, 128> bytes;
  std::uint64_t plan = 0;  // serial; 0: none
  const void* address = nullptr;
  std::uint32_t recipe = 0;                          // of the plan's record
  bool valid = false;                                // false: the caller encodes into `bytes`
  std::array<std::int64_t, 5> shape{}, strides{-1};  // strides[0] -1: those of the shape
};

// The calling thread's place for this map. Valid until its next call.
// `strides` of a tensor that may have any; null: those of the shape.
KeptMap& kept_map(std::uint64_t plan, std::uint32_t recipe, const void* address, std::span<const std::int64_t> shape,
                  const std::int64_t* strides = nullptr);

}  // namespace ptx::interop
