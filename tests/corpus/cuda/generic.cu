// Pointers whose space the compiler cannot see: generic ld, st, atom and red, volatile, vectors, __nv_atomic built-ins.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define HIDDEN __device__ __noinline__
template <class T> HIDDEN T both(T* p, volatile T* v, int n) { T r = p[n]; v[n] = r; p[n + 1] = v[n + 1]; return r; }
template <class V> HIDDEN V vectors(V* p, int n) { V v = p[n]; p[n + 1] = v; return p[n + 2]; }
extern "C" __global__ void all(char* c, unsigned char* uc, short* s, unsigned short* us, int* i, unsigned* u, long long* l, float* f, double* d, bool* b, int n) {
    c[0] = both(c, c + n, n); uc[0] = both(uc, uc + n, n); s[0] = both(s, s + n, n); us[0] = both(us, us + n, n); i[0] = both(i, i + n, n); u[0] = both(u, u + n, n);
    l[0] = both(l, l + n, n); f[0] = both(f, f + n, n); d[0] = both(d, d + n, n); b[0] = both(b, b + n, n);
    float2 f2 = vectors((float2*)f, n); float4 f4 = vectors((float4*)f, n); int2 i2 = vectors((int2*)i, n); uint4 u4 = vectors((uint4*)u, n); short2 s2 = vectors((short2*)s, n);
    uchar4 c4 = vectors((uchar4*)c, n); char2 c2 = vectors((char2*)c, n); double2 d2 = vectors((double2*)d, n); longlong2 l2 = vectors((longlong2*)l, n); ushort4 s4 = vectors((ushort4*)s, n);
    f[1] = f2.x + f4.w; i[1] = i2.y + u4.z + s2.x + c4.w + c2.y + s4.z; d[1] = d2.y; l[1] = l2.x;
}
template <class T> HIDDEN T atomic(T* p, T v) {
    T r = atomicAdd(p, v) + atomicMin(p, v) + atomicMax(p, v) + atomicAnd(p, v) + atomicOr(p, v) + atomicXor(p, v) + atomicExch(p, v) + atomicCAS(p, v, r);
    r += atomicAdd_block(p, v) + atomicMin_block(p, v) + atomicMax_block(p, v) + atomicAnd_block(p, v) + atomicOr_block(p, v) + atomicXor_block(p, v) + atomicExch_block(p, v) + atomicCAS_block(p, v, r);
    r += atomicAdd_system(p, v) + atomicMin_system(p, v) + atomicMax_system(p, v) + atomicAnd_system(p, v) + atomicOr_system(p, v) + atomicXor_system(p, v) + atomicExch_system(p, v) + atomicCAS_system(p, v, r);
    return r;
}
HIDDEN unsigned counting(unsigned* p, unsigned v) { return atomicInc(p, v) + atomicDec(p, v) + atomicInc_block(p, v) + atomicDec_block(p, v) + atomicInc_system(p, v) + atomicDec_system(p, v); }
template <class T> HIDDEN T adding(T* p, T v) { T r = atomicAdd(p, v); return r + atomicAdd_block(p, r) + atomicAdd_system(p, v); }
HIDDEN __half2 halves(__half* h, __half2* h2, unsigned short* s) { h[0] = atomicAdd(h + 1, h[2]); s[0] = atomicCAS(s, (unsigned short)1, (unsigned short)2); return atomicAdd(h2, h2[1]); }
extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d, __half* h, __half2* h2) {
    i[0] = atomic(i, 3); u[0] = atomic(u, 4u) + counting(u, 7); l[0] = atomic(l, 5ull); f[0] = adding(f, 2.f); d[0] = adding(d, 3.0); h2[0] = halves(h, h2, (unsigned short*)u);
}
HIDDEN void ordered(int* p, unsigned long long* l, int v) {
    __nv_atomic_store_n(p, v, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_SYSTEM); p[1] = __nv_atomic_load_n(p, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_BLOCK);
    p[2] = __nv_atomic_fetch_add(p, v, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE) + __nv_atomic_fetch_or(p, v, __NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_SYSTEM);
    l[1] = __nv_atomic_fetch_max(l, 7ull, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_CLUSTER) + __nv_atomic_exchange_n(l, 9ull, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_BLOCK);
    unsigned long long want = 3; l[2] = __nv_atomic_compare_exchange_n(l, &want, 5ull, false, __NV_ATOMIC_RELEASE, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_DEVICE);
}
extern "C" __global__ void builtins(int* p, unsigned long long* l) { ordered(p, l, p[3]); __nv_atomic_fetch_add(p + 4, 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE); }
