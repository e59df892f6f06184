// multiply_plain by AVX2, eight results at once.
#if defined(__x86_64__)

#include <immintrin.h>

#define PTX_TARGET [[gnu::target("avx2")]]
#include "ptx/sim/numerics/multiply_bytes.h"

namespace ptx::sim {

namespace {

struct Avx2 : Lanes<8> {
  PTX_INLINE static bool any_negative(const Ints& x) { return _mm256_movemask_ps(bits_of<__m256>(x)) != 0; }
  PTX_INLINE static std::int32_t largest(const Ints& x) {
    const __m256i all = bits_of<__m256i>(x);
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1)));
  }
  PTX_INLINE static Ints widen(const std::uint8_t* from) {
    return bits_of<Ints>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }
  PTX_INLINE static void narrow(const Ints& x, std::uint8_t* to) {
    const __m128i low = _mm256_castsi256_si128(bits_of<__m256i>(x));
    const __m128i halves = _mm_packs_epi32(low, _mm256_extracti128_si256(bits_of<__m256i>(x), 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(halves, halves));
  }
  PTX_INLINE static Floats cut(const Ints& x) { return __builtin_convertvector(x, Floats); }  // TowardsZero
};

// AVX2 converts as the thread's mode says. Nothing else here rounds: products are exact, and scales powers of two.
class TowardsZero {
 public:
  TowardsZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | _MM_ROUND_TOWARD_ZERO); }
  ~TowardsZero() { _mm_setcsr(before_); }
  TowardsZero(const TowardsZero&) = delete;

 private:
  unsigned before_;
};

// A function of its own: the compiler does not know that the mode matters, and might convert before it is set.
PTX_TARGET [[gnu::noinline]] void multiply_towards_zero(const TensorCore& core, int m, int n, int k, Factorised a,
                                                        Factorised b, const float* c, float* d, int stride) {
  multiply_by_bytes<Avx2>(core, m, n, k, a, b, c, d, stride);
}

}  // namespace

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

PTX_TARGET void multiply_avx2(const TensorCore& core, int m, int n, int k, Factorised a, Factorised b, const float* c,
                              float* d, int stride) {
  const TowardsZero mode;
  multiply_towards_zero(core, m, n, k, a, b, c, d, stride);
}

}  // namespace ptx::sim

#endif
