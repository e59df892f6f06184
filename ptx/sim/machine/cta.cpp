#include "ptx/sim/machine/cta.h"

#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

constexpr std::uint64_t warp_slice = 20000;  // instructions before the next warp has its turn

}  // namespace

void Launch::report(std::uint64_t index, Diagnostic diagnostic) {
  const std::lock_guard lock(mutex);
  if (index > stop_at) return;
  if (index < stop_at) faults.clear();
  stop_at = index;
  faults.push_back(std::move(diagnostic));
}

void Launch::poll() {
  if (!options.interrupted || std::this_thread::get_id() != caller) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - asked < std::chrono::milliseconds(10)) return;
  asked = now;
  if (options.interrupted()) report(0, Diagnostic(Code::interrupted, {}, "the run was ended from outside"));
}

Cta::Cta(Cluster& cluster, std::uint32_t rank, launch::Dim3 id)
    : cluster(cluster),
      launch(cluster.launch),
      rank(rank),
      id(id),
      threads(static_cast<std::uint32_t>(launch.block.count())),
      shared(launch.program.static_shared + launch.dynamic_shared) {
  const std::uint32_t count = (threads + lanes - 1) / lanes;
  warps.reserve(count);
  for (Barrier& b : barriers) b.lanes.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t left = threads - i * lanes;
    warps.push_back(std::make_unique<Warp>(*this, i, left >= lanes ? full_mask : (Mask{1} << left) - 1));
  }
}

bool Cta::finished() const {
  return std::all_of(warps.begin(), warps.end(), [](const auto& w) { return w->live == 0; });
}

void Cta::arrive(Warp& warp, Mask arriving, std::uint32_t number, std::uint32_t expected, bool reduces, Mask predicate,
                 int lane) {
  Barrier& b = barriers[number];
  if (b.active && (b.expected != expected || b.reduces != reduces)) {
    return warp.fault(Code::barrier_misuse, lane,
                      b.reduces != reduces
                          ? cat("mixes a reduction with other uses of barrier ", number, " before it is complete")
                          : cat("comes to barrier ", number, " with a count of ", expected, "; others came with ",
                                b.expected, " (0: all threads)"));
  }
  if (!b.active) b.count = 0, b.all = true;
  b.active = true, b.expected = expected, b.reduces = reduces;
  b.lanes[warp.index] |= arriving;
  b.count += static_cast<std::uint32_t>(std::popcount(predicate & arriving));
  b.all = b.all && (predicate & arriving) == arriving;
  settle(number);
}

// A warp has arrived when all of its threads that live have; the barrier is complete when the warps that it waits for
// have arrived.
void Cta::settle(std::uint32_t number) {
  Barrier& b = barriers[number];
  if (!b.active) return;
  std::uint32_t alive = 0;
  for (const auto& w : warps) {
    if (b.lanes[w->index] && (b.lanes[w->index] & w->live) == w->live) {
      b.lanes[w->index] = 0;
      b.arrived += lanes;
      w->counted |= 1u << number;
    }
    alive += (w->live || w->counted >> number & 1) ? lanes : 0;
  }
  const std::uint32_t expected = b.expected ? b.expected : alive;
  if (b.arrived < expected) return;
  for (const auto& w : warps) {
    w->counted &= ~(1u << number);
    for (Fragment& f : w->others) {
      if (f.wait != Wait{Wait::Kind::barrier, number}) continue;
      f.wait = {};
      if (b.reduces) deliver(*w, f, b);
    }
  }
  b.active = false, b.arrived = 0;
  std::fill(b.lanes.begin(), b.lanes.end(), 0);
}

// The result of bar.red, to the destination of the instruction that each fragment has just executed.
void Cta::deliver(Warp& warp, Fragment& fragment, const Barrier& b) {
  const Op& op = launch.program.ops[fragment.pc - 1];
  const Operand& d = op.operands[0];
  std::byte* row = (d.bank == Bank::registers ? reinterpret_cast<std::byte*>(fragment.frame->registers.data())
                                              : warp.banks[static_cast<int>(d.bank)]) +
                   d.offset;
  fragment.frame->initialised[d.slot] |= fragment.mask;
  if (d.cell == 0) {
    Mask& p = *reinterpret_cast<Mask*>(row);
    const bool value = op.mods.and_ ? b.all : b.count != 0;
    p = value ? p | fragment.mask : p & ~fragment.mask;
    return;
  }
  for (int i = 0; i < lanes; ++i) {
    if (fragment.mask >> i & 1) reinterpret_cast<std::uint32_t*>(row)[i] = b.count;
  }
}

void Cta::thread_exited(Warp&) {
  for (std::uint32_t i = 0; i < barriers.size(); ++i) settle(i);
  cluster.settle_cluster_barrier();
}

Cluster::Cluster(Launch& launch, std::uint64_t index) : launch(launch), index(index) {
  const launch::Dim3 c = launch.cluster;
  const std::uint64_t across = launch.grid.x / c.x, down = launch.grid.y / c.y;
  const launch::Dim3 first{static_cast<std::uint32_t>(index % across) * c.x,
                           static_cast<std::uint32_t>(index / across % down) * c.y,
                           static_cast<std::uint32_t>(index / across / down) * c.z};
  for (std::uint32_t rank = 0; rank < c.count(); ++rank) {
    const launch::Dim3 id{first.x + rank % c.x, first.y + rank / c.x % c.y, first.z + rank / c.x / c.y};
    ctas.push_back(std::make_unique<Cta>(*this, rank, id));
  }
}

void Cluster::cluster_arrive(Mask threads) {
  cluster_arrived += static_cast<std::uint32_t>(std::popcount(threads));
  settle_cluster_barrier();
}

// Complete when every thread of the cluster that lives has arrived; those that wait then go on.
void Cluster::settle_cluster_barrier() {
  std::uint32_t alive = 0, waiting = 0;
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      alive += static_cast<std::uint32_t>(std::popcount(w->live));
      for (const Fragment& f : w->others) {
        if (f.wait.kind == Wait::Kind::cluster_barrier) waiting += static_cast<std::uint32_t>(std::popcount(f.mask));
      }
    }
  }
  if (cluster_arrived < alive || waiting < alive || alive == 0) return;
  cluster_arrived = 0;
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      for (Fragment& f : w->others) {
        if (f.wait.kind == Wait::Kind::cluster_barrier) f.wait = {};
      }
    }
  }
}

bool Cluster::run(std::uint64_t steps) {
  if (launch.executed > launch.options.budget) return report_budget(), true;
  for (std::uint64_t used = 0; used < steps;) {
    std::uint64_t ran = 0;
    bool finished = true;
    for (const auto& cta : ctas) {
      const std::size_t count = cta->warps.size();
      for (std::size_t i = 0; i < count; ++i) {
        Warp& w = *cta->warps[order(i, count)];
        if (w.live && w.runnable()) ran += w.run(slice());
        launch.poll();
        if (launch.stop_at <= index) return true;
      }
      finished = finished && cta->finished();
    }
    used += ran;
    executed += ran;
    launch.executed += ran;
    ++round_;
    if (finished) return true;
    if (ran == 0) return report_stuck(), true;
    if (launch.executed > launch.options.budget) return report_budget(), true;
  }
  return false;
}

// With a seed, another order of the warps and other slices in each round; a pure function of the seed.
std::size_t Cluster::order(std::size_t i, std::size_t count) const {
  if (launch.options.seed == 0) return i;
  return (i + ((launch.options.seed * 0x9e3779b97f4a7c15ull + round_ * 0xbf58476d1ce4e5b9ull) >> 33)) % count;
}
std::uint64_t Cluster::slice() {
  if (launch.options.seed == 0) return warp_slice;
  random_ = (random_ + launch.options.seed + index) * 6364136223846793005ull + 1442695040888963407ull;
  return 1 + (random_ >> 40) % 64;
}

void Cluster::report_stuck() {
  bool diverged = false;
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      for (const Fragment& f : w->others) diverged = diverged || f.wait.kind == Wait::Kind::lanes;
    }
  }
  const Warp* first = nullptr;
  const Fragment* at = nullptr;
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      for (const Fragment& f : w->others) {
        if (!at && f.mask && (!diverged || f.wait.kind == Wait::Kind::lanes)) first = w.get(), at = &f;
      }
    }
  }
  PTX_CHECK(at, "a warp that lives has fragments");
  const std::uint32_t pc = at->wait.kind == Wait::Kind::lanes ? at->pc : at->pc - 1;
  launch.report(index, describe_fault(*first, diverged ? Code::divergent_barrier : Code::barrier_deadlock, pc,
                                      std::countr_zero(at->mask),
                                      diverged ? "waits here for threads of its warp that do not come"
                                               : "waits here, and no thread of its CTA can go on",
                                      where_warps_stand(*this)));
}

void Cluster::report_budget() {
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      if (!w->live || !w->runnable()) continue;
      const Fragment* at = w->current.mask ? &w->current : nullptr;
      for (const Fragment& f : w->others) {
        if (!at && f.ready()) at = &f;
      }
      const std::uint32_t pc = at == &w->current ? w->pc : at->pc;
      launch.report(index,
                    describe_fault(*w, Code::budget_exceeded, pc, std::countr_zero(at->mask),
                                   cat("is here after ", launch.executed.load(), " instructions of warps, more than ",
                                       "the budget of ", launch.options.budget),
                                   where_warps_stand(*this)));
      return;
    }
  }
}

}  // namespace ptx::sim
