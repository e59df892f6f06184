// A tensor map as the simulator spells it: the geometry of launch/tensor_map.h, the address and the element, in 128
// bytes; and the places that a tensor copy reads or writes by it.
#pragma once

#include <span>
#include <vector>

#include "ptx/launch/tensor_map.h"
#include "ptx/sim/async/operation.h"

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

std::uint64_t box_bytes(const TensorMap& map);  // of a map of tiles
std::uint32_t fill_of(const TensorMap& map);    // what lies outside of the tensor, as four bytes
// The box at `coordinates` (tile mode, manual 5.5.3), row by row: where its bytes lie in global memory.
void append_box(const TensorMap& map, std::span<const std::int32_t> coordinates, std::vector<Run>& runs);
// The pixels of a column of im2col mode (manual 5.5.4), `offsets` from each within the filter.
void append_pixels(const TensorMap& map, std::span<const std::int32_t> coordinates,
                   std::span<const std::uint16_t> offsets, std::vector<Run>& runs);
// Those of im2col::w and im2col::w::128 (manual 5.5.5): along W alone, and behind the last of an image in the next
// image.
struct Wide {
  bool by_32 = false;                  // .w::128: 128 pixels in four columns, else one column as long as the map says
  std::uint32_t halo = 0, offset = 0;  // pixels more behind each column; how far all are shifted
};
void append_wide(const TensorMap& map, std::span<const std::int32_t> coordinates, const Wide& wide,
                 std::vector<Run>& runs);
// What a box of `bytes` bytes spans in shared memory: under a swizzle each row takes the swizzle's width, also one that
// is narrower (an H200 does so; the bytes between such rows stay as they are).
std::uint64_t span_of(const TensorMap& map, std::uint64_t bytes);
// Where the `bytes` bytes of a box lie in shared memory from `begin` on, under the map's swizzle (manual 5.5.7).
std::vector<Run> swizzled(const TensorMap& map, const Location& begin, std::uint64_t bytes);
// How far the innermost coordinate is into its row, in bits; nothing of an interleaved map, which counts slices.
std::int64_t bits_before(const TensorMap& map, std::int32_t coordinate);

}  // namespace ptx::sim
