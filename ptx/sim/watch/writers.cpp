#include "ptx/sim/watch/writers.h"

#include <algorithm>

#include "ptx/sim/watch/report.h"

namespace ptx::sim {

std::size_t Writers::of(const Range& range) {
  const auto same = [&](const Recording::Written& w) { return w.begin == range.begin; };
  const auto found = std::find_if(written_.begin(), written_.end(), same);
  if (found == written_.end()) {
    known_.emplace_back();
    auto& made = written_.emplace_back();
    made.name = range.name, made.begin = range.begin, made.by.resize(range.end - range.begin);
    return written_.size() - 1;
  }
  return static_cast<std::size_t>(found - written_.begin());
}

void Writers::accessed(const Agent& agent, const Location& where, Access kind, const Manner&) {
  if (kind == Access::read || where.space != isa::Space::global) return;
  const Range* range = launch_.memory.find(where.offset);
  if (!range || range->heap) return;  // the heap is no memory of the caller's
  const std::size_t index = of(*range);
  Recording::Written& written = written_[index];
  const Warp& w = *agent.warp;
  const launch::Dim3 grid = launch_.grid;
  const std::uint64_t cta = (std::uint64_t{w.cta.id.z} * grid.y + w.cta.id.y) * grid.x + w.cta.id.x;
  const std::uint64_t thread = cta * w.cta.threads + w.index * lanes + static_cast<std::uint64_t>(agent.lane);
  const auto next = static_cast<std::uint32_t>(written.by_whom.size() + 1);
  const auto [number, fresh] = known_[index].try_emplace(std::uint64_t{agent.pc} << thread_bits | thread, next);
  if (fresh)
    written.by_whom.push_back({w.cta.id,
                               thread_id(w, agent.lane),
                               launch_.program.places[agent.pc],
                               launch_.program.mnemonics[agent.pc],
                               {}});
  const auto first = written.by.begin() + static_cast<std::ptrdiff_t>(where.offset - range->begin);
  std::fill_n(first, where.bytes, number->second);
}

std::vector<Recording::Written> Writers::take() {
  std::unordered_map<std::uint32_t, std::string> stored;  // by pc
  for (std::size_t i = 0; i < written_.size(); ++i) {
    for (const auto& [key, number] : known_[i]) {
      const auto pc = static_cast<std::uint32_t>(key >> thread_bits);
      const auto [found, fresh] = stored.try_emplace(pc);
      if (fresh) found->second = launch_.names.describe_stored(pc);
      written_[i].by_whom[number - 1].value = found->second;
    }
  }
  return std::move(written_);
}

}  // namespace ptx::sim
