// Constant expressions of the tree, by the manual's rules (4.5.4 to 4.5.6): 64-bit integers, signed unless one operand
// is unsigned, and doubles; the two do not mix.
#pragma once

#include <cstdint>
#include <optional>

#include "ptx/syntax/tree.h"

namespace ptx::ir {

struct Constant {
  enum class Kind : std::uint8_t { signed_, unsigned_, real } kind = Kind::signed_;
  std::int64_t integer = 0;  // also the bits of an unsigned one
  double real = 0;
};

// The value of a literal, a unary or an expression; nothing if it is no constant (a name stands in it, an exact
// single-precision literal, a division by zero) or an integer literal does not fit 64 bits.
std::optional<Constant> constant(const syntax::Tree& tree, syntax::NodeId node);

// The value that an expression adds to a name: of `a + 4 * 2`, 8. The expression begins with the name and a `+`.
std::optional<Constant> constant_offset(const syntax::Tree& tree, syntax::NodeId expression);

// The value of a literal of f64, "1.5e3"; nothing if it is beyond the normal numbers, as ptxas refuses those.
std::optional<double> real(std::string_view literal);

}  // namespace ptx::ir
