// Fields of the descriptors of wgmma and tcgen05 (manual 9.7.15.5.1, 9.7.16.4): each refused at the author's line where
// it does not hold its value.
#pragma once

#include "ptx/author/builder.h"
#include "ptx/base/text.h"

namespace ptx::author::descriptor {

// `value`, from `low` to `high`, with its lowest bit at `at`.
inline std::uint64_t field(Builder& b, std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high,
                           int at) {
  if (value < low || value > high)
    b.refuse(Code::bad_argument, cat(name, " = ", value, "; legal: ", low, " to ", high));
  return static_cast<std::uint64_t>(value) << at;
}

// An offset in bytes, which 14 bits hold in units of 16.
inline std::uint64_t offset(Builder& b, std::string_view name, std::int64_t bytes, int at) {
  if (bytes < 0 || bytes % 16 != 0 || bytes >> 4 > 0x3fff)
    b.refuse(Code::bad_argument, cat(name, " = ", bytes, " does not fit a descriptor: a multiple of 16 up to 262128"));
  return static_cast<std::uint64_t>(bytes >> 4) << at;
}

}  // namespace ptx::author::descriptor
