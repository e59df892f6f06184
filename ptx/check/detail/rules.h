// The functions behind OPERAND_RULE of rules.def: what a row cannot say. Each has a diagnostic code and a refusal test
// of its name.
#pragma once

#include "ptx/check/detail/operands.h"
#include "ptx/isa/row.h"

namespace ptx::check::rules {

struct Broken {
  Code code{};
  std::string message;
  explicit operator bool() const { return code != Code{}; }
};

#define SLOT_RULE(name, legal)
#define OPERAND_RULE(name) Broken name(const View& view, const isa::Match& match, const ir::Instruction& instruction);
#define COUNT(name)
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT

}  // namespace ptx::check::rules
