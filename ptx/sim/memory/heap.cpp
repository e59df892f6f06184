#include "ptx/sim/memory/heap.h"

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"

namespace ptx::sim {

namespace {

constexpr std::uint64_t margin = 256;              // bytes on either side of a block, which are nobody's
constexpr std::uint64_t most_freed = 64ull << 20;  // bytes of blocks that were freed
constexpr std::size_t most_freed_blocks = 1 << 16;

std::uint64_t rounded(std::uint64_t bytes) { return (bytes + Heap::alignment - 1) / Heap::alignment * Heap::alignment; }

}  // namespace

std::string HeapBlock::text() const { return cat("the ", shadow.size(), " bytes that ", allocated.by); }

std::uint64_t Heap::allocate(std::uint64_t bytes, std::uint64_t most, std::uint64_t launch, HeapCall call) {
  const std::lock_guard lock(mutex_);
  if (used_ > most || bytes > most - used_ || rounded(bytes) > most - used_) return 0;
  auto block = std::make_shared<HeapBlock>();
  block->launch = launch, block->number = ++given_, block->allocated = std::move(call);
  block->storage.resize(rounded(bytes) + 2 * margin + alignment), block->shadow.resize(bytes);
  const auto start = reinterpret_cast<std::uint64_t>(block->storage.data());
  const std::uint64_t begin = rounded(start) + margin;
  block->range = {
      .begin = begin, .end = begin + bytes, .name = block->text(), .shadow = block->shadow.data(), .heap = true};
  used_ += rounded(bytes);
  blocks_.insert_or_assign(begin, std::move(block));
  return begin;
}

bool Heap::free(std::uint64_t address, HeapCall call, bool keeps) {
  const std::lock_guard lock(mutex_);
  const auto at = blocks_.find(address);
  if (at == blocks_.end() || at->second->freed) return false;
  at->second->freed = std::move(call);
  used_ -= rounded(at->second->shadow.size());
  freed_bytes_ += at->second->storage.size() + at->second->shadow.size();
  freed_.push_back(address);
  if (!keeps) forget();
  return true;
}

// The oldest of those that were freed.
void Heap::forget() {
  while (freed_bytes_ > most_freed || freed_.size() > most_freed_blocks) {
    const auto at = blocks_.find(freed_.front());
    freed_bytes_ -= at->second->storage.size() + at->second->shadow.size();
    blocks_.erase(at);
    freed_.pop_front();
  }
}

const Range* Heap::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  const auto above = blocks_.upper_bound(address);
  if (above == blocks_.begin()) return nullptr;
  const HeapBlock& block = *std::prev(above)->second;
  return address < block.range.end && !block.freed ? &block.range : nullptr;
}

Heap::Block Heap::near(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  const auto above = blocks_.upper_bound(address);
  if (above != blocks_.begin()) {
    const Block& below = std::prev(above)->second;
    if (address < rounded(below->range.end) + margin) return below;
  }
  return above != blocks_.end() && above->first - address <= margin ? above->second : nullptr;
}

std::vector<Heap::Block> Heap::in_use(std::uint64_t launch) const {
  const std::lock_guard lock(mutex_);
  std::vector<Block> out;
  for (const auto& [begin, block] : blocks_) {
    if (!block->freed && (launch == 0 || block->launch == launch)) out.push_back(block);
  }
  return out;
}

std::uint64_t Heap::new_launch() {
  const std::lock_guard lock(mutex_);
  return ++launches_;
}

Heap::State Heap::state() const {
  const std::lock_guard lock(mutex_);
  State out;
  for (const auto& [begin, block] : blocks_) {
    if (!block->freed) out.push_back({block, block->storage, block->shadow});
  }
  return out;
}

void Heap::set(const State& state) {
  const std::lock_guard lock(mutex_);
  blocks_.clear(), freed_.clear();
  used_ = freed_bytes_ = 0;
  for (const auto& [block, storage, shadow] : state) {
    std::copy(storage.begin(), storage.end(), block->storage.begin());
    std::copy(shadow.begin(), shadow.end(), block->shadow.begin());
    block->freed.reset();
    used_ += rounded(block->shadow.size());
    blocks_.emplace(block->range.begin, block);
  }
}

}  // namespace ptx::sim
