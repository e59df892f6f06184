// Which form of a mnemonic the operands of an instruction are for, and which operand stands for which of its patterns.
// It takes any legal instruction to its form; it does not judge legality, that is `check`.
#pragma once

#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::sim {

struct Placed {
  const isa::Pattern* pattern = nullptr;
  const ir::Operand* operand = nullptr;  // nullptr: left out
};

struct Selection {
  const isa::Match* match = nullptr;  // nullptr: no form takes these operands
  std::vector<Placed> operands;       // one for each pattern of the match
};

Selection select(const ir::Function& function, const ir::Instruction& instruction);

}  // namespace ptx::sim
