// One memory access of a warp: from the addresses of its lanes to host addresses, with bounds, alignment and the shadow
// of what was written checked on the way.
#pragma once

#include "ptx/sim/machine/warp.h"

namespace ptx::sim {

enum class Access : std::uint8_t { read, write, update };  // update: an atomic, which reads and writes

struct Where {
  alignas(64) u64 at[lanes];  // host addresses; those of inactive lanes are of an active one
};

// `bytes` from each active lane's address: the operand + Op::offset, in Op::space. False after a fault.
bool locate(Warp& w, const Op& op, const Operand& base, Mask active, unsigned bytes, Access access, Where& where);

}  // namespace ptx::sim
