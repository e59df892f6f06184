// Rules of the matrix chapters (9.7.14, 9.7.15).
#include <charconv>

#include "ptx/isa/rules.h"

namespace ptx::isa::rules {

namespace {

int number_behind(std::string_view shape, char letter) {  // m64n128k16, 'n' -> 128
  const std::size_t at = shape.find(letter);
  int n = 0;
  if (at != shape.npos) std::from_chars(shape.data() + at + 1, shape.data() + shape.size(), n);
  return n;
}

}  // namespace

// 64 x n accumulators over 128 threads: n/2 of 32 bits each, two f16 in one.
int wgmma_d(const Match& match) {
  const int n = number_behind(match.value("shape"), 'n');
  return match.type("dtype") == Type::f16 ? n / 4 : n / 2;
}

int wgmma_a(const Match&) { return 4; }

}  // namespace ptx::isa::rules
