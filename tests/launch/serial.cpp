#include "ptx/launch/serial.h"

#include <doctest/doctest.h>

using namespace ptx;
using namespace ptx::launch;

namespace {

Record sample() {
  Record r;
  r.entry = "norm", r.target = "sm_90a", r.assembler = "ptxas";
  r.grid = {16, 2, 1}, r.block = {32, 1, 1}, r.cluster = {2, 1, 1};
  r.dynamic_shared = 70000;
  r.tensors = {{"X", Element::bf16, {{-1, "B"}, {512, ""}}, 16, false, false, true},
               {"Y", Element::boolean, {{4, ""}}, 1, true}};
  r.scalars = {{"eps", "f32"}};
  TensorMapRecipe map;
  map.rank = 2, map.box = {64, 128, 1, 1, 1}, map.swizzle = Swizzle::b128;
  map.column_blocks = map.padding = true;
  TensorMapRecipe pixels;
  pixels.tensor = 1, pixels.rank = 4, pixels.element = Element::e2m1, pixels.spread = true;
  pixels.element_strides = {1, 2, 3, 1, 1}, pixels.interleave = Interleave::b16;
  pixels.fill = TensorMapRecipe::Fill::nan, pixels.promotion = TensorMapRecipe::Promotion::b64;
  pixels.im2col = {{-1, -2, 0}, {3, 4, 0}, 64, 128};
  r.tensor_maps = {map, pixels};
  append(r, {Parameter::Kind::tensor, "X", 0, 8, 0});
  append(r, {Parameter::Kind::scalar, "eps", 0, 4, 0});
  append(r, {Parameter::Kind::tensor_map, "X_tma_desc", 0, 128, 0});
  r.lines = {{}, {Name("norm.py"), 41, 0}, {Name("norm.py"), 42, 3}, {Name("other.py"), 7, 0}};
  return r;
}

Diagnostic refusal(std::string_view bytes) {
  const auto read = deserialise(bytes);
  REQUIRE_FALSE(read);
  CHECK(read.why().front().code == Code::bad_record);
  return read.why().front();
}

}  // namespace

TEST_CASE("a record comes back from its bytes") {
  const std::string bytes = serialise(sample());
  const auto read = deserialise(bytes);
  REQUIRE(read);
  CHECK(serialise(*read) == bytes);  // every member is in the bytes: those below are looked at one by one
  CHECK(read->entry == "norm");
  CHECK(read->assembler == "ptxas");
  CHECK(read->grid == Dim3{16, 2, 1});
  CHECK(read->cluster == Dim3{2, 1, 1});
  CHECK(read->tensors[0].shape[0].size == -1);
  CHECK(read->tensors[0].shape[0].symbol == "B");
  CHECK(read->tensors[1].output);
  CHECK(read->tensors[1].element == Element::boolean);
  CHECK(read->tensor_maps[0].swizzle == Swizzle::b128);
  CHECK(read->tensor_maps[0].padding);
  CHECK_FALSE(read->tensor_maps[0].element);
  const TensorMapRecipe& pixels = read->tensor_maps[1];
  CHECK(pixels.element == Element::e2m1);
  CHECK(pixels.spread);
  CHECK(pixels.element_strides == std::array<std::uint32_t, 5>{1, 2, 3, 1, 1});
  CHECK(pixels.interleave == Interleave::b16);
  CHECK(pixels.fill == TensorMapRecipe::Fill::nan);
  CHECK(pixels.promotion == TensorMapRecipe::Promotion::b64);
  CHECK(pixels.im2col.lower == std::array<std::int32_t, 3>{-1, -2, 0});
  CHECK(pixels.im2col.upper == std::array<std::int32_t, 3>{3, 4, 0});
  CHECK(pixels.im2col.pixels == 128);
  CHECK(read->tensors[0].strided);
  CHECK(read->parameters[2].offset == 64);
  CHECK(read->parameter_bytes == sample().parameter_bytes);
  CHECK(read->lines == sample().lines);
  CHECK(serialise(Record{}) != bytes);
  CHECK(deserialise(serialise(Record{})));
}

TEST_CASE("rows of tables are in the bytes by name, so a new row changes no record") {
  const std::string bytes = serialise(sample());
  for (const char* name : {"bf16", "bool", "e2m1", "128B"}) CHECK(bytes.find(name) != std::string::npos);
  std::string body = bytes.substr(bytes.find("norm") - 1);  // behind the checksum: the length of `entry`, then itself
  REQUIRE(deserialise(seal(body)));
  body.replace(body.find("bf16"), 4, "bf61");
  refusal(seal(body));
  Record r = sample();
  for (int i = 0; i <= static_cast<int>(arch::last_element); ++i) {
    r.tensors[0].element = *(r.tensor_maps[0].element = static_cast<Element>(i));
    const auto read = deserialise(serialise(r));
    REQUIRE(read);
    CHECK(read->tensors[0].element == static_cast<Element>(i));
    CHECK(read->tensor_maps[0].element == static_cast<Element>(i));
  }
  for (int i = 0; i <= static_cast<int>(arch::last_swizzle); ++i) {
    r.tensor_maps[0].swizzle = static_cast<Swizzle>(i);
    CHECK(deserialise(serialise(r))->tensor_maps[0].swizzle == static_cast<Swizzle>(i));
  }
}

TEST_CASE("bytes that are no record are refused") {
  const std::string bytes = serialise(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size) refusal(std::string_view(bytes).substr(0, size));
  refusal(bytes + "x");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x11);
    refusal(damaged);
  }
  for (const char* body : {"", "\1", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1"}) refusal(seal(body));
  std::string later = bytes;
  later[4] = 99;
  CHECK(refusal(later).message.find("version is 99") != std::string::npos);
}
