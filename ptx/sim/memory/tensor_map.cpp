#include "ptx/sim/memory/tensor_map.h"

#include <algorithm>

namespace ptx::sim {

namespace {

// The bytes of `values` values of the innermost dimension. An interleaved map counts whole slices of channels there.
std::uint64_t bytes_of(const TensorMap& map, std::uint64_t values) {
  if (map.interleave != launch::Interleave::none) return values * (map.interleave == launch::Interleave::b32 ? 32 : 16);
  return values * arch::info(map.element).value_bits() / 8;
}

// How many values a box takes of dimension i. It takes one of the slices of channels, the last dimension but one.
std::uint32_t count(const TensorMap& map, int i) {
  if (map.interleave != launch::Interleave::none && i == map.rank - 2) return 1;
  const std::uint32_t step = i == 0 ? 1 : std::max<std::uint32_t>(1, map.element_strides[i]);
  return (map.box[i] + step - 1) / step;
}

void append(std::vector<Run>& runs, std::uint64_t address, std::uint64_t bytes, bool outside) {
  if (bytes) runs.push_back({{isa::Space::global, nullptr, address, bytes}, outside});
}

// `width` values from the coordinates on along the innermost dimension, in up to three runs.
void append_row(const TensorMap& map, const std::int64_t* at, std::int64_t width, std::vector<Run>& runs) {
  std::uint64_t address = map.address;
  bool outside = false;
  for (int i = 1; i < map.rank; ++i) {
    outside = outside || at[i] < 0 || static_cast<std::uint64_t>(at[i]) >= map.dimensions[i];
    address += static_cast<std::uint64_t>(at[i]) * map.strides[i - 1];
  }
  const auto size = static_cast<std::int64_t>(map.dimensions[0]);
  const std::int64_t low = outside ? width : std::clamp<std::int64_t>(-at[0], 0, width);
  const std::int64_t high = std::max(low, std::clamp<std::int64_t>(size - at[0], 0, width));
  auto bytes = [&](std::int64_t values) { return bytes_of(map, static_cast<std::uint64_t>(values)); };
  append(runs, 0, bytes(low), true);
  append(runs, address + bytes(at[0] + low), bytes(high - low), false);
  append(runs, 0, bytes(width - high), true);
}

// Bytes of a row of a box, and from one row to the next in shared memory, under a swizzle.
std::uint64_t row_bytes(const TensorMap& map) { return bytes_of(map, map.channels ? map.channels : map.box[0]); }
std::uint64_t pitch_of(const TensorMap& map, std::uint64_t row) {
  return map.interleave == launch::Interleave::none ? std::max<std::uint64_t>(row, arch::info(map.swizzle).bytes) : row;
}

std::int64_t step(const TensorMap& map, int i) { return std::max<std::int64_t>(1, map.element_strides[i]); }

}  // namespace

std::uint64_t box_bytes(const TensorMap& map) {
  std::uint64_t values = 1;
  for (int i = 0; i < map.rank; ++i) values *= count(map, i);
  return bytes_of(map, values);
}

std::uint32_t fill_of(const TensorMap& map) {
  if (map.fill == launch::TensorMapRecipe::Fill::zero) return 0;
  return 0x7ff77ff7u;  // whatever the element: an H200's NaN
}

void append_box(const TensorMap& map, std::span<const std::int32_t> coordinates, std::vector<Run>& runs) {
  std::uint32_t rows = 1;
  for (int i = 1; i < map.rank; ++i) rows *= count(map, i);
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::int64_t at[5] = {coordinates[0]};
    std::uint32_t rest = row;
    for (int i = 1; i < map.rank; ++i) {
      at[i] = coordinates[static_cast<std::size_t>(i)] + std::int64_t{rest % count(map, i)} * step(map, i);
      rest /= count(map, i);
    }
    append_row(map, at, map.box[0], runs);
  }
}

void append_pixels(const TensorMap& map, std::span<const std::int32_t> coordinates,
                   std::span<const std::uint16_t> offsets, std::vector<Run>& runs) {
  std::int64_t at[5]{};
  std::copy_n(coordinates.begin(), map.rank, at);
  for (std::uint32_t pixel = 0; pixel < map.pixels; ++pixel) {
    std::int64_t place[5];
    std::copy_n(at, 5, place);
    for (int i = 1; i < map.rank - 1; ++i) place[i] += offsets[static_cast<std::size_t>(i - 1)];
    append_row(map, place, map.channels, runs);
    // The next pixel between the corners; behind the last of an image the first of the next.
    for (int i = 1; i < map.rank; ++i) {
      at[i] += i == map.rank - 1 ? 1 : step(map, i);
      if (i == map.rank - 1 || at[i] <= static_cast<std::int64_t>(map.dimensions[i]) - 1 + map.upper[i - 1]) break;
      at[i] = map.lower[i - 1];
    }
  }
}

void append_wide(const TensorMap& map, std::span<const std::int32_t> coordinates, const Wide& wide,
                 std::vector<Run>& runs) {
  std::int64_t at[5]{};
  std::copy_n(coordinates.begin(), map.rank, at);
  at[1] += wide.offset;
  const std::int64_t first = map.lower[0] + std::int64_t{wide.offset};
  const std::int64_t last = static_cast<std::int64_t>(map.dimensions[1]) - 1 + map.upper[0] + wide.offset;
  auto column = [&](std::int64_t* place, std::uint32_t pixels) {
    for (std::uint32_t i = 0; i < pixels; ++i) {
      append_row(map, place, map.channels, runs);
      place[1] += step(map, 1);
      if (place[1] > last) place[1] = first, ++place[map.rank - 1];
    }
  };
  for (int i = 0; i < (wide.by_32 ? 4 : 1); ++i) {
    column(at, wide.by_32 ? 32 : map.pixels);
    std::int64_t behind[5];
    std::copy_n(at, 5, behind);
    column(behind, wide.halo);
  }
}

std::uint64_t span_of(const TensorMap& map, std::uint64_t bytes) {
  if (map.swizzle == launch::Swizzle::none) return bytes;
  const std::uint64_t row = row_bytes(map), pitch = pitch_of(map, row);
  return (bytes + row - 1) / row * pitch;
}

std::vector<Run> swizzled(const TensorMap& map, const Location& begin, std::uint64_t bytes) {
  if (map.swizzle == launch::Swizzle::none) return {{begin}};
  const std::uint64_t chunk = map.swizzle == launch::Swizzle::b128_atom_32_flip_8 ? 8 : 16;
  const std::uint64_t row = row_bytes(map), pitch = pitch_of(map, row);
  std::vector<Run> runs;
  for (std::uint64_t at = 0; at < bytes; at += chunk) {
    const std::uint64_t place = begin.offset + at / row * pitch + at % row;
    runs.push_back({{begin.space, begin.memory, arch::swizzled(map.swizzle, place), std::min(chunk, bytes - at)}});
  }
  return runs;
}

std::int64_t bits_before(const TensorMap& map, std::int32_t coordinate) {
  if (map.interleave != launch::Interleave::none) return 0;
  return std::int64_t{coordinate} * arch::info(map.element).value_bits();
}

}  // namespace ptx::sim
