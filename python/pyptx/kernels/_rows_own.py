"""Rows of a few elements: a thread has some whole rows, as many as begin at a vector of 16 bytes again, so that it loads and stores whole vectors, and
asks no other thread.  The last thread may have fewer rows: then it has the last one several times, by elements."""

import copy

from pyptx import ptx, reg
from pyptx.kernels._registers import LOAD, STORE, apply_to, move, narrowed, registers, widened
from pyptx.kernels._rows_edges import store_element
from pyptx.kernels._rows_values import Values
from pyptx.types import b16, f32, u32, u64

__all__ = ["Elements", "own_rows"]


class Kept(Values):
    """Values of a row that are in registers."""

    def __init__(self, row, values: list):
        super().__init__(row)
        self.values = values

    def _make(self, k: int, at) -> list:
        return self.values


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


def own_rows(row, tensors, shared, first):
    """What `Row.each` yields; `row`: the thread's first one.  Results are stored behind the last body."""
    m, count, n = ptx.param(u32, "M"), row.split.batch, row.split.n
    row.index = row.index * count
    with ptx.if_(row.index >= m):
        ptx.ret()
    whole, last = row.index + (count - 1) < m, m - 1
    rows = [copy.copy(row) for _ in range(count)]
    for i, each in enumerate(rows):
        each.index = apply_to(reg.scalar(u32), ptx.inst.min.u32, row.index + i, last)
        each.mapped, each.deferred = {}, []
    loaded = [load(rows, tensor, whole) for tensor in tensors]
    beside = [Elements(row, vector) for vector in shared]
    for i, each in enumerate(rows):
        values = [Kept(each, some[i * n : (i + 1) * n]) for some in loaded]
        yield each, *values, *beside, *([first(each, *values).now()] if first else ())
    for stores in zip(*(each.deferred for each in rows), strict=True):
        tensor = stores[0][0]
        store(rows, tensor, [each for _, _, values in stores for each in values.vector(0, None)], whole)


def place(row, tensor):
    (pointer,) = ptx.global_ptrs(tensor)
    size = row.split.n * tensor.dtype.bits // 8
    return apply_to(reg.scalar(u64), ptx.inst.mad.wide.u32, row.index, size, pointer)


def pieces(bits: list, bytes_: int):
    """(offset, registers) of the widest loads or stores that are aligned where `bytes_` of each thread follow each other."""
    width = next(each for each in (4, 2, 1) if bytes_ % (4 * each) == 0)
    return [(4 * i, bits[i : i + width]) for i in range(0, len(bits), width)]


def load(rows, tensor, whole) -> list:
    """The elements of all rows, as f32."""
    n, dtype = rows[0].split.n, tensor.dtype
    bits = registers(dtype, n * len(rows), init=0)
    base = place(rows[0], tensor)
    for offset, some in pieces(bits, n * len(rows) * dtype.bits // 8):
        move(LOAD, base, offset, some, 4 * len(some), pred=whole)
    with ptx.if_(~whole):
        halves = [reg.scalar(f32 if dtype == f32 else b16) for _ in range(n * len(rows))]
        for i, row in enumerate(rows):
            of_row = place(row, tensor)
            for j in range(n):
                to = bits[i * n + j] if dtype == f32 else halves[i * n + j]
                (LOAD.b32 if dtype == f32 else LOAD.b16)(to, ptx.addr(of_row, j * dtype.bits // 8))
        if dtype != f32:
            for i, each in enumerate(bits):
                ptx.inst.mov.b32(each, halves[2 * i : 2 * i + 2])
    return [value for each in bits for value in widened(each, dtype)]


def store(rows, tensor, values: list, whole):
    n, dtype = rows[0].split.n, tensor.dtype
    bits, base = narrowed(values, dtype), place(rows[0], tensor)
    for offset, some in pieces(bits, n * len(rows) * dtype.bits // 8):
        move(STORE, base, offset, some, 4 * len(some), pred=whole)
    with ptx.if_(~whole):
        for i, row in enumerate(rows):
            of_row = place(row, tensor)
            for j in range(n):
                store_element(dtype, ptx.addr(of_row, j * dtype.bits // 8), bits, i * n + j)
