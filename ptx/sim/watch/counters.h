// Counts what each instruction of a launch does, for a report by line of the author.
#pragma once

#include "ptx/sim/machine/cta.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/watch/observer.h"

namespace ptx::sim {

class Counters final : public Observer {
 public:
  explicit Counters(const Launch& launch) : launch_(launch), of_(launch.program.ops.size()) {}
  void executing(Warp& warp, std::uint32_t pc, Mask active) override;
  void accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) override;
  // Adds what it has to the lines of `counts`, which stay in the order of files and lines.
  void add_to(std::vector<LineCount>& counts);

 private:
  // What the lanes of one instruction touch, until the instruction is over.
  struct Touched {
    std::uint32_t pc = 0;
    std::uint64_t operation = 0;  // that finishes by itself; 0: the thread's own access
    int last_lane = 0;
    bool shared = false;
    std::uint64_t bytes = 0;
    std::vector<std::pair<int, std::uint64_t>> at;  // lane, offset
  };
  void settle();

  const Launch& launch_;
  const Range* range_ = nullptr;  // that was touched last
  std::vector<LineCount> of_;     // by pc
  Touched touched_;
};

}  // namespace ptx::sim
