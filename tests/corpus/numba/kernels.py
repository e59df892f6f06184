"""Kernels as Numba's users write them, each with the types that it is compiled for: `SIGNATURES[name]`."""

import math

from numba import complex64, cuda, float32, float64, int32, uint32
from numba.types import float16

SIGNATURES = {}


def kernel(*types):
    def keep(function):
        SIGNATURES[function.__name__] = types
        return function

    return keep


@kernel(float32, float32[:], float32[:])
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@kernel(float32[:], float32[:])
def functions(x, y):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        y[i] = math.sin(v) + math.exp(v) * math.log(v) + math.pow(v, 3.3) + math.erf(v) + math.sqrt(v)
        y[i] += math.atan2(v, 2) + math.lgamma(v) + math.fmod(v, 3.0)


@kernel(float64[:], float64[:])
def doubles(x, y):
    scratch, i = cuda.local.array(16, float64), cuda.grid(1)
    for k in range(16):
        scratch[(k * 7) % 16] = math.cos(x[i]) * k
    y[i] = scratch[i % 16]
    cuda.nanosleep(5)


@kernel(float32[:], float32[:])
def total(x, y):
    shared, t = cuda.shared.array(256, float32), cuda.threadIdx.x
    shared[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    k = 128
    while k > 0:
        if t < k:
            shared[t] += shared[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        cuda.atomic.add(y, 0, shared[0])


@kernel(int32[:], int32[:])
def warps(x, y):
    i = cuda.grid(1)
    alike = cuda.match_any_sync(0xFFFFFFFF, x[i])  # shfl, ballot and all ask for a device while they are compiled
    y[i] = cuda.popc(alike) + cuda.clz(alike) + cuda.brev(alike) + cuda.ffs(alike) + cuda.laneid + cuda.activemask()
    cuda.syncwarp()


@kernel(uint32[:], uint32[:])
def atomics(x, y):
    i = cuda.grid(1)
    cuda.atomic.max(y, i, x[i])
    cuda.atomic.min(y, i, x[i])
    cuda.atomic.cas(y, i, x[i], 3)
    cuda.atomic.exch(y, i, x[i])
    cuda.atomic.and_(y, i, x[i])
    cuda.atomic.inc(y, i, x[i])
    cuda.atomic.sub(y, i, x[i])


@kernel(float64[:], float64[:])
def orders(x, y):
    i = cuda.grid(1)
    cuda.atomic.max(y, i, x[i])
    cuda.atomic.nanmin(y, i, x[i])
    cuda.threadfence()
    cuda.threadfence_block()
    cuda.threadfence_system()


@kernel(complex64[:], complex64[:])
def quotients(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * x[i] / y[i]


@kernel(float16[:], float16[:])
def halves(x, y):
    i = cuda.grid(1)
    a = x[i]
    y[i] = cuda.fp16.hfma(a, a, a) if a > y[i] else cuda.fp16.hmax(a, y[i]) * a


@kernel(int32[:])
def prints(x):
    i = cuda.grid(1)
    if i > 1:
        print("element", i, x[i])


@kernel(int32[:])
def raises(x):
    i = cuda.grid(1)
    if x[i] == 3:
        raise ValueError("three")
    x[i] = x[i] // (i - 2)
