// Half and bfloat16 arithmetic, scalar and packed: rounding, comparisons, conversions, the math library.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class H> __device__ H scalars(H a, H b, H c) {
    H r = __hadd(a, b) * __hsub(b, c) + __hmul(a, c) / __hdiv(b, c) + __hfma(a, b, c) + __hneg(a) + __habs(b);
    r = r + __hmin(a, b) + __hmax(b, c) + __hmin_nan(a, b) + __hmax_nan(b, c) + __hadd_sat(a, b) + __hmul_sat(b, c) + __hfma_sat(a, b, c) + __hfma_relu(a, b, c);
    r = r + hsqrt(a) + hrsqrt(b) + hrcp(c) + hexp(a) + hexp2(b) + hlog(c) + hlog2(a) + hsin(b) + hcos(c) + htanh(a) + htanh_approx(b);
    r = r + hfloor(a) + hceil(b) + htrunc(c) + hrint(a);
    if (__heq(a, b) || __hltu(b, c) || __hne(a, c) || __hgeu(a, b) || __hisnan(a)) r = a;
    return r;
}
__device__ __half2 lows_of(__half2 a, __half2 b) { return __lows2half2(a, b); }
__device__ __nv_bfloat162 lows_of(__nv_bfloat162 a, __nv_bfloat162 b) { return __lows2bfloat162(a, b); }
template <class H2> __device__ H2 pairs(H2 a, H2 b, H2 c) {
    H2 r = __hadd2(a, b) * __hsub2(b, c) + __hmul2(a, c) / __h2div(b, c) + __hfma2(a, b, c) + __hneg2(a) + __habs2(b);
    r = r + __hmin2(a, b) + __hmax2(b, c) + __hmin2_nan(a, b) + __hadd2_sat(a, b) + __hfma2_relu(a, b, c) + __heq2(a, b) + __hltu2(b, c);
    r = r + h2sqrt(a) + h2exp2(b) + h2log2(c) + h2sin(a) + h2tanh_approx(b) + h2rint(c) + h2rcp(a);
    if (__hbeq2(a, b) || __hbgtu2(b, c) || __heq2_mask(a, b)) r = c;
    return __lowhigh2highlow(r) + lows_of(r, a);
}

template <class H> __device__ int compare(H a, H b) { return __heq(a, b) + 2 * __hne(a, b) + 4 * __hlt(a, b) + 8 * __hle(a, b) + 16 * __hgt(a, b) + 32 * __hge(a, b) + 64 * __hequ(a, b) + 128 * __hneu(a, b) + 256 * __hltu(a, b) + 512 * __hleu(a, b) + 1024 * __hgtu(a, b) + 2048 * __hgeu(a, b); }
template <class H2> __device__ H2 compare2(H2 a, H2 b) { return __heq2(a, b) + __hne2(a, b) + __hlt2(a, b) + __hle2(a, b) + __hgt2(a, b) + __hge2(a, b) + __hequ2(a, b) + __hneu2(a, b) + __hltu2(a, b) + __hleu2(a, b) + __hgtu2(a, b) + __hgeu2(a, b) + __hisnan2(a); }
template <class H2> __device__ unsigned masks(H2 a, H2 b) { return __heq2_mask(a, b) ^ __hne2_mask(a, b) ^ __hlt2_mask(a, b) ^ __hle2_mask(a, b) ^ __hgt2_mask(a, b) ^ __hge2_mask(a, b) ^ __hequ2_mask(a, b) ^ __hneu2_mask(a, b) ^ __hltu2_mask(a, b) ^ __hleu2_mask(a, b) ^ __hgtu2_mask(a, b) ^ __hgeu2_mask(a, b); }
extern "C" __global__ void half_compare(__half2* h, unsigned* o) { o[0] = compare(h[0].x, h[0].y) + masks(h[1], h[2]); h[3] = compare2(h[4], h[5]); }
extern "C" __global__ void half_scalars(__half* h) { h[0] = scalars(h[1], h[2], h[3]); }
extern "C" __global__ void half_pairs(__half2* h) { h[0] = pairs(h[1], h[2], h[3]); }
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void bf16_compare(__nv_bfloat162* h, unsigned* o) { o[0] = compare(h[0].x, h[0].y) + masks(h[1], h[2]); h[3] = compare2(h[4], h[5]); }
extern "C" __global__ void bf16_integers(__nv_bfloat16* b, short* s, unsigned short* us, int* i, unsigned* u, long long* l, unsigned long long* ul) {
#define BOTH(r) b[0] = __short2bfloat16_##r(s[0]); b[1] = __ushort2bfloat16_##r(us[0]); b[2] = __int2bfloat16_##r(i[0]); b[3] = __uint2bfloat16_##r(u[0]); b[4] = __ll2bfloat16_##r(l[0]); b[5] = __ull2bfloat16_##r(ul[0]); b += 6; \
    s[1] = __bfloat162short_##r(b[7]); us[1] = __bfloat162ushort_##r(b[8]); i[1] = __bfloat162int_##r(b[9]); u[1] = __bfloat162uint_##r(b[10]); l[1] = __bfloat162ll_##r(b[11]); ul[1] = __bfloat162ull_##r(b[12]); s++, us++, i++, u++, l++, ul++;
    BOTH(rn) BOTH(rz) BOTH(ru) BOTH(rd)
}
extern "C" __global__ void bf16_scalars(__nv_bfloat16* h) { h[0] = scalars(h[1], h[2], h[3]); }
extern "C" __global__ void bf16_pairs(__nv_bfloat162* h) { h[0] = pairs(h[1], h[2], h[3]); }
#endif

extern "C" __global__ void half_integers(__half* b, short* s, unsigned short* us, int* i, unsigned* u, long long* l, unsigned long long* ul) {
#define HALF(r) b[0] = __short2half_##r(s[0]); b[1] = __ushort2half_##r(us[0]); b[2] = __int2half_##r(i[0]); b[3] = __uint2half_##r(u[0]); b[4] = __ll2half_##r(l[0]); b[5] = __ull2half_##r(ul[0]); b += 6; \
    s[1] = __half2short_##r(b[7]); us[1] = __half2ushort_##r(b[8]); i[1] = __half2int_##r(b[9]); u[1] = __half2uint_##r(b[10]); l[1] = __half2ll_##r(b[11]); ul[1] = __half2ull_##r(b[12]); s++, us++, i++, u++, l++, ul++;
    HALF(rn) HALF(rz) HALF(ru) HALF(rd)
}
extern "C" __global__ void conversions(__half* h, __nv_bfloat16* b, float* f, double* d, int* i, long long* l) {
    h[0] = __float2half_rn(f[0]); h[1] = __float2half_rz(f[1]); h[2] = __float2half_ru(f[2]); h[3] = __double2half(d[0]);
    h[4] = __int2half_rn(i[0]); h[5] = __ll2half_rz(l[0]); h[6] = __ushort2half_rd(i[1]); h[7] = __uint2half_ru(i[2]);
    f[3] = __half2float(h[8]); i[3] = __half2int_rn(h[9]); l[1] = __half2ull_rz(h[10]); i[4] = __half2short_rd(h[11]); i[5] = __half2uint_ru(h[12]);
    b[0] = __float2bfloat16_rn(f[4]); b[1] = __float2bfloat16_rz(f[5]); b[2] = __double2bfloat16(d[1]); b[3] = __int2bfloat16_rn(i[6]);
    f[6] = __bfloat162float(b[4]); i[7] = __bfloat162int_rn(b[5]); l[2] = __bfloat162ll_rz(b[6]); b[7] = __ushort_as_bfloat16(7);
    reinterpret_cast<__half2*>(h)[8] = __floats2half2_rn(f[0], f[1]);
    reinterpret_cast<__nv_bfloat162*>(b)[8] = __floats2bfloat162_rn(f[0], f[1]);
    reinterpret_cast<__half2*>(h)[9] = __float22half2_rn(make_float2(f[2], f[3]));
    h[20] = __ldg(h + 21); h[22] = __ldcs(h + 23); __stcg(h + 24, h[25]); h[26] = __shfl_xor_sync(0xffffffff, h[27], 3);
    h[30] = __hcmadd(reinterpret_cast<__half2*>(h)[1], reinterpret_cast<__half2*>(h)[2], reinterpret_cast<__half2*>(h)[3]).x;
}
