// Variables: initialisers of every type, addresses in initialisers, structs with holes, strings, const, shared of all kinds.
#include <cstdint>
struct Mixed { char a; double b; short c[3]; const char* name; float f; };
__device__ int plain; __device__ int one = 1; __device__ unsigned long long huge = 0xfedcba9876543210ull;
__device__ float pi = 3.14159f; __device__ double e = 2.718281828459045; __device__ float special[4] = {1.0f / 3, -0.0f, 1e-40f, __builtin_inff()};
__device__ char text[] = "bytes \x01\x7f\xff"; __device__ const char* words[] = {"one", "two", text + 2};
__device__ Mixed mixed[2] = {{'a', 1.5, {1, 2, 3}, "first", 2.5f}, {'b', -1.5, {4, 5}, "second", 3.5f}};
__device__ int* pointer = &one; __device__ void* inner[] = {&mixed[1].b, &special[2], nullptr, (void*)0x1234, text};
__device__ int64_t matrix[3][4] = {{1, -2}, {0x7fffffffffffffff}}; __device__ uint8_t bytes[300] = {1, 2, 3}; __device__ bool flag = true;
__device__ volatile int spin; __device__ const int constant = 42; __managed__ int managed = 7; __device__ alignas(256) int aligned[2] = {3};
__constant__ float coefficients[8] = {1, .5f, .25f}; __constant__ Mixed const_mixed = {'c', 2.0, {7}, nullptr, 0}; __constant__ int* const_pointer = &plain;
__constant__ short shorts[5] = {-1, 2, -3, 4, -5}; extern __constant__ int later[4]; __constant__ int later[4] = {9, 8, 7, 6};
static __device__ int hidden = 5; namespace { __device__ int anonymous = 6; } namespace a::b { __device__ int deep = 7; }
template <class T> __device__ T variable_of = T(3);
extern "C" __global__ void readers(int* out, float* f, double* d, const char** c, int n) {
    static int calls = 3; static __shared__ int counter; __shared__ double tile[16][17]; extern __shared__ __align__(16) char dynamic[];
    out[0] = plain + one + int(huge >> n) + bytes[n] + flag + spin + constant + managed + aligned[1] + hidden++ + anonymous + a::b::deep + variable_of<short>;
    out[1] = int(matrix[n][1]) + *pointer + shorts[n] + later[n] + calls++ + *const_pointer;
    f[0] = pi + special[n] + mixed[n].f + coefficients[n] + const_mixed.f; d[0] = e + mixed[n].b + variable_of<double>;
    c[0] = words[n]; c[1] = mixed[n].name; c[2] = static_cast<char*>(inner[n]);
    tile[n][threadIdx.x] = d[n]; if (threadIdx.x == 0) counter = n; reinterpret_cast<float4*>(dynamic)[n] = make_float4(1, 2, 3, 4);
    __syncthreads();
    d[1] = tile[threadIdx.x][n] + dynamic[n]; out[2] = counter; anonymous = n; spin = n; plain = 3; matrix[n][n] = 5;
}
extern __shared__ unsigned long long shared_words[];
extern "C" __global__ void other(unsigned long long* o, const __grid_constant__ Mixed m, int n) { shared_words[n] = o[n]; __syncthreads(); o[0] = shared_words[n + 1] + m.a + m.c[n]; const Mixed* p = &m; o[1] = p[n].c[0]; }
