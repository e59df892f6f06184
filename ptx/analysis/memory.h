// Which memory a function reaches by a name: a variable, or a parameter that is a pointer. Addresses are followed
// through moves, sums and products with numbers, and through what a loop adds to them in each round.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::analysis {

struct MemoryUse {
  isa::Type type = isa::Type::none;  // as the instruction names it; none: bytes
  std::uint32_t bytes = 0;           // of one thread; 0: the instruction does not say
  bool reads = false, writes = false;
  std::vector<std::uint64_t> steps{};    // by what the address moves with each thing that it depends on, in bytes
  std::vector<ir::RegisterId> values{};  // loaded or stored
};

struct ReachedMemory {
  bool escapes = false;  // something else is done with an address: not all uses are here
  std::vector<MemoryUse> uses;
};

// By Name::id().
std::unordered_map<std::uint32_t, ReachedMemory> reached_memory(const ir::Function& function);

// The type of floating point numbers that each register holds, one or packed, by what computes with it or with what it
// was moved to; none: nothing does, or two types do. By RegisterId.
std::vector<isa::Type> held_numbers(const ir::Function& function);

// The type of the elements that all uses name, where bits are of the type of the numbers that `held` says; of bits
// alone if none does. none: two types, or no use says one.
isa::Type element_of(const std::vector<MemoryUse>& uses, const std::vector<isa::Type>& held);

}  // namespace ptx::analysis
