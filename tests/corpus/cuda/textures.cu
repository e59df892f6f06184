// Texture and surface objects: every dimension, gradients, levels, gathers; surfaces with each border mode.
#include <cuda_runtime.h>

template <class T> __device__ float first(T v) { return float(v.x); }
template <> __device__ float first(float v) { return v; }

template <class T> __device__ float sample_all(cudaTextureObject_t t, float x, float y, float z) {
    float sum = first(tex1Dfetch<T>(t, int(x))) + first(tex1D<T>(t, x)) + first(tex2D<T>(t, x, y)) + first(tex3D<T>(t, x, y, z));
    sum += first(tex1DLayered<T>(t, x, int(y))) + first(tex2DLayered<T>(t, x, y, int(z)));
    sum += first(texCubemap<T>(t, x, y, z)) + first(texCubemapLayered<T>(t, x, y, z, 2));
    sum += first(tex1DLod<T>(t, x, y)) + first(tex2DLod<T>(t, x, y, z)) + first(tex3DLod<T>(t, x, y, z, x));
    sum += first(tex1DGrad<T>(t, x, y, z)) + first(tex2DGrad<T>(t, x, y, make_float2(x, y), make_float2(y, z)));
    sum += first(tex3DGrad<T>(t, x, y, z, make_float4(x, y, z, 0), make_float4(z, y, x, 0)));
    sum += first(tex1DLayeredLod<T>(t, x, 1, y)) + first(tex2DLayeredLod<T>(t, x, y, 1, z));
    sum += first(texCubemapLod<T>(t, x, y, z, x)) + first(texCubemapLayeredLod<T>(t, x, y, z, 1, x));
    return sum;
}
template <class T> __device__ float gather_all(cudaTextureObject_t t, float x, float y) {
    return first(tex2Dgather<T>(t, x, y, 0)) + first(tex2Dgather<T>(t, x, y, 1)) + first(tex2Dgather<T>(t, x, y, 2)) +
           first(tex2Dgather<T>(t, x, y, 3));
}
extern "C" __global__ void textures(cudaTextureObject_t t, float* out, float x, float y, float z) {
    out[0] = sample_all<float>(t, x, y, z);
    out[1] = sample_all<float4>(t, x, y, z);
    out[2] = sample_all<int2>(t, x, y, z);
    out[3] = sample_all<uchar4>(t, x, y, z);
    out[4] = gather_all<float4>(t, x, y) + gather_all<int4>(t, x, y) + gather_all<uint4>(t, x, y);
    bool resident = false;
    out[5] = tex2D<float4>(t, x, y, &resident).x + resident;
    out[6] = tex2DLod<float4>(t, x, y, z, &resident).y + resident;
}

template <class T, cudaSurfaceBoundaryMode mode> __device__ void surface_all(cudaSurfaceObject_t s, int x, int y, int z) {
    T v;
    surf1Dread(&v, s, x, mode); surf1Dwrite(v, s, x + 4, mode);
    surf2Dread(&v, s, x, y, mode); surf2Dwrite(v, s, x + 4, y, mode);
    surf3Dread(&v, s, x, y, z, mode); surf3Dwrite(v, s, x + 4, y, z, mode);
    surf1DLayeredread(&v, s, x, y, mode); surf1DLayeredwrite(v, s, x, y + 1, mode);
    surf2DLayeredread(&v, s, x, y, z, mode); surf2DLayeredwrite(v, s, x, y, z + 1, mode);
    surfCubemapread(&v, s, x, y, z, mode); surfCubemapwrite(v, s, x, y, z + 1, mode);
}
template <class T> __device__ void surface_modes(cudaSurfaceObject_t s, int x, int y, int z) {
    surface_all<T, cudaBoundaryModeTrap>(s, x, y, z);
    surface_all<T, cudaBoundaryModeClamp>(s, x, y, z);
    surface_all<T, cudaBoundaryModeZero>(s, x, y, z);
}
extern "C" __global__ void surfaces(cudaSurfaceObject_t s, int x, int y, int z) {
    surface_modes<unsigned char>(s, x, y, z);
    surface_modes<short2>(s, x, y, z);
    surface_modes<float>(s, x, y, z);
    surface_modes<uint4>(s, x, y, z);
    surface_modes<long long>(s, x, y, z);
}
extern "C" __global__ void queries(cudaTextureObject_t t, cudaSurfaceObject_t s, int* out) {
    asm("txq.width.b32 %0, [%1];" : "=r"(out[0]) : "l"(t));
    asm("txq.height.b32 %0, [%1];" : "=r"(out[1]) : "l"(t));
    asm("txq.depth.b32 %0, [%1];" : "=r"(out[2]) : "l"(t));
    asm("txq.channel_order.b32 %0, [%1];" : "=r"(out[3]) : "l"(t));
    asm("txq.num_mipmap_levels.b32 %0, [%1];" : "=r"(out[4]) : "l"(t));
    asm("suq.width.b32 %0, [%1];" : "=r"(out[5]) : "l"(s));
    asm("suq.array_size.b32 %0, [%1];" : "=r"(out[6]) : "l"(s));
    asm("sured.b.2d.add.u32.trap [%0, {%1, %2}], %3;" :: "l"(s), "r"(out[7]), "r"(out[8]), "r"(out[9]));
}
