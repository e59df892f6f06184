// Instructions as the functions of their family: ptx.mbarrier.try_wait(bar, parity) for
// mbarrier.try_wait.parity.shared.b64 p, [bar], parity. The rows of ptx/author/families say which instruction a call
// makes; here they are read backwards. What two instructions make, or one whose operands say more than a row does, is
// left to the calls that name the instruction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptx/transpile/detail/operands.h"

namespace ptx::transpile {

class FamilyCalls {
 public:
  FamilyCalls(const ir::Function& f, Operands& operands) : f_(f), operands_(operands) {}

  struct Call {
    std::string text;
    isa::Type type = isa::Type::none;  // of the register that it makes and returns
    std::vector<isa::Type> types;      // that it names
  };
  // `makes`: the call makes the register that is the first operand.
  std::optional<Call> call(const ir::Instruction& instruction, bool makes);

  struct Fit;  // how a function makes a mnemonic

 private:
  std::optional<Call> call(const Fit& fit, const ir::Instruction& instruction, bool makes);

  const ir::Function& f_;
  Operands& operands_;
};

}  // namespace ptx::transpile
