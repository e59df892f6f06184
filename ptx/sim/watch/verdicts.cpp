// Why two accesses of the same bytes, of which one writes, race: races.cpp asks of each pair that its quick tests do
// not find in order.
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/races.h"

namespace ptx::sim {

void Races::judge(const Doer& d, const Site& s, int lane, std::uint64_t address) {
  auto code = verdict(d, s, lane, address);
  if (code && is_equal(d, s, lane, *code)) {
    code = Code::equal_stores, equal_ = true;
    replaces_ |= s.who != d.who && values_.store_the_same(d.pc, s.pc);
  }
  if (code == Code::missing_tensor_fence && !tensor_fences_) code = Code::no_tensor_fence;
  if (code) report(*code, d, s, lane, address);
}

// Why two accesses of the same bytes, of which one writes, are not as they should be.
std::optional<Code> Races::verdict(const Doer& d, const Site& s, int lane, std::uint64_t address) const {
  const View& v = *d.view;
  const bool own = !d.operation && !s.operation && s.who == d.who && lane == d.lane;
  if (d.manner.proxy == Proxy::read_only && writes(s.kind)) return Code::data_race;  // whatever stands between
  const bool tensor = address >= tensor_window;
  if (tensor && knows(v.of[View::tensor_after], s, lane)) return std::nullopt;
  if (own || knows(d, View::base, s, lane)) {
    if (tensor) {
      const bool fenced = s.thread == d.thread || frees(d.pc);
      return fenced ? std::nullopt : std::optional(Code::missing_tensor_fence);
    }
    if (s.manner.proxy != Proxy::generic || d.manner.proxy == Proxy::generic) return std::nullopt;
    if (d.manner.proxy == Proxy::tensormap) {
      return acquired(d, s, lane, address) ? std::nullopt : std::optional(Code::missing_proxy_fence);
    }
    if (knows(v.of[address < shared_window ? View::async_global : View::async_shared], s, lane)) return std::nullopt;
    return unfenced(d, s);
  }
  if (is_guess(d, s)) return std::nullopt;
  const bool is_told = knows(d, View::any_order, s, lane);
  const bool is_data = shares_volatile_data(d, s);
  if (is_data && may_come_late(d, s) && (is_told || is_told_by_update(s, lane, address))) return Code::missing_order;
  const bool by_chance = is_data && address >= shared_window && !is_told;
  if (morally_strong(d, s) && !by_chance) return std::nullopt;
  if ((tensor && frees(s.pc)) || is_executed(d, s, lane)) return std::nullopt;
  if (tensor && frees(d.pc) && is_loaded(d, s)) return std::nullopt;
  if (tensor && follows(d, s, v.of[View::any_order])) return Code::missing_tensor_fence;
  if (s.fenced_init && knows(d, View::any_order, s, lane)) return std::nullopt;
  const bool refills = d.operation && s.operation && writes(d.kind);  // whoever read the bytes between has waited for s
  const bool reuses = refills || (d.operation && !writes(s.kind));
  if (knows(d, View::any_scope, s, lane)) return reuses ? Code::loose_reuse : Code::narrow_scope;
  // A stage whose reader multiplied what it read, by wgmma, and was released behind the product by another thread.
  if (d.operation && !s.operation && !writes(s.kind) && knows(v.of[View::executed], s, lane)) return Code::loose_reuse;
  if (!d.operation && !by_chance && is_narrow(d, s)) return Code::narrow_scope;
  if (knows(d, View::any_order, s, lane)) return tensor ? Code::missing_tensor_fence : Code::missing_order;
  const bool generated = launch_.program.generated;
  if (!d.operation && !s.operation && knows(d, View::collective, s, lane))
    return generated && is_relayed(d, s, lane) ? Code::relayed_order : Code::collective_order;
  // A lane's edits of a map, by the warp that copies it: Triton 3.5 has no bar.warp.sync between.
  const bool copies_map = launch_.program.is(d.pc, isa::Trait::copies_map);
  if (generated && copies_map && s.who == d.who && !s.operation) return Code::relayed_order;
  if (!d.operation && is_told_by_update(s, lane, address)) return Code::missing_order;
  if (s.operation) {  // whoever knows nothing of its beginning may as well have meant to come before it
    const bool after = !d.operation && known_until(v.of[View::base], who_thread(s.thread, lane)) >= s.begun;
    return after || d.operation || writes(s.kind) ? Code::missing_wait : Code::data_race;
  }
  if (!d.operation) return Code::data_race;
  // A thread and an operation that was begun before, as far as one can tell; or the other way round.
  const bool own_thread = s.thread == d.thread && lane == d.lane && !d.each;
  if (own_thread) return Code::missing_wait;
  const bool behind =
      (writes(s.kind) ? s.made : s.time) >= d.begun;  // a reader may have come for what was there before
  if (behind && launch_.program.is(s.pc, isa::Trait::begins_mbarrier)) return Code::data_race;
  if (writes(s.kind) && launch_.program.is(d.pc, isa::Trait::async_stores)) return Code::data_race;
  if (behind || (d.first && writes(d.kind))) return Code::missing_wait;
  return writes(s.kind) ? Code::data_race : Code::stage_reused;
}

// Whether the instruction with a member mask comes behind what the warp of d has learned, or read: all of its lanes
// have executed that.
bool Races::is_relayed(const Doer& d, const Site& s, int lane) const {
  if (s.who == d.who) return !writes(s.kind);
  const Watched* const own = find(d.who);
  return own && std::ranges::any_of(own->parts, [&](const Part& p) { return knows(p.view.of[View::base], s, lane); });
}

// Whether its CTA would know of s if updates told what others have released to their places. Without an order they
// do not, and this is asked of them only here: kernels with many atomics would pay for what names a race.
bool Races::is_told_by_update(const Site& s, int lane, std::uint64_t address) const {
  if (!touching_) return false;
  const auto tells = [&](std::uint64_t place) {
    if (place == address && touching_->kind == Access::update) return false;  // what it races with came since
    const auto found = releases_.find(place);
    return found != releases_.end() && std::ranges::any_of(found->second.all, [&](const Release& r) {
             return knows(r.view.of[View::any_order], s, lane);
           });
  };
  return std::ranges::any_of(touching_->warp.cta.warps, [&](const auto& warp) {
    const Watched* const w = find(who_warp(number(warp->cta), warp->index));
    return w && std::ranges::any_of(w->updated, tells);
  });
}

// Whether a fence that acquires the map stands on the way from the one to the other: of this thread, or of one that it
// has synchronised with since (manual 8.9.5), in the same CTA.
bool Races::acquired(const Doer& d, const Site& s, int lane, std::uint64_t address) const {
  const auto behind = maps_.upper_bound(address);
  if (behind == maps_.begin() || address - std::prev(behind)->first >= 128) return false;
  return std::ranges::any_of(std::prev(behind)->second, [&](const Acquired& a) {
    const bool known =
        a.thread == who_thread(d.thread, d.lane) ||
        (cta_of(a.thread) == cta_of(d.thread) && known_until(d.view->of[View::base], a.thread) >= a.time);
    return known && knows(a.covers, s, lane);
  });
}

// Of two accesses by different proxies that are in order but for the fence. Triton 3.6 has none behind cp.async, nor
// where a copy overwrites what threads have written.
Code Races::unfenced(const Doer& d, const Site& s) const {
  if (!writes(s.kind)) return Code::loose_reuse;
  if (!launch_.program.generated) return Code::missing_proxy_fence;
  if (s.operation) return Code::unfenced_copy;
  return d.operation && writes(d.kind) ? Code::loose_reuse : Code::missing_proxy_fence;
}

// tcgen05.dealloc: it comes behind all that touches its columns, and needs no fence for that; what comes behind it has
// been given the columns anew.
bool Races::frees(std::uint32_t pc) const { return launch_.program.is(pc, isa::Trait::frees_columns); }

// Of a register that was read, wait::ld has still to order the read of memory (manual 9.7.16.6.4.5). A compiler's
// module may free columns without: CuTe's tutorials do.
bool Races::is_loaded(const Doer& d, const Site& s) const {
  if (!launch_.program.generated) return false;
  const auto at = loaded_.find(s.thread);
  return s.operation && s.kind == Access::read && at != loaded_.end() && s.time <= at->second.through &&
         known_until(d.view->of[View::base], s.thread) >= at->second.time;
}

// mbarrier.inval comes behind what was done to the mbarrier before an instruction with a member mask, if it is ordered
// behind any of those lanes. That instruction orders no memory, but all of them have executed what stands before it,
// and an operation on an mbarrier is one access. A pipeline of libcu++ ends so.
bool Races::is_executed(const Doer& d, const Site& s, int lane) const {
  if (!launch_.program.is(d.pc, isa::Trait::ends_mbarrier) || s.operation || s.manner.order == Order::weak)
    return false;
  return knows(d, View::collective, s, lane);
}

// What an st or stmatrix stores for a lane, in order; empty if it is not known.
static std::vector<std::byte> stored_by(const Touch& t, int lane) {
  if (t.rows) return {t.rows + lane * t.bytes, t.rows + (lane + 1) * t.bytes};
  std::vector<std::byte> out;
  for (unsigned i = 0; t.stored && i < t.stored->count; ++i) {
    const Operand& o = t.stored[i];
    if (o.absent) return {};
    const std::byte* const value = t.warp.row(o) + lane * o.cell;
    out.insert(out.end(), value, value + t.bytes / t.stored->count);
  }
  return out;
}

// The rules of which equal stores need none.
static bool orders_threads(Code code) {
  return code == Code::data_race || code == Code::narrow_scope || code == Code::missing_order ||
         code == Code::collective_order || code == Code::relayed_order;
}

// Whichever comes last, the same value is there (a race of uniform size, manual 8.7.2): threads store one constant, or
// lanes of one instruction the same value. Or warps of a CTA of which each stores, with all of its lanes, what is there
// already: Triton stores so what several warps have.
bool Races::is_equal(const Doer& d, const Site& s, int lane, Code code) const {
  const auto is_store = [](const auto& access) {
    return access.kind == Access::write && !access.operation && access.manner.order == Order::weak;
  };
  if (is_store(d) && is_store(s) && orders_threads(code) && values_.store_the_same(d.pc, s.pc)) return true;
  if (code != Code::data_race || !touching_ || s.operation || s.pc != d.pc || s.bytes != d.bytes ||
      s.kind != Access::write)
    return false;
  const Touch& t = *touching_;
  if (s.who == d.who) {
    if (lane > d.lane || !(t.lanes >> lane & 1) || ((t.at[lane] ^ t.at[d.lane]) & t.mask)) return false;
    const std::vector<std::byte> own = stored_by(t, d.lane);
    return !own.empty() && own == stored_by(t, lane);
  }
  if (cta_of(s.who) != cta_of(d.who) || t.space != isa::Space::shared_cta || t.memory != &t.warp.cta) return false;
  const bool whole = t.rows || std::popcount(t.lanes) == lanes;
  for (Mask rest = whole ? t.lanes : 0; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const std::vector<std::byte> value = stored_by(t, i);
    const std::byte* const there = t.warp.cta.shared.bytes.data() + (t.at[i] & t.mask);
    if (value.empty() || std::memcmp(value.data(), there, value.size()) != 0) return false;
  }
  return whole;
}

// A load whose value a compare-and-swap looks at, and an update of the same bytes.
bool Races::is_guess(const Doer& d, const Site& s) const {
  if (d.operation || s.operation || d.bytes != s.bytes) return false;
  const auto guesses = [&](std::uint32_t pc, Access kind, Access other) {
    return kind == Access::read && other == Access::update && values_.is_guess(pc);
  };
  return guesses(d.pc, d.kind, s.kind) || guesses(s.pc, s.kind, d.kind);
}

// Relaxed and volatile accesses do not race, and by .relaxed an author says that no order is meant. A volatile value
// that decides nothing is data. In shared memory it is there by chance where nothing orders the two: sums of a warp's
// lanes without bar.warp.sync.
bool Races::shares_volatile_data(const Doer& d, const Site& s) const {
  const bool relaxed = d.manner.order == Order::relaxed && s.manner.order == Order::relaxed;
  return relaxed && !d.operation && !s.operation && d.kind == Access::read && s.kind == Access::write &&
         values_.is_volatile_data(d.pc);
}

// Whether what its writer does behind may be seen before it: no thread of the writer's CTA has fenced since.
bool Races::may_come_late(const Doer& d, const Site& s) const {
  const std::uint64_t writer = cta_number(s.who);
  const auto fences = fenced_.find(writer);
  if (s.who == d.who || fences == fenced_.end()) return s.who != d.who;
  for (const Scope scope : {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys}) {
    if (includes(scope, writer, cta_number(d.who)) && fences->second[static_cast<std::size_t>(scope)] > s.made)
      return false;
  }
  return true;
}

// Two strong accesses that would not race if their scopes had both threads.
bool Races::is_narrow(Doer d, Site s) const {
  d.manner.scope = s.manner.scope = Scope::sys;
  return morally_strong(d, s);
}

// Manual 8.7. Operations that combine elements are taken to overlap completely.
bool Races::morally_strong(const Doer& d, const Site& s) const {
  if (d.manner.order == Order::weak || s.manner.order == Order::weak || d.manner.proxy != s.manner.proxy) return false;
  if (width(d.pc, d.bytes) != width(s.pc, s.bytes) && !(d.operation && s.operation)) return false;
  const std::uint64_t a = cta_number(d.thread), b = cta_number(s.thread);
  return includes(d.manner.scope, a, b) && includes(s.manner.scope, b, a);
}

}  // namespace ptx::sim
