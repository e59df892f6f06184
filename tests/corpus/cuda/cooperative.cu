// Cooperative groups: tiles, coalesced and labeled groups, grid and cluster sync, reductions, scans, collective copies.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;
template <int N> __device__ int tiled(cg::thread_block& block, int v) {
    auto t = cg::tiled_partition<N>(block);
    return t.shfl(v, 0) + t.shfl_xor(v, 1) + t.any(v > 3) + t.ballot(v) + cg::reduce(t, v, cg::plus<int>()) + cg::reduce(t, v, cg::greater<int>()) + cg::inclusive_scan(t, v) + cg::exclusive_scan(t, v, cg::bit_or<int>()) + t.meta_group_rank() + t.match_any(v);
}
extern "C" __global__ void tiles(int* out, float* f) {
    auto block = cg::this_thread_block(); int v = out[block.thread_rank()];
    out[block.thread_rank()] = tiled<32>(block, v) + tiled<16>(block, v) + tiled<4>(block, v) + tiled<1>(block, v);
    auto warp = cg::tiled_partition<32>(block);
    f[0] = cg::reduce(warp, f[warp.thread_rank()], cg::plus<float>()) + cg::reduce(warp, f[1], cg::less<float>());
    if (v & 1) { auto c = cg::coalesced_threads(); c.sync(); out[c.thread_rank()] = c.size() + cg::reduce(c, v, cg::plus<int>()) + c.shfl_up(v, 1); }
    auto labeled = cg::labeled_partition(warp, v & 3); out[1] = cg::reduce(labeled, v, cg::bit_and<int>()); auto half = cg::binary_partition(warp, v > 9); out[2] = half.size();
    cg::invoke_one(warp, [&] { out[3] = 1; }); block.barrier_wait(block.barrier_arrive());
}
extern "C" __global__ void whole_grid(int* out) { auto g = cg::this_grid(); g.sync(); out[g.thread_rank()] = g.size(); auto token = g.barrier_arrive(); out[1] = g.num_blocks(); g.barrier_wait(std::move(token)); }
extern "C" __global__ void copies(int* out, const int* in) { __shared__ int s[256]; auto b = cg::this_thread_block(); cg::memcpy_async(b, s, in, sizeof s); cg::wait(b); out[threadIdx.x] = s[255 - threadIdx.x]; cg::memcpy_async(b, s, cuda::aligned_size_t<16>(512), in, cuda::aligned_size_t<16>(512)); cg::wait_prior<1>(b); }
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 2, 1) clusters(int* out) {
    __shared__ int s[64]; auto c = cg::this_cluster(); s[threadIdx.x] = threadIdx.x; c.sync();
    int* other = c.map_shared_rank(s, (c.block_rank() + 1) % c.num_blocks()); out[threadIdx.x] = other[threadIdx.x] + c.query_shared_rank(other) + c.dim_blocks().x; atomicAdd(other, 3);
    c.barrier_arrive(); out[1] = c.block_index().y; c.barrier_wait();
}
#endif
