// The numbers of a function's directive.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::ir {

// The numbers behind the directive `word`, ".maxntid", however an author spelled them; nothing if the function has
// none. Of several the last counts, as for the assembler.
std::optional<std::vector<std::uint32_t>> directive_numbers(const Function& function, std::string_view word);

}  // namespace ptx::ir
