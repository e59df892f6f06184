// Operations that finish by themselves: in which order they come, what they touch, and who learns that they are over.
#include <algorithm>
#include <bit>

#include "ptx/sim/watch/races.h"

namespace ptx::sim {

// ---- what they touch

Races::Ongoing* Races::ongoing(std::uint64_t key) {
  if (last_ongoing_ && last_operation_ == key) return last_ongoing_;
  const auto found = ongoing_.find(key);
  if (found == ongoing_.end()) return nullptr;
  last_operation_ = key;
  return last_ongoing_ = &found->second;
}

void Races::forget_operation(std::uint64_t key) {
  ongoing_.erase(key);
  last_ongoing_ = nullptr, asked_ = {};
}

// Which of its mbarriers tells of these bytes: that beside them or, with cta_group::2, that of the pair.
static const Operation::Signal& signal_of(std::span<const Operation::Signal> all, const Location& where) {
  const auto* const host = static_cast<const Cta*>(where.memory);
  const auto beside = std::ranges::find_if(all, [&](const Operation::Signal& s) { return s.cta == host; });
  if (beside != all.end()) return *beside;
  const auto of_pair =
      std::ranges::find_if(all, [&](const Operation::Signal& s) { return host && s.cta->rank / 2 == host->rank / 2; });
  return of_pair == all.end() ? all.front() : *of_pair;
}

void Races::by_operation(const Agent& agent, const Location& where, Access kind, Manner manner) {
  Ongoing* const found = ongoing(key_of(agent));
  if (!found) return;
  Ongoing& o = *found;
  Who stream = writes(kind) ? o.writes : o.reads;
  Time time = o.time;
  if (!o.signals.empty()) {  // it is over when that mbarrier's phase is
    const Operation::Signal& s = signal_of(o.signals, where);
    Meeting& m = meeting({Channel::Kind::mbarrier, s.cta, s.offset});
    if (!m.stream) m.stream = new_stream();
    stream = m.stream, time = m.phase + 1;
  }
  if (kind == Access::update) manner.order = Order::relaxed;  // each element by itself (manual 9.7.9.25.4.2)
  const auto bytes = static_cast<std::uint32_t>(where.bytes);
  const View& view = agent.each ? o.each : o.view;
  Doer d{&view, stream, o.thread, o.lane, agent.pc, bytes, manner, kind, true, o.begun};
  d.each = agent.each, d.follows = o.follows;
  const Site& last = sites_[last_of_operations_];
  const bool same = last.who == d.who && last.thread == d.thread && last.time == time && last.pc == d.pc &&
                    last.kind == kind && last.operation && last.bytes == bytes;
  const std::uint32_t site = same ? last_of_operations_ : new_site(d, time);
  if (o.piped) sites_[site].begun = 0;
  last_of_operations_ = site;
  touch_again(d, site, flat(where), where.bytes);
  if (where.memory) visit(d, site, where, agent.warp->cta);
}

// touch, by one who remembers what it found to be over the last time.
void Races::touch_again(Doer& d, std::uint32_t site, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t window = address >> 56;
  if (asked_.view == d.view && asked_.begun == d.begun && asked_.window == window) d.asks = asked_.asks;
  touch(d, site, address, bytes);
  asked_ = {d.view, d.begun, window, d.asks};
}

// A copy completes by the async proxy, and an mbarrier is made by the generic one.
bool Races::lacks_init_fence(const Doer& d, const Site& s, int lane) const {
  const Program& program = launch_.program;
  return program.is(d.pc, isa::Trait::async_proxy) && program.is(s.pc, isa::Trait::begins_mbarrier) && !s.fenced_init &&
         knows(d, View::base, s, lane) && !knows(d.view->of[View::async_shared], s, lane);
}

// Whoever begins an operation knows who made the mbarriers that it signals; arrivals need no order among each other.
void Races::signals(const Operation& o, const Ongoing& ongoing) {
  constexpr std::uint32_t bytes = 8;
  for (const Operation::Signal& s : o.signals) {
    const std::uint64_t address = flat({isa::Space::shared_cta, s.cta, s.offset, bytes});
    const Doer d{&ongoing.view,
                 ongoing.writes,
                 ongoing.thread,
                 ongoing.lane,
                 o.agent.pc,
                 bytes,
                 {Order::relaxed, Scope::cluster, Proxy::generic},
                 Access::update,
                 true,
                 ongoing.begun};
    const TouchBlock& block = plane_.block(address, bytes, sets_);
    sets_.each(block.cells[address % TouchBlock::bytes >> block.shift].writes, [&](std::uint32_t site, Mask mask) {
      const Site& s = sites_[site];
      if (s.manner.order != Order::weak) return;
      for (; mask; mask &= mask - 1) {
        const int lane = std::countr_zero(mask);
        judge(d, s, lane, address);
        if (lacks_init_fence(d, s, lane)) report(Code::missing_init_fence, d, s, lane, address);
      }
    });
  }
}

// ---- their order

Who Races::first_of_group(const Warp& warp) const { return who_warp(number(warp.cta), warp.index & ~3u); }

// The stream of what a thread has begun of tcgen05, or its warp; or a warpgroup, of wgmma.
Who& Races::pipe(Pipe pipe, const Warp& warp, int lane) {
  const std::uint64_t cta = number(warp.cta);
  const Who whole = pipe == Pipe::warpgroup ? first_of_group(warp) : who_warp(cta, warp.index);
  Who& stream = pipes_[{pipe == Pipe::tensor_core ? who_thread(whole, lane) : whole, pipe}];
  if (!stream) stream = new_stream();
  return stream;
}

// wgmma is begun by all threads of four warps, and by the last of them in time.
void Races::know_as_group(Ongoing& product, const Warp& warp) {
  for (std::uint32_t i = 0; i < Warpgroup::warps; ++i) {
    Watched& w = watched(*warp.cta.warps[(warp.index & ~3u) + i]);
    const Time time = tick(w);
    View own;
    for (const Part& p : w.parts) learn_all(own, published(w, p.view, p.lanes, time));
    learn_all(product.view, own);
    if (i == 0) product.each = own;
    for (std::size_t kind = 0; kind < View::kinds; ++kind)
      product.each.of[kind] = meet(product.each.of[kind], own.of[kind]);
  }
  products_[first_of_group(warp)].emplace_back(product.time, product.view.of[View::executed]);
}

// A product is over, so each warp of the warpgroup has come to it, with what it read before in its registers.
Known Races::executed_before(const Warp& warp, Time through) {
  auto& all = products_[first_of_group(warp)];
  const auto behind = std::ranges::upper_bound(all, through, {}, &std::pair<Time, Known>::first);
  if (behind == all.begin()) return {};
  all.erase(all.begin(), std::prev(behind));
  return all.front().second;
}

void Races::loaded(Warp& warp, std::uint64_t through) {
  Watched& w = watched(warp);
  loaded_[w.who] = {static_cast<Time>(through), tick(w)};
}

// A product comes behind what other threads have begun before, if the fences order the instructions (9.7.16.6.4.3).
void Races::follow(Ongoing& now, const Operation& o) {
  std::vector<Begun>& all = begun_[o.agent.warp->cta.cluster.index];
  const Who thread = who_thread(now.thread, now.lane);
  auto own = std::ranges::find(all, thread, &Begun::thread);
  if (own == all.end()) own = all.insert(own, {thread, now.writes, {}, {}});
  own->operations.push_back({now.begun, now.time});
  Known& after = now.view.of[View::tensor_after];
  for (const Begun& other : all) {
    if (other.thread == thread || !o.follows) continue;
    const Time known = known_until(after, other.thread);
    const auto next = std::ranges::upper_bound(other.operations, known, {}, &Begun::One::begun);
    if (next == other.operations.begin()) continue;
    const Moment before{other.stream, std::prev(next)->time};
    after = join(after, {&before, 1}), own->behind = join(own->behind, {&before, 1});
  }
  if (own->behind) learn(now.view, *own->behind);  // over when its product is: a commit tells so
}

// Whether it follows s in the pipe, as far as this clock knows of the beginning of s.
bool Races::follows(const Doer& d, const Site& s, const Known& clock) const {
  if (!d.follows || !s.operation) return false;
  const auto all = begun_.find(cta_number(s.thread) / launch_.cluster.count());
  if (all == begun_.end()) return false;
  for (const Begun& other : all->second) {
    if (other.stream != s.who) continue;
    const auto one = std::ranges::lower_bound(other.operations, s.time, {}, &Begun::One::time);
    return one != other.operations.end() && known_until(clock, other.thread) >= one->begun;
  }
  return false;
}

void Races::began(const Operation& o) {
  Watched& w = watched(*o.agent.warp);
  const int lane = o.agent.lane;
  Ongoing& now = ongoing_[key_of(o.agent)];
  now.begun = begin(w);
  now.view = published(w, view_of(w, lane), Mask{1} << lane, now.begun - 1);
  now.thread = w.who, now.lane = lane, now.signals = o.signals;
  if (o.pipe != Pipe::none) {
    const bool together = o.pipe == Pipe::warpgroup;
    now.piped = true, now.follows = o.follows;
    now.reads = now.writes = pipe(o.pipe, *o.agent.warp, lane);
    now.time = static_cast<Time>(together ? o.product : o.agent.operation);
    if (together) know_as_group(now, *o.agent.warp);
    now.signals.clear();
    const Moment before{now.writes, now.time};  // those before it, and itself: a product reads the D that it writes
    if (o.pipe != Pipe::tensor_core) return;
    learn(now.view, {&before, 1});  // they go one behind the other (9.7.16.6.2)
    follow(now, o);
    return;
  }
  if (o.group == Operation::no_group) {
    now.reads = now.writes = new_stream();  // nobody learns of its end
    now.time = 1;
    return;
  }
  auto& [reads, writes] = bulk_[who_thread(w.who, lane)];
  if (!reads) reads = new_stream(), writes = new_stream();
  now.reads = reads, now.writes = writes, now.time = o.group + 1;
}

void Races::finished(const Operation& o) {
  const auto found = ongoing_.find(key_of(o.agent));
  if (found == ongoing_.end()) return;
  signals(o, found->second);
  forget_operation(found->first);
}

void Races::waited(Warp& warp, Mask mask, Group group, std::uint64_t through) {
  Watched& w = watched(warp);
  if (group == Group::copies) return wait_for_copies(w, mask, through);
  if (group != Group::bulk && group != Group::bulk_reads) {
    const auto which = group == Group::tensor_loads    ? Pipe::tensor_load
                       : group == Group::tensor_stores ? Pipe::tensor_store
                                                       : Pipe::warpgroup;
    const Moment over{pipe(which, warp, 0), static_cast<Time>(through)};
    const Known read = which == Pipe::warpgroup ? executed_before(warp, over.time) : Known{};
    change(w, mask, [&](View& v, Mask) {
      learn(v, {&over, 1});
      v.of[View::executed] = join(v.of[View::executed], read);
    });
    return;
  }
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const std::vector<Moment> over = finished_groups(who_thread(w.who, lane), group, through);
    if (!over.empty()) change(w, Mask{1} << lane, [&](View& v, Mask) { learn(v, over); });
  }
}

std::vector<Moment> Races::finished_groups(Who thread, Group group, std::uint64_t through) const {
  std::vector<Moment> over;
  if (const auto found = bulk_.find(thread); found != bulk_.end()) {
    over.push_back({found->second.first, static_cast<Time>(through)});
    if (group == Group::bulk) over.push_back({found->second.second, static_cast<Time>(through)});
  }
  return over;
}

// ---- who learns of their end

// cp.async.mbarrier.arrive: it comes behind the copies that the thread had begun.
void Races::arrived(const Operation& o, const Channel& channel) {
  Meeting& m = meeting(channel);
  if (o.pipe != Pipe::none) {  // tcgen05.commit, which implies the fence before it
    const Moment done{pipe(o.pipe, *o.agent.warp, o.agent.lane), static_cast<Time>(o.agent.operation)};
    learn(m.gathering.near, {&done, 1});
    m.gathering.near.of[View::tensor_before] = join(m.gathering.near.of[View::tensor_before], {&done, 1});
    // What the operations came behind is over as well: the copies, say, whose bytes they read.
    if (const auto own = ongoing_.find(key_of(o.agent)); own != ongoing_.end())
      learn_all(m.gathering.near, own->second.view);
    return;
  }
  const auto own = ongoing_.find(key_of(o.agent));
  if (own == ongoing_.end()) return;
  Moment moments[lanes];
  const std::size_t count = done_by(watched(*o.agent.warp), o.copies_of, own->second.begun - 1, moments);
  for (Moment& moment : std::span(moments, count)) moment.who = who_copies(moment.who);
  learn(m.gathering.near, {moments, count});
}

}  // namespace ptx::sim
