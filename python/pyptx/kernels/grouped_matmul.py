"""Products of groups of rows with a matrix each, as a mixture of experts has them: `grouped_matmul`."""

import sys
from typing import Any

from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._epilogue import NOTHING, Epilogue
from pyptx.kernels._matmul_choice import blocks_of, configuration, has_wgmma
from pyptx.kernels._matmul_hopper import MOST_GROUPS, product_kernel
from pyptx.kernels._matmul_mma import mma_kernel
from pyptx.kernels.matmul import NAMES, width_of
from pyptx.types import bf16, e4m3

__all__ = ["grouped_matmul"]


def grouped_matmul(a: Any, b: Any, offs: Any, *, out: Any = None, scale_a: Any = None, scale_b: Any = None) -> Any:
    """Rows offs[e - 1] to offs[e] of the result are those of a, times b[e]; as torch._grouped_mm of two and three dimensions.

    a (T, K), b (E, K, N), both bf16 or f16, f32 accumulation; offs (E,) int32, ascending, on the device: the host never reads it.  b
    may be transposed, `w.mT` of w (E, N, K), without a copy.  Rows behind offs[E - 1] are not written.
    Both float8_e4m3fn with f32 scales of blocks, scale_a (T, K / 128) and scale_b (E, K / 128, N / 128), rounded up, as `quantize_fp8`
    makes them: the result is bf16, and has no gradient.

    Raises LaunchTypeError and LaunchValueError for types and shapes that do not fit.
    """
    check(a, b, offs, scale_a, scale_b)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        from pyptx.kernels import _matmul_torch

        return _matmul_torch.grouped(a, b, offs, scale_a, scale_b, out)
    b_k_major, scales = False, ()
    if scale_a is not None:
        b_k_major, b, scales = True, packed(b.swapaxes(1, 2)), (packed(scale_a.swapaxes(0, 1)), scale_b)
    kernel = grouped_kernel(
        a.shape, offs.shape[0], b.shape[1 if b_k_major else 2], str(a.dtype), b_k_major, 16, 16, False
    )
    return kernel(a, b, *scales, offs, **({} if out is None else {"out": out}))


def packed(array):
    return array.copy() if hasattr(array, "flags") else array


def check(a, b, offs, scale_a=None, scale_b=None):
    name = str(a.dtype).removeprefix("torch.")
    scaled = scale_a is not None
    if scaled != (scale_b is not None):
        raise LaunchTypeError("grouped_matmul: scale_a and scale_b are given together")
    if name not in (("float8_e4m3fn",) if scaled else ("bfloat16", "float16")) or a.dtype != b.dtype:
        raise LaunchTypeError(
            f"grouped_matmul: a is of {name} and b of {b.dtype}; legal are two of bfloat16 or of float16, with scale_a and scale_b of float8_e4m3fn"
        )
    if not str(offs.dtype).endswith("int32"):
        raise LaunchTypeError(f"grouped_matmul: offs is of {offs.dtype}; legal is int32")
    if len(a.shape) != 2 or len(b.shape) != 3 or a.shape[1] != b.shape[1] or tuple(offs.shape) != (b.shape[0],):
        shapes = f"a {tuple(a.shape)}, b {tuple(b.shape)} and offs {tuple(offs.shape)}"
        raise LaunchValueError(f"grouped_matmul: {shapes} are not (T, K), (E, K, N) and (E,)")
    if scaled:
        blocks = -(-a.shape[1] // 128)
        wanted = (a.shape[0], blocks), (b.shape[0], blocks, -(-b.shape[2] // 128))
        for given, name, shape in ((scale_a, "scale_a", wanted[0]), (scale_b, "scale_b", wanted[1])):
            if not str(given.dtype).endswith("float32") or tuple(given.shape) != shape:
                raise LaunchValueError(
                    f"grouped_matmul: {name} is {given.dtype} {tuple(given.shape)}; legal is float32 {shape}"
                )


def grouped_kernel(
    shape_a, experts: int, n: int, dtype: str, b_k_major: bool, a_width: int, b_width: int, on_gpu: bool
):  # fmt: skip
    """The kernel (A, B, scales of both where they are e4m3, OFFS) -> C for A of this shape and `experts` matrices of `n` columns."""
    t, k = shape_a
    kind = NAMES[dtype.removeprefix("torch.")]
    scaled = kind == e4m3
    out, epilogue = (bf16, Epilogue(scales="block")) if scaled else (kind, NOTHING)
    if has_wgmma(on_gpu, a_width, b_width, width_of(n * 2)) and experts <= MOST_GROUPS:
        each = -(-t // experts)
        c = blocks_of(each, n, True) if scaled else configuration(each, n, k, experts, 16, b_k_major, True)
        return product_kernel(c, kind, True, b_k_major, out, epilogue=epilogue, grouped=True)
    return mma_kernel(kind, out, True, b_k_major, a_width, b_width, epilogue=epilogue, grouped=True)
