// Bodies of ptx/isa/forms/fabric.def.
#pragma once

#include "ptx/sim/exec/lane.h"

namespace ptx::sim {}  // namespace ptx::sim
