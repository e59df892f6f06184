// Weak reads of a whole warp, or of an operation, are kept by block (Stripe in plane.h): what all CTAs read costs a few
// bytes a reader and block, and no cells where nobody writes.
#include <algorithm>
#include <bit>
#include <unordered_map>

#include "ptx/sim/watch/races.h"

namespace ptx::sim {

namespace {

constexpr std::uint64_t bytes_of_block = TouchBlock::bytes;

// The words of a block between two addresses.
std::uint32_t words_between(std::uint64_t block, std::uint64_t low, std::uint64_t high) {
  const std::uint64_t first = (std::max(low, block) - block) / 4;
  const std::uint64_t last = (std::min(high, block + bytes_of_block) - block) / 4;
  return static_cast<std::uint32_t>((std::uint64_t{1} << last) - (std::uint64_t{1} << first));
}

// Bytes from lane to lane, as wide as the access or none; 1: neither.
std::uint8_t step_of(const Touch& t, Mask mask) {
  const int first = std::countr_zero(mask);
  bool alike = true, beside = true;
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    alike = alike && t.at[lane] == t.at[first];
    beside = beside && t.at[lane] == t.at[first] + static_cast<std::uint64_t>(lane - first) * t.bytes;
  }
  return beside ? static_cast<std::uint8_t>(t.bytes) : alike ? 0 : 1;
}

}  // namespace

// False: they lie otherwise, and are to be recorded one by one.
bool Races::read_in_stripes(Doer& d, std::uint32_t site, const Touch& t, std::uint64_t base, Mask mask) {
  if (!mask) return true;
  const std::uint8_t step = t.bytes < 4 ? 1 : step_of(t, mask);
  if (step == 1) return false;
  const int first = std::countr_zero(mask), last = step ? 31 - std::countl_zero(mask) : first;
  const std::uint64_t low = base + (t.at[first] & t.mask), high = base + (t.at[last] & t.mask) + t.bytes;
  const std::uint64_t origin = low - static_cast<std::uint64_t>(first) * step;  // of lane 0
  for (std::uint64_t block = low & ~(bytes_of_block - 1); block < high; block += bytes_of_block) {
    Stripe stripe{site, mask, words_between(block, low, high), static_cast<std::int16_t>(origin - block), step};
    if (step && mask >> first != full_mask >> (lanes - 1 - last + first)) {  // lanes between them are absent
      for (int word = 0; word < lanes; ++word) {
        if ((stripe.words >> word & 1) && !stripe.at(word)) stripe.words &= ~(1u << word);
      }
    }
    if (read_stripe(d, stripe, block)) continue;
    for (Mask rest = mask; rest; rest &= rest - 1) {
      d.lane = std::countr_zero(rest);
      const std::uint64_t address = base + (t.at[d.lane] & t.mask);
      if ((address & ~(bytes_of_block - 1)) == block) record(d, site, address, t.bytes);
    }
  }
  return true;
}

// False: something before it is not known to be over.
bool Races::read_stripe(Doer& d, Stripe stripe, std::uint64_t address) {
  TouchBlock& block = plane_.block(address);
  const auto first = (static_cast<std::size_t>(std::countr_zero(stripe.words)) * 4) >> block.shift;
  const auto next = ((static_cast<std::size_t>(32 - std::countl_zero(stripe.words)) * 4 - 1) >> block.shift) + 1;
  for (std::size_t i = first; i < std::min(next, block.cells.size()); ++i) {
    const std::uint32_t words = stripe.words & block.words(i);
    if (!words || !block.cells[i].writes) continue;
    const Mask readers = stripe.at(std::countr_zero(words)) | stripe.at(31 - std::countl_zero(words));
    d.lane = readers & (readers - 1) ? lanes : std::countr_zero(readers);  // one, or several
    if (!is_over(d, block.cells[i].writes, address)) return false;
  }
  add_stripe(block, stripe);
  return true;
}

void Races::add_stripe(TouchBlock& block, const Stripe& stripe) {
  constexpr std::size_t recent = 4;  // products of four steps read the words of a block in turn
  for (std::size_t i = block.stripes.size(), end = i; i-- > 0 && end - i <= recent;) {
    Stripe& last = block.stripes[i];
    const Site &before = sites_[last.site], &now = sites_[stripe.site];
    const bool alike = last.lanes == stripe.lanes && last.step == stripe.step && last.first == stripe.first;
    if (alike && last.site == stripe.site) {
      last.words |= stripe.words;
      return;
    }
    const bool behind = before.who == now.who && before.thread == now.thread && before.bytes == now.bytes;
    if (alike && behind && (last.words & ~stripe.words) == 0) {  // in program order
      block.stripes.erase(block.stripes.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  block.stripes.push_back(stripe);
  constexpr std::size_t few = 32;
  if (block.stripes.size() > few && std::has_single_bit(block.stripes.size())) forget_earlier(block.stripes);
}

// Without those behind which the same lanes have read the same words again.
void Races::forget_earlier(std::vector<Stripe>& stripes) const {
  std::unordered_map<std::uint64_t, std::size_t> later;
  for (std::size_t i = stripes.size(); i-- > 0;) {
    Stripe& stripe = stripes[i];
    const Site& s = sites_[stripe.site];
    const auto key = s.who * 0x9e3779b97f4a7c15ull + static_cast<std::uint16_t>(stripe.first) * 64ull + stripe.step;
    const auto [at, is_last] = later.try_emplace(key, i);
    if (is_last) continue;
    const Stripe& behind = stripes[at->second];
    const Site& b = sites_[behind.site];
    const bool covers = (stripe.words & ~behind.words) == 0 && (stripe.lanes & ~behind.lanes) == 0;
    if (covers && b.who == s.who && b.thread == s.thread && b.bytes == s.bytes) stripe.words = 0;
  }
  std::erase_if(stripes, [](const Stripe& s) { return s.words == 0; });
}

bool Races::is_over(Doer& d, const TouchBlock& block, std::uint32_t words, std::uint64_t address) const {
  return std::all_of(block.stripes.begin(), block.stripes.end(), [&](const Stripe& stripe) {
    if (!(stripe.words & words) || is_known(d, stripe.site, address)) return true;
    const Site& s = sites_[stripe.site];
    if (s.who != d.who || s.operation || d.operation || s.manner.proxy != d.manner.proxy) return false;
    Mask readers = 0;
    for (std::uint32_t rest = stripe.words & words; rest; rest &= rest - 1)
      readers |= stripe.at(std::countr_zero(rest));
    return readers == Mask{1} << d.lane;
  });
}

// A weak write of these words, which are of one cell: whoever has read them has to be done. Later ones ask the writer.
void Races::write_stripes(Doer& d, TouchBlock& block, std::uint32_t words, std::uint64_t address) {
  for (Stripe& stripe : block.stripes) {
    Mask readers = 0;
    for (std::uint32_t rest = stripe.words & words; rest; rest &= rest - 1)
      readers |= stripe.at(std::countr_zero(rest));
    const Site& s = sites_[stripe.site];
    if (!d.operation && !s.operation && s.who == d.who && s.manner.proxy == d.manner.proxy)
      readers &= ~(Mask{1} << d.lane);
    stripe.words &= ~words;
    for (; readers; readers &= readers - 1) judge(d, s, std::countr_zero(readers), address);
  }
  std::erase_if(block.stripes, [](const Stripe& s) { return s.words == 0; });
}

// The stripes of a block as reads of its cells, for writes of less than a word and for strong ones, which do not stand
// for all that was before.
void Races::lay_in_cells(std::uint64_t address) {
  if (plane_.block(address).stripes.empty()) return;
  TouchBlock& block = plane_.block(address, 4, sets_);
  for (const Stripe& stripe : block.stripes) {
    for (std::size_t i = 0; i < block.cells.size(); ++i) {
      if (!(stripe.words & block.words(i))) continue;
      const Mask readers = stripe.at(std::countr_zero(block.words(i)));
      Touches& reads = block.cells[i].reads;
      if (std::vector<Lanes>* const set = sets_.set(reads)) {
        set->push_back({stripe.site, readers});
      } else if (reads) {
        reads = sets_.make({{reads >> 5, Mask{1} << (reads & 31)}, {stripe.site, readers}});
      } else {
        reads = sets_.make({{stripe.site, readers}});
      }
    }
  }
  block.stripes.clear();
}

}  // namespace ptx::sim
