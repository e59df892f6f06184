// A launch, its clusters and their CTAs: what warps share. A cluster runs on one core; clusters spread over cores.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "ptx/arch/target.h"
#include "ptx/launch/record.h"
#include "ptx/sim/async/mbarrier.h"
#include "ptx/sim/async/operation.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/warp.h"
#include "ptx/sim/simulator.h"

namespace ptx::sim {

struct Launch {
  const Program& program;
  const Options& options;
  launch::Dim3 grid, block, cluster;
  std::uint32_t dynamic_shared = 0;
  const arch::Architecture& architecture;
  Observer* observer = nullptr;  // of the watched engine; it is told from one core
  GlobalMemory memory{};
  std::vector<Line> parameters{};  // the block; tensor maps in it are aligned to 64 bytes

  std::uint64_t clusters() const { return grid.count() / cluster.count(); }
  std::atomic<std::uint64_t> next{0};  // cluster of the grid that nobody has begun; a CTA may take it over

  // A fault of cluster `index`. Clusters before it go on, so that the first in the grid's order is what is reported.
  void report(std::uint64_t index, Diagnostic diagnostic);
  // Asks Options::interrupted now and then, if this is the thread that launched.
  void poll();
  std::mutex mutex{};
  std::atomic<std::uint64_t> stop_at{~0ull};
  std::atomic<std::uint64_t> executed{0};  // instructions of warps, against the budget
  std::thread::id caller = std::this_thread::get_id();
  std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::now();
  Diagnostics faults{};  // of cluster stop_at
  Statistics statistics{};
};

struct Barrier {
  bool active = false;
  bool reduces = false;
  std::uint32_t expected = 0;  // threads; 0: all that live
  std::uint32_t arrived = 0;   // threads, in whole warps
  std::vector<Mask> lanes;     // of each warp: lanes that have come since the warp last counted
  std::uint32_t count = 0;     // of true predicates
  bool all = true;
};

struct Cluster;

struct Cta {
  Cta(Cluster& cluster, std::uint32_t rank, launch::Dim3 id);
  Cta(const Cta&) = delete;

  // `lane` is one of those that arrive, for messages.
  void arrive(Warp& warp, Mask arriving, std::uint32_t barrier, std::uint32_t expected, bool reduces, Mask predicate,
              int lane);
  void thread_exited(Warp& warp);
  bool finished() const;

  Cluster& cluster;
  Launch& launch;
  std::uint32_t rank;  // in the cluster
  launch::Dim3 id;
  std::uint32_t threads = 0;
  SharedMemory shared;
  std::array<Barrier, 16> barriers;
  Mbarriers mbarriers;
  std::vector<std::unique_ptr<Warp>> warps;

 private:
  void settle(std::uint32_t barrier);
  void deliver(Warp& warp, Fragment& fragment, const Barrier& barrier);
};

// Of cluster `index` of the grid.
launch::Dim3 first_cta(const Launch& launch, std::uint64_t index);

struct Cluster {
  Cluster(Launch& launch, std::uint64_t index);

  // Runs for about `steps` instructions of warps. True when every thread has exited or a fault ends the launch.
  bool run(std::uint64_t steps);
  void settle_cluster_barrier();

  Launch& launch;
  std::uint64_t index;
  std::vector<std::unique_ptr<Cta>> ctas;
  Operations operations{*this};
  std::uint64_t executed = 0;  // instructions of warps
  std::uint64_t idle = 0;      // how often nothing could go on but threads that asked an mbarrier in vain

 private:
  std::size_t order(std::size_t i, std::size_t count) const;
  std::uint64_t slice();
  bool answer_waiting();
  bool finish_early();
  void report_stuck();
  void report_budget();
  std::uint64_t round_ = 0, random_ = 0;
};

}  // namespace ptx::sim
