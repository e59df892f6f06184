"""How the threads of a row combine their values, for example to a sum: by shuffles within a warp, through shared memory within a CTA, by
messages within a cluster.

Each warp leaves its value in shared memory, and every thread combines the values of all warps.  Two halves of the memory take turns: a
warp that writes one half has passed a barrier after which nobody reads that half.  If the body of a loop combines values an odd number
of times, the next round begins with the other half.
"""

import math
from collections.abc import Sequence

from pyptx import ptx, reg, smem
from pyptx.kernels._registers import apply, copied, smem_address, tree
from pyptx.kernels._rows.messages import Messages
from pyptx.kernels._rows.split import WARP, Split
from pyptx.types import f32, u32

__all__ = ["Agreement", "over_warps", "warp_max"]


class Agreement:
    """What combines the values of a row's threads.

    thread: the thread's number in the CTA; lane: its number in the warp.  warp: the warp's number among those of the row in the CTA.
    rank: the CTA's number in the cluster, if there is one.  group: the number of the row in the CTA, if it has several.
    """

    def __init__(self, split: Split, thread, lane, warp, rank, group):
        self.warp, self.lane = warp, lane
        self.lanes = min(WARP, split.threads)  # of a warp, that share a row
        self.warps = split.threads // self.lanes
        self.partials = self.messages = None
        if split.ctas > 1 or split.pipelined:
            sender, slots = warp if rank is None else rank * self.warps + warp, 4 if split.pipelined else 2
            self.messages = Messages(split.ctas, self.warps, sender, slots, thread, lane, group, split.rows)
        elif self.warps > 1:
            self.partials = Exchange(self.warps, group, split.rows)
            self.barrier = (0,) if group is None else (group + 1, split.threads)
        self.turn = 0  # agreements so far
        self.lanes_read = False  # whether lanes of a warp have read what another one may overwrite behind the agreement
        self.before = None  # in a loop with messages: a register, those of earlier rounds, which `turn` does not count

    def announce(self):
        """Tells the cluster that this CTA has begun."""
        if self.messages:
            self.messages.announce()

    def begin_loop(self):
        if self.messages:
            self.messages.enter()
            self.before, self.turn = reg.scalar(u32, init=self.turn), 0
        if self.partials:
            self.partials.begin_loop()

    def end_round(self, before: int):
        """Ends the body of a loop; `before` is what `turn` was at its beginning."""
        if self.messages:
            self.before += self.turn - before
            self.turn = before
        if self.partials and (self.turn - before) % 2:
            self.partials.turn_over()

    def exchange(self, values: list, empty: list) -> list:
        """Sends the warp's values to the other warps of the cluster, and returns what each has sent; `empty`: for warps that do not exist."""
        turn = self.turn if self.before is None else self.before + self.turn
        self.turn += 1
        self.messages.send(turn, values)
        return self.messages.receive(turn, empty)

    def sums(self, values: list) -> list:
        return self._of(values, ptx.inst.add.f32, ptx.warp.reduce_sum, 0.0)

    def largest(self, value):
        """The largest value of all threads; NaN if one is NaN."""
        return self._of([value], ptx.inst.max.NaN.f32, warp_max, -math.inf)[0]

    def all_of(self, results: list) -> list[list]:
        """The results of each warp of the CTA, in all threads."""
        base = self.partials.address(self.turn % 2)
        self.turn += 1
        slot = base + self.warp * 4
        with ptx.if_(self.lane == 0):
            for i, each in enumerate(results):
                ptx.inst.st.shared.f32(ptx.addr(slot, i * self.partials.pitch), each)
        ptx.bar.sync(*self.barrier)
        return list(
            zip(*(gathered(base, i * self.partials.pitch, self.warps) for i in range(len(results))), strict=True)
        )

    def _of(self, results: list, combine, over_warp, empty: float) -> list:
        """Combines the registers of all threads of the row.  The values of `results` change."""
        for each in results if self.lanes > 1 else ():
            over_warp(each, width=self.lanes)
        if self.partials:
            results = [tree(column, combine) for column in zip(*self.all_of(results), strict=True)]
        elif self.messages:
            parts = self.exchange(results, [empty] * len(results))
            results = over_warps(parts, combine, over_warp)
        elif self.lanes_read and self.lanes > 1:  # shuffles order no memory
            ptx.warp.sync(0xFFFFFFFF)
        return results


def over_warps(parts: Sequence, combine, over_warp) -> list:
    """Combines the parts that each lane has received, over all lanes; `over_warp` is None if every lane has received all parts."""
    results = [tree(column, combine) for column in zip(*parts, strict=True)]
    for each in results if over_warp else ():
        over_warp(each)
    return results


def gathered(base, offset: int, count: int) -> list:
    """The `count` values that lie side by side."""
    parts = []
    while len(parts) < count:
        where = ptx.addr(base, offset + len(parts) * 4)
        if count - len(parts) >= 4:
            parts += (four := [reg.scalar(f32) for _ in range(4)])
            ptx.inst.ld.shared.v4.f32(four, where)
        else:
            parts.append(apply(ptx.inst.ld.shared.f32, where))
    return parts


class Exchange:
    """Shared memory where warps leave values for each other: for each of `groups` rows two halves, each for up to four results of `count`
    warps."""

    def __init__(self, count: int, group, groups: int):
        count = 1 << max(2, (count - 1).bit_length())
        self.pitch, self.half = 4 * count, 4 * count * 4  # bytes
        self.memory, self.group = smem.alloc(f32, (groups, 2, 4, count), align=2 * self.half), group
        self.halves = None

    def address(self, half: int):
        if self.halves is not None:
            return self.halves[half]
        base = smem_address(self.memory)
        if self.group is not None:
            base = base + self.group * (2 * self.half)
        return base + self.half if half else base

    def begin_loop(self):
        """From here on the addresses are registers that `turn_over` changes."""
        self.halves = [copied(self.address(half)) for half in (0, 1)]

    def turn_over(self):
        """Ends the body of a loop that has used the halves an odd number of times: the next round begins with the other half."""
        for each in self.halves:
            ptx.inst.xor.b32(each, each, self.half)


def warp_max(value, width: int = WARP):
    """Makes `value` the largest of `width` neighbouring lanes, in each of them; NaN if one is NaN, where `ptx.warp.reduce_max` ignores NaN."""
    while width := width // 2:
        other = reg.scalar(f32)
        ptx.inst.shfl.sync.bfly.b32(other, value, width, 31, 0xFFFFFFFF)
        ptx.inst.max.NaN.f32(value, value, other)
