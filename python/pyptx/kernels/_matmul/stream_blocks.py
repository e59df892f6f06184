"""What a stream (_matmul/stream.py) has besides where its operands have scales for each 128 of K.

A warp of its own copies the scales of a stage's blocks beside the stage, 4 bytes a lane, which rows of any length allow; consumers find them
there by the barrier on which the stage arrives.  What tensor cores add up over 128 of K goes to f32 registers by fma, as in _matmul/blocks.py:
there are two sets of sums, and one block is always being multiplied while the sums of the one before are added.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pyptx import ptx, reg
from pyptx.kernels._matmul.tiles import Ring, address, copied
from pyptx.kernels._registers import mul
from pyptx.types import f32, u32, u64

if TYPE_CHECKING:
    from pyptx.kernels._matmul.stream import Stream, StreamConfig

__all__ = ["BLOCKS", "ScaleSlots", "ScaledSums", "produce_scales"]

LANES = 32
BLOCKS = 2  # of a stage
WORDS = 16  # that are loaded at a time


class ScaleSlots:
    """Where the scales of one block of 128 of K lie, in words: those of A's rows, so that a thread finds those that it needs in words side by
    side; behind them those of B, one for each consumer, or for eight columns of a tall stream."""

    def __init__(self, c: StreamConfig):
        self.tall, self.rows = c.tall, c.lines
        self.of_a = c.rows // 8 * 2  # words of one of four neighbouring threads
        self.pitch = -(-self.of_a // 4) * 4 + 4  # so that the four meet in no bank
        self.begin_b = self.rows if c.tall else 4 * self.pitch
        self.of_b = c.groups if c.tall else c.consumers
        self.words = self.begin_b + -(-self.of_b // 4) * 4

    def of_row(self, row):
        """The word of a row of A, a register."""
        if self.tall:
            return row
        return ((row >> 1) & 3) * self.pitch + ((row >> 3) << 1) + (row & 1)


def produce_scales(stream: Stream, lane):
    """The warp that copies scales, stage by stage."""
    c, slots, ring = stream.c, stream.slots, Ring(stream.c.stages)
    pointer_a, pointer_b = ptx.global_ptrs(stream.more["SCALE_A"], stream.more["SCALE_B"])
    m_size, blocks = ptx.param(u32, "M"), (ptx.param(u32, "K") + 127) >> 7
    across = (stream.n + 127) >> 7  # blocks of B's columns
    apart = 8 if c.tall else 64
    rows = [lane + first for first in range(0, c.lines, LANES)]
    words = [slots.of_row(row) * 4 for row in rows]
    for column in stream.tiles():
        block = copied(stream.first * BLOCKS)
        for _ in ptx.range_(stream.first, stream.last, dtype=u32):
            ptx.mbarrier.wait(stream.empty[ring.stage], ring.parity ^ 1)
            to = address(stream.scales) + ring.stage * (BLOCKS * slots.words * 4)
            for unit in range(BLOCKS):
                there = block < blocks
                for first, row, word in zip(range(0, c.lines, LANES), rows, words, strict=True):
                    index = row * blocks + block if stream.epilogue.by_rows else block * m_size + row
                    guard = lane < c.lines - first if c.lines - first < LANES else None
                    fetch(to + word, unit * slots.words * 4, pointer_a, index, there & (row < m_size), guard)
                for first in range(0, slots.of_b, LANES):
                    number = lane + first
                    place = column + number * apart
                    index = (
                        (place >> 7) * blocks + block if stream.epilogue.b_by_rows else block * across + (place >> 7)
                    )
                    word = (slots.begin_b + unit * slots.words) * 4
                    fetch(to + number * 4, word, pointer_b, index, there & (place < stream.n), number < slots.of_b)
                block += 1
            ptx.cp_async.mbarrier_arrive(stream.full[ring.stage], noinc=True)
            ring.advance()


def fetch(to, offset: int, pointer, index, inside, guard):
    """Copies one scale, or a zero where `inside` does not hold; by threads for which `guard` does."""
    bytes_, at, zero = reg.scalar(u32), reg.scalar(u64), reg.scalar(u32)
    ptx.inst.selp.b32(bytes_, 4, 0, inside)
    ptx.inst.selp.b32(zero, index, 0, inside)  # an address of the tensor, from which nothing is read
    ptx.inst.mad.wide.u32(at, zero, 4, pointer)
    ptx.inst.cp.async_.ca.shared.global_(ptx.addr(to, offset), ptx.addr(at), 4, bytes_, pred=guard)


class ScaledSums:
    """Adds up the blocks of a part of K."""

    def __init__(self, stream: Stream, thread, acc):
        self.stream, self.slots, self.acc = stream, stream.slots, acc
        self.sums = [reg.array(f32, len(acc)) for _ in range(BLOCKS)]
        self.blocks = (ptx.param(u32, "K") + 127) >> 7
        warp, lane, start = thread >> 5, thread & 31, address(stream.scales)
        if stream.c.tall:
            self.at_a, self.at_b = start + (warp * 16 + (lane >> 2)) * 4, start + self.slots.begin_b * 4
        else:
            self.at_a = start + (lane & 3) * (self.slots.pitch * 4)
            self.at_b = start + (self.slots.begin_b + (warp >> 2)) * 4

    def add_up(self, ring: Ring, release):
        """Adds up the products of at least one stage.  `release(stage)` says that a stage has been read.  Two blocks are being multiplied; where the sums of one have been
        added, that of the next stage begins."""
        for each in self.acc:
            ptx.inst.mov.f32(each, 0.0)
        stage = reg.scalar(u32)
        for block in range(BLOCKS):
            self.begin(ring, block)
        for _ in ptx.range_(1, self.stream.last - self.stream.first, dtype=u32):
            ptx.inst.mov.u32(stage, ring.stage)
            ring.advance()
            for block in range(BLOCKS):
                self.add(stage, block, 1)
                self.begin(ring, block)
            release(stage)
        # Without this branch ptxas would wait after each wgmma of the loop (C7514).
        with ptx.if_(self.stream.last * BLOCKS <= self.blocks):
            self.add(ring.stage, 0, 1)
            self.add(ring.stage, 1, 0)
        with ptx.else_():  # K ends within the stage
            self.add(ring.stage, 0, 0)
        release(ring.stage)
        ring.advance()

    def begin(self, ring: Ring, block: int):
        if block == 0:
            ptx.mbarrier.wait(self.stream.full[ring.stage], ring.parity)
        self.stream.issue(ring.stage, self.sums[block], block)

    def add(self, stage, block: int, newer: int):
        """Waits until all but the `newer` blocks are done, and adds the sums of this one.  Scales are loaded few at a time: all that a thread of
        128 rows needs would take more registers than there are."""
        factors = self.factors(stage * (BLOCKS * self.slots.words * 4), block * self.slots.words * 4)
        some = next(factors)
        ptx.wgmma.wait_group(newer)
        for found in itertools.chain([some], factors):
            for i, factor in found.items():
                ptx.inst.fma.rn.f32(self.acc[i], self.sums[block][i], factor, self.acc[i])

    def factors(self, at, offset: int):
        """Yields the factors of the sums of a thread, by the sums' numbers."""
        slots, of_a, of_b = self.slots, self.at_a + at, self.at_b + at
        if slots.tall:
            rows = [loaded(of_a, offset + row * 32, 1)[0] for row in range(2)]
        else:
            (of_columns,) = loaded(of_b, offset, 1)
        count = slots.of_b if slots.tall else slots.of_a
        for first in range(0, count, WORDS):
            found = {}
            words = loaded(of_b if slots.tall else of_a, offset + first * 4, min(WORDS, count - first))
            for word, value in enumerate(words, first):
                if slots.tall:  # of eight columns
                    for row, of_row in enumerate(rows):
                        factor = mul(of_row, value)
                        found |= {4 * word + 2 * row: factor, 4 * word + 2 * row + 1: factor}
                else:  # of a row, the even or the odd one of two
                    i, factor = 2 * word - word % 2, mul(value, of_columns)
                    found |= {i: factor, i + 2: factor}
            yield found


def loaded(at, offset: int, count: int) -> list:
    """Neighbouring words of shared memory."""
    values, first = [reg.scalar(f32) for _ in range(count)], 0
    while first < count:
        wide = min(4, 1 << ((count - first).bit_length() - 1))
        some, where = values[first : first + wide], ptx.addr(at, offset + first * 4)
        if wide == 1:
            ptx.inst.ld.shared.f32(some[0], where)
        else:
            getattr(ptx.inst.ld.shared, f"v{wide}").f32(some, where)
        first += wide
    return values
