#include "ptx/syntax/index.h"

#include <algorithm>

namespace ptx::syntax {

Index::Index(const Tree& tree) : tree_(tree), lines_{0} {
  const std::string_view text = tree.source();
  for (auto at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
    lines_.push_back(static_cast<std::uint32_t>(at + 1));
  const auto count = static_cast<NodeId>(tree.nodes().size());
  for (NodeId id = 1; id < count;) {
    const Node& node = tree.node(id);
    const bool holds = node.kind == NodeKind::function || node.kind == NodeKind::block ||
                       node.kind == NodeKind::parameters || node.kind == NodeKind::section;
    if (node.kind <= NodeKind::error) statements_.emplace_back(tree.token(node.first).begin, id);
    id = holds ? id + 1 : node.end;
  }
}

std::uint32_t Index::offset(const Place& place) const {
  const auto size = static_cast<std::uint32_t>(tree_.source().size());
  if (place.line == 0 || place.line > lines_.size()) return size;
  return std::min(size, lines_[place.line - 1] + std::max(1u, place.column) - 1);
}

NodeId Index::statement(const Place& place) const {
  const std::uint32_t at = offset(place);
  const auto after = std::upper_bound(statements_.begin(), statements_.end(), std::pair{at, NodeId{0xffffffff}});
  return after != statements_.begin() && after[-1].first == at ? after[-1].second : 0;
}

NodeId Index::operand(NodeId instruction, int which) const {
  for (const NodeId part : tree_.children(instruction)) {
    const NodeKind kind = tree_.node(part).kind;
    if (kind != NodeKind::guard && kind != NodeKind::mnemonic && which-- == 0) return part;
  }
  return 0;
}

Span Index::span(const Place& place, int operand) const {
  const std::uint32_t at = offset(place);
  const NodeId id = statement(place);
  if (id == 0) return {at, at};
  if (tree_.node(id).kind == NodeKind::instruction) {
    const NodeId part = operand >= 0 ? this->operand(id, operand) : 0;
    if (part) return tree_.span(part);
    for (const NodeId child : tree_.children(id)) {
      if (tree_.node(child).kind == NodeKind::mnemonic) return tree_.span(child);
    }
  }
  const Span whole = tree_.span(id);
  const std::string_view text = tree_.source().substr(whole.begin, whole.size());
  const auto line = static_cast<std::uint32_t>(std::min(text.find_first_of("\r\n{"), text.size()));
  return {whole.begin, whole.begin + std::max(1u, line)};
}

void Index::locate(Diagnostics& diagnostics) const {
  for (Diagnostic& d : diagnostics) {
    if (d.span.size() == 0 && d.place.line != 0) d.span = span(d.place, d.operand);
  }
}

}  // namespace ptx::syntax
