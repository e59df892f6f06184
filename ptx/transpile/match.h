// Whether two modules are one but for the names of registers and labels: what sugar promises.
#pragma once

#include <string>

#include "ptx/ir/ir.h"

namespace ptx::transpile {

// "" if they are; else where they first differ, with both sides. Declarations of registers count for the type of each
// register that is used, labels for where they stand, comments not at all; variables stand anywhere in their block.
std::string difference(const ir::Module& a, const ir::Module& b);

}  // namespace ptx::transpile
