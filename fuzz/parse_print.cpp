// Any bytes: the tree prints them back and holds together; it lowers, and what it emits is read as the same text.
#include <cstdint>
#include <cstdlib>

#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"
#include "ptx/syntax/print.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto parsed = ptx::syntax::parse(text);
  auto& tree = parsed.tree;
  if (ptx::syntax::print(tree) != text) std::abort();
  const auto nodes = tree.nodes();
  for (ptx::syntax::NodeId id = 0; id < nodes.size(); ++id) {
    const auto& node = nodes[id];
    if (node.end <= id || node.end > nodes.size() || node.first > node.last || node.last > tree.tokens().size())
      std::abort();
    for (const auto child : tree.children(id)) {
      if (nodes[child].first < node.first || nodes[child].last > node.last || nodes[child].end > node.end) std::abort();
    }
  }
  if (parsed.diagnostics.empty()) {
    const auto lowered = ptx::ir::lower(tree);
    const std::string emitted = ptx::ir::emit(lowered.module);
    const auto again = ptx::ir::lower(ptx::syntax::parse(emitted).tree);
    if (lowered.diagnostics.empty() && ptx::ir::emit(again.module) != emitted) std::abort();
  } else {
    (void)ptx::ir::emit(ptx::ir::lower(tree).module);
  }
  for (const auto statement : tree.children(0)) {
    tree.insert_before(statement, "ret;");
    tree.remove(statement);
    break;
  }
  (void)ptx::syntax::print(tree);
  return 0;
}
