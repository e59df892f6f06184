// The one formula of fragments against the manual's, section by section (9.7.14.5, 9.7.14.6).
#include <doctest/doctest.h>

#include <set>

#include "ptx/arch/fragment.h"

using namespace ptx::arch;

namespace {

// row and column of element i: what the manual says with groupID `g` and threadID_in_group `t`.
template <class F>
void same(const Fragment& fragment, int elements, F manual) {
  std::set<std::pair<int, int>> seen;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < elements; ++i) {
      const Cell cell = fragment.cell(lane, i), want = manual(lane >> 2, lane % 4, i);
      CAPTURE(lane);
      CAPTURE(i);
      CHECK(cell.line == want.line);
      CHECK(cell.position == want.position);
      CHECK(fragment.lane(cell) == lane);
      CHECK(fragment.element(cell) == i);
      CHECK(seen.insert({cell.line, cell.position}).second);
    }
  }
}

}  // namespace

TEST_CASE("A of 16 rows") {
  SUBCASE(".f16, m16n8k16") {
    same(multiplicand(16, 16), 8, [](int g, int t, int i) {
      return Cell{i < 2 || (4 <= i && i < 6) ? g : g + 8, t * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
    });
  }
  SUBCASE(".f16, m16n8k8") {
    same(multiplicand(16, 16), 4, [](int g, int t, int i) { return Cell{i < 2 ? g : g + 8, t * 2 + (i & 1)}; });
  }
  SUBCASE(".tf32, m16n8k8") {
    same(multiplicand(32, 16), 4,
         [](int g, int t, int i) { return Cell{i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4}; });
  }
  SUBCASE(".f64, m16n8k16") {
    same(multiplicand(64, 16), 8,
         [](int g, int t, int i) { return Cell{i % 2 == 0 ? g : g + 8, i % 2 == 0 ? i * 2 + t : i * 2 - 2 + t}; });
  }
  SUBCASE(".s8, m16n8k32") {
    same(multiplicand(8, 16), 16, [](int g, int t, int i) {
      return Cell{i < 4 || (8 <= i && i < 12) ? g : g + 8, t * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
    });
  }
  SUBCASE(".s4, m16n8k64") {
    same(multiplicand(4, 16), 32, [](int g, int t, int i) {
      return Cell{i < 8 || (16 <= i && i < 24) ? g : g + 8, t * 8 + (i & 7) + (i >= 16 ? 32 : 0)};
    });
  }
  SUBCASE(".b1, m16n8k256") {
    same(multiplicand(1, 16), 128, [](int g, int t, int i) {
      return Cell{i < 32 || (64 <= i && i < 96) ? g : g + 8, t * 32 + (i & 31) + (i >= 64 ? 128 : 0)};
    });
  }
}

TEST_CASE("B, and A of 8 rows") {
  SUBCASE(".f16, k16") {
    same(multiplicand(16, 8), 4, [](int g, int t, int i) { return Cell{g, t * 2 + (i & 1) + (i >= 2 ? 8 : 0)}; });
  }
  SUBCASE(".f64, k16") {
    same(multiplicand(64, 8), 4, [](int g, int t, int i) { return Cell{g, t + i * 4}; });
  }
  SUBCASE(".e4m3, k32") {
    same(multiplicand(8, 8), 8, [](int g, int t, int i) { return Cell{g, t * 4 + (i & 3) + (i >= 4 ? 16 : 0)}; });
  }
  SUBCASE(".b1, k256") {
    same(multiplicand(1, 8), 64, [](int g, int t, int i) { return Cell{g, t * 32 + (i & 31) + (i >= 32 ? 128 : 0)}; });
  }
  SUBCASE(".s4, m8n8k32") {
    same(multiplicand(4, 8), 8, [](int g, int t, int i) { return Cell{g, t * 8 + i}; });
  }
}

TEST_CASE("C and D") {
  same(accumulator(16), 4, [](int g, int t, int i) { return Cell{i < 2 ? g : g + 8, t * 2 + (i & 1)}; });
  same(accumulator(8), 2, [](int g, int t, int i) { return Cell{g, t * 2 + (i & 1)}; });
}

TEST_CASE("m8n8k4 of .f16: four products, each in eight lanes") {
  for (const bool across : {false, true}) {
    std::set<int> seen;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const Cell cell = quad::multiplicand(lane, i, across);
        CHECK(seen.insert(quad::product(lane) * 32 + cell.line * 4 + cell.position).second);
      }
    }
    CHECK(*seen.rbegin() == 127);
  }
  for (const bool f32 : {false, true}) {
    std::set<int> seen;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 8; ++i) {
        const Cell cell = quad::accumulator(lane, i, f32);
        CHECK(seen.insert(quad::product(lane) * 64 + cell.line * 8 + cell.position).second);
      }
    }
    CHECK(*seen.rbegin() == 255);
  }
  CHECK(quad::product(20) == 1);  // lanes 4-7 and 20-23 are the second product
  CHECK(quad::accumulator(17, 6, true) == Cell{7, 4});
}

TEST_CASE("metadata: each four bits serve one chunk") {
  struct Case {
    int chunks, bits, selectors;
  };
  // m16n8k16 and k32 of .f16; m16n8k32 and k64 of .s8. A selector names so many lanes of a quad that all selectors
  // together use each bit once.
  for (const Case c : {Case{4, 16, 4}, Case{8, 16, 2}, Case{4, 32, 4}, Case{8, 8, 2}, Case{16, 8, 1}, Case{8, 4, 2}}) {
    std::set<int> seen;
    for (int selector = 0; selector < c.selectors; ++selector) {
      for (int row = 0; row < 16; ++row) {
        for (int chunk = 0; chunk < c.chunks; ++chunk) {
          const Metadata at = metadata(row, chunk, c.chunks, c.bits, selector);
          CHECK(at.lane / 4 == row % 8);
          CHECK(at.bit % 4 == 0);
          CHECK(seen.insert(at.lane * 32 + at.bit).second);
        }
      }
    }
    CHECK(seen.size() == 32 * 8);
  }
}
