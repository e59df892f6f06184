// Kernels that clang compiles for the target and for the host: test_clang_runs.py runs both and compares the bytes.
// A thread is a call; nothing here synchronises.
#ifdef HOST
#define KERNEL
#define CONSTANT
int tid;
#else
#define KERNEL __attribute__((nvptx_kernel))
#define CONSTANT __attribute__((address_space(4)))
#define tid __nvvm_read_ptx_sreg_tid_x()
#endif

typedef unsigned char u8;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long s64;
typedef float float4 __attribute__((vector_size(16)));
typedef int int8 __attribute__((vector_size(32)));
typedef short short8 __attribute__((vector_size(16)));
typedef double double2 __attribute__((vector_size(16)));
struct Parts {
  u8 a;
  s64 b;
  short c[3];
  float d;
};
struct Bits {
  u32 a : 5;
  int b : 11;
  u64 c : 37;
};
union Word {
  float f;
  u32 u;
  u8 b[4];
};

static CONSTANT const int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};

KERNEL void vectors(const float4* a, float4* b, const int8* c, int8* d, const short8* e, short8* f, const double2* g,
                    double2* h) {
  const int t = tid;
  b[t] = a[t] * __builtin_shufflevector(a[t], a[t], 1, 0, 3, 2) + (float4){1, 2, 3, 4};
  d[t] = c[t] * c[t] - (c[t] >> 2) + (c[t] > 5);
  f[t] = (e[t] / (short8){1, 2, 3, 4, 5, 6, 7, 8}) ^ (e[t] << 1);
  h[t] = g[t] / (g[t] * g[t] + 1);
}

KERNEL void words(const int* a, int* out) {
  const int t = tid, x = a[t], y = a[t + 32] | 1;
  int sum, product;
  const int overflows = __builtin_add_overflow(x, y, &sum) + 2 * __builtin_mul_overflow(x, y, &product);
  out[t] = x / y, out[32 + t] = x % y, out[64 + t] = (u32)x / (u32)y;
  out[96 + t] = __builtin_popcount(x) + __builtin_clz(y) + __builtin_ctz(y);
  out[128 + t] = __builtin_bswap32(x) ^ __builtin_bitreverse32(y);
  out[160 + t] = __builtin_rotateleft32(x, y), out[192 + t] = __builtin_elementwise_add_sat(x, y);
  out[224 + t] = overflows + sum + product;
  out[256 + t] = (u8)x * (signed char)y + (unsigned short)x % 7 + (short)x / 3;
}

KERNEL void doublewords(const s64* a, s64* out) {
  const int t = tid;
  const s64 x = a[t], y = a[t + 32] | 1;
  out[t] = x / y, out[32 + t] = x % y, out[64 + t] = (u64)x / (u64)y;
  out[96 + t] = (s64)(((__int128)x * y) >> 64);
  out[128 + t] = (s64)((unsigned __int128)(u64)x * 1000003 / 977);
  out[160 + t] = __builtin_popcountll(x) + __builtin_clzll(y) + __builtin_bitreverse64(x);
}

KERNEL void structs(const struct Parts* given, struct Bits* bits, struct Parts* out, union Word* words) {
  const int t = tid;
  struct Parts p = *given;
  p.a += t, p.c[t % 3] = p.c[(t + 1) % 3] - t, p.b *= p.a;
  out[t].a = p.a, out[t].b = p.b, out[t].d = p.d;
  for (int i = 0; i < 3; ++i) out[t].c[i] = p.c[i];
  bits[t].a += 3, bits[t].b -= 5, bits[t].c = bits[t].c * 5 + t;
  union Word w;
  w.f = p.d + t, w.b[0] ^= 1, words[t] = w;
}

static int __attribute__((noinline)) ackermann(int m, int n) {
  if (!m) return n + 1;
  return ackermann(m - 1, n ? ackermann(m, n - 1) : 1);
}
static float __attribute__((noinline)) sum(float a, float b) { return a + b; }
static float __attribute__((noinline)) product(float a, float b) { return a * b; }
static float __attribute__((noinline)) difference(float a, float b) { return a - b; }

KERNEL void calls(const int* which, int* out, float* results) {
  float (*const functions[3])(float, float) = {sum, product, difference};
  const int t = tid;
  float x = t;
  for (int i = 0; i < 5; ++i) x = functions[(which[i] + t) % 3](x, 1.5f);
  out[t] = ackermann(2, t % 4), results[t] = x;
}

KERNEL void switches(const int* code, int count, int* out) {
  u32 n = tid;
  for (int i = 0; i < count; ++i) {
    switch (code[i]) {
      case 0: n += primes[n & 7]; break;
      case 1: n *= 3; break;
      case 2: n ^= 0x55;
      case 3: n -= 9; break;
      case 4: n = n << 2 | n >> 30; break;
      case 5: goto end;
      case 6: n = -n; break;
      case 8: n %= 77; break;
      case 11: n = ~n; break;
      default: n++;
    }
  }
end:
  out[tid] = n;
}

KERNEL void stack(const int* sizes, int* out) {
  const int t = tid, size = sizes[t];
  int numbers[40], sum = 0;
  for (int i = 0; i < size; ++i) numbers[i] = i * t;
  for (int i = size - 1; i >= 0; i -= 2) sum += numbers[i];
  out[t] = sum;
}

KERNEL void floats(const float* a, float* out, const double* b, double* wide) {
  const int t = tid;
  const float x = a[t];
  out[t] = __builtin_sqrtf(x * x + 1), out[32 + t] = __builtin_floorf(x) + __builtin_ceilf(3 * x);
  out[64 + t] = __builtin_truncf(x) + __builtin_rintf(5 * x), out[96 + t] = __builtin_fmaf(x, x, 1);
  out[128 + t] = __builtin_fminf(x, 0.5f), out[160 + t] = __builtin_copysignf(2, x);
  out[192 + t] = (float)(int)x + (u32)(x * x) + (s64)x, out[224 + t] = 1 / x;
  const double y = b[t];
  wide[t] = __builtin_sqrt(y * y), wide[32 + t] = __builtin_fma(y, y, -1), wide[64 + t] = y / 3;
  wide[96 + t] = (double)(float)y + (s64)y, wide[128 + t] = __builtin_floor(y) + (double)(u64)(y * y);
}

KERNEL void bytes(const _Bool* a, _Bool* either, const u8* b, short* out) {
  const int t = tid;
  either[t] = (a[t] && b[t] > 3) || !a[(t + 1) & 31];
  out[t] = a[t] ? (signed char)b[t] : b[t] >> 1;
}
