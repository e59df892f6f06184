// Operands against the patterns of a match.
#pragma once

#include "ptx/base/diagnostic.h"
#include "ptx/check/check.h"
#include "ptx/quirks/quirks.h"

namespace ptx::check {

using ir::is_warp_size;
using ir::not_declared;
using ir::Problem;
using ir::Symbol;
using ir::View;
using isa::agrees;
using isa::is_integer;
using quirks::Excuses;

// With `excuses`, what they cover is no problem.
Problem fit_operands(const View& view, const isa::Match& match, const ir::Instruction& instruction,
                     Excuses* excuses = nullptr);

// The message of a problem, with what was written and what is legal.
std::string describe(const View& view, const isa::Match& match, const ir::Instruction& instruction,
                     const Problem& problem);

}  // namespace ptx::check
