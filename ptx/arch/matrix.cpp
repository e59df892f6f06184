#include "ptx/arch/matrix.h"

#include <algorithm>

#include "ptx/base/text.h"

namespace ptx::arch {

std::optional<Swizzle> swizzle_named(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  if (upper.empty()) return Swizzle::none;
  for (std::size_t i = 0; i < std::size(swizzle_table); ++i)
    if (swizzle_table[i].name == upper) return static_cast<Swizzle>(i);
  return {};
}

std::string swizzle_names(std::int16_t SwizzleInfo::* code) {
  std::string names;
  for (const SwizzleInfo& row : swizzle_table)
    if (row.*code != no_code) names += cat(names.empty() ? "" : ", ", row.name);
  return names;
}

Expected<TileLayout> tile_layout(int bits, std::int64_t rows, std::int64_t columns, bool mn_major) {
  const auto refuse = [](std::string text) { return Diagnostic(Code::bad_argument, Place{}, std::move(text)); };
  // Either way the rows are counted in core matrices of 8.
  if (rows <= 0 || rows % 8 != 0)
    return refuse(
        cat(mn_major ? "an MN-major operand needs K divisible by 8" : "a K-major operand needs M divisible by 8",
            " (core matrices have 8 rows), not ", rows));
  const std::int64_t row_bits = columns * bits, width = row_bits / 8;
  TileLayout made;
  made.mn_major = mn_major;
  if (row_bits % 8 == 0 && width == 32)
    made.swizzle = Swizzle::b32;
  else if (row_bits % 8 == 0 && width == 64)
    made.swizzle = Swizzle::b64;
  else if (row_bits % 8 == 0 && width > 0 && width % 128 == 0)
    made.swizzle = Swizzle::b128;
  else if (row_bits != 16 * 8)
    return refuse(cat("rows of ", columns, " elements of ", bits, " bits (", width,
                      " bytes) are not one of the canonical widths 16, 32, 64 or a multiple of 128 bytes"));
  const auto bytes = static_cast<std::uint32_t>(width);
  made.leading = 16, made.stride = 8 * bytes;
  if (width > 128)
    made.leading = static_cast<std::uint32_t>(rows) * 128, made.stride = 1024;
  else if (mn_major && width == 16)
    made.leading = 8 * bytes, made.stride = 16;
  return made;
}

}  // namespace ptx::arch
