// Bodies of ptx/isa/forms/sync.def: barriers, fences, votes.
#pragma once

#include "ptx/base/text.h"
#include "ptx/sim/exec/fence.h"
#include "ptx/sim/exec/launch_control.h"
#include "ptx/sim/exec/mbarrier.h"
#include "ptx/sim/exec/shuffle.h"
#include "ptx/sim/machine/cta.h"

namespace ptx::sim {

namespace sync_detail {

using namespace shuffle_detail;
using namespace fence_detail;

// bar: {d, }a{, b}{, c}. `arrives` does not wait, `reduces` has c.
template <bool arrives, bool reduces>
void barrier(Warp& w, const Op& op, Mask active) {
  const Operand* s = op.operands + op.destinations;
  const int first = std::countr_zero(active);
  const u32 number = row32(w, s[0])[first], threads = s[1].absent ? 0 : row32(w, s[1])[first];
  for (int i = first; i < lanes; ++i) {
    if (!(active >> i & 1)) continue;
    if (row32(w, s[0])[i] != number || (!s[1].absent && row32(w, s[1])[i] != threads)) {
      return w.fault(Code::barrier_misuse, i, "names another barrier or count than the other threads of its warp");
    }
  }
  if (number > 15)
    return w.fault(Code::barrier_misuse, first, cat("uses barrier ", number, "; a CTA has barriers 0 to 15"));
  if (threads % lanes != 0 || (!s[1].absent && threads == 0)) {
    return w.fault(Code::barrier_misuse, first,
                   cat("gives a count of ", threads, " threads, which is no multiple of the warp size"));
  }
  const Mask predicate = reduces ? w.predicate(s[2]) : 0;
  if (Observer* const observer = w.cta.launch.observer)
    observer->arrived(w, active, {Channel::Kind::barrier, &w.cta, number}, op.manner, !arrives);
  if (!arrives) w.park(active, {Wait::Kind::barrier, number});
  w.cta.arrive(w, active, number, threads, reduces, predicate, first);
}
template <bool arrives, bool reduces>
Bound bind_barrier(const isa::Match& m) {
  const bool aligned = m.form->is(isa::Trait::warp_aligned) || m.has("aligned");
  return {.run = &barrier<arrives, reduces>,
          .whole_warp = true,
          .converge = aligned,
          .aligned = aligned,
          .excuses = aligned};
}

inline void bar_warp(Warp& w, const Op& op, Mask active) {
  Observer* const observer = w.cta.launch.observer;
  for_groups(w, row32(w, op.operands[0]), active, [&](Mask group) {
    if (observer) observer->met(w, group);
  });
}

inline Channel cluster_barrier(Warp& w) { return {Channel::Kind::cluster_barrier, &w.cta.cluster}; }
inline void cluster_arrive(Warp& w, const Op& op, Mask active) {
  if (const Mask twice = active & (w.cluster_arrived | w.cluster_passed)) {
    return w.fault(Code::barrier_misuse, std::countr_zero(twice),
                   "arrives at the cluster's barrier twice without a wait");
  }
  if (Observer* const observer = w.cta.launch.observer)
    observer->arrived(w, active, cluster_barrier(w), op.manner, false);
  w.cluster_arrived |= active;
  w.cta.cluster.settle_cluster_barrier();
}
inline void cluster_wait(Warp& w, const Op& op, Mask active) {
  if (const Mask early = active & ~(w.cluster_arrived | w.cluster_passed)) {
    return w.fault(Code::barrier_misuse, std::countr_zero(early),
                   "waits at the cluster's barrier without having arrived");
  }
  const Mask waits = active & w.cluster_arrived;
  if (Observer* const observer = w.cta.launch.observer; observer && (active & ~waits))
    observer->passed(w, active & ~waits, cluster_barrier(w), op.manner);
  w.cluster_passed &= ~active;
  if (waits) w.park(waits, {Wait::Kind::cluster_barrier});
}
inline Bound bind_cluster(const isa::Match& m, Handler run) {
  const bool aligned = m.has("aligned");
  return {.run = run, .whole_warp = true, .converge = aligned, .aligned = aligned, .excuses = aligned};
}

template <Handler run, bool converge = false>
Bound bind_as(const isa::Match&) {
  return {.run = run, .whole_warp = true, .converge = converge};
}
inline void tell_map_fence(Warp& w, const Op& op, Mask active) {
  for (int lane = 0; lane < lanes && w.event != Event::fault; ++lane) {
    if (!(active >> lane & 1)) continue;
    if (const auto map = locate(w, op.operands[0], lane, 128, 1, Access::read))
      w.cta.launch.observer->fenced_map(w, lane, *map, op.manner);
  }
}
inline Bound bind_proxy_fence(const isa::Match& m) {
  if (m.has("alias")) return bind_fence<Fence::alias>(m);
  if (m.has("global")) return bind_fence<Fence::async_global>(m);
  return m.has("shared::cta") || m.has("shared::cluster") ? bind_fence<Fence::async_shared>(m)
                                                          : bind_fence<Fence::async>(m);
}
inline Bound bind_map_fence(const isa::Match&) {
  return {.run = Handlers(&nothing, &tell_map_fence), .whole_warp = true};
}

}  // namespace sync_detail

// 9.7.13.1  bar, barrier
constexpr WarpBody sem_bar_sync{sync_detail::bind_barrier<false, false>};
constexpr WarpBody sem_bar_arrive{sync_detail::bind_barrier<true, false>};
constexpr WarpBody sem_bar_red_popc{sync_detail::bind_barrier<false, true>};
constexpr WarpBody sem_bar_red{sync_detail::bind_barrier<false, true>};
constexpr WarpBody sem_barrier_sync{sync_detail::bind_barrier<false, false>};
constexpr WarpBody sem_barrier_arrive{sync_detail::bind_barrier<true, false>};
constexpr WarpBody sem_barrier_red_popc{sync_detail::bind_barrier<false, true>};
constexpr WarpBody sem_barrier_red{sync_detail::bind_barrier<false, true>};

// 9.7.13.2, 9.7.13.3  bar.warp.sync, barrier.cluster
constexpr WarpBody sem_bar_warp_sync{sync_detail::bind_as<&sync_detail::bar_warp, true>};
constexpr WarpBody sem_barrier_cluster_arrive{
    [](const isa::Match& m) { return sync_detail::bind_cluster(m, &sync_detail::cluster_arrive); }};
constexpr WarpBody sem_barrier_cluster_wait{
    [](const isa::Match& m) { return sync_detail::bind_cluster(m, &sync_detail::cluster_wait); }};

// 9.7.13.4  membar, fence
constexpr WarpBody sem_membar{sync_detail::bind_fence<Fence::thread>};
constexpr WarpBody sem_membar_proxy{sync_detail::bind_proxy_fence};
constexpr WarpBody sem_fence{sync_detail::bind_fence<Fence::thread>};
constexpr WarpBody sem_fence_acquire_restrict{sync_detail::bind_fence<Fence::thread>};
constexpr WarpBody sem_fence_release_restrict{sync_detail::bind_fence<Fence::thread>};
constexpr WarpBody sem_fence_mbarrier_init{sync_detail::bind_fence<Fence::mbarrier_init>};
constexpr WarpBody sem_fence_proxy{sync_detail::bind_fence<Fence::alias>};
constexpr WarpBody sem_fence_proxy_alias{sync_detail::bind_fence<Fence::alias>};
constexpr WarpBody sem_fence_proxy_async{sync_detail::bind_proxy_fence};
constexpr WarpBody sem_fence_proxy_release{sync_detail::bind_fence<Fence::tensormap>};
constexpr WarpBody sem_fence_proxy_acquire{sync_detail::bind_map_fence};
constexpr WarpBody sem_fence_proxy_acquire_restrict{sync_detail::bind_fence<Fence::async_shared>};
constexpr WarpBody sem_fence_proxy_release_restrict{sync_detail::bind_fence<Fence::async_shared>};
constexpr WarpBody sem_fence_proxy_release_read{sync_detail::bind_fence<Fence::async_shared>};
constexpr WarpBody sem_fence_alias_read{sync_detail::bind_fence<Fence::alias>};
constexpr WarpBody sem_fence_proxy_fabric{sync_detail::bind_fence<Fence::alias>};

// 9.7.13.8 to 9.7.13.10  vote, match
constexpr WarpBody sem_vote{shuffle_detail::bind_vote<&shuffle_detail::vote<false>, false>};
constexpr WarpBody sem_vote_ballot{shuffle_detail::bind_vote<&shuffle_detail::ballot<false>, false>};
constexpr WarpBody sem_vote_sync{shuffle_detail::bind_vote<&shuffle_detail::vote<true>, true>};
constexpr WarpBody sem_vote_sync_ballot{shuffle_detail::bind_vote<&shuffle_detail::ballot<true>, true>};
constexpr WarpBody sem_match_any{shuffle_detail::bind_match_any};
constexpr WarpBody sem_match_all{shuffle_detail::bind_match_all};

// 9.7.13.11 to 9.7.13.14  activemask, redux, griddepcontrol, elect
constexpr WarpBody sem_activemask{sync_detail::bind_as<&shuffle_detail::active_mask>};
constexpr WarpBody sem_redux_int{shuffle_detail::bind_redux_int};
constexpr WarpBody sem_redux_bits{shuffle_detail::bind_redux_int};
constexpr WarpBody sem_redux_f32{shuffle_detail::bind_redux_float};
constexpr WarpBody sem_griddepcontrol{[](const isa::Match& m) {
  return m.has("wait") ? sync_detail::bind_fence<Fence::grid>(m) : sync_detail::bind_as<&sync_detail::nothing>(m);
}};
constexpr WarpBody sem_elect_sync{sync_detail::bind_as<&shuffle_detail::elect, true>};

}  // namespace ptx::sim
