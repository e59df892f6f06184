// Which instructions a function could leave out, across its blocks: dead code, and code that only dead code reads.
#pragma once

#include <vector>

#include "ptx/analysis/access.h"
#include "ptx/analysis/flow.h"
#include "ptx/analysis/liveness.h"

namespace ptx::analysis {

// By statement of the body: an instruction that is pure (access.h), is reached, and writes nothing but what no other
// instruction needs, unless that is such a one itself. All of them may go at once. `uses` are those of the function.
std::vector<bool> unneeded(const ir::Function& function, const Flow& flow, const Liveness& live,
                           const std::vector<Uses>& uses);

}  // namespace ptx::analysis
