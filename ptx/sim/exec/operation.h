// Operations that finish later (async/operation.h) as bodies begin them: where they read and write, what they signal.
#pragma once

#include "ptx/base/text.h"
#include "ptx/sim/exec/combine.h"
#include "ptx/sim/exec/shuffle.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/access.h"

namespace ptx::sim::async_detail {

using namespace shuffle_detail;

inline void nothing(Warp&, const Op&, Mask) {}
template <Handler run, bool talks = false>
Bound bind_as(const isa::Match&) {
  return {.run = run, .whole_warp = true, .communicates = talks};
}

// f(lane) for each active lane, until a fault.
template <class F>
void each_lane(Warp& w, Mask active, F f) {
  for (int lane = 0; lane < lanes; ++lane) {
    if ((active >> lane & 1) && w.event != Event::fault) f(lane);
  }
}
inline Agent agent(Warp& w, int lane) { return {&w, lane, w.pc - 1}; }

// The mbarrier that an address names; nullptr after a fault.
inline Mbarrier* mbarrier_at(Warp& w, const Operand& address, int lane, Location& at) {
  const auto found = locate(w, address, lane, 8, 8, Access::update);
  if (!found) return nullptr;
  at = *found;
  if (at.space == isa::Space::shared_cta) {
    Mbarriers& all = static_cast<Cta*>(at.memory)->mbarriers;
    if (const auto b = all.find(static_cast<u32>(at.offset)); b != all.end()) return &b->second;
  }
  w.fault(Code::barrier_misuse, lane,
          cat("signals ", describe(w.cta.launch.program, at), ", where mbarrier.init has made no mbarrier"));
  return nullptr;
}
// Whether the launch has clusters. An H200 stops at asynchronous writes to shared memory of the cluster if it has none
// ("illegal instruction"), also at those to the own CTA.
inline bool in_clusters(Warp& w, int lane) {
  if (w.cta.launch.in_clusters()) return true;
  w.fault(Code::launch_shape, lane,
          "writes to shared memory of the cluster, but the launch has no clusters; `.reqnctapercluster 1` makes "
          "clusters of one CTA");
  return false;
}

// ---- bulk copies: [d], [a], size, ...

// Source and destination of a bulk copy; false after a fault.
inline bool between(Warp& w, const Op& op, int lane, Operation& o, u32 left = 0, u32 right = 0) {
  const Operand* s = op.operands;
  const u32 size = row32(w, s[2])[lane];
  if (size % 16 || left + right > size) {
    w.fault(Code::misaligned_access, lane, cat("copies ", size, " bytes, which is not a multiple of 16"));
    return false;
  }
  const auto to = locate(w, s[0], lane, size, 16, o.combine ? Access::update : Access::write);
  if (!to) return false;
  Operand inner = s[1];
  inner.displacement += left;
  const auto from = locate(w, inner, lane, size - left - right, left ? 1 : 16, Access::read);
  if (!from) return false;
  if (to->space == isa::Space::shared_cta && from->space == to->space && !in_clusters(w, lane)) return false;
  if (left) o.from.push_back({{isa::Space::global, nullptr, 0, left}, true});
  o.from.push_back({*from});
  if (right) o.from.push_back({{isa::Space::global, nullptr, 0, right}, true});
  o.to.push_back({*to});
  return true;
}

// The mbarrier gets the bytes of each destination, which lie beside it; a mask names the CTAs of both. `pair`: it may
// lie in the other CTA of a pair, and signals go to those of its parity.
inline bool signal_beside(Warp& w, const Operand& address, int lane, Operation& o, u32 bytes, std::optional<u32> ctas,
                          bool pair = false) {
  Location at;
  Operand barrier = address;
  if (pair) barrier.space = isa::Space::shared_cluster;  // of a copy to .shared::cta, too
  if (!mbarrier_at(w, barrier, lane, at)) return false;
  if (o.to[0].at.memory != at.memory && !pair) {
    w.fault(Code::barrier_misuse, lane, "signals an mbarrier of another CTA than the one that it copies to");
    return false;
  }
  if (o.op->operands[0].space == isa::Space::shared_cta && o.to[0].at.memory != &w.cta) {
    w.fault(Code::out_of_bounds, lane,
            cat("copies to the shared memory of CTA ", static_cast<Cta*>(o.to[0].at.memory)->rank,
                " of the cluster; a destination in .shared::cta is the executing CTA's own"));
    return false;
  }
  std::vector<Run> first = std::move(o.to);
  o.to.clear();
  for (u32 rank = 0; rank < w.cta.cluster.ctas.size(); ++rank) {
    Cta* cta = ctas ? w.cta.cluster.ctas[rank].get() : static_cast<Cta*>(first[0].at.memory);
    if (ctas ? !(*ctas >> rank & 1) : rank != 0) continue;
    for (Run to : first) to.at.memory = cta, o.to.push_back(to);
    if (pair) cta = w.cta.cluster.ctas[(cta->rank & ~1u) | (static_cast<Cta*>(at.memory)->rank & 1)].get();
    o.signals.push_back({cta, static_cast<u32>(at.offset), bytes, false});
  }
  const u32 count = static_cast<u32>(w.cta.cluster.ctas.size());
  if (!o.to.empty() && (!ctas || *ctas >> count == 0)) return true;
  w.fault(Code::out_of_bounds, lane,
          cat("copies to the CTAs of the mask ", *ctas, "; the cluster has ", count, " CTAs, so there are 1 to ",
              (1u << count) - 1));
  return false;
}

template <bool multicast, bool ignores, Combine combine = nullptr>
void to_shared(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    const Operand* s = op.operands;
    Operation o{.agent = agent(w, lane), .op = &op};
    o.combine = combine;
    const u32 left = ignores ? row32(w, s[3])[lane] : 0, right = ignores ? row32(w, s[4])[lane] : 0;
    if (!between(w, op, lane, o, left, right)) return;
    const Operand& mbar = s[ignores ? 5 : 3];
    const auto ctas = multicast ? std::optional(row32(w, s[4])[lane] & 0xffff) : std::nullopt;
    if (signal_beside(w, mbar, lane, o, row32(w, s[2])[lane], ctas)) w.cta.cluster.operations.begin(std::move(o));
  });
}
template <bool masked, Combine combine = nullptr>
void to_global(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    Operation o{.agent = agent(w, lane), .op = &op};
    o.combine = combine;
    o.group = w.bulk_group[static_cast<std::size_t>(lane)];
    if (masked) o.bytes_of_16 = static_cast<u16>(row32(w, op.operands[op.sources - 1])[lane]);
    if (between(w, op, lane, o)) w.cta.cluster.operations.begin(std::move(o));
  });
}
// ---- reductions

template <class T, class F>
void combine(const Op& op, std::byte* memory, const std::byte* values, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(T)) {
    T old, value;
    std::memcpy(&old, memory + i, sizeof old);
    std::memcpy(&value, values + i, sizeof value);
    const T fresh = atomic_detail::apply_each<T, F>(old, value, value, {op.mods, false});
    std::memcpy(memory + i, &fresh, sizeof fresh);
  }
}
// make<combine>() for the operation and type of a match.
template <class Make>
Bound with_combine(const isa::Match& m, Make make) {
  using namespace atomic_detail;
  return lane_detail::with_type(value_type(m), [&]<class T>() -> Bound {
    if constexpr (OneOf<T, u32, s32, u64, s64, f16, bf16, f32, f64>) {
      if (m.has("add")) return make.template operator()<&combine<T, Add>>();
      if constexpr (OneOf<T, u32, s32, u64, s64, f16, bf16>) {
        if (m.has("min") || m.has("max")) return make.template operator()<&combine<T, Extreme>>();
      }
      if constexpr (OneOf<T, u32, u64>) {
        if (m.has("and") || m.has("or") || m.has("xor")) return make.template operator()<&combine<T, Logic>>();
      }
      if constexpr (OneOf<T, u32>) {
        if (m.has("inc") || m.has("dec")) return make.template operator()<&combine<T, Count>>();
      }
    }
    return {};
  });
}
// ---- st.async, red.async: [d], b{, [mbar]}; the value is the one of now

template <bool signals, Combine combine = nullptr>
void store(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    const Operand *s = op.operands, *mbar = behind(s + 1);
    const u32 bytes = s[1].count * u32{op.element};
    Operation o{.agent = agent(w, lane), .op = &op};
    o.combine = combine;
    const auto to = locate(w, s[0], lane, bytes, bytes, o.combine ? Access::update : Access::write);
    if (!to || (signals && !in_clusters(w, lane))) return;
    o.to = {{*to}};
    o.has_read = true;
    o.data.resize(bytes);
    o.states.assign(bytes, written);
    for (int i = 0; i < s[1].count; ++i) {
      std::memcpy(&o.data[static_cast<std::size_t>(i) * op.element], w.row(s[1 + i]) + lane * s[1 + i].cell,
                  op.element);
    }
    if (!signals || signal_beside(w, *mbar, lane, o, bytes, std::nullopt)) w.cta.cluster.operations.begin(std::move(o));
  });
}
template <bool signals>
Bound bind_red(const isa::Match& m) {
  return with_combine(m, []<Combine c>() -> Bound {
    return {.run = &store<signals, c>, .whole_warp = true, .communicates = !signals};
  });
}

}  // namespace ptx::sim::async_detail
