#include "ptx/arch/descriptor.h"

#include "ptx/base/text.h"

namespace ptx::arch {

namespace {

Diagnostic refuse(std::string text) { return Diagnostic(Code::bad_argument, Place{}, std::move(text)); }

std::string codes_of(const DescriptorFormat& format) {
  std::string text;
  for (const SwizzleInfo& row : swizzle_table) {
    if (row.*format.code != no_code) text += cat(text.empty() ? "" : ", ", row.*format.code, " (", row.name, ")");
  }
  return text;
}

}  // namespace

Expected<MatrixDescriptor> read_descriptor(const DescriptorFormat& format, std::uint64_t bits) {
  MatrixDescriptor d;
  d.start = format.start.of(bits) * 16;
  d.leading = format.leading.of(bits) * 16;
  d.stride = format.stride.of(bits) * 16;
  d.base_offset = format.base_offset.of(bits);
  d.absolute = format.absolute.of(bits) != 0;
  if (const std::uint32_t version = format.version.of(bits); format.version.bits != 0 && version != 1)
    return refuse(cat("version (bits ", format.version.at, " to ", format.version.at + format.version.bits - 1,
                      ") = ", version, "; it is 1"));
  if (const std::uint32_t other = format.zero.of(bits); other != 0)
    return refuse(
        cat("bits ", format.zero.at, " to ", format.zero.at + format.zero.bits - 1, " = ", other, "; they are 0"));
  const std::uint32_t code = format.swizzle.of(bits);
  bool found = false;
  for (std::size_t i = 0; i < std::size(swizzle_table); ++i) {
    if (swizzle_table[i].*format.code != static_cast<std::int16_t>(code)) continue;
    d.swizzle = static_cast<Swizzle>(i), found = true;
  }
  if (!found) return refuse(cat("swizzle = ", code, "; legal: ", codes_of(format)));
  const SwizzleInfo& s = info(d.swizzle);
  if (d.absolute && (d.swizzle != Swizzle::b128 || d.base_offset != 0))
    return refuse("leading dimension stride mode = 1 (an address) needs the swizzle 128B and the base offset 0");
  if (d.base_offset == 0) return d;
  if (d.swizzle == Swizzle::none) return refuse(cat("base_offset = ", d.base_offset, " without a swizzle"));
  const std::uint32_t phases = s.alignment / 128, phase = d.start / 128 % phases;
  if (phase != d.base_offset % phases)
    return refuse(cat("base_offset = ", d.base_offset, " with the start address ", d.start, " and the swizzle ", s.name,
                      ": a pattern that starts there has ", phase == 0 ? 0 : d.start / 128 % 8));
  return d;
}

}  // namespace ptx::arch
