"""dk and dv of attention on Hopper for heads of more than 128 elements, and, in a fixed order, with values of another size than keys.

A CTA takes 64 keys.  Each of their two gradients fills the registers of a warpgroup: one computes P and dv, the other P, dS and dk.  Both
compute S.  They meet only before they store their results in the place of the operands.  _attention/dq.py computes dq.
"""

from dataclasses import dataclass

from pyptx import ptx, reg
from pyptx.kernels._attention.backward import (
    Backward,
    Warpgroup,
    exponent_of_scores,
    kernel_over_keys,
)
from pyptx.kernels._attention.forward import descriptor
from pyptx.kernels._attention.plan import K_MAJOR
from pyptx.kernels._attention.tiles import apply
from pyptx.types import b32, f32, s32, u64

__all__ = ["Wide", "wide_kernel"]


@dataclass(frozen=True)
class Wide(Backward):
    """How the kernel for one size of heads is cut."""

    rows: int = 64
    dq: bool = False

    @property
    def keys(self) -> int:
        return 64


def wide_kernel(dtype, plan: Wide):
    """The kernel from (q, k, v, do, sums) to (dk, dv).  Shapes are as in `backward_kernel`; v, do and dv may have fewer elements than q."""

    def consume(shared, tile, thread, group, _, results):
        with ptx.if_(group == 1):
            OfValues(plan, dtype, shared, tile, thread & 127, group - 1).run(results)
        with ptx.else_():
            OfKeys(plan, dtype, shared, tile, thread & 127, group - 1).run(results)

    return kernel_over_keys("attention_backward_wide", consume, dtype, plan)


class OfValues(Warpgroup):
    """The warpgroup that computes dv of the CTA's keys."""

    which = 1

    def __init__(self, plan: Wide, dtype, shared, tile, thread, number):
        self.plan, self.dtype, self.shared, self.tile = plan, dtype, shared, tile
        self.thread, self.number, self.first_key = thread, number, 0
        self.scores, self.p = list(reg.array(f32, plan.rows // 2)), [reg.scalar(b32) for _ in range(plan.rows // 4)]
        self.result = reg.array(f32, (plan.values if self.which else plan.width) // 2)
        self.q_ring, self.do_ring = ptx.pipeline(plan.stages), ptx.pipeline(plan.stages)
        self.leader = thread == 0
        base = shared.base
        self.k, self.v = (descriptor(base + at, K_MAJOR) for at in (0, plan.at_v))
        self.q, self.do = (descriptor(base + at, K_MAJOR) for at in (plan.at_q, plan.at_do))
        across = K_MAJOR & ~0xFFFF0000 | plan.rows * 8 << 16  # from 64 columns to the next
        self.q_mn, self.do_mn = (descriptor(base + at, across) for at in (plan.at_q, plan.at_do))

    def run(self, results):
        tile = self.tile
        self.c = exponent_of_scores(self.plan, tile)
        for each in self.result:
            ptx.inst.mov.f32(each, 0.0)
        self._wait_for_keys()
        for _ in tile.heads():
            index = tile.first
            for until, masked in self._stretches():
                for at in ptx.range_(index, until, 1):
                    self._block(at, masked)
                index = apply(s32, ptx.inst.max.s32, index, until)
        self._free(self.shared.operands_empty)
        ptx.mbarrier.wait(self.shared.operands_empty, 0)
        self._finish()
        self._store(results, [(self.which, self.result, self.which * self.plan.at_v)], 0, 64)

    def _finish(self):
        pass

    def _block(self, index, masked: bool):
        plan, shared = self.plan, self.shared
        (stage, phase), (do_stage, do_phase) = self.q_ring.advance(), self.do_ring.advance()
        if plan.ragged:
            self._clear_queries(index, (stage, phase), (do_stage, do_phase))
        ptx.mbarrier.wait(shared.q_full[stage], phase)
        ptx.wgmma.fence()
        self._by_columns(self.scores, self.k, self._at(stage, plan.q_bytes, self.q), plan.width)
        ptx.mbarrier.wait(shared.do_full[do_stage], do_phase)
        sums = shared.base + stage * (2 * plan.rows * 4) + ((self.thread & 3) << 3)
        self._gradients(index, masked, sums, stage, do_stage)
        self._sync_group()  # all have read the sums
        ptx.wgmma.wait_group(0)
        self._free(shared.q_empty[stage])
        self._free(shared.do_empty[do_stage])

    def _at(self, stage, bytes_: int, first):
        return apply(u64, ptx.inst.mad.wide.u32, stage, bytes_ >> 4, first)

    def _gradients(self, index, masked: bool, sums, stage, do_stage):
        ptx.wgmma.wait_group(0)
        self._probabilities(index, masked, sums)
        ptx.wgmma.fence()
        self._by_rows(self.result, self.p, self._at(do_stage, self.plan.do_bytes, self.do_mn))


class OfKeys(OfValues):
    """The warpgroup that computes dk of the CTA's keys."""

    which = 0

    def __init__(self, plan: Wide, *rest):
        super().__init__(plan, *rest)
        self.dp, self.ds = list(reg.array(f32, plan.rows // 2)), [reg.scalar(b32) for _ in range(plan.rows // 4)]

    def _gradients(self, index, masked: bool, sums, stage, do_stage):
        self._by_columns(self.dp, self.v, self._at(do_stage, self.plan.do_bytes, self.do), self.plan.values)
        ptx.wgmma.wait_group(1)
        self._probabilities(index, masked, sums)
        ptx.wgmma.wait_group(0)
        self._differences(sums)
        ptx.wgmma.fence()
        self._by_rows(self.result, self.ds, self._at(stage, self.plan.q_bytes, self.q_mn))

    def _finish(self):
        for each in self.result:
            ptx.inst.mul.rn.f32(each, each, self.tile.scale)
