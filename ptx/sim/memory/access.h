// The one way to memory: from an agent's address in a space to host memory, with bounds, alignment and the shadow of
// what was written checked on the way, and the observer told. Nothing else makes host pointers of addresses.
#pragma once

#include <optional>
#include <string>

#include "ptx/sim/machine/warp.h"
#include "ptx/sim/watch/observer.h"

namespace ptx::sim {

struct Program;

struct Where {
  alignas(64) u64 at[lanes];        // host addresses; those of inactive lanes are of an active one
  bool vain = false;                // of an update, before it: it will leave memory as it is
  const Operand* stored = nullptr;  // of st: the first of the elements
  const std::byte* rows = nullptr;  // of stmatrix: what each lane stores
};

// What a read does that meets bytes which nothing wrote: it is a fault, or it notes them in Warp::unwritten, and the
// reader says what becomes of them.
enum class Unwritten : std::uint8_t { faults, passes };

// `bytes` from each active lane's address: the operand's row + its displacement, in its space. False after a fault.
template <class Engine>
bool access(Warp& w, const Op& op, const Operand& address, Mask active, unsigned bytes, Access kind, Where& where,
            Unwritten unwritten = Unwritten::faults);

// The same for an agent that is not a warp's instruction of this moment, in two steps. `locate` finds the place that
// the address of one lane names, all of it in one memory, and judges bounds, alignment and whether it may be written;
// nullopt after a fault. `reach` gives its bytes later; no data after a fault.
std::optional<Location> locate(Warp& w, const Operand& address, int lane, u64 bytes, u64 alignment, Access kind);
struct Bytes {
  std::byte* data = nullptr;
  u8* states = nullptr;  // nullptr: all are written, and nobody keeps that
};
Bytes reach(const Agent& agent, const Location& where, Access kind, const Manner& manner);
// The same without telling an observer; of global memory without its states.
Bytes bytes_at(const Location& where);

std::string describe(const Program& program, const Location& where);  // "`full`+8", "0x1000 of global memory"

extern template bool access<Plain>(Warp&, const Op&, const Operand&, Mask, unsigned, Access, Where&, Unwritten);
extern template bool access<Watched>(Warp&, const Op&, const Operand&, Mask, unsigned, Access, Where&, Unwritten);

}  // namespace ptx::sim
