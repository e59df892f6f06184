#include "ptx/sim/watch/watch.h"

#include <algorithm>
#include <iterator>

#include "ptx/sim/watch/report.h"

namespace ptx::sim {
namespace {

class Together final : public Observer {
 public:
  explicit Together(const std::vector<Observer*>& all) : all_(all) {}

  void accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) override {
    tell([&](Observer& o) { o.accessed(agent, where, kind, manner); });
  }
  void touched(const Touch& touch) override {
    tell([&](Observer& o) { o.touched(touch); });
  }
  void executing(Warp& warp, std::uint32_t pc, Mask active) override {
    tell([&](Observer& o) { o.executing(warp, pc, active); });
  }
  void waiting(Warp& warp, std::uint32_t pc, Mask lanes, const Wait& wait) override {
    tell([&](Observer& o) { o.waiting(warp, pc, lanes, wait); });
  }
  void began(const Operation& operation) override {
    tell([&](Observer& o) { o.began(operation); });
  }
  void began(Warp& warp, const ThreadCopy& copy) override {
    tell([&](Observer& o) { o.began(warp, copy); });
  }
  void multiplies(const Agent& agent, const Cta& cta, const MatrixRead& read) override {
    tell([&](Observer& o) { o.multiplies(agent, cta, read); });
  }
  void finished(const Operation& operation) override {
    tell([&](Observer& o) { o.finished(operation); });
  }
  void arrived(Warp& warp, Mask lanes, const Channel& channel, const Manner& manner, bool stays) override {
    tell([&](Observer& o) { o.arrived(warp, lanes, channel, manner, stays); });
  }
  void arrived(const Operation& finishes, const Channel& channel) override {
    tell([&](Observer& o) { o.arrived(finishes, channel); });
  }
  void completed(const Channel& channel) override {
    tell([&](Observer& o) { o.completed(channel); });
  }
  void passed(Warp& warp, Mask lanes, const Channel& channel, const Manner& manner) override {
    tell([&](Observer& o) { o.passed(warp, lanes, channel, manner); });
  }
  Mask refused(Warp& warp, Mask lanes, const Channel& channel, std::uint64_t phase, bool complete) override {
    Mask all = 0;
    tell([&](Observer& o) { all |= o.refused(warp, lanes, channel, phase, complete); });
    return all;
  }
  void made(const Channel& channel) override {
    tell([&](Observer& o) { o.made(channel); });
  }
  void met(Warp& warp, Mask lanes) override {
    tell([&](Observer& o) { o.met(warp, lanes); });
  }
  void gathered(Warp& warp, Mask lanes) override {
    tell([&](Observer& o) { o.gathered(warp, lanes); });
  }
  void fenced(Warp& warp, Mask lanes, Fence fence, const Manner& manner) override {
    tell([&](Observer& o) { o.fenced(warp, lanes, fence, manner); });
  }
  void fenced_map(Warp& warp, int lane, const Location& map, const Manner& manner) override {
    tell([&](Observer& o) { o.fenced_map(warp, lane, map, manner); });
  }
  void waited(Warp& warp, Mask lanes, Group group, std::uint64_t through) override {
    tell([&](Observer& o) { o.waited(warp, lanes, group, through); });
  }
  void loaded(Warp& warp, std::uint64_t through) override {
    tell([&](Observer& o) { o.loaded(warp, through); });
  }
  void exited(Warp& warp, Mask lanes) override {
    tell([&](Observer& o) { o.exited(warp, lanes); });
  }
  void ended(Cta& cta) override {
    tell([&](Observer& o) { o.ended(cta); });
  }
  void over(Cluster& cluster) override {
    tell([&](Observer& o) { o.over(cluster); });
  }

 private:
  template <class F>
  void tell(F what) {
    for (Observer* one : all_) what(*one);
  }

  const std::vector<Observer*>& all_;
};

}  // namespace

Watch::Watch(Launch& launch) : launch_(launch) {
  const Options& options = launch.options;
  if (options.observer) all_.push_back(options.observer);
  if (options.checks) add(races_, launch, options.checks);
  if ((options.checks & bit(Check::missing_product_fence)) && ProductFences::concerns(launch.program))
    add(fences_, launch);
  if (options.checks & bit(Check::layout_mismatch)) add(layouts_, launch);
  const std::size_t arrays = std::max(launch.program.shared_variables.size(), launch.program.local_variables.size());
  if ((options.checks & bit(Check::out_of_bounds)) && arrays > 1) add(arrays_, launch);
  Recording* const r = options.recording.get();
  if (!r) return;
  const std::lock_guard lock(r->mutex);
  const auto number = static_cast<std::uint32_t>(r->ran++);
  if (races_ && launch.dependent) races_->begin_beside(r->unfinished);
  if (r->lines) add(counters_, launch);
  if (r->trace) add(tracer_, launch.program, number, r->most_pieces - std::min(r->most_pieces, r->trace_pieces.size()));
  if (r->writers) add(writers_, launch);
  if (r->stopped) add(debugger_, launch.program, *r);
}

// A schedule that changes at instructions needs the engine that tells of them.
Observer* Watch::observer() {
  const bool scheduled = launch_.options.seed != 0 && launch_.options.schedule == Schedule::synchronisation;
  if (all_.empty() && !scheduled) return nullptr;
  if (all_.size() == 1) return all_.front();
  if (!together_) together_ = std::make_unique<Together>(all_);
  return together_.get();
}

std::vector<Report> Watch::end(std::vector<Report> faults) {
  std::vector<Report> reports = races_ ? races_->reports() : std::vector<Report>{};
  if (fences_) reports.insert(reports.end(), fences_->reports().begin(), fences_->reports().end());
  if (layouts_) reports.insert(reports.end(), layouts_->reports().begin(), layouts_->reports().end());
  if (arrays_) reports.insert(reports.end(), arrays_->reports().begin(), arrays_->reports().end());
  const bool interrupted =
      std::any_of(faults.begin(), faults.end(), [](const Report& r) { return r.diagnostic.code == Code::interrupted; });
  for (Report& r : faults) {
    const bool unwritten = r.diagnostic.code == Code::uninitialised_memory && races_ && !r.sites.empty();
    const std::string heard = unwritten ? races_->refusal(r.sites.front()) : std::string();
    if (!heard.empty()) r.diagnostic.notes.push_back(heard);
  }
  std::move(faults.begin(), faults.end(), std::back_inserter(reports));
  for (Report& report : reports) tell_names(report.diagnostic, launch_.program);
  Recording* const r = launch_.options.recording.get();
  if (!r) return reports;
  const std::lock_guard lock(r->mutex);
  r->reports.insert(r->reports.end(), reports.begin(), reports.end());
  r->warp_instructions += launch_.statistics.warp_instructions;
  r->thread_instructions += launch_.statistics.thread_instructions;
  if (counters_) counters_->add_to(r->counts);
  if (tracer_) tracer_->add_to(*r, !interrupted);  // who ended the run does not wait for a million pieces
  if (writers_) r->written = writers_->take();
  r->unfinished = races_ ? races_->unfinished() : std::vector<Recording::Unfinished>{};
  return reports;
}

std::optional<Writer> Recording::writer(std::uint64_t address) const {
  for (const Written& w : written) {
    if (address < w.begin || address - w.begin >= w.by.size()) continue;
    const std::uint32_t by = w.by[address - w.begin];
    if (by) return w.by_whom[by - 1];
  }
  return std::nullopt;
}

}  // namespace ptx::sim
