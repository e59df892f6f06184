#include "ptx/sim/machine/select.h"

#include "ptx/ir/placed.h"

namespace ptx::sim {

Selection select(const ir::Function& function, const ir::Instruction& instruction) {
  Selection selection{instruction.match, {}};
  ir::each_placed(function, instruction, *instruction.match, [&](const isa::Pattern& pattern, const ir::Operand* o) {
    selection.operands.push_back({&pattern, o});
  });
  return selection;
}

}  // namespace ptx::sim
