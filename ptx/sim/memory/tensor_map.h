// A tensor map as the simulator spells it: the geometry of launch/tensor_map.h, the address and the element, in 128
// bytes. Nothing reads it yet; asynchronous tensor copies will.
#pragma once

#include "ptx/launch/tensor_map.h"

namespace ptx::sim {

struct TensorMap {
  static constexpr std::uint32_t magic_number = 0x70745831;
  std::uint32_t magic = magic_number;
  std::uint8_t rank = 0;
  launch::Element element = launch::Element::f32;  // of single values
  launch::Swizzle swizzle = launch::Swizzle::none;
  launch::Interleave interleave = launch::Interleave::none;
  std::uint64_t address = 0;
  std::uint64_t strides[4]{};           // bytes, of dimensions 1..4; dimension 0 is dense
  std::uint64_t dimensions[5]{};        // elements, innermost first
  std::uint16_t box[5]{};               // elements
  std::int16_t lower[3]{}, upper[3]{};  // of im2col
  std::uint16_t channels = 0, pixels = 0;
  std::uint8_t element_strides[5]{};
  launch::TensorMapRecipe::Fill fill = launch::TensorMapRecipe::Fill::zero;
  bool spread = false;
};
static_assert(sizeof(TensorMap) <= 128);

}  // namespace ptx::sim
