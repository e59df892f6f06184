// What the text alone says of values that memory operations read and write: loads whose value a compare-and-swap looks
// at, stores of one constant, loads whose value decides nothing. All are found within a function.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ptx/sim/machine/code.h"

namespace ptx::sim {

class TextValues {
 public:
  explicit TextValues(const Program& program);

  // `old = *p; do { seen = old; old = atomicCAS(p, seen, f(seen)); } while (old != seen);`: whatever the load finds,
  // the compare-and-swap sees to it.
  bool is_guess(std::uint32_t pc) const { return guesses_[pc]; }
  // Both store the same constants, whoever comes first: `found = 1`.
  bool store_the_same(std::uint32_t one, std::uint32_t other) const;
  // A volatile load whose value is stored, or what is made of it, and on which no predicate depends: it is no flag.
  bool is_volatile_data(std::uint32_t pc) const;

 private:
  using Registers = std::set<std::uint32_t>;  // by offset
  bool takes(const Op& op, const Registers& some) const;
  bool makes(const Op& op, const Registers& some) const;
  void find_guesses(std::uint32_t first, std::uint32_t end);
  void find_constants(std::uint32_t first, std::uint32_t end);

  const Program& program_;
  std::set<std::uint32_t> begins_;                       // pcs of functions, and the end
  std::vector<bool> guesses_;                            // by pc
  std::vector<std::optional<std::uint64_t>> constants_;  // by pc of a store of one value
  mutable std::map<std::uint32_t, bool> data_;           // by pc, once it was asked
};

}  // namespace ptx::sim
