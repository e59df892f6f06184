// Instructions and operands of the tree to those of ir. Internal to lowering.
#pragma once

#include "ptx/base/diagnostic.h"
#include "ptx/ir/detail/constant.h"
#include "ptx/ir/detail/scope.h"
#include "ptx/ir/ir.h"
#include "ptx/syntax/tree.h"

namespace ptx::ir {

class OperandLowering {
 public:
  OperandLowering(const syntax::Tree& tree, const Module& module, Function& function, const Scope& scope,
                  Diagnostics& diagnostics, const syntax::Lines& lines)
      : tree_(tree), module_(module), function_(function), scope_(scope), diagnostics_(diagnostics), lines_(lines) {}

  // Appends the instruction to the function; false: it cannot stand (its guard is no register), and was reported.
  bool instruction(syntax::NodeId id);

 private:
  bool guard(syntax::NodeId id, Guard& guard);
  std::string_view mnemonic(syntax::NodeId id);
  Operand operand(syntax::NodeId id);
  Operand name(syntax::NodeId id);
  Operand literal(syntax::NodeId id);
  Operand unary(syntax::NodeId id);
  Operand folded(syntax::NodeId id);
  Operand based(syntax::NodeId id);
  Operand index(syntax::NodeId id);
  Operand element(syntax::NodeId id);
  Operand compound(Operand::Kind kind, std::span<const Operand> children, std::int64_t value);
  const Variable* variable(std::string_view name) const;
  Operand address(syntax::NodeId id);
  Operand group(Operand::Kind kind, syntax::NodeId id);
  Operand text(syntax::NodeId id);
  std::uint32_t append(std::span<const Operand> operands);
  bool offset(syntax::NodeId expression, std::int64_t& value);
  void refuse_sign(syntax::NodeId part);
  void refuse(Code code, syntax::NodeId id, std::string message);
  std::string words(syntax::NodeId id) const;

  const syntax::Tree& tree_;
  const Module& module_;
  Function& function_;
  const Scope& scope_;
  Diagnostics& diagnostics_;
  const syntax::Lines& lines_;
  std::vector<Operand> stack_;  // operands whose siblings are not all known yet
  std::string spelled_;         // a mnemonic with space in it
  bool call_ = false;           // `(a)` is a list, not an expression
  bool value_ = false;          // `a[4]` is the address of the element, not the element
};

}  // namespace ptx::ir
