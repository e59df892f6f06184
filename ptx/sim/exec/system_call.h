// Functions that the device has and no text defines: vprintf and __assertfail, as nvcc calls them (CUDA C++ Programming
// Guide, "Formatted Output", "Assertion").
#pragma once

#include <string_view>

#include "ptx/sim/machine/op.h"

namespace ptx::sim {

// The handler of a call of it; nullptr: there is no such function.
Handler system_call(std::string_view function);

}  // namespace ptx::sim
