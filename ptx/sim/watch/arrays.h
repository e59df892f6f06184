// Accesses of shared memory, or of an entry's .local variables, that leave the array from whose address theirs is made,
// and land in another one. Whose an address is, is found in the text: a register is an array's if all that writes it
// computes it from that array's address and from no other's. An address that was loaded, or that is a call's argument,
// is nobody's.
#pragma once

#include <set>
#include <unordered_map>
#include <vector>

#include "ptx/sim/machine/cta.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/watch/observer.h"

namespace ptx::sim {

class Arrays final : public Observer {
 public:
  explicit Arrays(const Launch& launch);
  // The breaches, each line once.
  const std::vector<Report>& reports() const { return reports_; }

  void accessed(const Agent&, const Location&, Access, const Manner&) override {}
  void touched(const Touch& touch) override;
  void began(const Operation& operation) override;
  void began(Warp&, const ThreadCopy&) override {}
  void multiplies(const Agent& agent, const Cta& cta, const MatrixRead& read) override;

 private:
  bool is_local(std::uint32_t array) const;
  const NamedBytes* array_at(std::uint32_t pc) const;
  void report(Warp& warp, std::uint32_t pc, int lane, Access kind, const Location& where, std::uint32_t array);
  void find_arrays(std::uint32_t first, std::uint32_t end, std::uint32_t slots);
  void find_addresses();
  std::uint32_t taken_at(std::uint32_t pc, std::uint32_t array) const;
  const NamedBytes& bytes_of(std::uint32_t array) const;
  std::uint32_t array_of(const Operand& row) const;

  const Launch& launch_;
  std::unordered_map<std::uint32_t, std::uint32_t> addresses_;  // by offset of a constant: of what it is made
  std::vector<std::uint32_t> array_;  // by pc: of the address that is accessed; see arrays.cpp
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> descriptors_;  // by pc of a product: of those it has
  std::vector<std::uint32_t> made_;  // by slot of a function: of what its register is made
  std::set<std::uint32_t> known_;    // pcs
  std::vector<Report> reports_;
};

}  // namespace ptx::sim
