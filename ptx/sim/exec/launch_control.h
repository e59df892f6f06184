// Bodies of 9.7.13.16 to 9.7.13.18: a tensor map copied to global memory, and CTAs that take over clusters of the grid
// that have not started (clusterlaunchcontrol). The 16 opaque bytes of an answer are here: low 1 if there is such a
// cluster, in its upper half z of its first CTA; high x, y.
#pragma once

#include "ptx/sim/exec/operation.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace control_of_launch {

using namespace async_detail;

inline void copy_map(Warp& w, const Op& op, Mask active) {
  const int lane = std::countr_zero(active);  // one copy of the warp; which lane reads is open
  const auto to = locate(w, op.operands[0], lane, 128, 128, Access::write);
  const auto from = to ? locate(w, op.operands[1], lane, 128, 128, Access::read) : std::nullopt;
  if (!from) return;
  Bytes source;
  each_lane(w, active, [&](int reader) { source = reach(agent(w, reader), *from, Access::read, {}); });
  const Bytes target = reach(agent(w, lane), *to, Access::write, {});
  std::memcpy(target.data, source.data, 128);
  if (target.states) std::memcpy(target.states, source.states, 128);
  if (Observer* const observer = w.cta.launch.observer) observer->fenced(w, active, Fence::tensormap, op.manner);
}

template <bool all>
void try_cancel(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    Launch& launch = w.cta.launch;
    if (w.cta.refused) {
      return w.fault(Code::barrier_misuse, lane, "asks for another cluster after its CTA has seen a request fail",
                     {cat("it was seen at ", mentioned(w, w, *w.cta.refused))});
    }
    const auto to = locate(w, op.operands[0], lane, 16, 16, Access::write);
    if (!to) return;
    Operation o{.agent = agent(w, lane), .op = &op};
    o.to = {{*to}};
    o.has_read = true;
    o.states.assign(16, written);
    o.data.resize(16);
    if (const u64 index = launch.next++; index < launch.clusters()) {
      const launch::Dim3 first = first_cta(launch, index);
      const u64 answer[2] = {1 | u64{first.z} << 32, first.x | u64{first.y} << 32};
      std::memcpy(o.data.data(), answer, 16);
    }
    const auto ctas = all ? std::optional((1u << w.cta.cluster.ctas.size()) - 1) : std::nullopt;
    if (signal_beside(w, op.operands[1], lane, o, 16, ctas)) w.cta.cluster.operations.begin(std::move(o));
  });
}

inline const b128* answers(Warp& w, const Op& op) {
  return reinterpret_cast<const b128*>(w.row(op.operands[op.destinations]));
}
inline void is_canceled(Warp& w, const Op& op, Mask active) {
  Mask yes = 0;
  for (int i = 0; i < lanes; ++i) yes |= Mask{static_cast<u32>(answers(w, op)[i].low & 1)} << i;
  write_predicate(w, op.operands[0], yes, active);
  if (active & ~yes) w.cta.refused = w.pc - 1;
}
// x, y, z and a fourth without meaning; with `first` one of them alone.
inline u32 component(const b128& answer, int i) {
  return static_cast<u32>(i == 0 ? answer.high : i == 1 ? answer.high >> 32 : i == 2 ? answer.low >> 32 : 0);
}
template <int first>
void first_ctaid(Warp& w, const Op& op, Mask active) {
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1) || (answers(w, op)[lane].low & 1)) continue;
    return w.fault(Code::barrier_misuse, lane, "asks for the first CTA of a request that failed",
                   {"clusterlaunchcontrol.query_cancel.is_canceled says whether there is one"});
  }
  for (int i = 0; i < op.destinations; ++i) {
    u32 out[lanes];
    for (int lane = 0; lane < lanes; ++lane) out[lane] = component(answers(w, op)[lane], first + i);
    if (!op.operands[i].absent) keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[i])), out, active);
  }
}

}  // namespace control_of_launch

constexpr WarpBody sem_tensormap_cp_fenceproxy{[](const isa::Match&) -> Bound {
  return {.run = &control_of_launch::copy_map, .whole_warp = true, .converge = true, .aligned = true};
}};
constexpr WarpBody sem_clusterlaunchcontrol_try_cancel{[](const isa::Match& m) -> Bound {
  return {.run = m.has("multicast::cluster::all") ? &control_of_launch::try_cancel<true>
                                                  : &control_of_launch::try_cancel<false>,
          .whole_warp = true,
          .communicates = true,
          .takes_over = true};
}};
constexpr WarpBody sem_clusterlaunchcontrol_is_canceled{
    [](const isa::Match&) -> Bound { return {.run = &control_of_launch::is_canceled, .whole_warp = true}; }};
constexpr WarpBody sem_clusterlaunchcontrol_first_ctaid{
    [](const isa::Match&) -> Bound { return {.run = &control_of_launch::first_ctaid<0>, .whole_warp = true}; }};
constexpr WarpBody sem_clusterlaunchcontrol_first_ctaid_dimension{[](const isa::Match& m) -> Bound {
  return {.run = m.has("get_first_ctaid::x")   ? &control_of_launch::first_ctaid<0>
                 : m.has("get_first_ctaid::y") ? &control_of_launch::first_ctaid<1>
                                               : &control_of_launch::first_ctaid<2>,
          .whole_warp = true};
}};

}  // namespace ptx::sim
