"""What the epilogue of a tile reads, fetched while the products of the tile run: the bias and the scales of its columns, which go to shared
memory, the scales of the thread's two rows, and the residual, which tensor copies bring where C is staged."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from pyptx import ptx, reg
from pyptx.kernels._epilogue import flat
from pyptx.kernels._matmul.tiles import ROW, WARPGROUP, address
from pyptx.kernels._registers import add, apply, widened
from pyptx.types import PtxType, b32, f32, u32

if TYPE_CHECKING:
    from pyptx.kernels._matmul.store import Store

__all__ = ["Ahead", "Line"]


class Line(NamedTuple):
    """Values of the columns of a tile, or (SCALE_A) of the rows of a consumer."""

    name: str
    dtype: PtxType
    bytes: int


class Ahead:
    """What one consumer has fetched for its tile."""

    def __init__(self, store: Store):
        self.store, self.product = store, store.product
        self.offsets, end = {}, 0  # of lines in shared memory
        for line in self.product.lines:
            self.offsets[line.name], end = end, end + line.bytes
        self.at = address(self.product.kept) + store.consumer * end if end else None
        if self.product.residual_copied:
            self.first_arrived = store.consumer * store.parts
            self.phase = reg.scalar(u32, init=1)

    def fetch(self):
        """Begins to fetch lines for the tile whose place the store has kept."""
        for line in self.product.lines:
            if line.name == "SCALE_A":
                self.copy_rows()
            else:
                self.copy_line(line)
        if self.product.residual_copied:
            ptx.inst.xor.b32(self.phase, self.phase, 1)

    def copy_rows(self):
        store, m = self.store, ptx.param(u32, "M")
        row, pointer = store.row + store.thread, store.finisher.pointers["SCALE_A"]
        number = row if store.batch is None else flat(store.batch, m, row)
        self.copy("SCALE_A", store.thread, pointer + number * 4, row < m, store.thread < 64)

    def copy_line(self, line: Line):
        store, n, columns = self.store, ptx.param(u32, "N"), self.store.columns
        size = line.dtype.bits // 8
        for first in range(0, line.bytes // 4, WARPGROUP):
            word = store.thread + first if first else store.thread
            number = word * (4 // size)  # of the column in the tile
            column, up, width = number + store.column, None, n
            if self.product.epilogue.gated:  # ups lie N columns behind their gates
                width, up = n + n, number >= columns
                ptx.inst.sub.u32(column, column, columns, pred=up)
            inside = column < n
            if up is not None:
                ptx.inst.add.u32(column, column, n, pred=up)
            at = column if line.name == "BIAS" or store.batch is None else flat(store.batch, width, column)
            there = None if first + WARPGROUP <= line.bytes // 4 else word < line.bytes // 4
            self.copy(line.name, word, store.finisher.pointers[line.name] + at * size, inside, there)

    def copy(self, name: str, word, source, inside, there):
        """Copies a word of four bytes, a zero if it is not `inside`, if the predicate `there` holds."""
        count = reg.scalar(u32)
        ptx.inst.selp.b32(count, 4, 0, inside)
        ptx.inst.cp.async_.ca.shared.global_(
            ptx.addr(self.at + word * 4, self.offsets[name]), ptx.addr(source), 4, count, pred=there
        )

    def arrive(self):
        """Until this thread's copies of lines are there, for all that pass a barrier behind it."""
        if self.product.lines:
            ptx.inst.cp.async_.wait_all()

    def factors(self) -> list:
        """What the scales of A, or those of tensors, make of the thread's two rows."""
        store, line = self.store, self.offsets.get("SCALE_A")
        row = store.first + (store.lane >> 2)
        if line is None:
            m = ptx.param(u32, "M")
            return [store.finisher.factor_of(store.row + row + 8 * half, m, store.batch) for half in range(2)]
        at = self.at + row * 4
        return [apply(ptx.inst.ld.shared.f32, ptx.addr(at, line + 32 * half)) for half in range(2)]

    def columns(self, first: int):
        """(factors, biases) of the thread's columns, of which the first of the tile is number `first`."""
        return tuple(self.line_of(name, first) for name in ("SCALE_B", "BIAS"))

    def line_of(self, name: str, first: int):
        store, dtype = self.store, self.product.epilogue.bias if name == "BIAS" else f32
        if name not in self.offsets:  # there is none, or no room for it
            return store.finisher.line_of(name, store.column + (store.lane & 3) * 2 + first, 2, store.batch)
        size, found = dtype.bits // 8, []
        at = self.at + (store.lane & 3) * (2 * size)
        for half in range(2 if self.product.epilogue.gated else 1):
            words = [reg.scalar(b32) for _ in range(size // 2)]
            load = ptx.inst.ld.shared.v2.b32 if size == 4 else ptx.inst.ld.shared.b32
            load(
                words if size == 4 else words[0],
                ptx.addr(at, self.offsets[name] + (half * store.columns + first) * size),
            )
            for word in words:
                found += [apply(ptx.inst.mov.b32, word)] if size == 4 else widened(word, dtype)
        return found

    def finish(self, part: int, groups: range):
        """The function (values of two rows, the first of their columns within the part) -> the same with the epilogue, for groups of eight
        columns."""
        product, finisher = self.product, self.store.finisher
        words, factors = self.residual(part, groups) if product.residual_copied else None, self.factors()
        each = product.out.bits // 16  # registers of two values

        def finish(both, column: int):
            columns = self.columns(part * product.chunk + column)
            found = []
            for half, (values, factor) in enumerate(zip(both, factors, strict=True)):
                values = finisher.scaled(values, factor, *columns)
                if words is not None:
                    at = (column // 4 - 2 * groups.start + half) * each
                    more = [
                        value for word in words[at : at + each] for value in widened(word, product.epilogue.residual)
                    ]
                    values = [add(value, other) for value, other in zip(values, more, strict=True)]
                found.append(values)
            return found

        return finish

    # The residual.

    def arrived(self, part: int):
        return self.product.arrived[self.first_arrived + part if part else self.first_arrived]

    def fetch_residual(self):
        """Begins to fetch the residual of the tile whose place is kept: the first parts to where the tile before has been stored from, the others to L2."""
        if self.product.c.inside:  # not only copies have read the buffers
            ptx.bar.sync(self.store.consumer + 1, WARPGROUP)
        with ptx.if_(self.store.thread == 0):
            ptx.cp.async_.bulk.wait_group(0, read=True)
            for part in range(self.store.parts):
                if part < self.product.buffers:
                    self.copy_residual(part)
                else:
                    ptx.tensor_copy.prefetch(self.product.residual_map, self.where(part))

    def copy_residual(self, part: int):
        store, product = self.store, self.product
        ptx.mbarrier.arrive_expect_tx(self.arrived(part), product.buffer)
        there = ptx.addr(store.base, store.buffer(part))
        ptx.tensor_copy.load(there, product.residual_map, self.where(part), self.arrived(part))

    def where(self, part: int) -> tuple:
        store = self.store
        column = store.column + part * self.product.chunk
        return (column, store.row) if store.batch is None else (column, store.row, store.batch)

    def refill(self, parts):
        """Fetches the residual of parts to where others have been stored from."""
        if self.product.c.inside:
            ptx.bar.sync(self.store.consumer + 1, WARPGROUP)
        with ptx.if_(self.store.thread == 0):
            ptx.cp.async_.bulk.wait_group(0, read=True)
            for part in parts:
                self.copy_residual(part)

    def refilling(self, writes: list) -> list:
        """What is left of a tile, `writes`, with what fetches the residual of parts whose buffers others had."""
        at_once, buffers, parts = self.product.at_once, self.product.buffers, self.store.parts
        first = range(max(at_once, buffers), min(parts, at_once + buffers))
        found = [functools.partial(self.refill, first)] if first else []
        for write in writes:
            found.append(write)
            if write.func == self.store.store and (later := write.args[0] + buffers) < parts:
                found.append(functools.partial(self.refill, [later]))
        return found

    def residual(self, part: int, groups: range) -> list:
        """Groups of eight columns of a part of the residual, once it is there: words as `Store.stage` takes them."""
        store, product = self.store, self.product
        ptx.mbarrier.wait(self.arrived(part), self.phase)
        words, size = [], 32 // product.out.bits  # groups that a place has
        for place in store.places[groups.start // size : -(-groups.stop // size)]:
            if product.out.bits == 16:
                some = [reg.scalar(b32) for _ in range(4)]
                ptx.matrix.ldmatrix(some, ptx.addr(place, store.buffer(part)))
                words += some
                continue
            for half in range(2):
                some = [reg.scalar(b32) for _ in range(2)]
                ptx.inst.ld.shared.v2.b32(some, ptx.addr(place, store.buffer(part) + half * 8 * ROW))
                words += some
        return words
