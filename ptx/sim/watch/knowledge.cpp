// Who learns what of whom: barriers, mbarriers, fences, releases and acquires, waits (manual 8.8 to 8.9.5).
#include <algorithm>
#include <bit>

#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/races.h"

namespace ptx::sim {

namespace {

template <class Map, class Key>
void erase_between(Map& map, const Key& first, const Key& next) {
  map.erase(map.lower_bound(first), map.lower_bound(next));
}

bool releases(Order order) { return order == Order::release || order == Order::acq_rel || order == Order::sc; }
bool is_wide(Scope scope) { return scope >= Scope::gpu; }  // of all CTAs
bool acquires(Order order) { return order == Order::acquire || order == Order::acq_rel || order == Order::sc; }

}  // namespace

// The time of what the warp publishes now; what it does later is later.
Time Races::tick(Watched& w) {
  if (w.stamped) w.stamp = ++now_, w.stamped = w.touched = false, w.copies = nullptr;
  return w.stamp - 1;
}

// When an operation begins. What its warp does from now on has this time or a later one, and all that was before has
// an earlier one.
Time Races::begin(Watched& w) {
  w.stamped = true;
  tick(w);
  w.stamped = true;
  return w.stamp;
}

// All that these lanes have done until then: how many moments, which are put into `out`.
std::size_t Races::done_by(const Watched& w, Mask mask, Time time, Moment* out) {
  std::size_t count = 0;
  if ((mask & w.present) == w.present) {
    out[count++] = {w.who, time};
  } else {
    for (Mask rest = mask; rest; rest &= rest - 1) out[count++] = {who_thread(w.who, std::countr_zero(rest)), time};
  }
  return count;
}

// The same, and their copies that are over: at most two moments a lane, and one.
std::span<const Moment> Races::over_by(const Watched& w, Mask mask, Time time, const Own& own, Moment* out) {
  std::size_t count = done_by(w, mask, time, out);
  count += copied_by(w.who, w.present, mask, own, out + count);
  return {out, count};
}

// What others learn from these lanes: what they know, all that they have done, and their copies that are over.
View Races::published(const Watched& w, const View& view, Mask mask, Time time, const Own& own) {
  Moment moments[2 * lanes + 1];
  View out = view;
  learn(out, over_by(w, mask, time, own, moments));
  Known& sequential = out.of[View::sequential];
  sequential = join(sequential, sequenced_by(w, mask, own, moments));
  return out;
}

// The last fence.sc of these lanes: at most a moment a lane.
std::span<const Moment> Races::sequenced_by(const Watched& w, Mask mask, const Own& own, Moment* out) {
  std::size_t count = 0;
  bool alike = (mask & w.present) == w.present;
  for (Mask rest = mask & w.present; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const Time time = own.sequenced[static_cast<std::size_t>(lane)];
    alike = alike && time == own.sequenced[0];
    if (time) out[count++] = {who_thread(w.who, lane), time};
  }
  if (alike && count) out[0].who = w.who, count = 1;
  return {out, count};
}

const View& Races::view_of(const Watched& w, int lane) {
  const auto part = std::find_if(w.parts.begin(), w.parts.end(), [&](const Part& p) { return p.lanes >> lane & 1; });
  return part->view;
}

Races::Held& Races::held(Watched& w, int lane) {
  auto& h = w.held[static_cast<std::size_t>(lane)];
  if (!h) h = std::make_unique<Held>();
  return *h;
}

bool Races::includes(Scope scope, std::uint64_t cta, std::uint64_t other) const {
  if (scope >= Scope::gpu || cta == other) return true;
  const std::uint64_t size = launch_.cluster.count();
  return scope == Scope::cluster && cta / size == other / size;
}
// The narrowest scope with both, as an index of Held::read.
std::size_t Races::needed(std::uint64_t cta, std::uint64_t other) const {
  return cta == other ? 0 : includes(Scope::cluster, cta, other) ? 1 : 2;
}

// ---- barriers and mbarriers

Races::Meeting& Races::meeting(const Channel& c) {
  const std::uint64_t home = c.kind == Channel::Kind::cluster_barrier ? static_cast<const Cluster*>(c.memory)->index
                                                                      : number(*static_cast<const Cta*>(c.memory));
  return meetings_[{c.kind, home, c.object}];
}

void Races::gather(Meeting& m, std::uint64_t home, const Watched& w, const View& view, const Manner& manner) {
  const bool near = w.cta == home;
  View& into = near ? m.gathering.near : m.gathering.far;
  const bool wide = includes(manner.scope, w.cta, home);
  if (!releases(manner.order)) return wide ? learn_relaxed(into, view) : learn_beyond_order(into, view);
  wide ? learn_all(into, view) : learn_beyond_scope(into, view);
}

void Races::flush(Meeting& m, std::uint64_t home) {
  if (!m.recent) return;
  gather(m, home, *m.recent, published(*m.recent, m.view, m.lanes, m.time, m.own), m.manner);
  m.recent = nullptr;
}

// Whoever comes to a barrier of a number of threads knows that its last phase is over. Else, in another schedule, the
// arrival counts for that phase (9.7.13.1): a warp that came by bar.arrive comes again too early, or warps with another
// purpose have taken the same barrier.
void Races::arrive_at_barrier(Meeting& m, const Watched& w, Mask mask, std::uint32_t barrier, std::uint32_t pc,
                              bool stays) {
  const auto own = m.ahead.find(w.who);
  const bool known = !m.counted || std::any_of(w.parts.begin(), w.parts.end(), [&](const Part& p) {
    return known_until(p.view.of[View::any_order], m.stream) >= m.phase;
  });
  if (!known) {
    const bool again = own != m.ahead.end();
    report_lap(w, std::countr_zero(mask), barrier, pc, again ? own->second : m.before, again);
  }
  m.now = pc;
  if (stays) return void(m.ahead.erase(w.who));
  m.ahead[w.who] = pc;
}

// fence.release; barrier.cluster.arrive.relaxed (the second example of 9.7.13.3).
void Races::release_by_fences(Meeting& m, const Watched& w, Mask mask) {
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const Held* const h = w.held[static_cast<std::size_t>(std::countr_zero(rest))].get();
    if (!h || !h->released) continue;
    const View out = published(w, h->release, rest & (~rest + 1), h->released, {});
    h->scope >= Scope::cluster ? learn_all(m.gathering.near, out) : learn_beyond_scope(m.gathering.near, out);
  }
}

void Races::arrived(Warp& warp, Mask mask, const Channel& channel, const Manner& manner, bool stays) {
  Watched& w = watched(warp);
  Meeting& m = meeting(channel);
  m.came += static_cast<std::uint32_t>(std::popcount(mask));
  m.all_stay = m.all_stay && stays;
  if (channel.kind != Channel::Kind::mbarrier) {
    const Time time = tick(w);
    for (const Part& p : w.parts) {
      if (!(p.lanes & mask)) continue;
      if (channel.kind == Channel::Kind::barrier) {  // warps of a CTA mostly know the same
        Moment moments[2 * lanes + 1];
        const std::span<const Moment> over = over_by(w, p.lanes & mask, time, w.own, moments);
        m.done.insert(m.done.end(), over.begin(), over.end());
        learn_all(m.gathering.near, p.view);
        Known& sequential = m.gathering.near.of[View::sequential];
        sequential = join(sequential, sequenced_by(w, p.lanes & mask, w.own, moments));
        continue;
      }
      const View view = published(w, p.view, p.lanes & mask, time);
      releases(manner.order) ? learn_all(m.gathering.near, view) : learn_relaxed(m.gathering.near, view);
    }
    if (channel.kind == Channel::Kind::barrier) arrive_at_barrier(m, w, mask, channel.object, warp.pc - 1, stays);
    if (channel.kind == Channel::Kind::cluster_barrier && !releases(manner.order)) release_by_fences(m, w, mask);
    return;
  }
  const std::uint64_t home = number(*static_cast<const Cta*>(channel.memory));
  const int lane = std::countr_zero(mask);
  const View& view = view_of(w, lane);
  const Held* const fence = w.held[static_cast<std::size_t>(lane)].get();
  if (!releases(manner.order) && fence && fence->released) {  // fence.release; arrive.relaxed
    const View out = published(w, fence->release, mask, fence->released, {});
    gather(m, home, w, out, {Order::release, std::min(fence->scope, manner.scope), Proxy::generic});
  }
  if (m.recent == &w && m.pc == warp.pc && !w.touched && m.view == view) {
    m.lanes |= mask, m.time = tick(w);
  } else {
    flush(m, home);
    m.recent = &w, m.lanes = mask, m.time = tick(w), m.pc = warp.pc, m.manner = manner, m.view = view;
  }
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const auto each = static_cast<std::size_t>(std::countr_zero(rest));
    m.own.until[each] = w.own.until[each], m.own.last[each] = w.own.last[each];
    m.own.sequenced[each] = w.own.sequenced[each];
  }
}

void Races::completed(const Channel& channel) {
  Meeting& m = meeting(channel);
  ++m.phase;
  if (channel.kind == Channel::Kind::mbarrier) {
    const std::uint64_t home = number(*static_cast<const Cta*>(channel.memory));
    flush(m, home);
    const Moment over{m.stream, m.phase};
    if (m.stream) learn(m.gathering.near, {&over, 1});
    m.last = m.gathering;
    m.came = 0;
    return;
  }
  if (channel.kind == Channel::Kind::barrier) {
    m.counted = static_cast<const Cta*>(channel.memory)->barriers[channel.object].expected != 0;
    m.before = m.now;
    if (m.counted && !m.stream) m.stream = new_stream();
  }
  const Moment over{m.stream, m.phase};
  if (m.stream) learn(m.gathering.near, {&over, 1});
  // Threads that have exited count as having come to a barrier of all.
  auto with_exited = [&](const Cta& cta) {
    if (const auto left = left_.find(number(cta)); left != left_.end()) learn_all(m.gathering.near, left->second.view);
  };
  if (channel.kind == Channel::Kind::cluster_barrier) {
    for (const auto& cta : static_cast<const Cluster*>(channel.memory)->ctas) with_exited(*cta);
  } else {
    const Cta& cta = *static_cast<const Cta*>(channel.memory);
    if (cta.barriers[channel.object].expected == 0) with_exited(cta);
    std::uint32_t live = 0;
    for (const auto& w : cta.warps) live += static_cast<std::uint32_t>(std::popcount(w->live));
    const bool whole = m.all_stay && m.came == live;
    if (whole) std::erase_if(m.done, [](const Moment& moment) { return !(moment.who & copies_bit); });
    std::ranges::sort(
        m.done, [](const Moment& a, const Moment& b) { return a.who != b.who ? a.who < b.who : a.time > b.time; });
    const auto rest = std::ranges::unique(m.done, {}, &Moment::who);
    m.done.erase(rest.begin(), rest.end());
    learn(m.gathering.near, m.done);
    m.done.clear();
    if (whole) {  // all of the CTA until now: one number says it
      const Moment all{who_cta(number(cta)), now_++};
      learn(m.gathering.near, {&all, 1});
      for (const auto& warp : cta.warps) {
        Watched& w = watched(*warp);
        w.stamp = now_, w.stamped = w.touched = false;
      }
    }
  }
  m.last = std::move(m.gathering);
  m.gathering = {}, m.came = 0, m.all_stay = true;
}

void Races::passed(Warp& warp, Mask mask, const Channel& channel, const Manner& manner) {
  Watched& w = watched(warp);
  const Meeting& m = meeting(channel);
  if (channel.kind == Channel::Kind::mbarrier) {
    if (w.went_on.object == channel.object) w.went_on.lanes &= ~mask;
    for (Mask rest = mask; rest;) {  // lanes that know the same learn the same
      const int lane = std::countr_zero(rest);
      const auto part =
          std::find_if(w.parts.begin(), w.parts.end(), [&](const Part& p) { return p.lanes >> lane & 1; });
      const Mask together = part->lanes & rest;
      rest &= ~together;
      const bool ordered = acquires(manner.order);
      change(w, together, [&](View& v, Mask) {
        ordered ? learn_all(v, m.last.near) : learn_relaxed(v, m.last.near);
        const bool wide = manner.scope > Scope::cta;
        if (ordered) return wide ? learn_all(v, m.last.far) : learn_beyond_scope(v, m.last.far);
        wide ? learn_relaxed(v, m.last.far) : learn_beyond_order(v, m.last.far);
      });
      if (ordered) continue;
      for (Mask each = together; each; each &= each - 1) {
        Held& h = held(w, std::countr_zero(each));
        hold(w, h.read[0], m.last.near), hold(w, h.read[1], m.last.far);
      }
    }
    return;
  }
  const bool ordered = channel.kind == Channel::Kind::barrier || acquires(manner.order) || manner.order == Order::weak;
  change(w, mask, [&](View& v, Mask) { ordered ? learn_all(v, m.last.near) : learn_relaxed(v, m.last.near); });
}

// Whether the lane knows of all who made the last phase complete.
bool Races::tells_nothing(const Watched& w, int lane, const Meeting& m) {
  const View& v = view_of(w, lane);
  const auto is_known = [&](const Moment& of) {
    const Who alone = std::has_single_bit(w.present) ? w.who : 0;
    const bool copies = of.who & copies_bit && of.time <= w.own.until[static_cast<std::size_t>(lane)];
    const Who whose = copies ? of.who & ~copies_bit : of.who;
    const bool own = whose == who_thread(w.who, lane) || whose == alone;
    return own || known_until(v.of[View::any_order], of.who) >= of.time ||
           known_until(v.of[View::collective], of.who) >= of.time;
  };
  const auto is_all_known = [&](const Known& told) { return !told || std::ranges::all_of(*told, is_known); };
  return is_all_known(m.last.near.of[View::any_order]) && is_all_known(m.last.far.of[View::any_order]);
}

// Each instruction refuses a lane once a phase, so a loop goes on with its second answer.
Mask Races::refused(Warp& warp, Mask mask, const Channel& channel, std::uint64_t phase, bool complete) {
  Watched& w = watched(warp);
  const std::uint32_t pc = warp.pc - 1;
  Asked& asked = w.asked[{pc, channel.object}];
  if (asked.phase != phase + 1) asked = {phase + 1, 0};
  Mask no = mask & ~asked.refused;
  if (!no) return 0;
  const Meeting& m = meeting(channel);
  for (Mask rest = complete ? no : 0; rest; rest &= rest - 1) {
    if (const int lane = std::countr_zero(rest); tells_nothing(w, lane, m)) no &= ~(Mask{1} << lane);
  }
  asked.refused |= no;
  if (no) w.went_on = {w.who, pc, channel.object, no};
  return no;
}

void Races::made(const Channel& channel) { meeting(channel) = {}; }

void Races::met(Warp& warp, Mask mask) {
  Watched& w = watched(warp);
  const Time time = tick(w);
  View all;
  for (const Part& p : w.parts) {
    if (!(p.lanes & mask)) continue;
    learn_all(all, published(w, p.view, p.lanes & mask, time));
    learn(all, p.view, {View::tensor_after});  // tcgen05 instructions are a whole warp's, or of a lane that it chooses
  }
  if ((mask & w.present) == w.present) {
    const Moment whole{w.who, time};
    learn(all, {&whole, 1});
  }
  change(w, mask, [&](View& v, Mask) { v = all; });
}

void Races::gathered(Warp& warp, Mask mask) {
  Watched& w = watched(warp);
  Moment moments[2 * lanes + 1];
  const std::span<const Moment> done = over_by(w, mask, tick(w), w.own, moments);
  Known all;
  for (const Part& p : w.parts) {
    if (p.lanes & mask) all = join(all, p.view.of[View::collective]);
  }
  all = join(all, done);
  ++w.learned;
  if (w.parts.size() == 1 && (mask & w.present) == w.present)
    return void(w.parts.front().view.of[View::collective] = std::move(all));
  change(w, mask, [&](View& v, Mask) { v.of[View::collective] = all; });
}

// ---- fences

void Races::fenced(Warp& warp, Mask mask, Fence fence, const Manner& manner) {
  if (fence == Fence::thread && fences_again(entry(warp), mask, manner)) return;
  Watched& w = watched(warp);
  if (fence == Fence::thread) return this->fence(w, mask, manner);
  const Time time = tick(w);
  if (fence == Fence::grid) {
    const Moment over{launch_before_, 1};
    if (launch_before_) change(w, mask, [&](View& v, Mask) { learn(v, {&over, 1}); });
    return;
  }
  if (fence == Fence::mbarrier_init) {
    for (const auto& [at, site] : w.sites) {
      if (!site) continue;
      Site& s = sites_[site];
      if (launch_.program.is(s.pc, isa::Trait::begins_mbarrier)) s.fenced_init = true;
    }
  }
  if (fence == Fence::async || fence == Fence::async_shared || fence == Fence::async_global ||
      fence == Fence::tensormap) {
    change(w, mask, [&](View& v, Mask some) {
      const Known done = published(w, v, some, time).of[View::base];
      if (fence == Fence::tensormap) v.of[View::tensormap] = join(v.of[View::tensormap], done);
      if (fence == Fence::async || fence == Fence::async_shared)
        v.of[View::async_shared] = join(v.of[View::async_shared], done);
      if (fence == Fence::async || fence == Fence::async_global)
        v.of[View::async_global] = join(v.of[View::async_global], done);
    });
  }
  if (fence == Fence::tensor_before || fence == Fence::tensor_after) {
    change(w, mask, [&](View& v, Mask some) {
      Known& before = v.of[View::tensor_before];
      if (fence == Fence::tensor_before) before = join(before, published(w, v, some, time).of[View::base]);
      if (fence == Fence::tensor_after) v.of[View::tensor_after] = join(v.of[View::tensor_after], before);
    });
  }
  if (fence == Fence::tensormap) this->fence(w, mask, manner);
}

// Whether the fence changes nothing, as the lanes have done nothing since their last one; or nothing but a look, and
// then it may wait (fence_again) until it is known whether they look again.
bool Races::fences_again(Watched& w, Mask mask, const Manner& manner) {
  const auto& f = w.fence;
  if (w.fence_again || f.stamp != w.stamp || f.learned != w.learned || (mask & ~f.lanes) || f.manner != manner)
    return false;
  if (w.stamped && w.look.stamp != w.stamp) return false;
  if (manner.order == Order::sc && narrow_fences_ && (w.stamped || f.sequential != sequentials_)) return false;
  if (w.stamped) w.fence_again = mask;
  return true;
}

void Races::fence(Watched& w, Mask mask, const Manner& manner) {
  const Time time = tick(w);
  for (Mask rest = mask; rest; rest &= rest - 1) {
    if (acquires(manner.order)) acquire_fence(w, std::countr_zero(rest), manner.scope);
  }
  if (manner.order == Order::sc) sequential_fence(w, mask, time, manner.scope);
  if (releases(manner.order)) fenced_[w.cta][static_cast<std::size_t>(manner.scope)] = now_;
  for (Mask rest = releases(manner.order) ? mask : 0; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const Mask bit = Mask{1} << lane;
    Held& h = held(w, lane);
    h.released = time, h.scope = manner.scope, h.release = view_of(w, lane);
    Moment moment{};
    learn(h.release, {&moment, copied_by(w.who, w.present, bit, w.own, &moment)});
    Known& told = h.release.of[View::sequential];
    told = join(told, sequenced_by(w, bit, w.own, &moment));
  }
  w.fence = {w.learned, sequentials_, w.stamp, manner, mask};
}

void Races::fenced_map(Warp& warp, int lane, const Location& map, const Manner& manner) {
  Watched& w = watched(warp);
  acquire_fence(w, lane, manner.scope);
  constexpr std::size_t most = 4;  // of a thread: others may have learned of an earlier fence and not of the last
  std::vector<Acquired>& all = maps_[flat(map)];
  const Who thread = who_thread(w.who, lane);
  const auto own = [&](const Acquired& a) { return a.thread == thread; };
  if (std::ranges::count_if(all, own) == most) all.erase(std::ranges::find_if(all, own));
  all.push_back({thread, tick(w), view_of(w, lane).of[View::tensormap]});
}

void Races::acquire_fence(Watched& w, int lane, Scope scope) {
  Held* const h = w.held[static_cast<std::size_t>(lane)].get();
  if (!h) return;
  change(w, Mask{1} << lane, [&](View& v, Mask) {
    for (std::size_t i = 0; i < h->read.size(); ++i) {
      static_cast<std::size_t>(scope) >= i ? learn_all(v, h->read[i]) : learn_beyond_scope(v, h->read[i]);
    }
    learn_beyond_scope(v, h->narrow);
  });
}

// Fences of a CTA or a cluster are ordered behind all before them, as far as their scopes go. Those of the device are
// ordered behind what they have heard of alone: the others come first in another schedule.
void Races::sequential_fence(Watched& w, Mask mask, Time time, Scope scope) {
  const bool wide = is_wide(scope);
  if (wide) change(w, mask, [](View& v, Mask) { learn_sequential(v); });
  for (Mask rest = narrow_fences_ ? mask : 0; rest; rest &= rest - 1)
    fence_among_narrow(w, std::countr_zero(rest), scope);
  if (!wide) return;
  change(w, mask, [](View& v, Mask) { v.of[View::sequential] = join(v.of[View::sequential], v.of[View::base]); });
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const Mask bit = Mask{1} << lane;
    w.own.sequenced[static_cast<std::size_t>(lane)] = time;
    Moment copies{};
    if (!copied_by(w.who, w.present, bit, w.own, &copies)) continue;
    change(w, bit, [&](View& v, Mask) { v.of[View::sequential] = join(v.of[View::sequential], {&copies, 1}); });
  }
}

void Races::fence_among_narrow(Watched& w, int lane, Scope scope) {
  const Mask bit = Mask{1} << lane;
  for (const Release& r : sequential_) {
    if (is_wide(scope) && is_wide(r.scope)) continue;
    const bool both = includes(r.scope, r.cta, w.cta) && includes(scope, w.cta, r.cta);
    change(w, bit, [&](View& v, Mask) { both ? learn_all(v, r.view) : learn_beyond_scope(v, r.view); });
  }
  const View out = published(w, view_of(w, lane), bit, w.stamp - 1);
  const auto own =
      std::ranges::find_if(sequential_, [&](const Release& r) { return r.scope == scope && r.cta == w.cta; });
  if (own == sequential_.end()) {
    ++sequentials_, sequential_.push_back({scope, w.cta, true, 0, out, 0});
  } else {
    sequentials_ += learns_all(own->view, out);
  }
}

// Adds to what a later fence of the thread acquires.
void Races::hold(Watched& w, View& held, const View& view) { w.learned += learns_all(held, view); }

// ---- releases and acquires at a place

// Lanes that read or update a place learn what was released there. An acquire comes behind what it acquires, so its
// lanes learn that before the access is judged. After it they learn what relaxed accesses and narrow scopes would tell.
void Races::read_releases(Watched& w, Mask mask, std::uint64_t address, const Doer& d, bool before) {
  const auto found = releases_.find(address);
  if (found == releases_.end()) return;
  auto& l = w.looked;
  const std::uint64_t version = found->second.version;
  if (l.address != address || l.version != version || l.pc != d.pc) l = {address, version, d.pc, l.site, 0, 0};
  const Mask fresh = mask & ~l.lanes, unlearned = fresh & ~l.learned;
  if (!fresh) return;
  (before ? l.learned : l.lanes) |= fresh;
  const std::uint32_t bytes = width(d.pc, d.bytes);  // releases of another size are not observed (manual 8.9.2)
  const auto learns = [&](const View& view, bool ordered, bool both, std::size_t needed) {
    const bool heard = view.of[View::tensor_before] || view.of[View::sequential];
    if (d.kind == Access::update && !ordered && !heard) return;  // see is_told_by_update
    const bool now = ordered && acquires(d.manner.order);
    if (now && both) {
      if (unlearned) change(w, unlearned, [&](View& v, Mask) { learn_all(v, view); });
    } else if (!before) {
      change(w, fresh, [&](View& v, Mask) {
        if (now) return learn_beyond_scope(v, view);
        both ? learn_relaxed(v, view) : learn_beyond_order(v, view);
      });
    }
    if (before) return;
    for (Mask rest = !now && ordered ? fresh : 0; rest; rest &= rest - 1) {
      Held& h = held(w, std::countr_zero(rest));
      hold(w, both ? h.read[needed] : h.narrow, view);
    }
  };
  // A thousand CTAs that meet by a counter have each released to it: what many know is learned at once.
  const auto& [all, sums, changed] = found->second;
  const auto sum = std::ranges::find(sums, bytes, &Sum::bytes);
  const bool summed = sum != sums.end(), wide = is_wide(d.manner.scope);
  for (const bool ordered : {false, true}) {
    if (summed) learns(sum->all[ordered], ordered, false, 0);
    if (summed && wide) learns(sum->wide[ordered], ordered, true, 2);
  }
  for (const Release& r : all) {
    if (r.bytes != bytes) continue;
    const std::size_t scope = needed(w.cta, r.cta);
    const bool both = includes(r.scope, r.cta, w.cta) && includes(d.manner.scope, w.cta, r.cta);
    const bool told = summed && wide && is_wide(r.scope) && (scope == 2 || !r.ordered);
    if (!summed) learns(r.view, r.ordered, false, 0);
    if (both && !told) learns(r.view, r.ordered, true, scope);
  }
}

void Races::Sum::add(Scope scope, bool ordered, const View& view) {
  const bool same = is_wide(scope) && wide[ordered] == all[ordered];
  learn_all(all[ordered], view);
  if (same) {
    wide[ordered] = all[ordered];
  } else if (is_wide(scope)) {
    learn_all(wide[ordered], view);
  }
}

void Races::Released::sum(const Release& r) {
  auto found = std::ranges::find(sums, r.bytes, &Sum::bytes);
  if (found == sums.end()) found = sums.insert(found, Sum{.bytes = r.bytes});
  found->add(r.scope, r.ordered, r.view);
}

void Races::Released::add(Release release) {
  const auto like = std::ranges::find_if(all, [&](const Release& r) {
    return r.scope == release.scope && r.cta == release.cta && r.ordered == release.ordered && r.bytes == release.bytes;
  });
  if (!sums.empty()) sum(release);
  if (like != all.end()) {
    if (like->thread != release.thread) like->thread = 0;
    return learn_all(like->view, release.view);
  }
  all.push_back(std::move(release));
  if (sums.empty() && all.size() > few) std::ranges::for_each(all, [&](const Release& r) { sum(r); });
}

// Another write than an atomic: what others have released is gone.
void Races::Released::keep(Who thread) {
  std::erase_if(all, [&](const Release& r) { return r.thread != thread; });
  sums.clear();
}

// An atomic continues what was released there before, and a strong write what its own thread has; any other begins
// anew.
void Races::write_release(Watched& w, Mask mask, std::uint64_t address, const Doer& d) {
  const Manner& manner = d.manner;
  const std::uint32_t bytes = width(d.pc, d.bytes);
  Released& released = releases_[address];
  released.version = ++versions_;
  const Who thread = std::has_single_bit(mask) ? who_thread(w.who, std::countr_zero(mask)) : 0;
  if (d.kind != Access::update) released.keep(thread);
  auto put = [&](Scope scope, bool ordered, View view) {
    released.add({scope, w.cta, ordered, bytes, std::move(view), thread});
  };
  const Time time = tick(w);
  if (releases(manner.order)) fenced_[w.cta][static_cast<std::size_t>(manner.scope)] = now_;
  for (const Part& p : w.parts) {
    const Mask some = p.lanes & mask;
    if (!some) continue;
    if (releases(manner.order)) {
      put(manner.scope, true, published(w, p.view, some, time));
      continue;
    }
    View told;  // what learn_relaxed takes
    Moment moments[2 * lanes + 1];
    for (const View::Kind kind : {View::tensor_before, View::sequential}) told.of[kind] = p.view.of[kind];
    told.of[View::sequential] = join(told.of[View::sequential], sequenced_by(w, some, w.own, moments));
    told.of[View::any_order] = join(p.view.of[View::any_order], over_by(w, some, time, w.own, moments));
    put(manner.scope, false, std::move(told));
  }
  for (Mask rest = releases(manner.order) ? 0 : mask; rest; rest &= rest - 1) {
    const Held* const h = w.held[static_cast<std::size_t>(std::countr_zero(rest))].get();
    if (!h || !h->released) continue;
    put(std::min(h->scope, manner.scope), true, published(w, h->release, rest & (~rest + 1), h->released, {}));
  }
}

// ---- ends

void Races::exited(Warp& warp, Mask mask) {
  Watched& w = watched(warp);
  const Time time = tick(w);
  Left& left = left_[w.cta];
  for (const Part& p : w.parts) {
    if (p.lanes & mask) learn_all(left.view, published(w, p.view, p.lanes & mask, time));
  }
  left.pc = warp.pc - 1, left.thread = w.who, left.lane = std::countr_zero(mask);
}

void Races::ended(Cta& cta) {
  last_visit_ = {};
  const std::uint64_t self = number(cta);
  const Left& left = left_[self];
  if (const auto visits = visits_.find(self); visits != visits_.end()) {
    const Site exit{left.thread, left.thread, 0, left.pc, 0, {}, Access::read, false};
    for (const auto& [who, site] : visits->second) {
      const Site& s = sites_[site];
      if (knows(left.view.of[View::any_order], s, who.second)) continue;
      const Doer d{nullptr, s.who, s.thread, who.second, s.pc, s.bytes, s.manner, s.kind, s.operation};
      report(too_late(d, self), d, exit, left.lane, shared_window + (self << shared_rank_shift));
    }
    visits_.erase(visits);
  }
}

void Races::over(Cluster& cluster) {
  for (auto& [key, m] : meetings_) flush(m, std::get<1>(key));
  for (const auto& cta : cluster.ctas) {
    const std::uint64_t self = number(*cta), begin = shared_window + (self << shared_rank_shift);
    for (const auto& w : cta->warps) {
      if (const auto own = warps_.find(who_warp(self, w->index)); own != warps_.end()) {
        if (own->second->went_on.lanes) went_on_.push_back(own->second->went_on);
        warps_.erase(own);
      }
    }
    plane_.forget(begin, begin + cta->shared.bytes.size(), sets_);
    const std::uint64_t tensor = tensor_window + (self << shared_rank_shift);
    plane_.forget(tensor, tensor + (1 << 18), sets_);
    left_.erase(self);
    erase_between(releases_, begin, begin + cta->shared.bytes.size());
    const Who first = who_cta(self), next = who_cta(self + 1);
    erase_between(bulk_, first, next);
    erase_between(loaded_, first, next);
    erase_between(products_, first, next);
    erase_between(pipes_, std::pair(first, Pipe{}), std::pair(next, Pipe{}));
    for (auto& [at, all] : maps_)
      std::erase_if(all, [&](const Acquired& a) { return first <= a.thread && a.thread < next; });
    std::erase_if(meetings_, [&](const auto& m) {
      return std::get<1>(m.first) == self && std::get<0>(m.first) != Channel::Kind::cluster_barrier;
    });
  }
  meetings_.erase({Channel::Kind::cluster_barrier, cluster.index, 0});
  begun_.erase(cluster.index);
  last_warp_ = nullptr, last_visit_ = {};
}

}  // namespace ptx::sim
