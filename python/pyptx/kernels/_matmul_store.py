"""How a consumer of a product on Hopper stores its tile: `pack` makes values of C from the accumulators, and these go through shared memory
to C by tensor copies, all at once (`all`) or part by part beside the first products of the next tile (`part`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyptx import ptx, reg
from pyptx.kernels._epilogue import NOTHING, Finisher
from pyptx.kernels._matmul_tiles import ROW, WARPGROUP, WORD, Place, address, quotient
from pyptx.types import b32, u32, u64

if TYPE_CHECKING:
    from pyptx.kernels._matmul_hopper import Product

__all__ = ["BUFFERS", "Store", "chunk_of"]

BUFFERS = 2  # of a consumer, each for 64 rows of 128 bytes of C


class Store:
    """Stores the tiles of one consumer: from accumulators to values of C, to shared memory, and to C by tensor copies of 64 rows of 128
    bytes."""

    def __init__(self, product: Product, thread, consumer, columns: int):
        self.product, self.thread, self.consumer, self.columns = product, thread, consumer, columns
        self.waiting = reg.scalar(u32, init=0)
        self.row, self.column = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        self.batch = reg.scalar(u32, init=0) if product.batched else None
        self.end = reg.scalar(u32, init=0) if product.grouped else None
        self.own = (reg.scalar(u32, init=0), reg.scalar(u32, init=0)) if product.c.inside else (None, None)
        self.packed = [
            [reg.scalar(b32) for _ in range(columns * product.out.bits // 64)] for _ in range(product.blocks)
        ]
        self.base = address(product.staged) + consumer * (BUFFERS * product.buffer)
        self.lane, self.first = thread & 31, (thread >> 5) * 16
        halves = self.of_turned_halves if product.c.turned else self.of_halves
        self.places = halves() if product.out.bits == 16 else self.of_words()
        self.hint = reg.scalar(u64)
        ptx.inst.createpolicy.fractional.L2__evict_first.b64(self.hint)  # C leaves L2 before what is read again
        self.finisher = Finisher(product.epilogue, product.more, ptx.param(u32, "N"), whole=True)

    def of_halves(self):
        """The addresses for stmatrix: lane l gives that of row l % 16 of the warp's 16 rows, in word l / 16 of two neighbouring words of 16
        bytes.  Words of rows of 128 bytes are swizzled as the tensor copy reads them."""
        row, pairs = self.first + (self.lane & 15), self.product.chunk // 16
        if not self.product.swizzled:
            at = self.base + row * (self.product.chunk * 2) + (self.lane >> 4) * WORD
            return [at + 2 * pair * WORD if pair else at for pair in range(pairs)]
        word = (self.lane >> 4) ^ (self.lane & 7)
        at = self.base + row * ROW + word * WORD
        return [at ^ (2 * pair * WORD) if pair else at for pair in range(pairs)]

    def of_turned_halves(self):
        """The addresses for stmatrix.trans: a row in shared memory is a column of the accumulators, and the warp's 16 rows are two of its
        words."""
        word = (((self.thread >> 5) << 1) + ((self.lane >> 3) & 1)) ^ (self.lane & 7)
        at = self.base + (((self.lane >> 4) << 3) + (self.lane & 7)) * ROW + word * WORD
        return [at + pair * 16 * ROW if pair else at for pair in range(self.product.chunk // 16)]

    def of_words(self):
        """The addresses for values of 32 bits: where the thread's pairs in four groups of eight columns go.  Eight rows further is 1,024 bytes
        further."""
        row = self.lane >> 2
        word = ((self.lane >> 1) & 1) ^ row
        at = self.base + (self.first + row) * ROW + word * WORD + (self.lane & 1) * 8
        return [at ^ (2 * group * WORD) if group else at for group in range(4)]

    def pack(self, accumulators, place: Place):
        """Finishes the values of a tile and keeps them until they are stored."""
        self.keep(place)
        self.convert(accumulators)

    def keep(self, place: Place):
        """Remembers the place of the tile that waits to be stored."""
        kept = self.row, self.column, self.batch, self.end, *self.own
        for into, value in zip(kept, (*place[:3], place.end, *(place.own or (None, None))), strict=True):
            if into is not None:
                ptx.inst.mov.u32(into, value)
        ptx.inst.mov.u32(self.waiting, 1)

    def convert(self, accumulators):
        """Makes the values of C of the tile whose place is kept."""
        out = self.product.out
        self.epilogue(accumulators, self.row, self.column, self.batch)
        for acc, packed in zip(accumulators, self.packed, strict=True):
            for i, into in enumerate(packed):
                if out.bits == 32:
                    ptx.inst.mov.b32(into, acc[i])
                else:
                    getattr(ptx.inst.cvt.rn, out.name + "x2").f32(into, acc[2 * i + 1], acc[2 * i])

    def epilogue(self, accumulators, row, column, batch):
        if self.product.epilogue == NOTHING:
            return
        first = column + (self.lane & 3) * 2
        behind = 4 * self.columns // 8  # how many registers an up lies behind its gate
        m = ptx.param(u32, "M")
        for block, acc in enumerate(accumulators):
            rows = row + self.first + (self.lane >> 2) + block * 64
            lines = [self.finisher.line(rows + 8 * half, m, batch) for half in range(2)]
            for group in range(self.columns // 8):
                columns = self.finisher.columns(first + 8 * group, 2, batch)
                for half, finish in enumerate(lines):
                    values = [acc[at + i] for at in range(4 * group + 2 * half, len(acc), behind) for i in range(2)]
                    for into, value in zip(values[:2], finish(values, first + 8 * group, columns), strict=True):
                        ptx.inst.mov.f32(into, value)

    def part(self, number: int):
        """Stores one part of the tile: 64 rows of a chunk of its columns."""
        product = self.product
        block, chunk = divmod(number, self.columns // product.chunk)
        buffer = number % BUFFERS * product.buffer
        with ptx.if_(
            self.thread == 0
        ):  # the copy that read this buffer last: of an odd number of parts, the tile before ended with it
            ptx.cp.async_.bulk.wait_group(0 if number == 0 and self.parts % BUFFERS else BUFFERS - 1, read=True)
        ptx.bar.sync(self.consumer + 1, WARPGROUP)
        count = 4 * len(self.places)
        values = self.packed[block][count * chunk : count * (chunk + 1)]
        for i, place in enumerate(self.places):
            if product.out.bits == 16:
                ptx.matrix.stmatrix(ptx.addr(place, buffer), values[4 * i : 4 * i + 4], trans=product.c.turned)
            else:
                for half in range(2):
                    pair = values[4 * i + 2 * half : 4 * i + 2 * half + 2]
                    ptx.inst.st.shared.v2.b32(ptx.addr(place, buffer + half * 8 * ROW), pair)
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(self.consumer + 1, WARPGROUP)
        row, column = self.row + block * 64, self.column + chunk * product.chunk
        if self.product.c.inside:
            with ptx.if_((row >= self.own[0]) & (column >= self.own[1])):
                self.copy(row, column, buffer)
            with ptx.else_():
                self.store_own(row, column, buffer)
                with ptx.if_(self.thread == 0):
                    ptx.cp.async_.bulk.commit_group()
            return
        if self.end is None:
            self.copy(row, column, buffer)
            return
        # A copy would write the rows of the next group, too.
        whole = row + 64 <= self.end
        with ptx.if_(whole):
            self.copy(row, column, buffer)
        with ptx.else_():
            self.store_rows(row, column, buffer)
            with ptx.if_(self.thread == 0):  # an empty group: who waits for the last but one counts a group a buffer
                ptx.cp.async_.bulk.commit_group()

    def copy(self, row, column, buffer: int):
        with ptx.if_(self.thread == 0):
            where = (row, column) if self.product.c.turned else (column, row)
            where = where if self.batch is None else (*where, self.batch)
            ptx.tensor_copy.store(self.product.maps[2], where, ptx.addr(self.base, buffer), cache_hint=self.hint)
            ptx.cp.async_.bulk.commit_group()

    def store_rows(self, row, column, buffer: int):
        """Stores the rows of the group only, 16 bytes of each thread at a time."""
        size = self.product.out.bits // 8
        n = ptx.param(u32, "N")
        word = self.thread & 7
        at_column = column + word * (WORD // size)
        for i in range(4):
            line = (self.thread >> 3) + 16 * i
            values = [reg.scalar(b32) for _ in range(4)]
            from_ = self.base + line * ROW + ((word ^ (line & 7)) * WORD)
            ptx.inst.ld.shared.v4.b32(values, ptx.addr(from_, buffer))
            here = row + line
            to = reg.scalar(u64)
            ptx.inst.mul.wide.u32(to, here, n)
            inside = (here < self.end) & (at_column < n)
            ptx.inst.st.global_.v4.b32(ptx.addr(self.product.pointer + (to + at_column) * size), values, pred=inside)

    def store_own(self, row, column, buffer: int):
        """Stores only what the tiles before do not store (`Config.inside`), 16 bytes of each thread at a time."""
        product, m, n = self.product, ptx.param(u32, "M"), ptx.param(u32, "N")
        size = product.out.bits // 8
        lines, wide = 64, ROW if product.swizzled else product.chunk * size
        first, own = (row, column), self.own
        if product.c.turned:
            lines, first, own = product.chunk, first[::-1], own[::-1]
        words = wide // WORD
        for i in range(lines * words // WARPGROUP):
            number = self.thread + i * WARPGROUP
            line = quotient(number, words)
            word = number - line * words
            there = word ^ (line & 7) if product.swizzled else word
            values = [reg.scalar(b32) for _ in range(4)]
            ptx.inst.ld.shared.v4.b32(values, ptx.addr(self.base + line * wide + there * WORD, buffer))
            here, at = first[0] + line, first[1] + word * (WORD // size)
            to = reg.scalar(u64)
            ptx.inst.mul.wide.u32(to, here if self.batch is None else self.batch * m + here, n)
            mine = (here >= own[0]) & (at >= own[1])
            ptx.inst.st.global_.v4.b32(ptx.addr(product.pointer + (to + at) * size), values, pred=mine)

    @property
    def parts(self) -> int:
        return self.product.blocks * (self.columns // self.product.chunk)

    def all(self):
        for number in range(self.parts):
            self.part(number)

    def finish(self):
        with ptx.if_(self.thread == 0):
            ptx.cp.async_.bulk.wait_group(0)


def chunk_of(columns: int, bits: int) -> tuple[int, bool]:
    """(how many columns of C, of so many bits, are stored together, whether they are swizzled): 128 bytes if these divide the tile; otherwise
    the widest part of it that is an odd number of sixteens, which has few bank conflicts."""
    row = ROW * 8 // bits
    if columns % row == 0:
        return row, True
    fits = [width for width in range(16, 113, 32) if columns % width == 0]
    if not fits or bits != 16:
        raise ValueError(f"a tile of {columns} columns of {bits} bits cannot be stored in parts")
    return fits[-1], False
