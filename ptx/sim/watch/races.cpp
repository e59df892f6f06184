#include "ptx/sim/watch/races.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "ptx/sim/memory/access.h"

namespace ptx::sim {

Races::Races(const Launch& launch, Checks checks)
    : launch_(launch),
      checks_(checks),
      narrow_fences_(std::ranges::any_of(
          launch.program.ops,
          [](const Op& op) { return op.manner.order == Order::sc && op.manner.scope < Scope::gpu; })),
      tensor_fences_(!launch.program.generated ||
                     std::ranges::any_of(launch.program.mnemonics,
                                         [](const auto& name) { return name.starts_with("tcgen05.fence"); })),
      values_(launch.program) {
  sites_.emplace_back();
}

// Whose warp does something else than to wait as before.
Races::Watched& Races::watched(Warp& warp) {
  Watched& w = entry(warp);
  if (w.fence_again) fence(w, std::exchange(w.fence_again, 0), w.fence.manner);
  return w;
}

Races::Watched& Races::entry(Warp& warp) {
  if (&warp == last_warp_) return *last_watched_;
  const std::uint64_t cta = number(warp.cta);
  const Who who = who_warp(cta, warp.index);
  std::unique_ptr<Watched>& w = warps_[who];
  if (!w) {
    w = std::make_unique<Watched>();
    w->cta = cta, w->who = who;
    const std::uint32_t left = warp.cta.threads - warp.index * lanes;
    w->present = left >= lanes ? full_mask : (Mask{1} << left) - 1;
    w->stamp = now_;
    w->parts.push_back({full_mask, {}});
    w->sites.resize(launch_.program.ops.size());
  }
  last_warp_ = &warp, last_watched_ = w.get();
  return *w;
}

// nullptr: the warp has done nothing yet, or its cluster is over.
const Races::Watched* Races::find(Who warp) const {
  const auto found = warps_.find(warp);
  return found == warps_.end() ? nullptr : found->second.get();
}

// All memories are one: shared memory of a CTA has a window of its own, global memory is at host addresses.
std::uint64_t Races::flat(const Location& where) const {
  const bool shared = where.space == isa::Space::shared_cta;
  if (!shared && where.space != tensor_space) return where.offset;
  return (shared ? shared_window : tensor_window) +
         (number(*static_cast<const Cta*>(where.memory)) << shared_rank_shift) + where.offset;
}

// What nobody may write does not race.
bool Races::is_watched(isa::Space space, const Range* range) const {
  return space == isa::Space::shared_cta || space == tensor_space ||
         (space == isa::Space::global && (!range || range->writable));
}

// ---- sites

std::uint32_t Races::new_site(const Doer& d, Time time) {
  if (free_sites_.empty() && sites_.size() >= collect_at_) collect_sites();
  const Site made{d.who, d.thread, time, d.pc, d.bytes, d.manner, d.kind, d.operation, false, d.begun, now_};
  if (free_sites_.empty()) {
    sites_.push_back(made);
    return static_cast<std::uint32_t>(sites_.size() - 1);
  }
  const std::uint32_t site = free_sites_.back();
  free_sites_.pop_back();
  sites_[site] = made;
  return site;
}

// A site is kept as long as some byte's last access is of it, or its warp may use it again.
void Races::collect_sites() {
  std::vector<bool> used(sites_.size());
  used[0] = true;
  const auto use = [&](std::uint32_t site, Mask) { used[site] = true; };
  plane_.each_block([&](const TouchBlock& b) {
    for (const TouchCell& c : b.cells) sets_.each(c.writes, use), sets_.each(c.reads, use);
    for (const Stripe& stripe : b.stripes) used[stripe.site] = true;
  });
  for (const auto& [warp, w] : warps_) {
    for (const auto& [time, site] : w->sites) used[site] = true;
  }
  for (const auto& [cta, from] : visits_) {
    for (const auto& [who, site] : from) used[site] = true;
  }
  memo_site_ = 0, memo_clock_ = nullptr, last_visit_ = {}, asked_ = {}, last_of_copies_ = {};
  for (std::size_t i = sites_.size(); i-- > 0;) {
    if (!used[i]) free_sites_.push_back(static_cast<std::uint32_t>(i));
  }
  const std::size_t kept = sites_.size() - free_sites_.size();
  collect_at_ = std::max({least_to_collect, 2 * kept, plane_.size() * 64});
}

std::uint32_t Races::site_of(Watched& w, const Doer& d) {
  auto& [time, site] = w.sites[d.pc];
  if (time == w.stamp && sites_[site].kind == d.kind && sites_[site].bytes == d.bytes) return site;
  time = w.stamp, site = new_site(d, w.stamp);
  return site;
}

// ---- what is told

static bool is_one_place(const Touch& t) {
  const std::uint64_t first = t.at[std::countr_zero(t.lanes)];
  for (Mask rest = t.lanes; rest; rest &= rest - 1) {
    if (t.at[std::countr_zero(rest)] != first) return false;
  }
  return true;
}

void Races::touched(const Touch& t) {
  if (!beside_.empty() && t.space == isa::Space::global) look_beside(t);
  if (!is_watched(t.space, t.range)) return;
  const Location first{t.space, t.memory, 0, t.bytes};
  const std::uint64_t base = flat(first);
  const bool strong = t.manner.order != Order::weak;
  const std::uint64_t place = base + (t.at[std::countr_zero(t.lanes)] & t.mask);
  const bool look = strong && t.kind == Access::read && is_one_place(t);
  if (look && waits_again(entry(t.warp), t, place, base)) return;
  Watched& w = watched(t.warp);
  const bool vain = t.vain && strong && is_one_place(t) && width(t.pc, t.bytes) == t.bytes;
  if (vain && updates_again(w, t, place)) return;
  Doer d{nullptr, w.who, w.who, 0, t.pc, t.bytes, t.manner, t.kind, false};
  const std::uint32_t site = site_of(w, d);
  const bool same_look = w.look.stamp == w.stamp && w.look.address == place && w.look.pc == t.pc;
  if (!look || (w.stamped && !same_look)) {
    w.look = {};
  } else {
    w.look = {place, w.stamp, t.pc};
  }
  w.touched = w.stamped = true, w.copies = nullptr;
  if (look && looks_again(w, t, base, site)) return;
  if (strong) synchronise(w, t, base, d, true);
  touching_ = &t;
  for (const Part& part : w.parts) {
    d.view = &part.view, d.own = &w.own, d.asks = {};
    if (t.kind == Access::read && !strong && read_in_stripes(d, site, t, base, part.lanes & t.lanes)) continue;
    Mask rest = part.lanes & t.lanes;
    if (t.kind == Access::update && strong && is_one_place(t)) rest = record_together(d, site, place, t.bytes, rest);
    for (; rest; rest &= rest - 1) {
      d.lane = std::countr_zero(rest);
      record(d, site, base + (t.at[d.lane] & t.mask), t.bytes);
    }
  }
  touching_ = nullptr;
  if (t.memory && t.memory != &t.warp.cta) {
    for (Mask rest = t.lanes; rest; rest &= rest - 1) {
      d.lane = std::countr_zero(rest);
      visit(d, site, {t.space, t.memory, t.at[d.lane] & t.mask, t.bytes}, t.warp.cta);
    }
  }
  if (strong) synchronise(w, t, base, d, false);
  if (vain) w.vain = {place, releases_[place].version, w.learned, w.stamp, t.pc, t.lanes};
}

// How wide each access is: those of a vector are accesses of its elements (manual 8.2.4).
std::uint32_t Races::width(std::uint32_t pc, std::uint32_t bytes) const {
  const Op& op = launch_.program.ops[pc];
  return op.type != isa::Type::none && op.element < bytes ? op.element : bytes;
}

// What a strong access learns, `before` it is judged and after; and what it releases.
void Races::synchronise(Watched& w, const Touch& t, std::uint64_t base, const Doer& d, bool before) {
  for (std::uint32_t element = 0; element < t.bytes; element += width(t.pc, t.bytes)) {
    const auto place = [&](int lane) { return base + (t.at[lane] & t.mask) + element; };
    const bool red = t.kind == Access::update && launch_.program.ops[t.pc].destinations == 0;
    const bool together = is_one_place(t) && (t.kind == Access::read || updates_at_once(w, t, red));
    for (Mask rest = t.lanes; rest;) {
      const int lane = std::countr_zero(rest);
      const Mask some = together ? rest : Mask{1} << lane;
      rest &= ~some;
      if (t.kind != Access::write && !red) read_releases(w, some, place(lane), d, before);
      if (!before && writes(t.kind)) write_release(w, some, place(lane), d);
    }
    for (Mask rest = t.kind == Access::update && !before ? t.lanes : 0; rest; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      w.updated[static_cast<std::size_t>(lane)] = place(lane);
    }
  }
}

// Whether lanes that update one place learn nothing of each other by that, so that they tell what they have at once.
bool Races::updates_at_once(const Watched& w, const Touch& t, bool red) {
  if (t.kind != Access::update || t.manner.order != Order::relaxed) return false;
  for (Mask rest = t.lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(rest));
    if ((w.held[lane] && w.held[lane]->released) || (!red && w.own.sequenced[lane])) return false;
  }
  return red || std::ranges::none_of(w.parts, [](const Part& p) {
           return p.view.of[View::tensor_before] || p.view.of[View::sequential];
         });
}

// These lanes have read the place before, and nobody has written there since: nothing is new.
bool Races::looks_again(Watched& w, const Touch& t, std::uint64_t base, std::uint32_t site) const {
  const std::uint64_t address = base + (t.at[std::countr_zero(t.lanes)] & t.mask);
  auto& l = w.looked;
  const auto found = releases_.find(address);
  if (l.site != site) l.site = site, l.lanes = 0;
  return found != releases_.end() && l.address == address && l.version == found->second.version && l.pc == t.pc &&
         (t.lanes & ~l.lanes) == 0;
}

// The warp has done nothing since it did this, and nobody has written there since.
bool Races::updates_again(const Watched& w, const Touch& t, std::uint64_t address) const {
  const auto& v = w.vain;
  if (w.stamped || v.stamp != w.stamp || v.learned != w.learned) return false;
  if (v.address != address || v.pc != t.pc || v.lanes != t.lanes) return false;
  const auto found = releases_.find(address);
  return found != releases_.end() && found->second.version == v.version;
}

// The lanes have executed a fence again, and look at what they looked at before it, where nobody has written since. A
// loop that went round less often would have done the same: neither the fence nor the look tells anybody of anything.
bool Races::waits_again(Watched& w, const Touch& t, std::uint64_t place, std::uint64_t base) const {
  if (w.fence_again != t.lanes || w.look.address != place || w.look.pc != t.pc) return false;
  if (!looks_again(w, t, base, w.looked.site)) return false;
  w.fence_again = 0;
  return true;
}

void Races::accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) {
  const bool global = where.space == isa::Space::global;
  if (!beside_.empty() && global) look_beside(agent, where, kind);
  if (!is_watched(where.space, global ? launch_.memory.find(where.offset) : nullptr)) return;
  if (agent.operation) return by_copy(agent, where, kind, manner) ? void() : by_operation(agent, where, kind, manner);
  Watched& w = watched(*agent.warp);
  const auto bytes = static_cast<std::uint32_t>(where.bytes);
  Doer d{&view_of(w, agent.lane), w.who, w.who, agent.lane, agent.pc, bytes, manner, kind, false};
  d.own = &w.own;
  const std::uint32_t site = site_of(w, d);
  w.stamped = true, w.copies = nullptr, w.look = {};
  if (manner.order == Order::weak) w.touched = true;
  touch(d, site, flat(where), where.bytes);
  visit(d, site, where, agent.warp->cta);
}

// Notes that an operation, or somebody of another CTA, was in the shared memory of a CTA, which has to live until then.
void Races::visit(const Doer& d, std::uint32_t site, const Location& where, const Cta& from) {
  // cp.async is its thread's own; the manual has nothing on one that a thread leaves behind.
  const bool outlives = d.operation && d.manner.proxy == Proxy::async && where.space == isa::Space::shared_cta;
  if (!where.memory || (where.memory == &from && !outlives)) return;
  const Visit now{where.memory, site, d.lane};
  if (now == last_visit_) return;
  last_visit_ = now;
  const Cta& host = *static_cast<const Cta*>(where.memory);
  if (!host.finished()) {
    const bool first = visits_[number(host)].insert_or_assign({d.who, d.lane}, site).second;
    if (first && where.memory != &from && d.view && !knows_of(*d.view, number(host)))
      report_early(d, number(host), where);
  } else if (const auto left = left_.find(number(host)); left != left_.end()) {
    const Left& l = left->second;
    const Site exit{l.thread, l.thread, 0, l.pc, 0, {}, Access::read, false};
    report(too_late(d, number(host)), d, exit, l.lane, flat(where));
  }
}

// Whether some thread of the CTA has told the other of itself, so that it has begun.
bool Races::knows_of(const View& view, std::uint64_t cta) {
  const Known& clock = view.of[View::any_order];
  if (!clock) return false;
  const auto at = std::lower_bound(clock->begin(), clock->end(), who_cta(cta),
                                   [](const Moment& m, Who who) { return m.who < who; });
  return at != clock->end() && at->who < who_cta(cta + 1);
}

// What is wrong with who is in a CTA's shared memory when it exits.
Code Races::too_late(const Doer& d, std::uint64_t host) {
  return d.operation && cta_number(d.thread) == host ? Code::missing_wait : Code::peer_exited;
}

// ---- bytes

// One agent's access of bytes side by side.
void Races::touch(Doer& d, std::uint32_t site, std::uint64_t address, std::uint64_t bytes) {
  const bool words = d.kind == Access::read && d.manner.order == Order::weak && address % 4 == 0 && bytes % 4 == 0;
  const int lane = d.lane;
  while (bytes) {
    const std::uint64_t begin = address % TouchBlock::bytes, some = std::min(bytes, TouchBlock::bytes - begin);
    const std::uint64_t all = ((std::uint64_t{1} << some / 4) - 1) << begin / 4;
    const Stripe stripe{site, Mask{1} << lane, static_cast<std::uint32_t>(all), 0, 0};
    const bool read = words && read_stripe(d, stripe, address - begin);
    d.lane = lane;
    if (!read) record(d, site, address, some);
    address += some, bytes -= some;
  }
}

// As much as has its own cells in one block: whole cells of 16 bytes, or less than one.
static std::uint64_t piece_of(std::uint64_t address, std::uint64_t bytes) {
  if (address % 16 == 0 && bytes >= 16)
    return std::min(bytes & ~std::uint64_t{15}, TouchBlock::bytes - address % TouchBlock::bytes);
  const std::uint64_t aligned = address & (~address + 1);
  return std::min({std::uint64_t{16}, aligned ? aligned : 16, std::bit_floor(bytes)});
}

static bool is_read(const TouchBlock& block, std::size_t cell) {
  return block.cells[cell].reads || std::any_of(block.stripes.begin(), block.stripes.end(), [&](const Stripe& stripe) {
           return (stripe.words & block.words(cell)) != 0;
         });
}

void Races::record(Doer& d, std::uint32_t site, std::uint64_t address, std::uint64_t bytes) {
  while (bytes) {
    const std::uint64_t piece = piece_of(address, bytes);
    if (writes(d.kind) && (piece < 4 || d.manner.order != Order::weak)) lay_in_cells(address);
    TouchBlock& block = plane_.block(address, static_cast<std::uint32_t>(std::min<std::uint64_t>(piece, 16)), sets_);
    const std::size_t first = address % TouchBlock::bytes >> block.shift;
    const std::size_t next = first + std::max<std::size_t>(1, piece >> block.shift);
    if (d.manner.order != Order::weak) {
      block.synchronises = true;
    } else if (block.synchronises && writes(d.kind)) {  // whoever reads it now reads nothing that was released
      releases_.erase(releases_.lower_bound(address), releases_.lower_bound(address + piece));
    }
    const bool quick = next - first > 1 && write_quickly(d, site, block, first, next, address);
    for (std::size_t i = first; i < next && !quick; ++i) {
      TouchCell& cell = block.cells[i];
      if (is_repeated(d, cell, site) || touch_quickly(d, site, block, i, address)) continue;
      const std::uint64_t at = std::max(address, (address & ~(TouchBlock::bytes - 1)) + (i << block.shift));
      d.first = !cell.writes || (d.operation && comes_first(d, cell.writes));
      const bool again = at < tensor_window && fills_again(d, cell.writes) && is_read(block, i);
      if (cell.writes && !again) check(d, cell.writes, at);
      if (writes(d.kind)) {
        if (!block.stripes.empty()) write_stripes(d, block, block.words(i), at);
        write_cell(d, site, cell, at);
      } else {
        cell.reads = add(d, cell.reads, site);
      }
    }
    address += piece, bytes -= piece;
  }
}

// Updates of one place by lanes that know the same: what is to say of other warps' accesses is said of the first.
// Returns the lanes that are still to be recorded.
Mask Races::record_together(Doer& d, std::uint32_t site, std::uint64_t address, std::uint64_t bytes, Mask mask) {
  if (mask == 0) return 0;
  d.lane = std::countr_zero(mask);
  record(d, site, address, bytes);
  const Mask rest = mask & (mask - 1);
  if (rest == 0 || piece_of(address, bytes) != bytes) return rest;
  TouchBlock& block = plane_.block(address, static_cast<std::uint32_t>(bytes), sets_);
  TouchCell& cell = block.cells[address % TouchBlock::bytes >> block.shift];
  if (bytes >> block.shift > 1 || !block.stripes.empty()) return rest;
  if (!go_on_alike(d, site, cell.writes, rest) || !go_on_alike(d, site, cell.reads, rest)) return rest;
  if (const auto* const reads = sets_.set(cell.reads); reads && reads->empty())
    sets_.drop(std::exchange(cell.reads, 0));
  if (!sets_.set(cell.writes)) cell.writes = sets_.make({{cell.writes >> 5, Mask{1} << (cell.writes & 31)}});
  for (Lanes& l : *sets_.set(cell.writes)) {
    if (l.site == site) return l.mask |= rest, 0;
  }
  return rest;
}

// Whether these lanes may follow the accesses as another lane of their warp has. Their own earlier ones are taken out.
bool Races::go_on_alike(const Doer& d, std::uint32_t site, Touches earlier, Mask mask) {
  const auto is_own = [&](std::uint32_t other) { return other != site && sites_[other].who == d.who; };
  bool alike = true;
  sets_.each(earlier, [&](std::uint32_t other, Mask) {
    const Site& s = sites_[other];
    alike = alike && (!is_own(other) || (morally_strong(d, s) && !shares_volatile_data(d, s) && includes_manner(d, s)));
  });
  std::vector<Lanes>* const set = sets_.set(earlier);
  if (!alike || !set) return alike && (!earlier || !is_own(earlier >> 5));
  for (Lanes& l : *set) l.mask &= ~(is_own(l.site) ? mask : 0);
  std::erase_if(*set, [](const Lanes& l) { return l.mask == 0; });
  return true;
}

// A copy over another's bytes that somebody has read since: that reader waited for the earlier one, or was reported.
bool Races::fills_again(const Doer& d, Touches earlier) const {
  return d.operation && d.kind == Access::write && !(earlier & set_bit) && sites_[earlier >> 5].operation;
}

// st.async and red.async into what a thread wrote: zeros, say. Who has read them too early did not read a stage.
bool Races::comes_first(const Doer& d, Touches earlier) const {
  if (earlier & set_bit || !launch_.program.is(d.pc, isa::Trait::async_stores)) return false;
  return !sites_[earlier >> 5].operation;
}

// Whether this strong access is there already. Whoever came between was judged by it, and it would be judged in the
// same way again.
bool Races::is_repeated(const Doer& d, const TouchCell& cell, std::uint32_t site) {
  if (d.manner.order == Order::weak) return false;
  const Touches there = writes(d.kind) ? cell.writes : cell.reads;
  if (!there) return false;
  const std::vector<Lanes>* const set = sets_.set(there);
  if (!set) return there == (site << 5 | static_cast<Touches>(d.lane));
  return std::any_of(set->begin(), set->end(),
                     [&](const Lanes& l) { return l.site == site && (l.mask >> d.lane & 1); });
}

// A weak access behind accesses that are all over: what check, write_cell and add would do.
bool Races::touch_quickly(Doer& d, std::uint32_t site, TouchBlock& block, std::size_t i, std::uint64_t address) const {
  TouchCell& cell = block.cells[i];
  if (d.manner.order != Order::weak || !is_over(d, cell.writes, address)) return false;
  const Touches own = site << 5 | static_cast<Touches>(d.lane);
  if (writes(d.kind)) {
    if (!is_over(d, cell.reads, address) || !is_over(d, block, block.words(i), address)) return false;
    for (Stripe& stripe : block.stripes) stripe.words &= ~block.words(i);
    cell = {own, 0};
    return true;
  }
  if (cell.reads == own) return true;
  if (cell.reads &&
      (cell.reads & set_bit || !stands_for(d, sites_[cell.reads >> 5], static_cast<int>(cell.reads & 31))))
    return false;
  cell.reads = own;
  return true;
}

// Does the same with a weak write to cells side by side: to all of them, or to none.
bool Races::write_quickly(Doer& d, std::uint32_t site, TouchBlock& block, std::size_t first, std::size_t next,
                          std::uint64_t address) const {
  if (d.kind == Access::read || d.manner.order != Order::weak) return false;
  std::uint32_t words = 0;
  for (std::size_t i = first; i < next; ++i) {
    const TouchCell& cell = block.cells[i];
    if (!is_over(d, cell.writes, address) || !is_over(d, cell.reads, address)) return false;
    words |= block.words(i);
  }
  if (!is_over(d, block, words, address)) return false;
  if (!block.stripes.empty()) {
    for (Stripe& stripe : block.stripes) stripe.words &= ~words;
    std::erase_if(block.stripes, [](const Stripe& stripe) { return stripe.words == 0; });
  }
  std::fill(block.cells.begin() + static_cast<std::ptrdiff_t>(first),
            block.cells.begin() + static_cast<std::ptrdiff_t>(next),
            TouchCell{site << 5 | static_cast<Touches>(d.lane), 0});
  return true;
}

// Whether verdict finds nothing wrong with one access before this one; not of sets.
bool Races::is_over(Doer& d, Touches earlier, std::uint64_t address) const {
  if (!earlier) return true;
  if (earlier & set_bit) return false;
  const Site& s = sites_[earlier >> 5];
  const bool own = !d.operation && !s.operation && s.who == d.who && static_cast<int>(earlier & 31) == d.lane;
  return (own && s.manner.proxy == d.manner.proxy) || is_known(d, earlier >> 5, address);
}

// The same of all accesses of a site. False where it takes more to tell.
bool Races::is_known(Doer& d, std::uint32_t site, std::uint64_t address) const {
  if (site == d.asks.over || site == d.asks.over_before) return true;
  const Site& s = sites_[site];
  if (d.manner.proxy == Proxy::read_only && writes(s.kind)) return false;
  const bool tensor = address >= tensor_window;
  const bool fences =
      tensor ? s.thread != d.thread : s.manner.proxy == Proxy::generic && d.manner.proxy != Proxy::generic;
  if (fences && !tensor && d.manner.proxy != Proxy::async) return false;
  const View::Kind fenced = tensor                    ? View::tensor_after
                            : address < shared_window ? View::async_global
                                                      : View::async_shared;
  if (!(fences && tensor) && known_until(d.view->of[View::base], s.who) < s.time) return false;
  if (fences && known_until(d.view->of[fenced], s.who) < s.time) return false;
  d.asks.over_before = d.asks.over, d.asks.over = site;
  return true;
}

// Whoever knows a weak write knows what that write knew, and a thread that does not races with it: all that was before
// is forgotten. Of a strong one that does not follow, since others may come unordered and be right.
void Races::write_cell(Doer& d, std::uint32_t site, TouchCell& cell, std::uint64_t address) {
  if (cell.reads) check(d, cell.reads, address);
  if (std::exchange(equal_, false)) {
    if (std::exchange(replaces_, false)) sets_.drop(std::exchange(cell.writes, 0));
    return sets_.drop(cell.reads), void(cell = {add(d, cell.writes, site), 0});
  }
  if (d.manner.order == Order::weak) {
    sets_.drop(cell.reads), sets_.drop(cell.writes);
    cell = {site << 5 | static_cast<Touches>(d.lane), 0};
    return;
  }
  cell.reads = forget(d, cell.reads);
  cell.writes = add(d, forget(d, cell.writes), site);
}

// Without the strong accesses that this strong one stands for.
Touches Races::forget(Doer& d, Touches earlier) {
  if (!earlier) return 0;
  if (std::vector<Lanes>* const set = sets_.set(earlier)) {
    for (Lanes& l : *set) l.mask &= ~stood_for(d, l.site);
    std::erase_if(*set, [](const Lanes& l) { return l.mask == 0; });
    if (!set->empty()) return earlier;
    sets_.drop(earlier);
    return 0;
  }
  return stands_for(d, earlier >> 5, static_cast<int>(earlier & 31)) ? 0 : earlier;
}

// Whether whoever is morally strong with the access of now would be so with that one, or need not be with either.
bool Races::includes_manner(const Doer& d, const Site& s) {
  return d.manner.order == Order::weak || (s.manner.order != Order::weak && s.manner.scope >= d.manner.scope);
}

// Whether whoever is right towards the access of now is right towards that one before it.
bool Races::stands_for(const Doer& d, const Site& s, int lane) const {
  const bool own = !d.operation && !s.operation && s.who == d.who && lane == d.lane;
  return (own || knows(d, View::base, s, lane)) && includes_manner(d, s);
}

// The lanes of a site that it stands for.
Mask Races::stood_for(Doer& d, std::uint32_t site) const {
  const Site& s = sites_[site];
  const bool own = stands_for(d, site, d.lane);
  if (is_stream(s.who)) return own ? full_mask : 0;
  const Mask known = includes_manner(d, s) ? known_lanes(d.view->of[View::base], s.who, s.time) : 0;
  return known | (own ? Mask{1} << d.lane : 0);
}

// The same, where an operation asks of an operation again and again.
bool Races::stands_for(Doer& d, std::uint32_t site, int lane) const {
  std::uint32_t& apart = d.asks.apart[site % d.asks.apart.size()];
  if (apart == site) return false;
  if (stands_for(d, sites_[site], lane)) return true;
  if (d.operation && is_stream(sites_[site].who)) apart = site;
  return false;
}

Touches Races::add(Doer& d, Touches to, std::uint32_t site) {
  const Touches own = site << 5 | static_cast<Touches>(d.lane);
  if (!to || to == own) return own;
  const Mask bit = Mask{1} << d.lane;
  if (!(to & set_bit)) {
    const int lane = static_cast<int>(to & 31);
    if (stands_for(d, to >> 5, lane)) return own;
    return sets_.make({{to >> 5, Mask{1} << lane}, {site, bit}});
  }
  std::vector<Lanes>& set = *sets_.set(to);
  // Who comes again was mostly here a moment ago; older ones leave when the list has doubled, so that data which every
  // CTA reads costs the same for the last as for the first.
  constexpr std::size_t recent = 32;
  const std::size_t from = set.size() > recent ? set.size() - recent : 0;
  for (std::size_t i = from; i < set.size(); ++i) {
    Lanes& l = set[i];
    if (l.site == site) return l.mask |= bit, to;
    if (!d.operation && (l.mask & bit) && sites_[l.site].who == d.who && stands_for(d, sites_[l.site], d.lane))
      l.mask &= ~bit;  // earlier in program order
  }
  set.erase(std::remove_if(set.begin() + static_cast<std::ptrdiff_t>(from), set.end(),
                           [](const Lanes& l) { return l.mask == 0; }),
            set.end());
  set.push_back({site, bit});
  if (set.size() > recent && std::has_single_bit(set.size())) drop_earlier(set);
  return to;
}

// Takes out accesses behind which the same lane has a weak one, that stands for them.
void Races::drop_earlier(std::vector<Lanes>& set) const {
  std::unordered_map<Who, Mask> later;
  for (std::size_t i = set.size(); i-- > 0;) {
    const Site& s = sites_[set[i].site];
    if (s.operation) continue;
    Mask& covered = later[s.who];
    const Mask mask = set[i].mask;
    set[i].mask &= ~covered;
    if (s.manner.order == Order::weak) covered |= mask;
  }
  std::erase_if(set, [](const Lanes& l) { return l.mask == 0; });
}

// ---- order

bool Races::knows(const Known& clock, const Site& s, int lane) {
  return known_until(clock, is_stream(s.who) ? s.who : who_thread(s.who, lane)) >= s.time;
}

// By this clock of its view, or by what its thread has done and waited for itself.
bool Races::knows(const Doer& d, View::Kind kind, const Site& s, int lane) {
  if (lane == d.lane && s.who == d.thread && s.time <= d.done) return true;
  if (lane == d.lane && s.who == who_copies(d.thread) && d.own &&
      s.time <= d.own->until[static_cast<std::size_t>(lane)])
    return true;
  return knows(d.view->of[kind], s, lane);
}

void Races::check(const Doer& d, Touches earlier, std::uint64_t address) {
  const Known& base = d.view->of[View::base];
  sets_.each(earlier, [&](std::uint32_t site, Mask mask) {
    const Site& s = sites_[site];
    // Its own accesses are in order, but not those through another proxy.
    const bool same_proxy = d.manner.proxy == s.manner.proxy;
    if (same_proxy && !d.operation && !s.operation && s.who == d.who) mask &= ~(Mask{1} << d.lane);
    if (!mask) return;
    if (d.manner.proxy == Proxy::generic && address < tensor_window) {
      if (morally_strong(d, s) && !shares_volatile_data(d, s)) return;
      if (site == memo_site_ && base == memo_clock_) return;
      if (known_until(base, s.who) >= s.time) {
        memo_site_ = site, memo_clock_ = base;
        return;
      }
    }
    for (; mask; mask &= mask - 1) judge(d, s, std::countr_zero(mask), address);
  });
}

}  // namespace ptx::sim
