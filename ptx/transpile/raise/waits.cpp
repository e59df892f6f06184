// Loops that wait at an mbarrier object, as inline assembly of CUTLASS and Triton writes them: in braces or not, with
// one branch back, or with one that leaves in front of it. Each is one call of mbarrier.wait.
#include "ptx/transpile/detail/families.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using ir::Operand;
using ir::Statement;

class Reading {
 public:
  Reading(const ir::Function& f, std::uint32_t at) : f_(f), at_(at) {}

  std::optional<Wait> run() {
    Wait made;
    if ((made.braces = is(Statement::Kind::open))) ++at_;
    while (made.braces && is(Statement::Kind::registers)) ++at_;
    if (!is(Statement::Kind::label)) return {};
    made.top = at_++;
    made.tried = at_;
    const ir::Instruction* const tried = instruction();
    if (!tried || tried->guard.reg != ir::no_id || !takes(f_.operands_of(*tried))) return {};
    const ir::RegisterId done = f_.operands_of(*tried)[0].id;
    const ir::Instruction* const first = branch();
    if (!first || first->guard.reg != done) return {};
    made.uniform = first->mnemonic->canonical == "bra.uni";
    made.leave = !first->guard.negated;
    if (made.leave) {
      const ir::Instruction* const back = branch();
      if (!back || back->guard.reg != ir::no_id || back->mnemonic != first->mnemonic) return {};
      if (!goes(*back, made.top) || !is(Statement::Kind::label) || !goes(*first, at_)) return {};
      made.out = at_++;
    } else if (!goes(*first, made.top)) {
      return {};
    }
    if (made.braces && !is(Statement::Kind::close)) return {};
    made.end = made.braces ? at_ : at_ - 1;
    return made;
  }

 private:
  bool is(Statement::Kind kind) const { return at_ < f_.body.size() && f_.body[at_].kind == kind; }
  const ir::Instruction* instruction() {
    if (!is(Statement::Kind::instruction)) return nullptr;
    const ir::Instruction& found = f_.instructions[f_.body[at_++].index];
    return found.mnemonic ? &found : nullptr;
  }
  const ir::Instruction* branch() {
    const ir::Instruction* const found = instruction();
    return found && found->mnemonic->opcode == "bra" && found->count == 1 ? found : nullptr;
  }
  // Label and branch are in one scope, where a name means one place.
  bool goes(const ir::Instruction& bra, std::uint32_t label) const {
    const Operand& to = f_.operands_of(bra)[0];
    return to.kind == Operand::Kind::symbol && to.id == f_.body[label].index;
  }

  static bool is_register(const Operand& o) {
    return o.kind == Operand::Kind::reg && o.component == 0xff && !o.negated && !o.minus;
  }
  // done, [mbar], phase {, hint}
  bool takes(std::span<const Operand> operands) const {
    if (operands.size() < 3 || !is_register(operands[0]) || operands[1].kind != Operand::Kind::address) return false;
    const auto base = f_.children(operands[1]);
    if (base.size() != 1 || operands[1].unified || !(is_register(base[0]) || base[0].kind == Operand::Kind::symbol))
      return false;
    for (const Operand& o : operands.subspan(2))
      if (!is_register(o) && (o.kind != Operand::Kind::integer || o.wide)) return false;
    return true;
  }

  const ir::Function& f_;
  std::uint32_t at_;
};

}  // namespace

std::optional<Wait> wait_at(const ir::Function& function, Language language, std::uint32_t at) {
  const std::optional<Wait> found = Reading(function, at).run();
  if (!found) return {};
  const ir::Instruction& tried = function.instructions[function.body[found->tried].index];
  return FamilyCalls::is_waited(*tried.mnemonic, language) ? found : std::nullopt;
}

Wait wait_of(const ir::Function& function, const Node& node) { return Reading(function, node.at).run().value(); }

}  // namespace ptx::transpile
