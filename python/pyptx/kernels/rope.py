"""Rotary position embedding: pairs of elements of a head are rotated by the angle of their position.

y_a = a cos - b sin, y_b = b cos + a sin, where a and b are the elements i and i + R / 2 of a head or, if interleaved, 2 i and 2 i + 1.
Elements from R on are copied.  The gradient is rotated back, by the same kernel with -sin.  Su et al., RoFormer, arXiv 2104.09864.
"""

import contextlib
import itertools
import math
from typing import Any

from pyptx import Tile, kernel, ptx, reg
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.frameworks.differentiable import differentiated_once
from pyptx.kernels._apart import where_they_lie
from pyptx.kernels._keywords import Nothing, Unpack, no_such_argument
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    apply_to,
    beyond,
    fma,
    move,
    mul,
    narrowed,
    neg,
    quotient,
    registers,
    to_u64,
    widened,
)
from pyptx.kernels._row_function import Argument, RowFunction
from pyptx.kernels._rows.apart import Apart, apart_kernels, whole
from pyptx.kernels._rows.split import Split, begin_early
from pyptx.kernels._rows.tiles import matrix
from pyptx.kernels._types import INDICES
from pyptx.types import f32, pred, s32, s64, u32

__all__ = ["rope"]

THREADS = 256
UNROLL = 2  # rows that a thread has at once
LONGEST = 1024  # elements of a head


class Share:
    """How the threads of a CTA share heads of `n` elements, of which 2 `half` are rotated: a thread has two vectors, and the CTA has `rows` heads side
    by side."""

    def __init__(self, n: int, half: int, bits: int, interleaved: bool):
        self.vector = math.gcd(128 // bits, half, n)
        self.turning = half // self.vector  # threads of a row that rotate two vectors; the others copy two
        self.still = (n - 2 * half) // self.vector
        self.threads = self.turning + (self.still + 1) // 2
        self.rows = max(1, THREADS // self.threads)
        # Distances in elements: from a thread's first vector to that of the next thread, and to its own second vector.
        self.pitch, self.apart = (2, 1) if interleaved and self.vector == 1 else (self.vector, half)
        # The same of the tables: elements of one load, of which each vector of whole pairs has one.
        self.line = self.vector // 2 if interleaved and self.vector > 1 else self.vector
        self.lines = (0, half // 2) if self.line < self.vector else (0,)

    def vectors(self, thread) -> tuple:
        """(whether the thread rotates its vectors, the column of the first, how many elements further the second is, whether that exists); None: of all
        threads."""
        if not self.still:
            return None, thread * self.pitch, self.apart, None
        rotates = thread < self.turning
        step, ahead = (
            apply_to(reg.scalar(u32), ptx.inst.selp.b32, turning, copied, rotates)
            for turning, copied in ((self.pitch, 2 * self.vector), (self.apart, self.vector))
        )
        return rotates, thread * step, ahead, thread < self.threads - 1 if self.still % 2 else None

    def place(self):
        """(row within the CTA, thread of the row)."""
        thread = reg.from_(ptx.special.tid.x(), u32)
        if self.rows == 1:
            return reg.scalar(u32, init=0), thread
        return [
            apply_to(reg.scalar(u32), divide, thread, self.threads) for divide in (ptx.inst.div.u32, ptx.inst.rem.u32)
        ]


class Vectors:
    """Loads and stores vectors of the rows of a matrix."""

    def __init__(self, tensor, vector: int):
        self.apart = tensor if isinstance(tensor, Apart) else None
        self.base = None if self.apart else ptx.global_ptrs(tensor)[0]
        self.dtype, self.columns, self.vector = tensor.dtype, tensor.shape[1], vector
        self.size = self.dtype.bits // 8
        # The same bits of f16 and bf16.
        self.nan = math.nan if self.dtype == f32 else 0x7FFF7FFF if vector > 1 else 0x7FFF

    def address(self, row, column):
        if self.apart:
            return beyond(self.apart.begin(row), column, self.size)
        offset = to_u64(column)
        ptx.inst.mad.wide.u32(offset, row, self.columns, offset)
        return self.base + offset * self.size

    def addresses(self, row, column, ahead) -> tuple:
        """The addresses of an element of a row, and of the one `ahead` elements further, a number or a register."""
        first = self.address(row, column)
        return first, first + ahead * self.size if isinstance(ahead, int) else beyond(first, ahead, self.size)

    def load(self, address, there, behind: int = 0, otherwise: float = 0) -> list:
        bits = registers(self.dtype, self.vector, init=otherwise)
        move(LOAD, address, behind * self.size, bits, self.vector * self.size, pred=there)
        return bits

    def values(self, bits: list) -> list:
        return [value for each in bits for value in widened(each, self.dtype)]

    def store(self, address, there, bits: list):
        move(STORE, address, 0, bits, self.vector * self.size, pred=there)


def turned(pairs, cos, sin):
    """Yields each pair (a, b) rotated."""
    for (a, b), c, s in zip(pairs, cos, sin, strict=True):
        yield fma(a, c, neg(mul(b, s))), fma(b, c, mul(a, s))


def split_pairs(first: list, second: list, interleaved: bool):
    """The pairs (a, b) in two vectors of a head."""
    both = first + second
    return list(zip(both[::2], both[1::2], strict=True) if interleaved else zip(first, second, strict=True))


def joined(pairs, interleaved: bool):
    """The two vectors with these pairs: undoes `split_pairs`."""
    if not interleaved:
        return [list(some) for some in zip(*pairs, strict=True)]
    both = [value for pair in pairs for value in pair]
    return both[: len(both) // 2], both[len(both) // 2 :]


def turn(share: Share, x: Vectors, y: Vectors, tables, thread, rows, interleaved: bool, backward: bool):
    """Writes the rotation of a thread's two vectors, or a copy of them.  `rows`: (row, predicate that it exists, line of the tables, predicate that it
    exists)."""
    rotates, column, ahead, second = share.vectors(thread)
    loaded = []
    for row, there, line, known in rows:
        guards = there, there if second is None else there & second
        known = known if rotates is None else known & rotates
        vectors = [x.load(at, guard) for at, guard in zip(x.addresses(row, column, ahead), guards, strict=True)]
        places = (table.address(line, thread * share.line) for table in tables)
        bits = [
            [table.load(at, known, behind, table.nan) for behind in share.lines]
            for table, at in zip(tables, places, strict=True)
        ]
        loaded.append((row, guards, vectors, bits))
    for row, guards, vectors, bits in loaded:
        cos, sin = (
            [value for some in each for value in table.values(some)] for table, each in zip(tables, bits, strict=True)
        )
        with contextlib.nullcontext() if rotates is None else ptx.if_(rotates):
            sin = [neg(each) for each in sin] if backward else sin
            pairs = split_pairs(*map(x.values, vectors), interleaved)
            made = [narrowed(some, y.dtype) for some in joined(turned(pairs, cos, sin), interleaved)]
            if rotates is not None:
                for into, value in zip(itertools.chain(*vectors), itertools.chain(*made), strict=True):
                    (ptx.inst.mov.b16 if into.dtype.bits == 16 else ptx.inst.mov.b32)(into, value)
        for at, guard, some in zip(
            y.addresses(row, column, ahead), guards, made if rotates is None else vectors, strict=True
        ):
            y.store(at, guard, some)


def line_of(row, there, positions, inner: int):
    """(the line of the tables for a row, the predicate that it is to be read).  The line is the row's position or, without `positions`, its
    place among S.  A position outside the tables is not read, and its results are NaN."""
    place = quotient(row, inner) if inner > 1 else row
    place = apply_to(reg.scalar(u32), ptx.inst.rem.u32, place, ptx.param(u32, "S"))
    if positions is None:
        return place, there
    batch = quotient(row, ptx.param(u32, "ROWS"))  # so many rows share one line of positions
    at = apply_to(reg.scalar(u32), ptx.inst.mad.lo.u32, batch, ptx.param(u32, "S"), place)
    (base,) = ptx.global_ptrs(positions)
    base = beyond(base, at, positions.dtype.bits // 8)
    position, known = reg.scalar(s64, init=-1), reg.scalar(pred)
    if positions.dtype == s64:
        ptx.inst.ld.global_.nc.b64(position, ptx.addr(base), pred=there)
    else:
        narrow = reg.scalar(s32, init=-1)
        ptx.inst.ld.global_.nc.b32(narrow, ptx.addr(base), pred=there)
        ptx.inst.cvt.s64.s32(position, narrow)
    lines = to_u64(ptx.param(u32, "L"))
    ptx.inst.setp.lt.u64(known, position, lines)  # a negative one is large
    return apply_to(reg.scalar(u32), ptx.inst.cvt.u32.u64, position), known


def make_rope(split, x_type, *types):
    *tables, position_type = types
    hopper = split.func == Split.wide

    def grid(M, N, R, interleaved):
        return (-(-M // (Share(N, R, x_type.bits, interleaved).rows * UNROLL)), 1, 1)

    def block(N, R, interleaved):
        share = Share(N, R, x_type.bits, interleaved)
        return (share.rows * share.threads, 1, 1)

    def body(X, COS, SIN, POSITIONS, Y, interleaved, inner, inverse):
        begin_early(hopper)
        share = Share(X.shape[1], COS.shape[1], x_type.bits, interleaved)
        x, y = (Vectors(tensor, share.vector) for tensor in (X, Y))
        cos, sin = (Vectors(tensor, share.line) for tensor in (COS, SIN))
        above, thread = share.place()
        first = reg.from_(ptx.special.ctaid.x(), u32) * (share.rows * UNROLL) + above
        rows = []
        for i in range(UNROLL):
            row = first + i * share.rows
            there = row < ptx.param(u32, "M")
            rows.append((row, there, *line_of(row, there, POSITIONS, inner)))
        turn(share, x, y, (cos, sin), thread, rows, interleaved, inverse)
        ptx.ret()

    inputs, outputs = (matrix(x_type), *(Tile("L", "R", table, align=16) for table in tables)), (matrix(x_type),)
    launch = {"grid": grid, "block": block, "dependent_launch": hopper, "arch": "sm_90" if hopper else "sm_80"}
    raw = [("u32", "M"), ("u32", "S")]
    batch = {} if position_type else {"batch": "M"}

    if position_type is None:

        def rope(X, COS, SIN, Y, *, interleaved=False, inner=1, inverse=False):
            body(X, COS, SIN, None, Y, interleaved, inner, inverse)

    else:
        inputs, raw = (*inputs, Tile("T", position_type)), [*raw, ("u32", "L"), ("u32", "ROWS")]

        def rope(X, COS, SIN, POSITIONS, Y, *, interleaved=False, inner=1, inverse=False):
            body(X, COS, SIN, POSITIONS, Y, interleaved, inner, inverse)

        rope.__name__ = rope.__qualname__ = "rope_at_positions"

    chosen = kernel(in_specs=inputs, out_specs=outputs, raw_params=raw, **batch, **launch)(rope)
    chosen.apart, chosen.pieces = apart_kernels(rope, inputs, outputs, raw_params=raw, **launch), whole

    @differentiated_once
    def backward(*tensors, interleaved=False, inner=1, S, ROWS=None):
        *tables, g = tensors
        scalars = {"S": S} if ROWS is None else {"S": S, "ROWS": ROWS}
        return where_they_lie(chosen, g, *tables, interleaved=interleaved, inner=inner, inverse=True, **scalars)

    return chosen, backward


def told(tensors, options) -> dict:
    """What the kernel is told; calls say `interleaved` and `seq_dim`."""
    x, cos, sin, positions = tensors
    if any([getattr(table, "requires_grad", False) for table in (cos, sin)]):
        raise LaunchTypeError("rope: cos and sin get no gradient; pass .detach()")
    places, inner = places_of(x, cos, sin, positions, options["seq_dim"])
    told = {"interleaved": options["interleaved"], "inner": inner, "S": places}
    if positions is not None:
        each = len(positions.shape) == 2 and positions.shape[0] > 1  # each sequence of the batch has its own
        told["ROWS"] = math.prod(x.shape[:-1]) // (x.shape[0] if each else 1)
    return told


ROPE = RowFunction(
    "rope", make_rope,
    Argument("x", "rows", saved=False),
    Argument("cos", "whole", gradient=False),
    Argument("sin", "whole", gradient=False),
    Argument("positions", "line", INDICES, needed=False),
    told=told, interleaved=False, inner=1, S=None, ROWS=None,
)  # fmt: skip


def rope(
    x: Any, cos: Any, sin: Any, *, positions: Any = None, interleaved: bool = False, seq_dim: int = -2, out: Any = None,
    **named: Unpack[Nothing],
) -> Any:  # fmt: skip
    """Rotary position embedding of x, whose last dimension is a head of D elements, of which the first R are rotated.

    x: (..., S, D), or (..., S, H, D) with seq_dim=-3; f32, f16 or bf16.  Computed in f32, rounded once.
    cos, sin: (L, R / 2) with L >= S; one of these types.
    positions: int32 or int64, (S,), (1, S) or, of x (B, ..., S, D), (B, S): the line of cos and sin for each place of the sequence.  Without
        them, place i has line i.  A position outside the L lines gives NaN.
    interleaved: pairs are the elements 2 i and 2 i + 1, as in GPT-J; otherwise i and i + R / 2, as in GPT-NeoX and Llama.

    Differentiable by x.  Raises LaunchValueError for shapes that do not fit, LaunchTypeError for other types, and if cos or sin require a
    gradient.

    Example:
        S, D = 6, 64
        angles = torch.outer(torch.arange(S), 10000.0 ** (-torch.arange(0, D, 2) / D))
        q = kernels.rope(torch.randn(2, 3, S, D), angles.cos(), angles.sin())
    """
    for name in named:
        raise no_such_argument(rope, name)
    return ROPE((x, cos, sin, positions), out, interleaved=interleaved, seq_dim=seq_dim)


def places_of(x, cos, sin, positions, seq_dim: int) -> tuple:
    """(S, rows of x for each place of the sequence).  Raises LaunchValueError for shapes that do not fit."""
    shape = tuple(x.shape)
    if seq_dim not in (-2, -3) or len(shape) < -seq_dim:
        raise LaunchValueError(
            f"rope: seq_dim is -2 of (..., S, D) or -3 of (..., S, H, D), not {seq_dim} of shape {shape}"
        )
    places, columns = shape[seq_dim], shape[-1]
    if len(cos.shape) != 2 or tuple(cos.shape) != tuple(sin.shape) or not 0 < 2 * cos.shape[1] <= columns:
        raise LaunchValueError(
            f"rope: cos and sin have one shape (L, R / 2) with R up to {columns}, not {tuple(cos.shape)} and {tuple(sin.shape)}"
        )
    if positions is None and cos.shape[0] < places:
        raise LaunchValueError(f"rope: cos and sin have {cos.shape[0]} lines for {places} positions")
    legal = [(places,), (1, places), *([(shape[0], places)] if len(shape) > -seq_dim else [])]
    if positions is not None and tuple(positions.shape) not in legal:
        raise LaunchValueError(
            f"rope: positions have shape {tuple(positions.shape)}; legal are {', '.join(map(str, legal))}"
        )
    if columns > LONGEST:
        raise LaunchValueError(f"rope: heads have at most {LONGEST} elements, not {columns}")
    return places, shape[-2] if seq_dim == -3 else 1
