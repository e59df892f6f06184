#include "ptx/sim/machine/select.h"

#include "ptx/isa/row.h"

namespace ptx::sim {

Selection select(const ir::Function& function, const ir::Instruction& instruction) {
  const isa::Match& match = *instruction.match;
  const auto given = function.operands_of(instruction);
  Selection selection{&match, {}};
  std::size_t at = 0;
  for (std::size_t i = 0; i < match.operands.size(); ++i) {
    const isa::Pattern& p = match.operands[i];
    // The assembler takes some lines with one operand less than their form has: the last is nullptr.
    const bool there = (p.group == 0 || (instruction.groups >> p.group & 1)) && at < given.size();
    const ir::Operand* operand = there ? &given[at++] : nullptr;
    const bool pair = operand && operand->kind == ir::Operand::Kind::pair;
    selection.operands.push_back({&p, pair ? &function.children(*operand)[0] : operand});
    if (p.row->pair)
      selection.operands.push_back({&match.operands[++i], pair ? &function.children(*operand)[1] : nullptr});
    std::uint32_t parts = 0;
    while (i + parts + 1 < match.operands.size() && match.operands[i + parts + 1].row->inner) ++parts;
    // The first of several parts of an address may be left out.
    const std::uint32_t missing = operand && operand->child_count < parts + 1 ? parts + 1 - operand->child_count : 0;
    for (std::uint32_t part = 1; part <= parts; ++part) {
      const bool present = operand && part > missing;
      selection.operands.push_back(
          {&match.operands[++i], present ? &function.children(*operand)[part - missing] : nullptr});
    }
  }
  return selection;
}

}  // namespace ptx::sim
