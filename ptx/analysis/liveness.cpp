#include "ptx/analysis/liveness.h"

#include <algorithm>
#include <bit>

namespace ptx::analysis {

using ir::Statement;

Pressure::Class class_of(isa::Type type) {
  const isa::TypeInfo& info = isa::info(type);
  if (info.kind == isa::TypeKind::predicate) return Pressure::predicate;
  return info.bits <= 16   ? Pressure::bits16
         : info.bits <= 32 ? Pressure::bits32
         : info.bits <= 64 ? Pressure::bits64
                           : Pressure::bits128;
}

Liveness::Liveness(const ir::Function& function, const Flow& flow) : function_(function), flow_(flow) {
  number();
  solve();
}

// What an instruction accesses; one that may leave a function reads the registers that it returns.
void Liveness::statement_accesses(std::uint32_t statement, std::vector<Access>& list) const {
  list.clear();
  const Statement& s = function_.body[statement];
  if (s.kind == Statement::Kind::instruction) accesses(function_, function_.instructions[s.index], list);
  const Block& block = flow_.blocks()[flow_.block_of(statement)];
  if (!block.leaves || (block.end == ir::no_id ? statement + 1 != block.last : statement != block.end)) return;
  ir::RegisterId next = 0;  // registers begin with those of the signature: lower.h
  for (const ir::Variable& v : function_.returns) {
    if (v.space == isa::Space::reg && next < function_.registers.size())
      list.push_back({next++, true, false, false, ir::no_id});
  }
}

// Registers that some block reads before it writes them are live between blocks; only these have bits in the rows.
void Liveness::number() {
  enum : std::uint8_t { unused, local, global };
  std::vector<std::uint8_t> kinds(function_.registers.size(), unused);
  std::vector<BlockId> written(function_.registers.size(), no_block);  // the last block that wrote it whole
  std::vector<Access> list;
  for (std::uint32_t s = 0; s < function_.body.size(); ++s) {
    statement_accesses(s, list);
    const BlockId block = flow_.block_of(s);
    for (const Access& a : list) {
      const bool exposed = a.reads && written[a.reg] != block;
      kinds[a.reg] = std::max(kinds[a.reg], exposed ? std::uint8_t{global} : std::uint8_t{local});
    }
    for (const Access& a : list) {
      if (a.whole) written[a.reg] = block;
    }
  }
  numbers_.assign(kinds.size(), ir::no_id);
  for (const std::uint8_t kind : {std::uint8_t{global}, std::uint8_t{local}}) {
    for (ir::RegisterId r = 0; r < kinds.size(); ++r) {
      if (kinds[r] != kind) continue;
      numbers_[r] = static_cast<std::uint32_t>(numbered_.size());
      numbered_.push_back(r);
    }
    if (kind == global) global_ = static_cast<std::uint32_t>(numbered_.size());
  }
}

void Liveness::solve() {
  const std::size_t blocks = flow_.blocks().size();
  words_ = (global_ + 63) / 64;
  Words kept(words_ * blocks, ~std::uint64_t{0});  // what a block does not write whole
  in_.assign(words_ * blocks, 0);                  // at first what it reads from outside
  out_.assign(words_ * blocks, 0);
  std::vector<Access> list;
  for (std::uint32_t s = static_cast<std::uint32_t>(function_.body.size()); s-- > 0;) {
    statement_accesses(s, list);
    const std::size_t row = flow_.block_of(s) * words_;
    for (const bool reads : {false, true}) {
      for (const Access& a : list) {
        const std::uint32_t n = numbers_[a.reg];
        if (n >= global_) continue;
        const std::uint64_t bit = std::uint64_t{1} << n % 64;
        if (reads && a.reads) in_[row + n / 64] |= bit;
        if (!reads && a.whole) in_[row + n / 64] &= ~bit, kept[row + n / 64] &= ~bit;
      }
    }
  }
  const auto order = flow_.order();
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t at = order.size(); at-- > 0;) {
      const std::size_t row = order[at] * words_;
      for (const Edge& edge : flow_.successors(order[at])) {
        for (std::size_t w = 0; w < words_; ++w) out_[row + w] |= in_[edge.to * words_ + w];
      }
      for (std::size_t w = 0; w < words_; ++w) {
        const std::uint64_t next = in_[row + w] | (out_[row + w] & kept[row + w]);
        changed = changed || next != in_[row + w];
        in_[row + w] = next;
      }
    }
  }
}

std::vector<ir::RegisterId> Liveness::registers(const Words& rows, BlockId block) const {
  std::vector<ir::RegisterId> result;
  for (std::size_t w = 0; w < words_; ++w) {
    for (std::uint64_t bits = rows[block * words_ + w]; bits; bits &= bits - 1)
      result.push_back(numbered_[w * 64 + static_cast<std::size_t>(std::countr_zero(bits))]);
  }
  return result;
}

Liveness::Walk::Walk(const Liveness& of, BlockId block) : of_(of), live_(of.numbered_.size()) {
  for (const ir::RegisterId r : of.out(block)) set(r, true);
}

void Liveness::Walk::set(ir::RegisterId reg, bool live) {
  const std::uint32_t n = of_.numbers_[reg];
  if (live_[n] == live) return;
  live_[n] = live;
  const ir::Register& r = of_.function_.registers[reg];
  std::uint32_t& count = now_.count[class_of(r.type)];
  count = live ? count + r.vector : count - r.vector;
}

Pressure Liveness::Walk::step(std::uint32_t statement) {
  of_.statement_accesses(statement, list_);
  unread_.clear();  // written all the same
  needed_ = false;
  for (const Access& a : list_) {
    if (!a.writes) continue;
    needed_ = needed_ || live_[of_.numbers_[a.reg]];
    if (live_[of_.numbers_[a.reg]]) continue;
    set(a.reg, true);
    unread_.push_back(a.reg);
  }
  const Pressure there = now_;
  for (const Access& a : list_) {
    if (a.whole) set(a.reg, false);
  }
  for (const ir::RegisterId reg : unread_) set(reg, false);
  for (const Access& a : list_) {
    if (a.reads) set(a.reg, true);
  }
  return there;
}

std::vector<ir::RegisterId> Liveness::behind(std::uint32_t statement) const {
  const BlockId block = flow_.block_of(statement);
  Walk walk(*this, block);
  for (std::uint32_t s = flow_.blocks()[block].last; s-- > statement + 1;) walk.step(s);
  std::vector<ir::RegisterId> result;
  for (std::size_t n = 0; n < numbered_.size(); ++n) {
    if (walk.live()[n]) result.push_back(numbered_[n]);
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<Pressure> Liveness::pressures() const {
  std::vector<Pressure> result(function_.body.size());
  for (BlockId b = 0; b < flow_.blocks().size(); ++b) {
    each(b, [&](std::uint32_t statement, const Pressure& there) { result[statement] = there; });
  }
  return result;
}

}  // namespace ptx::analysis
