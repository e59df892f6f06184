// Text to tree. Parsing never fails: any bytes give a tree that owns them all, and diagnostics where they are no PTX.
// After an error the parser goes on at the next statement, and says one thing a statement.
#pragma once

#include <string>

#include "ptx/base/diagnostic.h"
#include "ptx/syntax/tree.h"

namespace ptx::syntax {

struct Parsed {
  Tree tree;
  Diagnostics diagnostics;  // PTX1001..1099, in the order of the text; the first 1000 that were met
};

// `file` is what the diagnostics' places name. Texts are at most 4 GiB - 1 long; a longer one is one error node.
Parsed parse(std::string text, Name file = {});
// Without a copy: the text must not change while the tree lives.
Parsed parse(std::shared_ptr<const std::string> text, Name file = {});

}  // namespace ptx::syntax
