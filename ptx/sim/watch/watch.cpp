#include "ptx/sim/watch/watch.h"

#include <algorithm>
#include <iterator>

namespace ptx::sim {

Watch::Watch(Launch& launch) : launch_(launch) {
  const Options& options = launch.options;
  if (options.observer) all_.push_back(options.observer);
  if (options.checks) add(races_, launch, options.checks);
  if ((options.checks & bit(Check::missing_product_fence)) && ProductFences::concerns(launch.program))
    add(fences_, launch);
  if (options.checks & bit(Check::layout_mismatch)) add(layouts_, launch);
  if ((options.checks & bit(Check::out_of_bounds)) && launch.program.shared_variables.size() > 1) add(arrays_, launch);
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
  return all_.size() == 1 ? all_.front() : this;
}

std::vector<Report> Watch::end(std::vector<Report> faults) {
  std::vector<Report> reports = races_ ? races_->reports() : std::vector<Report>{};
  if (fences_) reports.insert(reports.end(), fences_->reports().begin(), fences_->reports().end());
  if (layouts_) reports.insert(reports.end(), layouts_->reports().begin(), layouts_->reports().end());
  if (arrays_) reports.insert(reports.end(), arrays_->reports().begin(), arrays_->reports().end());
  const bool interrupted =
      std::any_of(faults.begin(), faults.end(), [](const Report& r) { return r.diagnostic.code == Code::interrupted; });
  std::move(faults.begin(), faults.end(), std::back_inserter(reports));
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

void Watch::accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) {
  tell(&Observer::accessed, agent, where, kind, manner);
}
void Watch::touched(const Touch& touch) { tell(&Observer::touched, touch); }
void Watch::executing(Warp& warp, std::uint32_t pc, Mask active) { tell(&Observer::executing, warp, pc, active); }
void Watch::waiting(Warp& warp, std::uint32_t pc, Mask lanes, const Wait& wait) {
  tell(&Observer::waiting, warp, pc, lanes, wait);
}
void Watch::began(const Operation& operation) {
  for (Observer* one : all_) one->began(operation);
}
void Watch::began(Warp& warp, const ThreadCopy& copy) {
  for (Observer* one : all_) one->began(warp, copy);
}
void Watch::multiplies(const Agent& agent, const Cta& cta, const MatrixRead& read) {
  tell(&Observer::multiplies, agent, cta, read);
}
void Watch::finished(const Operation& operation) { tell(&Observer::finished, operation); }
void Watch::arrived(Warp& warp, Mask lanes, const Channel& channel, const Manner& manner, bool stays) {
  for (Observer* one : all_) one->arrived(warp, lanes, channel, manner, stays);
}
void Watch::arrived(const Operation& finishes, const Channel& channel) {
  for (Observer* one : all_) one->arrived(finishes, channel);
}
void Watch::completed(const Channel& channel) { tell(&Observer::completed, channel); }
void Watch::passed(Warp& warp, Mask lanes, const Channel& channel, const Manner& manner) {
  tell(&Observer::passed, warp, lanes, channel, manner);
}
void Watch::made(const Channel& channel) { tell(&Observer::made, channel); }
void Watch::met(Warp& warp, Mask lanes) { tell(&Observer::met, warp, lanes); }
void Watch::fenced(Warp& warp, Mask lanes, Fence fence, const Manner& manner) {
  tell(&Observer::fenced, warp, lanes, fence, manner);
}
void Watch::fenced_map(Warp& warp, int lane, const Location& map, const Manner& manner) {
  tell(&Observer::fenced_map, warp, lane, map, manner);
}
void Watch::waited(Warp& warp, Mask lanes, Group group, std::uint64_t through) {
  tell(&Observer::waited, warp, lanes, group, through);
}
void Watch::exited(Warp& warp, Mask lanes) { tell(&Observer::exited, warp, lanes); }
void Watch::ended(Cta& cta) { tell(&Observer::ended, cta); }
void Watch::over(Cluster& cluster) { tell(&Observer::over, cluster); }

std::optional<Writer> Recording::writer(std::uint64_t address) const {
  for (const Written& w : written) {
    if (address < w.begin || address - w.begin >= w.by.size()) continue;
    const std::uint32_t by = w.by[address - w.begin];
    if (by) return w.by_whom[by - 1];
  }
  return std::nullopt;
}

}  // namespace ptx::sim
