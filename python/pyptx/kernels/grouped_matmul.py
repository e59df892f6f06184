"""`grouped_matmul`: products of groups of rows, each with a matrix of its own, as in a mixture of experts."""

import functools
import sys
from typing import Any

from pyptx import differentiable_kernel
from pyptx.kernels._checks import check_arrays
from pyptx.kernels._keywords import Nothing, Unpack, no_such_argument
from pyptx.kernels._matmul.arguments import check_ends, check_groups, check_one_matrix, width_of
from pyptx.kernels._matmul.choice import grouped_kernel, parted_kernel
from pyptx.kernels._memory import copied_to, dense, packed_array
from pyptx.kernels._remembered import Remembered
from pyptx.kernels._target import on_gpu
from pyptx.kernels._types import type_name

__all__ = ["grouped_matmul"]


def grouped_matmul(
    a: Any, b: Any, offs: Any = None, *, counts: Any = None, activation: str | None = None, out: Any = None,
    scale_a: Any = None, scale_b: Any = None, **named: Unpack[Nothing],
) -> Any:  # fmt: skip
    """Products of groups of rows of a, each with its own matrix b[e] of b (E, K, N).  Both are bf16 or f16; sums are f32.  b may be
    transposed, `w.mT` for w (E, N, K), without a copy.  Give offs or counts, an int32 tensor (E,) on the device, which the host never reads:

    offs: a is (T, K), the result (T, N).  Group e has the rows offs[e - 1] to offs[e], as in torch._grouped_mm.  offs ascends; rows from
        offs[E - 1] on are not written.
    counts: a is (E, R, K), the result (E, R, N).  Group e has the first counts[e] rows of a[e]; other rows are neither read nor written.

    With offs, b may also be one matrix, as in torch._grouped_mm, without activation and scales: of a (M, K) and b (K, N), group e has the columns
    offs[e - 1] to offs[e] of a and these rows of b, and the result is (E, M, N); of a (E, M, K) and b (K, T), it has these columns of b, and the
    result is (M, T).

    activation: as in `matmul`; for "swiglu" and "geglu", b is (E, K, 2 N): N gate columns and, behind them, N up columns.
    scale_a, scale_b: a and b may be float8_e4m3fn with f32 scales of blocks, scale_a (T, K / 128) or (E, R, K / 128) and scale_b (E, K /
        128, N / 128), rounded up, as `quantize_fp8` makes them.  The result is bf16, and has no gradient.

    Raises LaunchTypeError and LaunchValueError for types and shapes that do not fit.  The numbers in offs and counts are checked on the
    simulator only; a GPU reads and writes where they say.

    Example:
        tokens, experts = torch.randn(30, 64).bfloat16(), torch.randn(4, 64, 48).bfloat16()
        y = kernels.grouped_matmul(tokens, experts, torch.tensor([13, 13, 14, 30], dtype=torch.int32))
    """
    for name in named:
        raise no_such_argument(grouped_matmul, name)
    return CHOICE((a, b, offs, counts, scale_a, scale_b), out, activation=activation)


def grouped(a, b, offs, counts, scale_a, scale_b, out, *, activation):
    names, given = ("a", "b", "offs", "counts", "scale_a", "scale_b"), (a, b, offs, counts, scale_a, scale_b)
    check_arrays("grouped_matmul", names, given, out, 0, 2)
    torch = sys.modules.get("torch")
    if is_torch := torch is not None and isinstance(a, torch.Tensor):
        from pyptx.kernels._matmul import grouped_in_torch, in_torch

        in_torch.check_tensors("grouped_matmul", names, given, out)
        if scale_a is None:
            a, b = in_torch.cast_by_autocast(a, b)
    if len(b.shape) == 2 and counts is None:
        check_one_matrix(a, b, offs, activation, scale_a)
        return of_one_matrix(a, b, offs, out)
    columns = check_groups(a, b, offs, counts, activation, scale_a, scale_b)
    masked = counts is not None
    ends = counts if masked else offs
    if is_torch:
        return grouped_in_torch.grouped(a, b, ends, masked, activation, scale_a, scale_b, out)
    check_ends(ends, a.shape[-2], masked)
    a, b, ends, scale_a, scale_b = (
        each if each is None else dense(each, False) for each in (a, b, ends, scale_a, scale_b)
    )
    b_k_major, scales, shape = False, (), (*a.shape[:-1], columns)
    (experts, k, _), a = b.shape, a.reshape(-1, a.shape[-1])
    if scale_a is not None:
        scale_a = scale_a.reshape(-1, scale_a.shape[-1])
        b_k_major, b, scales = True, packed_array(b.swapaxes(1, 2)), (scale_a, scale_b)
    if columns != b.shape[1 if b_k_major else 2]:
        b = b.reshape((experts, 2, columns, k) if b_k_major else (experts, k, 2, columns))
    jax = sys.modules.get("jax")
    runs_on_gpu = on_gpu(a)
    size = 1 if scales else 2
    widths = width_of(k * size), width_of((k if b_k_major else columns) * size)
    kernel = grouped_kernel(
        a.shape, experts, columns, type_name(a), b_k_major, *widths, runs_on_gpu, masked, activation
    )
    if out is not None:
        place = dense(out, False)
        kernel(a, b, *scales, ends, out=place.reshape(-1, columns))
        return out if place is out else copied_to("grouped_matmul", out, place)
    if jax is not None and not scales and isinstance(a, jax.Array):
        kernel = differentiable(kernel, masked, activation, runs_on_gpu)
    return kernel(a, b, *scales, ends).reshape(shape)


def of_one_matrix(a, b, offs, out):
    """Where b is one matrix: groups of what is summed over, or of columns of b, which are rows of its transpose."""
    if len(a.shape) == 3:
        across = None if out is None else out.swapaxes(0, 1)
        made = grouped_matmul(b.swapaxes(0, 1), a.swapaxes(1, 2), offs, out=across)
        return made.swapaxes(0, 1) if out is None else out
    a, torch = a.swapaxes(0, 1), sys.modules.get("torch")
    check_ends(offs, b.shape[0], False)
    if torch is not None and isinstance(a, torch.Tensor):
        from pyptx.kernels._matmul import grouped_in_torch

        made = grouped_in_torch.parted_product(a, b, offs)
    else:
        a, b, offs = (dense(each, False) for each in (a, b, offs))
        made = parted(a, b, offs, on_gpu(a))
    return made if out is None else copied_to("grouped_matmul", out, made)


def recorded(a, b, offs, counts, scale_a, scale_b, *, activation):
    """What torch.autograd records."""
    from pyptx.kernels._matmul import grouped_in_torch, in_torch

    if len(b.shape) == 2 and counts is None:
        return grouped(a, b, offs, counts, scale_a, scale_b, None, activation=activation)
    if scale_a is None:
        a, b = in_torch.cast_by_autocast(a, b)
    masked = counts is not None
    return grouped_in_torch.recorded_groups(a, b, counts if masked else offs, scale_a, scale_b, masked, activation)


CHOICE = Remembered(grouped, casts=True, derivative=recorded)


@functools.cache
def differentiable(kernel, masked: bool, activation: str | None, on_gpu: bool):
    """The kernel for JAX's arrays, with its gradients of A (T, K) and B (E, K, N), or (E, K, 2, N)."""

    def backward(a, b, ends, g):
        import jax.numpy as jnp

        from pyptx.kernels._matmul.dense import derivative
        from pyptx.kernels.matmul import matmul

        experts, k = b.shape[:2]
        matrices = b.reshape(experts, k, -1)
        told = {"counts": ends} if masked else {"offs": ends}
        a, g = (each.reshape(experts, -1, each.shape[-1]) if masked else each for each in (a, g))
        rows = jnp.arange(a.shape[-2], dtype=ends.dtype)
        own = (rows < ends[:, None])[..., None] if masked else (rows < ends[-1])[:, None]
        if activation is not None:
            g = derivative(activation, grouped_matmul(a, matrices, **told), g)
        da = jnp.where(own, grouped_matmul(g, matrices.swapaxes(1, 2), **told), jnp.zeros((), a.dtype))
        if masked:
            a, g = (jnp.where(own, each, jnp.zeros((), each.dtype)) for each in (a, g))
            db = matmul(a.swapaxes(1, 2), g)
        else:
            db = parted(a, g, ends, on_gpu)
        return da.reshape(-1, k), db.reshape(b.shape)

    return differentiable_kernel(kernel, backward, num_grad_inputs=2)


def parted(a, g, ends, on_gpu: bool):
    """The products a[rows of group e]^T g[rows of group e], for JAX's arrays a (T, K) and g (T, N)."""
    shape = ends.shape[0], a.shape[1], g.shape[1]
    if 0 in (*shape, a.shape[0]):
        import jax.numpy as jnp

        return jnp.zeros(shape, a.dtype)
    return differentiable_parts(parted_kernel(*shape[1:], shape[0], type_name(a), on_gpu))(a, g, ends)


@functools.cache
def differentiable_parts(kernel):
    def backward(a, g, ends, pull):
        import jax.numpy as jnp

        own = (jnp.arange(a.shape[0], dtype=ends.dtype) < ends[-1])[:, None]
        da = grouped_matmul(g, pull.swapaxes(1, 2), ends)
        dg = grouped_matmul(a, pull, ends)
        return tuple(jnp.where(own, each, jnp.zeros((), each.dtype)) for each in (da, dg))

    return differentiable_kernel(kernel, backward, num_grad_inputs=2)
