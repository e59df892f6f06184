"""Products of groups of rows with a matrix each, as a mixture of experts has them: `grouped_matmul`."""

import sys
from typing import Any

from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._matmul_choice import configuration, has_wgmma
from pyptx.kernels._matmul_hopper import MOST_GROUPS, product_kernel
from pyptx.kernels._matmul_mma import mma_kernel
from pyptx.kernels.matmul import NAMES, width_of
from pyptx.types import bf16, f16

__all__ = ["grouped_matmul"]


def grouped_matmul(a: Any, b: Any, offs: Any, *, out: Any = None) -> Any:
    """Rows offs[e - 1] to offs[e] of the result are those of a, times b[e]; as torch._grouped_mm of two and three dimensions.

    a (T, K), b (E, K, N), both bf16 or f16, f32 accumulation; offs (E,) int32, ascending, on the device: the host never reads it.  b
    may be transposed, `w.mT` of w (E, N, K), without a copy.  Rows behind offs[E - 1] are not written.

    Raises LaunchTypeError and LaunchValueError for types and shapes that do not fit.
    """
    check(a, b, offs)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        from pyptx.kernels import _matmul_torch

        return _matmul_torch.grouped(a, b, offs, out)
    result = grouped_kernel(a.shape, b.shape, str(a.dtype), False, 16, 16, False)(
        a, b, offs, **({} if out is None else {"out": out})
    )
    return result


def check(a, b, offs):
    name = str(a.dtype).removeprefix("torch.")
    if NAMES.get(name) not in (bf16, f16) or a.dtype != b.dtype:
        raise LaunchTypeError(
            f"grouped_matmul: a is of {name} and b of {b.dtype}; legal are two of bfloat16 or of float16"
        )
    if not str(offs.dtype).endswith("int32"):
        raise LaunchTypeError(f"grouped_matmul: offs is of {offs.dtype}; legal is int32")
    if len(a.shape) != 2 or len(b.shape) != 3 or a.shape[1] != b.shape[1] or tuple(offs.shape) != (b.shape[0],):
        shapes = f"a {tuple(a.shape)}, b {tuple(b.shape)} and offs {tuple(offs.shape)}"
        raise LaunchValueError(f"grouped_matmul: {shapes} are not (T, K), (E, K, N) and (E,)")


def grouped_kernel(shape_a, shape_b, dtype: str, b_k_major: bool, a_width: int, b_width: int, on_gpu: bool):
    t, k = shape_a
    experts, _, n = shape_b
    kind = NAMES[dtype.removeprefix("torch.")]
    out_width = width_of(n * 2)
    if has_wgmma(on_gpu, a_width, b_width, out_width) and experts <= MOST_GROUPS:
        return product_kernel(
            configuration(-(-t // experts), n, k, experts, 16), kind, True, b_k_major, kind, grouped=True
        )
    return mma_kernel(kind, kind, True, b_k_major, a_width, b_width, grouped=True)
