// The fast way to add as a tensor core does: results side by side in vectors.
// It takes factors whose products are exact in f32 and far from its ends, so
// that a product, multiplied by a power of two and truncated to an integer, is
// cut as the formula says. tests/sim/tensor_core.cpp proves it equal to dot().
#include <bit>
#include <cstring>

#include "ptx/sim/numerics/clones.h"
#include "ptx/sim/numerics/tensor_core.h"

// Vectors stay inside one function, into which all is inlined: how they would be passed does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace ptx::sim {

namespace {

template <int width>
struct Lanes {
  typedef float Float __attribute__((vector_size(width * 4)));
  typedef std::int32_t Int __attribute__((vector_size(width * 4)));
  typedef double Double __attribute__((vector_size(width * 8)));
  typedef std::int64_t Long __attribute__((vector_size(width * 8)));
};

constexpr int at_once = 16;  // products whose cut values sum up in 32 bits

// A sum of f32 as terms are cut: its exponent, and itself as a multiple of
// 2^(top - fraction).
template <class Int>
struct Own {
  Int bits, exponent;
  explicit Own(const auto& sum) {
    std::memcpy(&bits, &sum, sizeof bits);
    exponent = ((bits >> 23) & 255) - 127;
  }
  Int cut(const Int& top, int fraction) const {
    const int up = fraction > 23 ? fraction - 23 : 0, down = fraction < 23 ? 23 - fraction : 0;
    const Int far = top - exponent + down, shift = far > 31 ? Int{} + 31 : far;
    const Int hidden = exponent == -127 ? Int{} : Int{} + 0x800000;
    const Int size = (((bits & 0x7fffff) | hidden) << up) >> shift;
    return bits < 0 ? -size : size;
  }
};

template <class To, class From>
[[gnu::always_inline]] inline To bits_of(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
template <class To>
[[gnu::always_inline]] inline To load(const void* from) {
  To to;
  std::memcpy(&to, from, sizeof to);
  return to;
}

// `width` results of each of `rows` lines.
template <int width, int rows>
[[gnu::always_inline]] inline void tile(const TensorCore& core, int k, Factorised a, Factorised b, const float* c,
                                        float* d, int stride) {
  using Float = typename Lanes<width>::Float;
  using Int = typename Lanes<width>::Int;
  using Double = typename Lanes<width>::Double;
  using Long = typename Lanes<width>::Long;
  const int fraction = core.fraction;
  const Long kept = Long{} + static_cast<std::int64_t>(~std::uint64_t{0} << (52 - core.kept));
  Float sum[rows];
  for (int r = 0; r < rows; ++r) sum[r] = load<Float>(c + r * stride);
  for (int begin = 0; begin < k; begin += core.products) {
    const int end = begin + core.products < k ? begin + core.products : k;
    Int top[rows];
    for (int r = 0; r < rows; ++r) {
      const Int own = Own<Int>(sum[r]).exponent;
      top[r] = own > core.zero ? own : Int{} + core.zero;
    }
    for (int i = begin; i < end; ++i) {
      const Int exponents = load<Int>(b.exponents + i * b.stride);
      for (int r = 0; r < rows; ++r) {
        const Int both = exponents + a.exponents[r * a.stride + i];
        top[r] = both > top[r] ? both : top[r];
      }
    }
    Float scale[rows];
    Double total[rows];
    for (int r = 0; r < rows; ++r) {
      const Int power = fraction + 127 - top[r];
      scale[r] = bits_of<Float>((power > 254 ? Int{} + 254 : power) << 23);
      total[r] = __builtin_convertvector(Own<Int>(sum[r]).cut(top[r], fraction), Double);
    }
    for (int part = begin; part < end; part += at_once) {
      Int cut[rows]{};
      for (int i = part; i < end && i < part + at_once; ++i) {
        const Float factor = load<Float>(b.values + i * b.stride);
        for (int r = 0; r < rows; ++r) {
          cut[r] += __builtin_convertvector(factor * a.values[r * a.stride + i] * scale[r], Int);
        }
      }
      for (int r = 0; r < rows; ++r) total[r] += __builtin_convertvector(cut[r], Double);
    }
    for (int r = 0; r < rows; ++r) {
      const Long unit = __builtin_convertvector(top[r] - fraction + 1023, Long) << 52;
      const Double shortened = bits_of<Double>(bits_of<Long>(total[r]) & kept);
      sum[r] = __builtin_convertvector(shortened * bits_of<Double>(unit), Float);
    }
  }
  for (int r = 0; r < rows; ++r) std::memcpy(d + r * stride, &sum[r], sizeof sum[r]);
}

template <int width>
[[gnu::always_inline]] inline void column_of_tiles(const TensorCore& core, int m, int k, Factorised a, Factorised b,
                                                   const float* c, float* d, int stride) {
  constexpr int rows = 4;
  int row = 0;
  for (; row + rows <= m; row += rows) {
    const Factorised lines{a.values + row * a.stride, a.exponents + row * a.stride, a.stride};
    tile<width, rows>(core, k, lines, b, c + row * stride, d + row * stride, stride);
  }
  for (; row < m; ++row) {
    const Factorised lines{a.values + row * a.stride, a.exponents + row * a.stride, a.stride};
    tile<width, 1>(core, k, lines, b, c + row * stride, d + row * stride, stride);
  }
}

}  // namespace

PTX_CLONES void multiply_anywhere(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b,
                                  const float* c, float* d, int stride) {
  int column = 0;
  for (; column + 16 <= n; column += 16) {
    const Factorised part{b.values + column, b.exponents + column, b.stride};
    column_of_tiles<16>(core, m, k, a, part, c + column, d + column, stride);
  }
  for (; column < n; column += 8) {
    const Factorised part{b.values + column, b.exponents + column, b.stride};
    column_of_tiles<8>(core, m, k, a, part, c + column, d + column, stride);
  }
}

void multiply_plain(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b, const float* c, float* d,
                    int stride) {
#if defined(__x86_64__)
  const int wide = has_avx512() ? n / 16 * 16 : 0;
  if (wide) multiply_avx512(core, m, wide, k, a, b, c, d, stride);
  if (wide == n) return;
  b.values += wide, b.exponents += wide, c += wide, d += wide, n -= wide;
  if (has_avx2()) return multiply_avx2(core, m, n, k, a, b, c, d, stride);
#endif
  multiply_anywhere(core, m, n, k, a, b, c, d, stride);
}

}  // namespace ptx::sim
