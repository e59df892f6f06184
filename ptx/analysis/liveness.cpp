#include "ptx/analysis/liveness.h"

#include <algorithm>
#include <bit>
#include <utility>

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

namespace {

// Places in an order that wait, taken from the last to the first and over again.
class Waiting {
 public:
  explicit Waiting(std::size_t places) : words_((places + 63) / 64) {}
  void add(std::uint32_t at) {
    std::uint64_t& word = words_[at / 64];
    count_ += (word >> at % 64 & 1) == 0;
    word |= std::uint64_t{1} << at % 64;
    top_ = std::max(top_, at / 64);
  }
  bool any() const { return count_ > 0; }
  std::uint32_t take() {
    while (words_[word_] == 0) {
      if (word_ == 0) word_ = std::exchange(top_, 0) + 1;
      --word_;
    }
    const auto bit = static_cast<std::uint32_t>(std::bit_width(words_[word_]) - 1);
    words_[word_] &= ~(std::uint64_t{1} << bit);
    --count_;
    return word_ * 64 + bit;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t count_ = 0;
  std::uint32_t word_ = 0, top_ = 0;  // top_: the highest word that add() has named since the last round
};

// Facts by word, in their order otherwise; there are `words`.
template <class Fact>
std::vector<Fact> sorted(const std::vector<Fact>& facts, std::size_t words) {
  std::vector<std::size_t> next(words + 1);
  for (const Fact& fact : facts) ++next[fact.word + 1];
  for (std::size_t w = 0; w < words; ++w) next[w + 1] += next[w];
  std::vector<Fact> result(facts.size());
  for (const Fact& fact : facts) result[next[fact.word]++] = fact;
  return result;
}

// Blocks, taken out in the order of the text.
class Touched {
 public:
  explicit Touched(std::size_t blocks) : words_((blocks + 63) / 64) {}
  void add(BlockId block) {
    words_[block / 64] |= std::uint64_t{1} << block % 64;
    first_ = std::min(first_, block / 64);
    last_ = std::max(last_, block / 64);
  }
  template <class Take>
  void take(Take take) {
    for (std::uint32_t w = first_; w <= last_ && w < words_.size(); ++w) {
      for (std::uint64_t bits = std::exchange(words_[w], 0); bits; bits &= bits - 1)
        take(w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
    first_ = no_block;
    last_ = 0;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::uint32_t first_ = no_block, last_ = 0;  // words that have bits lie between them
};

}  // namespace

// What a block does to 64 registers: reads from outside, and writes whole.
struct Liveness::Fact {
  std::uint32_t word;
  BlockId block;
  std::uint64_t reads, writes;
};

// Sorted by the registers; of a block, later statements come first, and what a statement writes before what it reads.
std::vector<Liveness::Fact> Liveness::find_facts() const {
  std::vector<Fact> facts;
  std::vector<Access> list;
  for (std::uint32_t s = static_cast<std::uint32_t>(function_.body.size()); s-- > 0;) {
    statement_accesses(s, list);
    for (const bool reads : {false, true}) {
      for (const Access& a : list) {
        const std::uint32_t n = numbers_[a.reg];
        const bool takes = reads ? a.reads : a.whole;
        if (n < global_ && takes)
          facts.push_back({n / 64, flow_.block_of(s), reads ? Bits{1} << n % 64 : 0, reads ? 0 : Bits{1} << n % 64});
      }
    }
  }
  return sorted(facts, (global_ + 63) / 64);
}

// Sixty-four registers at a time, in the blocks alone where one of them is live.
void Liveness::solve() {
  const std::vector<Fact> facts = find_facts();
  const std::size_t blocks = flow_.blocks().size();
  const auto order = flow_.order();
  std::vector<std::uint32_t> position(blocks, no_block);
  for (std::uint32_t at = 0; at < order.size(); ++at) position[order[at]] = at;
  std::vector<Bits> in(blocks), out(blocks), writes(blocks);
  std::vector<std::pair<BlockId, Change>> changes;
  Touched touched(blocks);
  Waiting waiting(order.size());
  for (std::size_t i = 0; i < facts.size();) {
    const std::uint32_t word = facts[i].word;
    const std::size_t first = i;
    for (; i < facts.size() && facts[i].word == word; ++i) {
      const Fact& fact = facts[i];
      in[fact.block] = (in[fact.block] & ~fact.writes) | fact.reads;
      writes[fact.block] |= fact.writes;
      touched.add(fact.block);
    }
    for (std::size_t f = first; f < i; ++f) {
      const BlockId block = facts[f].block;
      if (in[block] && position[block] != no_block) waiting.add(position[block]);
    }
    while (waiting.any()) {
      const BlockId block = order[waiting.take()];
      for (const BlockId from : flow_.predecessors(block)) {
        const Bits more = in[block] & ~out[from];
        if (more == 0 || position[from] == no_block) continue;
        out[from] |= more;
        touched.add(from);
        if ((more & ~writes[from] & ~in[from]) == 0) continue;
        in[from] |= more & ~writes[from];
        waiting.add(position[from]);
      }
    }
    BlockId above = no_block;  // the last block that was taken, and what is live where it ends
    Bits live = 0;
    const auto ends = [&](BlockId block) {  // nothing of it is live where `block` ends
      if (live && above + 1 < blocks && above + 1 != block) changes.push_back({above + 1, {word, live}});
    };
    touched.take([&](BlockId block) {
      ends(block);
      const Bits changed = out[block] ^ (above + 1 == block ? live : 0);
      if (changed) changes.push_back({block, {word, changed}});
      above = block;
      live = out[block];
      in[block] = out[block] = writes[block] = 0;
    });
    ends(no_block);
  }
  sort_by_block(changes);
}

void Liveness::sort_by_block(std::span<const std::pair<BlockId, Change>> changes) {
  const std::size_t blocks = flow_.blocks().size();
  first_change_.assign(blocks + 1, 0);
  for (const auto& [block, change] : changes) ++first_change_[block + 1];
  for (std::size_t b = 0; b < blocks; ++b) first_change_[b + 1] += first_change_[b];
  changes_.resize(changes.size());
  std::vector<std::uint32_t> at(first_change_.begin(), first_change_.end() - 1);
  for (const auto& [block, change] : changes) changes_[at[block]++] = change;
}

Liveness::Walk::Walk(const Liveness& of) : of_(of), live_((of.numbered_.size() + 63) / 64) {}

void Liveness::Walk::flip(std::uint32_t number) {
  live_[number / 64] ^= Bits{1} << number % 64;
  const ir::Register& r = of_.function_.registers[of_.numbered_[number]];
  std::uint32_t& count = now_.count[class_of(r.type)];
  count = is_live(number) ? count + r.vector : count - r.vector;
}

void Liveness::Walk::set(ir::RegisterId reg, bool live) {
  const std::uint32_t n = of_.numbers_[reg];
  if (is_live(n) == live) return;
  flip(n);
  moved_.push_back(n);
}

void Liveness::Walk::apply(BlockId block) {
  for (std::uint32_t i = of_.first_change_[block]; i < of_.first_change_[block + 1]; ++i) {
    const Change& change = of_.changes_[i];
    for (Bits bits = change.bits; bits; bits &= bits - 1)
      flip(change.word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
  }
}

void Liveness::Walk::enter(BlockId block) {
  for (const std::uint32_t n : moved_) flip(n);
  moved_.clear();
  while (next_ <= block) apply(next_++);
  while (next_ > block + 1) apply(--next_);  // a change is its own way back
}

Pressure Liveness::Walk::write(std::uint32_t statement) {
  of_.statement_accesses(statement, list_);
  needed_ = false;
  const std::size_t before = moved_.size();
  for (const Access& a : list_) {
    if (!a.writes) continue;
    needed_ = needed_ || is_live(of_.numbers_[a.reg]);
    set(a.reg, true);
  }
  const Pressure there = now_;
  while (moved_.size() > before) {  // written all the same
    flip(moved_.back());
    moved_.pop_back();
  }
  for (const Access& a : list_) {
    if (a.whole) set(a.reg, false);
  }
  return there;
}

void Liveness::Walk::read() {
  for (const Access& a : list_) {
    if (a.reads) set(a.reg, true);
  }
}

std::vector<ir::RegisterId> Liveness::Walk::live() const {
  std::vector<ir::RegisterId> result;
  for (std::uint32_t w = 0; w < live_.size(); ++w) {
    for (Bits bits = live_[w]; bits; bits &= bits - 1)
      result.push_back(of_.numbered_[w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits))]);
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<ir::RegisterId> Liveness::Walk::out(BlockId block) {
  enter(block);
  return live();
}

std::vector<ir::RegisterId> Liveness::Walk::in(BlockId block) {
  enter(block);
  for (std::uint32_t s = of_.flow_.blocks()[block].last; s-- > of_.flow_.blocks()[block].first;) write(s), read();
  return live();
}

std::vector<ir::RegisterId> Liveness::Walk::behind(std::uint32_t statement) {
  const BlockId block = of_.flow_.block_of(statement);
  enter(block);
  for (std::uint32_t s = of_.flow_.blocks()[block].last; s-- > statement + 1;) write(s), read();
  return live();
}

std::vector<Pressure> Liveness::pressures() const {
  std::vector<Pressure> result(function_.body.size());
  Walk walk(*this);
  for (BlockId block = 0; block < flow_.blocks().size(); ++block) {
    walk.enter(block);
    for (std::uint32_t s = flow_.blocks()[block].last; s-- > flow_.blocks()[block].first;) {
      result[s] = walk.write(s);
      walk.read();
    }
  }
  return result;
}

}  // namespace ptx::analysis
