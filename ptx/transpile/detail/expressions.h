// Instructions as operators and as calls that make their own register, where those write the same instruction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptx/transpile/detail/operands.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {

class Expressions {
 public:
  // `types`: the author's, of each register that is declared.
  Expressions(Language language, const ir::Function& f, const Plan& plan, std::vector<isa::Type>& types,
              Operands& operands)
      : cpp_(language == Language::cpp), f_(f), plan_(plan), types_(types), operands_(operands) {}

  // What makes the new register that is the first operand: `a + b`. Notes its type.
  std::optional<std::string> made(const ir::Instruction& instruction);
  // `a[i] = b + c`, of an element.
  std::optional<std::string> into_element(const ir::Instruction& instruction);
  // `a += b`, of a register that is there.
  std::optional<std::string> in_place(const ir::Instruction& instruction);
  bool keeps(ir::RegisterId d, isa::Type type) const;  // whether a register of this type is declared as `d` is

 private:
  std::optional<std::string> move(const ir::Instruction& i, ir::RegisterId d);
  std::optional<std::string> parameter(const ir::Instruction& i, ir::RegisterId d);
  std::optional<std::string> compared(const ir::Instruction& i, ir::RegisterId d);
  std::optional<std::string> multiply_add(const ir::Instruction& i, ir::RegisterId d);
  std::optional<std::string> computed(const ir::Instruction& i, ir::RegisterId d);
  std::optional<std::string> shifted(const ir::Instruction& i, ir::RegisterId d);
  // The first source is read as `as`, if that is a type.
  std::optional<std::string> joined(const ir::Instruction& i, std::string_view op, ir::RegisterId d, isa::Type type,
                                    isa::Type as = isa::Type::none);
  std::string_view symbol(const ir::Instruction& i) const;
  isa::Type type_of(const ir::Operand& o) const;  // none: no plain register that is declared
  std::string shown(const ir::Instruction& i, std::size_t n);

  bool cpp_;
  const ir::Function& f_;
  const Plan& plan_;
  std::vector<isa::Type>& types_;
  Operands& operands_;
};

}  // namespace ptx::transpile
