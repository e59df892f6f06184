// Bodies of ptx/isa/forms/tcgen05.def.
#pragma once

#include "ptx/sim/exec/lane.h"

namespace ptx::sim {}  // namespace ptx::sim
