// What asks for a later PTX version than the form of its instruction: types, operands, parameters. `check` judges by
// these, emission takes the smallest version that serves.
#pragma once

#include "ptx/ir/ir.h"

namespace ptx::ir {

// Of variables and registers; null: always.
const isa::Requirement* type_since(isa::Type type);
inline constexpr isa::Requirement managed_since{{4, 0}, {{30}}};
inline constexpr isa::Requirement unified_since{{8, 0}, {{90}}};
inline constexpr isa::Requirement pointer_since{{2, 2}, {}};             // .ptr of a parameter
inline constexpr isa::Requirement open_parameter_since{{6, 0}, {{30}}};  // .b8 a[]
inline constexpr isa::Requirement large_parameters_since{{8, 1}, {{70}}};
inline constexpr std::uint64_t small_parameters = 4352;  // bytes of all of an .entry

std::uint64_t parameter_bytes(const Function& function);

// What the operands of an instruction, or its types together, need; {0, 0}: nothing beyond the form.
isa::Version version_of_operands(const Function& function, const Instruction& instruction, const isa::Match& match);

// The smallest version that knows the target and all of the module; forms that are not known ask for nothing.
isa::Version smallest_version(const Module& module);

}  // namespace ptx::ir
