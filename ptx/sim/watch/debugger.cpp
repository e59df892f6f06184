#include "ptx/sim/watch/debugger.h"

#include <algorithm>

#include "ptx/sim/stop.h"

namespace ptx::sim {

namespace {

bool same_line(const Place& a, const Place& b) { return a.line == b.line && a.file == b.file; }

// `file` may be the end of a path: "gemm.py" is that of "kernels/gemm.py".
bool names(const Place& wanted, const Place& place) {
  const std::string_view file = wanted.file.view(), path = place.file.view();
  if (wanted.line != place.line || !path.ends_with(file)) return false;
  return file.empty() || path.size() == file.size() || path[path.size() - file.size() - 1] == '/';
}

}  // namespace

Debugger::Debugger(const Program& program, Recording& recording) : program_(program), recording_(recording) {
  const auto is_wanted = [&](const Place& place) {
    return place.line && std::any_of(recording.breakpoints.begin(), recording.breakpoints.end(),
                                     [&](const Place& wanted) { return names(wanted, place); });
  };
  for (std::size_t pc = 0; pc < program.places.size(); ++pc)
    breaks_.push_back({is_wanted(program.places[pc]), is_wanted(program.sources[pc])});
  if (recording.stops_at_once) next_ = Next::instruction;
}

// A line is that of the source, where the text was compiled from one.
bool Debugger::stops(const Warp& w, std::uint32_t pc, Comes comes) const {
  if ((breaks_[pc].line && comes.line) || (breaks_[pc].source && comes.source)) return true;
  if (next_ == Next::run || (stepping_ && stepping_ != &w)) return false;
  return next_ == Next::instruction || (program_.sources[pc].line ? comes.source : comes.line);
}

void Debugger::executing(Warp& w, std::uint32_t pc, Mask active) {
  const Place &place = program_.places[pc], &source = program_.sources[pc];
  const auto [at, fresh] = at_.try_emplace(&w);
  const bool again = fresh || pc <= at->second.pc;
  const Comes comes{again || !same_line(at->second.line, place), again || !same_line(at->second.source, source)};
  at->second = {place, source, pc};
  if (recording_.stops_soon.exchange(false)) {
    next_ = Next::instruction, stepping_ = nullptr;
  } else if (!stops(w, pc, comes)) {
    return;
  }
  next_ = recording_.stopped(Stop(w, pc, active));
  stepping_ = next_ == Next::run ? nullptr : &w;
  if (next_ != Next::end) return;
  w.event = Event::fault;
  w.cta.launch.report(0, Diagnostic(Code::interrupted, {}, "the run was ended at a stop"));
}

}  // namespace ptx::sim
