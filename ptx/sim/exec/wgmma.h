// Bodies of ptx/isa/forms/wgmma.def.
#pragma once

#include "ptx/sim/exec/lane.h"

namespace ptx::sim {}  // namespace ptx::sim
