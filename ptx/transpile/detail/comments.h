// The comments of a text, in its order, and which of them belong to a line.
#pragma once

#include <string>
#include <vector>

#include "ptx/syntax/tree.h"

namespace ptx::transpile {

struct Comment {
  std::uint32_t line = 0;
  bool behind = false;  // something stands in front of it on its line
  std::string text;     // one line of it, without // /* */
};

// `marks`: also the lines that compilers write around each piece of inline assembly, half of a kernel that is made of
// such.
std::vector<Comment> comments_of(const syntax::Tree& tree, bool marks);

// The lines that the functions of a module end at, in the order of the text.
std::vector<std::uint32_t> ends_of_functions(const syntax::Tree& tree);

}  // namespace ptx::transpile
