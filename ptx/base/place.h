// Where something was written: a file, a line, a column. Column 0 = unknown, line 0 = nowhere.
#pragma once

#include <cstdint>

#include "ptx/base/names.h"

namespace ptx {

struct Place {
  Name file;
  std::uint32_t line = 0;    // from 1
  std::uint32_t column = 0;  // from 1
  friend bool operator==(const Place&, const Place&) = default;
};

// Bytes [begin, end) of one source text.
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

}  // namespace ptx
