// The type in which a number is spelled as an operand: 1.5 is 0f3FC00000 in an .f32 instruction.
#pragma once

#include "ptx/isa/form.h"

namespace ptx::isa {

// The type of operand `i`, counted from 0, of `count` operands. none: the rows do not say.
Type literal_type(const Mnemonic& mnemonic, std::size_t i, std::size_t count);

}  // namespace ptx::isa
