// Tree to text in one layout, that of ir::emit: a statement a line behind a tab; labels, braces and what stands outside
// of functions at the margin; parameters a line each. Tokens stay as they are written, and so do comments: a comment
// with a line of its own keeps one, a comment behind a statement stays there. Formatting twice changes nothing.
#pragma once

#include <string>

#include "ptx/syntax/tree.h"

namespace ptx::syntax {

struct FormatOptions {
  bool comments = true;
  bool blank_lines = true;  // one is kept where there are some; before a function there is one always
};

// What the parser could not read stays as it stands. Lines end in \n.
std::string format(const Tree& tree, const FormatOptions& options = {});

}  // namespace ptx::syntax
