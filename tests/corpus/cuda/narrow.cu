// Conversions to and from fp8, fp6, fp4 and the scale type e8m0, scalar and packed.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

template <class Wide, class Narrow> __device__ float there_and_back(Wide w, Narrow* out) { *out = Narrow(w); return float(Narrow(w)); }
extern "C" __global__ void eight(__nv_fp8_e4m3* e4, __nv_fp8_e5m2* e5, __nv_fp8_e8m0* e8, float* f, double* d, __half* h, __nv_bfloat16* b) {
    f[0] = there_and_back(f[1], e4) + there_and_back(h[0], e4 + 1) + there_and_back(b[0], e4 + 2) + there_and_back(d[0], e4 + 3);
    f[2] = there_and_back(f[3], e5) + there_and_back(h[1], e5 + 1) + there_and_back(b[1], e5 + 2) + there_and_back(int(d[1]), e5 + 3);
    f[4] = there_and_back(f[5], e8) + there_and_back(b[2], e8 + 1);
}
template <class N2, class N4> __device__ void packs(N2* n2, N4* n4, float2* f2, float4* f4, __half2* h2, __nv_bfloat162* b2) {
    n2[0] = N2(f2[0]); n2[1] = N2(h2[0]); n2[2] = N2(b2[0]);
    n4[0] = N4(f4[0]); n4[1] = N4(h2[1], h2[2]);
    f2[1] = float2(n2[3]); f4[1] = float4(n4[2]); h2[3] = __half2(n2[4]);
}
extern "C" __global__ void packed8(void* o, float2* f2, float4* f4, __half2* h2, __nv_bfloat162* b2) {
    packs((__nv_fp8x2_e4m3*)o, (__nv_fp8x4_e4m3*)o + 9, f2, f4, h2, b2);
    packs((__nv_fp8x2_e5m2*)o + 99, (__nv_fp8x4_e5m2*)o + 99, f2 + 9, f4 + 9, h2 + 9, b2 + 9);
}
extern "C" __global__ void packed6(void* o, float2* f2, float4* f4, __half2* h2, __nv_bfloat162* b2) {
    packs((__nv_fp6x2_e2m3*)o, (__nv_fp6x4_e2m3*)o + 9, f2, f4, h2, b2);
    packs((__nv_fp6x2_e3m2*)o + 99, (__nv_fp6x4_e3m2*)o + 99, f2 + 9, f4 + 9, h2 + 9, b2 + 9);
}
extern "C" __global__ void packed4(void* o, float2* f2, float4* f4, __half2* h2, __nv_bfloat162* b2) {
    packs((__nv_fp4x2_e2m1*)o, (__nv_fp4x4_e2m1*)o + 9, f2, f4, h2, b2);
}
extern "C" __global__ void rounding(unsigned short* o, float2* f2, __half2_raw* h) {
    o[0] = __nv_cvt_float2_to_fp8x2(f2[0], __NV_NOSAT, __NV_E4M3); o[1] = __nv_cvt_float2_to_fp8x2(f2[1], __NV_SATFINITE, __NV_E5M2);
    o[2] = __nv_cvt_float2_to_fp6x2(f2[2], __NV_E2M3, cudaRoundNearest); o[3] = __nv_cvt_float2_to_fp4x2(f2[3], __NV_E2M1, cudaRoundNearest);
    o[4] = __nv_cvt_float2_to_e8m0x2(f2[4], __NV_SATFINITE, cudaRoundZero); o[5] = __nv_cvt_float2_to_e8m0x2(f2[4], __NV_SATFINITE, cudaRoundPosInf);
    h[0] = __nv_cvt_fp8x2_to_halfraw2(o[6], __NV_E4M3); h[1] = __nv_cvt_fp6x2_to_halfraw2(o[7], __NV_E3M2); h[2] = __nv_cvt_fp4x2_to_halfraw2(o[8], __NV_E2M1);
}
