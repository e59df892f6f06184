#include "ptx/sim/watch/clock.h"

#include <algorithm>

namespace ptx::sim {

namespace {

// Takes moments in their order and keeps those that no wider one covers.
class Sieve {
 public:
  explicit Sieve(Clock& out) : out_(out) { out_.clear(); }
  void take(const Moment& m) {
    if (is_stream(m.who)) return out_.push_back(m);
    if (cta_of(m.who) != cta_) cta_ = cta_of(m.who), cta_time_ = 0, warp_ = 0, warp_time_ = 0;
    if (m.who == cta_) {
      cta_time_ = m.time;
    } else if (m.time <= cta_time_) {
      return;
    } else if (m.who == warp_of(m.who)) {
      warp_ = m.who, warp_time_ = m.time;
    } else if (warp_of(m.who) == warp_ && m.time <= warp_time_) {
      return;
    }
    out_.push_back(m);
  }

 private:
  Clock& out_;
  Who cta_ = 0, warp_ = 0;
  Time cta_time_ = 0, warp_time_ = 0;
};

void merge(std::span<const Moment> a, std::span<const Moment> b, Clock& out) {
  Sieve sieve(out);
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (j == b.size() || (i < a.size() && a[i].who < b[j].who)) {
      sieve.take(a[i++]);
    } else if (i == a.size() || b[j].who < a[i].who) {
      sieve.take(b[j++]);
    } else {
      sieve.take({a[i].who, std::max(a[i].time, b[j].time)}), ++i, ++j;
    }
  }
}

// Which of two clocks is known to know all that the other does, by what both list. If they list the same, then what
// either lists stands beside no wider moment that covers it, and so does the later of both.
struct Compared {
  bool alike = true;                 // they list the same
  bool first = true, second = true;  // it knows all
};

Compared compare(const Clock& a, const Clock& b) {
  Compared out;
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size() && (out.alike || out.first || out.second)) {
    if (a[i].who == b[j].who) {
      out.first &= a[i].time >= b[j].time, out.second &= b[j].time >= a[i].time;
      ++i, ++j;
    } else {
      const bool fewer = a[i].who < b[j].who;
      (fewer ? out.second : out.first) = out.alike = false;
      ++(fewer ? i : j);
    }
  }
  if (i < a.size()) out.second = out.alike = false;
  if (j < b.size()) out.first = out.alike = false;
  return out;
}

Known later_of(const Clock& a, const Clock& b) {
  auto out = std::make_shared<Clock>(a);
  for (std::size_t i = 0; i < a.size(); ++i) (*out)[i].time = std::max(a[i].time, b[i].time);
  return out;
}

// A thread, its copies or a stream.
bool covers_none(Who who) { return is_stream(who) || who != warp_of(who); }

Known with(const Clock& a, const Moment& later) {
  const auto at = std::ranges::lower_bound(a, later.who, {}, &Moment::who);
  auto out = std::make_shared<Clock>();
  out->reserve(a.size() + 1);
  out->assign(a.begin(), at);
  out->push_back(later);
  out->insert(out->end(), at + (at != a.end() && at->who == later.who), a.end());
  return out;
}

}  // namespace

Known join(const Known& a, std::span<const Moment> b) {
  static thread_local Clock both;
  if (b.empty()) return a;
  if (a && b.size() == 1 && covers_none(b[0].who)) return known_until(a, b[0].who) >= b[0].time ? a : with(*a, b[0]);
  merge(a ? std::span<const Moment>(*a) : std::span<const Moment>(), b, both);
  if (a && both == *a) return a;
  return std::make_shared<const Clock>(both);
}

Known join(const Known& a, const Known& b) {
  if (a == b || !b) return a;
  if (!a) return b;
  const Compared compared = compare(*a, *b);
  if (compared.first) return a;
  if (compared.second) return b;
  if (compared.alike) return later_of(*a, *b);
  static thread_local Clock both;
  merge(*a, *b, both);
  if (both == *b) return b;
  if (both == *a) return a;
  return std::make_shared<const Clock>(both);
}

Known meet(const Known& a, const Known& b) {
  if (a == b) return a;
  if (!a || !b) return nullptr;
  static thread_local Clock both;
  const auto less = [&](const Moment& m) {
    return Moment{m.who, std::min(known_until(a, m.who), known_until(b, m.who))};
  };
  Sieve sieve(both);
  for (std::size_t i = 0, j = 0; i < a->size() || j < b->size();) {
    const bool first = j == b->size() || (i < a->size() && (*a)[i].who <= (*b)[j].who);
    const Moment m = less(first ? (*a)[i] : (*b)[j]);
    if (first && j < b->size() && (*b)[j].who == m.who) ++j;
    ++(first ? i : j);
    if (m.time) sieve.take(m);
  }
  return std::make_shared<const Clock>(both);
}

Time known_until(const Known& clock, Who who) {
  if (!clock) return 0;
  auto from = clock->begin();
  Time time = 0;
  auto look = [&](Who wider) {
    from = std::lower_bound(from, clock->end(), wider, [](const Moment& m, Who w) { return m.who < w; });
    if (from != clock->end() && from->who == wider) time = std::max(time, from->time);
  };
  if (!is_stream(who)) {
    look(cta_of(who));
    if (warp_of(who) != cta_of(who)) look(warp_of(who));
  }
  look(who);
  return time;
}

std::uint32_t known_lanes(const Known& clock, Who warp, Time time) {
  if (known_until(clock, warp) >= time) return ~0u;
  if (!clock) return 0;
  std::uint32_t out = 0;
  auto at = std::ranges::upper_bound(*clock, warp, {}, &Moment::who);
  for (; at != clock->end() && warp_of(at->who) == warp; ++at) {
    if (at->time >= time) out |= 1u << (at->who - warp - 1);
  }
  return out;
}

}  // namespace ptx::sim
