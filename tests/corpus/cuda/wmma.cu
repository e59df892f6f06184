// nvcuda::wmma: every type and shape that a target has, layouts, memory of each kind, saturation.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <int M, int N, int K, class A, class C, class LA, class LB, class Raw = A> __device__ void tile(const Raw* a, const Raw* b, C* c, int ld, C* s) {
    wmma::fragment<wmma::matrix_a, M, N, K, A, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, A, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;
    wmma::load_matrix_sync(fa, a, ld);
    wmma::load_matrix_sync(fb, b, ld);
    wmma::load_matrix_sync(fc, c, ld, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, ld, wmma::mem_col_major);
    wmma::store_matrix_sync(s, fc, 32, wmma::mem_row_major);
}
template <int M, int N, int K, class A, class C> __device__ void layouts(const A* a, C* c, int ld, C* s) {
    tile<M, N, K, A, C, wmma::row_major, wmma::col_major>(a, a + 512, c, ld, s);
    tile<M, N, K, A, C, wmma::col_major, wmma::row_major>(a, a + 512, c, ld, s);
    tile<M, N, K, A, C, wmma::row_major, wmma::row_major>(a, a + 512, c, 16, s);
}
extern "C" __global__ void halves(const __half* a, float* f, __half* h, int ld) {
    __shared__ float sf[1024]; __shared__ __half sh[1024];
    layouts<16, 16, 16>(a, f, ld, sf); layouts<32, 8, 16>(a, f, ld, sf); layouts<8, 32, 16>(a, f, ld, sf);
    layouts<16, 16, 16>(a, h, ld, sh); layouts<8, 32, 16>(a, h, ld, sh);
    f[0] = sf[3]; h[0] = sh[3];
}
extern "C" __global__ void integers(const signed char* a, const unsigned char* u, int* c, int ld) {
    __shared__ int s[1024];
    layouts<16, 16, 16>(a, c, ld, s); layouts<32, 8, 16>(u, c, ld, s); layouts<8, 32, 16>(a, c, ld, s);
    tile<8, 8, 32, wmma::experimental::precision::s4, int, wmma::row_major, wmma::col_major, void>(a, u, c, ld, s);
    tile<8, 8, 32, wmma::experimental::precision::u4, int, wmma::row_major, wmma::col_major, void>(a, u, c, ld, s);
    wmma::fragment<wmma::matrix_a, 8, 8, 128, wmma::experimental::precision::b1, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, wmma::experimental::precision::b1, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
    wmma::load_matrix_sync(fa, a, ld); wmma::load_matrix_sync(fb, u, ld); wmma::fill_fragment(fc, 0);
    wmma::bmma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, ld, wmma::mem_row_major);
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> ga;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> gb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> gc;
    wmma::load_matrix_sync(ga, a, ld); wmma::load_matrix_sync(gb, a, ld); wmma::fill_fragment(gc, 0);
    wmma::mma_sync(gc, ga, gb, gc, true);
    wmma::store_matrix_sync(c, gc, ld, wmma::mem_row_major);
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void newer(const __nv_bfloat16* b, const float* t, const double* d, float* f, double* o, int ld) {
    __shared__ float s[1024]; __shared__ double sd[64];
    layouts<16, 16, 16>(b, f, ld, s); layouts<32, 8, 16>(b, f, ld, s);
    tile<16, 16, 8, wmma::precision::tf32, float, wmma::row_major, wmma::col_major, float>(t, t + 64, f, ld, s);
    layouts<8, 8, 4>(d, o, ld, sd);
}
#endif
