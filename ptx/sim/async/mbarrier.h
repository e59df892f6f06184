// mbarrier objects (manual 9.7.13.15) of one CTA's shared memory. An object's state lies here and not in its 64 bits,
// which are opaque to programs; the shadow of those bytes says that they are an object's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ptx::sim {

struct Agent;
struct Cluster;
struct Cta;
struct Location;
struct Warp;

struct Mbarrier {
  static constexpr std::uint32_t max_count = (1u << 20) - 1;    // of arrivals and, either way, of the tx-count
  static constexpr std::uint32_t max_count_v1 = (1u << 9) - 1;  // of arrivals, in .layout::v1
  std::uint32_t expected = 0, pending = 0;                      // arrivals: of the next phases, of this one
  std::int64_t tx = 0;                                          // expected and not yet completed, in this phase
  std::uint64_t phase = 0;                                      // that is incomplete
  std::uint64_t expected_bytes = 0;                             // of this phase, for reports
  std::vector<std::uint32_t> arrivals{};                        // pcs that have ever arrived, for reports
  const Warp* maker = nullptr;                                  // whose `lane` executed mbarrier.init at `made`
  std::uint32_t made = 0;
  int lane = 0;
  bool layout_v1 = false;
  bool overtakes = false;  // a phase ended before threads had looked that waited for the one before; it is reported

  std::uint64_t state() const { return phase << 32 | pending; }  // what mbarrier.arrive returns
};

using Mbarriers = std::map<std::uint32_t, Mbarrier>;  // by offset

// Each returns what is wrong, as the end of a sentence whose subject is the thread; "": it is done. The phase that it
// completes begins anew, and those who wait for it go on.
std::string arrive(Cta& cta, std::uint32_t offset, std::uint32_t count, bool drop, std::uint32_t pc);
std::string add_tx(Cta& cta, std::uint32_t offset, std::int64_t bytes);  // expect-tx; negative: complete-tx
void complete_if_due(Cta& cta, std::uint32_t offset);
// Ends the launch for what an agent does to the mbarrier at a place. Names it, where it was made and who arrived.
void fault(Warp& warp, const Agent& agent, const Location& at, std::string what);
// Reports, of a cluster that has ended, each incomplete phase that has got arrivals or bytes (Check::partial_phase).
void report_partial_phases(Cluster& cluster);

}  // namespace ptx::sim
