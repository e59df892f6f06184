// Evaluation of constant expressions: precedence climbing over the terms and operators of a node.
#include "ptx/ir/detail/constant.h"

#include <bit>
#include <charconv>
#include <cmath>

namespace ptx::ir {
namespace {

using syntax::NodeId;
using syntax::NodeKind;
using syntax::TokenId;
using syntax::TokenKind;
using Kind = Constant::Kind;
using Value = std::optional<Constant>;

Constant signed_value(std::int64_t value) { return {Kind::signed_, value, 0}; }
Constant unsigned_value(std::uint64_t value) { return {Kind::unsigned_, static_cast<std::int64_t>(value), 0}; }
Constant real_value(double value) { return {Kind::real, 0, value}; }
bool is_true(const Constant& value) { return value.integer != 0; }

int precedence(TokenKind kind) {
  switch (kind) {
    case TokenKind::star:
    case TokenKind::slash:
    case TokenKind::percent: return 10;
    case TokenKind::plus:
    case TokenKind::minus: return 9;
    case TokenKind::shift_left:
    case TokenKind::shift_right: return 8;
    case TokenKind::less:
    case TokenKind::greater:
    case TokenKind::less_equal:
    case TokenKind::greater_equal: return 7;
    case TokenKind::equal_equal:
    case TokenKind::not_equal: return 6;
    case TokenKind::ampersand: return 5;
    case TokenKind::caret: return 4;
    case TokenKind::bar: return 3;
    case TokenKind::and_and: return 2;
    case TokenKind::or_or: return 1;
    default: return 0;
  }
}

Value real_operation(TokenKind op, double a, double b) {
  switch (op) {
    case TokenKind::star: return real_value(a * b);
    case TokenKind::slash: return b == 0 ? Value() : real_value(a / b);
    case TokenKind::plus: return real_value(a + b);
    case TokenKind::minus: return real_value(a - b);
    case TokenKind::less: return signed_value(a < b);
    case TokenKind::greater: return signed_value(a > b);
    case TokenKind::less_equal: return signed_value(a <= b);
    case TokenKind::greater_equal: return signed_value(a >= b);
    case TokenKind::equal_equal: return signed_value(a == b);
    case TokenKind::not_equal: return signed_value(a != b);
    default: return {};
  }
}

template <class T>
Value ordered(TokenKind op, T a, T b) {
  switch (op) {
    case TokenKind::less: return signed_value(a < b);
    case TokenKind::greater: return signed_value(a > b);
    case TokenKind::less_equal: return signed_value(a <= b);
    default: return signed_value(a >= b);
  }
}

// Shifts by 64 and more shift everything out.
Value shift(TokenKind op, const Constant& a, std::uint64_t by) {
  const auto bits = static_cast<std::uint64_t>(a.integer);
  Constant result = a;
  if (op == TokenKind::shift_left) {
    result.integer = by > 63 ? 0 : static_cast<std::int64_t>(bits << by);
  } else if (a.kind == Kind::signed_) {
    result.integer = a.integer >> (by > 63 ? 63 : by);
  } else {
    result.integer = by > 63 ? 0 : static_cast<std::int64_t>(bits >> by);
  }
  return result;
}

Value integer_operation(TokenKind op, const Constant& left, const Constant& right) {
  const auto a = static_cast<std::uint64_t>(left.integer), b = static_cast<std::uint64_t>(right.integer);
  const bool is_signed = left.kind == Kind::signed_ && right.kind == Kind::signed_;
  const auto usual = [&](std::uint64_t bits) {
    return Constant{is_signed ? Kind::signed_ : Kind::unsigned_, static_cast<std::int64_t>(bits), 0};
  };
  switch (op) {
    case TokenKind::star: return usual(a * b);
    case TokenKind::plus: return usual(a + b);
    case TokenKind::minus: return usual(a - b);
    case TokenKind::slash:
      if (b == 0) return {};
      if (!is_signed) return unsigned_value(a / b);
      return right.integer == -1 ? usual(0 - a) : signed_value(left.integer / right.integer);
    case TokenKind::percent:
      if (b == 0) return {};
      return signed_value(static_cast<std::int64_t>(a % b));
    case TokenKind::shift_left:
    case TokenKind::shift_right: return shift(op, left, b);
    case TokenKind::ampersand: return unsigned_value(a & b);
    case TokenKind::caret: return unsigned_value(a ^ b);
    case TokenKind::bar: return unsigned_value(a | b);
    case TokenKind::equal_equal: return signed_value(a == b);
    case TokenKind::not_equal: return signed_value(a != b);
    case TokenKind::and_and: return signed_value(a != 0 && b != 0);
    case TokenKind::or_or: return signed_value(a != 0 || b != 0);
    default: return is_signed ? ordered(op, left.integer, right.integer) : ordered(op, a, b);
  }
}

Value binary(TokenKind op, const Value& a, const Value& b) {
  if (!a || !b || (a->kind == Kind::real) != (b->kind == Kind::real)) return {};
  return a->kind == Kind::real ? real_operation(op, a->real, b->real) : integer_operation(op, *a, *b);
}

class Evaluator {
 public:
  explicit Evaluator(const syntax::Tree& tree) : tree_(tree) {}

  Value term(NodeId id) const {
    const syntax::Node& node = tree_.node(id);
    switch (node.kind) {
      case NodeKind::literal: return literal(node.first);
      case NodeKind::name: return tree_.text(node.first) == "WARP_SZ" ? Value(signed_value(32)) : Value();
      case NodeKind::unary: return unary(id);
      case NodeKind::list: return id + 1 != node.end && tree_.node(id + 1).end == node.end ? term(id + 1) : Value();
      case NodeKind::expression: return expression(id + 1, node.end);
      default: return {};
    }
  }

  // Terms with operators between.
  Value expression(NodeId first, NodeId end) const {
    Terms terms(*this, first, end);
    const Value value = terms.ternary();
    return terms.complete() ? value : Value();
  }

 private:
  // The terms of one expression node, with the operators between them.
  class Terms {
   public:
    Terms(const Evaluator& evaluator, NodeId first, NodeId end) : evaluator_(evaluator), end_(end), next_(first) {}

    // c ? a : b, right to left.
    Value ternary() {
      const Value condition = operation(1);
      if (op() != TokenKind::question || ++depth_ > max_depth) return condition;
      const Value yes = ternary();
      if (op() != TokenKind::colon) return {};
      const Value no = ternary();
      // The manual lets it choose between floating-point values, the assembler does not.
      const auto is_real = [](const Value& v) { return !v || v->kind == Kind::real; };
      if (is_real(condition) || is_real(yes) || is_real(no)) return {};
      Value chosen = is_true(*condition) ? yes : no;
      if (yes->kind == Kind::unsigned_ || no->kind == Kind::unsigned_) chosen->kind = Kind::unsigned_;
      return chosen;
    }
    bool complete() const { return depth_ <= max_depth; }

   private:
    static constexpr int max_depth = 100;

    Value operation(int least) {
      Value left = operand();
      for (int level = precedence(op()); level >= least && level > 0; level = precedence(op())) {
        const TokenKind kind = op();
        left = binary(kind, left, operation(level + 1));
      }
      return left;
    }
    Value operand() {
      if (next_ == end_) return {};
      const Value value = evaluator_.term(next_);
      last_ = evaluator_.tree_.node(next_).last;
      next_ = evaluator_.tree_.node(next_).end;
      return value;
    }
    // The operator after the last operand; `end` after the last of all.
    TokenKind op() const { return next_ == end_ ? TokenKind::end : evaluator_.tree_.token(last_).kind; }

    const Evaluator& evaluator_;
    const NodeId end_;
    NodeId next_;
    TokenId last_ = 0;
    int depth_ = 0;
  };

  Value literal(TokenId id) const {
    const std::string_view text = tree_.text(id);
    switch (tree_.token(id).kind) {
      case TokenKind::integer: {
        const auto value = syntax::integer(text);
        if (!value) return {};
        return text.back() == 'U' || *value >> 63 ? unsigned_value(*value)
                                                  : signed_value(static_cast<std::int64_t>(*value));
      }
      case TokenKind::real: {
        return real_value(real(text).value_or(0));  // refused where the module is read
      }
      case TokenKind::f64_bits: {
        std::uint64_t bits = 0;
        std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
        return real_value(std::bit_cast<double>(bits));
      }
      default: return {};
    }
  }

  Value unary(NodeId id) const {
    const syntax::Node& node = tree_.node(id);
    if (id + 1 == node.end) return {};
    Value value = term(id + 1);
    if (!value) return {};
    const TokenKind op = tree_.token(node.first).kind;
    if (op == TokenKind::plus) return value;
    if (op == TokenKind::minus) {
      value->integer = static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(value->integer));
      value->real = -value->real;
      return value;
    }
    if (value->kind == Kind::real) return {};
    if (op == TokenKind::bang) return signed_value(value->integer == 0);
    if (op == TokenKind::tilde) return unsigned_value(~static_cast<std::uint64_t>(value->integer));
    const std::string_view cast = tree_.text(node.first + 1);
    if (cast != ".s64" && cast != ".u64") return {};
    value->kind = cast == ".s64" ? Kind::signed_ : Kind::unsigned_;
    return value;
  }

  const syntax::Tree& tree_;
};

}  // namespace

std::optional<double> real(std::string_view literal) {
  double value = 0;
  const auto result = std::from_chars(literal.data(), literal.data() + literal.size(), value);
  if (result.ec == std::errc::result_out_of_range || std::fpclassify(value) == FP_SUBNORMAL) return {};
  return value;
}

std::optional<Constant> constant_offset(const syntax::Tree& tree, NodeId expression) {
  const syntax::Node& node = tree.node(expression);
  const syntax::Node& first = tree.node(expression + 1);
  if (first.end >= node.end || tree.token(first.last).kind != TokenKind::plus) return {};
  return Evaluator(tree).expression(first.end, node.end);
}

std::optional<Constant> constant(const syntax::Tree& tree, syntax::NodeId node) { return Evaluator(tree).term(node); }

}  // namespace ptx::ir
