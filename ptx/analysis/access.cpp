#include "ptx/analysis/access.h"

#include <algorithm>

#include "ptx/ir/placed.h"

namespace ptx::analysis {

using ir::Operand;
using isa::OperandKind;

namespace {

const isa::Match* reading(const ir::Instruction& i) {
  if (i.match || !i.mnemonic) return i.match;
  for (const isa::Match& match : i.mnemonic->matches) {
    if (match.required <= static_cast<int>(i.count)) return &match;
  }
  return i.mnemonic->matches.empty() ? nullptr : &i.mnemonic->matches.front();
}

class Collector {
 public:
  Collector(const ir::Function& function, const ir::Instruction& instruction, std::vector<Access>& list)
      : f_(function), guarded_(instruction.guard.reg != ir::no_id), list_(list) {}

  // All registers below an operand.
  void add(const Operand& o, bool reads, bool writes) {
    if (o.kind == Operand::Kind::reg && o.id < f_.registers.size()) {
      const bool part = o.component != 0xff;  // of a vector, or some bytes
      list_.push_back({o.id, reads, writes, writes && !reads && !part && !guarded_,
                       static_cast<std::uint32_t>(&o - f_.operands.data())});
      return;
    }
    switch (o.kind) {
      case Operand::Kind::address:
      case Operand::Kind::element:
        for (const Operand& child : f_.children(o)) add(child, true, false);
        break;
      case Operand::Kind::vector:
      case Operand::Kind::list:
      case Operand::Kind::pair:
      case Operand::Kind::sum:
        for (const Operand& child : f_.children(o)) add(child, reads, writes);
        break;
      default: break;
    }
  }
  // The first part of an address alone: the others have patterns of their own.
  void add_base(const Operand& o) {
    if (o.kind == Operand::Kind::address && o.child_count != 0)
      add(f_.children(o)[0], true, false);
    else
      add(o, true, false);
  }

 private:
  const ir::Function& f_;
  const bool guarded_;
  std::vector<Access>& list_;
};

bool has_inner(const isa::Match& match, const isa::Pattern& p) {
  const auto next = static_cast<std::size_t>(&p - match.operands.data()) + 1;
  return next < match.operands.size() && match.operands[next].row->inner;
}

// wgmma adds to its destination, a fragment of the matrix c, unless scale_d is 0.
bool accumulates(const ir::Function& function, const ir::Instruction& i, const isa::Match& match) {
  bool adds = false;
  if (match.operands.empty() || match.operands[0].row->matrix != 'c') return adds;
  ir::each_placed(function, i, match, [&](const isa::Pattern& p, const Operand* o) {
    if (match.form->text(p.row->name) != "scale_d" || p.row->destination) return;
    adds = o && !(o->kind == Operand::Kind::integer && o->value == 0);
  });
  return adds;
}

}  // namespace

void accesses(const ir::Function& function, const ir::Instruction& i, std::vector<Access>& list) {
  if (i.guard.reg != ir::no_id) list.push_back({i.guard.reg, true, false, false, ir::no_id});
  Collector collector(function, i, list);
  const isa::Match* const match = reading(i);
  if (!match) {
    for (const Operand& o : function.operands_of(i)) collector.add(o, true, true);
    return;
  }
  const bool adds = accumulates(function, i, *match);
  ir::each_placed(function, i, *match, [&](const isa::Pattern& p, const Operand* o) {
    if (!o) return;
    if (p.kind == OperandKind::address && has_inner(*match, p)) return collector.add_base(*o);
    const bool writes = p.row->destination && p.kind != OperandKind::address;
    collector.add(*o, !writes || adds, writes);
  });
  if (i.match) return;
  const auto given = function.operands_of(i);
  const auto placed = std::min(given.size(), static_cast<std::size_t>(match->required));
  for (const Operand& o : given.subspan(placed)) collector.add(o, true, false);  // what the guess has no place for
}

bool is_pure(const ir::Instruction& i) {
  const isa::Match* const match = reading(i);
  if (!match || match->has("cc") || match->has("sync") || match->has("aligned") || match->has("volatile")) return false;
  for (const isa::Trait trait : {isa::Trait::branches, isa::Trait::calls, isa::Trait::ends, isa::Trait::warp_aligned}) {
    if (match->form->is(trait)) return false;
  }
  bool writes = false, pure = true;
  for (const isa::Pattern& p : match->operands) {
    writes = writes || p.row->destination;
    pure = pure && p.kind != OperandKind::address;
  }
  return pure && writes;
}

std::vector<Uses> uses(const ir::Function& function) {
  std::vector<Uses> result(function.registers.size());
  std::vector<Access> list;
  const auto note = [](std::vector<std::uint32_t>& where, std::uint32_t statement) {
    if (where.empty() || where.back() != statement) where.push_back(statement);
  };
  for (std::uint32_t s = 0; s < function.body.size(); ++s) {
    if (function.body[s].kind != ir::Statement::Kind::instruction) continue;
    list.clear();
    accesses(function, function.instructions[function.body[s].index], list);
    for (const Access& access : list) {
      if (access.reads) note(result[access.reg].reads, s);
      if (access.writes) note(result[access.reg].writes, s);
    }
  }
  return result;
}

}  // namespace ptx::analysis
