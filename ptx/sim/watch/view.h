// What a thread knows of the others, as several clocks (races.h says what each is for), and how it learns.
#pragma once

#include <array>
#include <initializer_list>
#include <span>

#include "ptx/sim/watch/clock.h"

namespace ptx::sim {

struct View {
  enum Kind : std::uint8_t {
    base,
    async_shared,
    async_global,
    tensormap,
    tensor_before,  // has passed tcgen05.fence::before_thread_sync
    tensor_after,   // and then ::after_thread_sync
    sequential,     // has passed a fence.sc of the device, of which the thread has heard by any accesses
    any_scope,
    any_order,
    collective,
    executed,  // and what the warps of a warpgroup have read before a product of theirs that is over
    kinds
  };
  std::array<Known, kinds> of{};
  bool operator==(const View&) const = default;
};

inline void learn(View& view, const View& from, std::initializer_list<View::Kind> kinds) {
  for (const View::Kind kind : kinds) view.of[kind] = join(view.of[kind], from.of[kind]);
}

// What a release tells whoever acquires it: all, but that tcgen05.fence::after_thread_sync orders what the thread
// itself begins behind it, not what other threads do.
inline void learn_all(View& view, const View& from) {
  for (std::size_t i = 0; i < View::kinds; ++i) {
    if (i == View::tensor_after) continue;
    // Mostly the clocks that know too much are the true one.
    const bool same = i >= View::any_scope && view.of[i] == view.of[View::base] && from.of[i] == from.of[View::base];
    if (!same) view.of[i] = join(view.of[i], from.of[i]);
  }
}

// The same; whether anything was new.
inline bool learns_all(View& view, const View& from) {
  const View before = view;
  learn_all(view, from);
  return view != before;
}

// What is told where the scope is too narrow.
inline void learn_beyond_scope(View& view, const View& from) {
  learn(view, from, {View::sequential, View::any_scope, View::any_order});
}

// What is told where the accesses order nothing, and their scope is too narrow as well.
inline void learn_beyond_order(View& view, const View& from) { learn(view, from, {View::sequential, View::any_order}); }

// What relaxed accesses tell: they order tensor memory where the fences of tcgen05 stand around them (9.7.16.6.3).
inline void learn_relaxed(View& view, const View& from) {
  learn(view, from, {View::tensor_before, View::sequential, View::any_order});
}

// Moments that are known for good, of others or of the thread's own.
inline void learn(View& view, std::span<const Moment> moments) {
  const Known before = view.of[View::base];
  view.of[View::base] = join(before, moments);
  for (const View::Kind kind : {View::any_scope, View::any_order, View::collective, View::executed})
    view.of[kind] = view.of[kind] == before ? view.of[View::base] : join(view.of[kind], moments);
}

// A fence.sc is ordered behind each of which its thread has heard: in every schedule, as else they would form a cycle.
inline void learn_sequential(View& view) {
  const Known before = view.of[View::sequential];
  for (const View::Kind kind : {View::base, View::any_scope, View::any_order, View::collective, View::executed})
    view.of[kind] = join(view.of[kind], before);
}

}  // namespace ptx::sim
