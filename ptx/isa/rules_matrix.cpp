// Rules and counts of matrices (9.7.14, 9.7.15).
#include <algorithm>

#include "ptx/isa/detail/rules.h"
#include "ptx/isa/shape.h"

namespace ptx::isa::rules {

using detail::number_behind;

// FP6 and FP4 beside FP8 lie in a byte each (.kind::f8f6f4, .kind::mxf8f6f4). m8n8k4 of f16 is four multiplications.
int fragment_length(const Match& match, Type element, char matrix) {
  const MatrixShape shape = matrix_shape(match);
  const bool sparse = match.has("sp") || match.has("sp::ordered_metadata");
  const bool in_bytes = match.has("kind::f8f6f4") || match.has("kind::mxf8f6f4");
  int elements = shape.m * shape.n;
  if (matrix == 'a') elements = shape.m * shape.k / (sparse ? 2 : 1);
  if (matrix == 'b') elements = shape.k * shape.n;
  if (shape.m == 8 && shape.k == 4 && element != Type::f64) elements *= 4;
  const int bits = in_bytes && matrix != 'c' ? 8 : info(element).bits;
  return elements * bits / ((shape.m == 64 ? 128 : 32) * std::max(32, bits));
}

// Small elements, as the assembler takes them: any register of 32 bits in mma, an integer in wmma and m8n8k16, and only
// .b32 where there are scales.
Type fragment_type(const Match& match, Type element) {
  if (element == Type::f16) return Type::f16x2;
  if (element == Type::bf16) return Type::bf16x2;
  if (info(element).bits > 8) return element;
  if (match.has("block_scale")) return Type::e4m3x4;
  const bool integer = match.form->text(match.form->opcode) == "wmma" || match.value("shape") == "m8n8k16";
  return integer ? Type::u32 : Type::b32;
}

bool same_types(const Match& match) { return match.value("atype") == match.value("btype"); }
bool same_accumulators(const Match& match) { return match.value("dtype") == match.value("ctype"); }
bool f32_accumulator(const Match& match) { return match.value("ctype") != "f32" || match.value("dtype") == "f32"; }

int matrices(const Match& match) { return std::max(1, number_behind(match.value("num"), 'x')); }

int two_matrices(const Match& match) { return 2 * matrices(match); }

namespace {

// spdecompress makes `target` elements of `source` elements, `repeats` times.
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

}  // namespace ptx::isa::rules
