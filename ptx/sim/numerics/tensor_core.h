// How tensor cores add. A dot product is taken in blocks: the products of one block and the sum so far are cut, towards
// zero, to multiples of 2^(E - fraction), where E is the largest of their exponents, summed exactly and rounded once;
// the result is the sum so far of the next block. The formula is public and was found by probing; what differs between
// architectures are the rows of tensor_cores.def. Nothing here knows fragments, warps or instructions.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace ptx::sim {

enum class Unit : std::uint8_t { mma, wgmma, tcgen05 };
enum class Factors : std::uint8_t { half, tf32, f8, f4 };

struct TensorCore {
  Unit unit;
  std::uint16_t since;  // architecture
  Factors factors;
  std::uint8_t fraction, products, kept;
  std::int16_t zero;
};

// The row that holds for an architecture; that of the first one where the architecture is older than all. Null where
// the unit never multiplies such factors.
const TensorCore* tensor_core(Unit unit, int architecture, Factors factors);

// A factor: its value, and the exponent of its significand before it is normalised, which for a subnormal is the
// format's least. The exponent of zero is not looked at.
struct Factor {
  double value = 0;
  int exponent = 0;
};

// What the sums are: f32, or f16, which is rounded to nearest.
enum class Sum : std::uint8_t { f32, f16 };
struct Sums {
  Sum c, d;
};
double sum_value(Sum kind, std::uint32_t bits);
std::uint32_t sum_bits(Sum kind, double value);  // of a value that the kind has

// One block: c and the terms, which may be infinite or NaN. Returns a value of `result`; c is one of `of_c`.
double add_block(const TensorCore& core, std::span<const Factor> terms, double c, Sum of_c, Sum result);

// c and the products of a[i] and b[i], block by block.
double dot(const TensorCore& core, std::span<const Factor> a, std::span<const Factor> b, double c, Sum of_c,
           Sum result);

// The fast way, for factors and sums that are plain: zero, or not near the ends of f32. The field of the exponent
// tells.
struct Fields {
  std::uint32_t least, greatest;
  constexpr bool has(float x) const {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) << 1;
    return bits == 0 || (bits >> 24) - least <= greatest - least;
  }
};
inline constexpr Fields plain_factor{127 - 40, 127 + 40}, plain_sum{127 - 100, 127 + 99};
bool factors_are_plain(const float* values, int size);
inline constexpr std::int32_t exponent_of_zero = -100000;  // less than any other two together

// Values, and exponents as in Factor; lines of `stride` each.
struct Factorised {
  const float* values;
  const std::int32_t* exponents;
  int stride;
};

// dot() for m x n results: d = a * b + c. a has m lines of k, b k lines of n; c and d are bits, m lines of n that are
// `stride` apart (0: n), and may be the same. `plain`: all factors are plain; where the sums are, too, and are f32, the
// fast way is taken.
void multiply(const TensorCore& core, Sums kinds, int m, int n, int k, Factorised a, Factorised b, bool plain,
              const std::uint32_t* c, std::uint32_t* d, int stride = 0);

// The fast way: n is a multiple of 8, lines of c and d are `stride` apart.
void multiply_plain(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b, const float* c, float* d,
                    int stride);
// It is made of these, by what the machine has. Any n that is a multiple of 8; of 16 with AVX-512.
void multiply_anywhere(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b, const float* c,
                       float* d, int stride);
void multiply_avx2(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b, const float* c, float* d,
                   int stride);
void multiply_avx512(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b, const float* c, float* d,
                     int stride);
bool has_avx2();
bool has_avx512();

}  // namespace ptx::sim
