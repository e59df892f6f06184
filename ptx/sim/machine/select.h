// Which operand of an instruction stands for which pattern of its match. What fits is `check`'s finding: it has set the
// match and the groups of optional operands that there are.
#pragma once

#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::sim {

struct Placed {
  const isa::Pattern* pattern = nullptr;
  const ir::Operand* operand = nullptr;  // nullptr: left out
};

struct Selection {
  const isa::Match* match = nullptr;
  std::vector<Placed> operands;  // one for each pattern of the match
};

// The instruction has a match.
Selection select(const ir::Function& function, const ir::Instruction& instruction);

}  // namespace ptx::sim
