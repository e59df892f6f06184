// The launches of a recording again, under other schedules.
#pragma once

#include <optional>
#include <string>

#include "ptx/sim/recording.h"
#include "ptx/sim/simulator.h"

namespace ptx::sim {

// A schedule under which a launch fails.
struct Failing {
  std::uint64_t seed = 0;    // with Schedule::synchronisation
  std::uint32_t launch = 0;  // of those kept, from 0
  std::vector<Report> reports{};
  // Where the schedule leads to other bytes than the plain one, and to no report: the first byte that differs. Else
  // empty.
  std::string differs{};
};

// Runs the launches that `recording` kept (Recording::launches) once in the plain order and then under the schedules of
// seeds 1 to `schedules`, on copies of their buffers as they were; what they print is dropped. The first that fails is
// the smallest: seed s lets priorities change at log2(s) instructions at most. `compare`: a result that depends on the
// schedule fails too, which sums by atomics of floating point do. Options::interrupted is asked before each launch,
// too.
std::optional<Failing> explore(Recording& recording, std::uint64_t schedules, const Options& options,
                               bool compare = true);

}  // namespace ptx::sim
