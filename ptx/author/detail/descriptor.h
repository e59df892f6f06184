// Fields of the descriptors of wgmma and tcgen05 (manual 9.7.15.5.1, 9.7.16.4): each refused at the author's line where
// it does not hold its value.
#pragma once

#include "ptx/arch/descriptor.h"
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
inline std::uint64_t field(Builder& b, std::string_view name, std::int64_t value, arch::BitField in) {
  return field(b, name, value, 0, in.most(), in.at);
}

// An offset in bytes, in units of 16.
inline std::uint64_t offset(Builder& b, std::string_view name, std::int64_t bytes, arch::BitField in) {
  if (bytes < 0 || bytes % 16 != 0 || bytes >> 4 > in.most())
    b.refuse(Code::bad_argument,
             cat(name, " = ", bytes, " does not fit a descriptor: it must be a multiple of 16 up to ", in.most() * 16));
  return in.put(static_cast<std::uint64_t>(bytes >> 4));
}

}  // namespace ptx::author::descriptor
