// Tensor copies (TMA): the rank and the operands of each instruction from the coordinates and modes that are given.
// Other copies are plain instructions: k.cp(...) in C++; the rows of all functions are
// families/{cp_async,tensor_copy}*.def.
#pragma once

#include <optional>
#include <vector>

#include "ptx/author/barrier.h"
#include "ptx/author/builder.h"

namespace ptx::author::tensor_copy {

// Innermost first: numbers and 32-bit registers.
struct Coordinates {
  std::vector<Operand> at;
  Coordinates() = default;
  Coordinates(std::vector<Operand> at) : at(std::move(at)) {}
  Coordinates(std::initializer_list<Operand> at) : at(at) {}
};

#define PTX_FAMILY "ptx/author/families/tensor_copy.def"
#include "ptx/author/families/declare.def"

}  // namespace ptx::author::tensor_copy
