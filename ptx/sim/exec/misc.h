// Bodies of ptx/isa/forms/misc.def.
#pragma once

#include "ptx/base/text.h"
#include "ptx/sim/exec/lanes.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/watch/print.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace misc_detail {

inline void nothing(Warp&, const Op&, Mask) {}
inline void trap(Warp& w, const Op&, Mask active) {
  const int lane = std::countr_zero(active);
  const std::string said = failed_check(w, w.pc - 1, lane);
  if (said.empty()) return w.fault(Code::trapped, lane, "executes it");
  std::vector<std::string> notes;
  for (int i = lane + 1; i < lanes && active >> i != 0; ++i) {
    if (!(active >> i & 1)) continue;
    if (const std::string its = failed_check(w, w.pc - 1, i); notes.size() < 4)
      notes.push_back(cat("so did ", thread_name(w, i), ": ", its));
  }
  w.fault(Code::check_failed, lane, cat("failed a check: ", said), std::move(notes));
}
// A thread that sleeps lets the others of its warp go on.
inline void sleep(Warp& w, const Op&, Mask) { w.yields = true, w.event = Event::reschedule; }

// setmaxnreg: a warp gives registers to the CTA's pool, or takes them and waits until there are enough.
inline std::uint32_t count_of(const Op& op, Warp& w) {
  return *reinterpret_cast<const std::uint32_t*>(w.row(op.operands[0]));
}
// All warps of a warpgroup execute the same setmaxnreg, and come together before the next one. One that asks for what
// the warp has does not count: Triton 3.9 writes two in a row. False after a fault.
inline bool is_in_step(Warp& w) {
  const std::vector<Op>& ops = w.cta.launch.program.ops;
  const auto asks_for = [&](std::uint32_t pc) { return count_of(ops[pc], w); };
  const auto same = [&](std::uint32_t a, std::uint32_t b) {
    return ops[a].run.watched == ops[b].run.watched && asks_for(a) == asks_for(b);
  };
  if (!w.register_changes.empty() && asks_for(w.register_changes.back()) == asks_for(w.pc - 1)) return true;
  w.register_changes.push_back(w.pc - 1);
  const std::size_t count = w.register_changes.size();
  for (const auto& other : w.cta.warps) {
    const std::vector<std::uint32_t>& its = other->register_changes;
    if (other->index / Warpgroup::warps != w.index / Warpgroup::warps || other.get() == &w) continue;
    const bool early = count > 1 && its.size() + 1 < count;
    if (!early && (its.size() < count || same(its[count - 1], w.pc - 1))) continue;
    w.fault(Code::divergent_barrier, 0,
            early ? cat("executes its second setmaxnreg, and warp ", other->index,
                        " of its warpgroup has not come to the one before")
                  : cat("executes it where warp ", other->index, " of its warpgroup executes another setmaxnreg"),
            {early ? cat("the one before is ", mentioned(w, w, w.register_changes[count - 2]))
                   : cat("that one is ", mentioned(w, *other, its[count - 1])),
             "all warps of a warpgroup execute the same setmaxnreg, and synchronise before the next"});
    return false;
  }
  return true;
}
inline void give_registers(Warp& w, const Op& op, Mask) {
  const std::uint32_t count = count_of(op, w);
  if (!is_in_step(w) || w.owned_registers == 0) return;
  if (count > w.owned_registers)
    return w.fault(Code::barrier_misuse, 0,
                   cat("decreases to ", count, " registers a thread; it has ", w.owned_registers));
  w.cta.free_registers += (w.owned_registers - count) * lanes;
  w.owned_registers = count;
  for (const auto& other : w.cta.warps) {
    for (Fragment& f : other->others) {
      const std::uint32_t missing = (f.wait.object - other->owned_registers) * lanes;
      if (f.wait.kind != Wait::Kind::registers || missing > w.cta.free_registers) continue;
      w.cta.free_registers -= missing;
      other->owned_registers = f.wait.object;
      f.wait = {};
    }
  }
}
inline void take_registers(Warp& w, const Op& op, Mask active) {
  const std::uint32_t count = count_of(op, w);
  if (!is_in_step(w) || count == w.owned_registers || w.owned_registers == 0) return;
  if (count < w.owned_registers)
    return w.fault(Code::barrier_misuse, 0,
                   cat("increases to ", count, " registers a thread; it has ", w.owned_registers));
  const std::uint32_t missing = (count - w.owned_registers) * lanes;
  if (missing > w.cta.free_registers) return w.park(active, {Wait::Kind::registers, count});
  w.cta.free_registers -= missing;
  w.owned_registers = count;
}
inline Bound bind_registers(const isa::Match& m) {
  return {
      .run = m.has("inc") ? &take_registers : &give_registers, .whole_warp = true, .converge = true, .aligned = true};
}

template <Handler run>
Bound bind_as(const isa::Match&) {
  return {.run = run, .whole_warp = true};
}

}  // namespace misc_detail

// 9.7.19.1 to 9.7.19.5  brkpt stops only under a debugger
constexpr WarpBody sem_brkpt{misc_detail::bind_as<&misc_detail::nothing>};
constexpr WarpBody sem_nanosleep{misc_detail::bind_as<&misc_detail::sleep>};
constexpr WarpBody sem_pmevent{misc_detail::bind_as<&misc_detail::nothing>};
constexpr WarpBody sem_pmevent_mask{misc_detail::bind_as<&misc_detail::nothing>};
constexpr WarpBody sem_trap{misc_detail::bind_as<&misc_detail::trap>};
constexpr WarpBody sem_setmaxnreg{misc_detail::bind_registers};

}  // namespace ptx::sim
