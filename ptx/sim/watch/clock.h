// Vector clocks for the happens-before of ptx/sim/watch/races.h. Time is counted once for a launch, so what somebody
// knows of a whole CTA or a whole warp is one number: a clock lists the exceptions alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ptx::sim {

using Time = std::uint32_t;

// Whose time: a CTA's (all of its threads), a warp's, a thread's, that of their copies (cp.async), or that of a stream
// of operations. Those of a CTA sort behind each other: itself, then each warp followed by its lanes; so do their
// copies.
using Who = std::uint64_t;
constexpr Who stream_bit = Who{1} << 63, copies_bit = Who{1} << 62;
constexpr Who who_cta(std::uint64_t cta) { return (cta + 1) << 16; }
constexpr Who who_warp(std::uint64_t cta, std::uint32_t warp) { return who_cta(cta) | Who{warp + 1} << 8; }
constexpr Who who_thread(Who warp, int lane) { return warp | static_cast<Who>(lane + 1); }
constexpr bool is_stream(Who who) { return (who & stream_bit) != 0; }
constexpr Who cta_of(Who who) { return who & ~Who{0xffff}; }
constexpr Who warp_of(Who who) { return who & ~Who{0xff}; }
constexpr std::uint64_t cta_number(Who who) { return (who >> 16) - 1; }

struct Moment {
  Who who = 0;
  Time time = 0;
  bool operator==(const Moment&) const = default;
};

// Sorted by who; none that one for the whole warp or CTA covers. nullptr knows nothing.
using Clock = std::vector<Moment>;
using Known = std::shared_ptr<const Clock>;

// What either knows. One of the arguments itself, if it knows all that the other does.
Known join(const Known& a, const Known& b);
Known join(const Known& a, std::span<const Moment> sorted);

// What both know.
Known meet(const Known& a, const Known& b);

// Up to when `who` is known: its own time, or its warp's or CTA's.
Time known_until(const Known& clock, Who who);

// The lanes of a warp, or of its copies, that are known until then at least.
std::uint32_t known_lanes(const Known& clock, Who warp, Time time);

}  // namespace ptx::sim
