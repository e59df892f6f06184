// Fences order what others may see; memory here is one and in program order, so they are for observers alone.
#pragma once

#include "ptx/sim/exec/lanes.h"
#include "ptx/sim/machine/cta.h"

namespace ptx::sim::fence_detail {

inline void nothing(Warp&, const Op&, Mask) {}
template <Fence fence>
void tell_fence(Warp& w, const Op& op, Mask active) {
  w.cta.launch.observer->fenced(w, active, fence, op.manner);
}
template <Fence fence>
Bound bind_fence(const isa::Match&) {
  return {.run = Handlers(&nothing, &tell_fence<fence>), .whole_warp = true};
}

}  // namespace ptx::sim::fence_detail
