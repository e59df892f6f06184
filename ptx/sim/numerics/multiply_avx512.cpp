// multiply_plain by AVX-512, sixteen results at once.
#if defined(__x86_64__)

#include <immintrin.h>

// g++ 12 takes the operands that its own intrinsics leave undefined for mistakes (GCC bug 105593).
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define PTX_TARGET [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
#include "ptx/sim/numerics/multiply_bytes.h"

namespace ptx::sim {

namespace {

struct Avx512 : Lanes<16> {
  PTX_INLINE static bool any_negative(const Ints& x) { return _mm512_movepi32_mask(bits_of<__m512i>(x)) != 0; }
  PTX_INLINE static std::int32_t largest(const Ints& x) { return _mm512_reduce_max_epi32(bits_of<__m512i>(x)); }
  PTX_INLINE static Ints widen(const std::uint8_t* from) {
    return bits_of<Ints>(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  PTX_INLINE static void narrow(const Ints& x, std::uint8_t* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(bits_of<__m512i>(x)));
  }
  PTX_INLINE static Floats cut(const Ints& x) {
    return _mm512_cvt_roundepi32_ps(bits_of<__m512i>(x), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  }
};

}  // namespace

bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
}

PTX_TARGET void multiply_avx512(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b, const float* c,
                                float* d, int stride) {
  multiply_by_bytes<Avx512>(core, m, n, k, a, b, c, d, stride);
}

}  // namespace ptx::sim

#endif
