// Which registers hold a value that is still read, and how many that are: a lower bound of what the assembler needs.
// A write that is guarded, or that changes a part of a register, keeps the old value alive.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
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

class Liveness {
 public:
  // Both must live as long as this.
  Liveness(const ir::Function& function, const Flow& flow);

  // Registers that are live where a block begins and where it ends, in order.
  std::vector<ir::RegisterId> in(BlockId block) const { return registers(in_, block); }
  std::vector<ir::RegisterId> out(BlockId block) const { return registers(out_, block); }

  // Walks a block backwards: take(statement, live) for each of its statements, where `live` is the pressure behind it
  // with what it writes: what an instruction needs at the same time.
  template <class Take>
  void each(BlockId block, Take take) const {
    Walk walk(*this, block);
    for (std::uint32_t s = flow_.blocks()[block].last; s-- > flow_.blocks()[block].first;) take(s, walk.step(s));
  }
  // Likewise: take(statement, whether something that it writes is read afterwards).
  template <class Take>
  void each_needed(BlockId block, Take take) const {
    Walk walk(*this, block);
    for (std::uint32_t s = flow_.blocks()[block].last; s-- > flow_.blocks()[block].first;) {
      walk.step(s);
      take(s, walk.needed());
    }
  }
  // The registers that are live behind a statement, in order.
  std::vector<ir::RegisterId> behind(std::uint32_t statement) const;
  // For each statement the pressure there.
  std::vector<Pressure> pressures() const;

 private:
  using Words = std::vector<std::uint64_t>;

  class Walk {
   public:
    Walk(const Liveness& of, BlockId block);
    Pressure step(std::uint32_t statement);
    const std::vector<bool>& live() const { return live_; }
    bool needed() const { return needed_; }  // of the last step: a register that it wrote was live behind it

   private:
    void set(ir::RegisterId reg, bool live);
    const Liveness& of_;
    std::vector<bool> live_;  // by number
    Pressure now_;
    std::vector<Access> list_;
    std::vector<ir::RegisterId> unread_;
    bool needed_ = false;
  };

  std::vector<ir::RegisterId> registers(const Words& rows, BlockId block) const;
  void statement_accesses(std::uint32_t statement, std::vector<Access>& list) const;
  void number();
  void solve();

  const ir::Function& function_;
  const Flow& flow_;
  std::vector<std::uint32_t> numbers_;    // of each register that is used; no_id: none. Those between blocks come first
  std::vector<ir::RegisterId> numbered_;  // the way back
  std::uint32_t global_ = 0;              // how many are live between blocks
  std::size_t words_ = 0;                 // of a row
  Words in_, out_;                        // a row a block
};

}  // namespace ptx::analysis
