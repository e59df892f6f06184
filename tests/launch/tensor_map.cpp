#include "ptx/launch/tensor_map.h"

#include <doctest/doctest.h>

using namespace ptx;
using namespace ptx::launch;

namespace {

alignas(64) std::byte memory[64];

Buffer matrix(std::int64_t rows, std::int64_t columns) { return {memory, {rows, columns}, {columns, 1}, 0}; }

TensorMapRecipe recipe(std::uint32_t inner, std::uint32_t outer, Swizzle swizzle = Swizzle::none) {
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
  const auto map = geometry(recipe(64, 128, Swizzle::b128), Element::bf16, matrix(4096, 512));
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
  CHECK(refusal(recipe(64, 64), Element::f32, matrix(128, 128)).empty());
  CHECK(says(refusal(recipe(257, 1), Element::f32, matrix(512, 512)), "1 to 256 elements in each dimension, not 257"));
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

TEST_CASE("4- and 6-bit elements are counted singly, whatever holds them") {
  TensorMapRecipe how = recipe(128, 8);
  const auto pairs = geometry(how, Element::e2m1x2, matrix(64, 256));
  REQUIRE(pairs);
  CHECK(pairs->type == 13);
  CHECK(pairs->element == Element::e2m1);
  CHECK(pairs->dimensions[0] == 512);
  CHECK(pairs->strides == std::array<std::uint64_t, 5>{0, 256, 0, 0, 0});
  CHECK(geometry(how, Element::e2m1, matrix(64, 512))->dimensions[0] == 512);
  how.element = Element::e2m3;  // bytes that hold 6-bit floats, 16 of them in 12
  const auto sixes = geometry(how, Element::u8, matrix(64, 192));
  REQUIRE(sixes);
  CHECK(sixes->type == 15);
  CHECK(sixes->dimensions[0] == 256);
  how.element = Element::e2m1, how.spread = true;
  CHECK(geometry(how, Element::u8, matrix(64, 128))->type == 14);
  how.box[0] = 64;
  CHECK(says(refusal(how, Element::u8, matrix(64, 128)),
             "tma_box: the inner dimension of a box must be 128 for spread elements"));
  how.box[0] = 128;
  CHECK(says(refusal(how, Element::u8, matrix(64, 96)), "multiple of 128, not 192"));
  CHECK(says(refusal(how, Element::u8, matrix(64, 16 * 9)), "multiples of 32 bytes below 2^40, not 144"));
  how.swizzle = Swizzle::b64;
  CHECK(says(refusal(how, Element::u8, matrix(64, 128)), "swizzle of 128 bytes or none, not 64B"));
  how.swizzle = Swizzle::none, how.element = Element::e4m3;
  CHECK(says(refusal(how, Element::u8, matrix(64, 128)), "tma_spread needs 4-bit elements, not e4m3"));
  how.spread = false, how.element = Element::u2;
  CHECK(says(refusal(how, Element::u8, matrix(64, 128)), "tma_dtype: the copy engine has no type for elements of u2"));
  how.element = Element::e2m1x2;
  CHECK(says(refusal(how, Element::u8, matrix(64, 128)), "give the type of a single value"));
  how.element = Element::f32;
  CHECK(says(refusal(how, Element::f16, matrix(64, 128)), "tma_dtype = f32 is wider than the tensor's elements, f16"));
  how.element = Element::tf32;
  CHECK(geometry(recipe(32, 8), Element::f32, matrix(64, 128))->type == 7);
  how.box[0] = 32;
  CHECK(geometry(how, Element::f32, matrix(64, 128))->type == 11);
}

TEST_CASE("rows may lie apart") {
  Buffer apart = matrix(64, 64);
  apart.strides = {256, 1};
  const auto map = geometry(recipe(32, 8), Element::f32, apart);
  REQUIRE(map);
  CHECK(map->strides[1] == 1024);
  apart.strides = {-256, 1};
  CHECK(says(refusal(recipe(32, 8), Element::f32, apart), "must not be negative: -256 elements"));
  apart.strides = {65, 1};
  CHECK(says(refusal(recipe(32, 8), Element::f32, apart), "multiples of 16 bytes below 2^40, not 260"));
  Buffer odd = matrix(64, 63);
  CHECK(says(refusal(recipe(32, 8), Element::e2m1, odd), "whole bytes, not 63 elements of e2m1"));
}

TEST_CASE("element strides, interleave, fill") {
  TensorMapRecipe how = recipe(32, 8);
  how.element_strides = {1, 8, 1, 1, 1};
  CHECK(refusal(how, Element::f32, matrix(64, 64)).empty());
  for (const std::uint32_t bad : {0u, 9u}) {
    how.element_strides[1] = bad;
    CHECK(says(refusal(how, Element::f32, matrix(64, 64)), "tma_element_strides must be 1 to 8, not"));
  }
  how.element_strides = {2, 1, 1, 1, 1};
  CHECK(says(refusal(how, Element::f32, matrix(64, 64)), "without tma_interleave the innermost stride must be 1"));
  how = recipe(32, 8);
  how.interleave = Interleave::b16;
  CHECK(says(refusal(how, Element::f32, matrix(64, 64)), "tma_interleave needs a tensor of rank 3 to 5, not 2"));
  const Buffer cube{memory, {4, 8, 8}, {64, 8, 1}, 0};
  how = recipe(8, 8), how.rank = 3;
  how.interleave = Interleave::b32;
  CHECK(says(refusal(how, Element::f32, cube), "swizzle of 32B, not NONE"));
  how.swizzle = Swizzle::b32;
  CHECK(refusal(how, Element::f32, cube).empty());
  how = recipe(32, 8);
  how.fill = TensorMapRecipe::Fill::nan;
  CHECK(refusal(how, Element::f32, matrix(64, 64)).empty());
  CHECK(
      says(refusal(how, Element::s32, matrix(64, 64)), "tma_fill = nan is for f16, bf16, tf32, f32 and f64, not s32"));
}

TEST_CASE("im2col takes tensors of rank 3 to 5 and corners that leave pixels") {
  const Buffer image{memory, {2, 16, 16, 64}, {16 * 16 * 64, 16 * 64, 64, 1}, 0};
  TensorMapRecipe how;
  how.rank = 4;
  how.im2col = {{-1, -1, 0}, {-1, -1, 0}, 64, 128};
  CHECK(refusal(how, Element::bf16, image).empty());
  how.im2col.lower[0] = -129;
  CHECK(says(refusal(how, Element::bf16, image), "corners of a tensor of rank 4 must be -128 to 127, not -129"));
  how.im2col.lower[0] = 8, how.im2col.upper[0] = -8;
  CHECK(says(refusal(how, Element::bf16, image), "no pixel lies between the corners 8 and -8 of a dimension of 16"));
  how.im2col = {{}, {}, 64, 1025};
  CHECK(says(refusal(how, Element::bf16, image), "1 to 1024 pixels for each column, not 1025"));
  how.im2col = {{}, {}, 257, 8};
  CHECK(says(refusal(how, Element::bf16, image), "1 to 256 channels, not 257"));
  how.im2col = {{}, {}, 20, 8};
  CHECK(says(refusal(how, Element::bf16, image), "tma_im2col: channels must be a multiple of 16 bytes, not 40"));
  how.im2col = {{}, {}, 128, 8}, how.swizzle = Swizzle::b128;
  CHECK(says(refusal(how, Element::bf16, image), "128-byte swizzle"));
  how.rank = 2, how.im2col.channels = 64;
  CHECK(says(refusal(how, Element::bf16, matrix(64, 64)), "tma_im2col needs a tensor of rank 3 to 5, not 2"));
}
