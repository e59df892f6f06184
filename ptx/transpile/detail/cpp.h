// The parts of a C++ program.
#pragma once

#include <string>

#include "ptx/ir/ir.h"
#include "ptx/transpile/detail/names.h"
#include "ptx/transpile/detail/plan.h"
#include "ptx/transpile/detail/python.h"
#include "ptx/transpile/detail/source.h"

namespace ptx::transpile {

// A variable as the fields of ir::Variable.
std::string fields(const ir::Variable& v);

// The statements of a function. `end`: the line of its last brace; `reserved`: names that the body cannot have.
void write_cpp_body(const ir::Function& function, const Plan& plan, std::uint32_t end, Source& out,
                    Commentary& comments, const Names& reserved);

}  // namespace ptx::transpile
