// A program as the warps run it: decoded instructions of an entry and of every function that it can reach, constant
// rows, the layout of shared and local memory. Made by decode; immutable afterwards except for the bytes of module
// variables.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ptx/base/expected.h"
#include "ptx/ir/ir.h"
#include "ptx/launch/record.h"
#include "ptx/sim/machine/op.h"
#include "ptx/sim/machine/warp.h"
#include "ptx/sim/memory/memory.h"

namespace ptx::sim {

// Bytes of local memory that a thread may have (CUDA Programming Guide, technical specifications).
inline constexpr std::uint32_t max_local = 512 * 1024;

// A parameter or result, on either side of a call: a row of a register, or bytes of the frame's local memory.
struct Passed {
  bool in_register = false;
  Operand row;
  std::uint32_t local = 0, bytes = 0;
};

// A register by its name in the text, and where its row lies.
struct NamedRow {
  ir::Register name;
  Operand row;
};

struct FunctionCode {
  Name name;
  bool entry = false, defined = false;
  std::uint32_t index = 0;
  std::uint32_t first = 0;           // pc
  std::uint32_t register_bytes = 0;  // of a frame
  std::uint32_t slots = 1;           // of initialised masks
  std::uint32_t local_bytes = 0;     // a thread
  std::vector<Passed> parameters, returns;
  std::vector<ir::Register> slot_registers{1};  // by slot, for messages
  std::vector<NamedRow> registers;              // that something names, for whoever looks at a run
};

struct CallPlan {
  const FunctionCode* callee = nullptr;  // nullptr: the function whose address is in `pointer`
  Operand pointer;
  Handler system = nullptr;  // of a function that the device has (exec/system_call.h)
  Name missing;              // a function that the text only declares: calling it is a fault
  std::vector<Passed> results, arguments;
};

struct SpecialRow {
  std::string_view name;  // "%tid.x"
  std::uint32_t offset = 0;
  std::uint8_t cell = 4;
};

struct ModuleVariable {
  Name name;
  isa::Space space = isa::Space::global;
  std::uint64_t size = 0;
  std::vector<std::uint64_t> storage;  // aligned by hand to 256 bytes
  std::byte* data = nullptr;
};

// Bytes at the start of the system's shared memory that are zeros when a CTA begins; barriers of cooperative groups.
inline constexpr std::uint32_t reserved_in_use = 288;

struct Program {
  int architecture = 0;    // of the target: 90
  bool generated = false;  // by a compiler, as the text says
  std::vector<Op> ops;
  std::vector<Place> places;                // of each op
  std::vector<Place> sources;               // of each op: what the text was compiled from, as its .loc says
  std::vector<std::string_view> mnemonics;  // of each op, for messages; live for the process
  std::vector<std::uint32_t> traits;        // of each op's form
  std::vector<Operand> operands;
  std::vector<Line> constants;
  // Rows of `constants` that are addresses of shared variables: on a CTA of another rank they have its rank.
  std::vector<Operand> shared_addresses;
  std::set<std::uint32_t> shared_sums;  // offsets of those among them that a name and a number make
  std::deque<FunctionCode> functions;   // [0]: the entry
  std::deque<CallPlan> calls;
  std::vector<std::vector<std::uint32_t>> tables;  // of brx.idx: pcs
  std::vector<SpecialRow> specials;
  std::uint32_t special_bytes = 64;
  std::uint32_t first_registers = 0;    // of a thread, before setmaxnreg; 0: nobody knows
  std::optional<launch::Dim3> cluster;  // of .reqnctapercluster
  std::optional<launch::Dim3> block;    // of .reqntid
  std::uint32_t most_threads = 0;       // of .maxntid, in a CTA; 0: it does not say
  std::vector<NamedBytes> shared_variables;
  std::vector<NamedBytes> local_variables;  // of the entry, from the start of a thread's local memory
  std::vector<Operand> local_addresses;     // rows of `constants` that are addresses of these, and no numbers
  std::uint32_t static_shared = 0;          // bytes; the dynamic part starts here
  std::uint32_t reserved_shared = 0;  // bytes of it that are the system's; 0: the text does not ask where they lie
  std::deque<ModuleVariable> variables;
  std::shared_ptr<const std::vector<MadeRegisters>> registers;  // of the author, as the launch record has them
  bool ordered = false;       // prints, or has memory of the heap: CTAs run one behind the other, on one core
  bool discards = false;      // global memory may become undefined again
  bool communicates = false;  // CTAs may wait for each other or race on atomics: run them in one order
  bool takes_over = false;    // clusters ask for those that have not begun

  bool is(std::uint32_t pc, isa::Trait trait) const { return traits[pc] >> static_cast<int>(trait) & 1; }
};

// The constants as a CTA of this rank in its cluster has them.
std::vector<Line> constants_of(const Program& program, std::uint32_t rank);

}  // namespace ptx::sim
