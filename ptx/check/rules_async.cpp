// Rules of asynchronous copies.
#include "ptx/base/text.h"
#include "ptx/check/detail/rules.h"

namespace ptx::check::rules {

using ir::Operand;

// 9.7.9.25.3.1.
Broken copy_size(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  const Operand& size = view.function.operands_of(instruction)[2];
  if (size.kind != Operand::Kind::integer) return {};
  if (size.value != 4 && size.value != 8 && size.value != 16)
    return {Code::copy_size, cat("the copy has ", size.value, " bytes; it may have 4, 8 or 16")};
  if (instruction.count < 4) return {};
  const Operand& read = view.function.operands_of(instruction)[3];
  if (read.kind != Operand::Kind::integer || read.value <= size.value) return {};
  return {Code::copy_source_size,
          cat("the source has ", read.value, " bytes, and the copy ", size.value, "; the source has at most as many")};
}

// 9.7.9.25.4.1: the operand called `size`.
Broken multiple_of_16(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  std::size_t at = 0;
  for (const isa::Pattern& p : match.operands) {
    if (match.form->text(p.row->name) == "size") break;
    at += !p.row->inner;
  }
  const Operand& size = view.function.operands_of(instruction)[at];
  if (size.kind != Operand::Kind::integer || size.value % 16 == 0) return {};
  return {Code::multiple_of_16, cat("the bulk copy has ", size.value, " bytes; it must have a multiple of 16")};
}

}  // namespace ptx::check::rules
