#include "ptx/sim/async/mbarrier.h"

#include <algorithm>
#include <bit>

#include "ptx/base/text.h"
#include "ptx/sim/checks.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

std::string arrive(Cta& cta, std::uint32_t offset, std::uint32_t count, bool drop, std::uint32_t pc) {
  Mbarrier& b = cta.mbarriers.at(offset);
  if (count == 0 || count > b.pending) {
    const std::string often = count == 1 ? "" : cat(' ', count, " times");
    const char* const bytes =
        b.pending == 0 ? ", and for bytes; whoever arrives for the next phase waits for this one first" : "";
    return cat("arrives", often, ", and this phase waits for ", b.pending, " of ", b.expected, " more", bytes);
  }
  b.pending -= count;
  if (drop) b.expected -= count;
  if (std::find(b.arrivals.begin(), b.arrivals.end(), pc) == b.arrivals.end()) b.arrivals.push_back(pc);
  complete_if_due(cta, offset);
  return {};
}

std::string add_tx(Cta& cta, std::uint32_t offset, std::int64_t bytes) {
  Mbarrier& b = cta.mbarriers.at(offset);
  b.tx += bytes;
  if (bytes > 0) b.expected_bytes += static_cast<std::uint64_t>(bytes);
  if (b.tx > Mbarrier::max_count || b.tx < -std::int64_t{Mbarrier::max_count}) {
    return cat("brings the tx-count to ", b.tx, "; it is at most ", Mbarrier::max_count, " either way");
  }
  complete_if_due(cta, offset);
  return {};
}

// Reports a phase that ends before threads have looked that were waiting for the one before: they may hear of neither,
// as a phase of their parity has begun. Only who has waited for a phase may let the next one end.
static void report_overtaken(Warp& warp, const Fragment& waiting, Mbarrier& b, std::uint32_t offset) {
  if (b.overtakes) return;
  b.overtakes = true;
  Launch& launch = warp.cta.launch;
  const int lane = std::countr_zero(waiting.mask);
  const Location at{isa::Space::shared_cta, nullptr, offset, 8};
  std::vector<std::string> notes;
  for (const std::uint32_t pc : b.arrivals) notes.push_back("arrivals come from " + place_name(*b.maker, pc));
  launch.note({describe_fault(warp, Code::barrier_misuse, waiting.pc - 1, lane,
                              cat("waits here for phase ", waiting.heard.phase, " of the mbarrier ",
                                  describe(launch.program, at), ", and phase ", b.phase - 1,
                                  " may end as well before it looks: nobody waited for this thread before the last "
                                  "arrival; then it waits on"),
                              std::move(notes)),
               {site_of(warp, waiting.pc - 1, lane)}});
}

void complete_if_due(Cta& cta, std::uint32_t offset) {
  Mbarrier& b = cta.mbarriers.at(offset);
  if (b.pending != 0 || b.tx != 0) return;
  b.pending = b.expected;
  b.expected_bytes = 0;
  ++b.phase;
  cta.cluster.idle = 0;
  Observer* const observer = cta.launch.observer;
  const bool looks = cta.launch.options.checks & bit(Check::data_race);
  const Channel channel{Channel::Kind::mbarrier, &cta, offset};
  if (observer) observer->completed(channel);
  for (const auto& w : cta.warps) {
    for (Fragment& f : w->others) {
      if (looks && f.heard.kind == Wait::Kind::mbarrier && f.heard.object == offset) report_overtaken(*w, f, b, offset);
      if (f.wait.kind != Wait::Kind::mbarrier || f.wait.object != offset || f.wait.phase >= b.phase) continue;
      if (observer) observer->passed(*w, f.mask, channel, cta.launch.program.ops[f.pc - 1].manner);
      f.heard = f.wait;
      w->answer(f, true);
    }
  }
}

void fault(Warp& warp, const Agent& agent, const Location& at, std::string what) {
  std::vector<std::string> notes;
  std::vector<Site> sites = {site_of(warp, agent.pc, agent.lane)};
  const bool shared = at.space == isa::Space::shared_cta && at.memory;
  const Mbarriers* const all = shared ? &static_cast<const Cta*>(at.memory)->mbarriers : nullptr;
  const auto found = all ? all->find(static_cast<std::uint32_t>(at.offset)) : Mbarriers::const_iterator{};
  if (all && found != all->end() && found->second.maker) {
    const Mbarrier& b = found->second;
    notes.push_back("it is made by " + place_name(*b.maker, b.made));
    for (const std::uint32_t pc : b.arrivals) notes.push_back("arrivals come from " + place_name(*b.maker, pc));
    sites.push_back(site_of(*b.maker, b.made, b.lane));
  }
  Launch& launch = warp.cta.launch;
  what += cat(" (", describe(launch.program, at), ")");
  warp.event = Event::fault;
  launch.report(warp.cta.cluster.index,
                describe_fault(warp, Code::barrier_misuse, agent.pc, agent.lane, std::move(what), std::move(notes)),
                std::move(sites));
}

void report_partial_phases(Cluster& cluster) {
  if (!(cluster.launch.options.checks & bit(Check::partial_phase))) return;
  for (const auto& cta : cluster.ctas) {
    for (const auto& [offset, b] : cta->mbarriers) {
      if (b.pending == b.expected && b.tx == 0) continue;
      std::vector<std::string> notes;
      for (const std::uint32_t pc : b.arrivals) notes.push_back("arrivals come from " + place_name(*b.maker, pc));
      const Location at{isa::Space::shared_cta, nullptr, offset, 8};
      return cluster.launch.report(
          cluster.index,
          describe_fault(*b.maker, Code::partial_phase, b.made, b.lane,
                         cat("makes the mbarrier ", describe(cluster.launch.program, at), ", whose phase ", b.phase,
                             " is incomplete when the CTA ends: ", progress(b)),
                         std::move(notes)),
          {site_of(*b.maker, b.made, b.lane)});
    }
  }
}

}  // namespace ptx::sim
