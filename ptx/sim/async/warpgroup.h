// What the four warps of a warpgroup do together by wgmma (manual 9.7.15): they execute the same instructions in the
// same order, each at its own pace. A product begins when the last of them has come to it; from then on it is an
// operation.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace ptx::sim {

struct Cluster;
struct Frame;
struct Operand;
struct Product;

struct Warpgroup {
  static constexpr std::uint32_t warps = 4;

  // Registers of a warp that are a product's until the warp has waited for it.
  struct Owned {
    std::shared_ptr<Frame> frame;
    const Operand* rows = nullptr;
    std::uint32_t count = 0;
    std::uint32_t pc = 0;       // of the last product that has them
    std::uint64_t product = 0;  // its number
  };
  struct Member {
    std::uint64_t executed = 0;        // instructions of wgmma
    std::uint64_t begun = 0;           // products
    std::uint64_t waited = 0;          // so many of them are over, and the warp knows
    std::deque<std::uint64_t> groups;  // open ones: the last product of each
    std::vector<Owned> owned;
  };
  std::array<Member, warps> members;
  std::deque<std::uint32_t> instructions;       // pcs of what some warps have executed and others have not
  std::uint64_t behind = 0;                     // so many before those, which all have executed
  std::deque<std::shared_ptr<Product>> coming;  // products that some warps have come to
  std::uint64_t begun = 0;                      // so many before those, counted from 1, are operations
};

// At the end: a product to which only some warps of a warpgroup came.
void report_partial_products(Cluster& cluster);

}  // namespace ptx::sim
