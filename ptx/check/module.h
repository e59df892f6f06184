// The parts of the check of a whole module. Each appends what it finds.
#pragma once

#include "ptx/check/check.h"
#include "ptx/check/symbols.h"

namespace ptx::check {

void check_target(const ir::Module& module, Diagnostics& found);
void check_names(const ir::Module& module, Diagnostics& found);                         // of the module
void check_header(const Goal& goal, const ir::Function& function, Diagnostics& found);  // parameters, directives
void check_prototypes(const Goal& goal, const ir::Function& function, Diagnostics& found);
void check_variable(const ir::Variable& variable, const Place& place, Diagnostics& found);
void check_registers(const ir::Function& function, const Symbols& symbols, Diagnostics& found);
void check_calls(const ir::Function& function, const Symbols& symbols, Diagnostics& found);
void check_flow(const ir::Function& function, Diagnostics& found);  // statements that nothing reaches

}  // namespace ptx::check
