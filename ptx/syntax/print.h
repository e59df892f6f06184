// Tree to text: each token's trivia and text in order, with the edits. Without edits this is the parsed text.
#pragma once

#include <string>

#include "ptx/syntax/tree.h"

namespace ptx::syntax {

std::string print(const Tree& tree);
// One node, without the trivia before it.
std::string print(const Tree& tree, NodeId node);

}  // namespace ptx::syntax
