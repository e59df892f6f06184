// wgmma.fence where it has to stand (manual 9.7.15.7.1): in front of the first product of a warpgroup, and between an
// access of a register and a product that has the register as an accumulator or for A. Accumulators that products of
// one shape hand on need none. A `mov` in a compiler's module is as old as what it copies: nvcc writes the copies that
// asm("..." : "+f"(x)) needs, and constants, behind the fence, where the author has no say. When registers of a product
// may be touched again is not asked here: the product itself keeps them until wgmma.wait_group (exec/wgmma.cpp).
#pragma once

#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "ptx/sim/machine/cta.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/watch/observer.h"

namespace ptx::sim {

struct ProductPlan;

class ProductFences final : public Observer {
 public:
  // Whether some instruction of the program is a product.
  static bool concerns(const Program& program);
  explicit ProductFences(const Launch& launch);
  // The breaches, each pair of lines once.
  const std::vector<Report>& reports() const { return reports_; }

  void accessed(const Agent&, const Location&, Access, const Manner&) override {}
  void executing(Warp& warp, std::uint32_t pc, Mask active) override;
  void over(Cluster& cluster) override;

 private:
  enum class Use : std::uint8_t { reads, writes, accumulates, multiplies };  // multiplies: it is of A
  struct Row {                                                               // of a register of some product
    std::uint32_t row;                                                       // its offset, in lines
    std::uint32_t slot;
    Use use;
    bool copies = false;                // by a compiler's mov: of `source`, or of what is in no product
    std::uint32_t source = 0xffffffff;  // its row
  };
  struct Touch {
    std::uint64_t fences = 0;  // of the warp, before it; 0: none yet
    std::uint32_t pc = 0;
    Use use = Use::reads;
    std::uint64_t product = 0;  // the last one that has the register for A: its number
    std::uint32_t product_pc = 0;
  };
  struct Level {  // the registers of one call
    std::shared_ptr<Frame> frame;
    std::vector<Touch> last;  // by row
  };
  struct Watched {
    std::uint64_t fences = 1;
    bool fenced = false;  // once, or told that it is not
    std::vector<Level> levels;
  };

  void note_rows(std::uint32_t pc, const std::vector<bool>& of_products);
  static Touch copied(const Level& level, const Row& row, const Touch& before);
  void judge(Warp& warp, std::uint32_t pc, const Row& row, const Touch& before);
  void overwrites(const Warp& warp, std::uint32_t pc, const Row& row, const Touch& before);
  void report(Code code, const Warp& warp, std::uint32_t pc, std::uint32_t other, std::string what);

  const Launch& launch_;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> first_;  // by pc: of its rows; one more than there are instructions
  std::unordered_map<const Warp*, Watched> warps_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> known_;
  std::vector<Report> reports_;
};

}  // namespace ptx::sim
