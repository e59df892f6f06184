// cuda::atomic and atomic_ref of libcu++: orders x scopes x widths, fences, waits.
#include <cuda/atomic>

template <class T, cuda::thread_scope S> __device__ T orders(T* p, T v) {
    cuda::atomic_ref<T, S> a(*p);
    T r = a.load(cuda::memory_order_relaxed) + a.load(cuda::memory_order_acquire) + a.load();
    a.store(v, cuda::memory_order_relaxed);
    a.store(v, cuda::memory_order_release);
    a.store(v);
    r += a.fetch_add(v, cuda::memory_order_relaxed) + a.fetch_sub(v, cuda::memory_order_acq_rel) + a.fetch_add(v);
    r += a.fetch_and(v, cuda::memory_order_acquire) + a.fetch_or(v, cuda::memory_order_release) + a.fetch_xor(v);
    r += a.fetch_min(v) + a.fetch_max(v, cuda::memory_order_relaxed) + a.exchange(v, cuda::memory_order_acq_rel);
    T want = v;
    a.compare_exchange_strong(want, r, cuda::memory_order_acq_rel, cuda::memory_order_relaxed);
    a.compare_exchange_weak(want, v);
    return r + want;
}
template <class T> __device__ T scopes(T* p, T v) {
    return orders<T, cuda::thread_scope_block>(p, v) + orders<T, cuda::thread_scope_device>(p + 1, v) +
           orders<T, cuda::thread_scope_system>(p + 2, v);
}
extern "C" __global__ void words(int* i, unsigned long long* l, unsigned char* c, short* s) {
    i[threadIdx.x] = scopes(i, int(threadIdx.x));
    l[threadIdx.x] = scopes(l, 3ull);
    c[threadIdx.x] = scopes(c, (unsigned char)(5));
    s[threadIdx.x] = scopes(s, short(-5));
}
extern "C" __global__ void fences(int* i, float* f) {
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_block);
    i[0] = 1;
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
    i[1] = 1;
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_system);
    i[2] = 1;
    __threadfence(); i[3] = 2; __threadfence_block(); i[4] = 3; __threadfence_system();
    cuda::atomic_ref<float, cuda::thread_scope_device> a(*f);
    f[1] = a.fetch_add(2.f) + a.exchange(3.f);
    cuda::atomic_ref<int, cuda::thread_scope_device> w(*i);
    w.wait(3);
    w.notify_all();
}
