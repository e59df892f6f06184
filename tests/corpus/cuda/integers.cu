// Integer arithmetic and bits: every width, 128 bits, division, the intrinsics of CUDA C++, packed bytes, dot products.
#include <cstdint>

template <class T> __device__ T arithmetic(T a, T b, int s) {
    T r = a + b * 3 - (a ^ b) + (a & b) + (a | ~b) + T(a << (s & 7)) + T(a >> (s & 7)) + (b ? a / b + a % b : T(1));
    r += (a < b ? a : b) + (a > b ? b : a) + T(-b) + (a == b) + (a <= b) + !a;
    return r;
}
#define ARITHMETIC(name, T) extern "C" __global__ void name(T* p, T a, T b, int s) { p[threadIdx.x] = arithmetic<T>(p[0] + a, b, s); }
ARITHMETIC(i8, int8_t) ARITHMETIC(u8, uint8_t) ARITHMETIC(i16, int16_t) ARITHMETIC(u16, uint16_t)
ARITHMETIC(i32, int32_t) ARITHMETIC(u32, uint32_t) ARITHMETIC(i64, int64_t) ARITHMETIC(u64, uint64_t)
ARITHMETIC(i128, __int128) ARITHMETIC(u128, unsigned __int128)

extern "C" __global__ void constants(int* p, unsigned* u, long long* l) {
    int t = threadIdx.x;
    p[t] = p[t] / 7 + p[t] % 10 + p[t] / 16 + p[t] % 64;
    u[t] = u[t] / 7u + u[t] % 1000u + u[t] / 8u;
    l[t] = l[t] / 1000000007ll + l[t] % 3 + 0x123456789abcdefll;
}
extern "C" __global__ void intrinsics(int* p, unsigned* u, long long* l, int a, int b, unsigned c, unsigned d) {
    p[0] = __mulhi(a, b); p[1] = __mul24(a, b); u[0] = __umul24(c, d); u[1] = __umulhi(c, d);
    l[0] = __mul64hi(l[1], l[2]); l[3] = __umul64hi(l[1], l[2]);
    p[2] = __clz(a) + __clzll(l[1]) + __popc(a) + __popcll(l[2]) + __ffs(a) + __ffsll(l[1]);
    u[2] = __brev(c); l[4] = __brevll(l[1]);
    u[3] = __byte_perm(c, d, 0x1032) + __byte_perm(c, d, a);
    u[4] = __funnelshift_l(c, d, a) + __funnelshift_lc(c, d, a) + __funnelshift_r(c, d, b) + __funnelshift_rc(c, d, 5);
    p[3] = __sad(a, b, c); u[5] = __usad(c, d, a);
    p[4] = __hadd(a, b) + __rhadd(a, b); u[6] = __uhadd(c, d) + __urhadd(c, d);
    p[5] = __dp4a(a, b, p[6]) + __dp2a_lo(a, b, p[6]) + __dp2a_hi(a, b, p[6]);
    u[7] = __dp4a(c, d, u[8]) + __dp2a_lo(c, d, u[8]) + __dp2a_hi(c, d, u[8]);
    p[7] = abs(a) + min(a, b) + max(a, b); l[5] = llabs(l[1]) + min(l[1], l[2]) + max(l[1], l[2]);
    p[8] = __mul24(a, 5) + (int)__float_as_int(1.f) + __double2hiint(double(a)) + __double2loint(double(b));
    u[9] = __nv_bswap32(c);
}
extern "C" __global__ void three_way(int* p, int a, int b, int c) {
#if __CUDACC_VER_MAJOR__ >= 12
    p[0] = __vimax3_s32(a, b, c) + __vimin3_s32(a, b, c) + __vimax_s32_relu(a, b) + __vimin3_s32_relu(a, b, c);
    p[1] = __viaddmax_s32(a, b, c) + __viaddmin_s32(a, b, c) + __viaddmax_s32_relu(a, b, c);
    p[2] = __vimax_s16x2_relu(a, b) + __viaddmax_s16x2(a, b, c) + __vimin3_u16x2(a, b, c);
    bool lo, hi;
    p[3] = __vibmax_s16x2(a, b, &hi, &lo) + lo + hi;
    p[4] = __vibmin_u32(a, b, &lo) + lo;
#endif
}
extern "C" __global__ void packed(unsigned* u, unsigned a, unsigned b) {
    u[0] = __vadd2(a, b) + __vaddss2(a, b) + __vaddus2(a, b) + __vsub2(a, b) + __vsubss2(a, b) + __vavgs2(a, b) + __vavgu2(a, b);
    u[1] = __vadd4(a, b) + __vaddss4(a, b) + __vaddus4(a, b) + __vsub4(a, b) + __vsubus4(a, b) + __vavgs4(a, b) + __vhaddu4(a, b);
    u[2] = __vabs2(a) + __vabsss2(a) + __vabs4(a) + __vabsdiffs2(a, b) + __vabsdiffu4(a, b) + __vneg2(a) + __vnegss4(a);
    u[3] = __vcmpeq2(a, b) + __vcmpges4(a, b) + __vcmpgtu2(a, b) + __vcmples4(a, b) + __vcmpne4(a, b);
    u[4] = __vmaxs2(a, b) + __vminu4(a, b) + __vmaxu2(a, b) + __vmins4(a, b);
    u[5] = __vseteq4(a, b) + __vsetgts2(a, b) + __vsetltu4(a, b) + __vsads2(a, b) + __vsadu4(a, b);
}
extern "C" __global__ void carries(uint32_t* p, const uint32_t* a, const uint32_t* b) {
    asm("add.cc.u32 %0, %2, %4;\n\taddc.cc.u32 %1, %3, %5;" : "=r"(p[0]), "=r"(p[1]) : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
    asm("addc.u32 %0, %1, %2; sub.cc.u32 %0, %0, %1; subc.cc.u32 %0, %0, %2; subc.u32 %0, %0, 0;" : "+r"(p[2]) : "r"(a[2]), "r"(b[2]));
    asm("mad.lo.cc.u32 %0, %1, %2, %0; madc.hi.cc.u32 %0, %1, %2, %0; madc.lo.u32 %0, %1, %2, 0;" : "+r"(p[3]) : "r"(a[3]), "r"(b[3]));
    uint64_t q = a[4];
    asm("add.cc.u64 %0, %0, %1; addc.cc.u64 %0, %0, %1; addc.u64 %0, %0, 0;" : "+l"(q) : "l"(uint64_t(b[4])));
    asm("mad.lo.cc.u64 %0, %0, %1, %0; madc.hi.u64 %0, %0, %1, 7;" : "+l"(q) : "l"(uint64_t(b[5])));
    p[5] = q;
}
extern "C" __global__ void found(unsigned* u, int* i, unsigned long long* ul, long long* l) {
    asm("bfind.u32 %0, %1;" : "=r"(u[0]) : "r"(u[1])); asm("bfind.s32 %0, %1;" : "=r"(u[2]) : "r"(i[1])); asm("bfind.u64 %0, %1;" : "=r"(u[3]) : "l"(ul[1])); asm("bfind.s64 %0, %1;" : "=r"(u[4]) : "l"(l[1]));
    asm("bfind.shiftamt.u64 %0, %1;" : "=r"(u[5]) : "l"(ul[1])); asm("bfind.shiftamt.s64 %0, %1;" : "=r"(u[6]) : "l"(l[1]));
    i[2] = short(i[3]) % short(i[4]); l[3] = l[4] % l[5]; ul[3] = ul[4] % ul[5];
}
