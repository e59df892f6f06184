"""How a consumer of a product on Hopper adds up a tile whose operands have scales for each 128 of K.

What tensor cores add up goes to f32 registers by fma, as they keep about 14 bits of products of fp8.  Of tiles of up to 128 columns there are
registers for the sums of two steps: the fma of one run beside the wgmma of the other.  Of wider tiles there is one set of sums, which the
halves of 256 columns have one after the other: the fma run beside the wgmma of the other warpgroup.  A tile's first products begin before its
place is known; while they run its scales are loaded, and the tile before is stored.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from pyptx import ptx, reg
from pyptx.kernels._epilogue import BlockScales, Epilogue
from pyptx.kernels._matmul.tiles import WARPGROUP, Place
from pyptx.types import f32, u32

if TYPE_CHECKING:
    from pyptx.kernels._matmul.hopper import Product
    from pyptx.kernels._matmul.store import Store

__all__ = ["PairedSums", "SingleSums"]

WIDEST_SUMS = 192  # columns of one set of sums beside as many accumulators


class BlockSums:
    """Takes one tile after the other, in the product's accumulators."""

    def __init__(self, product: Product, store: Store, thread):
        self.product, self.store, self.acc = product, store, product.acc[0]
        self.first = (thread >> 5) * 16 + ((thread & 31) >> 2)
        # Whether the tile before went through K backwards.
        self.backwards = reg.scalar(u32, init=1) if product.c.swing else None
        self.clear()
        # Writes what comes before a tile's place is known.
        self.ahead = self.begin if self.leaves_room(product.epilogue) else None

    def begin(self):
        raise NotImplementedError

    def leaves_room(self, epilogue: Epilogue) -> bool:
        """Whether a tile that has begun leaves registers for the epilogue of the one before."""
        raise NotImplementedError

    def scales(self, place: Place) -> BlockScales:
        first, width, bn = place.row + self.first, ptx.param(u32, "N"), self.product.c.bn
        if self.product.epilogue.gated:
            columns, width = [place.column, place.column + width], width + width
        else:  # the first column of each part that lies in one block of 128
            columns = [place.column + at if at else place.column for at in range(0, bn, math.gcd(bn, 128))]
        if self.backwards is not None:
            ptx.inst.xor.b32(self.backwards, self.backwards, 1)
        return BlockScales(
            self.product.more,
            self.product.epilogue,
            [first, first + 8],
            ptx.param(u32, "M"),
            columns,
            width,
            place.expert,
            place.end,
            None if self.backwards is None else self.backwards == 1,
        )

    def clear(self):
        for each in self.acc:
            ptx.inst.mov.f32(each, 0.0)

    def store_before(self):
        self.store.convert([self.acc])
        self.store.all()
        self.clear()

    def end(self):
        if self.ahead:
            with ptx.if_(self.store.waiting == 1):
                self.store_before()


class SingleSums(BlockSums):
    """Takes a part of a step's columns at a time; a tile is stored beside the first part of the next one.

    The two warpgroups take turns.  If both began together, they would also scale together, and the tensor cores would wait.  A turn ends when half
    of a part is multiplied: the other warpgroup's products then begin before the tensor cores have nothing left to do."""

    def __init__(self, product: Product, store: Store, thread):
        self.parts = 1 if product.c.bn <= WIDEST_SUMS else 2
        self.sums = reg.array(f32, len(product.acc[0]) // self.parts)
        super().__init__(product, store, thread)
        self.one = product.c.consumers + 1  # the barrier of the first warpgroup's turn, behind those of each warpgroup
        self.mine, self.other = self.one + store.consumer, self.one + 1 - store.consumer
        with ptx.if_(store.consumer == 1):
            ptx.bar.arrive(self.one, 2 * WARPGROUP)

    def leaves_room(self, epilogue: Epilogue) -> bool:
        return not epilogue.finishes

    def begin(self):
        self.issue(0)

    def issue(self, part: int):
        """A turn: starts the products of a part, and waits for half of them."""
        column = part * self.product.c.bn // self.parts
        before = functools.partial(ptx.bar.sync, self.mine, 2 * WARPGROUP)
        self.product.issue([self.sums], True, column=column, groups=2, before=before)
        ptx.wgmma.wait_group(1)
        ptx.bar.arrive(self.other, 2 * WARPGROUP)

    def sum(self, place: Place):
        if not self.ahead:
            self.begin()
        scales = self.scales(place)
        raw = scales.registers()
        scales.load(raw)
        if self.ahead:
            with ptx.if_(self.store.waiting == 1):
                self.store_before()
        for _ in ptx.range_(1, self.product.steps, dtype=u32):
            self.add_step(scales, raw, True)
        self.add_step(scales, raw, False)
        self.store.keep(place)
        if not self.ahead:
            self.store_before()

    def add_step(self, scales: BlockScales, raw, more: bool):
        """Adds the sums of a step, whose first part has begun.  `more`: whether another step follows."""
        product, position = self.product, self.product.position
        factors = scales.factors(raw)
        if more:
            scales.load(raw)
        for part in range(self.parts):
            ptx.wgmma.wait_group(0)
            last = part == self.parts - 1
            if last:
                product.release(position.stage)
                position.advance()
            add(self.acc, part * len(self.sums), self.sums, factors)
            if more or not last:
                self.issue(0 if last else part + 1)

    def end(self):
        with ptx.if_(self.store.consumer == 0):  # the turn that the other warpgroup has left
            ptx.bar.sync(self.one, 2 * WARPGROUP)
        super().end()


class PairedSums(BlockSums):
    """Takes two steps at a time; a tile is stored beside the first two of the next one.  A tile has two steps at least."""

    def __init__(self, product: Product, store: Store, thread):
        self.one, self.two = Step(product), Step(product)
        super().__init__(product, store, thread)

    def leaves_room(self, epilogue: Epilogue) -> bool:
        return epilogue.residual is None

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

    def finish(self, newer: int, again=False):
        """Waits until all but the `newer` steps are done, and adds this one's sums.  `again`: whether this one's registers serve a later step,
        whose scales are loaded meanwhile."""
        ptx.wgmma.wait_group(newer)
        self.product.release(self.stage)
        factors = self.scales.factors(self.raw)
        if again:
            self.scales.load(self.raw)
        add(self.product.acc[0], 0, self.sums, factors)


def add(acc, first: int, sums, factors):
    """Adds sums to the accumulators from number `first` on.  Each block of B, or the gates and the ups, have factors of the two rows."""
    for i, value in enumerate(sums, first):
        of_rows = factors[i * len(factors) // len(acc)]
        ptx.inst.fma.rn.f32(acc[i], value, of_rows[i // 2 % 2], acc[i])
