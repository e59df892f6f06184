// A run that stands still: what its warps, registers, shared memory and mbarriers hold. Given to Recording::stopped,
// and good for as long as that runs. Nothing here changes the run.
//
//   recording->breakpoints = {{Name("gemm.py"), 41}};
//   recording->stopped = [](const sim::Stop& stop) {
//     for (const auto& r : stop.registers()) ...
//     return sim::Next::line;                                // to the next line of this warp
//   };
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/isa/types.h"
#include "ptx/sim/recording.h"

namespace ptx::sim {

struct Warp;

class Stop {
 public:
  // In front of the instruction at `pc`, which these lanes of the warp execute next.
  Stop(Warp& warp, std::uint32_t pc, std::uint32_t lanes) : warp_(warp), pc_(pc), lanes_(lanes) {}

  Site site() const;               // of the first of those lanes
  std::string_view entry() const;  // the kernel
  std::uint32_t warp() const;      // its number in the CTA
  std::uint32_t lanes() const { return lanes_; }

  // Values of one register of the warp, a lane each, in the low bytes; 0 and 1 of a predicate. `written`: the lanes in
  // which an instruction has written it.
  struct Register {
    std::string name;
    isa::Type type;
    std::uint32_t written = 0;
    std::vector<std::uint64_t> low, high;  // 32; `high` is empty unless the register has 128 bits
    std::string called;                    // the author's name: "row"; or empty
    Place made{};                          // where; of a register that has such a name
  };
  std::vector<Register> registers() const;  // of the function that runs, in the order of the text

  // A variable of the CTA's shared memory, as it is now. `written`: for each byte whether anything wrote it.
  struct Shared {
    std::string name;
    std::uint32_t offset = 0;
    std::span<const std::byte> bytes;
    std::span<const std::uint8_t> written;
  };
  std::vector<Shared> shared() const;  // the dynamic part last, with the name ""

  struct Mbarrier {
    std::string name;  // "full", "full+8"
    std::uint32_t offset = 0, expected = 0, pending = 0;
    std::uint64_t phase = 0;
    std::int64_t tx = 0;  // bytes that are expected and have not come
  };
  std::vector<Mbarrier> mbarriers() const;  // of the CTA

  // Where threads of the cluster stand: one for each fragment of each warp that has not ended.
  struct Standing {
    launch::Dim3 cta;
    std::uint32_t warp = 0, lanes = 0;
    Place place;
    std::string instruction;
    std::string waits;  // for what; empty: it can run
  };
  std::vector<Standing> warps() const;

 private:
  Warp& warp_;
  std::uint32_t pc_, lanes_;
};

}  // namespace ptx::sim
