// Element types, formats, swizzles and tiles (manual 5.5, 9.7.15.5.1, 9.7.16.4).
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "ptx/arch/format.h"
#include "ptx/arch/matrix.h"

using namespace ptx;
using namespace ptx::arch;

TEST_CASE("names, XLA's codes and DLPack's are each of one element") {
  std::set<std::string_view> names;
  std::set<int> xla, dlpack;
  for (const ElementInfo& row : element_table) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(element_named(row.name).value() == static_cast<Element>(&row - element_table));
    if (row.xla != no_code) CHECK(xla.insert(row.xla).second);
    if (row.name != "tf32") CHECK(dlpack.insert(row.dlpack * 10000 + row.bits * 10 + row.lanes).second);
    CHECK((row.mma.empty() == (row.code == no_code)));
    CHECK(row.bits % row.lanes == 0);
  }
}

TEST_CASE("types without an element are the unsigned integers of their width") {
  CHECK(element_of("bf16", 16) == Element::bf16);
  CHECK(element_of("b32", 32) == Element::u32);
  CHECK(element_of("f16x2", 32) == Element::u32);
  CHECK(element_of("e4m3x2", 16) == Element::u16);
  CHECK(element_of("e2m1x2", 8) == Element::e2m1x2);
  CHECK(element_of("pred", 1) == Element::boolean);
  CHECK(element_of("tf32", 32) == Element::f32);
  CHECK_FALSE(element_of("b128", 128));
  CHECK(bytes(Element::e2m3, 16) == 12);
  CHECK(bytes(Element::e2m1, 3) == 2);
  CHECK(alignment(Element::e2m1) == 1);
  CHECK(alignment(Element::f64) == 8);
}

TEST_CASE("a double becomes half as cvt would make it") {
  const auto half = [](double value) { return narrow(format::f16, value, Rounding::rn, false); };
  const auto brain = [](double value) { return narrow(format::bf16, value, Rounding::rn, false); };
  CHECK(half(1.0) == 0x3c00);
  CHECK(half(-0.0) == 0x8000);
  CHECK(half(65519.0) == 0x7bff);
  CHECK(half(65520.0) == 0x7c00);
  CHECK(half(std::ldexp(1.0, -25)) == 0);  // a tie, to even
  CHECK(half(std::ldexp(3.0, -25)) == 2);
  CHECK(half(1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)) == 0x3c01);  // no second rounding
  CHECK(half(-std::numeric_limits<double>::infinity()) == 0xfc00);
  CHECK(brain(std::numeric_limits<double>::max()) == 0x7f80);
  CHECK(half(std::nan("")) == 0x7fff);
  CHECK(half(-std::nan("1")) == 0x7fff);
  CHECK(brain(std::nan("")) == 0x7fff);
}

TEST_CASE("swizzles permute 16-byte cells as the manual's tables do") {
  const auto cell = [](Swizzle swizzle, std::uint64_t at) { return swizzled(swizzle, at * 16) / 16; };
  // The second row of 8 cells of each table, as the cell that lies first there.
  CHECK(cell(Swizzle::b32, 8) == 9);
  CHECK(cell(Swizzle::b32, 16) == 16);
  CHECK(cell(Swizzle::b64, 16 + 1) == 16 + 3);
  CHECK(cell(Swizzle::b64, 32) == 32);
  CHECK(cell(Swizzle::b128, 7 * 8) == 7 * 8 + 7);
  CHECK(cell(Swizzle::b128_atom_32, 8) == 8 + 2);
  CHECK(cell(Swizzle::b128_atom_32, 16 + 1) == 16 + 5);
  CHECK(cell(Swizzle::b128_atom_64, 8) == 8 + 4);
  CHECK(swizzled(Swizzle::b128_atom_32_flip_8, 128) == 128 + 32 + 8);
  CHECK(swizzled(Swizzle::none, 4711) == 4711);
  for (std::size_t i = 0; i < std::size(swizzle_table); ++i) {
    std::set<std::uint64_t> seen;  // each byte of the pattern lies somewhere of its own
    for (std::uint64_t at = 0; at < 1024; at += 8) seen.insert(swizzled(static_cast<Swizzle>(i), at));
    CHECK(seen.size() == 128);
    CHECK(*seen.rbegin() == 1016);
    CHECK(swizzle_named(swizzle_table[i].name) == static_cast<Swizzle>(i));
  }
  CHECK(swizzle_named("128b") == Swizzle::b128);
  CHECK(swizzle_named("") == Swizzle::none);
  CHECK_FALSE(swizzle_named("96B"));
}

TEST_CASE("tiles of 4-bit elements have layouts") {
  const auto fp4 = tile_layout(4, 64, 128, false);
  REQUIRE(fp4);
  CHECK(fp4->swizzle == Swizzle::b64);
  CHECK(fp4->stride == 512);
  CHECK(tile_layout(16, 64, 8, true)->leading == 128);
  CHECK(tile_layout(16, 64, 128, false)->leading == 64 * 128);
  const auto refusal = [](int bits, std::int64_t rows, std::int64_t columns, bool mn) {
    const auto made = tile_layout(bits, rows, columns, mn);
    REQUIRE_FALSE(made);
    CHECK(made.why().front().code == Code::bad_argument);
    return made.why().front().message;
  };
  CHECK(refusal(16, 60, 64, false).find("M divisible by 8 (core matrices have 8 rows), not 60") != std::string::npos);
  CHECK(refusal(16, 12, 64, true).find("K divisible by 8") != std::string::npos);
  CHECK(refusal(4, 64, 16, false).find("(8 bytes) are not one of the canonical widths") != std::string::npos);
  CHECK(refusal(4, 64, 33, false).find("not one of the canonical widths") != std::string::npos);
}
