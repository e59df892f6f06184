// Rules of tensor copies, tensor maps and tcgen05.
#include <bit>

#include "ptx/base/text.h"
#include "ptx/check/detail/rules.h"
#include "ptx/ir/since.h"

namespace ptx::check::rules {

using ir::Operand;

namespace {

bool is_number(const Operand& o) { return o.kind == Operand::Kind::integer; }

// Whether the target has `need`; a target that is not known has everything.
bool has(const ModuleTarget& target, isa::Version version, std::initializer_list<isa::Target> targets) {
  if (!target.has(version)) return false;
  if (target.sm.number == 0) return true;
  for (const isa::Target need : targets) {
    if (isa::meets(target.sm, need)) return true;
  }
  return false;
}

}  // namespace

// 9.7.9.28: the values 13 to 15 of .elemtype and 4 of .swizzle_mode are younger than the rest.
Broken tensormap_value(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const Operand& value = view.function.operands_of(instruction)[1];
  if (!is_number(value)) return {};
  const isa::Version need = ir::version_of_operands(view.function, instruction, match);
  if (match.has("elemtype")) {
    if (value.value < 13 || has(view.target, need, {{100, 'f'}, {110, 'f'}, {120, 'f'}})) return {};
    return {Code::tensormap_value,
            cat("element type ", value.value, " needs PTX 8.7 and sm_100f or sm_110f or sm_120f")};
  }
  if (value.value < 4 || has(view.target, need, {{103, 'a'}, {107, 'a'}})) return {};
  return {Code::tensormap_value, "swizzle mode 4 needs PTX 8.8 and sm_103a or sm_107a"};
}

// 9.7.16.7.1. More than 512 columns only sm_107 has.
Broken tcgen05_columns(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const Operand& columns = view.function.operands_of(instruction)[1];
  if (!is_number(columns)) return {};
  const auto n = static_cast<std::uint64_t>(columns.value);
  if (match.has("exclusive")) {
    const std::uint64_t most = has(view.target, {9, 4}, {{107, 'f'}}) ? 576 : 512;
    if (n % 32 == 0 && n >= 32 && n <= most) return {};
    return {Code::tcgen05_columns,
            cat(columns.value, " columns are allocated; the number must be a multiple of 32 in 32..", most)};
  }
  if (std::has_single_bit(n) && n >= 32 && n <= 512) return {};
  return {Code::tcgen05_columns,
          cat(columns.value, " columns are allocated; the number must be 32, 64, 128, 256 or 512")};
}

// 9.7.16.10.9.1: the operand behind enable-input-d.
Broken scale_input_d(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  auto required = static_cast<std::uint32_t>(match.required);
  for (const Operand& o : view.function.operands_of(instruction)) required += o.kind == Operand::Kind::vector;
  if (instruction.count == required) return {};
  const std::string_view kind = match.value("kind");
  if (kind != "kind::f16" && kind != "kind::tf32")
    return {Code::scale_input_d, cat('.', kind, " does not scale D; .kind::f16 and .kind::tf32 do")};
  if (has(view.target, {8, 6}, {{100, 'f'}})) return {};
  return {Code::scale_input_d, cat("scaling D needs sm_100f, the target is ", isa::to_string(view.target.sm))};
}

}  // namespace ptx::check::rules
