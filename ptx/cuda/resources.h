// What a kernel takes of a multiprocessor, read off the assembler's verbose log, and how many of its blocks fit: no GPU
// is needed. Facts of the architectures are those of the CUDA Programming Guide, "Compute Capabilities".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ptx/base/expected.h"

namespace ptx::cuda {

struct Resources {
  std::uint32_t registers = 0;                                 // a thread
  std::uint32_t barriers = 0;                                  // a block
  std::uint32_t stack = 0, spill_stores = 0, spill_loads = 0;  // bytes a thread
  std::uint32_t shared = 0;                                    // bytes a block, static
};

// The resources of one .entry; assembler_failed where the log does not have it.
Expected<Resources> read_resources(std::string_view log, std::string_view entry);

struct Occupancy {
  std::uint32_t blocks = 0;      // resident on one multiprocessor
  std::uint32_t warps = 0;       // of them
  std::uint32_t most_warps = 0;  // that a multiprocessor holds
  std::string limiter;           // "registers", "shared memory", "warps" or "blocks"
};

// For blocks of `threads` with `dynamic_shared` bytes; target_mismatch for a target that the table does not know.
Expected<Occupancy> occupancy(std::string_view target, const Resources& resources, std::uint32_t threads,
                              std::uint32_t dynamic_shared);

}  // namespace ptx::cuda
