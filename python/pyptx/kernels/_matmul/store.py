"""How a consumer of a product on Hopper stores its tile: values of C, which the epilogue makes from the accumulators, go through shared memory
to C by tensor copies.

`turn` takes the accumulators of a tile before the next one begins, and `later` has what is left to do beside the products of that one.  Without
an activation or residual all values of C are made at once, and wait as such.  Otherwise parts of a tile wait as accumulators, as many as there
are registers for, and the others are stored before.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pyptx import ptx, reg
from pyptx.kernels._epilogue import NOTHING, Finisher
from pyptx.kernels._matmul.ahead import Ahead
from pyptx.kernels._matmul.tiles import ROW, WARPGROUP, WORD, Place, address, of_batch, quotient
from pyptx.kernels._registers import narrowed
from pyptx.types import b32, f32, u32, u64

if TYPE_CHECKING:
    from pyptx.kernels._matmul.hopper import Product

__all__ = ["Store", "chunk_of"]


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
        size, later = product.chunk // 2, range(product.at_once, self.parts)
        self.packed = {part: [reg.scalar(b32) for _ in range(size * product.out.bits // 32)] for part in later}
        if not product.packs:  # parts wait as accumulators
            self.held = {part: [reg.scalar(f32) for _ in range(size * product.halves)] for part in later}
        self.base = address(product.staged) + consumer * (product.buffers * product.buffer)
        self.lane, self.first = thread & 31, (thread >> 5) * 16
        halves = self.of_turned_halves if product.c.turned else self.of_halves
        self.places = halves() if product.out.bits == 16 else self.of_words()
        self.hint = reg.scalar(u64)
        ptx.inst.createpolicy.fractional.L2__evict_first.b64(self.hint)  # C leaves L2 before what is read again
        self.finisher = Finisher(product.epilogue, product.more, ptx.param(u32, "N"), True, product.out)
        self.ahead = Ahead(self) if product.ahead else None

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

    # From accumulators to values of C.

    def keep(self, place: Place):
        """Remembers the place of a tile."""
        kept = self.row, self.column, self.batch, self.end, *self.own
        for into, value in zip(kept, (*place[:3], place.end, *(place.own or (None, None))), strict=True):
            if into is not None:
                ptx.inst.mov.u32(into, value)
        if self.product.halves_tiles:
            ptx.inst.selp.u32(self.waiting, 1, 0, self.row < self.end)
        else:
            ptx.inst.mov.u32(self.waiting, 1)

    def fetch(self, place: Place):
        """Remembers the place of a tile, and begins to fetch what its epilogue reads."""
        self.keep(place)
        self.ahead.fetch()

    def turn(self, accumulators):
        """Takes the accumulators of the tile whose place is kept, so that the next tile may have them: what `later` does not store is stored."""
        product = self.product
        if self.ahead:
            self.ahead.arrive()
        self.flush(range(product.at_once), lambda part: self.words(self.of_part(accumulators, part), part))
        if self.ahead and not product.at_once:
            ptx.bar.sync(self.consumer + 1, WARPGROUP)
        if product.packs:
            self.convert(accumulators)
            return
        for part, held in self.held.items():
            for into, value in zip(held, self.of_part(accumulators, part), strict=True):
                ptx.inst.mov.f32(into, value)

    def convert(self, accumulators):
        """Makes the values of C that wait."""
        for part in self.packed:
            self.pack(part, self.of_part(accumulators, part), range(self.product.chunk // 8))

    def pack(self, part: int, values, groups: range):
        """Makes the values of some groups of eight columns of a part that waits."""
        each = self.product.out.bits // 8
        words = self.words(values, part, groups)
        for into, value in zip(self.packed[part][groups.start * each : groups.stop * each], words, strict=True):
            ptx.inst.mov.b32(into, value)

    def of_part(self, accumulators, part: int) -> list:
        """The accumulators of a part; of gates, and behind them those of their ups."""
        block, chunk = divmod(part, self.columns // self.product.chunk)
        acc, count = accumulators[block], self.product.chunk // 2
        firsts = range(count * chunk, len(acc), self.columns // 2)
        return [acc[first + i] for first in firsts for i in range(count)]

    def words(self, values, part: int, groups: range | None = None) -> list:
        """The registers of 32 bits that hold groups of eight columns of a part, all unless told: for each group the values of the thread's first
        row, then those of the row eight further."""
        product, count = self.product, self.product.chunk // 2
        groups = groups or range(product.chunk // 8)
        finish = None
        if product.epilogue != NOTHING:
            finish = self.ahead.finish(part, groups) if self.ahead else self.finish_loaded(part)
        words = []
        for first in range(4 * groups.start, 4 * groups.stop, 4):
            rows = [
                [v for at in range(first + half, len(values), count) for v in values[at : at + 2]] for half in (0, 2)
            ]
            for pair in finish(rows, 2 * first) if finish else rows:
                words += pair if product.out.bits == 32 else narrowed(pair, product.out)
        return words

    def finish_loaded(self, part: int):
        """The function (values of two rows, the first of their columns within the part) -> the same with the epilogue, which loads what it
        needs."""
        block, chunk = divmod(part, self.columns // self.product.chunk)
        rows = self.row + self.first + (self.lane >> 2) + block * 64
        first = self.column + (self.lane & 3) * 2 + chunk * self.product.chunk
        lines = [self.finisher.line(rows + 8 * half, ptx.param(u32, "M"), self.batch) for half in range(2)]

        def finish(both, column: int):
            columns = self.finisher.columns(first + column, 2, self.batch)
            return [line(values, first + column, columns) for line, values in zip(lines, both, strict=True)]

        return finish

    # Through shared memory to C.

    def later(self) -> list:
        """Functions that write what is left of the tile before: what each writes runs beside one step of the next tile, `if_waiting`."""
        found = []
        for part in self.packed:
            if not self.product.packs:
                found += self.making(part)
            found.append(functools.partial(self.store, part))
        return self.ahead.refilling(found) if self.product.residual_copied else found

    def making(self, part: int) -> list:
        groups, each = self.product.chunk // 8, self.product.c.beside
        cuts = range(0, groups, each)
        return [functools.partial(self.pack, part, self.held[part], range(at, min(at + each, groups))) for at in cuts]

    def if_waiting(self, write):
        if write.func == self.pack:  # what may be set is live before: without this, over the whole loop
            part, _, groups = write.args
            if not groups.start:
                for word in self.packed[part]:
                    ptx.inst.mov.b32(word, 0)
        with ptx.if_(self.waiting == 1):
            write()

    def all(self):
        """Stores what waits, if a tile does."""
        with ptx.if_(self.waiting == 1):
            of_part = self.packed.get if self.product.packs else lambda part: self.words(self.held[part], part)
            self.flush(range(self.product.at_once, self.parts), of_part)

    def flush(self, parts: range, words_of):
        """Stores parts, as many together as there are buffers."""
        for first in parts[:: self.product.buffers]:
            some = range(first, min(first + self.product.buffers, parts.stop))
            if late := [part for part in some if self.product.residual_copied and part >= self.product.buffers]:
                self.ahead.refill(late)
            self.meet(0)
            for part in some:
                self.stage(part, words_of(part))
            self.send(some)

    def store(self, part: int):
        """Stores a part whose values are made: 64 rows of a chunk of columns."""
        count = self.product.buffers
        # The copy that read this buffer last: if parts are no multiple of buffers, the tile before ended with it.
        self.meet(0 if part == 0 and self.parts % count else count - 1)
        self.stage(part, self.packed[part])
        self.send([part])

    def meet(self, newer: int):
        """Until all copies but the newest have read what was staged, and all threads are here."""
        if not self.product.residual_copied:  # else that has been waited for before the residual was fetched
            with ptx.if_(self.thread == 0):
                ptx.cp.async_.bulk.wait_group(newer, read=True)
        ptx.bar.sync(self.consumer + 1, WARPGROUP)

    def buffer(self, part: int) -> int:
        """Where a part is staged."""
        return part % self.product.buffers * self.product.buffer

    def stage(self, part: int, words):
        product, buffer = self.product, self.buffer(part)
        for i, place in enumerate(self.places):
            if product.out.bits == 16:
                ptx.matrix.stmatrix(ptx.addr(place, buffer), words[4 * i : 4 * i + 4], trans=product.c.turned)
            else:
                for half in range(2):
                    pair = words[4 * i + 2 * half : 4 * i + 2 * half + 2]
                    ptx.inst.st.shared.v2.b32(ptx.addr(place, buffer + half * 8 * ROW), pair)

    def send(self, parts):
        """Copies staged parts to C."""
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(self.consumer + 1, WARPGROUP)
        for part in parts:
            block, chunk = divmod(part, self.columns // self.product.chunk)
            self.send_part(self.row + block * 64, self.column + chunk * self.product.chunk, self.buffer(part))

    def send_part(self, row, column, buffer: int):
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
            where = (*where, *of_batch(self.product.batched, self.batch))
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

    def finish(self):
        with ptx.if_(self.thread == 0):
            ptx.cp.async_.bulk.wait_group(0)


@functools.cache
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
