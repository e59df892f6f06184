// Who watches one launch: those that its options ask for, told in one order. What they found goes to the recording when
// the launch has ended.
#pragma once

#include <memory>
#include <vector>

#include "ptx/sim/machine/cta.h"
#include "ptx/sim/watch/arrays.h"
#include "ptx/sim/watch/counters.h"
#include "ptx/sim/watch/debugger.h"
#include "ptx/sim/watch/layouts.h"
#include "ptx/sim/watch/product_fences.h"
#include "ptx/sim/watch/races.h"
#include "ptx/sim/watch/trace.h"
#include "ptx/sim/watch/writers.h"

namespace ptx::sim {

class Watch final : public Observer {
 public:
  explicit Watch(Launch& launch);
  // What the launch tells; nullptr: nobody wants to know.
  Observer* observer();
  // All reports: those of checks, then `faults` of the launch. What was found goes to the recording.
  std::vector<Report> end(std::vector<Report> faults);

  void accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) override;
  void executing(Warp& warp, std::uint32_t pc, Mask active) override;
  void waiting(Warp& warp, std::uint32_t pc, Mask lanes, const Wait& wait) override;
  void touched(const Touch& touch) override;
  void began(const Operation& operation) override;
  void finished(const Operation& operation) override;
  void began(Warp& warp, const ThreadCopy& copy) override;
  void multiplies(const Agent& agent, const Cta& cta, const MatrixRead& read) override;
  void arrived(Warp& warp, Mask lanes, const Channel& channel, const Manner& manner, bool stays) override;
  void arrived(const Operation& finishes, const Channel& channel) override;
  void completed(const Channel& channel) override;
  void passed(Warp& warp, Mask lanes, const Channel& channel, const Manner& manner) override;
  void made(const Channel& channel) override;
  void met(Warp& warp, Mask lanes) override;
  void fenced(Warp& warp, Mask lanes, Fence fence, const Manner& manner) override;
  void fenced_map(Warp& warp, int lane, const Location& map, const Manner& manner) override;
  void waited(Warp& warp, Mask lanes, Group group, std::uint64_t through) override;
  void exited(Warp& warp, Mask lanes) override;
  void ended(Cta& cta) override;
  void over(Cluster& cluster) override;

 private:
  template <class T, class... Arguments>
  void add(std::unique_ptr<T>& one, Arguments&&... arguments) {
    one = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    all_.push_back(one.get());
  }

  Launch& launch_;
  template <class... Parameters, class... Arguments>
  void tell(void (Observer::*what)(Parameters...), Arguments&&... arguments) {
    for (Observer* one : all_) (one->*what)(arguments...);
  }

  std::unique_ptr<Races> races_;
  std::unique_ptr<ProductFences> fences_;
  std::unique_ptr<Layouts> layouts_;
  std::unique_ptr<Arrays> arrays_;
  std::unique_ptr<Counters> counters_;
  std::unique_ptr<Tracer> tracer_;
  std::unique_ptr<Writers> writers_;
  std::unique_ptr<Debugger> debugger_;
  std::vector<Observer*> all_;
};

}  // namespace ptx::sim
