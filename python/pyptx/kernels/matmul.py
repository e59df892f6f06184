"""`matmul`: matrix products.  _matmul/choice.py chooses the kernel.  The kernels are in _matmul/hopper.py (wgmma), _matmul/stream.py (wgmma,
few rows), _matmul/blackwell.py and _matmul/scaled.py (tcgen05), _matmul/mma.py (mma.sync), _matmul/vectors.py (a few rows)."""

import sys
from typing import Any

from pyptx import _core
from pyptx.errors import LaunchValueError
from pyptx.kernels._activations import GATED
from pyptx.kernels._checks import check_arrays
from pyptx.kernels._keywords import Operands, Unpack, renamed
from pyptx.kernels._matmul.arguments import ARGUMENTS
from pyptx.kernels._target import simulated
from pyptx.kernels._torch_state import compiling

__all__ = ["matmul"]


def matmul(
    a: Any = None, b: Any = None, *, out: Any = None, bias: Any = None, activation: str | None = None, residual: Any = None,
    scale_a: Any = None, scale_b: Any = None, **named: Unpack[Operands],
) -> Any:  # fmt: skip
    """activation(scale_a scale_b (a @ b) + bias) + residual, where a @ b is torch.matmul; sums are f32, those of int8 s32.

    a (..., M, K), b (..., K, N): both bf16, f16, f32 (multiplied as tf32), float8_e4m3fn or int8.  Leading dimensions broadcast.
        Each may be transposed: `matmul(x, w.mT)` copies nothing.  a (K,) is one row and b (K,) one column, which the result then lacks;
        vectors go without out, residual and scales, and b (K,) without bias.
    out: memory of its own, with any strides, or all of residual.  Without it the result has the operands' type, but bf16 for fp8 and
        int32 for int8; `out` may be f32.
    bias (N,), residual (..., M, N): f32, f16 or bf16.
    activation: None, "relu", "gelu" (by erf) or "silu".  Or "swiglu", silu(gate) * up, or "geglu", where b (..., K, 2 N) has N gate columns
        and, behind them, N up columns: the result is (..., M, N), bias (2 N,).
    scale_a, scale_b: f32, multiplied with what a and b hold: one element each; M and N elements; or, for matrices, one for each block,
        (M, K / 128) and (K / 128, N / 128), rounded up.  On Blackwell also those of mxfp8 (e4m3, scales of e8m0 for each 32 of K) and of
        nvfp4 (e2m1, two to a byte, scales of e4m3 for each 16 of K).

    The same inputs give the same bits.  Differentiable without scales, in bf16, f16 and f32.

    Raises LaunchTypeError and LaunchValueError for types and shapes that do not fit.

    Example:
        x, w = torch.randn(4, 64).bfloat16(), torch.randn(48, 64).bfloat16()
        y = kernels.matmul(x, w.mT, bias=torch.zeros(48), activation="gelu")
    """
    if named:
        told = {"a": a, "b": b, "out": out, "bias": bias, "activation": activation, "residual": residual}
        told |= {"scale_a": scale_a, "scale_b": scale_b}
        return matmul(**renamed(matmul, named, {"input": "a", "other": "b"}, told))
    given = a, b, bias, residual, scale_a, scale_b
    return CHOICE(given, out, activation=activation, target=simulated.target)


class Matmul(_core.Choice):
    """Called in C++ for tensors that look like those of an earlier call, otherwise by `_choose`, which asks the tensors' framework."""

    def _choose(self, given, out=None, *, activation, target):
        a = given[0]
        try:
            if any([len(getattr(each, "shape", ())) == 1 for each in given[:2]]):
                return of_vectors(given, out, activation)
            # Dynamo would guard what the dictionary has, and compile again when it has more.
            face = face_of(a) if compiling(a) else FACES.get(type(a)) or remembered(a)
            return face(self, given, activation, out)
        except (AttributeError, LookupError, RuntimeError, TypeError):  # asked here, it costs a call nothing
            refuse(given, out)
            raise


def of_vectors(given, out, activation):
    """`matmul` where a, b or both are vectors: a row, a column, as in torch.matmul.  The result lacks that dimension."""
    (a, b, bias, *more), row, column = given, len(given[0].shape) == 1, len(given[1].shape) == 1
    if out is not None or any([each is not None for each in more]):
        raise LaunchValueError(
            f"matmul: with out, residual or scales, a and b have at least two dimensions, not {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if column and (bias is not None or activation in GATED):
        raise LaunchValueError(
            f"matmul: with bias, {' or '.join(GATED)}, b has at least two dimensions, not {tuple(b.shape)}"
        )
    if a.shape and b.shape and a.shape[-1] != b.shape[-1 if column else -2]:
        raise LaunchValueError(f"matmul: a {tuple(a.shape)} and b {tuple(b.shape)} have no K in common")
    made = matmul(a[None] if row else a, b[:, None] if column else b, bias=bias, activation=activation)
    made = made[..., 0] if column else made
    return made if not row else made[..., 0] if column else made[..., 0, :]


def refuse(given, out):
    """Raises LaunchTypeError if an argument is no array, or an array of another framework than the first."""
    check_arrays("matmul", ARGUMENTS, given, out, 0, 2)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given[0], torch.Tensor):
        from pyptx.kernels._matmul.in_torch import check_tensors

        check_tensors("matmul", ARGUMENTS, given, out)


_core.show_call(Matmul, Matmul._choose)  # to torch.compile
CHOICE = Matmul()
FACES: dict = {}  # by the type of `a`, the function that takes arrays of its framework


def face_of(a):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        from pyptx.kernels._matmul.in_torch import matmul as face
    else:
        from pyptx.kernels._matmul.dense import matmul as face
    return face


def remembered(a):
    FACES[type(a)] = face_of(a)
    return FACES[type(a)]
