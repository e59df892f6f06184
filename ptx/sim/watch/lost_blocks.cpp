#include "ptx/sim/watch/lost_blocks.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "ptx/base/text.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/heap.h"

namespace ptx::sim {

namespace {

constexpr std::uint64_t address_bits = (1ull << 48) - 1;  // what is above may be a mark of the program's own

class Reached {
 public:
  explicit Reached(std::vector<Heap::Block> blocks) : blocks_(std::move(blocks)), reached_(blocks_.size()) {}

  void from(std::uint64_t begin, std::uint64_t end) {
    for (begin = (begin + 7) / 8 * 8; begin + 8 <= end; begin += 8) {
      std::uint64_t value;
      std::memcpy(&value, reinterpret_cast<const void*>(begin), sizeof value);
      mark(value & address_bits);
    }
  }
  void from_blocks() {
    while (!open_.empty()) {
      const Range& range = blocks_[open_.back()]->range;
      open_.pop_back();
      from(range.begin, range.end);
    }
  }
  template <class F>
  void each_other(F f) const {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (!reached_[i]) f(*blocks_[i]);
    }
  }

 private:
  void mark(std::uint64_t address) {
    if (address < blocks_.front()->range.begin || address > blocks_.back()->range.end) return;
    const auto above = std::upper_bound(blocks_.begin(), blocks_.end(), address,
                                        [](std::uint64_t a, const Heap::Block& b) { return a < b->range.begin; });
    if (above == blocks_.begin()) return;
    const auto i = static_cast<std::size_t>(above - blocks_.begin() - 1);
    if (address > blocks_[i]->range.end || reached_[i]) return;  // the end is an address of it, too
    reached_[i] = true;
    open_.push_back(i);
  }
  std::vector<Heap::Block> blocks_;  // by address
  std::vector<bool> reached_;
  std::vector<std::size_t> open_;  // whose own words are still to be read
};

}  // namespace

void report_lost_blocks(Launch& launch) {
  if (!asks_for(launch.options.checks, Code::memory_leak)) return;
  std::vector<Heap::Block> blocks = launch.heap->in_use();
  const auto ours = [&](const HeapBlock& b) { return b.launch == launch.number; };
  if (std::none_of(blocks.begin(), blocks.end(), [&](const Heap::Block& b) { return ours(*b); })) return;
  Reached reached(std::move(blocks));
  for (const Range& range : launch.memory.ranges()) {
    if (!range.parameter) reached.from(range.begin, range.end);
  }
  reached.from_blocks();
  struct Lost {
    const HeapBlock* first = nullptr;
    std::uint64_t blocks = 0, bytes = 0;
  };
  std::map<std::pair<std::string_view, std::uint32_t>, Lost> by_line;
  reached.each_other([&](const HeapBlock& b) {
    if (!ours(b)) return;
    const Place& at = b.allocated.site.place;
    Lost& lost = by_line[{at.file.view(), at.line}];
    if (!lost.first || b.number < lost.first->number) lost.first = &b;
    ++lost.blocks, lost.bytes += b.shadow.size();
  });
  for (const auto& [line, lost] : by_line) {
    const HeapBlock& b = *lost.first;
    Diagnostic diagnostic(Code::memory_leak, b.allocated.site.place,
                          cat('`', launch.program.functions.front().name.view(), "` ended and had not freed ", b.text(),
                              "; no buffer and no variable leads to them"));
    if (lost.blocks > 1)
      diagnostic.notes.push_back(cat(lost.blocks, " blocks of this line, ", lost.bytes, " bytes in all"));
    launch.note({std::move(diagnostic), {b.allocated.site}});
  }
}

}  // namespace ptx::sim
