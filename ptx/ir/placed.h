// Which operand of an instruction stands for which pattern of its match. What fits is `check`'s finding: it has set the
// match and the groups of optional operands that there are.
#pragma once

#include "ptx/ir/ir.h"

namespace ptx::ir {

// Calls take(pattern, operand) for each pattern of `match` in the row's order: parts of a pair and of an address have
// patterns of their own. The operand is nullptr where it is left out.
template <class Take>
void each_placed(const Function& function, const Instruction& instruction, const isa::Match& match, Take take) {
  const auto given = function.operands_of(instruction);
  std::size_t at = 0;
  for (std::size_t i = 0; i < match.operands.size(); ++i) {
    const isa::Pattern& p = match.operands[i];
    // The assembler takes some lines with one operand less than their form has: the last is nullptr.
    const bool there = (p.group == 0 || (instruction.groups >> p.group & 1)) && at < given.size();
    const Operand* operand = there ? &given[at++] : nullptr;
    const bool pair = operand && operand->kind == Operand::Kind::pair;
    take(p, pair ? &function.children(*operand)[0] : operand);
    if (p.row->pair) take(match.operands[++i], pair ? &function.children(*operand)[1] : nullptr);
    std::uint32_t parts = 0;
    while (i + parts + 1 < match.operands.size() && match.operands[i + parts + 1].row->inner) ++parts;
    // The first of several parts of an address may be left out.
    const std::uint32_t missing = operand && operand->child_count < parts + 1 ? parts + 1 - operand->child_count : 0;
    for (std::uint32_t part = 1; part <= parts; ++part) {
      const bool present = operand && part > missing;
      take(match.operands[++i], present ? &function.children(*operand)[part - missing] : nullptr);
    }
  }
}

}  // namespace ptx::ir
