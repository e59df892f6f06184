// Rules of wmma, mma and wgmma (9.7.14, 9.7.15): constants among the operands, and what ended with a PTX version.
#include "ptx/base/text.h"
#include "ptx/check/detail/rules.h"
#include "ptx/ir/since.h"

namespace ptx::check::rules {

using ir::Operand;

namespace {

bool is_outside(const Operand& o, std::int64_t high, std::int64_t step = 1) {
  return o.kind == Operand::Kind::integer && (o.value < 0 || o.value > high || o.value % step != 0);
}

int scale_vector(const isa::Match& match) {
  if (match.has("scale_vec::4X")) return 4;
  return match.has("kind::mxf8f6f4") ? 1 : 2;
}

}  // namespace

Broken aligned_from_6_3(const View& view, const isa::Match& match, const ir::Instruction&) {
  if (match.has("aligned") || view.target.version < isa::Version{6, 3}) return {};
  return {Code::aligned_required, "from PTX 6.3 on it is written with `.sync.aligned`"};
}

Broken float_satfinite(const View& view, const isa::Match& match, const ir::Instruction&) {
  if (!match.has("satfinite") || view.target.version < isa::Version{6, 5}) return {};
  return {Code::float_satfinite, "`.satfinite` of floating-point types ended with PTX 6.4"};
}

// 9.7.14.3: {byte, thread} of scale_A and scale_B, where they are constants.
Broken scale_selectors(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const auto operands = view.function.operands_of(instruction);
  const int size = scale_vector(match);
  for (const bool b : {false, true}) {
    const auto selector = view.function.children(operands[operands.size() - (b ? 1 : 3)]);
    const std::string_view matrix = b ? "B" : "A";
    if (is_outside(selector[0], 3, size)) {
      return {Code::scale_selector, cat("the selector names byte ", selector[0].value, " of the scales of ", matrix,
                                        "; with .scale_vec::", size, "X it is ",
                                        size == 1   ? "0..3"
                                        : size == 2 ? "0 or 2"
                                                    : "0")};
    }
    if (is_outside(selector[1], b ? 3 : 1)) {
      return {Code::scale_selector, cat("the selector names thread ", selector[1].value, " for the scales of ", matrix,
                                        "; it must be ", b ? "0..3" : "0 or 1")};
    }
  }
  return {};
}

namespace {

// 9.7.14.6.1: of four threads, how many hold the metadata of a row: one, two or all, by the width and the length of A.
Broken selects_up_to(int most, const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const Operand& selector = view.function.operands_of(instruction)[5];
  const int highest = most >> (match.operands[1].length == 4);
  if (!is_outside(selector, highest)) return {};
  return {Code::sparsity_selector,
          cat("the sparsity selector is ", selector.value, "; for these types and this shape it must be ",
              highest == 0   ? "0"
              : highest == 1 ? "0 or 1"
                             : "0..3")};
}

}  // namespace

Broken sparsity_selector(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  return selects_up_to(1, view, match, instruction);
}

Broken sparsity_selector_of_16(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  return selects_up_to(3, view, match, instruction);
}

Broken mixed_from_8_4(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const isa::Version need = ir::version_of_operands(view.function, instruction, match);
  if (view.target.has(need)) return {};
  return {Code::needs_version, cat("`.u8` with `.s8` needs PTX ", isa::to_string(need), ", the module is .version ",
                                   isa::to_string(view.target.version))};
}

// 9.7.15.5.2: scale_a and scale_b, behind scale_d.
Broken wgmma_scale(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const auto operands = view.function.operands_of(instruction);
  for (std::size_t i = 0; i < match.operands.size() && i < operands.size(); ++i) {
    const std::string_view name = match.form->text(match.operands[i].row->name);
    if ((name == "scale_a" || name == "scale_b") && operands[i].kind == Operand::Kind::integer &&
        operands[i].value == 0)
      return {Code::wgmma_scale, "an operand has the scale 0; legal: 1 -1"};
  }
  return {};
}

}  // namespace ptx::check::rules
