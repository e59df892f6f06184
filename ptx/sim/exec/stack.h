// Bodies of ptx/isa/forms/stack.def: a thread's stack. It lies in local memory and grows upwards: behind the variables
// of a call is what alloca gives it. A call that ends takes it along.
#pragma once

#include "ptx/sim/exec/move.h"
#include "ptx/sim/machine/code.h"

namespace ptx::sim {

namespace stack_detail {

using namespace move_detail;

inline void save(Warp& w, const Op& op, Mask active) {
  for (int lane = 0; lane < lanes; ++lane) {
    if (active >> lane & 1) write_cell(w, op.operands[0], lane, w.current.frame->top(lane));
  }
}

inline void restore(Warp& w, const Op& op, Mask active) {
  Frame& frame = *w.current.frame;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const u64 to = static_cast<u64>(read_cell(w, op.operands[0], lane));
    if (to < frame.bottom() || to > frame.top(lane)) {
      return w.fault(Code::bad_argument, lane,
                     cat("sets its stack pointer to ", to, "; in this call it has been ", frame.bottom(), " to ",
                         frame.top(lane), ", and stacksave gives such a value"));
    }
    frame.allocated[static_cast<std::size_t>(lane)] = static_cast<u32>(to - frame.bottom());
  }
}

// ptr, size{, alignment}; the least alignment is 8.
inline void allocate(Warp& w, const Op& op, Mask active) {
  Frame& frame = *w.current.frame;
  const Operand &size = op.operands[1], &alignment = op.operands[2];
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const u64 bytes = static_cast<u64>(read_cell(w, size, lane));
    const u64 unit = alignment.absent ? 8 : std::max<u64>(8, static_cast<u64>(read_cell(w, alignment, lane)));
    const u64 at = (frame.top(lane) + unit - 1) / unit * unit;
    if (bytes > max_local || at + bytes > max_local) {
      return w.fault(
          Code::stack_overflow, lane,
          cat("allocates ", bytes, " bytes at ", at, " of its local memory; at most ", max_local, " are there"));
    }
    w.local.resize(at + bytes);
    std::fill_n(w.local.shadow.data() + static_cast<std::size_t>(lane) * w.local.stride + at, bytes, u8{0});
    frame.allocated[static_cast<std::size_t>(lane)] = static_cast<u32>(at + bytes - frame.bottom());
    write_cell(w, op.operands[0], lane, at);
  }
}

}  // namespace stack_detail

// 9.7.17.1 to 9.7.17.3  stacksave, stackrestore, alloca
constexpr WarpBody sem_stacksave{
    [](const isa::Match&) { return Bound{.run = &stack_detail::save, .whole_warp = true}; }};
constexpr WarpBody sem_stackrestore{
    [](const isa::Match&) { return Bound{.run = &stack_detail::restore, .whole_warp = true}; }};
constexpr WarpBody sem_alloca{
    [](const isa::Match&) { return Bound{.run = &stack_detail::allocate, .whole_warp = true}; }};

}  // namespace ptx::sim
