// mma, mma.sp and wmma.mma: the matrices of a warp from its fragments, multiplied as the tensor core of the target does
// (numerics/). What an instruction is, is worked out once, when it is bound.
#pragma once

#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

Bound bind_mma(const isa::Match& match);

}  // namespace ptx::sim
