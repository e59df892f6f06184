// Bodies of ptx/isa/forms/multimem.def.
#pragma once

#include "ptx/sim/exec/lane.h"

namespace ptx::sim {}  // namespace ptx::sim
