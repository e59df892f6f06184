// What stands where a row has no body: the reason, of unsimulated.def.
#pragma once

#include "ptx/sim/exec/lane.h"

namespace ptx::sim {

#define UNSIMULATED(id, why) [[maybe_unused]] constexpr Unsimulated sem_##id{why};
#include "ptx/sim/exec/unsimulated.def"
#undef UNSIMULATED

}  // namespace ptx::sim
