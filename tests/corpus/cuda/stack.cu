// Local memory: alloca, arrays with dynamic index, addresses that escape, large frames, aligned locals.
#include <alloca.h>
__device__ __noinline__ int use(int* p, int n) { int s = 0; for (int i = 0; i < n; ++i) s += p[i] * i; return s; }
extern "C" __global__ void dynamic(int* out, int n) {
    int* p = static_cast<int*>(alloca(n * sizeof(int)));
    for (int i = 0; i < n; ++i) p[i] = out[i];
    out[threadIdx.x] = use(p, n);
    if (n > 4) { char* c = static_cast<char*>(__builtin_alloca(n)); c[n - 1] = 3; out[1] = use(reinterpret_cast<int*>(c), 1); }
}
extern "C" __global__ void arrays(int* out, double* d, int n) {
    int big[1000]; alignas(64) double aligned[8]; unsigned char bytes[37]; short pairs[3][5];
    for (int i = 0; i < 1000; ++i) big[i] = out[i] + n;
    for (int i = 0; i < 8; ++i) aligned[i] = d[i * n];
    for (int i = 0; i < 37; ++i) bytes[i] = out[i] >> 3;
    for (int i = 0; i < 15; ++i) pairs[i / 5][i % 5] = out[i];
    out[0] = use(big, n) + big[n] + bytes[n % 37] + pairs[n % 3][n % 5];
    d[0] = aligned[n & 7];
}
extern "C" __global__ void save_restore(int* out, int n) {
#if __CUDA_ARCH__ >= 520
    asm volatile("{ .reg .b64 sp, q; stacksave.u64 sp; alloca.u64 q, %1, 32; cvta.local.u64 q, q; st.u32 [q], 3; ld.u32 %0, [q]; stackrestore.u64 sp; }" : "=r"(out[0]) : "l"((long long)n * 16));
#endif
}
