#include "ptx/ir/initial.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "ptx/ir/detail/constant.h"
#include "ptx/syntax/parse.h"

namespace ptx::ir {
namespace {

using syntax::NodeId;
using syntax::NodeKind;

class Reader {
 public:
  explicit Reader(const syntax::Tree& tree) : tree_(tree) {}

  bool read(NodeId id) {
    if (tree_.node(id).kind != NodeKind::vector) return element(id);
    out.push_back({Initial::Kind::open});
    for (const NodeId child : tree_.children(id)) {
      if (!read(child)) return false;
    }
    out.push_back({Initial::Kind::close});
    return true;
  }
  std::vector<Initial> out;

 private:
  bool element(NodeId id) {
    Initial value;
    const syntax::Node& node = tree_.node(id);
    const bool applied = node.kind == NodeKind::apply && tree_.node(id + 1).kind == NodeKind::literal;
    if (applied) {  // 0xff(value)
      value.mask = syntax::integer(tree_.text(node.first)).value_or(0);
      id = tree_.node(id + 1).end;
    }
    const int shift = std::countr_zero(value.mask);
    if (applied && (value.mask == 0 || shift % 8 != 0 || value.mask >> shift != 0xff)) return false;
    const bool good = single(id, value) || number(id, value) || address(id, value);
    if (good) out.push_back(value);
    return good;
  }

  bool single(NodeId id, Initial& value) const {
    const syntax::Node& node = tree_.node(id);
    if (node.kind != NodeKind::literal || tree_.token(node.first).kind != syntax::TokenKind::f32_bits) return false;
    const std::string_view text = tree_.text(node.first);
    value.kind = Initial::Kind::single;
    return std::from_chars(text.data() + 2, text.data() + text.size(), value.bits, 16).ec == std::errc();
  }
  bool number(NodeId id, Initial& value) const {
    const auto known = constant(tree_, id);
    if (!known) return false;
    const bool real = known->kind == Constant::Kind::real;
    value.kind = real ? Initial::Kind::real : Initial::Kind::integer;
    value.bits = real ? std::bit_cast<std::uint64_t>(known->real) : static_cast<std::uint64_t>(known->integer);
    return true;
  }
  // g, g + 4, generic(g), generic(g) + 4
  bool address(NodeId id, Initial& value) const {
    value.kind = Initial::Kind::address;
    if (tree_.node(id).kind == NodeKind::expression) {
      const auto offset = constant_offset(tree_, id++);
      if (!offset || offset->kind == Constant::Kind::real) return false;
      value.bits = static_cast<std::uint64_t>(offset->integer);
    }
    if (tree_.node(id).kind == NodeKind::apply) {
      value.generic = tree_.text(tree_.node(id).first) == "generic";
      if (!value.generic) return false;
      id = tree_.node(id + 1).end;  // behind the word
    }
    if (tree_.node(id).kind != NodeKind::name) return false;
    value.name = Name(tree_.text(tree_.node(id).first));
    return true;
  }

  const syntax::Tree& tree_;
};

}  // namespace

std::optional<std::vector<Initial>> initial_values(const std::string& text) {
  const syntax::Parsed parsed = syntax::parse(".global .b8 x[] = " + text + ";");
  if (has_error(parsed.diagnostics)) return {};
  const auto nodes = parsed.tree.nodes();
  const auto at = std::find_if(nodes.begin(), nodes.end(),
                               [](const syntax::Node& node) { return node.kind == NodeKind::initializer; });
  Reader reader(parsed.tree);
  if (at == nodes.end() || !reader.read(static_cast<NodeId>(at - nodes.begin() + 1))) return {};
  return std::move(reader.out);
}

}  // namespace ptx::ir
