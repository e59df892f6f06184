// Rules of the chapters on synchronization and miscellaneous instructions.
#include "ptx/base/text.h"
#include "ptx/check/detail/rules.h"
#include "ptx/ir/since.h"

namespace ptx::check::rules {

using ir::Operand;

// 9.7.13.1: the number of threads, where it is a constant. Forms: [d,] a{, b}[, c].
Broken whole_warps(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const bool reduces = match.operands.front().row->destination;
  if (instruction.count != (reduces ? 4 : 2)) return {};
  const Operand& threads = view.function.operands_of(instruction)[reduces ? 2 : 1];
  if (threads.kind != Operand::Kind::integer) return {};
  const bool none = threads.value == 0 && match.has("arrive");  // where threads wait, 0 stands for all of the CTA
  if (threads.value % 32 == 0 && !none) return {};
  return {Code::whole_warps, cat("the barrier has ", threads.value, " threads; it must have a multiple of 32",
                                 none ? " above 0 to arrive" : "")};
}

// 9.7.13.15: also where the address is generic.
Broken shared_variable(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  if (!view.symbols) return {};
  for (const Operand& o : view.function.operands_of(instruction)) {
    if (o.kind != Operand::Kind::address || o.child_count == 0) continue;
    const Operand& base = view.function.children(o)[0];
    const Symbol* symbol = base.kind == Operand::Kind::symbol ? view.symbols->find(base.id, view.statement) : nullptr;
    if (!symbol || !symbol->variable || isa::name(symbol->variable->space).starts_with("shared")) continue;
    return {Code::shared_variable,
            cat('`', symbol->variable->name.view(), "` is in .", isa::name(symbol->variable->space),
                "; an mbarrier object must lie in .shared memory")};
  }
  return {};
}

// 9.7.13.15.13: `_` for the state came after the instruction.
Broken sink_from_7_1(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const isa::Version need = ir::version_of_operands(view.function, instruction, match);
  if (view.target.has(need)) return {};
  return {Code::needs_version, cat("the sink `_` for the state needs PTX ", isa::to_string(need))};
}

// 9.7.19.5.
Broken multiple_of_8(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  const Operand& count = view.function.operands_of(instruction)[0];
  if (count.kind != Operand::Kind::integer || count.value % 8 == 0) return {};
  return {Code::multiple_of_8, cat("the register count is ", count.value, "; it must be a multiple of 8 in 24..256")};
}

// 9.7.13.8, 9.7.9.5.
Broken before_independent_threads(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  const isa::Version version = view.target.version != isa::Version{}  // any: at least the target's first
                                   ? view.target.version
                                   : isa::first_version(view.target.sm).value_or(isa::Version{});
  if (view.target.sm.number < 70 || version < isa::Version{6, 4}) return {};
  return {Code::before_independent_threads, cat("removed in PTX 6.4 for sm_70 and later; write `",
                                                instruction.mnemonic->opcode, ".sync` with a member mask")};
}

}  // namespace ptx::check::rules
