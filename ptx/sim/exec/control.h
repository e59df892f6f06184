// Bodies of ptx/isa/forms/control.def: they move the pc of the fragment, and split it where its threads part.
#pragma once

#include "ptx/base/text.h"
#include "ptx/sim/exec/lanes.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"

namespace ptx::sim {

namespace control_detail {

inline void branch(Warp& w, const Op& op, Mask active) { w.branch(active, op.target); }

// The threads of each target part from the others; those that do not branch go on behind the instruction.
inline void branch_indexed(Warp& w, const Op& op, Mask active) {
  const auto& table = w.cta.launch.program.tables[op.target];
  const auto* index = reinterpret_cast<const u32*>(w.row(op.operands[0]));
  u32 last = 0xffffffff;
  for (Mask left = active; left;) {
    const int first = std::countr_zero(left);
    if (index[first] >= table.size()) {
      return w.fault(Code::bad_branch_index, first,
                     cat("branches to entry ", index[first], " of a table of ", table.size()));
    }
    last = index[first];
    Mask same = 0;
    for (int i = first; i < lanes; ++i) {
      if ((left >> i & 1) && index[i] == last) same |= Mask{1} << i;
    }
    left &= ~same;
    if (!left && same == w.current.mask) break;
    w.part(same, table[last]);
    w.event = Event::reschedule;
    if (!left) return;
  }
  w.pc = table[last];
}

inline void call(Warp& w, const Op& op, Mask active) {
  const CallPlan& plan = *op.call;
  if (plan.callee) return w.call(op, active, *plan.callee);
  if (plan.system) return plan.system(w, op, active);
  if (!plan.missing.empty()) {
    return w.fault(Code::bad_call, std::countr_zero(active),
                   cat("calls `", plan.missing.view(), "`, of which the text has no body",
                       plan.missing.view().find("cuda") == std::string_view::npos
                           ? ""
                           : "; the simulator has malloc and free of the device's runtime, and launches no kernels"));
  }
  // Through a register: the threads of one function go together, the others come back to this instruction.
  const auto* pointers = reinterpret_cast<const std::byte*>(w.row(plan.pointer));
  auto pointer = [&](int lane) {
    u64 value = 0;
    std::memcpy(&value, pointers + lane * plan.pointer.cell, plan.pointer.cell);
    return value;
  };
  const int first = std::countr_zero(active);
  const u64 index = pointer(first) - function_window;
  if (index >= w.cta.launch.program.functions.size()) {
    return w.fault(Code::bad_call, first, cat("calls address ", pointer(first), ", where no function is"));
  }
  Mask same = 0;
  for (int i = first; i < lanes; ++i) {
    if ((active >> i & 1) && pointer(i) == pointer(first)) same |= Mask{1} << i;
  }
  if (const Mask rest = active & ~same) {
    w.part(rest, w.pc - 1);
  }
  w.call(op, same, w.cta.launch.program.functions[index]);
}

inline void leave(Warp& w, const Op&, Mask active) { w.leave(active); }
inline void exit(Warp& w, const Op&, Mask active) { w.exit(active); }

template <Handler run>
Bound bind_as(const isa::Match&) {
  return {.run = run, .whole_warp = true};
}

}  // namespace control_detail

// 9.7.12.3, 9.7.12.4  bra, brx.idx
constexpr WarpBody sem_bra{control_detail::bind_as<&control_detail::branch>};
constexpr WarpBody sem_brx_idx{control_detail::bind_as<&control_detail::branch_indexed>};

// 9.7.12.5  call
constexpr WarpBody sem_call_return{control_detail::bind_as<&control_detail::call>};
constexpr WarpBody sem_call_arguments{control_detail::bind_as<&control_detail::call>};
constexpr WarpBody sem_call_return_only{control_detail::bind_as<&control_detail::call>};
constexpr WarpBody sem_call_plain{control_detail::bind_as<&control_detail::call>};

// 9.7.12.6, 9.7.12.7  ret, exit
constexpr WarpBody sem_ret{control_detail::bind_as<&control_detail::leave>};
constexpr WarpBody sem_exit{control_detail::bind_as<&control_detail::exit>};

}  // namespace ptx::sim
