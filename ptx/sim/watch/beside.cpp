// Launches that may start before the one ahead of them has ended (griddepcontrol, manual 9.7.13.13): whoever touches
// what that one wrote comes behind a thread that has waited for it. What it has read, and may read still, is not asked.
#include <algorithm>
#include <bit>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/sim/watch/races.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

void Races::begin_beside(std::vector<Recording::Unfinished> unfinished) {
  beside_ = std::move(unfinished);
  launch_before_ = new_stream();
}

std::vector<Recording::Unfinished> Races::unfinished() const {
  std::vector<Recording::Unfinished> out;
  const std::vector<std::string_view>& names = launch_.program.mnemonics;
  if (std::find(names.begin(), names.end(), "griddepcontrol.launch_dependents") == names.end()) return out;
  std::vector<std::pair<std::uint64_t, const TouchBlock*>> blocks;
  plane_.each_address([&](std::uint64_t address, const TouchBlock& b) {
    if (address < shared_window) blocks.emplace_back(address, &b);
  });
  std::sort(blocks.begin(), blocks.end());
  std::uint32_t last = 0;  // pc
  for (const auto& [address, block] : blocks) {
    for (std::size_t i = 0; i < block->cells.size(); ++i) {
      const std::uint64_t begin = address + (i << block->shift), bytes = std::uint64_t{1} << block->shift;
      const Range* const range = block->cells[i].writes ? launch_.memory.find(begin) : nullptr;
      if (!range || range->end - begin < bytes) continue;
      std::uint32_t pc = 0;
      sets_.each(block->cells[i].writes, [&](std::uint32_t site, Mask) { pc = sites_[site].pc; });
      if (out.empty() || pc != last || out.back().begin + out.back().bytes.size() != begin)
        out.push_back({.begin = begin, .by = place_of(pc)});
      const auto* from = reinterpret_cast<const std::byte*>(begin);
      out.back().bytes.insert(out.back().bytes.end(), from, from + bytes);
      last = pc;
    }
  }
  return out;
}

void Races::look_beside(const Touch& t) {
  Watched& w = watched(t.warp);
  for (Mask rest = t.lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    look_beside(w.who, lane, t.pc, view_of(w, lane), t.kind, t.at[lane] & t.mask, t.bytes);
  }
}

void Races::look_beside(const Agent& agent, const Location& where, Access kind) {
  Watched& w = watched(*agent.warp);
  const std::uint64_t key = key_of(agent);
  const auto own = agent.operation ? ongoing_.find(key) : ongoing_.end();
  const auto copy = agent.operation ? copying_.find(key) : copying_.end();
  const View& view = own != ongoing_.end()    ? own->second.view
                     : copy != copying_.end() ? copy->second.all->view
                                              : view_of(w, agent.lane);
  look_beside(w.who, agent.lane, agent.pc, view, kind, where.offset, where.bytes);
}

void Races::look_beside(Who thread, int lane, std::uint32_t pc, const View& view, Access kind, std::uint64_t address,
                        std::uint64_t bytes) {
  if (known_until(view.of[View::any_order], launch_before_) != 0) return;
  auto at = std::upper_bound(beside_.begin(), beside_.end(), address,
                             [](std::uint64_t a, const Recording::Unfinished& u) { return a < u.begin; });
  if (at != beside_.begin()) --at;
  for (; at != beside_.end() && at->begin < address + bytes; ++at) {
    const std::uint64_t begin = std::max(address, at->begin);
    const std::uint64_t end = std::min(address + bytes, at->begin + at->bytes.size());
    if (begin >= end ||
        std::memcmp(reinterpret_cast<const void*>(begin), &at->bytes[begin - at->begin], end - begin) != 0)
      continue;
    return report_beside(thread, lane, pc, kind, begin, end - begin, at->by);
  }
}

}  // namespace ptx::sim
