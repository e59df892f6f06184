"""`matmul` for the arrays of JAX, traced or not, and of NumPy.  Those of JAX do not tell their strides, so all are taken as packed."""

import functools
import sys

import numpy

from pyptx.errors import LaunchTypeError
from pyptx.kernels._epilogue import Epilogue
from pyptx.kernels._matmul.arguments import (
    ARGUMENTS,
    NAMES,
    broadcast,
    epilogue_of,
    line_of,
    shape_of,
    size,
    types_of,
    width_of,
)
from pyptx.kernels._matmul.choice import Problem, kernel_of, lies_by_columns
from pyptx.kernels._matmul.padded import is_padded
from pyptx.kernels._matmul.parts import in_parts
from pyptx.kernels._memory import dense
from pyptx.kernels._target import on_gpu as runs_on_gpu
from pyptx.kernels._types import type_name
from pyptx.types import e4m3, s8

__all__ = ["matmul"]


def matmul(_, given, activation, out):
    for name, each in zip((*ARGUMENTS, "out"), (*given, out), strict=True):
        if hasattr(each, "untyped_storage"):
            kind = type(given[0]).__name__
            raise LaunchTypeError(f"matmul: `{name}` is a tensor of torch, `a` is {kind}; both need the same framework")
    jax = sys.modules.get("jax")
    traced = jax is not None and any(isinstance(each, jax.Array) for each in given)
    xp = jax.numpy if traced else numpy
    if traced and out is not None and not isinstance(out, numpy.ndarray):
        raise LaunchTypeError("matmul: no out= for JAX, which makes the results of its arrays")
    if traced and out is None:
        given = [None if each is None else xp.asarray(each) for each in given]
    names = [None if each is None else type_name(each) for each in (*given, out)]
    *types, result = types_of(names[:-1], activation, names[-1])
    shapes = [None if each is None else tuple(each.shape) for each in (*given, out)]
    shape = shape_of(*shapes, activation)
    a, b, *more = given
    if 0 in shape:
        return xp.zeros(shape, LIKE[result]) if out is None else out
    if a.shape[-1] == 0:  # sums without terms are 0: eight columns of zeros give them
        a, b = xp.zeros((*a.shape[:-1], 8), a.dtype), xp.zeros((*b.shape[:-2], 8, b.shape[-1]), b.dtype)
    m, n = shape[-2:]
    k = a.shape[-1]
    if size(b.shape[:-2]) == 1:  # one matrix for all rows
        a, b, flat = a.reshape(-1, k), b.reshape(k, b.shape[-1]), (size(shape[:-1]), n)
    else:
        lead = broadcast(a.shape, b.shape)
        a = xp.broadcast_to(a, (*lead, m, k)).reshape(-1, m, k)
        b = xp.broadcast_to(b, (*lead, k, b.shape[-1])).reshape(-1, k, b.shape[-1])
        flat = (size(lead), m, n)
    epilogue, seen = epilogue_of(types, activation, shapes, flat)
    more = [
        None if each is None else each.reshape(shape) if size(each.shape) == size(shape)
        else xp.broadcast_to(each.reshape(line_of(size(each.shape), shape)), shape)
        for each, shape in zip(more, seen, strict=True)
    ]  # fmt: skip
    arrays = [a, b, *(more[i] for i in (2, 3, 0, 1) if more[i] is not None)]
    if not traced:
        arrays = [dense(each, False) for each in arrays]
    made = multiply(arrays, True, False, types[0], result, epilogue, runs_on_gpu(arrays[0])).reshape(shape)
    if out is None:
        return made
    out[...] = made
    return out


def multiply(arrays, a_k_major: bool, b_k_major: bool, dtype, result, epilogue, on_gpu: bool):
    """The product of A, stored (M, K) or (K, M), and B, stored (N, K) or (K, N)."""
    a, b, *more = arrays
    bytes_ = dtype.bits // 8
    if dtype.bits != 16:  # which has to be K-major, but where few rows are streamed
        a, a_k_major = a if a_k_major else a.swapaxes(-1, -2), True
        if not (b_k_major or may_lie_by_columns(a, b, dtype, result, epilogue, on_gpu)):
            b, b_k_major = b.swapaxes(-1, -2), True
        if isinstance(a, numpy.ndarray):
            a, b = dense(a, False), dense(b, False)
    k, m = (a.shape[-1], a.shape[-2]) if a_k_major else (a.shape[-2], a.shape[-1])
    n = b.shape[-2] if b_k_major else b.shape[-1]
    if epilogue.gated:
        n //= 2
        b = b.reshape(*b.shape[:-2], *((2, n, k) if b_k_major else (k, 2, n)))
    batch = a.shape[0] if a.ndim == 3 else None
    widths = width_of(a.shape[-1] * bytes_), width_of(b.shape[-1] * bytes_), width_of(n * result.bits // 8)
    problem = Problem(m, n, k, batch, dtype, result, a_k_major, b_k_major, *widths, epilogue, on_gpu)
    if not isinstance(a, numpy.ndarray) and is_padded(problem):
        wide, high, long = (-(-size * bytes_ // 16) * 16 // bytes_ for size in (n, m, k))
        high = m if a_k_major else high
        if not more or (high, wide) == (m, n):
            arrays = padded(a, a_k_major, high, long), padded(b, b_k_major, wide, long)
            return multiply((*arrays, *more), a_k_major, b_k_major, dtype, result, epilogue, on_gpu)[..., :m, :n]
    kernel = in_parts(problem) or kernel_of(problem)
    if isinstance(a, numpy.ndarray):
        return kernel(a, b, *more)
    return product_of(kernel, batch is not None, a_k_major, b_k_major, dtype, result, epilogue, on_gpu).of(a, b, *more)


def may_lie_by_columns(a, b, dtype, result, epilogue: Epilogue, on_gpu: bool) -> bool:
    """Whether a kernel takes b (K, N) as it lies though its elements are not of 16 bits."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    widths = (width_of(size * dtype.bits // 8) for size in (k, n))
    p = Problem(m, n, k, None, dtype, result, True, False, *widths, epilogue=epilogue, on_gpu=on_gpu)
    return a.ndim == 2 and lies_by_columns(p)


def padded(x, k_major: bool, rows: int, k: int):
    """Zeros behind what there is, so that TMA can address the rows; XLA makes the copy."""
    import jax

    sizes = (rows, k) if k_major else (k, rows)
    behind = [(0, size - have) for size, have in zip(sizes, x.shape[-2:], strict=True)]
    return jax.numpy.pad(x, [(0, 0)] * (x.ndim - 2) + behind)


@functools.cache
def product_of(
    kernel, batched: bool, a_k_major: bool, b_k_major: bool, dtype, result, epilogue: Epilogue, on_gpu: bool
):
    """The function of JAX arrays; it has gradients in bf16, f16 and f32 without scales."""
    from pyptx.kernels._matmul.in_jax import Product

    def product(a, b, a_major: bool, b_major: bool):
        return multiply(
            (a.astype(LIKE[dtype]), b.astype(LIKE[dtype])), a_major, b_major, dtype, dtype, Epilogue(), on_gpu
        )

    def as_given(b, n: int):
        """Gates and ups are two halves of b's columns, not a dimension."""
        return (
            b.reshape(*b.shape[:-3], *((2 * n, b.shape[-1]) if b_k_major else (b.shape[-3], 2 * n)))
            if epilogue.gated
            else b
        )

    def choose(a, b, *more):
        b = as_given(b, b.shape[-2 if b_k_major else -1])
        return multiply((a, b, *more), a_k_major, b_k_major, dtype, result, epilogue, on_gpu)

    def backward(a, b, *rest):
        """The gradients of A and B, as these are stored, and those of bias and residual."""
        *more, g = rest
        dz, stored, b = g, b.shape, as_given(b, g.shape[-1])
        if epilogue.activation is not None:
            bias = [more[0].reshape(-1)] if epilogue.bias is not None else []
            z = multiply((a, b, *bias), a_k_major, b_k_major, dtype, result, Epilogue(epilogue.bias), on_gpu)
            dz = derivative(epilogue.activation, z, g)
        # dA = dz B^T, of (K, M) B dz^T; dB = A^T dz, of (N, K) dz^T A.
        da = product(dz, b, True, not b_k_major) if a_k_major else product(b, dz, not b_k_major, True)
        db = product(dz, a, False, not a_k_major) if b_k_major else product(a, dz, not a_k_major, False)
        gradients = [da, db.reshape(stored)]
        if epilogue.bias is not None:
            gradients.append(
                dz.astype("float32").sum(tuple(range(dz.ndim - 1))).astype(more[0].dtype).reshape(more[0].shape)
            )
        if epilogue.residual is not None:
            gradients.append(g.astype(more[-1].dtype))
        return tuple(gradients)

    has_gradient = dtype not in (e4m3, s8) and epilogue.scales is None
    return Product(
        kernel, choose, backward if has_gradient else None, batched, a_k_major, b_k_major, (dtype, result), epilogue
    )


LIKE = {dtype: name for name, dtype in NAMES.items()}


def gated(activation):
    def halves(z):
        half = z.shape[-1] // 2
        return activation(z[..., :half]) * z[..., half:]

    return halves


def derivative(activation: str, z, g):
    import jax

    gelu = functools.partial(jax.nn.gelu, approximate=False)
    function = {
        "relu": jax.nn.relu, "silu": jax.nn.silu, "gelu": gelu, "swiglu": gated(jax.nn.silu), "geglu": gated(gelu),
    }[activation]  # fmt: skip
    wide = z.astype("float32")
    return (jax.vjp(function, wide)[1](g.astype("float32"))[0]).astype(z.dtype)
