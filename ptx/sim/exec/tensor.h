// Bodies of ptx/isa/forms/tensor.def.
#pragma once

#include "ptx/sim/exec/lane.h"

namespace ptx::sim {}  // namespace ptx::sim
