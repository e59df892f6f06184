// From a signature and an .entry's parameters to a record.
#include "ptx/launch/signature.h"

#include <doctest/doctest.h>

namespace ptx::launch {
namespace {

std::string why(const Expected<Record>& made) { return made ? "" : made.why().front().message; }

const std::vector<Declared> axpy = {{"x", 8, 8}, {"y", 8, 8}, {"a", 4, 4}};

TEST_CASE("parameters lie where PTX puts them, in the kernel's order; arguments keep the signature's") {
  const auto made =
      make_record({scalar("flag", "u8"), tensor("x", Element::f32, {"n", 4}), scalar("big", "s64"),
                   output("y", Element::f32, {"n"})},
                  {{"y", 8, 8}, {"flag", 1, 1}, {"x", 8, 8}, {"big", 8, 64}}, {.grid = {2}, .block = {32}});
  REQUIRE(made);
  const Record& r = made.value();
  CHECK(r.grid == Dim3{2, 1, 1});
  CHECK(r.block == Dim3{32, 1, 1});
  REQUIRE(r.parameters.size() == 4);
  const std::uint32_t offsets[] = {0, 8, 16, 64}, sources[] = {1, 0, 0, 1};
  for (int i = 0; i < 4; ++i) {
    CHECK(r.parameters[i].offset == offsets[i]);
    CHECK(r.parameters[i].source == sources[i]);
  }
  CHECK(r.parameter_bytes == 72);
  CHECK(r.tensors[0].shape[0].symbol == "n");
  CHECK(r.tensors[0].shape[1].size == 4);
  CHECK(r.tensors[1].output);
}

TEST_CASE("a tensor map is the parameter behind its tensor's name") {
  const std::vector<Declared> parameters = {{"x", 8, 8}, {"x_tma_desc", 128, 64}};
  const auto made =
      make_record({tensor("x", Element::bf16, {128, 64}).boxed({.rank = 2, .box = {64, 32}})}, parameters, {});
  REQUIRE(made);
  CHECK(made.value().parameters[1].offset == 64);
  CHECK(made.value().tensor_maps[0].box[1] == 32);
  CHECK(made.value().tensors[0].alignment == 16);
  CHECK(why(make_record({tensor("x", Element::bf16, {128, 64})}, parameters, {})) ==
        "the kernel takes a tensor map of `x`; the signature must give its box: tensor(...).boxed({...})");
  CHECK(why(make_record({tensor("x", Element::bf16, {64}).boxed({.rank = 6})}, parameters, {})) ==
        "a tensor map has rank 1 to 5, that of `x` has 6");
}

TEST_CASE("a signature that does not fit the kernel is refused by name") {
  const Argument x = tensor("x", Element::f32, {"n"}), y = tensor("y", Element::f32, {"n"});
  CHECK(why(make_record({x, y}, axpy, {})) == "parameter `a` of the kernel is no argument of the signature");
  CHECK(why(make_record({x, y, scalar("a", "f32"), scalar("b", "f32")}, axpy, {})) ==
        "argument `b` of the signature is no parameter of the kernel; it has `x`, `y`, `a`");
  CHECK(why(make_record({x, y, scalar("a", "f64")}, axpy, {})) == "parameter a has 4 bytes, the signature's f64 has 8");
  CHECK(why(make_record({x, y, tensor("a", Element::f32, {})}, axpy, {})) ==
        "parameter a has 4 bytes, the signature's tensor is an address of 8");
  CHECK(why(make_record({x, x, y, scalar("a", "f32")}, axpy, {})) ==
        "two arguments of the signature have the name `x`");
  CHECK(why(make_record({x, y, scalar("a", "f24")}, axpy, {})) ==
        "`f24` is no type of a scalar parameter; types are u, s, b or f with 8, 16, 32 or 64 bits, bf16, pred");
}

TEST_CASE("names of element types and scalars") {
  CHECK(element_named("e4m3").value() == Element::e4m3);
  CHECK(element_named("f31").why().front().message == "`f31` is no element type of tensors");
  CHECK(scalar_bytes("pred").value() == 1);
  CHECK(scalar_bytes("bf16").value() == 2);
  CHECK(scalar_bytes("s64").value() == 8);
  CHECK_FALSE(scalar_bytes(""));
}

TEST_CASE("copies of a launch side by side") {
  Record record;
  add_tensor(record, {"x", Element::f32, {{8, {}}}});
  REQUIRE(repeat(record, 5, 1));
  CHECK(record.grid == Dim3{1, 5, 1});
  CHECK(record.tensors[0].shape[0].size == 5);
  CHECK(repeat(record, 2, 1).why().front().message.find("is 5 blocks long in a single call; it must be 1") !=
        std::string::npos);
  REQUIRE(add_tensor_map(record, "x", {.rank = 1}));
  CHECK_FALSE(repeat(record, 2, 0));
  CHECK_FALSE(add_tensor_map(record, "y", {.rank = 1}));
}

}  // namespace
}  // namespace ptx::launch
