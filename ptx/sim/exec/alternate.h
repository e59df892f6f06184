// Manual 9.7.6 of PTX ISA 9.4: four f8, f6 or f4 numbers at once.
#pragma once

#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

Bound alternate_body(const isa::Match& match);  // of add, sub, mul, fma

}  // namespace ptx::sim
