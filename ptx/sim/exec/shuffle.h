// Instructions in which the lanes of a warp see each other's registers: shfl, vote, match, redux, elect
// (manual 9.7.9.6, 9.7.13.8 to .14). The lanes that a membermask names have come together before one of these runs;
// lanes with other masks are other groups.
#pragma once

#include "ptx/base/text.h"
#include "ptx/sim/exec/lanes.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/watch/observer.h"

namespace ptx::sim::shuffle_detail {

using lane_detail::keep;

inline const u32* row32(Warp& w, const Operand& o) { return reinterpret_cast<const u32*>(w.row(o)); }
inline const u64* row64(Warp& w, const Operand& o) { return reinterpret_cast<const u64*>(w.row(o)); }

// The first lane whose value differs from that of the first active one, where all have to give the same; `lanes`: none.
inline int differing_lane(Warp& w, const Operand& o, Mask active) {
  const auto value = [&](int lane) { return o.cell == 8 ? row64(w, o)[lane] : row32(w, o)[lane]; };
  int lane = 0;
  while (lane < lanes && (!(active >> lane & 1) || value(lane) == value(std::countr_zero(active)))) ++lane;
  return lane;
}

inline void write_predicate(Warp& w, const Operand& o, Mask value, Mask active) {
  Mask& p = *reinterpret_cast<Mask*>(w.row_to_write(o));
  p = (p & ~active) | (value & active);
}

// f(group) for each set of active lanes that name the same members; `masks` is the row of membermasks, nullptr: all are
// one group. False after a fault: a lane whose mask does not name it.
template <class F>
bool for_groups(Warp& w, const u32* masks, Mask active, F f) {
  for (Mask left = active; left;) {
    const int first = std::countr_zero(left);
    Mask group = active;
    if (masks) {
      group = 0;
      for (int i = first; i < lanes; ++i) {
        if ((left >> i & 1) && masks[i] == masks[first]) group |= Mask{1} << i;
      }
      if (const Mask outside = group & ~masks[first]) {
        w.fault(Code::bad_member_mask, std::countr_zero(outside),
                "executes it with a membermask that does not name the thread itself");
        return false;
      }
      if (const Mask apart = masks[first] & w.live & ~group) {
        const int other = std::countr_zero(apart);
        Text t;
        t << "executes it with the membermask 0x";
        t.hex(masks[first]) << ", and lane " << other << ", which that names, with 0x";
        t.hex(masks[other]) << "; lanes that name each other have one membermask";
        w.fault(Code::bad_member_mask, first, t.take());
        return false;
      }
      if (Observer* const observer = w.cta.launch.observer) observer->gathered(w, group);
    }
    f(group);
    left &= ~group;
  }
  return true;
}

// shfl: d{|p}, a, b, c{, membermask}
template <class Lane>
void shuffle(Warp& w, const Op& op, Mask active, Lane source_lane) {
  const Operand* s = op.operands + op.destinations;
  const u32 *a = row32(w, s[0]), *b = row32(w, s[1]), *c = row32(w, s[2]);
  u32 out[lanes];
  Mask in_range = 0, lost = 0;  // lost: what a thread that does not take part has
  for (int lane = 0; lane < lanes; ++lane) {
    const int segment = static_cast<int>(c[lane] >> 8 & 31), clamp = static_cast<int>(c[lane] & 31);
    const int max_lane = (lane & segment) | (clamp & ~segment & 31), min_lane = lane & segment;
    const auto [j, ok] = source_lane(lane, static_cast<int>(b[lane] & 31), min_lane, max_lane, segment);
    const bool there = active >> j & 1;
    out[lane] = a[ok && there ? j : lane];
    in_range |= Mask{ok} << lane;
    if (ok && !there)
      lost |= Mask{1} << lane, w.unwritten.address[static_cast<std::size_t>(lane)] = static_cast<u64>(j);
  }
  if (lost &= active) w.unwritten.lanes = lost, w.event = Event::undefined;
  keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
  write_predicate(w, op.operands[1], in_range, active);
}
struct From {
  int lane;
  bool ok;
};
inline void shuffle_up(Warp& w, const Op& op, Mask active) {
  shuffle(w, op, active, [](int lane, int b, int, int max, int) { return From{(lane - b) & 31, lane - b >= max}; });
}
inline void shuffle_down(Warp& w, const Op& op, Mask active) {
  shuffle(w, op, active, [](int lane, int b, int, int max, int) { return From{(lane + b) & 31, lane + b <= max}; });
}
inline void shuffle_bfly(Warp& w, const Op& op, Mask active) {
  shuffle(w, op, active, [](int lane, int b, int, int max, int) { return From{lane ^ b, (lane ^ b) <= max}; });
}
inline void shuffle_idx(Warp& w, const Op& op, Mask active) {
  shuffle(w, op, active, [](int, int b, int min, int max, int segment) {
    const int j = min | (b & ~segment & 31);
    return From{j, j <= max};
  });
}
template <Handler run>
void checked(Warp& w, const Op& op, Mask active) {
  const u32* masks = row32(w, op.operands[op.destinations + op.sources - 1]);
  if (for_groups(w, masks, active, [](Mask) {})) run(w, op, active);
}
inline Bound bind_plain(const isa::Match& m) {
  const Mods mod = mods(m);
  const Handler run = mod.up ? &shuffle_up : mod.down ? &shuffle_down : mod.bfly ? &shuffle_bfly : &shuffle_idx;
  return {.run = run, .whole_warp = true, .uses = Uses::passes};
}
inline Bound bind_sync(const isa::Match& m) {
  const Mods mod = mods(m);
  const Handler run = mod.up     ? &checked<&shuffle_up>
                      : mod.down ? &checked<&shuffle_down>
                      : mod.bfly ? &checked<&shuffle_bfly>
                                 : &checked<&shuffle_idx>;
  return {.run = run, .whole_warp = true, .converge = true, .uses = Uses::passes};
}

// vote: p, {!}a{, membermask}
template <bool sync>
void vote(Warp& w, const Op& op, Mask active) {
  const Mask a = w.predicate(op.operands[1]);
  Mask out = 0;
  const bool done = for_groups(w, sync ? row32(w, op.operands[2]) : nullptr, active, [&](Mask group) {
    const Mask said = a & group;
    const bool yes = op.mods.all ? said == group : op.mods.any ? said != 0 : said == group || said == 0;
    if (yes) out |= group;
  });
  if (done) write_predicate(w, op.operands[0], out, active);
}
template <bool sync>
void ballot(Warp& w, const Op& op, Mask active) {
  const Mask a = w.predicate(op.operands[1]);
  u32 out[lanes];
  const bool done = for_groups(w, sync ? row32(w, op.operands[2]) : nullptr, active, [&](Mask group) {
    for (int i = 0; i < lanes; ++i) {
      if (group >> i & 1) out[i] = a & group;
    }
  });
  if (done) keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}
template <Handler run, bool sync>
Bound bind_vote(const isa::Match&) {
  return {.run = run, .whole_warp = true, .converge = sync};
}

// match: d{|p}, a, membermask
template <bool wide>
u64 value_of(Warp& w, const Operand& o, int lane) {
  return wide ? row64(w, o)[lane] : row32(w, o)[lane];
}
template <bool wide>
void match_any(Warp& w, const Op& op, Mask active) {
  u32 out[lanes];
  const bool done = for_groups(w, row32(w, op.operands[2]), active, [&](Mask group) {
    for (int i = 0; i < lanes; ++i) {
      if (!(group >> i & 1)) continue;
      out[i] = 0;
      for (int j = 0; j < lanes; ++j) {
        const bool same = value_of<wide>(w, op.operands[1], i) == value_of<wide>(w, op.operands[1], j);
        if ((group >> j & 1) && same) out[i] |= 1u << j;
      }
    }
  });
  if (done) keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}
template <bool wide>
void match_all(Warp& w, const Op& op, Mask active) {
  u32 out[lanes];
  Mask p = 0;
  const bool done = for_groups(w, row32(w, op.operands[3]), active, [&](Mask group) {
    const u64 first = value_of<wide>(w, op.operands[2], std::countr_zero(group));
    bool all = true;
    for (int i = 0; i < lanes; ++i) {
      if (group >> i & 1) all &= value_of<wide>(w, op.operands[2], i) == first;
    }
    for (int i = 0; i < lanes; ++i) {
      if (group >> i & 1) out[i] = all ? group : 0;
    }
    if (all) p |= group;
  });
  if (!done) return;
  keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
  write_predicate(w, op.operands[1], p, active);
}
inline Bound bind_match_any(const isa::Match& m) {
  return {
      .run = m.type() == isa::Type::b64 ? &match_any<true> : &match_any<false>, .whole_warp = true, .converge = true};
}
inline Bound bind_match_all(const isa::Match& m) {
  return {
      .run = m.type() == isa::Type::b64 ? &match_all<true> : &match_all<false>, .whole_warp = true, .converge = true};
}

// redux: d, a, membermask
template <class T, class F>
void reduce(Warp& w, const Op& op, Mask active, F f) {
  const u32* a = row32(w, op.operands[1]);
  u32 out[lanes];
  const bool done = for_groups(w, row32(w, op.operands[2]), active, [&](Mask group) {
    T all = std::bit_cast<T>(a[std::countr_zero(group)]);
    for (Mask rest = group & (group - 1); rest; rest &= rest - 1)
      all = f(all, std::bit_cast<T>(a[std::countr_zero(rest)]));
    for (int i = 0; i < lanes; ++i) {
      if (group >> i & 1) out[i] = std::bit_cast<u32>(all);
    }
  });
  if (done) keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}
template <class T>
void redux(Warp& w, const Op& op, Mask active) {
  const Mods m = op.mods;
  reduce<T>(w, op, active, [m](T a, T b) -> T {
    if (m.add) return static_cast<T>(static_cast<u32>(a) + static_cast<u32>(b));
    if (m.min) return b < a ? b : a;
    if (m.max) return a < b ? b : a;
    return m.and_ ? a & b : m.or_ ? a | b : a ^ b;
  });
}
// A NaN loses, unless .NaN is given: then the result is the canonical NaN.
inline void redux_float(Warp& w, const Op& op, Mask active) {
  const Mods m = op.mods;
  reduce<f32>(w, op, active, [m](f32 a, f32 b) -> f32 {
    if (m.abs)
      a = std::bit_cast<f32>(std::bit_cast<u32>(a) & 0x7fffffff),
      b = std::bit_cast<f32>(std::bit_cast<u32>(b) & 0x7fffffff);
    if (a != a || b != b) {
      if (m.NaN || (a != a && b != b)) return std::bit_cast<f32>(0x7fffffffu);
      return a != a ? b : a;
    }
    if (a == 0 && b == 0) return (std::bit_cast<u32>(a) >> 31) == m.min ? a : b;
    return (a < b) == m.min ? a : b;
  });
}
inline Bound bind_redux_int(const isa::Match& m) {
  return {.run = m.type() == isa::Type::s32 ? &redux<s32> : &redux<u32>, .whole_warp = true, .converge = true};
}
inline Bound bind_redux_float(const isa::Match&) { return {.run = &redux_float, .whole_warp = true, .converge = true}; }

// elect.sync d|p, membermask: the lowest thread of the mask.
inline void elect(Warp& w, const Op& op, Mask active) {
  u32 out[lanes];
  Mask leaders = 0;
  const bool done = for_groups(w, row32(w, op.operands[2]), active, [&](Mask group) {
    leaders |= group & (0u - group);
    for (int i = 0; i < lanes; ++i) {
      if (group >> i & 1) out[i] = static_cast<u32>(std::countr_zero(group));
    }
  });
  if (!done) return;
  keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
  write_predicate(w, op.operands[1], leaders, active);
}
inline void active_mask(Warp& w, const Op& op, Mask active) {
  u32 out[lanes];
  for (u32& lane : out) lane = active;
  keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}

}  // namespace ptx::sim::shuffle_detail
