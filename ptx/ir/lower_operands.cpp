// Instructions and operands: names to registers, special registers or symbols; constants folded; what is neither stays
// as text.
#include "ptx/ir/detail/lower_operands.h"

#include <bit>
#include <charconv>
#include <limits>
#include <utility>

#include "ptx/base/text.h"

namespace ptx::ir {

using syntax::NodeId;
using syntax::NodeKind;
using syntax::TokenId;
using syntax::TokenKind;

namespace {

// .x .y .z .w, or .r .g .b .a; 0xff for other selectors.
std::uint8_t component(std::string_view selector) {
  if (selector.size() != 2) return 0xff;
  const auto at = std::string_view("xyzwrgba").find(selector[1]);
  return at == std::string_view::npos ? 0xff : static_cast<std::uint8_t>(at % 4);
}

Operand integer_operand(const Constant& value) {
  Operand o;
  o.kind = Operand::Kind::integer;
  o.value = value.integer;
  // The smallest signed number cannot be written as one: its digits alone are unsigned.
  o.wide = (value.kind == Constant::Kind::unsigned_ && value.integer < 0) ||
           value.integer == std::numeric_limits<std::int64_t>::min();
  return o;
}

Operand symbol(Name name) {
  Operand o;
  o.kind = Operand::Kind::symbol;
  o.id = name.id();
  return o;
}

}  // namespace

void OperandLowering::refuse(Code code, NodeId id, std::string message) {
  const Span span = tree_.span(id);
  diagnostics_.emplace_back(code, lines_.place(span.begin), std::move(message));
  diagnostics_.back().span = span;
}

std::string OperandLowering::words(NodeId id) const {
  const syntax::Node& node = tree_.node(id);
  std::string out;
  for (TokenId token = node.first; token != node.last; ++token) {
    if (token != node.first && !tree_.trivia(token).empty()) out += ' ';
    out += tree_.text(token);
  }
  return out;
}

bool OperandLowering::instruction(NodeId id) {
  Instruction i;
  const std::size_t base = stack_.size();
  for (const NodeId part : tree_.children(id)) {
    switch (tree_.node(part).kind) {
      case NodeKind::guard:
        if (!guard(part, i.guard)) return false;
        break;
      case NodeKind::mnemonic:
        i.mnemonic = isa::resolve(mnemonic(part));
        call_ = i.mnemonic->is(isa::Trait::calls);
        value_ = i.mnemonic->is(isa::Trait::element_addresses);
        break;
      default: stack_.push_back(operand(part)); break;
    }
  }
  i.count = static_cast<std::uint32_t>(stack_.size() - base);
  i.first = append({stack_.data() + base, i.count});
  stack_.resize(base);
  function_.instructions.push_back(i);
  return true;
}

bool OperandLowering::guard(NodeId id, Guard& guard) {
  const syntax::Node& node = tree_.node(id);
  guard.negated = tree_.token(node.first + 1).kind == TokenKind::bang;
  const std::string_view name = tree_.text(node.last - 1);
  guard.reg = scope_.find(name);
  if (guard.reg != no_id) return true;
  refuse(Code::undeclared_guard, id, cat("`", name, "` is not declared as a register here"));
  return false;
}

std::string_view OperandLowering::mnemonic(NodeId id) {
  const syntax::Node& node = tree_.node(id);
  const Span span = tree_.span(id);
  bool whole = true;
  for (TokenId token = node.first; token != node.last; ++token) {
    whole = whole && !tree_.token(token).edited && (token == node.first || tree_.trivia(token).empty());
  }
  if (whole) return tree_.source().substr(span.begin, span.size());
  spelled_.clear();
  for (TokenId token = node.first; token != node.last; ++token) spelled_ += tree_.text(token);
  return spelled_;
}

std::uint32_t OperandLowering::append(std::span<const Operand> operands) {
  const auto first = static_cast<std::uint32_t>(function_.operands.size());
  function_.operands.insert(function_.operands.end(), operands.begin(), operands.end());
  return first;
}

Operand OperandLowering::operand(NodeId id) {
  switch (tree_.node(id).kind) {
    case NodeKind::name: return name(id);
    case NodeKind::literal: return literal(id);
    case NodeKind::sink: {
      Operand o;
      o.kind = Operand::Kind::sink;
      return o;
    }
    case NodeKind::address: return address(id);
    case NodeKind::vector: return group(Operand::Kind::vector, id);
    case NodeKind::pair: return group(Operand::Kind::pair, id);
    case NodeKind::unary: return unary(id);
    case NodeKind::expression: return based(id);
    case NodeKind::index: return index(id);
    case NodeKind::list:
      if (!call_ && constant(tree_, id)) return folded(id);
      return group(Operand::Kind::list, id);
    default: return text(id);
  }
}

Operand OperandLowering::text(NodeId id) {
  Operand o;
  o.kind = Operand::Kind::text;
  o.id = Name(words(id)).id();
  return o;
}

Operand OperandLowering::name(NodeId id) {
  const syntax::Node& node = tree_.node(id);
  const std::string_view word = tree_.text(node.first);
  const bool selected = node.last - node.first > 1;
  Operand o;
  o.id = scope_.find(word);
  if (o.id != no_id) {
    o.kind = Operand::Kind::reg;
    if (!selected) return o;
    o.component = component(tree_.text(node.last - 1));
    const std::uint8_t elements = function_.registers[o.id].vector;
    if (elements > 1 && o.component < elements) return o;
    o.component = Operand::part;  // %r1.b0 of the video instructions
    o.value = Name(tree_.text(node.last - 1).substr(1)).id();
    return o;
  }
  if (!selected && word[0] != '%') return symbol(Name(word));
  const std::string full = selected ? cat(word, tree_.text(node.last - 1)) : std::string(word);
  o = symbol(Name(full));
  if (isa::special_register(full)) o.kind = Operand::Kind::special;
  return o;
}

Operand OperandLowering::literal(NodeId id) {
  const TokenId token = tree_.node(id).first;
  const std::string_view written = tree_.text(token);
  if (tree_.token(token).kind == TokenKind::f32_bits) {
    Operand o;
    o.kind = Operand::Kind::f32;
    std::from_chars(written.data() + 2, written.data() + written.size(), o.bits, 16);
    return o;
  }
  if (tree_.token(token).kind == TokenKind::integer && !syntax::integer(written)) {
    refuse(Code::integer_overflow, id, cat("`", written, "` does not fit 64 bits"));
    return integer_operand({});
  }
  return folded(id);
}

// A constant as its value; anything else as its text.
Operand OperandLowering::folded(NodeId id) {
  const auto value = constant(tree_, id);
  if (!value) return text(id);
  if (value->kind != Constant::Kind::real) return integer_operand(*value);
  Operand o;
  o.kind = Operand::Kind::f64;
  o.bits = std::bit_cast<std::uint64_t>(value->real);
  return o;
}

Operand OperandLowering::unary(NodeId id) {
  const syntax::Node& node = tree_.node(id);
  const bool bang = tree_.token(node.first).kind == TokenKind::bang;
  if (bang && id + 1 != node.end && tree_.node(id + 1).kind == NodeKind::name) {
    Operand o = name(id + 1);
    if (o.kind == Operand::Kind::reg || o.kind == Operand::Kind::symbol) return o.negated = true, o;
  }
  const bool minus = tree_.token(node.first).kind == TokenKind::minus;
  if (minus && id + 1 != node.end && tree_.node(id + 1).kind == NodeKind::name) {
    Operand o = name(id + 1);
    if (o.kind == Operand::Kind::reg) return o.minus = true, o;
  }
  if (!constant(tree_, id)) {
    refuse(Code::negated_operand, id,
           cat("`", words(id), "`: a sign stands in front of numbers, and of registers in vmad"));
  }
  return folded(id);
}

// In an address and in a vector a sign stands in front of numbers alone.
void OperandLowering::refuse_sign(NodeId part) {
  if (tree_.node(part).kind != NodeKind::unary || constant(tree_, part)) return;
  refuse(Code::negated_operand, part,
         cat("`", words(part), "`: in an address and in a vector a sign stands in front of numbers alone"));
}

// The sum after a name: x + 4 * 2.
bool OperandLowering::offset(NodeId expression, std::int64_t& value) {
  const auto rest = constant_offset(tree_, expression);
  if (!rest || rest->kind == Constant::Kind::real) return false;
  value = rest->integer;
  return true;
}

Operand OperandLowering::based(NodeId id) {
  if (id + 1 != tree_.node(id).end && tree_.node(id + 1).kind == NodeKind::name && !constant(tree_, id)) {
    Operand o = name(id + 1);
    std::int64_t added = 0;
    if (o.kind == Operand::Kind::symbol && offset(id, o.value)) return o;
    if (o.kind == Operand::Kind::reg && offset(id, added)) return compound(Operand::Kind::sum, {{o}}, added);
  }
  return folded(id);
}

const Variable* OperandLowering::variable(std::string_view name) const {
  for (const std::vector<Variable>* list :
       {&std::as_const(function_.variables), &std::as_const(function_.parameters), &module_.variables}) {
    for (auto v = list->rbegin(); v != list->rend(); ++v) {
      if (v->name.view() == name) return &*v;
    }
  }
  return nullptr;
}

// An element of an array, a[4], as a + 4 elements; ptxas scales so. With an index in a register it stays an element.
Operand OperandLowering::index(NodeId id) {
  const auto at = constant(tree_, tree_.node(id + 1).end);
  const Variable* array = variable(tree_.text(tree_.node(id).first));
  if (!at && array) return element(id);
  if (!at || at->kind == Constant::Kind::real || !array || array->dims.size() != 1 || !array->opaque.empty()) {
    return text(id);
  }
  Operand o = symbol(array->name);
  const std::int64_t offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(at->integer) *
                                                        (isa::info(array->type).bits / 8 * array->vector));
  if (value_) return o.value = offset, o;
  return compound(Operand::Kind::address, {&o, 1}, offset);
}

Operand OperandLowering::element(NodeId id) {
  const NodeId index = tree_.node(id + 1).end;
  const bool sum = tree_.node(index).kind == NodeKind::expression;
  std::int64_t added = 0;
  const Operand at = operand(sum ? index + 1 : index);
  if (at.kind != Operand::Kind::reg || (sum && !offset(index, added))) return text(id);
  return compound(Operand::Kind::element, {{operand(id + 1), at}}, added);
}

Operand OperandLowering::compound(Operand::Kind kind, std::span<const Operand> children, std::int64_t value) {
  Operand o;
  o.kind = kind;
  o.value = value;
  o.child_count = static_cast<std::uint32_t>(children.size());
  o.id = append(children);
  return o;
}

Operand OperandLowering::address(NodeId id) {
  const syntax::Node& node = tree_.node(id);
  Operand o;
  o.kind = Operand::Kind::address;
  o.unified = tree_.text(node.last - 1) == ".unified";
  if (!o.unified && tree_.token(node.last - 1).kind != TokenKind::right_bracket) return text(id);
  const std::size_t base = stack_.size();
  for (const NodeId part : tree_.children(id)) {
    const syntax::Node& child = tree_.node(part);
    refuse_sign(part);
    const bool sum = stack_.size() == base && child.kind == NodeKind::expression && !constant(tree_, part) &&
                     tree_.node(part + 1).kind == NodeKind::name && offset(part, o.value);
    stack_.push_back(operand(sum ? part + 1 : part));
  }
  o.child_count = static_cast<std::uint32_t>(stack_.size() - base);
  o.id = append({stack_.data() + base, o.child_count});
  stack_.resize(base);
  return o;
}

Operand OperandLowering::group(Operand::Kind kind, NodeId id) {
  Operand o;
  o.kind = kind;
  const std::size_t base = stack_.size();
  for (const NodeId part : tree_.children(id)) {
    if (kind == Operand::Kind::vector) refuse_sign(part);
    stack_.push_back(operand(part));
  }
  o.child_count = static_cast<std::uint32_t>(stack_.size() - base);
  o.id = append({stack_.data() + base, o.child_count});
  stack_.resize(base);
  return o;
}

}  // namespace ptx::ir
