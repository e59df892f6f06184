// The geometry of a tensor map: what a recipe and a buffer ask of the copy engine, and the rules that it must keep. One
// statement for every executor; how a map is spelled in its 128 bytes is the executor's own matter.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ptx/base/expected.h"
#include "ptx/launch/record.h"

namespace ptx::launch {

// Innermost dimension first, as the driver and the PTX instructions count. Unused entries are 1 (strides 0).
struct TensorMapGeometry {
  std::uint32_t rank = 0;
  Element element = Element::u8;                           // that the copy engine reads; of single values
  int type = 0;                                            // CUtensorMapDataType
  std::array<std::uint64_t, 5> dimensions{1, 1, 1, 1, 1};  // values
  std::array<std::uint64_t, 5> strides{0, 0, 0, 0, 0};     // bytes; [0] is the size of an element, 0 below a byte
  std::array<std::uint32_t, 5> box{1, 1, 1, 1, 1};         // values
};

// Refuses (tensor_map_rule) what the CUDA Driver API ("cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col") does not
// take. The message names the member of the recipe by its name in Python (tma_box); the caller knows the tensor's.
Expected<TensorMapGeometry> geometry(const TensorMapRecipe& recipe, Element element, const Buffer& buffer);

// The same for programs of C: the text of what computes a geometry (`map_geometry`, over a `MapRecipe`), and the
// initialiser of such a recipe for tensors of these elements.
std::string_view geometry_in_c();
Expected<std::string> recipe_in_c(const TensorMapRecipe& recipe, Element tensor);

}  // namespace ptx::launch
