// A launch, its clusters and their CTAs: what warps share. A cluster runs on one core; clusters spread over cores.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "ptx/arch/target.h"
#include "ptx/launch/record.h"
#include "ptx/sim/async/mbarrier.h"
#include "ptx/sim/async/operation.h"
#include "ptx/sim/async/warpgroup.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/warp.h"
#include "ptx/sim/memory/tensor_memory.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/simulator.h"
#include "ptx/sim/watch/names.h"

namespace ptx::sim {

// What a launch may still execute, in instructions of warps. Clusters that run side by side take some ahead and give
// back what they did not need.
class Budget {
 public:
  explicit Budget(std::uint64_t instructions) : left_(instructions) {}
  // At most `most`. 0: all is used up, and nobody holds some that may come back.
  std::uint64_t take(std::uint64_t most);
  void give_back(std::uint64_t rest);  // of all that the caller took

 private:
  std::mutex mutex_;
  std::condition_variable returned_;
  std::uint64_t left_, holders_ = 0;
};

struct Launch {
  const Program& program;
  const Options& options;
  launch::Dim3 grid, block, cluster;
  std::uint32_t dynamic_shared = 0;
  const arch::Architecture& architecture;
  bool dependent = false;        // launch::Attributes
  Heap* heap = nullptr;          // of the simulator
  std::uint64_t number = 0;      // that the heap gave it
  Observer* observer = nullptr;  // of the watched engine; it is told from one core
  GlobalMemory memory{};
  std::vector<Line> parameters{};  // the block; tensor maps in it are aligned to 64 bytes
  struct alignas(8) {
    std::uint32_t bytes = 8, barrier = 0;
  } workspace{};                               // of the driver, for a grid whose CTAs wait for each other
  std::vector<std::vector<Line>> constants{};  // of the CTAs of rank 1 and later, where they differ by it

  // What a CTA of this rank has in the bank of constants.
  const std::vector<Line>& constants_of(std::uint32_t rank) const {
    return rank == 0 || constants.empty() ? program.constants : constants[rank - 1];
  }
  std::uint64_t clusters() const { return grid.count() / cluster.count(); }
  // Whether it has clusters, be it of one CTA, as `.reqnctapercluster 1` asks for.
  bool in_clusters() const { return cluster.count() > 1 || program.cluster.has_value(); }
  std::atomic<std::uint64_t> next{0};  // cluster of the grid that nobody has begun; a CTA may take it over

  // A fault of cluster `index`. Clusters before it go on, so that the first in the grid's order is what is reported.
  void report(std::uint64_t index, Diagnostic diagnostic, std::vector<Site> sites = {});
  // What is wrong and does not end the launch; once for a place.
  void note(Report report);
  // Asks Options::interrupted now and then, if this is the thread that launched.
  void poll();
  std::mutex mutex{};
  std::atomic<std::uint64_t> stop_at{~0ull};
  Budget budget{options.budget};
  std::thread::id caller = std::this_thread::get_id();
  std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::now();
  std::vector<Report> faults{};  // of cluster stop_at
  std::vector<Report> noted{};
  RegisterNames names{program, options};
  Statistics statistics{};
};

struct Barrier {
  bool active = false;
  bool reduces = false;
  std::uint32_t first = 0;     // pc of the first that came,
  const Warp* came = nullptr;  // its warp
  int lane = 0;                // and its lane
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
  TensorMemory tensor;
  std::vector<Warpgroup> warpgroups;
  std::optional<std::uint32_t>
      refused;                       // where one of its threads has seen that clusterlaunchcontrol.try_cancel failed
  std::uint32_t left_at = 0;         // pc of the thread that exited last,
  const Warp* left = nullptr;        // and its warp
  std::uint32_t free_registers = 0;  // of the pool that setmaxnreg fills and empties, for all threads
  std::vector<std::unique_ptr<Warp>> warps;

 private:
  void settle(std::uint32_t barrier);
  void deliver(Warp& warp, Fragment& fragment, const Barrier& barrier);
};

// A number that looks random, from two others (splitmix64).
std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

// The first CTA of cluster `index` of the grid.
launch::Dim3 first_cta(const Launch& launch, std::uint64_t index);

struct Cluster {
  Cluster(Launch& launch, std::uint64_t index);
  ~Cluster() { return_credit(); }  // also where something was thrown: others may wait for it
  Cluster(const Cluster&) = delete;

  // Of Schedule::synchronisation: whether the warp that has just synchronised gives way.
  bool changes_priorities();

  // Runs for about `steps` instructions of warps. True when every thread has exited or a fault ends the launch. It
  // returns early when it has stalled; with `patience` after so many instructions in which nothing changed; and where
  // its schedule lets other clusters go first.
  bool run(std::uint64_t steps, std::uint64_t patience = 0);
  void settle_cluster_barrier();
  void settle_tensor_memory();  // gives columns to those who wait for them

  Launch& launch;
  std::uint64_t index;
  std::vector<std::unique_ptr<Cta>> ctas;
  Operations operations{*this};
  std::uint64_t executed = 0;  // instructions of warps
  std::uint64_t idle = 0;      // how often nothing could go on but threads that asked an mbarrier in vain
  // Threads that read memory until another changes it. `changes` counts stores, and atomics that found something else.
  struct Polling {
    static constexpr std::uint64_t tight = 64;    // instructions from look to look of a loop that does nothing else
    static constexpr std::uint64_t enough = 128;  // instructions that show such a loop
    std::uint64_t changes = 0, looks = 0;         // looks: strong reads
    Warp* warp = nullptr;                         // that looked last
    std::uint32_t pc = 0;
    int lane = 0;
    Accessing at{};
    class Since;  // a moment
  };
  Polling polling;
  // The last turn changed nothing, and all that ran looked at memory again and again.
  bool stalled() const { return stalled_; }
  void report_livelock();

 private:
  bool run_on(std::uint64_t steps, std::uint64_t patience);
  void return_credit();
  struct Round {
    std::uint64_t ran = 0;
    bool stopped = false;    // the launch ends
    bool gives_way = false;  // to other clusters
  };
  class Stall;
  Round run_all(Stall& stall);    // each warp once
  Round run_first(Stall& stall);  // that of the highest priority
  void set_priorities();
  bool by_priority() const;
  bool finished() const;
  std::size_t order(std::size_t i, std::size_t count) const;
  std::uint64_t slice();
  // Runs the warp for a slice, as far as the budget reaches.
  std::uint64_t run_slice(Stall& stall, Warp& warp, std::uint64_t steps);
  bool answer_waiting();
  bool finish_early();
  void report_stuck();
  void report_leaks();
  void report_partial_registers();
  void report_budget();
  std::uint64_t round_ = 0, random_ = 0;
  std::uint64_t credit_ = 0;  // of the budget
  bool holds_ = false;        // some of it
  bool spent_ = false;        // the budget: a warp wanted to run on
  bool stalled_ = false;
  std::uint64_t synchronised_ = 0;           // instructions that synchronise, while priorities are in force
  std::vector<std::uint64_t> change_after_;  // so many of them the running warp's priority becomes the lowest
  std::int64_t lowest_ = 0;
  bool gives_way_ = false;  // the cluster, with its warp whose priority becomes the lowest
};

// What a warp does from a moment on.
class Cluster::Polling::Since {
 public:
  explicit Since(const Polling& polling) : polling_(polling) { begin(); }
  // It has executed `ran` more instructions. Whether the last of them only looked at memory, which did not change.
  bool only_looks(std::uint64_t ran) {
    if (polling_.changes != changes_) begin();
    executed_ += ran;
    if (executed_ < enough) return false;
    if ((polling_.looks - looks_) * tight >= executed_) return true;
    begin();
    return false;
  }

 private:
  void begin() { changes_ = polling_.changes, looks_ = polling_.looks, executed_ = 0; }
  const Polling& polling_;
  std::uint64_t changes_ = 0, looks_ = 0, executed_ = 0;
};

}  // namespace ptx::sim
