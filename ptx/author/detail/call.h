// Calls of functions with a raw signature (raw_call.cpp), which call() of function.h leaves to them.
#pragma once

#include "ptx/author/function.h"

namespace ptx::author {

bool is_raw(const Function& function);  // its parameters are not FunctionOptions::parameters
std::vector<Reg> raw_call(Builder& builder, const Function& function, std::span<const Argument> arguments,
                          const CallOptions& options);

}  // namespace ptx::author
