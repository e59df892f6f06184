// Operands against the patterns of a match.
#pragma once

#include "ptx/base/diagnostic.h"
#include "ptx/check/check.h"
#include "ptx/check/detail/symbols.h"

namespace ptx::check {

// What an instruction is seen from.
struct View {
  const Goal& goal;
  const ir::Function& function;
  const Symbols* symbols;   // may be missing: names are then taken as they are
  std::uint32_t statement;  // where the instruction stands in the body; of no interest without symbols
};

// Why operands do not fit a match; code 0: they do. Texts are made only for the problem that is reported.
struct Problem {
  Code code{};
  int operand = -1;  // from 0; which one of the instruction's
  const isa::Pattern* pattern = nullptr;
  const ir::Operand* given = nullptr;
  explicit operator bool() const { return code != Code{}; }
};

class Excuses;

// With `excuses`, what they cover is no problem.
Problem fit_operands(const View& view, const isa::Match& match, const ir::Instruction& instruction,
                     Excuses* excuses = nullptr);

// The message of a problem, with what was written and what is legal.
std::string describe(const View& view, const isa::Match& match, const ir::Instruction& instruction,
                     const Problem& problem);

bool is_integer(isa::TypeKind kind);
bool is_warp_size(const ir::Operand& o);  // WARP_SZ, which is a number, 32, wherever one may stand

}  // namespace ptx::check
