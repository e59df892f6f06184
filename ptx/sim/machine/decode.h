// From ir to a Program: an entry and every function that it can reach become instructions with bound handlers. The
// module has passed check, whose matches are what the operands are read by.
#pragma once

#include "ptx/base/allocated.h"
#include "ptx/sim/machine/code.h"

namespace ptx::sim {

// `lines[i]`, if there, is the author's place of line i of the text, `allocated` the author's shared memory. Refuses
// (cannot_simulate, no_such_entry) what cannot run.
Expected<std::unique_ptr<Program>> decode(const ir::Module& module, std::string_view entry,
                                          const std::vector<Place>& lines, const std::vector<Allocated>& allocated);

}  // namespace ptx::sim
