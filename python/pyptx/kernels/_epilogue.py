"""What a matrix product does with its f32 accumulators before it stores them: scales, bias, activation, residual.

    y = activation(scale_a[m] scale_b[n] acc + bias[n]) + residual[m, n]

A gated activation makes one column of two: B, bias and scale_b have N gate columns and, behind them, N up columns.

A kernel asks a `Finisher` for what belongs to columns (`columns`) and to a row of C (`line`), and the latter finishes values of both.
"""

import copy
import inspect
from dataclasses import dataclass

from pyptx import Tile, ptx, reg
from pyptx.kernels._activations import GATED, activated
from pyptx.kernels._registers import add, apply, element, fetched, mul, wide_product, widened
from pyptx.types import PtxType, b32, f32, u32, u64

__all__ = ["NOTHING", "BlockScales", "Epilogue", "Finisher", "with_tensors"]


@dataclass(frozen=True)
class Epilogue:
    """What an epilogue does.  `bias`, `residual`: their types, None if there is none.  `scales`: "tensor", one for A and one for B; "row", one
    for each row of A and each column of B; or "block", one for each 128 of K in a row of A and for each 128 x 128 of B, which the kernel
    itself applies after each 128 of K.  `by_rows`: those of A lie (M, K / 128), else (K / 128, M); `b_by_rows`: those of B (N / 128, K / 128), else
    (K / 128, N / 128)."""

    bias: PtxType | None = None
    activation: str | None = None
    residual: PtxType | None = None
    scales: str | None = None
    by_rows: bool = False
    b_by_rows: bool = False

    @property
    def gated(self) -> bool:
        return self.activation in GATED

    @property
    def finishes(self) -> bool:
        """Whether there is a bias, an activation or a residual."""
        return (self.bias, self.activation, self.residual) != (None, None, None)

    @property
    def halves(self) -> tuple:
        """The leading dimension, gate and up, of tensors with one value for each column of B."""
        return (2,) if self.gated else ()

    def tiles(self, batch: tuple = (), grouped: bool = False) -> dict[str, Tile]:
        """The kernel's inputs after A and B, by name.  `grouped`: B has a matrix for each of E groups of rows."""
        found = {}
        if self.scales == "tensor":
            found |= {"SCALE_A": Tile(1, f32), "SCALE_B": Tile(1, f32)}
        elif self.scales == "row":
            found |= {"SCALE_A": Tile(*batch, "M", f32), "SCALE_B": Tile(*batch, *self.halves, "N", f32)}
        elif self.scales == "block":
            found |= {
                "SCALE_A": Tile(*batch, *(("M", "KB") if self.by_rows else ("KB", "M")), f32),
                "SCALE_B": Tile(
                    *(("E",) if grouped else batch), *(("NB", "KB") if self.b_by_rows else ("KB", "NB")), f32
                ),
            }
        if self.bias is not None:
            found["BIAS"] = Tile(*self.halves, "N", self.bias)
        if self.residual is not None:
            found["RESIDUAL"] = Tile(*batch, "M", "N", self.residual)
        return found


NOTHING = Epilogue()


def of_one_trace(write):
    """A method for a copy of its object, which keeps registers: threads may trace at once."""
    return getattr(copy.copy(write.__self__), write.__name__) if inspect.ismethod(write) else write


def with_tensors(name: str, names, write):
    """A function for `kernel` whose parameters are `names`.  It calls `write` with the tensors as keywords."""

    def body(*tensors):
        of_one_trace(write)(**dict(zip(names, tensors, strict=True)))

    body.__name__ = body.__qualname__ = name
    body.__signature__ = inspect.Signature(
        [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in names]
    )
    return body


class BlockScales:
    """Scales of blocks of 128 of K: those of the thread's rows of A, times those of the blocks of B that have its `columns`.  B is `width`
    columns wide.

    In products of groups, `expert` is the number of the matrix of B, and `end` the row behind the last one of the group.  `backwards`: None, or a
    predicate, whether the last block comes first."""

    def __init__(self, tensors: dict, of: Epilogue, rows, m, columns, width, expert=None, end=None, backwards=None):
        pointer_a, pointer_b = ptx.global_ptrs(tensors["SCALE_A"], tensors["SCALE_B"])
        blocks, across = (ptx.param(u32, "K") + 127) >> 7, (width + 127) >> 7
        self.pitch_a, self.pitch_b = 4 if of.by_rows else m * 4, 4 if of.b_by_rows else across * 4
        if expert is not None:
            pointer_b = pointer_b + wide_product(expert * blocks, across * 4)
        if backwards is not None:
            pointer_a, self.pitch_a = from_last(pointer_a, self.pitch_a, blocks, backwards)
            pointer_b, self.pitch_b = from_last(pointer_b, self.pitch_b, blocks, backwards)
        self.guards = [row < (m if end is None else end) for row in rows]
        self.inside = [column < width for column in columns]  # a CTA of a cluster may have no columns
        self.a = [pointer_a + (wide_product(row, blocks * 4) if of.by_rows else row * 4) for row in rows]
        of_b = blocks * 4 if of.b_by_rows else 4
        self.b = [pointer_b + (column >> 7) * of_b for column in columns]

    def next(self) -> list:
        """The scales of the next block: for each column a list with one for each row, 0 for rows outside of A."""
        raw = self.registers()
        self.load(raw)
        return self.factors(raw)

    def registers(self) -> list:
        """Registers for `load`, with zeros, which stay there for rows outside of A."""
        return [reg.scalar(f32, init=0.0) for _ in (*self.a, *self.b)]

    def load(self, raw, there_is=None):
        """Starts to load the scales of the next block, if the predicate `there_is` holds."""
        of_a, of_b = raw[: len(self.a)], raw[len(self.a) :]
        for value, pointer, inside in zip(of_b, self.b, self.inside, strict=True):
            guard = inside if there_is is None else inside & there_is
            ptx.inst.ld.global_.nc.f32(value, ptx.addr(pointer), pred=guard)
        for value, pointer, guard in zip(of_a, self.a, self.guards, strict=True):
            ptx.inst.ld.global_.nc.f32(value, ptx.addr(pointer), pred=guard if there_is is None else guard & there_is)
        for pointers, pitch in ((self.b, self.pitch_b), (self.a, self.pitch_a)):
            for pointer in pointers:
                pointer += pitch

    def factors(self, raw) -> list:
        return [[mul(value, of_b) for value in raw[: len(self.a)]] for of_b in raw[len(self.a) :]]


def from_last(pointer, pitch, count, backwards):
    """(the pointer, the pitch) of scales that lie `pitch` bytes apart; if the predicate `backwards` holds, from the last of `count` to the first."""
    last, step = wide_product(count - 1, pitch), wide_product(reg.scalar(u32, init=1), pitch)
    ptx.inst.selp.b64(last, last, 0, backwards)
    ptx.inst.neg.s64(step, step, pred=backwards)
    return pointer + last, step


class Finisher:
    """The instructions of an epilogue.  `whole`: columns that are asked for together lie all inside of C, or all outside, and the first of them
    is a multiple of their number.  out: the type of C."""

    def __init__(self, of: Epilogue, tensors: dict, n, whole: bool, out: PtxType):
        self.of, self.n, self.whole, self.out = of, n, whole, out
        self.pointers = dict(zip(tensors, ptx.global_ptrs(*tensors.values()), strict=True)) if tensors else {}
        self.factor = None
        if of.scales == "tensor":
            parts = [
                apply(ptx.inst.ld.global_.nc.f32, ptx.addr(self.pointers[name])) for name in ("SCALE_A", "SCALE_B")
            ]
            self.factor = mul(*parts)

    def columns(self, column, count: int, batch=None):
        """(factors, biases) of neighbouring columns, followed by those of their up columns; None if the epilogue has none."""
        return tuple(self.line_of(name, column, count, batch) for name in ("SCALE_B", "BIAS"))

    def line_of(self, name: str, column, count: int, batch=None):
        """The scales of B, or biases, of neighbouring columns, followed by those of their up columns; None if the epilogue has none."""
        if name == "BIAS":
            return self.of.bias and self.of_halves(self.pointers[name], self.of.bias, column, column, count)
        if self.of.scales != "row":
            return None
        width = self.n + self.n if self.of.gated else self.n
        at = column if batch is None else flat(batch, width, column)
        return self.of_halves(self.pointers[name], f32, at, column, count)

    def of_halves(self, pointer, dtype, *where) -> list:
        found = self.load(pointer, dtype, *where)
        return found + self.load(pointer + self.n * (dtype.bits // 8), dtype, *where) if self.of.gated else found

    def line(self, row, m, batch=None):
        """The function (values, column, columns) -> values that finishes values of one row of C.  If the activation is gated, the values of the
        gates come first, and it returns half as many."""
        factor, residual = self.factor_of(row, m, batch), None
        if self.of.residual is not None:
            residual, inside = reg.scalar(u64), row < m
            wide(residual, row if batch is None else flat(batch, m, row), self.n)

        def finish(values, column, columns):
            values = self.scaled(values, factor, *columns)
            if residual is None:
                return values
            more = self.load(
                self.pointers["RESIDUAL"], self.of.residual, residual + column, column, len(values), inside
            )
            return [add(value, each) for value, each in zip(values, more, strict=True)]

        return finish

    def factor_of(self, row, m, batch=None):
        """What the scales of A, and those of tensors, make of a row of C; None if there are none."""
        if self.of.scales != "row":
            return self.factor
        factor, number = reg.scalar(f32, init=0.0), row if batch is None else flat(batch, m, row)
        ptx.inst.ld.global_.nc.f32(factor, ptx.addr(self.pointers["SCALE_A"] + number * 4), pred=row < m)
        return factor

    def scaled(self, values, factor, factors, biases) -> list:
        """The values before the residual is added: `factor` belongs to their row, factors and biases to their columns."""
        if factor is not None:
            values = [mul(value, factor) for value in values]
        if factors is not None:
            values = [mul(value, each) for value, each in zip(values, factors, strict=True)]
        if biases is not None:
            values = [add(value, bias) for value, bias in zip(values, biases, strict=True)]
        return values if self.of.activation is None else activated(self.of.activation, values, self.out)

    def load(self, pointer, dtype, index, column, count: int, inside=None):
        """The f32 values of `count` neighbouring columns, zeros outside of C."""
        size = dtype.bits // 8
        at = pointer + index * size
        if not self.whole:
            return [self.element(at, i, dtype, column, inside) for i in range(count)]
        guard = column < self.n if inside is None else (column < self.n) & inside
        words = [reg.scalar(b32, init=0) for _ in range(count * size // 4)]
        if len(words) == 1:
            ptx.inst.ld.global_.nc.b32(words[0], ptx.addr(at), pred=guard)
        else:
            getattr(ptx.inst.ld.global_.nc, f"v{len(words)}").b32(words, ptx.addr(at), pred=guard)
        if dtype == f32:
            return [apply(ptx.inst.mov.b32, word) for word in words]
        return [value for word in words for value in widened(word, dtype)]

    def element(self, at, i: int, dtype, column, inside):
        guard = column + i < self.n
        if inside is not None:
            guard = guard & inside
        return element(fetched(dtype, ptx.addr(at, i * dtype.bits // 8), pred=guard), dtype)


def wide(result, a, b):
    """result = a b, with 64 bits."""
    if a.dtype.bits == 64:
        other = reg.scalar(u64)
        ptx.inst.cvt.u64.u32(other, b)
        ptx.inst.mul.lo.u64(result, a, other)
    else:
        ptx.inst.mul.wide.u32(result, a, b)


def flat(batch, size, index):
    """A register of 64 bits with batch size + index."""
    result, other = reg.scalar(u64), reg.scalar(u64)
    ptx.inst.mul.wide.u32(result, batch, size)
    ptx.inst.cvt.u64.u32(other, index)
    ptx.inst.add.u64(result, result, other)
    return result
