// What each piece of a text is, for those who colour it: tokens of the parser by the node that they stand in, and
// comments.
#pragma once

#include <string_view>
#include <vector>

#include "ptx/base/place.h"
#include "ptx/syntax/tree.h"

namespace ptx::syntax {

struct Highlight {
  enum class Kind : std::uint8_t {
    directive,
    opcode,
    modifier,
    type,
    reg,
    name,
    label,
    function,
    number,
    string,
    comment
  };
  static constexpr std::string_view names[] = {"directive", "opcode",   "modifier", "type",   "reg",    "name",
                                               "label",     "function", "number",   "string", "comment"};
  Kind kind;
  Span span;
};

// The pieces of the text in its order; punctuation is left out.
std::vector<Highlight> highlight(const Tree& tree);

}  // namespace ptx::syntax
