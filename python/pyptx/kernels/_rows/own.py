"""Rows of a few elements: a thread has some whole rows, as many as begin at a vector of 16 bytes again, or, of longer ones, one, and asks no other thread
for sums.  The last warp may have fewer rows: then it loads and stores by elements, and threads may have the last row several times."""

import copy
import functools
import math

from pyptx import ptx, reg, smem
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    STORE_SHARED,
    apply_to,
    beyond,
    copied,
    move,
    narrowed,
    registers,
    smem_address,
    to_u64,
    widened,
)
from pyptx.kernels._rows.edges import store_element
from pyptx.kernels._rows.ring import median_of, places_of_median
from pyptx.kernels._rows.split import WARP
from pyptx.kernels._rows.values import Values
from pyptx.types import b16, b32, f32, u8, u32

__all__ = ["Elements", "less_at", "own_rows"]


class Kept(Values):
    """Values of a row that are in registers."""

    def __init__(self, row, values: list):
        super().__init__(row)
        self.values = values

    def _make(self, k: int, at) -> list:
        return self.values


class Median:
    """The `value` of `Row.median`, of the row of the first matrix."""

    def __init__(self, values: list):
        self.values = values

    @functools.cached_property
    def value(self):
        values = self.values
        median_of(result := reg.scalar(f32), *(values[at] for at in places_of_median(len(values))))
        return result


class Elements(Kept):
    """A vector that all rows share."""

    def __init__(self, row, tensor):
        (pointer,) = ptx.global_ptrs(tensor)
        size, found = tensor.dtype.bits // 8, []
        for i in range(row.split.n):
            bits = reg.scalar(f32 if size == 4 else b16)
            (LOAD.b32 if size == 4 else LOAD.b16)(bits, ptx.addr(pointer, i * size))
            found += [bits] if size == 4 else widened(bits, tensor.dtype)
        super().__init__(row, found)


def less_at(values: Values, column, amount) -> Values:
    """The values of a row that a thread has for itself, less the `amount` in one column, a register."""
    found = [copied(each) for each in values.vector(0, None)]
    for i, each in enumerate(found):
        ptx.inst.sub.f32(each, each, amount, pred=column == i)
    return Kept(values.row, found)


class Block:
    """The rows of a thread, which follow each other, as its warp's do: so the warp loads and stores them together, side by side, by way of shared
    memory.  `whole`: whether there are all rows of the warp."""

    def __init__(self, row):
        self.count, self.n = row.split.batch, row.split.n
        warp, self.lane = row.in_cta >> 5, row.in_cta & (WARP - 1)
        self.first = (row.index - self.lane) * self.count  # row of the warp
        rows = ptx.param(u32, "M")
        self.whole = self.first + WARP * self.count <= rows
        row.index = row.index * self.count
        with ptx.if_(row.index >= rows):
            ptx.ret()
        self.rows = [copy.copy(row) for _ in range(self.count)]
        for i, each in enumerate(self.rows):
            each.index = apply_to(reg.scalar(u32), ptx.inst.min.u32, row.index + i, rows - 1)
            each.mapped, each.deferred, each.scalars = {}, [], []
        room = WARP * self.bytes_of(f32)
        self.memory = smem_address(smem.alloc(u8, room * row.split.rows // WARP, align=16)) + warp * room

    def bytes_of(self, dtype) -> int:
        """The bytes of a thread's rows."""
        return self.count * self.n * dtype.bits // 8

    def beside(self, tensor):
        """Yields (the address in the matrix, in shared memory, the predicate that it exists) of pieces of 16 bytes, of which lanes take neighbouring ones."""
        (pointer,) = ptx.global_ptrs(tensor)
        there = beyond(pointer, self.first, self.n * tensor.dtype.bits // 8) + to_u64(self.lane * 16)
        pieces = WARP * self.bytes_of(tensor.dtype) // 16
        for first in range(0, pieces, WARP):
            guard = {} if first + WARP <= pieces else {"pred": self.lane < pieces - first}
            yield ptx.addr(there, 16 * first), ptx.addr(self.memory + self.lane * 16, 16 * first), guard

    def own(self, dtype, bits: list):
        """Yields (the address in shared memory, the bytes, the registers) of pieces of the lane's rows."""
        size = self.bytes_of(dtype)
        place, each = self.memory + self.lane * size, size // len(bits)
        count = max(1, math.gcd(size, 16) // each)
        for i in range(0, len(bits), count):
            yield place, each * i, each * count, bits[i : i + count]

    def elements(self, tensor):
        """(the address of each element of the rows, its number)."""
        (pointer,) = ptx.global_ptrs(tensor)
        size = tensor.dtype.bits // 8
        for i, row in enumerate(self.rows):
            base = beyond(pointer, row.index, self.n * size)
            yield from ((ptx.addr(base, j * size), i * self.n + j) for j in range(self.n))

    def load(self, tensor) -> list:
        """The elements of all rows, as f32."""
        dtype, count = tensor.dtype, self.n * self.count
        alone = count * dtype.bits % 32 != 0  # elements have registers of their own
        bits = [reg.scalar(b16) for _ in range(count)] if alone else registers(dtype, count, init=0)
        with ptx.if_(self.whole):
            for place, to, guard in self.beside(tensor):
                ptx.inst.cp.async_.cg.shared.global_(to, place, 16, **guard)
            ptx.cp.async_.wait_all()
            ptx.warp.sync(0xFFFFFFFF)
            for place, offset, width, some in self.own(dtype, bits):
                move(ptx.inst.ld.shared, place, offset, some, width)
            ptx.warp.sync(0xFFFFFFFF)  # the next matrix comes here
        with ptx.else_():
            halves = bits if alone or dtype == f32 else [reg.scalar(b16) for _ in range(count)]
            for place, i in self.elements(tensor):
                (LOAD.b32 if dtype == f32 else LOAD.b16)(halves[i], place)
            if halves is not bits:
                for i, each in enumerate(bits):
                    ptx.inst.mov.b32(each, halves[2 * i : 2 * i + 2])
        return [value for each in bits for value in widened(each, dtype)]

    def store(self, tensor, values: list):
        alone = len(values) * tensor.dtype.bits % 32 != 0
        bits = [narrowed([each], tensor.dtype)[0] for each in values] if alone else narrowed(values, tensor.dtype)
        with ptx.if_(self.whole):
            for place, offset, width, some in self.own(tensor.dtype, bits):
                move(STORE_SHARED, place, offset, some, width)
            ptx.warp.sync(0xFFFFFFFF)
            for to, place, guard in self.beside(tensor):
                some = [reg.scalar(b32) for _ in range(4)]
                ptx.inst.ld.shared.v4.b32(some, place, **guard)
                STORE.v4.b32(to, some, **guard)
            ptx.warp.sync(0xFFFFFFFF)
        with ptx.else_():
            for place, i in self.elements(tensor):
                store_element(tensor.dtype, place, [bits[i]] if alone else bits, 0 if alone else i)

    def store_scalars(self, tensor, values: list):
        """One for each row."""
        (pointer,) = ptx.global_ptrs(tensor)
        places = [beyond(pointer, row.index, 4) for row in self.rows]
        for i in range(0, self.count, 4):
            some = values[i : i + 4]
            move(STORE, places[i], 0, some, 4 * len(some), pred=self.whole)
        with ptx.if_(~self.whole):
            for place, value in zip(places, values, strict=True):
                ptx.inst.st.global_.f32(ptx.addr(place), value)


def own_rows(row, tensors, shared, first):
    """What `Row.each` yields.  Results are stored behind the last body."""
    block = Block(row)
    loaded, n = [block.load(tensor) for tensor in tensors], block.n
    beside = [Elements(row, vector) for vector in shared]
    for i, each in enumerate(block.rows):
        values = [Kept(each, some[i * n : (i + 1) * n]) for some in loaded]
        each.early = Median(values[0].values)
        yield each, *values, *beside, *([first(each, *values).now()] if first else ())
    for stores in zip(*(each.deferred for each in block.rows), strict=True):
        block.store(stores[0][0], [value for _, _, values in stores for value in values.vector(0, None)])
    for stores in zip(*(each.scalars for each in block.rows), strict=True):
        block.store_scalars(stores[0][0], [value for _, value in stores])
