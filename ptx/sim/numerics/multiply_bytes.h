// multiply_plain for machines with vector units. The file that includes this has said for which target (PTX_TARGET) and
// gives a Machine: Lanes with any_negative(Ints), cut(Ints) to Floats towards zero, and widen(bytes) and narrow(Ints,
// bytes). It tells the largest exponent of a block by bytes: how far each factor's lies below the largest of its row or
// column of that block. Factors that lie further below than a byte tells are left to multiply.cpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "ptx/sim/numerics/tensor_core.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // all is inlined: how vectors would be passed does not matter

namespace ptx::sim {

namespace {

template <int lanes>
struct Lanes {
  static constexpr int width = lanes;
  typedef float Floats __attribute__((vector_size(4 * width)));
  typedef std::int32_t Ints __attribute__((vector_size(4 * width)));
  typedef std::uint32_t Words __attribute__((vector_size(4 * width)));
  typedef std::uint8_t Bytes __attribute__((vector_size(4 * width)));
};

constexpr int most_below = 63, no_factor = 127;                             // two that are not zero stay below zero's
constexpr int field = 23;                                                   // where f32 has its exponent
constexpr int least_top = 26 << field;                                      // of a block without terms
constexpr int least_exponent = static_cast<int>(plain_factor.least) - 127;  // tops begin with it: no sum overflows
constexpr int together = 6, fewer = 4;                                      // rows
constexpr int at_once = 16;  // products whose cut values, and one sum, stay below 3 * 2^30

#define PTX_INLINE PTX_TARGET [[gnu::always_inline]] inline

template <class To>
PTX_INLINE To load(const void* from) {
  To to;
  std::memcpy(&to, from, sizeof to);
  return to;
}
template <class To, class From>
PTX_INLINE To bits_of(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return load<To>(&from);
}

// One block: the largest exponent of each column, and how far each factor's exponent is below it.
struct Columns {
  std::vector<std::int32_t> top;
  std::vector<std::uint8_t> below;  // lines of `stride`
  int stride = 0;
};
struct Rows {
  std::vector<std::int32_t> top;
  std::vector<std::uint32_t> below;  // the byte four times; lines of `products`
};

// False where a factor lies too far below the largest.
template <class Machine>
PTX_INLINE bool read_columns(int n, int products, const std::int32_t* exponents, int stride, Columns& out) {
  constexpr int width = Machine::width;
  using Ints = typename Machine::Ints;
  out.stride = (n + 4 * width - 1) / (4 * width) * (4 * width);
  out.top.resize(static_cast<std::size_t>(n));
  out.below.resize(static_cast<std::size_t>(out.stride * products));
  Ints far{};
  for (int column = 0; column < n; column += width) {
    Ints top = Ints{} + least_exponent;
    for (int i = 0; i < products; ++i) {
      const Ints own = load<Ints>(exponents + i * stride + column);
      top = own > top ? own : top;
    }
    std::memcpy(&out.top[static_cast<std::size_t>(column)], &top, sizeof top);
    for (int i = 0; i < products; ++i) {
      const Ints own = load<Ints>(exponents + i * stride + column);
      const Ints some = own != exponent_of_zero, below = top - own;
      far |= some & (below > most_below);
      Machine::narrow((below & some) | (no_factor & ~some),
                      &out.below[static_cast<std::size_t>(i * out.stride + column)]);
    }
  }
  return !Machine::any_negative(far);
}

template <class Machine>
PTX_INLINE bool read_rows(int m, int products, const std::int32_t* exponents, int stride, Rows& out) {
  using Ints = typename Machine::Ints;
  constexpr int width = Machine::width;
  out.top.resize(static_cast<std::size_t>(m));
  out.below.resize(static_cast<std::size_t>(m * products));
  const int whole = products / width * width;
  Ints far{};
  bool any_far = false;
  for (int row = 0; row < m; ++row) {
    const std::int32_t* const own = exponents + row * stride;
    std::uint32_t* const below = &out.below[static_cast<std::size_t>(row * products)];
    Ints tops = Ints{} + least_exponent;
    for (int i = 0; i < whole; i += width) {
      const Ints these = load<Ints>(own + i);
      tops = these > tops ? these : tops;
    }
    std::int32_t top = Machine::largest(tops);
    for (int i = whole; i < products; ++i) top = std::max(top, own[i]);
    out.top[static_cast<std::size_t>(row)] = top;
    for (int i = 0; i < whole; i += width) {
      const Ints these = load<Ints>(own + i), some = these != exponent_of_zero, less = top - these;
      far |= some & (less > most_below);
      const Ints bytes = ((less & some) | (no_factor & ~some)) * 0x01010101;
      std::memcpy(below + i, &bytes, sizeof bytes);
    }
    for (int i = whole; i < products; ++i) {
      const bool some = own[i] != exponent_of_zero;
      any_far |= some & (top - own[i] > most_below);
      below[i] = static_cast<std::uint32_t>(some ? top - own[i] : no_factor) * 0x01010101;
    }
  }
  return !any_far && !Machine::any_negative(far);
}

// How far below the tops of its row and column the largest exponent of each result's products is.
template <class Machine, int rows>
PTX_INLINE void find_tops(int products, const std::uint32_t* row, const Columns& columns, std::uint8_t* out) {
  constexpr int width = Machine::width;
  using Words = typename Machine::Words;
  using Bytes = typename Machine::Bytes;
  for (int column = 0; column < columns.stride; column += 4 * width) {
    Bytes least[rows];
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) least[r] = Bytes{} + 255;
    const std::uint8_t* below = columns.below.data() + column;
    for (int i = 0; i < products; ++i, below += columns.stride) {
      const Words own = load<Words>(below);
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r) {
        const Bytes both = bits_of<Bytes>(own + row[r * products + i]);  // no byte carries
        least[r] = both < least[r] ? both : least[r];
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) std::memcpy(out + r * columns.stride + column, &least[r], sizeof least[r]);
  }
}

struct Block {
  int products, fraction;
  std::uint32_t kept;  // of the bits of a result
  const float *a, *b;
  int a_stride, b_stride, stride;  // the last: of c and d
};

// Some rows of `width` results. False: a sum may not fit 32 bits, and nothing was written. (The loops over rows have to
// be unrolled early, or g++ keeps each sum in memory beside its register.)
template <class Machine, int rows>
PTX_INLINE bool add(const Block& block, const std::int32_t* row_top, const std::int32_t* column_top,
                    const std::uint8_t* below, int below_stride, const float* c, float* d) {
  using Floats = typename Machine::Floats;
  using Ints = typename Machine::Ints;
  Floats scale[rows];
  Ints sum[rows], large{};
  const Ints tops = (load<Ints>(column_top) + 127) << field;
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {  // exponents stay in the field of f32 that they come from and go to
    const Floats own = load<Floats>(c + r * block.stride);
    const Ints less = Machine::widen(below + r * below_stride);
    const Ints products = tops + (row_top[r] << field) - (less << field);
    Ints top = bits_of<Ints>(own) & 255 << field;
    top = top > least_top ? top : Ints{} + least_top;
    top = ((less < no_factor) & (products > top)) ? products : top;
    scale[r] = bits_of<Floats>(((254 + block.fraction) << field) - top);
    sum[r] = __builtin_convertvector(own * scale[r], Ints);
  }
  const float* b = block.b;
  for (int begin = 0; begin < block.products; begin += at_once) {
    const int end = std::min(begin + at_once, block.products);
    for (int i = begin; i < end; ++i, b += block.b_stride) {
      const Floats factor = load<Floats>(b);
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r)
        sum[r] += __builtin_convertvector(factor * block.a[r * block.a_stride + i] * scale[r], Ints);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) large |= sum[r] + ((1 << 30) - 1);  // negative where beyond 2^30, wrapped or not
  }
  if (Machine::any_negative(large)) return false;
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
    const Ints bits = bits_of<Ints>(Machine::cut(sum[r])) & static_cast<std::int32_t>(block.kept);
    const Floats result = bits_of<Floats>(bits) * bits_of<Floats>((254 << field) - bits_of<Ints>(scale[r]));
    std::memcpy(d + r * block.stride, &result, sizeof result);
  }
  return true;
}

// One block of some rows, whose factors' bytes are `all` from `row` on. c and d are those of the first row.
template <class Machine, int rows>
PTX_INLINE void add_rows(const TensorCore& core, int n, int products, int row, Factorised a, Factorised b,
                         const Rows& all, const Columns& columns, std::uint8_t* below, const float* c, float* d,
                         int stride) {
  constexpr int width = Machine::width;
  find_tops<Machine, rows>(products, &all.below[static_cast<std::size_t>(row * products)], columns, below);
  Block block{products, core.fraction, ~0u << (23 - core.kept), a.values, nullptr, a.stride, b.stride, stride};
  for (int column = 0; column < n; column += width) {
    block.b = b.values + column;
    if (add<Machine, rows>(block, &all.top[static_cast<std::size_t>(row)],
                           &columns.top[static_cast<std::size_t>(column)], below + column, columns.stride, c + column,
                           d + column)) {
      continue;
    }
    const Factorised part{b.values + column, b.exponents + column, b.stride};
    multiply_anywhere(core, rows, width, products, a, part, c + column, d + column, stride);
  }
}

// n is a multiple of the width. (Rows are the outer loop: a block of B stays in the first cache, and the sums, which
// may not, are gone through line by line.)
template <class Machine>
PTX_INLINE void multiply_by_bytes(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b,
                                  const float* c, float* d, int stride) {
  thread_local Columns columns;
  thread_local Rows all;
  thread_local std::vector<std::uint8_t> below;
  for (int begin = 0; begin < k; begin += core.products, c = d) {
    const int products = std::min<int>(core.products, k - begin);
    const Factorised block_a{a.values + begin, a.exponents + begin, a.stride};
    const Factorised block_b{b.values + begin * b.stride, b.exponents + begin * b.stride, b.stride};
    if (!read_columns<Machine>(n, products, block_b.exponents, b.stride, columns) ||
        !read_rows<Machine>(m, products, block_a.exponents, a.stride, all)) {
      return multiply_anywhere(core, m, n, k - begin, block_a, block_b, c, d, stride);
    }
    below.resize(static_cast<std::size_t>(together * columns.stride));
    for (int row = 0; row < m;) {
      const Factorised lines{block_a.values + row * a.stride, block_a.exponents + row * a.stride, a.stride};
      const float* const from = c + row * stride;
      float* const to = d + row * stride;
      const int left = m - row;  // 64 and 128 are sixes and fours
      if (left >= together && left % together != 2) {
        add_rows<Machine, together>(core, n, products, row, lines, block_b, all, columns, below.data(), from, to,
                                    stride);
        row += together;
      } else if (left >= fewer) {
        add_rows<Machine, fewer>(core, n, products, row, lines, block_b, all, columns, below.data(), from, to, stride);
        row += fewer;
      } else {
        add_rows<Machine, 1>(core, n, products, row, lines, block_b, all, columns, below.data(), from, to, stride);
        ++row;
      }
    }
  }
}

}  // namespace

}  // namespace ptx::sim
