#include "ptx/sim/watch/kept.h"

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/sim/explore.h"
#include "ptx/sim/memory/tensor_map.h"

namespace ptx::sim {

namespace {

std::uint64_t begin_of(const launch::Buffer& b) { return reinterpret_cast<std::uint64_t>(b.data); }

using Memory = Recording::Kept::Memory;

std::uint64_t heap_bytes(const Heap::State& heap) {
  std::uint64_t bytes = 0;
  for (const Heap::Saved& saved : heap) bytes += saved.storage.size() + saved.shadow.size();
  return bytes;
}

// The memory that the buffers cover, in pieces that do not touch.
std::vector<std::pair<std::uint64_t, std::uint64_t>> covered(std::span<const launch::Buffer> buffers) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all, out;
  for (const launch::Buffer& b : buffers) {
    if (b.bytes) all.emplace_back(begin_of(b), begin_of(b) + b.bytes);
  }
  std::sort(all.begin(), all.end());
  for (const auto& [begin, end] : all) {
    if (out.empty() || begin >= out.back().second)
      out.emplace_back(begin, end);
    else
      out.back().second = std::max(out.back().second, end);
  }
  return out;
}

// One run on memory of its own: where a buffer lay, its copy lies, with the same alignment. What buffers have of each
// other's addresses (pointers to groups, tensor maps) are those of the copies.
class Again {
 public:
  explicit Again(const Recording::Kept& kept) : kept_(kept), parameters_(kept.parameters), buffers_(kept.buffers) {
    for (const Memory& p : kept.memory) {
      auto& storage = storage_.emplace_back(p.bytes.size() + 2 * alignment);
      const auto raw = reinterpret_cast<std::uint64_t>(storage.data());
      const std::uint64_t at = (raw + alignment - 1) / alignment * alignment + p.begin % alignment;
      std::memcpy(reinterpret_cast<std::byte*>(at), p.bytes.data(), p.bytes.size());
      begins_.push_back(at);
    }
    for (launch::Buffer& b : buffers_) b.data = reinterpret_cast<void*>(moved(begin_of(b)));
    for (const launch::Parameter& p : kept.record.parameters) move_parameter(p);
    for (std::size_t i = 0; i < begins_.size(); ++i) move_addresses(begins_[i], kept.memory[i].bytes.size());
  }

  Expected<Done> run(const Options& options) {
    kept_.program->set_variables(kept_.variables);
    kept_.program->heap().set(kept_.heap);
    Expected<Done> done = kept_.program->run(kept_.record, parameters_, buffers_, options);
    blocks_ = kept_.program->heap().in_use();
    return done;
  }

  // The first byte that differs from the other run's, as a buffer's; empty: none. Addresses of one place in the two
  // copies are the same, those of tensor maps, say; so are addresses of memory that both have of malloc.
  std::string difference(const Again& other) const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const auto* mine = static_cast<const std::byte*>(buffers_[i].data);
      const auto* its = static_cast<const std::byte*>(other.buffers_[i].data);
      const auto* end = mine + buffers_[i].bytes;
      const auto* first = std::mismatch(mine, end, its).first;
      while (first != end) {
        const std::ptrdiff_t word = (first - mine) & ~std::ptrdiff_t{7};
        if (end - mine - word < 8 || !is_one_place(mine + word, other, its + word)) break;
        first = std::mismatch(mine + word + 8, end, its + word + 8).first;
      }
      if (first == end) continue;
      const std::string name = i < kept_.record.tensors.size() ? kept_.record.tensors[i].name : cat("buffer ", i);
      return cat("byte ", first - mine, " of `", name, '`');
    }
    return {};
  }

 private:
  static constexpr std::uint64_t alignment = 256;

  bool is_one_place(const std::byte* word, const Again& other, const std::byte* its_word) const {
    std::uint64_t mine, its;
    std::memcpy(&mine, word, sizeof mine), std::memcpy(&its, its_word, sizeof its);
    for (std::size_t i = 0; i < begins_.size(); ++i) {
      const std::uint64_t offset = mine - begins_[i];
      if (offset <= kept_.memory[i].bytes.size() && its - other.begins_[i] == offset) return true;
    }
    const Range *const own = block_at(mine), *const its_block = other.block_at(its);
    return own && its_block && own->end - own->begin == its_block->end - its_block->begin &&
           mine - own->begin == its - its_block->begin;
  }
  const Range* block_at(std::uint64_t address) const {
    const auto behind = std::ranges::upper_bound(blocks_, address, {}, [](const auto& b) { return b->range.begin; });
    if (behind == blocks_.begin()) return nullptr;
    const Range& range = (*std::prev(behind))->range;
    return address < range.end ? &range : nullptr;
  }
  std::uint64_t moved(std::uint64_t address) const {
    for (std::size_t i = 0; i < begins_.size(); ++i) {
      const Memory& p = kept_.memory[i];
      if (address >= p.begin && address - p.begin < p.bytes.size()) return begins_[i] + (address - p.begin);
    }
    return address;
  }
  void move_addresses(std::uint64_t begin, std::uint64_t bytes) {
    for (std::uint64_t at = (begin + 7) & ~std::uint64_t{7}; at + 8 <= begin + bytes; at += 8) {
      auto* const word = reinterpret_cast<std::uint64_t*>(at);
      if (const std::uint64_t now = moved(*word); now != *word) *word = now;
    }
  }
  void move_parameter(const launch::Parameter& p) {
    if (p.kind == launch::Parameter::Kind::scalar) return;
    const bool is_map = p.kind == launch::Parameter::Kind::tensor_map;
    std::byte* const at = parameters_.data() + p.offset + (is_map ? offsetof(TensorMap, address) : 0);
    std::uint64_t address;
    std::memcpy(&address, at, sizeof address);
    address = moved(address);
    std::memcpy(at, &address, sizeof address);
  }

  const Recording::Kept& kept_;
  std::vector<std::byte> parameters_;
  std::vector<launch::Buffer> buffers_;
  std::vector<std::vector<std::byte>> storage_;
  std::vector<std::uint64_t> begins_;
  std::vector<Heap::Block> blocks_;  // in use behind the run, by address
};

}  // namespace

void keep(Recording& recording, std::shared_ptr<RunsAgain> program, const launch::Record& record,
          std::span<const std::byte> parameters, std::span<const launch::Buffer> buffers) {
  auto kept = std::make_shared<Recording::Kept>();
  const auto pieces = covered(buffers);
  const std::lock_guard lock(recording.mutex);
  kept->heap = program->heap().state();
  std::uint64_t bytes = heap_bytes(kept->heap);
  for (const auto& one : recording.kept) {
    bytes += heap_bytes(one->heap);
    for (const Memory& p : one->memory) bytes += p.bytes.size();
  }
  for (const auto& [begin, end] : pieces) bytes += end - begin;
  if (bytes > recording.most_bytes) return void(++recording.dropped_launches);
  for (const auto& [begin, end] : pieces) {
    const auto* data = reinterpret_cast<const std::byte*>(begin);
    kept->memory.push_back({begin, {data, data + (end - begin)}});
  }
  kept->variables = program->variables();
  kept->program = std::move(program), kept->record = record;
  kept->parameters.assign(parameters.begin(), parameters.end());
  kept->buffers.assign(buffers.begin(), buffers.end());
  recording.kept.push_back(std::move(kept));
}

static std::optional<Failing> explore_kept(const std::vector<std::shared_ptr<const Recording::Kept>>& kept,
                                           std::uint64_t schedules, const Options& options, bool compare) {
  std::vector<std::unique_ptr<Again>> plain;
  for (std::uint64_t seed = 0; seed <= schedules; ++seed) {
    for (std::uint32_t i = 0; i < kept.size(); ++i) {
      if (options.interrupted && options.interrupted()) {  // launches may be too short to ask
        const Diagnostic ended(Code::interrupted, {}, "the exploration was ended from outside");
        return Failing{.seed = seed, .launch = i, .reports = {{ended, {}}}};
      }
      Options chosen = options;
      chosen.seed = seed, chosen.schedule = Schedule::synchronisation;
      chosen.recording = std::make_shared<Recording>();
      chosen.print = [](const Printed&) {};  // they said it once
      auto again = std::make_unique<Again>(*kept[i]);
      const Expected<Done> done = again->run(chosen);
      if (!done) {
        Failing failing{.seed = seed, .launch = i, .reports = chosen.recording->reports};
        for (const Diagnostic& d : done.why()) {
          if (failing.reports.empty()) failing.reports.push_back({d, {}});
        }
        return failing;
      }
      if (seed == 0) {
        plain.push_back(std::move(again));
      } else if (compare) {
        if (std::string differs = again->difference(*plain[i]); !differs.empty())
          return Failing{.seed = seed, .launch = i, .differs = std::move(differs)};
      }
    }
  }
  return std::nullopt;
}

std::optional<Failing> explore(Recording& recording, std::uint64_t schedules, const Options& options, bool compare) {
  std::vector<std::shared_ptr<const Recording::Kept>> kept;
  {
    const std::lock_guard lock(recording.mutex);
    kept = recording.kept;
  }
  if (kept.empty()) return std::nullopt;
  Heap& heap = kept.front()->program->heap();
  const Heap::State now = heap.state();
  std::optional<Failing> failing = explore_kept(kept, schedules, options, compare);
  heap.set(now);
  return failing;
}

}  // namespace ptx::sim
