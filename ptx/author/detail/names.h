// Names: what the author may call a register, an allocation or a label, and names as operands.
#pragma once

#include <algorithm>
#include <string_view>

#include "ptx/author/builder.h"
#include "ptx/base/text.h"

namespace ptx::author {

// Refuses a name that is none of PTX, which the text would not survive.  [PTX ISA 4.4]
inline void check_name(const Builder& b, std::string_view what, std::string_view name) {
  const auto goes_on = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
  };
  const bool begins = !name.empty() && !(name[0] >= '0' && name[0] <= '9') && (goes_on(name[0]) || name[0] == '%');
  const bool alone = name == "_" || name == "%";
  if (begins && !alone && std::all_of(name.begin() + 1, name.end(), goes_on)) return;
  b.refuse(Code::bad_argument,
           cat("`", name, "` is no name of ", what,
               ": letters, digits, _ and $, and no digit in front; % in front of the first; not _ or % alone"));
}

inline Operand symbol(Name name) {
  Operand o;
  o.ir.kind = ir::Operand::Kind::symbol;
  o.ir.id = name.id();
  return o;
}

}  // namespace ptx::author
