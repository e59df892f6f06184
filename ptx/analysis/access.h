// Which registers an instruction reads and writes, by the rows of isa. Where check has set no match, the first reading
// of the mnemonic that has enough operands stands for it; of an unknown mnemonic, every register may be read and
// written.
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::analysis {

struct Access {
  ir::RegisterId reg = ir::no_id;
  bool reads = false;
  bool writes = false;
  bool whole = false;                 // of a write: nothing of the old value is left; false also under a guard
  std::uint32_t operand = ir::no_id;  // index into Function::operands; no_id: the guard
};

// Appends to `list` what the instruction does to registers: the guard, then its operands in their order. A register may
// come more than once.
void accesses(const ir::Function& function, const ir::Instruction& instruction, std::vector<Access>& list);

// Whether nothing but its destinations says that the instruction ran: it has no address, no flag CC.CF, no other thread
// waits for it, and it does not branch. Where nobody reads the destinations, it may be left out.
bool is_pure(const ir::Instruction& instruction);

// Where a register is read and where it is written, as statements of the body in their order.
struct Uses {
  std::vector<std::uint32_t> reads, writes;
};
std::vector<Uses> uses(const ir::Function& function);  // by RegisterId

}  // namespace ptx::analysis
