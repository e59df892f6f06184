// What the modifiers of a matrix instruction say: its shape, m16n8k16, and the types of its matrices.
#pragma once

#include <string_view>
#include <vector>

#include "ptx/isa/form.h"

namespace ptx::isa {

namespace detail {
int number_behind(std::string_view text, char letter);  // "m64n128k16", 'n' -> 128; 0 where there is none
}

struct MatrixShape {
  int m = 0, n = 0, k = 0;  // 0: the shape does not say
};
// The types that a mnemonic names, in its order.
std::vector<Type> named_types(const Match& match);

// The value of .shape, or the literal that begins as a shape; zeros where there is none.
MatrixShape matrix_shape(const Match& match);

}  // namespace ptx::isa
