// Warp-wide instructions: shuffles of each width, votes, matches, reductions, elect, masks, nanosleep.
#include <cuda_fp16.h>
__device__ int active() { return __activemask(); }
extern "C" __global__ void shuffles(int* i, double* d, __half2* h, long long* l, int n) {
    int t = threadIdx.x;
    i[t] = __shfl_sync(0xffffffff, i[t], n) + __shfl_up_sync(0xffffffff, i[t], 1) + __shfl_down_sync(0xffffffff, i[t], n, 16) +
           __shfl_xor_sync(0xffffffff, i[t], 8, 8);
    d[t] = __shfl_xor_sync(0xffffffff, d[t], n) + __shfl_sync(0x0000ffff, d[t], 3, 4);
    h[t] = __shfl_down_sync(0xffffffff, h[t], 2);
    l[t] = __shfl_up_sync(0xffffffff, l[t], n);
}
extern "C" __global__ void votes(int* out, unsigned long long* l, int n) {
    int t = threadIdx.x;
    unsigned m = active();
    out[t] = __all_sync(m, t > n) + __any_sync(m, t == n) + __ballot_sync(m, t & n) + __uni_sync(m, n);
    out[t] += __match_any_sync(m, n) + __match_any_sync(m, l[t]);
    int same;
    out[t] += __match_all_sync(m, n, &same) + same + __match_all_sync(m, l[t], &same) + same;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(same) : "r"(n));
    out[t] += same + __popc(__ballot_sync(m, same)) + __fns(m, 3, n);
    unsigned id;
    asm("mov.u32 %0, %%laneid;" : "=r"(id)); out[t] += id;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(id)); out[t] += id;
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(id)); out[t] += id;
    asm("mov.u32 %0, %%warpid;" : "=r"(id)); out[t] += id;
    asm("mov.u32 %0, %%smid;" : "=r"(id)); out[t] += id;
    out[t] += clock() + int(clock64());
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(l[1]));
    __nanosleep(100);
    __nanosleep(n);
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void reductions(int* i, unsigned* u, int n) {
    int t = threadIdx.x;
    unsigned m = 0xffffffff;
    u[t] = __reduce_add_sync(m, u[t]) + __reduce_min_sync(m, u[t]) + __reduce_max_sync(m, u[t]);
    u[t] += __reduce_and_sync(m, u[t]) + __reduce_or_sync(m, u[t]) + __reduce_xor_sync(m, u[t]);
    i[t] = __reduce_add_sync(m, i[t]) + __reduce_min_sync(m, i[t]) + __reduce_max_sync(m, i[t]);
}
#endif
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void elected(int* out) {
    unsigned lane, p;
    asm volatile("{ .reg .pred q; elect.sync %0|q, 0xffffffff; selp.b32 %1, 1, 0, q; }" : "=r"(lane), "=r"(p));
    asm volatile("{ .reg .pred q; elect.sync _|q, 0xffffffff; @q st.global.u32 [%0], 1; }" :: "l"(out + 9));
    out[p] = lane;
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
}
#endif
