// The data of a section of debug information (11.5.4).
#pragma once

#include <string>

#include "ptx/syntax/tree.h"

namespace ptx::ir {

// What is wrong with a row of it, `.b8 1, 2`; "" where nothing is.
std::string wrong_section_data(const syntax::Tree& tree, syntax::NodeId data);

}  // namespace ptx::ir
