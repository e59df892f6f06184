// Tree to ir. Registers are found by their scopes, constants are folded, every statement keeps its place in the text.
// Names of variables, labels and functions stay names: whether they exist, and whether anything is legal, is for
// `check`. What a parse could not read is left out; it has its diagnostic already. Comments are not kept.
#pragma once

#include "ptx/base/diagnostic.h"
#include "ptx/ir/ir.h"
#include "ptx/syntax/tree.h"

namespace ptx::ir {

struct Lowered {
  Module module;
  Diagnostics diagnostics;  // PTX1101..1199, in the order of the text
};

// Never fails: any tree gives a module. An edited tree lowers as the text that it prints.
Lowered lower(const syntax::Tree& tree);

// texref, samplerref, surfref: what variables and parameters may be instead of a type (manual 5.3).
bool is_opaque(std::string_view word);

// What .ptr of a kernel's parameter may point to: a state space (manual 5.1.6.3), and the types above, which OpenCL's
// compilers write and the manual does not have.
bool is_pointed(std::string_view word);

}  // namespace ptx::ir
