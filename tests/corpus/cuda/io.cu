// Calls into the device runtime: printf, assert, malloc, memcpy and memset, trap, strings in .global memory.
#include <cassert>
#include <cstdio>
#include <cstring>
extern "C" __global__ void print(int n, float f, const char* s) {
    printf("thread %d of %u: %f %s\n", threadIdx.x, blockDim.x, f, s);
    printf("no arguments \"quoted\" \t tab \x01 end\n");
    printf("%c %lld %p %5.2e %%\n", 'c', (long long)n, s, double(f));
    int left = printf("x");
    assert(left >= 0 && n > 3);
}
extern "C" __global__ void heap(int** out, int n) {
    int* p = static_cast<int*>(malloc(n * sizeof(int)));
    if (!p) __trap();
    memset(p, 0x5a, n * sizeof(int));
    memcpy(p, out, 64);
    int* q = new int[n]();
    out[threadIdx.x] = p + (q[3] == 0);
    delete[] q;
    free(p);
    __prof_trigger(1);
    if (n == 9) __brkpt();
    __builtin_assume(n > 0);
    if (n > 100) __builtin_unreachable();
}
