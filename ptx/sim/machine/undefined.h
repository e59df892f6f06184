// Values that nothing wrote, bit by bit. Reading, copying, masking and dropping them is legal; a program is told when
// one decides something: an address, a branch, what global or shared memory holds, a barrier. Lanes whose register is
// wholly defined (Frame::initialised) never come here, so programs without such values pay for nothing.
//
// How undefined bits travel through an instruction is found by trial: it runs on several choices of the undefined bits
// of its sources, and a bit of the result that they change is undefined. No instruction needs a rule of its own, and
// `and r, 0`, `xor r, r` or a selection come out right. What no trial changes is taken for defined.
#pragma once

#include "ptx/ir/ir.h"
#include "ptx/sim/machine/warp.h"

namespace ptx::sim {

using CellBits = unsigned __int128;  // of one cell; 1: undefined. A predicate has one

inline constexpr std::size_t trial_row = 16 * lanes;  // bytes of a row that holds cells of any width
CellBits cell_at(const std::byte* row, const Operand& o, int lane);
void set_cell(std::byte* row, const Operand& o, int lane, CellBits value);

// Compared by its address, which an array has once.
inline constexpr char load_is_over[] = "tcgen05.wait::ld";

// Where an undefined value comes from, for messages.
struct Origin {
  const ir::Register* never_written = nullptr;
  std::uint32_t pc = 0;  // else of the instruction that read memory
  std::uint64_t address = 0;
  std::uint32_t bytes = 0, missing = 0;  // of the access; the first byte that was never written
  bool tensor = false;                   // it read tensor memory
  const char* awaits = nullptr;          // it has not given the value yet: this ends it
  int lane = -1;                         // of shfl: whose value it would be, who does not take part
};

// A frame has one of these once it has a value of which only some bits are defined.
struct Undefined {
  explicit Undefined(const Frame& frame);
  std::vector<Line> bits;       // as Frame::registers; of lanes that are not initialised
  std::vector<Origin> origins;  // by slot
};

CellBits undefined_bits(const Frame& frame, const Operand& o, int lane);
Origin origin(const Frame& frame, const Operand& o);
void set_undefined(Frame& frame, const Operand& o, int lane, CellBits bits, const Origin& from);

// Instead of the handler: an instruction of which a source is not wholly defined. May end in a fault.
void run_undefined(Warp& warp, const Op& op, Mask active, Handler handler);
// After a load of bytes that nothing wrote, or a shfl from lanes that do not take part (Warp::unwritten).
void settle_load(Warp& warp, const Op& op);
void report_undefined(Warp& warp, const Operand& o, Mask lanes);

}  // namespace ptx::sim
