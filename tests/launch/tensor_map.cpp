#include "ptx/launch/tensor_map.h"

#include <doctest/doctest.h>

using namespace ptx;
using namespace ptx::launch;

namespace {

alignas(64) std::byte memory[64];

Buffer matrix(std::int64_t rows, std::int64_t columns) { return {memory, {rows, columns}, {columns, 1}, 0}; }

TensorMapRecipe recipe(std::uint32_t inner, std::uint32_t outer,
                       TensorMapRecipe::Swizzle swizzle = TensorMapRecipe::Swizzle::none) {
  TensorMapRecipe made;
  made.box = {inner, outer, 1, 1, 1};
  made.swizzle = swizzle;
  return made;
}

// Empty where the map is taken.
std::string refusal(const TensorMapRecipe& how, Element element, const Buffer& buffer) {
  const auto map = geometry(how, element, buffer);
  if (map) return {};
  CHECK(map.why().front().code == Code::tensor_map_rule);
  return map.why().front().message;
}

bool says(const std::string& message, std::string_view words) { return message.find(words) != message.npos; }

}  // namespace

TEST_CASE("a map counts dimensions from the innermost, strides in bytes") {
  const auto map = geometry(recipe(64, 128, TensorMapRecipe::Swizzle::b128), Element::bf16, matrix(4096, 512));
  REQUIRE(map);
  CHECK(map->rank == 2);
  CHECK(map->dimensions == std::array<std::uint64_t, 5>{512, 4096, 1, 1, 1});
  CHECK(map->strides == std::array<std::uint64_t, 5>{2, 1024, 0, 0, 0});
  CHECK(map->box == std::array<std::uint32_t, 5>{64, 128, 1, 1, 1});
}

TEST_CASE("column blocks make a rank 3 view of a matrix") {
  TensorMapRecipe how;
  how.column_blocks = true;
  how.rank = 3;
  how.box = {64, 128, 2, 1, 1};
  const auto map = geometry(how, Element::bf16, matrix(1024, 256));
  REQUIRE(map);
  CHECK(map->dimensions == std::array<std::uint64_t, 5>{64, 1024, 4, 1, 1});
  CHECK(map->strides == std::array<std::uint64_t, 5>{2, 512, 128, 0, 0});
  CHECK(map->box[0] == 64);
  how.padding = true;
  CHECK(geometry(how, Element::bf16, matrix(1024, 256))->box[0] == 72);
  CHECK(says(refusal(how, Element::bf16, matrix(1024, 100)), "multiple of 64 columns, not 100"));
}

TEST_CASE("padding is of column blocks alone") {
  TensorMapRecipe how = recipe(64, 8);
  how.padding = true;
  CHECK(geometry(how, Element::bf16, matrix(64, 64))->box[0] == 64);
}

TEST_CASE("every rule of the copy engine is checked") {
  using Swizzle = TensorMapRecipe::Swizzle;
  CHECK(refusal(recipe(64, 64), Element::f32, matrix(128, 128)).empty());
  CHECK(says(refusal(recipe(257, 1), Element::f32, matrix(512, 512)), "1 to 256 elements a dimension, not 257"));
  CHECK(says(refusal(recipe(64, 0), Element::f32, matrix(512, 512)), "not 0"));
  CHECK(says(refusal(recipe(3, 1), Element::f32, matrix(512, 512)), "multiple of 16 bytes, not 12"));
  CHECK(says(refusal(recipe(8, 8), Element::bf16, matrix(64, 100)), "multiples of 16 bytes below 2^40, not 200"));
  CHECK(says(refusal(recipe(8, 8), Element::bf16, matrix(64, 0)), "1 to 2^32 elements, not 0"));
  for (const auto& [swizzle, bytes] : {std::pair(Swizzle::b32, 32), {Swizzle::b64, 64}, {Swizzle::b128, 128}}) {
    const auto widest = static_cast<std::uint32_t>(bytes);
    CHECK(refusal(recipe(widest, 1, swizzle), Element::u8, matrix(512, 512)).empty());
    CHECK(says(refusal(recipe(widest + 16, 1, swizzle), Element::u8, matrix(512, 512)), "inner box of at most"));
  }
  Buffer skewed = matrix(64, 64);
  skewed.data = memory + 8;
  CHECK(says(refusal(recipe(8, 8), Element::f32, skewed), "aligned to 16 bytes"));
  Buffer transposed = matrix(64, 64);
  transposed.strides = {1, 64};
  CHECK(says(refusal(recipe(8, 8), Element::f32, transposed), "innermost stride of 1 element, not 64"));
  TensorMapRecipe cube = recipe(8, 8);
  cube.rank = 3;
  CHECK(says(refusal(cube, Element::f32, matrix(64, 64)), "rank 3, the tensor has 2"));
  CHECK(says(refusal(cube, Element::f32, {memory, {}, {}, 0}), "rank 1 to 5, this tensor has 0"));
}
