// Control flow: switches (brx.idx), nested loops, breaks, goto, early exits, unrolling pragmas, short circuits, ternaries.
extern "C" __global__ void dense_switch(int* out, int n) {
    int t = threadIdx.x, r = 0;
    switch ((t + n) % 12) {
        case 0: r = out[1]; break; case 1: r = out[2] * 3; break; case 2: r = t; [[fallthrough]]; case 3: r += 7; break;
        case 4: out[9] = n; r = 5; break; case 5: return; case 6: r = n / (t + 1); break; case 7: r = __popc(t); break;
        case 8: for (int i = 0; i < n; ++i) r += out[i]; break; case 9: r = out[out[t]]; break; case 10: r = ~t; break; default: r = -1;
    }
    out[t] = r;
}
extern "C" __global__ void sparse_switch(long long* out, long long n) {
    switch (n) { case 1: out[0] = 2; break; case 1000: out[1] = 3; break; case -5: out[2] = 4; break; case 1ll << 40: out[3] = 5; break; }
}
extern "C" __global__ void loops(float* out, const float* in, int n, int m) {
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < n; ++i) {
        if (in[i] < 0) continue;
        for (int j = i; j < m; j += 3) { if (in[j] == in[i]) break; sum += in[j] * in[i]; if (sum > 1e6f) goto done; }
    }
#pragma unroll 1
    while (sum > 1) { sum *= .5f; if (__any_sync(0xffffffff, sum < 2)) break; }
    do { sum += in[--m]; } while (m > 0 && (sum < 3 || in[m] != 0));
done:
    out[threadIdx.x] = sum;
}
extern "C" __global__ void tangled(int* out, int n) {
    int i = 0;
    if (n & 1) goto middle;
top:
    i += out[i]; if (i > 100) return;
middle:
    out[i & 7] = i++; if (i < n) goto top; if (out[3]) goto middle;
    out[0] = n > 3 && out[1] ? out[2] || out[4] ? 5 : 6 : 7;
}
extern "C" __global__ void __launch_bounds__(256, 2) bounded(int* p) { p[threadIdx.x] = __builtin_expect(p[0] > 3, 1) ? 1 : 2; }
extern "C" __global__ void __maxnreg__(64) registers(int* p) { p[threadIdx.x]++; }
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __launch_bounds__(64, 1, 4) clustered(int* p) { p[threadIdx.x]++; }
#endif
