// Functions that the device has and no text defines: vprintf, __assertfail, malloc and free, and memory of the device's
// runtime, as nvcc calls them (CUDA C++ Programming Guide, "Formatted Output", "Assertion", "Dynamic Global Memory
// Allocation").
#pragma once

#include <string_view>

#include "ptx/sim/machine/op.h"

namespace ptx::sim {

// The handler of a call of it; nullptr: there is no such function.
Handler system_call(std::string_view function);

// Whether what it does depends on the order in which CTAs come to it.
bool acts_in_order(std::string_view function);

}  // namespace ptx::sim
