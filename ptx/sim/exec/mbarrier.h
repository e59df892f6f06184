// Bodies of the rows of 9.7.13.15 in ptx/isa/forms/sync.def. Each thread in turn: 32 threads that arrive are 32
// arrivals.
#pragma once

#include "ptx/base/text.h"
#include "ptx/sim/checks.h"
#include "ptx/sim/exec/shuffle.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/access.h"

namespace ptx::sim::mbarrier_detail {

using namespace shuffle_detail;

constexpr unsigned size = 8;  // bytes, and alignment

inline void wrong(Warp& w, const Location& at, int lane, std::string_view what) {
  sim::fault(w, {&w, lane, w.pc - 1}, at, std::string(what));
}

inline Channel channel_at(const Location& at) {
  return {Channel::Kind::mbarrier, at.memory, static_cast<u32>(at.offset)};
}
// Operations on an mbarrier are strong among each other, wherever the threads are; what makes one or ends it is not.
inline void tell(Observer& observer, Warp& w, const Op& op, int lane, const Location& at) {
  constexpr Manner among_each_other{Order::relaxed, Scope::cluster};
  const bool ends = op.manner.order == Order::weak;
  observer.accessed({&w, lane, w.pc - 1}, at, ends ? Access::write : Access::update,
                    ends ? Manner{} : among_each_other);
}

// The CTAs in which one thread's instruction names an mbarrier: bits of ctaMask, the last operand of a .multicast, or
// the one of the address.
inline Mask ranks_of(Warp& w, const Op& op, int lane, const Location& at) {
  if (!op.mods.multicast) return Mask{1} << static_cast<Cta*>(at.memory)->rank;
  const Mask ranks = row32(w, op.operands[op.destinations + op.sources - 1])[lane];
  const auto& ctas = w.cta.cluster.ctas;
  for (Mask rest = ranks; rest; rest &= rest - 1) {
    const auto rank = static_cast<std::size_t>(std::countr_zero(rest));
    if (rank < ctas.size() && (ctas[rank].get() == &w.cta || !ctas[rank]->finished())) continue;
    wrong(w, at, lane,
          cat("names CTA ", rank, " of the cluster, ", rank < ctas.size() ? "which has exited" : "which has no such"));
    return 0;
  }
  return ranks;
}

// f(lane, where, object) for each active lane, until a fault.
template <class F>
void for_objects(Warp& w, const Op& op, Mask active, F f) {
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    auto at = locate(w, op.operands[op.destinations], lane, size, size, Access::update);
    if (!at) return;
    if (at->space != isa::Space::shared_cta) return wrong(w, *at, lane, "names an mbarrier outside of shared memory");
    for (Mask rest = ranks_of(w, op, lane, *at); rest; rest &= rest - 1) {
      Cta& cta = *w.cta.cluster.ctas[static_cast<std::size_t>(std::countr_zero(rest))];
      at->memory = &cta;
      const auto found = cta.mbarriers.find(static_cast<u32>(at->offset));
      if (found == cta.mbarriers.end()) {
        return wrong(w, *at, lane,
                     "uses bytes as an mbarrier of which mbarrier.init has made none, or which is no longer one");
      }
      if (Observer* const observer = w.cta.launch.observer) tell(*observer, w, op, lane, *at);
      f(lane, *at, found->second);
      if (w.event == Event::fault) return;
    }
    if (w.event == Event::fault) return;
  }
}

inline void init(Warp& w, const Op& op, Mask active) {
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const u32 count = row32(w, op.operands[1])[lane];
    const auto at = locate(w, op.operands[0], lane, size, size, Access::write);
    if (!at) return;
    if (at->space != isa::Space::shared_cta) return wrong(w, *at, lane, "makes an mbarrier outside of shared memory");
    const u32 most = op.mods.layout_v1 ? Mbarrier::max_count_v1 : Mbarrier::max_count;
    if (count == 0 || count > most) {
      return wrong(w, *at, lane, cat("makes an mbarrier of ", count, " arrivals; there are 1 to ", most));
    }
    Cta& cta = *static_cast<Cta*>(at->memory);
    const auto offset = static_cast<u32>(at->offset);
    if (cta.mbarriers.contains(offset)) {
      return wrong(w, *at, lane, "makes an mbarrier where one lives; mbarrier.inval comes first");
    }
    if (!reach({&w, lane, w.pc - 1}, *at, Access::write, op.manner).data) return;
    cta.mbarriers[offset] = {.expected = count,
                             .pending = count,
                             .maker = &w,
                             .made = w.pc - 1,
                             .lane = lane,
                             .layout_v1 = op.mods.layout_v1};
    if (Observer* const observer = w.cta.launch.observer) observer->made(channel_at(*at));
    std::fill_n(&cta.shared.shadow[offset], size, written);
  }
}

inline void inval(Warp& w, const Op& op, Mask active) {
  for_objects(w, op, active, [&](int, const Location& at, Mbarrier&) {
    Cta& cta = *static_cast<Cta*>(at.memory);
    cta.mbarriers.erase(static_cast<u32>(at.offset));
    std::fill_n(&cta.shared.shadow[at.offset], size, u8{0});
  });
}

// The operand behind the address, or `otherwise`.
inline u32 number(Warp& w, const Op& op, int lane, u32 otherwise) {
  if (op.sources < 2) return otherwise;
  const Operand& o = op.operands[op.destinations + 1];
  return o.absent ? otherwise : row32(w, o)[lane];
}

template <bool completes>
void count_bytes(Warp& w, const Op& op, Mask active) {
  for_objects(w, op, active, [&](int lane, const Location& at, Mbarrier&) {
    const s64 bytes = number(w, op, lane, 0);
    const std::string problem =
        add_tx(*static_cast<Cta*>(at.memory), static_cast<u32>(at.offset), completes ? -bytes : bytes);
    if (!problem.empty()) wrong(w, at, lane, problem);
  });
}

// Bits 20 to 31 and 56 to 63 of a state: whose it is. Between them is its phase, of which 24 bits tell enough.
constexpr u64 owner_mask = 0xff000000fff00000;
inline u64 owner_bits(const Location& at) {
  const u64 which = at.offset / size;
  return (which & 0xfff) << 20 | which >> 12 << 56;
}

// {state, }[addr]{, count or txCount}
template <bool drop, bool expects, bool no_complete>
void arrive_on(Warp& w, const Op& op, Mask active) {
  const bool looks = w.cta.launch.options.checks & bit(Check::data_race);
  const Mbarrier* completed = nullptr;  // its phase, by a lane before
  for_objects(w, op, active, [&](int lane, const Location& at, Mbarrier& b) {
    if (looks && completed == &b)
      return wrong(w, at, lane,
                   cat("arrives for phase ", b.phase, ", and lanes of its warp have just completed phase ", b.phase - 1,
                       " by the same instruction; which of them does so is open"));
    Cta& cta = *static_cast<Cta*>(at.memory);
    const auto offset = static_cast<u32>(at.offset);
    const u64 state = (b.state() & ~owner_mask) | owner_bits(at);
    const u32 count = expects ? 1 : number(w, op, lane, 1);
    if (no_complete && count == b.pending && b.tx == 0) {
      return wrong(w, at, lane, "completes the phase with .noComplete");
    }
    if (Observer* const observer = w.cta.launch.observer)
      observer->arrived(w, Mask{1} << lane, channel_at(at), op.manner, false);
    std::string problem = expects ? add_tx(cta, offset, number(w, op, lane, 0)) : std::string();
    const u64 phase = b.phase;
    if (problem.empty()) problem = arrive(cta, offset, count, drop, w.pc - 1);
    if (b.phase != phase) completed = &b;
    if (!problem.empty()) return wrong(w, at, lane, problem);
    if (op.destinations && !op.operands[0].absent) {
      reinterpret_cast<u64*>(w.row_to_write(op.operands[0]))[lane] = state;
    }
  });
}

// The lanes that wait for the same as the first of these.
inline Mask alike(const Wait (&waits)[lanes], Mask some) {
  Mask same = 0;
  for (int i = 0; i < lanes; ++i) same |= Mask{(some >> i & 1) && waits[i] == waits[std::countr_zero(some)]} << i;
  return same;
}

// The lanes whose observer wants them to hear no.
inline Mask refused(Warp& w, const Wait (&waits)[lanes], Mask asking, bool complete) {
  Mask out = 0;
  for (Mask rest = asking; rest;) {
    const Mask same = alike(waits, rest);
    const Wait& wait = waits[std::countr_zero(same)];
    const Channel channel{Channel::Kind::mbarrier, &w.cta, wait.object};
    out |= w.cta.launch.observer->refused(w, same, channel, wait.phase, complete);
    rest &= ~same;
  }
  return out;
}

// p, [addr], state or parity{, suspendTimeHint}. What is not complete is waited for: the thread goes on when the phase
// completes or, with false, after a while. For test_wait, that is a thread that came later.
template <bool parity>
void wait_for(Warp& w, const Op& op, Mask active) {
  const Operand& given = op.operands[2];
  Mask done = 0, left = 0;
  Wait waits[lanes];
  for_objects(w, op, active, [&](int lane, const Location& at, Mbarrier& b) {
    if (at.memory != &w.cta) return wrong(w, at, lane, "waits for an mbarrier of another CTA");
    if (!parity && (row64(w, given)[lane] & owner_mask) != owner_bits(at))
      return wrong(w, at, lane, "waits with a state that no arrival at this mbarrier returned");
    const auto state_ahead = [&] { return static_cast<s64>(((row64(w, given)[lane] >> 32) - b.phase) << 40) >> 40; };
    const u64 phase = parity ? b.phase - ((b.phase ^ row32(w, given)[lane]) & 1) : b.phase + state_ahead();
    if (phase != b.phase && phase + 1 != b.phase) {
      return wrong(w, at, lane, cat("waits for phase ", phase, ", and phase ", b.phase, " has begun"));
    }
    (phase == b.phase ? left : done) |= Mask{1} << lane;
    waits[lane] = {Wait::Kind::mbarrier, static_cast<u32>(at.offset), phase};
  });
  if (w.event == Event::fault) return;
  Mask no = 0;
  if (Observer* const observer = w.cta.launch.observer) {
    no = refused(w, waits, done, true) | refused(w, waits, left, false);
    done &= ~no, left &= ~no;
    for (Mask rest = done; rest; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      observer->passed(w, Mask{1} << lane, {Channel::Kind::mbarrier, &w.cta, waits[lane].object}, op.manner);
    }
  }
  write_predicate(w, op.operands[0], done, done | no);
  while (left) {
    const Mask same = alike(waits, left);
    w.park(same, waits[std::countr_zero(same)]);
    left &= ~same;
  }
}

// d, state: the arrivals that were pending before the one that returned it.
inline void pending_count(Warp& w, const Op& op, Mask active) {
  u32 out[lanes];
  for (int i = 0; i < lanes; ++i) out[i] = static_cast<u32>(row64(w, op.operands[1])[i]) & Mbarrier::max_count;
  keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}

inline void check_layout(Warp& w, const Op& op, Mask active) {
  Mask has = 0;
  for_objects(w, op, active,
              [&](int lane, const Location&, Mbarrier& b) { has |= Mask{b.layout_v1 == op.mods.layout_v1} << lane; });
  if (w.event != Event::fault) write_predicate(w, op.operands[0], has, active);
}

template <Handler run>
Bound bind_as(const isa::Match&) {
  return {.run = run, .whole_warp = true};
}

}  // namespace ptx::sim::mbarrier_detail

namespace ptx::sim {

// 9.7.13.15.9 to 9.7.13.15.12  init, inval, expect_tx, complete_tx
constexpr WarpBody sem_mbarrier_init{mbarrier_detail::bind_as<&mbarrier_detail::init>};
constexpr WarpBody sem_mbarrier_inval{mbarrier_detail::bind_as<&mbarrier_detail::inval>};
constexpr WarpBody sem_mbarrier_expect_tx{mbarrier_detail::bind_as<&mbarrier_detail::count_bytes<false>>};
constexpr WarpBody sem_mbarrier_complete_tx{mbarrier_detail::bind_as<&mbarrier_detail::count_bytes<true>>};
constexpr WarpBody sem_mbarrier_expect_tx_multicast = sem_mbarrier_expect_tx;
constexpr WarpBody sem_mbarrier_complete_tx_multicast = sem_mbarrier_complete_tx;

// 9.7.13.15.13  arrive
constexpr WarpBody sem_mbarrier_arrive{mbarrier_detail::bind_as<&mbarrier_detail::arrive_on<false, false, false>>};
constexpr WarpBody sem_mbarrier_arrive_count = sem_mbarrier_arrive;
constexpr WarpBody sem_mbarrier_arrive_cluster = sem_mbarrier_arrive;
constexpr WarpBody sem_mbarrier_arrive_expect_tx{
    mbarrier_detail::bind_as<&mbarrier_detail::arrive_on<false, true, false>>};
constexpr WarpBody sem_mbarrier_arrive_expect_tx_cluster = sem_mbarrier_arrive_expect_tx;
constexpr WarpBody sem_mbarrier_arrive_no_complete{
    mbarrier_detail::bind_as<&mbarrier_detail::arrive_on<false, false, true>>};
constexpr WarpBody sem_mbarrier_arrive_multicast = sem_mbarrier_arrive;
constexpr WarpBody sem_mbarrier_arrive_expect_tx_multicast = sem_mbarrier_arrive_expect_tx;

// 9.7.13.15.14  arrive_drop
constexpr WarpBody sem_mbarrier_arrive_drop{mbarrier_detail::bind_as<&mbarrier_detail::arrive_on<true, false, false>>};
constexpr WarpBody sem_mbarrier_arrive_drop_count = sem_mbarrier_arrive_drop;
constexpr WarpBody sem_mbarrier_arrive_drop_cluster = sem_mbarrier_arrive_drop;
constexpr WarpBody sem_mbarrier_arrive_drop_expect_tx{
    mbarrier_detail::bind_as<&mbarrier_detail::arrive_on<true, true, false>>};
constexpr WarpBody sem_mbarrier_arrive_drop_expect_tx_cluster = sem_mbarrier_arrive_drop_expect_tx;
constexpr WarpBody sem_mbarrier_arrive_drop_no_complete{
    mbarrier_detail::bind_as<&mbarrier_detail::arrive_on<true, false, true>>};
constexpr WarpBody sem_mbarrier_arrive_drop_multicast = sem_mbarrier_arrive_drop;
constexpr WarpBody sem_mbarrier_arrive_drop_expect_tx_multicast = sem_mbarrier_arrive_drop_expect_tx;

// 9.7.13.15.16 to 9.7.13.15.18  test_wait, try_wait, pending_count, check_layout
constexpr WarpBody sem_mbarrier_test_wait{mbarrier_detail::bind_as<&mbarrier_detail::wait_for<false>>};
constexpr WarpBody sem_mbarrier_test_wait_parity{mbarrier_detail::bind_as<&mbarrier_detail::wait_for<true>>};
constexpr WarpBody sem_mbarrier_try_wait = sem_mbarrier_test_wait;
constexpr WarpBody sem_mbarrier_try_wait_parity = sem_mbarrier_test_wait_parity;
constexpr WarpBody sem_mbarrier_pending_count{mbarrier_detail::bind_as<&mbarrier_detail::pending_count>};
constexpr WarpBody sem_mbarrier_check_layout{mbarrier_detail::bind_as<&mbarrier_detail::check_layout>};

}  // namespace ptx::sim
