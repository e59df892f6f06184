// Matrix instructions by inline PTX: ldmatrix, stmatrix, movmatrix, mma dense and sparse, as kernels of today spell them.
#include <cstdint>
__device__ uint32_t shared_of(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
extern "C" __global__ void turing(uint32_t* o, float* f) {
    __shared__ uint32_t s[1024]; s[threadIdx.x] = o[threadIdx.x]; __syncthreads();
    uint32_t a = shared_of(s + threadIdx.x), r0, r1, r2, r3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r0) : "r"(a));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r1), "=r"(r2) : "r"(a));
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0,%1,%2,%3}, [%4+16];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(a));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};" : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]) : "r"(r0), "r"(r1), "r"(r2));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(o[0]), "+r"(o[1]) : "r"(r2), "r"(r3));
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%0,%1,%2,%3,%4,%5,%6,%7};"
                 : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]), "+f"(f[4]), "+f"(f[5]), "+f"(f[6]), "+f"(f[7]) : "r"(r0), "r"(r1), "r"(r2), "r"(r3));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(o[2]) : "r"(r3));
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void ampere(uint32_t* o, float* f, double* d) {
    uint32_t a = o[0], b = o[1];
#define F "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
#define MMA(shape, types) asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%4,%5}, {%0,%1,%2,%3};" : F : "r"(a), "r"(b))
    MMA("m16n8k16", "f32.f16.f16.f32"); MMA("m16n8k16", "f32.bf16.bf16.f32"); MMA("m16n8k8", "f32.tf32.tf32.f32");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%0,%1,%0,%1}, {%0,%1}, {%0,%1};" : "+r"(o[2]), "+r"(o[3]));
    asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%4,%5}, {%0,%1,%2,%3};" : "+r"(o[0]), "+r"(o[1]), "+r"(o[2]), "+r"(o[3]) : "r"(a), "r"(b));
    asm volatile("mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32 {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%4,%5}, {%0,%1,%2,%3};" : "+r"(o[0]), "+r"(o[1]), "+r"(o[2]), "+r"(o[3]) : "r"(a), "r"(b));
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(d[0]), "+d"(d[1]) : "d"(d[2]), "d"(d[3]));
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%4,%5,%4,%5}, {%0,%1,%2,%3}, %4, 0x1;" : F : "r"(a), "r"(b));
    asm volatile("mma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%4,%5,%4,%5}, {%0,%1,%2,%3}, %5, 0;" : F : "r"(a), "r"(b));
#if __CUDA_ARCH__ >= 890
    MMA("m16n8k32", "f32.e4m3.e5m2.f32");
#endif
#if __CUDA_ARCH__ >= 900
    uint32_t at = uint32_t(o[9]);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%1,%2};" :: "r"(at), "r"(a), "r"(b));
    asm volatile("stmatrix.sync.aligned.x2.m8n8.shared.b16.trans [%0], {%1,%2};" :: "r"(at), "r"(a), "r"(b));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%0,%1,%2,%3,%0,%1,%2,%3}, {%0,%1,%2,%3}, {%0,%1,%2,%3};" : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3]));
#endif
#if __CUDA_ARCH_FEAT_SM120_ALL || __CUDA_ARCH_FEAT_SM121_ALL
    MMA("m16n8k32", "kind::f8f6f4.f32.e2m3.e2m1.f32");
    asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%4,%5}, {%0,%1,%2,%3}, {%4}, {0, 1}, {%5}, {0, 1};" : F : "r"(a), "r"(b));
    asm volatile("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%0,%1}, [%2];" : "=r"(o[5]), "=r"(o[6]) : "r"(at));
#endif
}
#endif
