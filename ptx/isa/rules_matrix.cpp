// Rules and counts of matrices and tensors (9.7.9.27, 9.7.14, 9.7.15).
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

int rank(const Match& match) { return match.value("dim").empty() ? 0 : match.value("dim")[0] - '0'; }

bool is_rows(std::string_view mode) { return mode == "tile::gather4" || mode == "tile::scatter4"; }

}  // namespace

bool tensor_mode(const Match& match) {
  const std::string_view mode = match.value("load_mode");
  if (is_rows(mode)) return rank(match) == 2;
  return !mode.starts_with("im2col") || rank(match) >= 3;
}

// A column and four rows in the modes that pick rows.
int tensor_coordinates(const Match& match) { return is_rows(match.value("load_mode")) ? 5 : rank(match); }

int im2col_offsets(const Match& match) { return match.value("load_mode") == "im2col" ? rank(match) - 2 : 2; }

int matrices(const Match& match) { return std::max(1, number_behind(match.value("num"), 'x')); }

int two_matrices(const Match& match) { return 2 * matrices(match); }

// 64 x n accumulators over 128 threads: n/2 of 32 bits each, or two f16 in one.
int wgmma_d(const Match& match) { return number_behind(match.value("shape"), 'n') / 2; }
int wgmma_d16(const Match& match) { return number_behind(match.value("shape"), 'n') / 4; }

}  // namespace ptx::isa::rules
