// The simulator's options and recordings, and a run that stands still, for pyptx.simulator.
#include "ptx/sim/simulator.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ptx/base/text.h"
#include "ptx/sim/checks.h"
#include "ptx/sim/explore.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/stop.h"
#include "python/src/diagnostics.h"
#include "python/src/registers.h"

namespace ptx::python {
namespace {

// Ctrl-C: what the signal's handler raised stays with the thread until the run has come back (set_error).
bool interrupted() {
  const Locked lock;
  return PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
}

// Lines that threads print go where Python's print goes.
void print_line(const sim::Printed& line) {
  const Locked lock;
  const nb::error_scope raised;
  try {
    const nb::object out = nb::module_::import_("sys").attr("stdout");
    if (!out.is_none()) out.attr("write")(sim::to_string(line) + '\n');
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("a line that a kernel prints");
  }
}

// The author's names of registers. Whatever goes wrong there, a report has the names of the text.
std::vector<std::string> call_registers(const std::vector<MadeRegisters>& made) {
  const Locked lock;
  const nb::error_scope raised;
  try {
    const nb::object names = nb::module_::import_("pyptx.body.registers").attr("names")(tuples_of(made));
    return nb::cast<std::vector<std::string>>(names);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the author's names of registers");
  }
  return {};
}

nb::tuple triple(const launch::Dim3& d) { return nb::make_tuple(d.x, d.y, d.z); }
nb::str text(std::string_view s) { return readable(s); }
nb::tuple site(const sim::Site& s) {
  return nb::make_tuple(triple(s.cta), triple(s.thread), text(s.place.file.view()), s.place.line, text(s.instruction),
                        text(s.space), s.address, s.bytes, text(s.owner), text(s.source));
}
nb::list reports(const std::vector<sim::Report>& all) {
  nb::list out;
  for (const sim::Report& r : all) {
    nb::list sites;
    for (const sim::Site& s : r.sites) sites.append(site(s));
    out.append(nb::make_tuple(r.diagnostic, sites));
  }
  return out;
}

// A stop as Python holds it: it may outlive the moment, and then says so.
struct Stop {
  const sim::Stop* now;
  const sim::Stop& at() const {
    if (!now) throw std::runtime_error("the run has gone on: a stop can be used only inside its function");
    return *now;
  }
};

template <class T>
nb::bytes bytes(std::span<const T> s) {
  return nb::bytes(reinterpret_cast<const char*>(s.data()), s.size());
}

// Asks Python how to go on. What it raises ends the run, and comes out of the call.
sim::Next ask(PyObject* function, const sim::Stop& stop) {
  const Locked lock;
  const auto view = std::make_shared<Stop>(Stop{&stop});
  sim::Next next = sim::Next::end;
  try {
    next = static_cast<sim::Next>(nb::cast<int>(nb::handle(function)(view)));
  } catch (nb::python_error& error) {
    error.restore();
  }
  view->now = nullptr;
  return next;
}

void init_stop(nb::module_& m) {
  nb::class_<Stop>(m, "SimulatorStop")
      .def_prop_ro("site", [](const Stop& s) { return site(s.at().site()); })
      .def_prop_ro("entry", [](const Stop& s) { return text(s.at().entry()); })
      .def_prop_ro("warp", [](const Stop& s) { return s.at().warp(); })
      .def_prop_ro("lanes", [](const Stop& s) { return s.at().lanes(); })
      .def("registers",
           [](const Stop& s) {
             nb::list out;
             for (const auto& r : s.at().registers())
               out.append(nb::make_tuple(text(r.name), text(isa::info(r.type).name), r.written, nb::cast(r.low),
                                         nb::cast(r.high), text(r.called), text(r.made.file.view()), r.made.line));
             return out;
           })
      .def("shared",
           [](const Stop& s) {
             nb::list out;
             for (const auto& v : s.at().shared())
               out.append(nb::make_tuple(text(v.name), v.offset, bytes(v.bytes), bytes(v.written)));
             return out;
           })
      .def("mbarriers",
           [](const Stop& s) {
             nb::list out;
             for (const auto& b : s.at().mbarriers())
               out.append(nb::make_tuple(text(b.name), b.offset, b.expected, b.pending, b.phase, b.tx));
             return out;
           })
      .def("warps", [](const Stop& s) {
        nb::list out;
        for (const auto& w : s.at().warps())
          out.append(nb::make_tuple(triple(w.cta), w.warp, w.lanes, text(w.place.file.view()), w.place.line,
                                    text(w.instruction), text(w.waits)));
        return out;
      });
}

using Recording = sim::Recording;

// A copy of what was found, taken while nobody adds to it.
template <class T>
T found(Recording& r, T Recording::* member) {
  const Unlocked unlocked;
  const std::lock_guard lock(r.mutex);
  return r.*member;
}

void set_stops(Recording& r, const std::vector<std::tuple<std::string, std::uint32_t>>& breakpoints, bool at_once,
               nb::object function) {
  r.breakpoints.clear();
  for (const auto& [file, line] : breakpoints) r.breakpoints.push_back(Place{Name(file), line, 0});
  r.stops_at_once = at_once;
  if (function.is_none()) return void(r.stopped = nullptr);
  const auto kept = std::shared_ptr<PyObject>(function.release().ptr(), [](PyObject* o) {
    const Locked lock;
    Py_DECREF(o);
  });
  r.stopped = [kept](const sim::Stop& stop) { return ask(kept.get(), stop); };
}

nb::object explore(const std::shared_ptr<Recording>& r, std::uint64_t schedules, bool compare) {
  std::optional<sim::Failing> failing;
  {
    const Unlocked unlocked;
    failing = sim::explore(*r, schedules, sim::simulator().options(), compare);
  }
  if (PyErr_Occurred()) throw nb::python_error();
  if (!failing) return nb::none();
  return nb::make_tuple(failing->seed, failing->launch, reports(failing->reports), text(failing->differs));
}

void init_recording(nb::module_& m) {
  nb::class_<Recording>(m, "SimulatorRecording",
                        "What runs of the simulator leave behind; `pyptx.simulator(...)` has it")
      .def(
          "__init__",
          [](Recording* made, bool lines, bool trace, bool writers, bool launches, bool raises) {
            new (made) Recording;
            made->lines = lines, made->trace = trace, made->writers = writers, made->launches = launches;
            made->raises = raises;
          },
          nb::kw_only(), nb::arg("lines") = false, nb::arg("trace") = false, nb::arg("writers") = false,
          nb::arg("launches") = false, nb::arg("raises") = true)
      .def("reports", [](Recording& r) { return reports(found(r, &Recording::reports)); })
      .def("prints",
           [](Recording& r) {
             nb::list out;
             for (const sim::Printed& p : found(r, &Recording::prints))
               out.append(nb::make_tuple(text(p.text), triple(p.cta), triple(p.thread), text(p.place.file.view()),
                                         p.place.line));
             return out;
           })
      .def("counts",
           [](Recording& r) {
             nb::list out;
             for (const sim::LineCount& c : found(r, &Recording::counts))
               out.append(nb::make_tuple(text(c.place.file.view()), c.place.line, c.instructions, c.threads,
                                         c.wavefronts, c.ideal_wavefronts, c.sectors, c.ideal_sectors));
             return out;
           })
      .def("totals",
           [](Recording& r) {
             return nb::make_tuple(found(r, &Recording::ran), found(r, &Recording::warp_instructions),
                                   found(r, &Recording::thread_instructions), found(r, &Recording::dropped_pieces),
                                   found(r, &Recording::dropped_launches));
           })
      .def("trace_json", [](Recording& r) { return text(r.trace_json()); })
      .def(
          "writer",
          [](Recording& r, std::uint64_t address) -> nb::object {
            const std::lock_guard lock(r.mutex);
            const std::optional<sim::Writer> w = r.writer(address);
            if (!w) return nb::none();
            return nb::make_tuple(triple(w->cta), triple(w->thread), text(w->place.file.view()), w->place.line,
                                  text(w->instruction), text(w->value));
          },
          nb::arg("address"))
      .def("stop_soon", [](Recording& r) { r.stops_soon = true; })
      .def("set_stops", set_stops, nb::arg("breakpoints"), nb::arg("at_once"), nb::arg("function").none());
  m.def("explore", explore, nb::arg("recording"), nb::arg("schedules"), nb::arg("compare"));
}

void use_options(std::uint32_t cores, std::uint64_t budget, std::uint64_t seed, bool uninitialised, int schedule,
                 const std::string& checks, std::uint64_t heap) {
  sim::Options now = sim::simulator().options();
  const auto named = sim::checks_named(checks);
  if (!named) throw nb::value_error(named.why().front().message.c_str());
  now.cores = cores, now.budget = budget, now.seed = seed, now.uninitialised = uninitialised;
  now.schedule = static_cast<sim::Schedule>(schedule), now.checks = *named;
  now.heap = heap;
  sim::simulator().use(now);
}

// As checks_named takes them.
std::string names_of(sim::Checks checks) {
  std::string out;
  const auto names = sim::check_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (checks >> i & 1) out += cat(out.empty() ? "" : ",", names[i]);
  return out.empty() ? "none" : out;
}

std::shared_ptr<Recording> use_recording(const std::optional<std::shared_ptr<Recording>>& recording) {
  sim::Options now = sim::simulator().options();
  std::shared_ptr<Recording> before = std::move(now.recording);
  now.recording = recording.value_or(nullptr);
  sim::simulator().use(now);
  return before;
}

}  // namespace

void init_simulator(nb::module_& m) {
  sim::simulator().use({.interrupted = &interrupted, .print = &print_line, .call_registers = &call_registers});
  init_stop(m);
  init_recording(m);
  m.def(
      "simulator_options",
      [] {
        const sim::Options now = sim::simulator().options();
        return nb::make_tuple(now.cores, now.budget, now.seed, now.uninitialised, static_cast<int>(now.schedule),
                              names_of(now.checks), now.heap);
      },
      "(cores, budget, seed, uninitialised, schedule, checks, heap) of the simulator");
  m.def("use_simulator_options", use_options, nb::arg("cores"), nb::arg("budget"), nb::arg("seed"),
        nb::arg("uninitialised"), nb::arg("schedule"), nb::arg("checks"), nb::arg("heap"));
  m.def("use_simulator_recording", use_recording, nb::arg("recording").none(),
        nb::sig("def use_simulator_recording(recording: SimulatorRecording | None) -> SimulatorRecording | None"),
        "From now on runs leave in it what they find; returns the one before");
  m.def(
      "simulator_statistics",
      [] {
        const sim::Statistics last = sim::statistics();
        return nb::make_tuple(last.warp_instructions, last.thread_instructions);
      },
      "(instructions of warps, instructions of threads) of the calling thread's last run");
}

}  // namespace ptx::python
