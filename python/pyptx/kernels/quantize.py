"""Numbers as e4m3, 8 bits each, with scales that keep them in its range: x is about q s.

s = max |x| / 448 over a row, over 128 columns of a row, or over 128 x 128 elements; q = x / s.  448 is the largest number of e4m3.
max |x| counts as 1e-12 at least, so that zeros stay zeros.  NaN and infinity make NaN of all elements that share their scale.
"""

import contextlib
import functools
from typing import Any

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.errors import LaunchValueError
from pyptx.kernels._checks import check_arrays
from pyptx.kernels._keywords import Nothing, Unpack, no_such_argument
from pyptx.kernels._registers import apply, beyond, divided, mul, smem_address, tree
from pyptx.kernels._remembered import Remembered
from pyptx.kernels._row_function import Argument, RowFunction
from pyptx.kernels._rows.agreement import warp_max
from pyptx.kernels._rows.apart import Apart, apart_kernels, whole
from pyptx.kernels._rows.lanes import BLOCK, Lanes
from pyptx.kernels._rows.quantize_transposed import make_transposed, takes_transposed
from pyptx.kernels._rows.row import Row
from pyptx.kernels._rows.split import Split, begin_early, row_kernel, tightly, with_own
from pyptx.kernels._rows.tiles import matrix
from pyptx.kernels._torch_state import compiling, recorded
from pyptx.kernels._types import TYPES, type_name
from pyptx.types import e4m3, f32, u32

__all__ = ["quantize_fp8"]

LARGEST, SMALLEST = 448.0, 1e-12
WARPS = 4
UNROLL = 4  # rows that a warp loads side by side


def magnitude(x):
    return apply(ptx.inst.abs.f32, x)


def larger(into, value, **guard):
    ptx.inst.max.NaN.f32(into, into, value, **guard)


def inverse_scale(largest):
    """1 / s for the largest magnitude, which may be NaN.  The register `largest` is raised to SMALLEST, if it is less."""
    larger(largest, SMALLEST)
    return apply(ptx.inst.div.rn.f32, LARGEST, largest)


def scale_of(largest):
    return apply(ptx.inst.div.rn.f32, largest, LARGEST)


def store_scale(place, largest):
    ptx.inst.st.global_.f32(ptx.addr(place), scale_of(largest))


def place_of_scale(S, row, block, blocks):
    if isinstance(S, Apart):
        return beyond(S.begin(row), block, 4)
    (pointer,) = ptx.global_ptrs(S)
    return pointer + (row * blocks + block) * 4


def make_by_row(split, dtype):
    split = with_own(tightly(split))

    @row_kernel((matrix(dtype),), (matrix(e4m3), Tile("M", f32)), split, arch="sm_89")
    def quantize_fp8_rows(X, Q, S):
        for row, x in Row.each(split(X.shape[1]), X):
            inverse = inverse_scale(largest := row.max(row.map(magnitude, x)))
            row.store(Q, row.map(lambda x, inverse=inverse: mul(x, inverse), x), last=True)
            with contextlib.nullcontext() if row.scalars is not None else ptx.if_(row.thread == 0):
                row.store_of_row(S, scale_of(largest))
        ptx.ret()

    return quantize_fp8_rows, None


def largest_of(values, lanes: int):
    """The largest magnitude of the values of `lanes` neighbouring lanes, in each of them."""
    mine = tree([magnitude(value) for some in values for value in some], ptx.inst.max.NaN.f32)
    warp_max(mine, lanes)
    return mine


def block_kernel(split, dtype, scales: Tile, batch: dict | None = None, **launch):
    """The decorator of a kernel from a matrix, whose rows may lie apart, to a matrix of e4m3 and scales.  On GPUs since Hopper it may begin while the kernel
    before it ends."""
    wide, inputs, outputs = split.func == Split.wide, (matrix(dtype),), (matrix(e4m3), scales)
    launch |= {
        "raw_params": [("u32", "M"), ("u32", "B")],
        "arch": "sm_90" if wide else "sm_89",
        "dependent_launch": wide,
    }

    def made(function):
        packed = kernel(in_specs=inputs, out_specs=outputs, **(batch or {}), **launch)(function)
        packed.apart, packed.pieces = apart_kernels(function, inputs, outputs, **launch), whole
        return packed

    return made


def begin(split):
    begin_early(split.func == Split.wide)


def make_by_blocks_of_rows(split, dtype):
    """A group of lanes takes UNROLL rows of the same 128 columns, whose loads are in flight together.  Neighbouring groups take neighbouring columns, those
    behind the last ones of the next rows."""

    def grid(M, N):
        return (-(-(-(-M // UNROLL) * blocks_in(N)) // (WARPS * Lanes(N, dtype).across)), 1, 1)

    @block_kernel(split, dtype, Tile("M", "B", f32), {"batch": "M"}, grid=grid, block=(32 * WARPS, 1, 1))
    def quantize_fp8_blocks_of_rows(X, Q, S):
        begin(split)
        share = Lanes(X.shape[1], dtype)
        m, blocks = ptx.param(u32, "M"), ptx.param(u32, "B")
        warp, piece, within = share.place()
        group = (reg.from_(ptx.special.ctaid.x(), u32) * WARPS + warp) * share.across + piece
        above, block = divided(group, max(1, blocks_in(X.shape[1])))
        first, column = above * UNROLL, block * BLOCK + within
        rows = [first + i for i in range(UNROLL)]
        vectors = [share.vectors(row, column, m) for row in rows]
        loaded = [share.load(X, some) for some in vectors]
        for row, some, bits in zip(rows, vectors, loaded, strict=True):
            values = share.values(bits)
            inverse = inverse_scale(largest := largest_of(values, share.lanes))
            share.store(Q, some, values, inverse)
            with ptx.if_((within == 0) & (row < m)):
                store_scale(place_of_scale(S, row, block, blocks), largest)
        ptx.ret()

    return quantize_fp8_blocks_of_rows, None


def make_by_squares(split, dtype):
    """A CTA takes 128 x 128 elements and keeps them in registers until it knows the largest magnitude."""
    warps = 8

    @block_kernel(split, dtype, Tile("P", "B", f32), grid=lambda P, B: (P * B, 1, 1), block=(32 * warps, 1, 1))
    def quantize_fp8_squares(X, Q, S):
        begin(split)
        share = Lanes(X.shape[1], dtype)
        m, blocks = ptx.param(u32, "M"), ptx.param(u32, "B")
        warp, piece, within = share.place()
        above, block = divided(reg.from_(ptx.special.ctaid.x(), u32), blocks)
        first, column = above * BLOCK + warp * share.across + piece, block * BLOCK + within
        together = warps * share.across
        vectors = [share.vectors(first + i, column, m) for i in range(0, BLOCK, together)]
        loaded = [share.load(X, some) for some in vectors]
        largest = [largest_of(share.values(bits), 1) for bits in loaded]
        partials = smem.alloc(f32, (warps,), align=16)
        base = smem_address(partials)
        of_warp, thread = largest_of([largest], 32), reg.from_(ptx.special.tid.x(), u32)
        ptx.inst.st.shared.f32(ptx.addr(base + warp * 4), of_warp, pred=(thread & 31) == 0)
        ptx.bar.sync(0)
        parts = [apply(ptx.inst.ld.shared.f32, ptx.addr(base, 4 * i)) for i in range(warps)]
        inverse = inverse_scale(largest := tree(parts, ptx.inst.max.NaN.f32))
        for some, bits in zip(vectors, loaded, strict=True):
            share.store(Q, some, share.values(bits), inverse)
        with ptx.if_(thread == 0):
            store_scale(place_of_scale(S, above, block, blocks), largest)
        ptx.ret()

    return quantize_fp8_squares, None


def of_x(name: str, make, **told) -> RowFunction:
    return RowFunction(f"quantize_fp8_{name}", make, Argument("x", "rows"), called="quantize_fp8", **told)


def transposed(name: str, whole: bool) -> RowFunction:
    make = functools.partial(make_transposed, whole, inverse_scale, scale_of)
    return of_x(f"transposed_{name}", make, flattens=False, P=None, B=None)


ROWS = of_x("rows", make_by_row)
BLOCKS, TRANSPOSED_BLOCKS = of_x("blocks_of_rows", make_by_blocks_of_rows, B=None), transposed("blocks", False)
SQUARES, TRANSPOSED_SQUARES = of_x("squares", make_by_squares, P=None, B=None), transposed("squares", True)


def lies_transposed(x) -> bool:
    """Whether x is a matrix of torch whose columns lie side by side, of which the kernels for that take it."""
    if not hasattr(x, "storage_offset") or compiling(x) or len(x.shape) != 2 or x.stride(0) != 1 or x.stride(1) == 1:
        return False
    return type_name(x) in TYPES and takes_transposed(*x.shape, 8 * x.itemsize)


def blocks_in(size: int) -> int:
    return -(-size // BLOCK)


def quantize_fp8(x: Any, *, block: int | tuple[int, int] | None = None, **named: Unpack[Nothing]) -> tuple[Any, Any]:
    """(q, s): x as float8_e4m3fn, and the f32 scales with which x is about q s.  `matmul` takes both.

    x: f32, f16 or bf16, (..., N).
    block: which elements share a scale.  None: those of a row, s (..., 1).  128: 128 columns of a row, s (..., N / 128), rounded up.
        (128, 128): so many rows and columns of a matrix, s (M / 128, N / 128), both rounded up.

    s = max |x| / 448 over these elements, at least 1e-12 / 448; q = x (448 / max |x|), rounded to nearest, ties to even.  It has no
    derivative.

    Raises LaunchTypeError for other types, LaunchValueError for other blocks.

    Example:
        x, w = torch.randn(20, 256), torch.randn(48, 256)
        q, s = kernels.quantize_fp8(x, block=128)                     # activations (M, K)
        r, t = kernels.quantize_fp8(w, block=(128, 128))              # weights (N, K)
        y = kernels.matmul(q, r.mT, scale_a=s, scale_b=t.mT)
    """
    for name in named:
        raise no_such_argument(quantize_fp8, name)
    return CHOICE((x,), block=block)


def quantized(x, out, *, block):
    if not isinstance(block, (int, tuple, type(None))):
        raise LaunchValueError(f"quantize_fp8: block is None, 128 or (128, 128), not {type(block).__name__}")
    check_arrays("quantize_fp8", "x", (x,), None, 1)
    if recorded(x) and x.requires_grad and not compiling(x):
        raise LaunchValueError(
            "quantize_fp8: x requires a gradient, and there is none; legal are x.detach() and torch.no_grad()"
        )
    if block is None:
        values, scales = ROWS((x,))
        return values, scales.reshape(*x.shape[:-1], 1)
    if block == BLOCK and lies_transposed(x):
        return TRANSPOSED_BLOCKS((x.mT,), P=x.shape[0], B=blocks_in(x.shape[1]))
    if block == BLOCK:
        return BLOCKS((x,), B=blocks_in(x.shape[-1]))
    if block != (BLOCK, BLOCK):
        raise LaunchValueError(f"quantize_fp8: block is None, 128 or (128, 128), not {block!r}")
    if len(x.shape) != 2:
        raise LaunchValueError(f"quantize_fp8: blocks of 128 x 128 are of a matrix; x has shape {tuple(x.shape)}")
    if lies_transposed(x):
        return TRANSPOSED_SQUARES((x.mT,), P=blocks_in(x.shape[0]), B=blocks_in(x.shape[1]))
    return SQUARES((x,), P=blocks_in(x.shape[0]), B=blocks_in(x.shape[1]))


CHOICE = Remembered(quantized)
