"""How a consumer of a product on Hopper adds up a tile whose operands have scales for each 128 of K.

What tensor cores add up goes to f32 registers by fma, as they keep about 14 bits of products of fp8.  Of tiles of up to 128 columns there are
registers for the sums of two steps: the fma of one run beside the wgmma of the other.  A tile's first two steps begin before its place is
known; while they run its scales are loaded, and the tile before is stored.  Of wider tiles the fma run beside the wgmma of another warpgroup,
which begins a tile when the first one has its first step's sums: who begin together would also scale together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyptx import ptx, reg
from pyptx.kernels._epilogue import BlockScales
from pyptx.kernels._matmul.tiles import WARPGROUP, Place, copied
from pyptx.types import f32, u32

if TYPE_CHECKING:
    from pyptx.kernels._matmul.hopper import Product
    from pyptx.kernels._matmul.store import Store

__all__ = ["BlockSums", "PairedSums"]

SUMMED, BEGUN = 1, 2  # barriers, behind those of each warpgroup


class BlockSums:
    """Takes one tile after the other, in the product's accumulators.  Each is stored before the next begins."""

    ahead = None  # writes what comes before a tile's place is known

    def __init__(self, product: Product, store: Store, thread):
        self.product, self.store, self.acc = product, store, product.acc[0]
        self.first = (thread >> 5) * 16 + ((thread & 31) >> 2)
        self.one = Step(product)

    def scales(self, place: Place) -> BlockScales:
        first, width, bn = place.row + self.first, ptx.param(u32, "N"), self.product.c.bn
        if self.product.epilogue.gated:
            columns, width = [place.column, place.column + width], width + width
        else:  # the first column of each part that lies in one block of 128
            columns = [place.column + at if at else place.column for at in range(0, bn, math.gcd(bn, 128))]
        return BlockScales(
            self.product.more,
            self.product.epilogue,
            [first, first + 8],
            ptx.param(u32, "M"),
            columns,
            width,
            place.expert,
            place.end,
        )

    def clear(self):
        for each in self.acc:
            ptx.inst.mov.f32(each, 0.0)

    def sum(self, place: Place):
        self.clear()
        left = copied(self.product.steps)  # steps that have not begun
        self.one.start(self.scales(place), left > 0)
        first, others = self.store.consumer == 0, self.store.consumer > 0
        self.meet(SUMMED, ptx.bar.sync, others)
        self.meet(BEGUN, ptx.bar.arrive, others)
        left -= 1
        self.one.begin()
        self.one.finish(0, left > 0, lambda: self.meet(SUMMED, ptx.bar.arrive, first))
        for _ in ptx.range_(1, self.product.steps, dtype=u32):
            left -= 1
            self.one.begin()
            self.one.finish(0, left > 0)
        self.meet(BEGUN, ptx.bar.sync, first)
        self.store.keep(place)
        self.store.convert([self.acc])
        self.store.all()

    def meet(self, number: int, barrier, whose):
        """The first warpgroup and the others wait for each other.  SUMMED: the others wait until the first one has its first sums.  BEGUN: the first one
        waits until the others have waited, since it may not arrive again before."""
        consumers = self.product.c.consumers
        if consumers > 1:
            with ptx.if_(whose):
                barrier(consumers + number, consumers * WARPGROUP)

    def end(self):
        pass


class PairedSums(BlockSums):
    """Takes two steps at a time; a tile is stored beside the first two of the next one.  A tile has two steps at least."""

    def __init__(self, product: Product, store: Store, thread):
        super().__init__(product, store, thread)
        self.two = Step(product)
        self.clear()
        if product.epilogue.residual is None:  # with one, two steps would leave too few registers
            self.ahead = self.begin

    def begin(self):
        self.one.begin()
        self.two.begin()

    def sum(self, place: Place):
        if not self.ahead:
            self.begin()
        one, two, scales = self.one, self.two, self.scales(place)
        one.start(scales)
        two.start(scales, ptx.param(u32, "K") > self.product.a.bk)
        if self.ahead:
            with ptx.if_(self.store.waiting == 1):
                self.store_before()
        left = self.product.steps - 2  # steps that have not begun
        if self.product.halves_tiles:
            with ptx.if_(self.product.is_idle(self.store, place)):
                self.product.pass_over([one.stage, two.stage], left, [])
            with ptx.else_():
                self.sum_left(left)
        else:
            self.sum_left(left)
        self.store.keep(place)
        if not self.ahead:
            self.store_before()

    def sum_left(self, left):
        one, two = self.one, self.two
        for _ in ptx.range_(0, left >> 1, dtype=u32):
            for step in (one, two):
                step.finish(1, True)
                step.begin()
            left -= 2
        with ptx.if_(left == 1):
            one.finish(1, True)
            one.begin()
            two.finish(1)
            one.finish(0)
        with ptx.else_():
            one.finish(1)
            two.finish(0)

    def store_before(self):
        self.store.convert([self.acc])
        self.store.all()
        self.clear()

    def end(self):
        if self.ahead:
            with ptx.if_(self.store.waiting == 1):
                self.store_before()


class Step:
    """A step through K that has scales of its own: its sums, its scales, and the stage that it reads."""

    def __init__(self, product: Product):
        self.product, self.sums, self.stage = product, reg.array(f32, len(product.acc[0])), reg.scalar(u32)

    def start(self, scales: BlockScales, there_is=None):
        """Loads the first scales of a tile, if the predicate `there_is` says that a step needs them."""
        self.scales, self.raw = scales, scales.registers()
        scales.load(self.raw, there_is)

    def begin(self):
        position = self.product.position
        self.product.issue([self.sums], first=True)
        ptx.inst.mov.u32(self.stage, position.stage)
        position.advance()

    def finish(self, newer: int, again=False, summed=None):
        """Waits until all but the `newer` steps are done, and adds this one's sums.  `again`: whether (a predicate, True or False) this one's
        registers serve a later step, whose scales are loaded meanwhile.  `summed` writes what comes before they are added."""
        ptx.wgmma.wait_group(newer)
        if summed:
            summed()
        self.product.release(self.stage)
        factors = self.scales.factors(self.raw)
        if again is not False:
            self.scales.load(self.raw, None if again is True else again)
        acc = self.product.acc[0]
        for i, value in enumerate(self.sums):
            of_rows = factors[i * len(factors) // len(acc)]  # those of the gates or of the ups; of a block of B
            ptx.inst.fma.rn.f32(acc[i], value, of_rows[i // 2 % 2], acc[i])
