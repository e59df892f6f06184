// The initial value of a variable (manual 5.4.4) as a list: braces, and the value of each element. Constant expressions
// are evaluated by the rules of operands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptx/base/names.h"

namespace ptx::ir {

struct Initial {
  enum class Kind : std::uint8_t {
    open,
    close,
    integer,  // `bits`
    real,     // `bits` are those of a double
    single,   // `bits` are those of a float
    address,  // of `name`, plus `bits`
  } kind = Kind::integer;
  std::uint64_t bits = 0;
  Name name{};
  bool generic = false;    // generic(name)
  std::uint64_t mask = 0;  // 0xff00(value): the bits of the value that are taken, moved to the lowest; 0: all
};

// The values in the text behind `=`; nothing if a part of it has no value.
std::optional<std::vector<Initial>> initial_values(const std::string& text);

}  // namespace ptx::ir
