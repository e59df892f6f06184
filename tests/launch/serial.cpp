#include "ptx/launch/serial.h"

#include <doctest/doctest.h>

using namespace ptx;
using namespace ptx::launch;

namespace {

Record sample() {
  Record r;
  r.entry = "norm", r.target = "sm_90a";
  r.grid = {16, 2, 1}, r.block = {32, 1, 1}, r.cluster = {2, 1, 1};
  r.dynamic_shared = 70000;
  r.tensors = {{"X", Element::bf16, {{-1, "B"}, {512, ""}}, 16, false}, {"Y", Element::boolean, {{4, ""}}, 1, true}};
  r.scalars = {{"eps", "f32"}};
  TensorMapRecipe map;
  map.rank = 2, map.box = {64, 128, 1, 1, 1}, map.swizzle = TensorMapRecipe::Swizzle::b128;
  map.column_blocks = map.padding = true;
  r.tensor_maps = {map};
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
  CHECK(read->grid == Dim3{16, 2, 1});
  CHECK(read->cluster == Dim3{2, 1, 1});
  CHECK(read->tensors[0].shape[0].size == -1);
  CHECK(read->tensors[0].shape[0].symbol == "B");
  CHECK(read->tensors[1].output);
  CHECK(read->tensors[1].element == Element::boolean);
  CHECK(read->tensor_maps[0].swizzle == TensorMapRecipe::Swizzle::b128);
  CHECK(read->tensor_maps[0].padding);
  CHECK(read->parameters[2].offset == 64);
  CHECK(read->parameter_bytes == sample().parameter_bytes);
  CHECK(read->lines == sample().lines);
  CHECK(serialise(Record{}) != bytes);
  CHECK(deserialise(serialise(Record{})));
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
