// Bodies of ptx/isa/forms/misc.def.
#pragma once

#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

namespace misc_detail {

inline void nothing(Warp&, const Op&, Mask) {}
inline void trap(Warp& w, const Op&, Mask active) { w.fault(Code::trapped, std::countr_zero(active), "executes it"); }
// A thread that sleeps lets the others of its warp go on.
inline void sleep(Warp& w, const Op&, Mask) { w.yields = true, w.event = Event::reschedule; }

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
constexpr WarpBody sem_setmaxnreg{misc_detail::bind_as<&misc_detail::nothing>};

}  // namespace ptx::sim
