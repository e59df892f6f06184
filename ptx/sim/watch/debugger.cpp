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

Debugger::Debugger(const Program& program, const Recording& recording) : program_(program), recording_(recording) {
  for (const Place& place : program.places) {
    breaks_.push_back(std::any_of(recording.breakpoints.begin(), recording.breakpoints.end(),
                                  [&](const Place& wanted) { return names(wanted, place); }));
  }
  if (recording.stops_at_once) next_ = Next::instruction;
}

bool Debugger::stops(const Warp& w, std::uint32_t pc, bool new_line) const {
  if (breaks_[pc] && new_line) return true;
  if (next_ == Next::run || (stepping_ && stepping_ != &w)) return false;
  return next_ == Next::instruction || new_line;
}

void Debugger::executing(Warp& w, std::uint32_t pc, Mask active) {
  const Place& place = program_.places[pc];
  const auto [at, fresh] = at_.try_emplace(&w);
  const bool new_line = fresh || !same_line(at->second.line, place) || pc <= at->second.pc;  // or once more
  at->second = {place, pc};
  if (!stops(w, pc, new_line)) return;
  next_ = recording_.stopped(Stop(w, pc, active));
  stepping_ = next_ == Next::run ? nullptr : &w;
  if (next_ != Next::end) return;
  w.event = Event::fault;
  w.cta.launch.report(0, Diagnostic(Code::interrupted, {}, "the run was ended at a stop"));
}

}  // namespace ptx::sim
