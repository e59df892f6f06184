// Bodies of ptx/isa/forms/async.def: copies that finish later, as operations (async/operation.h). Prefetches mean
// nothing here.
#pragma once

#include "ptx/sim/exec/operation.h"

namespace ptx::sim {

namespace async_detail {

// ---- cp.async: [d], [a], size{, src_size or ignore}

template <bool ignores>
void copy(Warp& w, const Op& op, Mask active) {
  const Operand* s = op.operands;
  const Mask ignored = ignores ? w.predicate(s[3]) : 0;
  each_lane(w, active, [&](int lane) {
    const u32 size = row32(w, s[2])[lane];
    const bool given = !ignores && op.sources > 3 && !s[3].absent;
    const u32 reads = ignored >> lane & 1 ? 0 : given ? row32(w, s[3])[lane] : size;
    if (reads > size) {
      return w.fault(Code::bad_argument, lane,
                     cat("copies ", reads, " bytes of the source (src-size) into ", size, " (cp-size)"));
    }
    const auto to = locate(w, s[0], lane, size, size, Access::write);
    const auto from = to ? locate(w, s[1], lane, reads, size, Access::read) : std::nullopt;
    if (!from) return;
    w.cta.cluster.operations.begin(
        w, {lane, w.copy_group[static_cast<std::size_t>(lane)], w.pc - 1, ++w.copies_begun, *to, *from, &op});
  });
}
inline void commit_copies(Warp& w, const Op&, Mask active) {
  each_lane(w, active, [&](int lane) { ++w.copy_group[static_cast<std::size_t>(lane)]; });
}
inline void wait_copies(Warp& w, const Op& op, Mask active) {
  const u32 most = row32(w, op.operands[0])[std::countr_zero(active)];
  finish_copies(w, active, [&](const ThreadCopy& c) {
    const u32 open = w.copy_group[static_cast<std::size_t>(c.lane)];
    return c.group < open && open - c.group > most;
  });
  if (Observer* const observer = w.cta.launch.observer) {
    each_lane(w, active, [&](int lane) {
      const u32 open = w.copy_group[static_cast<std::size_t>(lane)];
      if (open > most) observer->waited(w, Mask{1} << lane, Group::copies, open - most);
    });
  }
}
inline void wait_all_copies(Warp& w, const Op&, Mask active) {
  finish_copies(w, active, [](const ThreadCopy&) { return true; });
  if (Observer* const observer = w.cta.launch.observer) observer->waited(w, active, Group::copies, ~u64{0});
}

// An arrival of each thread when its copies until now are finished; without .noinc the phase waits for one more.
template <bool noinc>
void arrive_after_copies(Warp& w, const Op& op, Mask active) {
  Operation o{.agent = agent(w, std::countr_zero(active)), .op = &op};
  o.has_read = true, o.copies_of = active, o.copies_before = w.copies_begun + 1;
  each_lane(w, active, [&](int lane) {
    Location at;
    Mbarrier* b = mbarrier_at(w, op.operands[0], lane, at);
    if (!b) return;
    if (!noinc) ++b->pending;
    o.signals.push_back({static_cast<Cta*>(at.memory), static_cast<u32>(at.offset), 0, true});
  });
  if (w.event != Event::fault) w.cta.cluster.operations.begin(std::move(o));
}

inline Bound bind_load(const isa::Match& m) {
  const bool multicast =
      m.has("multicast::cluster") || m.has("multicast::cluster::16b") || m.has("multicast::cluster::32b");
  return {.run = multicast             ? &to_shared<true, false>
                 : m.has("ignore_oob") ? &to_shared<false, true>
                                       : &to_shared<false, false>,
          .whole_warp = true};
}
inline Bound bind_store(const isa::Match& m) {
  return {.run = m.has("cp_mask") ? &to_global<true> : &to_global<false>, .whole_warp = true};
}

inline Bound bind_reduce(const isa::Match& m) {
  return with_combine(
      m, []<Combine c>() -> Bound { return {.run = &to_global<false, c>, .whole_warp = true, .communicates = true}; });
}
inline Bound bind_reduce_cluster(const isa::Match& m) {
  return with_combine(m, []<Combine c>() -> Bound { return {.run = &to_shared<false, false, c>, .whole_warp = true}; });
}

// st.bulk [d], size, 0
template <bool wide>
void fill(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    const u64 size = wide ? row64(w, op.operands[1])[lane] : row32(w, op.operands[1])[lane];
    if (size % 8) return w.fault(Code::misaligned_access, lane, cat("fills ", size, " bytes, no multiple of 8"));
    const auto to = locate(w, op.operands[0], lane, size, 8, Access::write);
    if (!to) return;
    if (to->space != isa::Space::shared_cta)
      return w.fault(Code::out_of_bounds, lane, "fills memory that is not shared");
    const Bytes target = reach(agent(w, lane), *to, Access::write, op.manner);
    if (!target.data) return;
    std::memset(target.data, 0, size);
    std::memset(target.states, written, size);
  });
}

}  // namespace async_detail

// 9.7.9.25.3  cp.async
constexpr WarpBody sem_cp_async_ca{async_detail::bind_as<&async_detail::copy<false>>};
constexpr WarpBody sem_cp_async_ca_ignore{async_detail::bind_as<&async_detail::copy<true>>};
constexpr WarpBody sem_cp_async_cg{async_detail::bind_as<&async_detail::copy<false>>};
constexpr WarpBody sem_cp_async_cg_ignore{async_detail::bind_as<&async_detail::copy<true>>};
constexpr WarpBody sem_cp_async_commit_group{async_detail::bind_as<&async_detail::commit_copies>};
constexpr WarpBody sem_cp_async_wait_group{async_detail::bind_as<&async_detail::wait_copies>};
constexpr WarpBody sem_cp_async_wait_all{async_detail::bind_as<&async_detail::wait_all_copies>};

// 9.7.9.25.4.1  cp.async.bulk
constexpr WarpBody sem_cp_async_bulk_load_cta{async_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_load_cta_relaxed{async_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_load_cluster{async_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_load_cluster_relaxed{async_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_cluster{async_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_cluster_relaxed{async_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_store{async_detail::bind_store};
constexpr WarpBody sem_cp_async_bulk_store_relaxed{async_detail::bind_store};

// 9.7.9.25.4.2  cp.reduce.async.bulk
constexpr WarpBody sem_cp_reduce_async_bulk_cluster_bits{async_detail::bind_reduce_cluster};
constexpr WarpBody sem_cp_reduce_async_bulk_cluster_int{async_detail::bind_reduce_cluster};
constexpr WarpBody sem_cp_reduce_async_bulk_cluster_add{async_detail::bind_reduce_cluster};
constexpr WarpBody sem_cp_reduce_async_bulk_cluster_count{async_detail::bind_reduce_cluster};
constexpr WarpBody sem_cp_reduce_async_bulk_bits{async_detail::bind_reduce};
constexpr WarpBody sem_cp_reduce_async_bulk_int{async_detail::bind_reduce};
constexpr WarpBody sem_cp_reduce_async_bulk_add{async_detail::bind_reduce};
constexpr WarpBody sem_cp_reduce_async_bulk_count{async_detail::bind_reduce};
constexpr WarpBody sem_cp_reduce_async_bulk_add_noftz{async_detail::bind_reduce};

// 9.7.9.25.4.3 and after: hints, cp.async.mbarrier.arrive
constexpr WarpBody sem_cp_async_bulk_prefetch{async_detail::bind_as<&async_detail::nothing>};
constexpr WarpBody sem_cp_async_bulk_prefetch_evict{async_detail::bind_as<&async_detail::nothing>};
constexpr WarpBody sem_cp_async_mbarrier_arrive{[](const isa::Match& m) -> Bound {
  return {.run = m.has("noinc") ? &async_detail::arrive_after_copies<true> : &async_detail::arrive_after_copies<false>,
          .whole_warp = true};
}};

// 9.7.9.12, 9.7.9.13  st.async, st.bulk
constexpr WarpBody sem_st_async{async_detail::bind_as<&async_detail::store<true>>};
constexpr WarpBody sem_st_async_mmio{async_detail::bind_as<&async_detail::store<false>, true>};
constexpr WarpBody sem_st_async_release{async_detail::bind_as<&async_detail::store<false>, true>};
constexpr WarpBody sem_st_bulk{async_detail::bind_as<&async_detail::fill<true>>};
constexpr WarpBody sem_st_bulk_32{async_detail::bind_as<&async_detail::fill<false>>};

}  // namespace ptx::sim
