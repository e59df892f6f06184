"""Which types and shapes of operands, biases and scales go together in products, and the errors for those that do not."""

import functools

from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._activations import ACTIVATIONS, GATED
from pyptx.kernels._epilogue import Epilogue
from pyptx.kernels._memory import contents
from pyptx.kernels._types import type_name
from pyptx.types import bf16, e4m3, f16, f32, s8, s32

__all__ = [
    "ARGUMENTS", "KNOWN", "NAMES", "broadcast", "check_ends", "check_groups", "check_one_matrix", "epilogue_of", "gated_columns", "line_of", "shape_of", "size",
    "types_of", "width_of",
]  # fmt: skip

ARGUMENTS = ("a", "b", "bias", "residual", "scale_a", "scale_b")
# By the type of the operands, the types that the result may have; the first is that of a call without `out`.
RESULTS = {bf16: (bf16, f32), f16: (f16, f32), f32: (f32,), e4m3: (bf16, f16, f32), s8: (s32,)}
NAMES = {"bfloat16": bf16, "float16": f16, "float32": f32, "float8_e4m3fn": e4m3, "int8": s8, "int32": s32}


def types_of(given, activation, out_type) -> tuple:
    """The PTX types of the arguments and of the result.  `given`: the names of the arguments' types, None for one that is None.  Raises
    LaunchTypeError or LaunchValueError for types that do not go together."""
    legal = {"a": RESULTS, "b": RESULTS, "bias": REAL, "residual": REAL, "scale_a": (f32,), "scale_b": (f32,)}
    types = []
    for name, told in zip(ARGUMENTS, given, strict=True):
        if told is not None and NAMES.get(told) not in legal[name]:
            known = ", ".join(each for each, dtype in NAMES.items() if dtype in legal[name])
            raise LaunchTypeError(f"matmul: `{name}` is of {told}; legal are {known}")
        types.append(told and NAMES[told])
    if types[0] != types[1]:
        raise LaunchTypeError(f"matmul: `a` is of {given[0]} and `b` of {given[1]}; both need the same type")
    if activation is not None and activation not in KNOWN:
        raise LaunchValueError(f"matmul: activation is None, {', '.join(map(repr, KNOWN))}, not {activation!r}")
    if (types[4] is None) != (types[5] is None):
        raise LaunchTypeError("matmul: give both scale_a and scale_b, or neither")
    if types[0] == s8 and (activation or any(types[2:])):
        raise LaunchTypeError("matmul: a product of int8 is int32, without bias, activation, residual or scales")
    results = RESULTS[types[0]]
    if out_type is not None and NAMES.get(out_type) not in results:
        known = ", ".join(name for name, dtype in NAMES.items() if dtype in results)
        raise LaunchTypeError(f"matmul: `out` is of {out_type}; for operands of {given[0]} legal are {known}")
    return (*types, results[0] if out_type is None else NAMES[out_type])


REAL, KNOWN = (bf16, f16, f32), (*ACTIVATIONS, *GATED)


def shape_of(a, b, bias, residual, scale_a, scale_b, out, activation=None) -> tuple:
    """The shape of the result, from the shapes of the arguments.  Raises LaunchValueError for shapes that do not fit."""
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
    """How many columns the result has, for so many columns of b: half of them if they are gates and ups.  `blocks`: whether each 128 of them
    have a scale."""
    if activation not in GATED:
        return columns
    if columns % 2 or (blocks and columns % 128):
        what = (
            "a multiple of 128, because it has scales of blocks" if blocks else "as many ups as gates, an even number"
        )
        raise LaunchValueError(f"{name}: b has {columns} columns; with activation {activation!r} it has {what}")
    return columns // 2


def is_blocks(scale_a, scale_b, a, b) -> bool:
    """Whether the scales have the shapes of blocks: one for each 128 of a row of a, and for each 128 x 128 of b."""
    blocks = -(-a[-1] // 128)
    return len(b) == 2 == len(a) and tuple(scale_a) == (a[-2], blocks) and tuple(scale_b) == (blocks, -(-b[-1] // 128))


def line_of(count: int, shape) -> tuple:
    """The shape of a line with `count` elements that all matrices of a batch share: the columns, or gates and ups."""
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
    """The largest power of two, up to the 32 bytes of a sector of L2, that divides all numbers."""
    bits = 32
    for each in multiples:
        bits |= each
    return bits & -bits


def epilogue_of(types, activation, shapes, flat, turned=(False, False)) -> tuple[Epilogue, list]:
    """(the epilogue, the shapes in which its kernel takes bias, residual, scale_a and scale_b), for a result of the shape `flat`.  A shape is
    None if the tensor is None.  `turned`: whether the transposes of scales of blocks, of A and of B, are taken."""
    _, _, bias, residual, scale_a, _ = types
    *batch, m, n = flat
    halves = Epilogue(activation=activation).halves
    scales, parts = None, [None, None]
    if scale_a is not None:
        single = size(shapes[4]) == 1 == size(shapes[5])
        scales = "tensor" if single else "row"
        parts = [(1,), (1,)] if single else [(*batch, m), (*batch, *halves, n)]
        if not single and is_blocks(shapes[4], shapes[5], *shapes[:2]):
            scales, parts = (
                "block",
                [tuple(shape)[:: -1 if of_one else 1] for shape, of_one in zip(shapes[4:6], turned, strict=True)],
            )
    found = [bias and (*halves, n), residual and flat, *parts]
    if scales != "block":
        return Epilogue(bias, activation, residual, scales), found
    return Epilogue(bias, activation, residual, scales, not turned[0], turned[1]), found


# Products of groups.


def check_groups(a, b, offs, counts, activation, scale_a, scale_b) -> int:
    """How many columns the result has.  Raises LaunchTypeError or LaunchValueError for arguments that do not fit."""
    name = type_name(a)
    if (offs is None) == (counts is None):
        raise LaunchTypeError("grouped_matmul: give either offs, for a (T, K), or counts, for a (E, R, K)")
    scaled, masked = scale_a is not None, counts is not None
    if scaled != (scale_b is not None):
        raise LaunchTypeError("grouped_matmul: give both scale_a and scale_b, or neither")
    if name not in (("float8_e4m3fn",) if scaled else ("bfloat16", "float16")) or a.dtype != b.dtype:
        raise LaunchTypeError(
            f"grouped_matmul: a is of {name} and b of {type_name(b)}; legal are two of bfloat16 or of float16, with scale_a and scale_b of float8_e4m3fn"
        )
    if activation is not None and activation not in KNOWN:
        raise LaunchValueError(f"grouped_matmul: activation is None, {', '.join(map(repr, KNOWN))}, not {activation!r}")
    check_shapes_of_groups(a, b, counts if masked else offs, masked)
    columns = gated_columns("grouped_matmul", b.shape[2], activation, scaled)
    if scaled:
        blocks = -(-a.shape[-1] // 128)
        wanted = (*a.shape[:-1], blocks), (b.shape[0], blocks, -(-b.shape[2] // 128))
        for given, name, shape in ((scale_a, "scale_a", wanted[0]), (scale_b, "scale_b", wanted[1])):
            if type_name(given) != "float32" or tuple(given.shape) != shape:
                raise LaunchValueError(
                    f"grouped_matmul: {name} is {type_name(given)} {tuple(given.shape)}; legal is float32 {shape}"
                )
    return columns


def check_one_matrix(a, b, offs, activation, scale_a):
    """Raises LaunchTypeError or LaunchValueError where b is one matrix and other arguments do not fit."""
    name, other = type_name(a), type_name(b)
    if offs is None or activation is not None or scale_a is not None:
        raise LaunchTypeError("grouped_matmul: with one matrix b give offs, and neither activation nor scales")
    if name not in ("bfloat16", "float16") or name != other:
        raise LaunchTypeError(
            f"grouped_matmul: a is of {name} and b of {other}; legal are two of bfloat16 or of float16"
        )
    if type_name(offs) != "int32":
        raise LaunchTypeError(f"grouped_matmul: offs is of {type_name(offs)}; legal is int32")
    groups = len(offs.shape) == 1 and len(a.shape) in (2, 3) and (len(a.shape) == 2 or a.shape[0] == offs.shape[0])
    if not groups or a.shape[-1] != b.shape[0]:
        shapes = f"a {tuple(a.shape)}, b {tuple(b.shape)} and offs {tuple(offs.shape)}"
        raise LaunchValueError(
            f"grouped_matmul: {shapes} are neither (M, K), (K, N) and (E,) nor (E, M, K), (K, T) and (E,)"
        )


def check_shapes_of_groups(a, b, ends, masked: bool):
    name, rows = ("counts", "(E, R, K)") if masked else ("offs", "(T, K)")
    if type_name(ends) != "int32":
        raise LaunchTypeError(f"grouped_matmul: {name} is of {type_name(ends)}; legal is int32")
    fits = len(a.shape) == 2 + masked and len(b.shape) == 3 and a.shape[-1] == b.shape[1]
    if not fits or tuple(ends.shape) != (b.shape[0],) or (masked and a.shape[0] != b.shape[0]):
        shapes = f"a {tuple(a.shape)}, b {tuple(b.shape)} and {name} {tuple(ends.shape)}"
        raise LaunchValueError(f"grouped_matmul: {shapes} are not {rows}, (E, K, N) and (E,)")


def check_ends(ends, rows: int, masked: bool):
    """Raises LaunchValueError for numbers in offs or counts that are out of range, if they are in the CPU's memory; the host does not wait for
    those of a GPU."""
    there = contents(ends)
    if there is None:
        return
    if masked and not all(0 <= count <= rows for count in there):
        raise LaunchValueError(f"grouped_matmul: counts are 0 to {rows}, the rows of a group; they are {there}")
    if not masked and not all(0 <= begin <= end <= rows for begin, end in zip([0, *there], there, strict=False)):
        raise LaunchValueError(f"grouped_matmul: offs rise from 0 to {rows}, the rows of a; they are {there}")
