// Who touched each byte last: the plane of ptx/sim/watch/races.h. Addresses are of one 64-bit space for all memories. A
// block of 128 bytes has a cell for every 16, 8, 4, 2 or 1 of them, as fine as its finest access: exact at bytes, and a
// sixteenth of the work where accesses are wide.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace ptx::sim {

// An access of a lane: number of its site * 32 + lane; or, with the top bit, number of a set of them; 0: none.
using Touches = std::uint32_t;
inline constexpr Touches set_bit = 0x80000000;

// The lanes of one site.
struct Lanes {
  std::uint32_t site = 0, mask = 0;
};

// Sets of accesses that are not ordered among each other.
class TouchSets {
 public:
  // f(site, lanes) for each.
  template <class F>
  void each(Touches t, F f) const {
    if (t & set_bit) {
      for (const Lanes& l : sets_[t & ~set_bit]) f(l.site, l.mask);
    } else if (t) {
      f(t >> 5, std::uint32_t{1} << (t & 31));
    }
  }
  std::vector<Lanes>* set(Touches t) { return t & set_bit ? &sets_[t & ~set_bit] : nullptr; }
  Touches make(std::vector<Lanes> lanes) {
    if (free_.empty()) {
      sets_.push_back(std::move(lanes));
      return set_bit | static_cast<Touches>(sets_.size() - 1);
    }
    const Touches t = free_.back();
    free_.pop_back();
    sets_[t & ~set_bit] = std::move(lanes);
    return t;
  }
  Touches copy(Touches t) { return t & set_bit ? make(std::vector<Lanes>(sets_[t & ~set_bit])) : t; }
  void drop(Touches t) {
    if (t & set_bit) sets_[t & ~set_bit].clear(), free_.push_back(t);
  }

 private:
  std::vector<std::vector<Lanes>> sets_;
  std::vector<Touches> free_;
};

struct TouchCell {
  Touches writes = 0, reads = 0;  // the last writes; the reads since
};

// The weak reads of one instruction, or operation, in a block: words that lanes read side by side, or all of them
// alike. One of these stands for what would be an access in each of 32 cells.
struct Stripe {
  std::uint32_t site = 0;
  std::uint32_t lanes = 0;
  std::uint32_t words = 0;  // bit i: the 4 bytes at 4 * i, unless somebody has written them since
  std::int16_t first = 0;   // where lane 0 reads, or would, from the start of the block
  std::uint8_t step = 0;    // bytes from lane to lane; 0: all lanes read all words

  // The lanes that read a word.
  std::uint32_t at(int word) const { return step == 0 ? lanes : lanes & std::uint32_t{1} << (4 * word - first) / step; }
};

struct TouchBlock {
  static constexpr std::uint64_t bytes = 128;
  std::uint8_t shift = 4;     // a cell is of 1 << shift bytes
  bool synchronises = false;  // strong accesses have been here
  std::vector<TouchCell> cells;
  std::vector<Stripe> stripes;  // besides the reads in cells

  // The words of which a cell is a part.
  std::uint32_t words(std::size_t cell) const {
    if (shift < 2) return std::uint32_t{1} << (cell >> (2 - shift));
    const std::size_t each = std::size_t{1} << (shift - 2);
    return ((std::uint32_t{1} << each) - 1) << (cell * each);
  }
};

class TouchPlane {
 public:
  // The block of an address. It may have no cells yet.
  TouchBlock& block(std::uint64_t address) {
    const std::uint64_t page = address / page_bytes;
    if (page != last_page_ || !last_) last_ = &pages_[page], last_page_ = page;
    if (last_->blocks.empty()) last_->blocks.resize(page_bytes / TouchBlock::bytes);
    return last_->blocks[address % page_bytes / TouchBlock::bytes];
  }
  // The same with cells of at most `most` bytes (a power of two).
  TouchBlock& block(std::uint64_t address, std::uint32_t most, TouchSets& sets) {
    TouchBlock& b = block(address);
    if (b.cells.empty()) {
      b.shift = static_cast<std::uint8_t>(std::bit_width(most) - 1);
      b.cells.resize(TouchBlock::bytes >> b.shift);
    } else if (1u << b.shift > most) {
      split(b, static_cast<std::uint8_t>(std::bit_width(most) - 1), sets);
    }
    return b;
  }
  // f(block) for each.
  template <class F>
  void each_block(F f) const {
    for (const auto& [number, page] : pages_) {
      for (const TouchBlock& b : page.blocks) f(b);
    }
  }
  // f(its address, block) for each that has cells.
  template <class F>
  void each_address(F f) const {
    for (const auto& [number, page] : pages_) {
      for (std::size_t i = 0; i < page.blocks.size(); ++i) {
        if (!page.blocks[i].cells.empty()) f(number * page_bytes + i * TouchBlock::bytes, page.blocks[i]);
      }
    }
  }
  std::size_t size() const { return pages_.size(); }  // in pages
  // Forgets [begin, end), whole pages.
  void forget(std::uint64_t begin, std::uint64_t end, TouchSets& sets) {
    last_ = nullptr;
    for (std::uint64_t page = begin / page_bytes; page < (end + page_bytes - 1) / page_bytes; ++page) {
      const auto found = pages_.find(page);
      if (found == pages_.end()) continue;
      for (TouchBlock& b : found->second.blocks) {
        for (const TouchCell& c : b.cells) sets.drop(c.writes), sets.drop(c.reads);
      }
      pages_.erase(found);
    }
  }

 private:
  static constexpr std::uint64_t page_bytes = 1 << 16;
  struct Page {
    std::vector<TouchBlock> blocks;
  };
  static void split(TouchBlock& b, std::uint8_t shift, TouchSets& sets) {
    std::vector<TouchCell> finer(TouchBlock::bytes >> shift);
    const std::size_t parts = std::size_t{1} << (b.shift - shift);
    for (std::size_t i = 0; i < finer.size(); ++i) {
      const TouchCell& from = b.cells[i / parts];
      finer[i] = i % parts == 0 ? from : TouchCell{sets.copy(from.writes), sets.copy(from.reads)};
    }
    b.cells = std::move(finer), b.shift = shift;
  }
  std::unordered_map<std::uint64_t, Page> pages_;
  Page* last_ = nullptr;
  std::uint64_t last_page_ = 0;
};

}  // namespace ptx::sim
