// Calls: prototypes, parameters and results by value, recursion, function pointers and tables of them, weak and
// no-return functions, variadic ones.  No calls to the runtime.
#include <cstdarg>
#include <cstdint>

struct Pair { int a; double b; };
struct alignas(16) Big { float v[12]; char tag; };
struct Empty {};

extern "C" __device__ __noinline__ int add_one(int x) { return x * 3 + 1; }
extern "C" __device__ __noinline__ Pair make_pair(int a, double b, char c, short d) { return {a + c + d, b * 2}; }
extern "C" __device__ __noinline__ Big bend(Big in, Pair p, Empty, bool flip) {
    for (int i = 0; i < 12; ++i) in.v[i] = flip ? in.v[11 - i] + p.a : in.v[i] * float(p.b);
    in.tag = flip ? 'x' : 'y';
    return in;
}
extern "C" __device__ __noinline__ unsigned long long wide(uint8_t a, int8_t b, uint16_t c, int64_t d, float e, bool f) {
    return a + b + c + d + (unsigned long long)e + f;
}
__device__ __noinline__ __attribute__((weak)) int weak_one(int x) { return x - 7; }
__device__ __noinline__ __attribute__((noreturn)) void stop(int why) { asm volatile("trap;"); for (;;) { (void)why; } }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ int even(unsigned n);
__device__ __noinline__ int odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }
__device__ __noinline__ int even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ void nothing() { asm volatile("// nothing"); }
__device__ __noinline__ int sum(int n, ...) {
    va_list list;
    va_start(list, n);
    int total = 0;
    for (int i = 0; i < n; ++i) total += (i & 1) ? int(va_arg(list, double)) : va_arg(list, int);
    va_end(list);
    return total;
}

typedef int (*Op)(int);
typedef double (*Op2)(double, float);
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ double mix(double a, float b) { return a - b; }
__device__ Op table[4] = {twice, square, add_one, fib};
__constant__ Op2 const_op = mix;

extern "C" __global__ void calls(int* out, Big* big, int n) {
    int t = threadIdx.x;
    Pair p = make_pair(t, n, char(t), short(n));
    big[t] = bend(big[t], p, Empty{}, t & 1);
    out[t] = add_one(t) + fib(n) + even(t) + weak_one(n) + sum(3, t, 2.5, n);
    out[t] += int(wide(t, -t, n, 1ll << n, 1.5f, t > 3));
    nothing();
    if (n < 0) stop(n);
}

extern "C" __global__ void pointers(int* out, double* d, Op given, int n) {
    int t = threadIdx.x;
    out[t] = table[n & 3](t) + given(n);
    Op local = n > 5 ? twice : square;
    out[t] += local(t);
    d[t] = const_op(d[t], float(n));
}
