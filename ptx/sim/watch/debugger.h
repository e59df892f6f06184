// Stops a run at breakpoints and between steps, and asks Recording::stopped how to go on.
#pragma once

#include <unordered_map>
#include <vector>

#include "ptx/sim/machine/cta.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/watch/observer.h"

namespace ptx::sim {

class Debugger final : public Observer {
 public:
  Debugger(const Program& program, Recording& recording);
  void executing(Warp& warp, std::uint32_t pc, Mask active) override;
  void accessed(const Agent&, const Location&, Access, const Manner&) override {}

 private:
  struct At {  // where a warp executed last
    Place line, source;
    std::uint32_t pc = 0;
  };
  struct Comes {  // to another line than before
    bool line = false, source = false;
  };
  bool stops(const Warp& warp, std::uint32_t pc, Comes comes) const;

  const Program& program_;
  Recording& recording_;
  std::vector<Comes> breaks_;  // by pc: at whose line there is a breakpoint
  Next next_ = Next::run;
  const Warp* stepping_ = nullptr;  // whose next step is asked for; nullptr: anyone's
  std::unordered_map<const Warp*, At> at_;
};

}  // namespace ptx::sim
