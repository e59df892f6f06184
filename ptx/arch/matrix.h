// Matrices in shared memory as the copy engine and the matrix instructions see them: swizzles, interleaves, and the
// byte offsets that a descriptor names a tile by. Nothing here emits an instruction.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "ptx/arch/element.h"
#include "ptx/base/expected.h"

namespace ptx::arch {

enum class Swizzle : std::uint8_t {
#define SWIZZLE(id, name, bytes, alignment, wgmma, tcgen05, map, first, first_shift, second, second_shift) id,
#include "ptx/arch/swizzles.def"
#undef SWIZZLE
};

struct SwizzleInfo {
  std::string_view name;        // "128B"
  std::uint32_t bytes;          // of a row; 0: none
  std::uint32_t alignment;      // of a tile, so that the pattern starts with it
  std::int16_t wgmma, tcgen05;  // codes in descriptors, or no_code
  std::int16_t map;             // CUtensorMapSwizzle
  std::uint16_t first, first_shift, second, second_shift;
};

inline constexpr SwizzleInfo swizzle_table[] = {
#define SWIZZLE(id, name, bytes, alignment, wgmma, tcgen05, map, first, first_shift, second, second_shift) \
  {name, bytes, alignment, wgmma, tcgen05, map, first, first_shift, second, second_shift},
#include "ptx/arch/swizzles.def"
#undef SWIZZLE
};
inline constexpr Swizzle last_swizzle = static_cast<Swizzle>(std::size(swizzle_table) - 1);

constexpr const SwizzleInfo& info(Swizzle swizzle) { return swizzle_table[static_cast<std::size_t>(swizzle)]; }
constexpr std::string_view name(Swizzle swizzle) { return info(swizzle).name; }

std::optional<Swizzle> swizzle_named(std::string_view name);  // "128B", "NONE", "" (none); any case
// "NONE, 32B, 64B, ...", for messages: all, or those that have a code in these descriptors.
std::string swizzle_names(std::int16_t SwizzleInfo::* code = &SwizzleInfo::map);

// Where the byte at `offset` of a tile lies, counted from a boundary of the swizzle's alignment.
constexpr std::uint64_t swizzled(Swizzle swizzle, std::uint64_t offset) {
  const SwizzleInfo& s = info(swizzle);
  return offset ^ ((offset & s.first) >> s.first_shift) ^ ((offset & s.second) >> s.second_shift);
}

// Channels in slices of 16 or 32 bytes (manual 5.5.6). The values are CUtensorMapInterleave's.
enum class Interleave : std::uint8_t { none, b16, b32 };
inline constexpr std::string_view interleave_names[] = {"none", "16B", "32B"};

// A descriptor's view of a tile (manual 9.7.15.5.1).
struct TileLayout {
  Swizzle swizzle = Swizzle::none;
  std::uint32_t leading = 0, stride = 0;  // bytes
  bool mn_major = false;
};

// The layout of `rows` rows of `columns` elements of that many bits, columns contiguous: (M, K) of a K-major operand,
// (K, N) of an MN-major one. Refuses (bad_argument) tiles that no descriptor can name.
Expected<TileLayout> tile_layout(int bits, std::int64_t rows, std::int64_t columns, bool mn_major);

}  // namespace ptx::arch
