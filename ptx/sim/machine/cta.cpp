#include "ptx/sim/machine/cta.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "ptx/base/check.h"
#include "ptx/base/text.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

constexpr std::uint64_t warp_slice = 20000;     // instructions before the next warp has its turn
constexpr std::uint64_t taken_ahead = 1 << 17;  // of the budget
constexpr std::uint64_t answers_after = 64;     // rounds in which a thread may wait for an mbarrier before it hears no
constexpr std::uint64_t vain_answers = 10000;   // with which noes in vain are taken for a deadlock

}  // namespace

void Launch::report(std::uint64_t index, Diagnostic diagnostic, std::vector<Site> sites) {
  const std::lock_guard lock(mutex);
  if (index > stop_at) return;
  if (index < stop_at) faults.clear();
  stop_at = index;
  faults.push_back({std::move(diagnostic), std::move(sites)});
}

void Launch::note(Report report) {
  const std::lock_guard lock(mutex);
  const auto is_known = [&](const Report& r) {
    return r.diagnostic.place == report.diagnostic.place && r.diagnostic.notes == report.diagnostic.notes;
  };
  if (std::none_of(noted.begin(), noted.end(), is_known)) noted.push_back(std::move(report));
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
  if (launch.program.reserved_shared) std::fill_n(shared.shadow.begin(), reserved_in_use, written);
  warpgroups.resize(count / Warpgroup::warps);
  warps.reserve(count);
  for (Barrier& b : barriers) b.lanes.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t left = threads - i * lanes;
    warps.push_back(std::make_unique<Warp>(*this, i, left >= lanes ? full_mask : (Mask{1} << left) - 1));
    warps.back()->owned_registers = launch.program.first_registers;
  }
}

bool Cta::finished() const {
  return std::all_of(warps.begin(), warps.end(), [](const auto& w) { return w->live == 0; });
}

void Cta::arrive(Warp& warp, Mask arriving, std::uint32_t number, std::uint32_t expected, bool reduces, Mask predicate,
                 int lane) {
  Barrier& b = barriers[number];
  const bool again = (warp.counted >> number & 1) != 0;
  if (b.active && (b.expected != expected || b.reduces != reduces || again)) {
    return warp.fault(Code::barrier_misuse, lane,
                      again ? cat("comes to barrier ", number, " again, which is not complete since its warp came")
                      : b.reduces != reduces
                          ? cat("mixes a reduction with other uses of barrier ", number, " before it is complete")
                          : cat("comes to barrier ", number, " with a count of ", expected, "; others came with ",
                                b.expected, " (0: all threads)"),
                      {cat("the first to come was at ", mentioned(warp, *b.came, b.first, b.lane))});
  }
  if (!b.active) b.count = 0, b.all = true, b.first = warp.pc - 1, b.came = &warp, b.lane = lane;
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
  const Channel channel{Channel::Kind::barrier, this, number};
  if (launch.observer) launch.observer->completed(channel);
  for (const auto& w : warps) {
    w->counted &= ~(1u << number);
    for (Fragment& f : w->others) {
      if (f.wait.kind != Wait::Kind::barrier || f.wait.object != number) continue;
      if (launch.observer) launch.observer->passed(*w, f.mask, channel, launch.program.ops[f.pc - 1].manner);
      f.wait = {};
      if (b.reduces) deliver(*w, f, b);
    }
  }
  cluster.idle = 0;
  b.active = false, b.arrived = 0;
  std::fill(b.lanes.begin(), b.lanes.end(), 0);
}

// The result of bar.red, to the destination of the instruction that each fragment has just executed.
void Cta::deliver(Warp& warp, Fragment& fragment, const Barrier& b) {
  const Op& op = launch.program.ops[fragment.pc - 1];
  const Operand& d = op.operands[0];
  if (d.cell == 0) return warp.answer(fragment, op.mods.and_ ? b.all : b.count != 0);
  std::byte* row = (d.bank == Bank::registers ? reinterpret_cast<std::byte*>(fragment.frame->registers.data())
                                              : warp.banks[static_cast<int>(d.bank)]) +
                   d.offset;
  fragment.frame->initialised[d.slot] |= fragment.mask;
  for (int i = 0; i < lanes; ++i) {
    if (fragment.mask >> i & 1) reinterpret_cast<std::uint32_t*>(row)[i] = b.count;
  }
}

void Cta::thread_exited(Warp& warp) {
  left_at = warp.pc - 1, left = &warp;
  if (launch.observer && finished()) launch.observer->ended(*this);
  for (std::uint32_t i = 0; i < barriers.size(); ++i) settle(i);
  cluster.settle_cluster_barrier();
}

launch::Dim3 first_cta(const Launch& launch, std::uint64_t index) {
  const launch::Dim3 c = launch.cluster;
  const std::uint64_t across = launch.grid.x / c.x, down = launch.grid.y / c.y;
  return {static_cast<std::uint32_t>(index % across) * c.x, static_cast<std::uint32_t>(index / across % down) * c.y,
          static_cast<std::uint32_t>(index / across / down) * c.z};
}

Cluster::Cluster(Launch& launch, std::uint64_t index) : launch(launch), index(index) {
  const launch::Dim3 c = launch.cluster, first = first_cta(launch, index);
  for (std::uint32_t rank = 0; rank < c.count(); ++rank) {
    const launch::Dim3 id{first.x + rank % c.x, first.y + rank / c.x % c.y, first.z + rank / c.x / c.y};
    ctas.push_back(std::make_unique<Cta>(*this, rank, id));
  }
}

// Complete when every thread of the cluster that lives has arrived; those that wait then go on.
void Cluster::settle_cluster_barrier() {
  bool any = false;
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      if ((w->cluster_arrived & w->live) != w->live) return;
      any = any || w->cluster_arrived;
    }
  }
  if (!any) return;
  idle = 0;
  const Channel channel{Channel::Kind::cluster_barrier, this};
  if (launch.observer) launch.observer->completed(channel);
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      w->cluster_passed |= w->cluster_arrived;
      w->cluster_arrived = 0;
      for (Fragment& f : w->others) {
        if (f.wait.kind != Wait::Kind::cluster_barrier) continue;
        w->cluster_passed &= ~f.mask;
        if (launch.observer) launch.observer->passed(*w, f.mask, channel, launch.program.ops[f.pc - 1].manner);
        f.wait = {};
      }
    }
  }
}

// An mbarrier that was asked may say no after a while, so that a thread with something else to do can do it.
bool Cluster::answer_waiting() {
  bool any = false;
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      for (Fragment& f : w->others) {
        if (f.wait.kind == Wait::Kind::mbarrier) w->answer(f, false), any = true;
      }
    }
  }
  return any;
}

// While threads run, what others wait for comes late, and what nobody waits for much later. With a seed, at any moment.
bool Cluster::finish_early() {
  if (operations.empty()) return false;
  if (launch.options.seed != 0 && slice() % 4 == 0) return operations.finish_any(slice());
  if (round_ % 4 == 0 && operations.finish_awaited()) return true;
  return round_ % answers_after == 0 && operations.finish_any(0);
}

// Instructions since memory changed last, and looks at it, of each warp.
class Cluster::Stall {
 public:
  explicit Stall(const Cluster& cluster) : cluster_(cluster), changes_(cluster.polling.changes) {}
  // Runs the warp; returns how many instructions it executed.
  std::uint64_t run(Warp& warp, std::uint64_t steps) {
    const std::uint64_t looks = cluster_.polling.looks, executed = warp.run(steps);
    add(&warp, executed, cluster_.polling.looks - looks);
    return executed;
  }
  void look() {
    if (cluster_.polling.changes != changes_) end();
  }
  void end() { changes_ = cluster_.polling.changes, warps_.clear(), all_ = 0; }
  // Every warp that can run, in each of its fragments, has looked at memory and done nothing else.
  bool is_one(std::uint64_t patience) const {
    if (all_ == 0 || all_ < patience) return false;
    for (const auto& cta : cluster_.ctas) {
      for (const auto& w : cta->warps) {
        if (w->live && w->runnable() && !only_looks(*w)) return false;
      }
    }
    return true;
  }

 private:
  struct One {
    const Warp* warp;
    std::uint64_t executed, looks;
  };
  bool only_looks(const Warp& warp) const {
    const auto at = std::find_if(warps_.begin(), warps_.end(), [&](const One& o) { return o.warp == &warp; });
    return at != warps_.end() && at->executed >= Polling::enough * warp.ready_fragments() &&
           at->looks * Polling::tight >= at->executed;
  }
  void add(const Warp* warp, std::uint64_t executed, std::uint64_t looks) {
    auto at = std::find_if(warps_.begin(), warps_.end(), [&](const One& o) { return o.warp == warp; });
    if (at == warps_.end()) at = warps_.insert(at, {warp, 0, 0});
    at->executed += executed, at->looks += looks, all_ += executed;
  }
  const Cluster& cluster_;
  std::uint64_t changes_, all_ = 0;
  std::vector<One> warps_;
};

bool Cluster::finished() const {
  return std::all_of(ctas.begin(), ctas.end(), [](const auto& cta) { return cta->finished(); });
}

Cluster::Round Cluster::run_all(Stall& stall) {
  Round round;
  for (const auto& cta : ctas) {
    const std::size_t count = cta->warps.size();
    for (std::size_t i = 0; i < count; ++i) {
      Warp& w = *cta->warps[order(i, count)];
      if (w.live && w.runnable()) round.ran += run_slice(stall, w, slice());
      launch.poll();
      round.stopped = launch.stop_at <= index;
      if (round.stopped) return round;
    }
  }
  return round;
}

std::uint64_t Budget::take(std::uint64_t most) {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [&] { return left_ != 0 || holders_ == 0; });
  const std::uint64_t taken = std::min(left_, most);
  left_ -= taken;
  holders_ += taken != 0;
  return taken;
}
void Budget::give_back(std::uint64_t rest) {
  const std::lock_guard lock(mutex_);
  left_ += rest;
  --holders_;
  returned_.notify_all();
}

void Cluster::return_credit() {
  if (holds_) launch.budget.give_back(credit_);
  credit_ = 0, holds_ = false;
}

std::uint64_t Cluster::run_slice(Stall& stall, Warp& warp, std::uint64_t steps) {
  if (credit_ < steps) {
    return_credit();
    credit_ = launch.budget.take(std::max(taken_ahead, steps));
    holds_ = credit_ != 0;
  }
  spent_ = credit_ == 0;
  const std::uint64_t ran = stall.run(warp, std::min(steps, credit_));
  credit_ -= ran;
  return ran;
}

bool Cluster::run(std::uint64_t steps, std::uint64_t patience) {
  const bool done = run_on(steps, patience);
  return_credit();
  if (done && launch.observer) operations.tell_rest(*launch.observer), launch.observer->over(*this);
  return done;
}

// A value that nothing wrote has ended the launch, and who writes it too late may be about to: the other warps go on
// for a little, so that the race is found as well. What happens to them now is not told, since one of them stands
// still.
static void let_others_run(Cluster& cluster) {
  constexpr int turns = 8;  // of what a warp runs before it sees that the launch has ended
  Launch& launch = cluster.launch;
  const std::size_t faults = launch.faults.size(), noted = launch.noted.size();
  const bool unwritten = faults && launch.faults.back().diagnostic.code == Code::uninitialised_memory;
  for (int i = 0; i < turns && unwritten && launch.observer; ++i) {
    for (const auto& cta : cluster.ctas) {
      for (const auto& w : cta->warps) {
        if (w->live && w->runnable() && w->event != Event::fault) w->run(1 << 10);
      }
    }
  }
  launch.faults.erase(launch.faults.begin() + static_cast<std::ptrdiff_t>(faults), launch.faults.end());
  launch.noted.erase(launch.noted.begin() + static_cast<std::ptrdiff_t>(noted), launch.noted.end());
}

// Whoever ends a run wants to know where it was.
static void tell_where_ended(Cluster& cluster) {
  Launch& launch = cluster.launch;
  if (launch.options.recording && launch.options.recording->stopped) return;  // there they have seen it
  const std::lock_guard lock(launch.mutex);
  for (Report& fault : launch.faults) {
    if (fault.diagnostic.code == Code::interrupted && fault.diagnostic.notes.empty())
      fault.diagnostic.notes = where_warps_stand(cluster);
  }
}

bool Cluster::run_on(std::uint64_t steps, std::uint64_t patience) {
  stalled_ = false;
  Stall stall(*this);
  for (std::uint64_t used = 0; used < steps;) {
    const auto [ran, stopped, gives_way] = by_priority() ? run_first(stall) : run_all(stall);
    if (stopped) {
      tell_where_ended(*this);
      return let_others_run(*this), true;
    }
    used += ran;
    executed += ran;
    stall.look();
    ++round_;
    if (finished()) {
      while (!operations.empty() && launch.stop_at > index) operations.finish_any(0);
      if (launch.stop_at > index) report_leaks();
      if (launch.stop_at > index) report_partial_products(*this);
      if (launch.stop_at > index) report_partial_registers();
      if (launch.stop_at > index) report_partial_phases(*this);
      return true;
    }
    if (spent_) return report_budget(), true;
    if (gives_way) return false;
    if (ran == 0 ? operations.finish_awaited() : finish_early()) {
      stall.end();
      continue;
    }
    stalled_ = stall.is_one(patience);
    if (stalled_) return false;
    if (ran == 0 && (idle == vain_answers || !answer_waiting())) return report_stuck(), true;
    idle += ran == 0;
    if (round_ % answers_after == 0) answer_waiting();
  }
  return false;
}

// ---- schedules by priority (Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs,
// 2010): the runnable warp of the highest priority runs; at a few of the instructions that synchronise the one that
// runs falls behind all others, and half the time its cluster behind all clusters. The fewer such places a schedule
// has, the easier it is to follow: log2(seed) at most.

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ull + b + 0x632be59bd9b4e019ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

bool Cluster::by_priority() const {
  return launch.options.seed != 0 && launch.options.schedule == Schedule::synchronisation;
}

void Cluster::set_priorities() {
  const std::uint64_t seed = mixed(launch.options.seed, index);
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps)
      w->priority = static_cast<std::int64_t>(mixed(seed, std::uint64_t{cta->rank} << 32 | w->index) >> 2);
  }
  const int changes = std::bit_width(launch.options.seed) - 1;
  for (int i = 0; i < changes; ++i) {
    const std::uint64_t random = mixed(~seed, static_cast<std::uint64_t>(i));
    change_after_.push_back(1 + (random >> 8) % (2ull << random % 10));  // near the start as well as far from it
  }
  lowest_ = -1;
}

bool Cluster::changes_priorities() {
  ++synchronised_;
  if (std::find(change_after_.begin(), change_after_.end(), synchronised_) == change_after_.end()) return false;
  gives_way_ = mixed(launch.options.seed + index, synchronised_) % 2 != 0;
  return true;
}

Cluster::Round Cluster::run_first(Stall& stall) {
  if (lowest_ == 0) set_priorities();
  Warp* first = nullptr;
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      if (w->live && w->runnable() && (!first || w->priority > first->priority)) first = w.get();
    }
  }
  Round round;
  if (first) {
    round.ran = run_slice(stall, *first, warp_slice);
    // A warp that runs for so long waits for others by asking memory.
    if (first->preempted || round.ran >= warp_slice) first->priority = lowest_--;
    round.gives_way = std::exchange(gives_way_, false);
  }
  launch.poll();
  round.stopped = launch.stop_at <= index;
  return round;
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
  // An mbarrier that nobody completes is what the others wait for in the end; then lanes that do not come.
  Wait::Kind cause = Wait::Kind::none;
  const Warp* first = nullptr;
  const Fragment* at = nullptr;
  for (const Wait::Kind kind : {Wait::Kind::mbarrier, Wait::Kind::tensor_memory, Wait::Kind::lanes, Wait::Kind::none}) {
    for (const auto& cta : ctas) {
      for (const auto& w : cta->warps) {
        for (const Fragment& f : w->others) {
          const bool fits = f.mask && (kind == Wait::Kind::none || f.wait.kind == kind);
          if (!at && fits) first = w.get(), at = &f, cause = kind;
        }
      }
    }
  }
  const bool diverged = cause == Wait::Kind::lanes;
  PTX_CHECK(at, "a warp that lives has fragments");
  const std::uint32_t pc = at->wait.kind == Wait::Kind::lanes ? at->pc : at->pc - 1;
  launch.report(index,
                describe_fault(*first, diverged ? Code::divergent_barrier : Code::barrier_deadlock, pc,
                               std::countr_zero(at->mask),
                               diverged ? "waits here for threads of its warp that do not come"
                                        : "waits here, and no thread of its CTA can go on",
                               where_warps_stand(*this)),
                sites_of_waiting(*this));
}

// A setmaxnreg that only some warps of a warpgroup executed.
void Cluster::report_partial_registers() {
  for (const auto& cta : ctas) {
    for (const auto& w : cta->warps) {
      for (const auto& other : cta->warps) {
        const std::size_t count = other->register_changes.size();
        if (w->index / Warpgroup::warps != other->index / Warpgroup::warps || w->register_changes.size() <= count)
          continue;
        const std::uint32_t pc = w->register_changes[count];
        return launch.report(index,
                             describe_fault(*w, Code::divergent_barrier, pc, 0,
                                            cat("executed it, and warp ", other->index, " of its warpgroup did not"),
                                            {"all warps of a warpgroup execute the same setmaxnreg"}),
                             {site_of(*w, pc, 0)});
      }
    }
  }
}

void Cluster::report_livelock() {
  const Polling& p = polling;
  Site site = site_of(*p.warp, p.pc, p.lane);
  site_accesses(site, *p.warp, p.at);
  const isa::Space space = site.space == "global" ? isa::Space::global : isa::Space::shared_cta;
  const std::string name = site.space == "local" ? "local memory"
                           : site.owner.empty()  ? describe(launch.program, {space, nullptr, site.address, site.bytes})
                                                 : site.owner;
  launch.report(index,
                describe_fault(*p.warp, Code::livelock, p.pc, p.lane,
                               cat("looks at ", name, " again and again, and no thread that runs changes memory"),
                               where_warps_stand(*this)),
                {std::move(site)});
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
                                   cat("is here after ", launch.options.budget, " instructions of warps, the budget"),
                                   where_warps_stand(*this)),
                    {site_of(*w, pc, std::countr_zero(at->mask))});
      return;
    }
  }
}

}  // namespace ptx::sim
