// Which registers hold a value that is still read, and how many that are: a lower bound of what the assembler needs.
// A write that is guarded, or that changes a part of a register, keeps the old value alive.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ptx/analysis/access.h"
#include "ptx/analysis/flow.h"

namespace ptx::analysis {

// How many registers of each class; an element of a vector is one.
struct Pressure {
  enum Class : std::uint8_t { predicate, bits16, bits32, bits64, bits128 };
  static constexpr std::array<std::string_view, 5> names = {"pred", "b16", "b32", "b64", "b128"};
  std::array<std::uint32_t, 5> count{};

  // In registers of 32 bits, two of 16 bits to a register; predicates have a file of their own.
  std::uint32_t words() const {
    return (count[bits16] + 1) / 2 + count[bits32] + 2 * count[bits64] + 4 * count[bits128];
  }
};
Pressure::Class class_of(isa::Type type);

// What is kept is where the set of live registers of a block differs from that of the block above it in the text: the
// sets of 100,000 blocks with as many registers would not fit in memory.
class Liveness {
  using Bits = std::uint64_t;

 public:
  // Stands at a statement. From block to block it costs what changes between them, within a block its statements.
  class Walk {
   public:
    explicit Walk(const Liveness& of);
    std::vector<ir::RegisterId> in(BlockId block);
    std::vector<ir::RegisterId> out(BlockId block);
    std::vector<ir::RegisterId> behind(std::uint32_t statement);

   private:
    friend class Liveness;
    void enter(BlockId block);  // behind its last statement; from there write() and read() of each statement, backwards
    Pressure write(std::uint32_t statement);
    void read();
    bool needed() const { return needed_; }  // a register of write() was live behind the statement
    void apply(BlockId block);               // what changes between it and the block above
    bool is_live(std::uint32_t number) const { return live_[number / 64] >> number % 64 & 1; }
    void flip(std::uint32_t number);
    void set(ir::RegisterId reg, bool live);
    std::vector<ir::RegisterId> live() const;

    const Liveness& of_;
    BlockId next_ = 0;                  // behind the block whose end is the base
    std::vector<Bits> live_;            // by number
    std::vector<std::uint32_t> moved_;  // numbers, since the base
    Pressure now_;
    std::vector<Access> list_;
    bool needed_ = false;
  };

  // Both must live as long as this.
  Liveness(const ir::Function& function, const Flow& flow);

  // Registers that are live where a block begins, where it ends, and behind a statement, in order. For many places, in
  // the order of the text, ask one Walk.
  std::vector<ir::RegisterId> in(BlockId block) const { return Walk(*this).in(block); }
  std::vector<ir::RegisterId> out(BlockId block) const { return Walk(*this).out(block); }
  std::vector<ir::RegisterId> behind(std::uint32_t statement) const { return Walk(*this).behind(statement); }

  // For each statement the pressure behind it with what it writes: what an instruction needs at the same time.
  std::vector<Pressure> pressures() const;

  // Backwards through each block: drops(statement, whether something that it writes is read afterwards). What is
  // dropped reads nothing, so a chain of instructions that feed each other alone is found at once.
  template <class Drops>
  void each_needed(Drops drops) const {
    Walk walk(*this);
    for (BlockId block = 0; block < flow_.blocks().size(); ++block) {
      walk.enter(block);
      for (std::uint32_t s = flow_.blocks()[block].last; s-- > flow_.blocks()[block].first;) {
        walk.write(s);
        if (!drops(s, walk.needed())) walk.read();
      }
    }
  }

 private:
  struct Change {  // of 64 registers, between the ends of two blocks
    std::uint32_t word;
    Bits bits;
  };

  void statement_accesses(std::uint32_t statement, std::vector<Access>& list) const;
  void number();
  struct Fact;
  std::vector<Fact> find_facts() const;
  void solve();
  void sort_by_block(std::span<const std::pair<BlockId, Change>> changes);

  const ir::Function& function_;
  const Flow& flow_;
  std::vector<std::uint32_t> numbers_;    // of each register that is used; no_id: none. Those between blocks come first
  std::vector<ir::RegisterId> numbered_;  // the way back
  std::uint32_t global_ = 0;              // how many are live between blocks
  std::vector<std::uint32_t> first_change_;  // by block
  std::vector<Change> changes_;
};

}  // namespace ptx::analysis
