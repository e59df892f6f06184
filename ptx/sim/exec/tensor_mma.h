// tcgen05.mma, .mma.sp, .mma.ws, .mma.ws.sp of all kinds (manual 9.7.16.10).
#pragma once

#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

Bound bind_tensor_mma(const isa::Match& match);

}  // namespace ptx::sim
