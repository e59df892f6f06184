// The functions behind SLOT_RULE and COUNT of rules.def. They live in rules_*.cpp, by chapter.
#pragma once

#include "ptx/isa/form.h"

namespace ptx::isa::rules {

#define SLOT_RULE(name, legal) bool name(const Match& match);
#define OPERAND_RULE(name)
#define COUNT(name) int name(const Match& match);
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT

// frag(T,M): a matrix spread over a warp, or over a warpgroup if M is 64 rows.
int fragment_length(const Match& match, Type element, char matrix);
Type fragment_type(const Match& match, Type element);

}  // namespace ptx::isa::rules
