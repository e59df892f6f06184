// Rules of the video and stack instructions.
#include <bit>

#include "ptx/base/text.h"
#include "ptx/check/detail/rules.h"

namespace ptx::check::rules {

using ir::Operand;

// 9.7.18.1.3: -(a*b) + c, or a*b - c.
Broken vmad_signs(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  const auto operands = view.function.operands_of(instruction);
  if (!operands[3].minus || (!operands[1].minus && !operands[2].minus)) return {};
  return {Code::vmad_signs, "the product and `c` are both negated; only one of them may be"};
}

// 9.7.17.3.
Broken power_of_two(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  if (instruction.count < 3) return {};
  const Operand& alignment = view.function.operands_of(instruction)[2];
  if (alignment.kind != Operand::Kind::integer || std::has_single_bit(alignment.bits)) return {};
  return {Code::power_of_two, cat("the alignment is ", alignment.value, "; it must be a power of two")};
}

}  // namespace ptx::check::rules
