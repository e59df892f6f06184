// cub's block and warp algorithms.
#include <cub/cub.cuh>
struct Larger { template <class T> __device__ T operator()(T a, T b) const { return a < b ? b : a; } };
extern "C" __global__ void scans(int* p, double* d) {
    using S = cub::BlockScan<int, 128>; __shared__ typename S::TempStorage t; int v[4] = {p[0], p[1], p[2], p[3]}, total; S(t).ExclusiveSum(v, v, total); __syncthreads(); S(t).InclusiveScan(v, v, Larger{}); p[threadIdx.x] = v[0] + v[3] + total;
    using W = cub::WarpScan<double>; __shared__ typename W::TempStorage w[4]; W(w[threadIdx.x / 32]).InclusiveSum(d[threadIdx.x], d[threadIdx.x]);
}
template <cub::BlockReduceAlgorithm A> __device__ int reduce(int v) { using R = cub::BlockReduce<int, 128, A>; __shared__ typename R::TempStorage t; int s = R(t).Sum(v); __syncthreads(); return s + R(t).Reduce(v, Larger{}); }
extern "C" __global__ void reductions(int* p) { int v = p[threadIdx.x]; v += reduce<cub::BLOCK_REDUCE_RAKING>(v); __syncthreads(); v += reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(v); p[threadIdx.x] = v; }
extern "C" __global__ void sorts(unsigned* keys, float* values) {
    using L = cub::BlockLoad<unsigned, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>; using S = cub::BlockStore<unsigned, 128, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>; using R = cub::BlockRadixSort<unsigned, 128, 4, float>;
    __shared__ union { typename L::TempStorage l; typename S::TempStorage s; typename R::TempStorage r; } t; unsigned k[4]; float v[4] = {values[0], values[1], values[2], values[3]};
    L(t.l).Load(keys, k); __syncthreads(); R(t.r).Sort(k, v, 3, 20); __syncthreads(); S(t.s).Store(keys, k); values[threadIdx.x] = v[0] + v[1] + v[2] + v[3];
}
struct Less { __device__ bool operator()(int a, int b) const { return a < b; } };
extern "C" __global__ void merges(int* p) { using M = cub::WarpMergeSort<int, 3, 32>; __shared__ typename M::TempStorage t; int k[3] = {p[0], p[1], p[2]}; M(t).Sort(k, Less{}); p[threadIdx.x] = k[0] + k[1] * k[2]; }
extern "C" __global__ void histograms(unsigned char* p, int* h) { using H = cub::BlockHistogram<unsigned char, 128, 4, 256>; __shared__ typename H::TempStorage t; __shared__ int bins[256]; unsigned char v[4] = {p[0], p[1], p[2], p[3]}; H(t).Histogram(v, bins); __syncthreads(); h[threadIdx.x] = bins[threadIdx.x]; }
