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

class Watch {
 public:
  explicit Watch(Launch& launch);
  // What the launch tells; nullptr: nobody wants to know.
  Observer* observer();
  // All reports: those of checks, then `faults` of the launch. What was found goes to the recording.
  std::vector<Report> end(std::vector<Report> faults);

 private:
  template <class T, class... Arguments>
  void add(std::unique_ptr<T>& one, Arguments&&... arguments) {
    one = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    all_.push_back(one.get());
  }

  Launch& launch_;
  std::unique_ptr<Races> races_;
  std::unique_ptr<ProductFences> fences_;
  std::unique_ptr<Layouts> layouts_;
  std::unique_ptr<Arrays> arrays_;
  std::unique_ptr<Counters> counters_;
  std::unique_ptr<Tracer> tracer_;
  std::unique_ptr<Writers> writers_;
  std::unique_ptr<Debugger> debugger_;
  std::vector<Observer*> all_;
  std::unique_ptr<Observer> together_;  // tells all of them
};

}  // namespace ptx::sim
