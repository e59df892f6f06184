// Rules of data movement without asynchronous copies: parameters, cache policies, bulk stores, the fabric.
#include <bit>

#include "ptx/base/text.h"
#include "ptx/check/detail/rules.h"

namespace ptx::check::rules {

using ir::Operand;

namespace {

// What operand n addresses by its name, if that is a variable of .param.
const Symbol* parameter_at(const View& view, const isa::Match& match, const ir::Instruction& instruction, int n) {
  const Operand& address = view.function.operands_of(instruction)[n];
  if (!view.symbols || match.operands[n].kind != isa::OperandKind::address || address.child_count == 0) return nullptr;
  const Operand& base = view.function.children(address)[0];
  const Symbol* symbol = base.kind == Operand::Kind::symbol ? view.symbols->find(base.id, view.statement) : nullptr;
  return symbol && symbol->variable && symbol->variable->space == isa::Space::param ? symbol : nullptr;
}
// 7.1.
Broken guarded(const Symbol& argument, const ir::Instruction& instruction) {
  if (argument.kind != Symbol::Kind::variable || instruction.guard.reg == ir::no_id) return {};
  return {Code::guarded_argument, cat('`', argument.variable->name.view(),
                                      "` passes an argument or a result: no guard `@p` stands before this")};
}
bool is_result(const View& view, const Symbol& symbol) {
  for (const ir::Variable& result : view.function.returns) {
    if (&result == symbol.variable) return true;
  }
  return false;
}

}  // namespace

// 9.7.9.11.
Broken input_parameter(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const Symbol* symbol = parameter_at(view, match, instruction, 0);
  if (!symbol) return {};
  if (symbol->kind != Symbol::Kind::parameter) return guarded(*symbol, instruction);
  if (is_result(view, *symbol)) return {};
  return {Code::input_parameter,
          cat('`', symbol->variable->name.view(), "` is a parameter of this function, which it may only read")};
}

// 9.7.9.8.
Broken output_parameter(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const Symbol* symbol = parameter_at(view, match, instruction, 1);
  if (!symbol) return {};
  if (symbol->kind != Symbol::Kind::parameter) return guarded(*symbol, instruction);
  if (!is_result(view, *symbol)) return {};
  return {Code::output_parameter,
          cat('`', symbol->variable->name.view(), "` is the result of this function, which it may only write")};
}

// 9.7.9.18: above 0, at most 1.
Broken policy_fraction(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  if (instruction.count < 2) return {};
  const Operand& fraction = view.function.operands_of(instruction)[1];
  double value = 1;
  if (fraction.kind == Operand::Kind::f32) value = std::bit_cast<float>(static_cast<std::uint32_t>(fraction.bits));
  if (fraction.kind == Operand::Kind::f64) value = std::bit_cast<double>(fraction.bits);
  if (value > 0 && value <= 1) return {};
  Text found;
  found << "the fraction is ";
  found.real(value) << "; it must be above 0 and at most 1";
  return {Code::policy_fraction, found.take()};
}

Broken policy_sizes(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  const Operand &primary = view.function.operands_of(instruction)[2],
                &total = view.function.operands_of(instruction)[3];
  if (primary.kind != Operand::Kind::integer || total.kind != Operand::Kind::integer) return {};
  if (static_cast<std::uint32_t>(primary.value) <= static_cast<std::uint32_t>(total.value)) return {};
  return {Code::policy_sizes, cat("the primary size has ", primary.value, " bytes and the total size ", total.value,
                                  "; the total is at least the primary size")};
}

// 9.7.9.20. The assembler says so of the module, when it has read all of it.
Broken before_64_bits(const View& view, const isa::Match& match, const ir::Instruction&) {
  if (view.target.sm.number < 90 || match.value("size") != "u32") return {};
  return {Code::before_64_bits,
          cat("generic addresses have 64 bits from sm_90 on, the target is ", isa::to_string(view.target.sm))};
}

// 9.7.9.3. ptxas takes a text without it for one of 32-bit addresses, which sm_90 has not. Behind `name+4` it does not
// look.
Broken wide_global_address(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const Operand& o = view.function.operands_of(instruction)[1];
  if (view.target.sm.number < 90 || isa::info(match.operands[0].type).bits != 32 || !view.symbols || o.value != 0)
    return {};
  const Symbol* symbol = o.kind == Operand::Kind::symbol ? view.symbols->find(o.id, view.statement) : nullptr;
  if (!symbol || !symbol->variable || symbol->variable->space != isa::Space::global) return {};
  return {Code::before_64_bits,
          cat("the address of the .global variable `", symbol->variable->name.view(), "` has 64 bits from sm_90 on")};
}

// 9.7.9.13.
Broken bulk_store_size(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  const Operand& size = view.function.operands_of(instruction)[1];
  if (size.kind != Operand::Kind::integer || size.value % 8 == 0) return {};
  return {Code::bulk_store_size, cat("the bulk store has ", size.value, " bytes; it must have a multiple of 8")};
}

// 9.7.9.13. The assembler says of a variable: "Argument 1 of instruction 'add': must be register".
Broken bulk_store_address(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const Operand& address = view.function.operands_of(instruction)[0];
  if (match.space() == isa::Space::generic || address.child_count == 0) return {};
  const Operand& base = view.function.children(address)[0];
  if (base.kind != Operand::Kind::symbol) return {};
  const std::string_view name = Name::from_id(base.id).view();
  return {Code::bulk_store_address, cat("ptxas takes no variable here; move the address of `", name,
                                        "` to a register (mov.u32 r, ", name, "), or leave out .shared::cta")};
}

// 9.7.11.5.4: the mask is there for later versions.
Broken whole_warp_mask(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  const Operand& mask = view.function.operands_of(instruction)[4];
  if (mask.kind == Operand::Kind::integer && (mask.value == -1 || mask.value == 0xffffffff)) return {};
  return {Code::whole_warp_mask, "the mask must be 0xffffffff: every thread of the warp"};
}

}  // namespace ptx::check::rules
