"""Matrix products: `matmul`.  What kernel makes one is chosen in _matmul_choice.py; the kernels are in _matmul_hopper.py (wgmma),
_matmul_stream.py (few rows) and _matmul_mma.py (mma.sync)."""

import functools
import sys
from typing import TYPE_CHECKING, Any

from pyptx import _core
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._call import check_arrays
from pyptx.kernels._epilogue import ACTIVATIONS, GATED, Epilogue
from pyptx.kernels._keywords import Operands, renamed
from pyptx.kernels._target import simulated
from pyptx.types import bf16, e4m3, f16, f32, s8, s32

if TYPE_CHECKING:
    from typing import Unpack

__all__ = ["matmul"]

ARGUMENTS = ("a", "b", "bias", "residual", "scale_a", "scale_b")
# Types of operands, and of what their product may be; the first where no `out` says another.
RESULTS = {bf16: (bf16, f32), f16: (f16, f32), f32: (f32,), e4m3: (bf16, f16, f32), s8: (s32,)}
NAMES = {"bfloat16": bf16, "float16": f16, "float32": f32, "float8_e4m3fn": e4m3, "int8": s8, "int32": s32}


def matmul(
    a: Any = None, b: Any = None, *, out: Any = None, bias: Any = None, activation: str | None = None, residual: Any = None,
    scale_a: Any = None, scale_b: Any = None, **named: "Unpack[Operands]",
) -> Any:  # fmt: skip
    """activation(scale_a scale_b (a @ b) + bias) + residual, as torch.matmul; f32 accumulation.

    a (..., M, K), b (..., K, N): both bf16, f16, f32 (multiplied as tf32), float8_e4m3fn or int8; leading dimensions broadcast.
    Each may be transposed: `matmul(x, w.mT)` copies nothing.  The result is of their type, of fp8 bf16, of int8 int32; `out` may
    be f32.  bias (N,), residual (..., M, N): f32, f16 or bf16.  activation: None, "relu", "gelu" (with erf), "silu";
    or, of b (..., K, 2 N) whose first N columns are gates and whose last N are ups, "swiglu": silu(gate) * up, or "geglu": the result
    is (..., M, N), and bias is (2 N,).
    scale_a, scale_b: f32, what was divided by: of one element each, of M and N elements, or of blocks of matrices: (M, K / 128) and
    (K / 128, N / 128), rounded up.
    a (K,) is one row, b (K,) one column, and the result has no such dimension; without out, residual, scales, b (K,) without bias.
    out: any strides; memory of its own, or that of all of residual.
    On Blackwell also mxfp8 and nvfp4: scales of e8m0 for 32 of K of e4m3, and of e4m3 for 16 of K of e2m1, two to a byte.
    The same inputs give the same bits.

    Raises LaunchTypeError and LaunchValueError for types and shapes that do not fit.
    """
    if named:
        told = {"a": a, "b": b, "out": out, "bias": bias, "activation": activation, "residual": residual}
        told |= {"scale_a": scale_a, "scale_b": scale_b}
        return matmul(**renamed(matmul, named, {"input": "a", "other": "b"}, told))
    given = a, b, bias, residual, scale_a, scale_b
    return CHOICE(given, out, activation=activation, target=simulated.target)


class Matmul(_core.Choice):
    """In C++ for tensors that look like earlier ones, else by the tensors' framework."""

    def _choose(self, given, out=None, *, activation, target):
        a = given[0]
        try:
            if any([len(getattr(each, "shape", ())) == 1 for each in given[:2]]):
                return of_vectors(given, out, activation)
            face = FACES.get(type(a)) or face_of(a)
            return face(given, activation, out)
        except (AttributeError, LookupError, RuntimeError, TypeError):  # asked here, it costs a call nothing
            refuse(given, out)
            raise


def of_vectors(given, out, activation):
    """Vectors are a row of a or a column of b, as in torch.matmul; the result has no such dimension."""
    (a, b, bias, *more), row, column = given, len(given[0].shape) == 1, len(given[1].shape) == 1
    if out is not None or any([each is not None for each in more]):
        raise LaunchValueError(
            f"matmul: a {tuple(a.shape)} and b {tuple(b.shape)} have at least two dimensions beside out, residual and scales"
        )
    if column and (bias is not None or activation in GATED):
        raise LaunchValueError(
            f"matmul: b {tuple(b.shape)} has at least two dimensions beside bias and {', '.join(GATED)}"
        )
    made = matmul(a[None] if row else a, b[:, None] if column else b, bias=bias, activation=activation)
    made = made[..., 0] if column else made
    return made if not row else made[..., 0] if column else made[..., 0, :]


def refuse(given, out):
    """LaunchTypeError for what is no array, or none of the kind of the first."""
    check_arrays("matmul", ARGUMENTS, given, out, 0, 2)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given[0], torch.Tensor):
        from pyptx.kernels._matmul_torch import check_tensors

        check_tensors("matmul", ARGUMENTS, given, out)


_core.show_call(Matmul, Matmul._choose)  # to torch.compile
CHOICE = Matmul()
FACES: dict = {}  # type of `a`: what multiplies such


def face_of(a):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        from pyptx.kernels._matmul_torch import matmul as face
    else:
        from pyptx.kernels._matmul_dense import matmul as face
    FACES[type(a)] = face
    return face


def types_of(given, activation, out_type) -> tuple:
    """The PTX types of tensors by the names of theirs (None for one that is None), checked."""
    legal = {"a": RESULTS, "b": RESULTS, "bias": REAL, "residual": REAL, "scale_a": (f32,), "scale_b": (f32,)}
    types = []
    for name, spelled in zip(ARGUMENTS, given, strict=True):
        if spelled is not None and NAMES.get(spelled) not in legal[name]:
            known = ", ".join(each for each, dtype in NAMES.items() if dtype in legal[name])
            raise LaunchTypeError(f"matmul: `{name}` is of {spelled}; legal are {known}")
        types.append(spelled and NAMES[spelled])
    if types[0] != types[1]:
        raise LaunchTypeError(f"matmul: `a` is of {given[0]} and `b` of {given[1]}; they have one type")
    if activation is not None and activation not in KNOWN:
        raise LaunchValueError(f"matmul: activation is None, {', '.join(map(repr, KNOWN))}, not {activation!r}")
    if (types[4] is None) != (types[5] is None):
        raise LaunchTypeError("matmul: scale_a and scale_b are given together")
    if types[0] == s8 and (activation or any(types[2:])):
        raise LaunchTypeError("matmul: a product of int8 is int32, without bias, activation, residual or scales")
    results = RESULTS[types[0]]
    if out_type is not None and NAMES.get(out_type) not in results:
        known = ", ".join(name for name, dtype in NAMES.items() if dtype in results)
        raise LaunchTypeError(f"matmul: `out` is of {out_type}; of {given[0]} it may be {known}")
    return (*types, results[0] if out_type is None else NAMES[out_type])


REAL, KNOWN = (bf16, f16, f32), (*ACTIVATIONS, *GATED)


def shape_of(a, b, bias, residual, scale_a, scale_b, out, activation=None) -> tuple:
    """The shape of the result of tensors of these shapes, checked."""
    if len(a) < 2 or len(b) < 2:
        raise LaunchValueError(f"matmul: a {tuple(a)} and b {tuple(b)} have at least two dimensions")
    if a[-1] != b[-2]:
        raise LaunchValueError(f"matmul: a {tuple(a)} has {a[-1]} columns, but b {tuple(b)} has {b[-2]} rows")
    shape = (
        *broadcast(a, b),
        a[-2],
        gated_columns("matmul", b[-1], activation, scale_a is not None and is_blocks(scale_a, scale_b, a, b)),
    )
    if bias is not None and tuple(bias) != (b[-1],):
        raise LaunchValueError(f"matmul: bias has shape {tuple(bias)}, not {(b[-1],)}")
    for name, have in (("residual", residual), ("out", out)):
        if have is not None and tuple(have) != shape:
            raise LaunchValueError(f"matmul: {name} has shape {tuple(have)}, not {shape}")
    if scale_a is not None:
        if is_blocks(scale_a, scale_b, a, b):
            return shape
        counts = size(scale_a), size(scale_b)
        rows, columns = size(shape[:-1]), size(shape[:-2]) * b[-1]
        if counts not in ((1, 1), (rows, columns), (rows, b[-1])):
            raise LaunchValueError(
                f"matmul: scales have {counts[0]} and {counts[1]} elements; legal are 1 and 1, or {rows} and {b[-1]}, or "
                "shapes (M, K / 128) and (K / 128, N / 128) of matrices"
            )
    return shape


def gated_columns(name: str, columns: int, activation, blocks: bool) -> int:
    """Of the result of a matrix of so many: half of them where they are gates and ups; `blocks`: that may have scales of 128."""
    if activation not in GATED:
        return columns
    if columns % 2 or (blocks and columns % 128):
        what = "a multiple of 128, where it has scales" if blocks else "gates and as many ups"
        raise LaunchValueError(f"{name}: b has {columns} columns; of {activation!r} it has {what}")
    return columns // 2


def is_blocks(scale_a, scale_b, a, b) -> bool:
    """Whether scales of these shapes are of blocks: one for 128 of a row of a, one for 128 x 128 of b."""
    blocks = -(-a[-1] // 128)
    return len(b) == 2 == len(a) and tuple(scale_a) == (a[-2], blocks) and tuple(scale_b) == (blocks, -(-b[-1] // 128))


def line_of(count: int, shape) -> tuple:
    """The shape of one line for all of a batch: columns, or gates and ups."""
    return shape[-1:] if count == shape[-1] else shape[-2:]


def size(shape) -> int:
    return functools.reduce(lambda x, y: x * y, shape, 1)


def broadcast(a, b) -> tuple:
    one, two = tuple(a[:-2]), tuple(b[:-2])
    if one == two or not two:
        return one
    length = max(len(one), len(two))
    one, two = (1,) * (length - len(one)) + one, (1,) * (length - len(two)) + two
    if any(x != y and 1 not in (x, y) for x, y in zip(one, two, strict=True)):
        raise LaunchValueError(f"matmul: leading dimensions of a {tuple(a)} and b {tuple(b)} do not broadcast")
    return tuple(max(x, y) if 0 not in (x, y) else 0 for x, y in zip(one, two, strict=True))


def width_of(*multiples: int) -> int:
    """The largest power of two up to 32, a sector of L2, that divides all."""
    bits = 32
    for each in multiples:
        bits |= each
    return bits & -bits


def epilogue_of(types, activation, shapes, flat) -> tuple[Epilogue, list]:
    """The epilogue, and the shapes that its tensors (bias, residual, scale_a, scale_b; None for one that is None) have in the
    kernel's eyes, for a result of the shape `flat`."""
    _, _, bias, residual, scale_a, _ = types
    *batch, m, n = flat
    halves = Epilogue(activation=activation).halves
    scales, parts = None, [None, None]
    if scale_a is not None:
        single = size(shapes[4]) == 1 == size(shapes[5])
        scales = "tensor" if single else "row"
        parts = [(1,), (1,)] if single else [(*batch, m), (*batch, *halves, n)]
        if not single and is_blocks(shapes[4], shapes[5], *shapes[:2]):
            scales, parts = "block", [tuple(shapes[4])[::-1], tuple(shapes[5])]
    found = [bias and (*halves, n), residual and flat, *parts]
    return Epilogue(bias, activation, residual, scales), found
