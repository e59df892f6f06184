// Registers by what they hold, declared where they are first written.
#include "ptx/transpile/detail/names.h"

#include <algorithm>
#include <unordered_map>

#include "ptx/analysis/access.h"
#include "ptx/base/text.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using analysis::Access;
using ir::Operand;
using ir::Statement;
using Where = PlannedRegister::Where;

}  // namespace

std::string_view short_name(std::string_view name, std::string_view function) {
  if (name.size() > function.size() + 1 && name.starts_with(function) && name[function.size()] == '_')
    name.remove_prefix(function.size() + 1);
  return name;
}

namespace {

class Naming {
 public:
  Naming(const ir::Function& f, Plan& plan) : f_(f), plan_(plan) {}

  void run() {
    plan_.registers.resize(f_.registers.size());
    plan_.bits = std::all_of(f_.registers.begin(), f_.registers.end(), [](const ir::Register& r) {
      const isa::TypeKind kind = isa::info(r.type).kind;
      return kind != isa::TypeKind::signed_ && kind != isa::TypeKind::unsigned_;
    });
    for (std::size_t id = 0; id < f_.registers.size(); ++id) plan_.registers[id].type = f_.registers[id].type;
    place();
    for (ir::RegisterId id = 0; id < f_.registers.size(); ++id) name(id);
  }

 private:
  // ---- where registers are declared

  void place() {
    scopes_.assign(1, 0);
    std::uint32_t closed = ir::no_id;  // where the last call ends
    for (std::uint32_t i = 0; i < f_.body.size(); ++i) {
      const Statement& s = f_.body[i];
      if (const auto call = plan_.calls.find(i); call != plan_.calls.end()) closed = call->second.end;
      const bool is_call = closed != ir::no_id && i <= closed;
      if (s.kind == Statement::Kind::open && !is_call) scopes_.push_back(++next_scope_);
      if (s.kind == Statement::Kind::close && !is_call) scopes_.pop_back();
      if (s.kind == Statement::Kind::instruction) instruction(i, f_.instructions[s.index]);
    }
  }

  void instruction(std::uint32_t i, const ir::Instruction& instruction) {
    list_.clear();
    analysis::accesses(f_, instruction, list_);
    for (const Access& a : list_) meet(i, instruction, a);
    for (const Operand& o : f_.operands_of(instruction)) unknown(o);
    hints(i, instruction);
    if (instruction.count != 0) arrays(i, f_.operands[instruction.first]);
  }

  // What the row does not say how it is used.
  void unknown(const Operand& o) {
    if (o.kind == Operand::Kind::reg && plan_.registers[o.id].where == Where::nowhere)
      plan_.registers[o.id].where = Where::ahead;
    for (const Operand& child : f_.children(o)) unknown(child);
  }

  void meet(std::uint32_t i, const ir::Instruction& instruction, const Access& a) {
    PlannedRegister& r = plan_.registers[a.reg];
    if (r.where == Where::nowhere) {
      r.scope = scopes_.back();
      const bool reads = std::any_of(list_.begin(), list_.end(), [&](const Access& other) {
        return other.reg == a.reg && (other.reads || other.operand == ir::no_id);
      });
      const bool first = a.operand == instruction.first && f_.operands[a.operand].kind == Operand::Kind::reg &&
                         f_.operands[a.operand].component == 0xff;
      const bool vector = f_.registers[a.reg].vector > 1;
      r.where = reads || !a.writes || vector ? Where::ahead : first ? Where::inside : Where::before;
      r.statement = i;
      return;
    }
    // Declared in a block of PTX, a register ends with it.
    if (std::find(scopes_.begin(), scopes_.end(), r.scope) == scopes_.end()) {
      r.where = Where::ahead;
    }
  }

  // Destinations {a, b, c, d} that are all new are an array.
  void arrays(std::uint32_t i, const Operand& destination) {
    if (destination.kind != Operand::Kind::vector || destination.child_count < 2) return;
    const auto children = f_.children(destination);
    std::vector<ir::RegisterId> elements;
    for (const Operand& child : children) {
      if (child.kind != Operand::Kind::reg || child.component != 0xff) return;
      const PlannedRegister& r = plan_.registers[child.id];
      const bool twice = std::find(elements.begin(), elements.end(), child.id) != elements.end();
      if (r.where != Where::before || r.statement != i || twice) return;
      if (f_.registers[child.id].type != f_.registers[children[0].id].type) return;
      elements.push_back(child.id);
    }
    const auto array = static_cast<std::uint32_t>(plan_.arrays.size());
    for (std::uint32_t e = 0; e < elements.size(); ++e) {
      candidates_.push_back({elements[e], array, e});
    }
    plan_.arrays.push_back({i, 0, std::move(elements), {}});
  }

  // ---- what they hold

  void hints(std::uint32_t i, const ir::Instruction& instruction) {
    const auto operands = f_.operands_of(instruction);
    if (!instruction.mnemonic || operands.empty()) return;
    if (operands[0].kind == Operand::Kind::vector && multiplies(instruction.mnemonic->canonical))
      for (const Operand& child : f_.children(operands[0]))
        if (child.kind == Operand::Kind::reg) plan_.registers[child.id].accumulates = true;
    if (operands[0].kind == Operand::Kind::reg && operands[0].component == 0xff) {
      const bool mine = plan_.registers[operands[0].id].statement == i;
      if (mine && operands.size() > 1) made(operands[0].id, *instruction.mnemonic, operands);
      if (operands.size() > 1 && !mine) changed(operands[0].id, *instruction.mnemonic, operands);
    }
  }

  void made(ir::RegisterId id, const isa::Mnemonic& m, std::span<const Operand> operands) {
    const Operand& source = operands[1];
    std::string& name = plan_.registers[id].name;
    if (source.kind == Operand::Kind::special && (m.opcode == "mov" || m.opcode == "cvt")) {
      name = special(Name::from_id(source.id).view());
    } else if (m.opcode == "ld" && source.kind == Operand::Kind::address && m.canonical.starts_with("ld.param")) {
      const Operand& base = f_.children(source)[0];
      if (base.kind == Operand::Kind::symbol && is_parameter(base.id))
        name = short_name(Name::from_id(base.id).view(), f_.name.view());
    } else if ((m.opcode == "cvta" || m.opcode == "mov") && source.kind == Operand::Kind::reg) {
      const std::string& from = plan_.registers[source.id].name;
      if (!from.empty()) name = m.opcode == "cvta" ? from + "_ptr" : from;
    } else if (source.kind == Operand::Kind::symbol && m.opcode == "mov") {
      const std::string_view text = Name::from_id(source.id).view();
      name = is_parameter(source.id) ? cat(short_name(text, f_.name.view()), "_address") : unmangled(text);
    }
  }

  // Written again: a counter, if by a constant, or an accumulator.
  void changed(ir::RegisterId id, const isa::Mnemonic& m, std::span<const Operand> operands) {
    std::string& name = plan_.registers[id].name;
    const auto reads = [&](std::size_t n) {
      return n < operands.size() && operands[n].kind == Operand::Kind::reg && operands[n].id == id;
    };
    if (m.opcode == "add" && reads(1) && operands[2].kind == Operand::Kind::integer) {
      if (isa::info(f_.registers[id].type).bits == 32 && name.empty()) name = "i";
      if (isa::info(f_.registers[id].type).bits == 64 && name.empty()) name = "at";
    } else if ((m.opcode == "fma" || m.opcode == "mad") && reads(3)) {
      name = "acc";
      plan_.registers[id].accumulates = true;
    } else if (m.opcode == "add" && (reads(1) || reads(2)) &&
               isa::info(f_.registers[id].type).kind == isa::TypeKind::floating) {
      name = "sum";
    }
  }

  static bool multiplies(std::string_view canonical) {
    return canonical.starts_with("mma.") || canonical.starts_with("wmma.mma") || canonical.starts_with("wgmma.mma");
  }

  static std::string special(std::string_view name) {
    std::string made(name.substr(1));
    std::replace(made.begin(), made.end(), '.', '_');
    return made;
  }

  bool is_parameter(std::uint32_t name) const {
    return std::any_of(f_.parameters.begin(), f_.parameters.end(),
                       [&](const ir::Variable& v) { return v.name.id() == name; });
  }

  // Without a better one, the name that PTX has.
  void name(ir::RegisterId id) {
    PlannedRegister& r = plan_.registers[id];
    if (r.name.empty()) r.name = ir::name(f_.registers[id]);
    if (id + 1 != f_.registers.size()) return;
    for (const auto& [element, array, index] : candidates_) {  // none was hidden by a block
      PlannedArray& of = plan_.arrays[array];
      if (of.elements.empty()) continue;
      const bool all = std::all_of(of.elements.begin(), of.elements.end(), [&](ir::RegisterId one) {
        const Where where = plan_.registers[one].where;
        return where == Where::before || where == Where::element;
      });
      if (!all) {
        of.elements.clear();
        continue;
      }
      if (index == 0) of.name = plan_.registers[element].name + "_";
      plan_.registers[element].where = Where::element;
      plan_.registers[element].array = array;
      plan_.registers[element].index = index;
    }
  }

  struct Candidate {
    ir::RegisterId element;
    std::uint32_t array, index;
  };

  const ir::Function& f_;
  Plan& plan_;
  std::vector<Access> list_;
  std::vector<std::uint32_t> scopes_;
  std::uint32_t next_scope_ = 0;
  std::vector<Candidate> candidates_;
};

}  // namespace

void name_registers(const ir::Function& function, Plan& plan) { Naming(function, plan).run(); }

}  // namespace ptx::transpile
