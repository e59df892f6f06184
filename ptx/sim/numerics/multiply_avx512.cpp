// multiply_plain for machines with AVX-512. It tells the largest exponent of a block by bytes: how far each factor's
// lies below the largest of its row or column of that block. Factors that lie further below than a byte tells are left
// to multiply.cpp.
#include "ptx/sim/numerics/tensor_core.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <vector>

// g++ 12 takes the operands that its own intrinsics leave undefined for mistakes (GCC bug 105593).
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define PTX_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]

namespace ptx::sim {

namespace {

constexpr int width = 16;                   // results at once
constexpr int group = 64;                   // columns whose bytes are one vector
constexpr int most_below = 63, zero = 127;  // two that are not zero stay below zero's
constexpr int least_top = 26;               // of a block without terms, as f32's field

// Of one block: the largest exponent of each column, and how far below it each factor's is.
struct Columns {
  std::vector<std::int32_t> top;
  std::vector<std::uint8_t> below;  // lines of `stride`
  int stride = 0;
};
struct Rows {
  std::vector<std::int32_t> top;
  std::vector<std::uint32_t> below;  // four times the byte; lines of `products`
};

// The first `n` of a vector; all where there are more.
__mmask16 first(int n) { return n >= width ? 0xffff : static_cast<__mmask16>((1u << n) - 1); }

PTX_AVX512 bool read_columns(int n, int products, const std::int32_t* exponents, int stride, Columns& out) {
  out.stride = (n + group - 1) / group * group;
  out.top.resize(static_cast<std::size_t>(out.stride));
  out.below.assign(static_cast<std::size_t>(out.stride * products), zero);
  __mmask16 far = 0;
  for (int column = 0; column < n; column += width) {
    const __mmask16 here = first(n - column);
    __m512i top = _mm512_set1_epi32(exponent_of_zero);
    for (int i = 0; i < products; ++i)
      top = _mm512_mask_max_epi32(top, here, top, _mm512_maskz_loadu_epi32(here, exponents + i * stride + column));
    _mm512_storeu_si512(&out.top[static_cast<std::size_t>(column)], top);
    for (int i = 0; i < products; ++i) {
      const __m512i own = _mm512_maskz_loadu_epi32(here, exponents + i * stride + column);
      const __mmask16 some = _mm512_mask_cmpneq_epi32_mask(here, own, _mm512_set1_epi32(exponent_of_zero));
      const __m512i below = _mm512_sub_epi32(top, own);
      far |= _mm512_mask_cmpgt_epi32_mask(some, below, _mm512_set1_epi32(most_below));
      const __m512i bytes = _mm512_mask_blend_epi32(some, _mm512_set1_epi32(zero), below);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(&out.below[static_cast<std::size_t>(i * out.stride + column)]),
                       _mm512_cvtepi32_epi8(bytes));
    }
  }
  return far == 0;
}

PTX_AVX512 bool read_rows(int m, int products, const std::int32_t* exponents, int stride, Rows& out) {
  out.top.resize(static_cast<std::size_t>(m));
  out.below.resize(static_cast<std::size_t>(m * products));
  __mmask16 far = 0;
  for (int row = 0; row < m; ++row) {
    __m512i tops = _mm512_set1_epi32(exponent_of_zero);
    const std::int32_t* const own = exponents + row * stride;
    for (int i = 0; i < products; i += width)
      tops = _mm512_mask_max_epi32(tops, first(products - i), tops,
                                   _mm512_maskz_loadu_epi32(first(products - i), own + i));
    const int top = _mm512_reduce_max_epi32(tops);
    out.top[static_cast<std::size_t>(row)] = top;
    for (int i = 0; i < products; i += width) {
      const __mmask16 here = first(products - i);
      const __m512i exponent = _mm512_mask_loadu_epi32(_mm512_set1_epi32(exponent_of_zero), here, own + i);
      const __mmask16 some = _mm512_cmpneq_epi32_mask(exponent, _mm512_set1_epi32(exponent_of_zero));
      const __m512i below = _mm512_sub_epi32(_mm512_set1_epi32(top), exponent);
      far |= _mm512_mask_cmpgt_epi32_mask(some, below, _mm512_set1_epi32(most_below));
      const __m512i bytes = _mm512_mask_blend_epi32(some, _mm512_set1_epi32(zero), below);
      _mm512_mask_storeu_epi32(&out.below[static_cast<std::size_t>(row * products + i)], here,
                               _mm512_mullo_epi32(bytes, _mm512_set1_epi32(0x01010101)));
    }
  }
  return far == 0;
}

// How far below the tops of its row and column the largest exponent of each result's products is.
PTX_AVX512 void find_tops(int products, const std::uint32_t* row, const Columns& columns, std::uint8_t* out) {
  for (int column = 0; column < columns.stride; column += group) {
    __m512i least = _mm512_set1_epi8(static_cast<char>(0xff));
    const std::uint8_t* below = columns.below.data() + column;
    for (int i = 0; i < products; ++i, below += columns.stride) {
      const __m512i both = _mm512_add_epi8(_mm512_set1_epi32(static_cast<int>(row[i])), _mm512_loadu_si512(below));
      least = _mm512_min_epu8(least, both);
    }
    _mm512_storeu_si512(out + column, least);
  }
}

struct Block {
  int products, fraction;
  std::uint32_t kept;  // of the bits of a result
  const float *a, *b;
  int a_stride, b_stride, stride;  // the last: of c and d
};

// Some rows of `width` results. False: a sum may not fit 32 bits, and nothing was written.
template <int rows>
PTX_AVX512 inline bool add(const Block& block, const std::int32_t* row_top, const std::int32_t* column_top,
                           const std::uint8_t* below, int below_stride, __mmask16 here, const float* c, float* d) {
  __m512 scale[rows], unit[rows];
  __m512i sum[rows];
  const __m512i tops = _mm512_add_epi32(_mm512_loadu_si512(column_top), _mm512_set1_epi32(127));
  for (int r = 0; r < rows; ++r) {
    const __m512 own = _mm512_maskz_loadu_ps(here, c + r * block.stride);
    const __m512i field = _mm512_srli_epi32(_mm512_slli_epi32(_mm512_castps_si512(own), 1), 24);
    const __m512i less =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(below + r * below_stride)));
    const __mmask16 some = _mm512_cmplt_epi32_mask(less, _mm512_set1_epi32(zero));
    const __m512i products = _mm512_sub_epi32(_mm512_add_epi32(tops, _mm512_set1_epi32(row_top[r])), less);
    __m512i top = _mm512_max_epi32(field, _mm512_set1_epi32(least_top));
    top = _mm512_mask_max_epi32(top, some, top, products);
    scale[r] =
        _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(254 + block.fraction), top), 23));
    unit[r] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_sub_epi32(top, _mm512_set1_epi32(block.fraction)), 23));
    sum[r] = _mm512_cvttps_epi32(_mm512_mul_ps(own, scale[r]));
  }
  const float* b = block.b;
  for (int i = 0; i < block.products; ++i, b += block.b_stride) {
    const __m512 factor = _mm512_maskz_loadu_ps(here, b);
    for (int r = 0; r < rows; ++r) {
      const __m512 product = _mm512_mul_ps(factor, _mm512_set1_ps(block.a[r * block.a_stride + i]));
      sum[r] = _mm512_add_epi32(sum[r], _mm512_cvttps_epi32(_mm512_mul_ps(product, scale[r])));
    }
  }
  __mmask16 large = 0;
  for (int r = 0; r < rows; ++r) large |= _mm512_cmpge_epu32_mask(_mm512_abs_epi32(sum[r]), _mm512_set1_epi32(1 << 30));
  if (large) return false;
  for (int r = 0; r < rows; ++r) {
    const __m512 cut = _mm512_cvt_roundepi32_ps(sum[r], _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(cut), _mm512_set1_epi32(static_cast<int>(block.kept)));
    _mm512_mask_storeu_ps(d + r * block.stride, here, _mm512_mul_ps(_mm512_castsi512_ps(bits), unit[r]));
  }
  return true;
}

}  // namespace

bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
}

void multiply_avx512(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b, const float* c, float* d,
                     int stride) {
  thread_local Columns columns;
  thread_local Rows all;
  thread_local std::vector<std::uint8_t> below;
  for (int begin = 0; begin < k; begin += core.products) {
    const int products = std::min<int>(core.products, k - begin);
    const std::int32_t* exponents_of_b = b.exponents + begin * b.stride;
    if (!read_columns(n, products, exponents_of_b, b.stride, columns) ||
        !read_rows(m, products, a.exponents + begin, a.stride, all)) {
      const Factorised rest_a{a.values + begin, a.exponents + begin, a.stride};
      const Factorised rest_b{b.values + begin * b.stride, exponents_of_b, b.stride};
      multiply_anywhere(core, m, n, k - begin, rest_a, rest_b, begin ? d : c, d, stride);
      return;
    }
    below.resize(static_cast<std::size_t>(m * columns.stride));
    for (int row = 0; row < m; ++row)
      find_tops(products, &all.below[static_cast<std::size_t>(row * products)], columns,
                &below[static_cast<std::size_t>(row * columns.stride)]);
    for (int column = 0; column < n; column += width) {
      const __mmask16 here = first(n - column);
      for (int row = 0; row < m;) {
        const int rows = m - row >= 4 ? 4 : 1;
        const Block block{products,
                          core.fraction,
                          ~0u << (23 - core.kept),
                          a.values + row * a.stride + begin,
                          b.values + begin * b.stride + column,
                          a.stride,
                          b.stride,
                          stride};
        const float* from = (begin ? d : c) + row * stride + column;
        float* to = d + row * stride + column;
        const std::uint8_t* below_of = &below[static_cast<std::size_t>(row * columns.stride + column)];
        const std::int32_t *row_top = &all.top[static_cast<std::size_t>(row)],
                           *column_top = &columns.top[static_cast<std::size_t>(column)];
        const bool fits = rows == 4 ? add<4>(block, row_top, column_top, below_of, columns.stride, here, from, to)
                                    : add<1>(block, row_top, column_top, below_of, columns.stride, here, from, to);
        if (!fits) {
          const Factorised rest_a{block.a, a.exponents + row * a.stride + begin, a.stride};
          const Factorised rest_b{block.b, exponents_of_b + column, b.stride};
          multiply_anywhere(core, rows, std::min(width, n - column), products, rest_a, rest_b, from, to, stride);
        }
        row += rows;
      }
    }
  }
}

}  // namespace ptx::sim

#endif
