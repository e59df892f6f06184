// Rules and counts of matrices (9.7.14, 9.7.15).
#include <algorithm>
#include <charconv>

#include "ptx/isa/rules.h"

namespace ptx::isa::rules {

namespace {

int number_behind(std::string_view text, char letter) {  // m64n128k16, 'n' -> 128
  const std::size_t at = text.find(letter);
  int n = 0;
  if (at != text.npos) std::from_chars(text.data() + at + 1, text.data() + text.size(), n);
  return n;
}

}  // namespace

int matrices(const Match& match) { return std::max(1, number_behind(match.value("num"), 'x')); }

int two_matrices(const Match& match) { return 2 * matrices(match); }

// 64 x n accumulators over 128 threads: n/2 of 32 bits each, or two f16 in one.
int wgmma_d(const Match& match) { return number_behind(match.value("shape"), 'n') / 2; }
int wgmma_d16(const Match& match) { return number_behind(match.value("shape"), 'n') / 4; }

}  // namespace ptx::isa::rules
