// Bounds of a call, so that the hot path keeps everything on its stack. Internal to this room.
#pragma once

#include "ptx/interop/plan.h"

namespace ptx::interop {

constexpr std::size_t max_outputs = 16;
constexpr std::size_t max_rank = 32;
constexpr std::size_t max_parameter_bytes = 32764;  // PTX ISA 5.2.x: .param space of an entry, sm_70 and later
constexpr std::size_t usual_parameter_bytes = 1024;

// The device whose executor runs a tensor: managed memory is CUDA's, pinned memory the host's.
DLDevice normal(DLDevice device);

// Whether a tensor has no elements, and so may have no memory.
inline bool empty(const DLTensor& tensor) {
  for (std::int32_t i = 0; i < tensor.ndim; ++i)
    if (tensor.shape[i] == 0) return true;
  return false;
}

}  // namespace ptx::interop
