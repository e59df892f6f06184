// From the places that ir and check name back to the bytes of a text: which statement begins there, and which of its
// parts is meant.
#pragma once

#include <utility>
#include <vector>

#include "ptx/base/diagnostic.h"
#include "ptx/syntax/tree.h"

namespace ptx::syntax {

class Index {
 public:
  explicit Index(const Tree& tree);  // which must live as long as this

  std::uint32_t offset(const Place& place) const;  // of a byte; a place outside of the text is its end
  // The innermost statement whose first token stands at a place; 0: there is none.
  NodeId statement(const Place& place) const;
  // Operand `operand` of an instruction, or its mnemonic where that is -1; the part of any other statement that stands
  // on its first line. Where nothing begins at the place, no bytes there.
  Span span(const Place& place, int operand = -1) const;
  NodeId operand(NodeId instruction, int which) const;  // 0: it has no such operand

  // Gives a span to those diagnostics that have none.
  void locate(Diagnostics& diagnostics) const;

 private:
  const Tree& tree_;
  std::vector<std::uint32_t> lines_;                          // offset of each
  std::vector<std::pair<std::uint32_t, NodeId>> statements_;  // (offset, node)
};

}  // namespace ptx::syntax
