// The geometry of a tensor map: what a recipe and a buffer ask of the copy engine, and the rules that it must keep. One
// statement for every executor; how a map is spelled in its 128 bytes is the executor's own matter.
#pragma once

#include <array>
#include <cstdint>

#include "ptx/base/expected.h"
#include "ptx/launch/record.h"

namespace ptx::launch {

// Innermost dimension first, as the driver and the PTX instructions count. Unused entries are 1 (strides 0).
struct TensorMapGeometry {
  std::uint32_t rank = 0;
  std::array<std::uint64_t, 5> dimensions{1, 1, 1, 1, 1};  // elements
  std::array<std::uint64_t, 5> strides{0, 0, 0, 0, 0};     // bytes; [0] is the element size
  std::array<std::uint32_t, 5> box{1, 1, 1, 1, 1};         // elements
};

// Refuses (tensor_map_rule) what CUDA Driver API "cuTensorMapEncodeTiled" does not take: rank 1..5 equal to the
// tensor's, an innermost stride of one element, 16-byte address and strides, boxes of 1..256 elements, an inner box of
// whole 16 bytes and no wider than the swizzle. The message does not name the argument: the caller knows its name.
Expected<TensorMapGeometry> geometry(const TensorMapRecipe& recipe, Element element, const Buffer& buffer);

}  // namespace ptx::launch
