#include "ptx/sim/watch/counters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

namespace ptx::sim {

namespace {

constexpr std::uint64_t sector = 32;  // bytes
constexpr int banks = 32;             // of 4 bytes

using WordsOfLanes = std::vector<std::pair<int, std::uint64_t>>;

// Distinct pieces of `size` bytes, in order.
std::vector<std::uint64_t> pieces(std::span<const std::pair<int, std::uint64_t>> touches, std::uint64_t bytes,
                                  std::uint64_t size) {
  std::vector<std::uint64_t> out;
  for (const auto& [lane, at] : touches) {
    for (std::uint64_t i = at / size; i <= (at + bytes - 1) / size; ++i) out.push_back(i);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void add_wavefronts(const WordsOfLanes& touches, std::uint64_t bytes, LineCount& count) {
  const int together = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;  // lanes that are served at a time
  for (auto begin = touches.begin(); begin != touches.end();) {
    const int group = begin->first / together;
    const auto end = std::find_if(begin, touches.end(), [&](const auto& t) { return t.first / together != group; });
    std::array<std::uint64_t, banks> words{};
    for (const std::uint64_t word : pieces({begin, end}, bytes, 4)) ++words[word % banks];
    count.wavefronts += *std::max_element(words.begin(), words.end());
    ++count.ideal_wavefronts;
    begin = end;
  }
}

void add_sectors(const WordsOfLanes& touches, std::uint64_t bytes, LineCount& count) {
  count.sectors += pieces(touches, bytes, sector).size();
  count.ideal_sectors += (pieces(touches, bytes, 1).size() + sector - 1) / sector;
}

}  // namespace

void Counters::settle() {
  if (touched_.at.empty()) return;
  (touched_.shared ? add_wavefronts : add_sectors)(touched_.at, touched_.bytes, of_[touched_.pc]);
  touched_.at.clear();
}

void Counters::executing(Warp&, std::uint32_t pc, Mask active) {
  settle();
  ++of_[pc].instructions;
  of_[pc].threads += static_cast<std::uint64_t>(std::popcount(active));
}

void Counters::accessed(const Agent& agent, const Location& where, Access, const Manner& manner) {
  if (agent.operation != 0 && manner.proxy == Proxy::tensormap) return;  // a copy's map counts once, where it is issued
  const bool shared = where.space == isa::Space::shared_cta;
  // Copies and the like count only where they touch global memory: in shared memory they wait for no banks.
  if (agent.operation != 0 ? where.space != isa::Space::global : !shared && where.space != isa::Space::global) return;
  const bool same = touched_.pc == agent.pc && touched_.shared == shared && touched_.bytes == where.bytes &&
                    touched_.operation == agent.operation;
  const bool again = agent.operation == 0 && !touched_.at.empty() && agent.lane <= touched_.last_lane;
  if (!same || again) settle();
  touched_.pc = agent.pc, touched_.shared = shared, touched_.bytes = where.bytes, touched_.last_lane = agent.lane;
  touched_.operation = agent.operation;
  if (shared) return void(touched_.at.emplace_back(agent.lane, where.offset));
  // From the start of the buffer: on a GPU allocations begin at multiples of 256, here wherever the host put them.
  const bool known = range_ && where.offset >= range_->begin && where.offset < range_->end;
  const Range* const range = known ? range_ : launch_.memory.find(where.offset);
  const std::uint64_t begin = range ? range->begin : 0;
  if (range && !range->heap) range_ = range;
  touched_.at.emplace_back(agent.lane, where.offset - begin + (begin / sector * sector));
}

void Counters::add_to(std::vector<LineCount>& counts) {
  settle();
  const auto key = [](const LineCount& c) { return std::tuple(c.place.file.view(), c.place.line); };
  const auto before = [&](const LineCount& a, const LineCount& b) { return key(a) < key(b); };
  for (std::size_t pc = 0; pc < of_.size(); ++pc) {
    LineCount& c = of_[pc];
    if (c.instructions == 0) continue;
    c.place = launch_.program.places[pc];
    auto at = std::lower_bound(counts.begin(), counts.end(), c, before);
    if (at == counts.end() || key(*at) != key(c)) at = counts.insert(at, LineCount{.place = c.place});
    at->instructions += c.instructions, at->threads += c.threads;
    at->wavefronts += c.wavefronts, at->ideal_wavefronts += c.ideal_wavefronts;
    at->sectors += c.sectors, at->ideal_sectors += c.ideal_sectors;
    c = {};
  }
}

}  // namespace ptx::sim
