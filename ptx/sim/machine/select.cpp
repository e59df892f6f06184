#include "ptx/sim/machine/select.h"

#include "ptx/isa/row.h"

namespace ptx::sim {

namespace {

using ir::Operand;
using isa::OperandKind;
using isa::Pattern;

std::uint32_t length(const ir::Function& f, const Operand& o) {
  if (o.kind == Operand::Kind::vector) return o.child_count;
  if (o.kind == Operand::Kind::reg && o.component == 0xff && f.registers[o.id].vector > 1) {
    return f.registers[o.id].vector;
  }
  if (o.kind == Operand::Kind::special) {
    const auto* special = isa::special_register(Name::from_id(o.id).view());
    return special && special->vector > 1 ? special->vector : 0;
  }
  return 0;
}

bool fits_value(const ir::Function& f, const Pattern& p, const Operand& o, bool strict) {
  using Kind = Operand::Kind;
  if (o.kind == Kind::address || o.kind == Kind::list || o.kind == Kind::pair || o.kind == Kind::none) return false;
  const std::uint32_t n = length(f, o);
  if (p.row->pack ? n == 0 : p.length != n) return false;
  if (n || o.kind != Kind::reg) return true;
  const isa::TypeInfo have = isa::info(f.registers[o.id].type), want = isa::info(p.type);
  if (p.type == isa::Type::none) return true;
  if ((have.kind == isa::TypeKind::predicate) != (want.kind == isa::TypeKind::predicate)) return false;
  return strict && !p.wider ? have.bits == want.bits : have.bits >= want.bits;
}

bool fits(const ir::Function& f, const Pattern& p, const Operand& o, bool strict) {
  using Kind = Operand::Kind;
  switch (p.kind) {
    case OperandKind::value: return fits_value(f, p, o, strict);
    case OperandKind::sink: return o.kind == Kind::sink;
    case OperandKind::address: return o.kind == Kind::address || o.kind == Kind::element;
    case OperandKind::immediate: return o.kind == Kind::integer || o.kind == Kind::symbol;
    case OperandKind::label:
    case OperandKind::prototype:
    case OperandKind::symbol: return o.kind == Kind::symbol;
    case OperandKind::function: return o.kind == Kind::symbol || o.kind == Kind::reg;
    case OperandKind::arguments: return o.kind == Kind::list;
    case OperandKind::any: return true;
  }
  return false;
}

// The operands on the patterns, with the optional groups of the bits in `groups`.
bool place(const ir::Function& f, const isa::Match& match, const ir::Instruction& instruction, unsigned groups,
           bool strict, std::vector<Placed>& out) {
  const auto operands = f.operands_of(instruction);
  std::size_t at = 0;
  out.clear();
  for (std::size_t i = 0; i < match.operands.size(); ++i) {
    const Pattern& p = match.operands[i];
    const Operand* first = nullptr;
    const Operand* second = nullptr;
    if (p.group == 0 || (groups >> p.group & 1)) {
      if (at == operands.size()) return false;
      const Operand& o = operands[at++];
      const bool pair = p.row->pair && o.kind == Operand::Kind::pair;
      if (p.row->pair && !pair && !p.row->pair_optional) return false;
      first = pair ? &f.children(o)[0] : &o;
      if (!fits(f, p, *first, strict)) return false;
      if (pair) second = &f.children(o)[1];
    }
    out.push_back({&p, first});
    if (p.row->pair) out.push_back({&match.operands[++i], second});
    std::uint32_t part = 0;
    for (; i + 1 < match.operands.size() && match.operands[i + 1].row->inner; ++i) {
      ++part;
      const bool there = first && part < first->child_count;
      if (first && !there) return false;
      out.push_back({&match.operands[i + 1], there ? &f.children(*first)[part] : nullptr});
    }
    if (first && first->kind == Operand::Kind::address && part + 1 < first->child_count) return false;
  }
  return at == operands.size();
}

}  // namespace

Selection select(const ir::Function& function, const ir::Instruction& instruction) {
  Selection selection;
  for (const bool strict : {true, false}) {
    for (const isa::Match& match : instruction.mnemonic->matches) {
      unsigned all = 1;
      for (const Pattern& p : match.operands) all |= 1u << p.group;
      for (unsigned groups = all;; groups = (groups - 1) & all) {
        if (place(function, match, instruction, groups, strict, selection.operands)) {
          selection.match = &match;
          return selection;
        }
        if (groups == 0) break;
      }
    }
  }
  selection.operands.clear();
  return selection;
}

}  // namespace ptx::sim
