"""Functions of JAX, each with the shapes that it is compiled for: what XLA fuses, and Pallas kernels, which Triton compiles."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt


def of(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype)


def pallas(kernel, grid, blocks, out, **options):
    specs = [pl.BlockSpec(*block) for block in blocks]
    params = plt.CompilerParams(**options)
    return pl.pallas_call(
        kernel, out_shape=out, grid=grid, in_specs=specs[:-1], out_specs=specs[-1], compiler_params=params
    )


def pallas_add(x, y):
    def kernel(a, b, o):
        o[...] = a[...] + b[...]

    return pallas(kernel, (8,), [((128,), lambda i: (i,))] * 3, x)(x, y)


def pallas_softmax(x):
    def kernel(a, o):
        e = jnp.exp(a[...] - jnp.max(a[...], axis=-1, keepdims=True))
        o[...] = e / jnp.sum(e, axis=-1, keepdims=True)

    return pallas(kernel, (64,), [((1, 1024), lambda i: (i, 0))] * 2, x, num_warps=8)(x)


def pallas_matmul(x, y):
    def kernel(a, b, o):
        def step(k, sum):
            rows = pl.ds(k * 32, 32)
            return sum + pl.dot(a[:, rows], b[rows, :])

        o[...] = jax.lax.fori_loop(0, 8, step, jnp.zeros((64, 64), jnp.float32)).astype(o.dtype)

    blocks = [((64, 256), lambda i, j: (i, 0)), ((256, 64), lambda i, j: (0, j)), ((64, 64), lambda i, j: (i, j))]
    return pallas(kernel, (4, 4), blocks, of(x.dtype, 256, 256), num_warps=4, num_stages=3)(x, y)


def pallas_atomics(x):
    def kernel(a, o):
        plt.atomic_add(o, jnp.arange(128) % 16, a[...])

    return pallas(kernel, (8,), [((128,), lambda i: (i,)), ((16,), lambda i: (0,))], of(x.dtype, 16))(x)


def fused(x, y):
    return jax.nn.gelu(x * y + 1).astype(jnp.bfloat16), jnp.sum(jnp.sin(x) ** 2, axis=0)


def layer_norm(x, w):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-6) * w


def scan(x):
    return jnp.cumsum(x, axis=1), jnp.argmax(x, axis=1), jnp.sort(x[:, :64], axis=1)


def gather(x, i):
    return x[i] * 2, jnp.zeros((128, 64), x.dtype).at[i].add(x[:256]), jnp.transpose(x)


def integers(x, y):
    return (x // jnp.maximum(y, 1)) ^ jax.lax.population_count(x), jnp.bitwise_count(y) << 2, x.astype(jnp.int8)


def random(x):
    return jax.random.normal(jax.random.key(0), x.shape) + jax.scipy.special.erf(x) + jnp.arctan2(x, x + 1)


def narrow(x):
    return x.astype(jnp.float8_e4m3fn).astype(jnp.float16), x.astype(jnp.float8_e5m2), jnp.exp(x.astype(jnp.float64))


def convolve(x, w):
    return jax.lax.reduce_window(x * w, -jnp.inf, jax.lax.max, (1, 4, 4), (1, 2, 2), "SAME"), jnp.pad(
        x, ((0, 0), (1, 2), (0, 3))
    )


SHAPES = {
    "pallas_add": (of("float32", 1024), of("float32", 1024)),
    "pallas_softmax": (of("float32", 64, 1024),),
    "pallas_matmul": (of("float16", 256, 256), of("float16", 256, 256)),
    "pallas_atomics": (of("float32", 1024),),
    "fused": (of("float32", 512, 512), of("float32", 512, 512)),
    "layer_norm": (of("bfloat16", 512, 768), of("bfloat16", 768)),
    "scan": (of("float32", 128, 256),),
    "gather": (of("float32", 512, 64), of("int32", 256)),
    "integers": (of("int32", 4096), of("int32", 4096)),
    "random": (of("float32", 64, 128),),
    "narrow": (of("float32", 4096),),
    "convolve": (of("float32", 8, 64, 64), of("float32", 8, 64, 64)),
}
