// Loads, stores and copies: caching operators, vectors, volatile, address spaces, prefetch, cp.async, access properties.
#include <cuda/annotated_ptr>
#include <cuda/discard_memory>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

template <class T> __device__ void cached(T* p) {
    __stwb(p, __ldca(p + 1)); __stcg(p + 2, __ldcg(p + 3)); __stcs(p + 4, __ldcs(p + 5)); __stwt(p + 6, __ldcv(p + 7)); p[8] = __ldg(p + 9); p[10] = __ldlu(p + 11);
}
extern "C" __global__ void caching(char* c, short* s, int* i, long long* l, float* f, double* d, float4* f4, uchar4* c4, int2* i2, double2* d2, ushort2* s2) {
    cached(c); cached(s); cached(i); cached(l); cached(f); cached(d); cached(f4); cached(c4); cached(i2); cached(d2); cached(s2);
}
extern "C" __global__ void spaces(volatile int* v, const int* __restrict__ r, int* p, void* g) {
    __shared__ int s[32]; int local[4] = {1, 2, 3, 4};
    v[0] = v[1] + r[0]; s[threadIdx.x] = r[threadIdx.x];
    int* any = v[2] ? s : v[3] ? local : p;
    any[v[4] & 3] = 7; p[0] = *any + local[v[5] & 3];
    p[1] = __isGlobal(g) + __isShared(g) + __isLocal(g) + __isConstant(g);
    p[2] = int(__cvta_generic_to_global(g)) + int(__cvta_generic_to_shared(g)) + int(__cvta_generic_to_local(g)) + int(__cvta_generic_to_constant(g));
    *reinterpret_cast<int*>(__cvta_shared_to_generic(v[6])) = 3;
}
struct alignas(16) Wide { float v[16]; }; struct Odd { char c[3]; short s; long long l; };
extern "C" __global__ void aggregates(Wide* w, Odd* o, Wide by_value, const __grid_constant__ Odd constant, int n) {
    w[threadIdx.x] = by_value; o[threadIdx.x] = constant; w[n] = w[n + 1]; o[n] = o[n + 1]; w[n].v[n] = by_value.v[n]; o[n + 2].c[n] = constant.c[n];
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void copies(float4* out, const float4* in, const int* small, int n) {
    __shared__ float4 s[128]; __shared__ int t[64];
    __pipeline_memcpy_async(s + threadIdx.x, in + threadIdx.x, 16); __pipeline_memcpy_async(s + threadIdx.x, in + n, 16, 4); __pipeline_memcpy_async(t + threadIdx.x, small + n, 4);
    __pipeline_commit(); __pipeline_wait_prior(1); __pipeline_wait_prior(0); __syncthreads();
    unsigned a = unsigned(__cvta_generic_to_shared(s));
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(a), "l"(in), "r"(n));
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; cp.async.ca.shared.global [%0], [%1], 8, p; cp.async.wait_all; cp.async.commit_group; cp.async.wait_group 3; }" :: "r"(a), "l"(in), "r"(n));
    out[threadIdx.x] = s[127 - threadIdx.x]; out[0].x = t[n];
}
extern "C" __global__ void properties(float* p, const float* q, int n) {
    cuda::annotated_ptr<float, cuda::access_property::persisting> a(p); cuda::annotated_ptr<const float, cuda::access_property::streaming> b(q);
    a[n] = b[n]; cuda::apply_access_property(p, 256, cuda::access_property::persisting{}); cuda::discard_memory(p, 1024); cuda::associate_access_property(p, cuda::access_property::normal{})[1] = 2;
}
#endif
