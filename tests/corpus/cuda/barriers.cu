// Barriers: bar and barrier with their reductions, cuda::barrier (mbarrier), latch, semaphore, pipeline.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>

extern "C" __global__ void plain(int* out, int n) {
    int t = threadIdx.x;
    __syncthreads();
    out[t] = __syncthreads_count(t > n) + __syncthreads_and(t > n) + __syncthreads_or(t < n);
    if (t < 32) __syncwarp();
    if (t < 16) __syncwarp(0xffff);
    __barrier_sync(3);
    __barrier_sync_count(4, 64);
    if (t < 32) asm volatile("bar.arrive 5, 64;"); else asm volatile("bar.sync 5, 64;");
    asm volatile("barrier.cta.sync.aligned %0, 128;" :: "r"(n));
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %0, 0; barrier.cta.red.popc.aligned.u32 %0, 2, p; bar.red.and.pred q, 1, 64, !p; @q st.global.u32 [%1], 7; }"
                 : "+r"(n) : "l"(out));
    out[t + 1] = n;
}
extern "C" __global__ void objects(int* out, int n) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int data[256];
    auto block = cooperative_groups::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, data, out, sizeof data, bar);
    auto token = bar.arrive();
    out[n] = data[n];
    bar.wait(std::move(token));
    bar.arrive_and_wait();
    if (n > 3) { bar.arrive_and_drop(); return; }
    bar.wait_parity(n & 1);
    out[threadIdx.x] = data[255 - threadIdx.x];
}
extern "C" __global__ void latches(int* out, cuda::latch<cuda::thread_scope_device>* latch,
                                   cuda::counting_semaphore<cuda::thread_scope_device, 8>* sem) {
    sem->acquire();
    out[0]++;
    sem->release();
    latch->arrive_and_wait();
    out[1] = latch->try_wait();
}
extern "C" __global__ void pipelines(float* out, const float* in, int n) {
    __shared__ float stage[4][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 4> state;
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int use = 0, fetch = 0; use < n; ++use) {
        for (; fetch < n && fetch < use + 4; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[fetch % 4], in + fetch * 128, cuda::aligned_size_t<16>(512), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stage[use % 4][threadIdx.x];
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}
