"""Columns of tensors X (L, N, W) over N: a thread has some neighbours, 16 bytes of each row at most, and all of their N elements or, where G groups of
threads share these, every G-th."""

import math

from pyptx import ptx, reg
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    apply_to,
    beyond,
    move,
    registers,
    to_u64,
    wide_product,
    widened,
)
from pyptx.kernels._rows.shares import Share
from pyptx.kernels._rows.split import WARP
from pyptx.types import bf16, f16, f32, u32, u64

__all__ = ["MOST_GROUPS", "THREADS", "Columns", "ctas_of", "share_of_groups"]

THREADS, UNROLL = 128, 8  # of a CTA; rows whose loads are in flight together
MOST_THREADS, MOST_GROUPS = 512, 128  # of a CTA
LEAST = {f32: -math.inf, bf16: 0xFF80, f16: 0xFC00}  # bits of minus infinity


def share_of_groups(groups: int, vector: int) -> Share:
    """Of 1, 4, 8, ... groups."""
    threads = THREADS if groups == 1 else min(MOST_THREADS, WARP * groups)
    return Share(threads, threads // groups, vector)


def ctas_of(matrices: int, columns: int, vector: int, groups: int = 1) -> int:
    return matrices * -(-columns // share_of_groups(groups, vector).columns)


class Columns:
    """The columns of a thread: `vector` neighbours.  Threads behind the last columns have those, too, and are not `inside`.  `owns`: whether the thread is
    the first of the groups, and inside."""

    def __init__(self, X, vector: int, groups: int = 1):
        self.X, self.n, self.vector, self.groups = X, X.shape[1], vector, groups
        self.share = share = share_of_groups(groups, vector)
        self.w = ptx.param(u32, "W")
        self.thread = self.lane = reg.from_(ptx.special.tid.x(), u32)
        self.cta = reg.from_(ptx.special.ctaid.x(), u32)
        if groups > 1:
            self.lane, self.group = self.thread & (share.lanes - 1), self.thread >> (share.lanes.bit_length() - 1)
        outer, column, self.inside = share.place(self.cta, self.lane, self.w)
        self.owns = self.inside & (self.group == 0) if groups > 1 else self.inside
        column = to_u64(column)
        self.flat = beyond(column, outer, self.w)  # of the columns of all matrices
        above = wide_product(outer, self.n)
        wide = to_u64(self.w)
        self.first = apply_to(reg.scalar(u64), ptx.inst.mad.lo.u64, above, wide, column)  # element of X

    def address(self, tensor):
        """Where the columns begin in a tensor like X."""
        (pointer,) = ptx.global_ptrs(tensor)
        return pointer + self.first * (tensor.dtype.bits // 8)

    def of_columns(self, tensor):
        """The address of what a tensor has for each column."""
        (pointer,) = ptx.global_ptrs(tensor)
        return pointer + self.flat * (tensor.dtype.bits // 8)

    def batches(self, body):
        """Calls `body(number of the first row, how many)` for some rows at a time."""
        span = UNROLL * self.groups
        whole = self.n // span * span if self.n > 2 * span else 0
        for number in ptx.range_(0, whole, span) if whole else ():
            body(number, UNROLL)
        for number in range(whole, self.n, span):
            body(number, min(UNROLL, -(-(self.n - number) // self.groups)))

    def row(self, number, i: int):
        """The number, a register or an integer, of the thread's i-th row from `number` on."""
        return number + i if self.groups == 1 else self.group + i * self.groups + number

    def guard(self, number, i: int) -> dict:
        """The predicate that there is this row."""
        if not isinstance(number, int) or number + (i + 1) * self.groups <= self.n:
            return {}
        return {"pred": self.row(number, i) < self.n}

    def loaded(self, number, count: int, tensor=None) -> list:
        """The values of so many of the thread's rows from `number` on, a register or an integer; of X, or another tensor like it.  Of a row that there
        is not, minus infinity."""
        tensor = tensor or self.X
        found, size = [], tensor.dtype.bits // 8
        for i, place in enumerate(self.places(tensor, number, count)):
            guard = self.guard(number, i)
            found.append(nothing(tensor.dtype, self.vector) if guard else registers(tensor.dtype, self.vector))
            move(LOAD, place, 0, found[-1], self.vector * size, **guard)
        return [[value for each in bits for value in widened(each, tensor.dtype)] for bits in found]

    def row_of_all(self) -> list:
        """The values of the first row."""
        bits = registers(self.X.dtype, self.vector)
        move(LOAD, self.address(self.X), 0, bits, self.vector * self.X.dtype.bits // 8)
        return [value for each in bits for value in widened(each, self.X.dtype)]

    def places(self, tensor, number, count: int) -> list:
        """The addresses of so many of the thread's rows from `number` on."""
        base = self.address(tensor)
        if self.groups > 1:
            base = self.below(tensor, base, self.group)
        if not isinstance(number, int):
            base, number = self.below(tensor, base, number), 0
        behind = [number + i * self.groups for i in range(count)]
        return [self.below(tensor, base, each) if each else base for each in behind]

    def below(self, tensor, place, rows):
        """The address so many rows below another.  The bytes of a row may be too many for 32 bits."""
        return beyond(place, self.w, rows * (tensor.dtype.bits // 8))

    def load(self, tensor) -> list:
        """The f32 of each column."""
        bits = registers(f32, self.vector)
        move(LOAD, self.of_columns(tensor), 0, bits, 4 * self.vector)
        return bits

    def store(self, tensor, values: list):
        move(STORE, self.of_columns(tensor), 0, values, 4 * self.vector, pred=self.owns)


def nothing(dtype, count: int) -> list:
    """Registers of so many elements that are minus infinity."""
    least = LEAST[dtype]
    return registers(dtype, count, init=least if dtype == f32 or count == 1 else least * 0x10001)
