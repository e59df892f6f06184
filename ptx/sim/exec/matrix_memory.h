// ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store: fragments to and from memory.
#pragma once

#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

Bound bind_ldmatrix(const isa::Match& match);
Bound bind_stmatrix(const isa::Match& match);
Bound bind_movmatrix(const isa::Match& match);
Bound bind_wmma_load(const isa::Match& match);
Bound bind_wmma_store(const isa::Match& match);

}  // namespace ptx::sim
