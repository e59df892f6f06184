// The table of all rows: which handler runs a match. A row of forms/*.def with neither a body nor a line in
// unsimulated.def does not compile; the compiler names its sem_<id>.
#pragma once

#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

Bound bind(const isa::Match& match);

// How the accesses of a match are ordered; what it leaves out is what the manual says of its opcode.
Manner manner(const isa::Match& match);

}  // namespace ptx::sim
