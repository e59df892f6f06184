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

namespace {

// Of spdecompress: n source elements become m, so many times.
struct Decompression {
  int source, target, element, index, repeats;
  explicit Decompression(const Match& match)
      : source(number_behind(match.value("spfactor").substr(3), ':')),  // sp::2:4
        target(number_behind(match.value("spfactor").substr(4), ':')),
        element(number_behind(match.value("elemsize"), 'b')),
        index(number_behind(match.value("idxsize"), 'b')),
        repeats(number_behind(match.value("num"), 'x')) {}
};
int registers_of(int bits) { return (bits + 31) / 32; }

}  // namespace

int compressed_metadata(const Match& match) {
  const int index = number_behind(match.value("idxsize"), 'b'), element = number_behind(match.value("elemsize"), 'b');
  return (matrices(match) * index + element - 1) / element;
}
int decompressed(const Match& match) {
  const Decompression d(match);
  return registers_of(d.target * d.element * d.repeats);
}
int decompressed_metadata(const Match& match) {
  const Decompression d(match);
  return registers_of(d.source * d.index * d.repeats);
}
int decompressed_source(const Match& match) {
  const Decompression d(match);
  return registers_of(d.source * d.element * d.repeats);
}
bool decompression(const Match& match) {
  const Decompression d(match);
  const int bits = d.target * d.element * d.repeats;
  return d.source * d.element <= 32 && (d.index == 4 || d.target <= 4) && bits >= 32 && bits <= 4096 &&
         decompressed(match) + decompressed_metadata(match) + decompressed_source(match) <= 253;
}

// 64 x n accumulators over 128 threads: n/2 of 32 bits each, or two f16 in one.
int wgmma_d(const Match& match) { return number_behind(match.value("shape"), 'n') / 2; }
int wgmma_d16(const Match& match) { return number_behind(match.value("shape"), 'n') / 4; }

}  // namespace ptx::isa::rules
