// Types and values of a section's data.
#include "ptx/ir/detail/section.h"

#include <cstdint>
#include <optional>

#include "ptx/base/text.h"
#include "ptx/ir/detail/constant.h"

namespace ptx::ir {

namespace {

using syntax::NodeId;
using syntax::NodeKind;
using syntax::TokenKind;
using syntax::Tree;

int bits_of(std::string_view type) {
  for (const int bits : {8, 16, 32, 64}) {
    if (type == cat(".b", bits)) return bits;
  }
  return 0;
}

// An integer, or one behind a minus.
bool is_integer(const Tree& tree, NodeId id) {
  const syntax::Node& node = tree.node(id);
  const bool minus = node.kind == NodeKind::unary && tree.token(node.first).kind == TokenKind::minus;
  const NodeId number = minus && id + 1 != node.end ? id + 1 : id;
  return tree.node(number).kind == NodeKind::literal && tree.token(tree.node(number).first).kind == TokenKind::integer;
}
bool is_name(const Tree& tree, NodeId id) {
  return tree.node(id).kind == NodeKind::name && tree.text(tree.node(id).first) != "WARP_SZ";
}
// The name of a label, a variable or a section; a sum of one and an integer, a difference of two.
bool is_address(const Tree& tree, NodeId id) {
  const syntax::Node& node = tree.node(id);
  if (node.kind != NodeKind::expression) return is_name(tree, id);
  const NodeId first = id + 1, second = first == node.end ? first : tree.node(first).end;
  if (second >= node.end || tree.node(second).end != node.end || !is_name(tree, first)) return false;
  return tree.token(tree.node(first).last).kind == TokenKind::plus ? is_integer(tree, second) : is_name(tree, second);
}

}  // namespace

std::string wrong_section_data(const Tree& tree, NodeId data) {
  const std::string_view type = tree.text(tree.node(data).first);
  const int bits = bits_of(type);
  if (bits == 0) return cat('`', type, "` is no type of a section's data: .b8, .b16, .b32, .b64");
  const bool several = data + 1 != tree.node(data).end && tree.node(data + 1).end != tree.node(data).end;
  for (const NodeId value : tree.children(data)) {
    const std::string_view written = tree.text(tree.node(value).first);
    const bool integer = is_integer(tree, value);
    if (!integer && bits < 32) return cat('`', written, "`: data of type ", type, " are integers");
    if (!integer && several) return cat('`', written, "`: a name among data stands alone, not in a list");
    if (!integer && !is_address(tree, value))
      return cat('`', written, "`: data of a section are integers, names, a name + an integer, a name - a name");
    if (!integer) continue;
    const auto number = constant(tree, value);
    const std::int64_t most = bits == 64 ? 0 : (std::int64_t{1} << bits) - 1;
    if (!number || (bits < 32 && (number->integer > most || number->integer < -(most + 1) / 2)))
      return cat("a number does not fit type ", type);
  }
  return "";
}

}  // namespace ptx::ir
