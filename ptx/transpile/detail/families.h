// Instructions as the functions of their family: ptx.mbarrier.try_wait(bar, parity) for
// mbarrier.try_wait.parity.shared.b64 p, [bar], parity. The rows of ptx/author/families say which instruction a call
// makes; here they are read backwards. C++ has the functions that are code (WRITES). What two instructions make is left
// to the calls that name the instruction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptx/author/template.h"
#include "ptx/transpile/detail/operands.h"

namespace ptx::transpile {

class FamilyCalls {
 public:
  FamilyCalls(Language language, const ir::Function& f, Operands& operands)
      : cpp_(language == Language::cpp), f_(f), operands_(operands) {}

  struct Call {
    std::string text;
    isa::Type type = isa::Type::none;  // of the register that it makes and returns
    std::vector<isa::Type> types;      // that it names
  };
  // `makes`: the call makes the register that is the first operand.
  std::optional<Call> call(const ir::Instruction& instruction, bool makes);

  // Whether a function writes it in a loop that ends when its first operand is true; and the call of that, which makes
  // that register. `set`: options of the function that are true, or "".
  static bool is_waited(const isa::Mnemonic& mnemonic, Language language);
  std::optional<Call> waiting(const ir::Instruction& instruction, std::initializer_list<std::string_view> set);

  struct Fit;  // how a function makes a mnemonic

 private:
  std::optional<Call> call(const Fit& fit, const ir::Instruction& instruction, bool makes,
                           std::initializer_list<std::string_view> set = {});
  bool shown(std::string& out, const author::families::Parameter& p, const ir::Operand& o,
             const ir::Instruction& instruction);

  const bool cpp_;
  const ir::Function& f_;
  Operands& operands_;
};

}  // namespace ptx::transpile
