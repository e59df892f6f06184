"""How the threads of a row come to one value: within a warp by shuffles, within a CTA by shared memory, within a cluster by that
of all its CTAs.

Each warp leaves its value in shared memory and every thread combines them all; then each CTA of a cluster leaves its own in all
of them.  Two halves of the memory take turns: who writes one has seen the barrier behind which the other was read.  A loop whose
body agrees an odd number of times begins its next round with the other half.
"""

from pyptx import ptx, reg, smem
from pyptx.kernels._registers import apply, copied, smem_address, tree
from pyptx.kernels._rows_split import MOST_CTAS, Split
from pyptx.types import f32, u32

__all__ = ["Agreement", "warp_max"]

MOST_WARPS = 32


class Agreement:
    """Of the threads of a row; `warp`, `lane`, `thread`: of the CTA, `rank`: its own in the cluster, if there is one."""

    def __init__(self, split: Split, thread, lane, warp, rank):
        self.split, self.thread, self.lane, self.warp, self.rank = split, thread, lane, warp, rank
        self.warps = split.threads // 32
        self.partials = Exchange(MOST_WARPS) if self.warps > 1 else None
        self.totals = Exchange(MOST_CTAS) if split.ctas > 1 else None
        self.turn = 0  # agreements so far
        self.entered = split.ctas == 1

    def announce(self):
        """To the cluster, that this CTA has begun."""
        if self.split.ctas > 1:
            ptx.inst.barrier.cluster.arrive.relaxed()

    def enter(self):
        """Waits, once, until all CTAs of the cluster have begun: only then there is memory to write to."""
        if not self.entered:
            ptx.inst.barrier.cluster.wait()
            self.entered = True

    def begin_loop(self):
        self.enter()
        for each in filter(None, (self.partials, self.totals)):
            each.begin_loop()

    def end_round(self, before: int):
        """Behind the body of a loop at whose beginning there were so many agreements."""
        if (self.turn - before) % 2:
            for each in filter(None, (self.partials, self.totals)):
                each.turn_over()

    def __call__(self, results: list, combine, over_warp) -> list:
        """Registers of each thread, combined over the row."""
        for each in results:
            over_warp(each)
        half = self.turn % 2
        self.turn += 1
        if self.warps > 1:
            base = self.partials.address(half)
            slot = base + self.warp * 4
            with ptx.if_(self.lane == 0):
                for i, each in enumerate(results):
                    ptx.inst.st.shared.f32(ptx.addr(slot, i * MOST_WARPS * 4), each)
            ptx.bar.sync(0)
            gather(results, base, 4 * MOST_WARPS, self.warps, combine)
        if self.split.ctas > 1:
            self.over_cluster(results, half, combine)
        return results

    def over_cluster(self, results, half: int, combine):
        self.enter()
        base = self.totals.address(half)
        with ptx.if_(self.thread < self.split.ctas):
            there = reg.scalar(u32)
            ptx.inst.mapa.shared__cluster.u32(there, base + self.rank * 4, self.lane)
            for i, each in enumerate(results):
                ptx.inst.st.shared__cluster.f32(ptx.addr(there, i * MOST_CTAS * 4), each)
        ptx.cluster.sync()
        gather(results, base, 4 * MOST_CTAS, self.split.ctas, combine)


def gather(results, base, pitch: int, count: int, combine):
    """Each result of the `count` values that lie side by side."""
    for i, each in enumerate(results):
        parts = []
        while len(parts) < count:
            where = ptx.addr(base, i * pitch + len(parts) * 4)
            if count - len(parts) >= 4:
                parts += (four := [reg.scalar(f32) for _ in range(4)])
                ptx.inst.ld.shared.v4.f32(four, where)
            else:
                parts.append(apply(ptx.inst.ld.shared.f32, where))
        ptx.inst.mov.f32(each, tree(parts, combine))


class Exchange:
    """Where warps, or CTAs, leave what the others read: two halves, of up to four results of `count` each."""

    def __init__(self, count: int):
        self.count, self.half = count, 4 * count * 4  # bytes
        self.memory = smem.alloc(f32, (2, 4, count), align=2 * self.half)
        self.halves = None

    def address(self, half: int):
        if self.halves is not None:
            return self.halves[half]
        base = smem_address(self.memory)
        return base + self.half if half else base

    def begin_loop(self):
        """From here on the addresses are registers that `turn_over` changes."""
        self.halves = [copied(self.address(half)) for half in (0, 1)]

    def turn_over(self):
        """At the end of a loop's body that has an odd number of agreements: the next time begins with the other half."""
        for each in self.halves:
            ptx.inst.xor.b32(each, each, self.half)


def warp_max(value):
    """The largest of a warp's values in all lanes; NaN where there is one, which `ptx.warp.reduce_max` leaves out."""
    for distance in (16, 8, 4, 2, 1):
        other = reg.scalar(f32)
        ptx.inst.shfl.sync.bfly.b32(other, value, distance, 31, 0xFFFFFFFF)
        ptx.inst.max.NaN.f32(value, value, other)
