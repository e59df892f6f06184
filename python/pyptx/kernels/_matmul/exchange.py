"""Parts of K as CTAs of a cluster: each adds up some groups of accumulators, which the others leave in its shared memory.

A group, four accumulators of a thread, is 16 bytes beside those of the next thread: what goes from CTA to CTA in 32 bytes takes several times as
long.  Parts are added in their order, so that a result is always the same.
"""

import functools
from dataclasses import dataclass

from pyptx import ptx, reg
from pyptx.kernels._matmul.tiles import WARPGROUP, WORD, Config, address, copied
from pyptx.types import PtxType, u32

__all__ = ["Exchange"]


@dataclass(frozen=True)
class Exchange:
    """`groups`: of four accumulators that a thread has, of one part or more; `threads`: that multiply."""

    parts: int
    groups: int
    threads: int

    @classmethod
    def of(cls, c: Config) -> "Exchange":
        """That of clusters with tiles."""
        return cls(c.parts, c.bm // 64 // c.consumers * c.bn // 8, WARPGROUP * c.consumers)

    @property
    def most(self) -> int:
        """The most groups that one CTA adds up."""
        return -(-self.groups // self.parts)

    def of_part(self, part: int) -> range:
        """The groups that one adds up."""
        return range(part * self.groups // self.parts, (part + 1) * self.groups // self.parts)

    @property
    def slot(self) -> int:
        """Bytes of what one leaves another."""
        return self.most * self.threads * WORD

    @property
    def landing(self) -> int:
        """Bytes of what others leave."""
        return (self.parts - 1) * self.slot

    def expect(self, part, landed):
        """How many bytes others leave, told to the barrier `landed` by one thread."""
        for each in range(self.parts):
            with ptx.if_(part == each):
                left = (self.parts - 1) * len(self.of_part(each)) * self.threads * WORD
                ptx.mbarrier.arrive_expect_tx(landed[0], left)

    def sums(self, part, rank_of, landing, landed, thread, groups: list, type_: PtxType) -> list:
        """This CTA's groups, added up over the parts.  `rank_of(part)`: the CTA of a part; `landing`: the address of what others leave."""
        at, pitch = landing + thread * WORD, self.threads * WORD
        for other in range(self.parts):
            with ptx.if_(part != other):
                slot, (to, bar) = copied(part), (reg.scalar(u32) for _ in range(2))
                ptx.inst.sub.u32(slot, slot, 1, pred=part > other)
                for there, here in ((to, at + slot * self.slot), (bar, address(landed))):
                    ptx.inst.mapa.shared__cluster.u32(there, here, rank_of(other))
                for i, group in enumerate(self.of_part(other)):
                    ptx.st_async(type_, ptx.addr(to, i * pitch), groups[group], ptx.addr(bar), sem="weak", vec="v4")
        ptx.mbarrier.wait(landed[0], 0)
        mine = reg.array(type_, 4 * self.most)
        for each in mine[4 * (self.groups // self.parts) :]:  # groups that not all have
            ptx.inst.mov.b32(each, 0)
        for own in range(self.parts):
            with ptx.if_(part == own):
                for i, group in enumerate(self.of_part(own)):
                    terms = []
                    for other in range(self.parts):
                        values = groups[group]
                        if other != own:
                            values = [reg.scalar(type_) for _ in range(4)]
                            there = ptx.addr(at, (other - (other > own)) * self.slot + i * pitch)
                            ptx.inst.ld.shared.v4.b32(values, there)
                        terms.append(values)
                    for into, value in zip(mine[4 * i : 4 * i + 4], functools.reduce(added, terms), strict=True):
                        ptx.inst.mov.b32(into, value)
        return mine


def added(one, two) -> list:
    return [x + y for x, y in zip(one, two, strict=True)]
