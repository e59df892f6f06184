#include "ptx/interop/detail/maps.h"

#include <algorithm>

namespace ptx::interop {

KeptMap& kept_map(std::uint64_t plan, std::uint32_t recipe, const void* address, std::span<const std::int64_t> shape,
                  const std::int64_t* strides) {
  static thread_local std::array<KeptMap, 128> table;
  std::uint64_t hash = (reinterpret_cast<std::uintptr_t>(address) >> 4) + plan * 0x9E3779B97F4A7C15 + recipe;
  hash *= 0xD6E8FEB86659FD93;
  KeptMap& kept = table[hash >> 57];
  const std::size_t rank = std::min(shape.size(), kept.shape.size());  // more is refused when it is encoded
  if (kept.plan == plan && kept.address == address && kept.recipe == recipe &&
      std::equal(shape.begin(), shape.begin() + rank, kept.shape.begin()) &&
      (strides == nullptr ? kept.strides[0] < 0 : std::equal(strides, strides + rank, kept.strides.begin())))
    return kept;
  kept.plan = plan, kept.address = address, kept.recipe = recipe, kept.valid = false;
  std::copy_n(shape.begin(), rank, kept.shape.begin());
  kept.strides[0] = -1;
  if (strides != nullptr) std::copy_n(strides, rank, kept.strides.begin());
  return kept;
}

}  // namespace ptx::interop
