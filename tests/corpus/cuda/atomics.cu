// The atomic functions of CUDA C++ on every type, scope and space, used and unused results (atom and red).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T> __device__ T integer(T* p, T v) {
    T r = atomicAdd(p, v) + atomicMin(p, v) + atomicMax(p, v) + atomicAnd(p, v) + atomicOr(p, v) + atomicXor(p, v);
    r += atomicExch(p, v) + atomicCAS(p, v, r);
    r += atomicAdd_block(p, v) + atomicAdd_system(p, v) + atomicMax_block(p, v) + atomicMin_system(p, v);
    r += atomicCAS_block(p, v, r) + atomicCAS_system(p, r, v) + atomicExch_system(p, v);
    atomicAdd(p + 1, v); atomicMin(p + 1, v); atomicMax(p + 1, v); atomicAnd(p + 1, v); atomicOr(p + 1, v); atomicXor(p + 1, v);
    atomicOr_block(p + 2, v); atomicXor_system(p + 2, v);
    return r;
}
extern "C" __global__ void integers(int* i, unsigned* u, long long* s64, unsigned long long* l) {
    __shared__ int si[64];
    __shared__ unsigned long long sl[64];
    int t = threadIdx.x;
    si[t] = i[t]; sl[t] = l[t];
    __syncthreads();
    i[t] = integer(i, t) + integer(si, t);
    u[t] = integer(u, unsigned(t)) + atomicInc(u, 7u) + atomicDec(u, 9u) + atomicSub(u, 3u);
    l[t] = integer(l, (unsigned long long)t) + integer(sl, (unsigned long long)t);
    s64[t] = atomicMin(s64, (long long)t) + atomicMax(s64 + 1, (long long)t);
    unsigned short* h = reinterpret_cast<unsigned short*>(u);
    u[t] = atomicCAS(h, (unsigned short)1, (unsigned short)2);
}
extern "C" __global__ void floats(float* f, double* d, __half* h, __half2* h2, __nv_bfloat16* b, __nv_bfloat162* b2) {
    __shared__ float sf[32];
    int t = threadIdx.x;
    sf[t] = 0;
    __syncthreads();
    atomicAdd(sf, f[t]);
    f[t] = atomicAdd(f, 1.5f) + atomicExch(f + 1, 2.f) + atomicAdd_system(f, sf[t]);
    d[t] = atomicAdd(d, 2.5) + atomicAdd_block(d, 1.0);
    h[t] = atomicAdd(h, h[t + 1]);
    h2[t] = atomicAdd(h2, h2[t + 1]);
#if __CUDA_ARCH__ >= 900
    b[t] = atomicAdd(b, b[t + 1]);
    b2[t] = atomicAdd(b2, b2[t + 1]);
    float4 v = atomicAdd(reinterpret_cast<float4*>(f), make_float4(1, 2, 3, 4));
    float2 w = atomicAdd(reinterpret_cast<float2*>(f) + 4, make_float2(v.x, v.y));
    f[t + 2] = w.x + w.y + v.z + v.w;
#endif
}
