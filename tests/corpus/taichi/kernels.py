"""Kernels in Taichi, each with the arguments that it is compiled for.  They take arrays; fields would need a device's memory."""

import numpy as np
import taichi as ti


def array(kind, *shape):
    return np.ones(shape, kind)


@ti.func
def escape(z, c):
    n = 0
    while z.norm() < 20 and n < 50:
        z = ti.Vector([z[0] ** 2 - z[1] ** 2, 2 * z[0] * z[1]]) + c
        n += 1
    return n


@ti.kernel
def julia(out: ti.types.ndarray(ti.f32, 2), t: ti.f32):
    for i, j in out:
        c = ti.Vector([-0.8, ti.cos(t) * 0.2])
        out[i, j] = 1 - escape(ti.Vector([i / 64.0 - 1, j / 64.0 - 0.5]) * 2, c) * 0.02


@ti.kernel
def stencil(a: ti.types.ndarray(ti.f64, 2), b: ti.types.ndarray(ti.f64, 2)):
    for i, j in ti.ndrange((1, 63), (1, 63)):
        b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@ti.kernel
def reduce(a: ti.types.ndarray(ti.f32, 1), out: ti.types.ndarray(ti.f32, 1)):
    for i in a:
        ti.atomic_add(out[0], a[i])
        ti.atomic_max(out[1], a[i])


@ti.kernel
def histogram(a: ti.types.ndarray(ti.i32, 1), bins: ti.types.ndarray(ti.i32, 1)):
    ti.loop_config(block_dim=128)
    for i in a:
        bins[a[i] % 32] += 1


@ti.kernel
def bodies(
    x: ti.types.ndarray(ti.types.vector(3, ti.f32), 1),
    v: ti.types.ndarray(ti.types.vector(3, ti.f32), 1),
    dt: ti.f32,
):
    for i in x:
        force = ti.Vector([0.0, 0.0, 0.0])
        for j in range(x.shape[0]):
            d = x[j] - x[i]
            force += d * ti.rsqrt(d.dot(d) + 1e-6) ** 3
        v[i] += force * dt


@ti.kernel
def shared(a: ti.types.ndarray(ti.f32, 1), b: ti.types.ndarray(ti.f32, 1)):
    ti.loop_config(block_dim=64)
    for i in range(1024):
        tile = ti.simt.block.SharedArray((64,), ti.f32)
        t = i % 64
        tile[t] = a[i]
        ti.simt.block.sync()
        b[i] = tile[63 - t] + ti.simt.warp.shfl_down_f32(ti.u32(0xFFFFFFFF), tile[t], 1)


@ti.kernel
def random(out: ti.types.ndarray(ti.f32, 1)):
    for i in out:
        out[i] = ti.random() + ti.sqrt(ti.exp(ti.random(ti.f32))) + ti.tanh(ti.atan2(1.0, ti.f32(i)))


@ti.kernel
def integers(a: ti.types.ndarray(ti.i64, 1), b: ti.types.ndarray(ti.u8, 1), c: ti.types.ndarray(ti.f16, 1)):
    for i in a:
        n = a[i]
        for _ in range(ti.cast(b[i], ti.i32)):
            n = (n >> 3) ^ (n * 5 + 1) if n & 1 else n // 7
        a[i] = n
        b[i] = ti.cast(n, ti.u8)
        c[i] += ti.cast(n, ti.f16)


@ti.kernel
def decompose(a: ti.types.ndarray(ti.types.matrix(3, 3, ti.f32), 1)):
    for i in a:
        u, s, v = ti.svd(a[i])
        a[i] = u @ s @ v.transpose() + a[i].inverse() * a[i].determinant()


ARGUMENTS = {
    "julia": lambda: (array("f4", 128, 128), 0.5),
    "stencil": lambda: (array("f8", 64, 64), array("f8", 64, 64)),
    "reduce": lambda: (array("f4", 1000), array("f4", 2)),
    "histogram": lambda: (array("i4", 1000), array("i4", 32)),
    "bodies": lambda: (array("f4", 100, 3), array("f4", 100, 3), 0.1),
    "shared": lambda: (array("f4", 1024), array("f4", 1024)),
    "random": lambda: (array("f4", 100),),
    "integers": lambda: (array("i8", 100), array("u1", 100), array("f2", 100)),
    "decompose": lambda: (array("f4", 100, 3, 3),),
}
