// Bits as integers with or without a sign, by the instructions that read them and for which it matters: where most
// compare %r5 as .s32, `r5 < 4` is that instruction. What compilers declare as .b32 is .b32 with either
// (Options::bits).
#include "ptx/base/text.h"
#include "ptx/isa/literal.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using Where = PlannedRegister::Where;

bool has_a_sign_for(const isa::Mnemonic& m) {
  for (const std::string_view one : {"setp", "set", "shr", "mul", "mad", "div", "rem", "min", "max", "abs", "bfe"})
    if (m.opcode == one) return true;
  return false;
}

}  // namespace

void sign_registers(const ir::Function& function, Plan& plan) {
  if (!plan.bits) return;
  std::vector<int> votes(function.registers.size());
  for (const ir::Instruction& i : function.instructions) {
    if (!i.mnemonic || !has_a_sign_for(*i.mnemonic)) continue;
    for (std::uint32_t n = 1; n < i.count; ++n) {
      const ir::Operand& o = function.operands[i.first + n];
      const isa::TypeInfo& type = isa::info(isa::literal_type(*i.mnemonic, n, i.count));
      if (o.kind != ir::Operand::Kind::reg || o.component != 0xff) continue;
      if (type.bits != isa::info(function.registers[o.id].type).bits) continue;
      if (type.kind == isa::TypeKind::signed_) ++votes[o.id];
      if (type.kind == isa::TypeKind::unsigned_) --votes[o.id];
    }
  }
  for (ir::RegisterId id = 0; id < votes.size(); ++id) {
    PlannedRegister& r = plan.registers[id];
    const isa::TypeInfo& info = isa::info(function.registers[id].type);
    if (votes[id] == 0 || r.where == Where::element || info.kind != isa::TypeKind::bits || info.bits > 64) continue;
    r.type = isa::type_named(cat(votes[id] > 0 ? 's' : 'u', info.bits)).value_or(r.type);
  }
}

}  // namespace ptx::transpile
