"""Adds up the parts of an attention over stretches of keys, which `decode_kernel` and `cache_kernel` leave in f32, with the logarithms of
their sums.

A CTA has 128 columns of a row, and each of its warps every fourth part.  There are up to 64 parts; lane l of each warp has the weights of
parts l and l + 32.
"""

import math

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention_tiles import apply
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E, divided, registers, smem_address
from pyptx.types import b32, f32, u32, u64

__all__ = ["combine_kernel"]

WARPS, COLUMNS, UNROLL = 4, 128, 4


def combine_kernel(dtype, sinks=False, early=True):
    """The kernel from parts (S, L, DV) and sums (S, L) to o (L, DV) and lse (L), where L counts the rows of all sequences and heads.

    sinks: a third tensor, (H) f32, whose exponentials are added to the sums; `queries` rows belong to one head.
    early: the kernel may begin while the one before it runs, which GPUs since sm_90 can do."""
    names = ("PARTS", "SUMS", *["SINKS"] * sinks, "OUT", "LSE")
    more = [("u32", "H"), ("u32", "queries")] if sinks else []

    def body(PARTS, SUMS, OUT, LSE, SINKS=None):
        parts = Parts(PARTS, SUMS, OUT, LSE)
        if early:
            ptx.griddepcontrol.launch_dependents()
            ptx.griddepcontrol.wait()
        parts.add_up(SINKS)
        parts.store(dtype)
        ptx.ret()

    return kernel(
        in_specs=(Tile("S", "L", "DV", f32, align=16), Tile("S", "L", f32), *[Tile("H", f32)] * sinks),
        out_specs=(Tile("L", "DV", dtype), Tile("L", f32)),
        raw_params=[*(("u32", name) for name in ("S", "L", "DV")), *more],
        grid=lambda L, DV: (L, -(-DV // COLUMNS), 1),
        block=(32 * WARPS, 1, 1),
        reqntid=True,
        dependent_launch=early,
        arch="sm_90" if early else "sm_80",
    )(with_tensors("combine_attention", names, body))


class Parts:
    """The parts of the CTA's row and columns.  `total`: the sum of the exponentials of `sums`, relative to the `largest` of them."""

    def __init__(self, PARTS, SUMS, OUT, LSE):
        parts, self.sums, self.out, self.lse = ptx.global_ptrs(PARTS, SUMS, OUT, LSE)
        self.count, self.lines, self.width = (ptx.param(u32, name) for name in ("S", "L", "DV"))
        ids = ptx.special.tid.x(), ptx.special.ctaid.x(), ptx.special.ctaid.y()
        self.thread, self.line, self.y = (reg.from_(each, u32) for each in ids)
        self.lane, self.warp = self.thread & 31, self.thread >> 5
        self.first_column = self.y << 7
        column = self.first_column + (self.lane << 2)
        self.memory = smem_address(smem.alloc(f32, WARPS * COLUMNS, align=16))
        self.step = apply(u64, ptx.inst.mul.wide.u32, self.lines, self.width) * 4  # from a part to the next
        from_ = apply(u32, ptx.inst.selp.u32, column, 0, column < self.width)
        self.begin = parts + (apply(u64, ptx.inst.mul.wide.u32, self.line, self.width) + from_) * 4

    def add_up(self, SINKS):
        """Adds up each warp's parts with their weights, and stores the sum to shared memory."""
        logs = self.logarithms()
        loaded = self.fetched(0)
        weights = self.weigh(logs, SINKS)
        result = [reg.scalar(f32, init=0.0) for _ in range(4)]
        self.add(result, weights, 0, loaded)
        step = WARPS * UNROLL
        for first in ptx.range_(reg.scalar(u32, init=step), self.count, step):
            self.add(result, weights, first, self.fetched(first))
        ptx.inst.st.shared.v4.f32(ptx.addr(self.memory + (self.thread << 4)), result)
        ptx.bar.sync(0)

    def logarithms(self) -> list:
        logs = [reg.scalar(f32, init=-math.inf) for _ in range(2)]
        for half, log in enumerate(logs):
            index = self.lane + 32 * half
            at = apply(u64, ptx.inst.mul.wide.u32, index, self.lines) + self.line
            ptx.inst.ld.global_.f32(log, ptx.addr(self.sums + at * 4), pred=index < self.count)
        return logs

    def fetched(self, first) -> list:
        """Loads the thread's elements of UNROLL parts.  Those behind the last part are loaded again, and have weight 0."""
        loaded = []
        for i in range(UNROLL):
            at = apply(u32, ptx.inst.min.u32, first + self.warp + WARPS * i, self.count - 1)
            loaded.append(registers(f32, 4))
            where = ptx.addr(self.begin + apply(u64, ptx.inst.cvt.u64.u32, at) * self.step)
            ptx.inst.ld.global_.v4.f32(loaded[-1], where)
        return loaded

    def weigh(self, logs: list, SINKS) -> list:
        self.largest = apply(f32, ptx.inst.max.f32, *logs)
        ptx.warp.reduce_max(self.largest)
        if SINKS:
            sink = self.sink(SINKS)
            ptx.inst.max.f32(self.largest, self.largest, sink)
        nearest = apply(f32, ptx.inst.selp.f32, 0.0, self.largest, self.largest == -math.inf)
        weights = [power(log, nearest) for log in logs]
        self.total = apply(f32, ptx.inst.add.f32, *weights)
        ptx.warp.reduce_sum(self.total)
        if SINKS:
            ptx.inst.add.f32(self.total, self.total, power(sink, nearest))
        return weights

    def sink(self, SINKS):
        """The sink of the row's head, as an exponent of 2."""
        _, head = divided(divided(self.line, ptx.param(u32, "queries"))[0], ptx.param(u32, "H"))
        (sinks,) = ptx.global_ptrs(SINKS)
        sink = apply(f32, ptx.inst.ld.global_.f32, ptx.addr(sinks + apply(u64, ptx.inst.mul.wide.u32, head, 4)))
        ptx.inst.mul.rn.f32(sink, sink, LOG2_E)
        return sink

    def add(self, result: list, weights: list, first, loaded: list):
        for i, values in enumerate(loaded):
            index = first + self.warp + WARPS * i
            weight = apply(f32, ptx.inst.selp.f32, *weights, index < 32)
            ptx.inst.shfl.sync.idx.b32(weight, weight, index & 31, 31, 0xFFFFFFFF)
            for into, value in zip(result, values, strict=True):
                ptx.inst.fma.rn.f32(into, value, weight, into)

    def store(self, dtype):
        """Adds up the sums of the warps and stores them, two columns for each thread, and the logarithm of the sum."""
        inverse = apply(f32, ptx.inst.rcp.approx.ftz.f32, self.total)
        ptx.inst.selp.f32(inverse, 0.0, inverse, self.total == 0.0)
        pair = self.thread << 1
        with ptx.if_((self.thread < COLUMNS // 2) & (self.first_column + pair < self.width)):
            added = [reg.scalar(f32, init=0.0) for _ in range(2)]
            for i in range(WARPS):
                values = registers(f32, 2)
                ptx.inst.ld.shared.v2.f32(values, ptx.addr(self.memory + (pair << 2), 4 * COLUMNS * i))
                for into, value in zip(added, values, strict=True):
                    ptx.inst.add.f32(into, into, value)
            low, high = (apply(f32, ptx.inst.mul.rn.f32, each, inverse) for each in added)
            packed = apply(b32, getattr(ptx.inst.cvt.rn, dtype.name + "x2").f32, high, low)
            at = apply(u64, ptx.inst.mul.wide.u32, self.line, self.width) + (self.first_column + pair)
            ptx.inst.st.global_.b32(ptx.addr(self.out + at * 2), packed)
        log = apply(f32, ptx.inst.lg2.approx.f32, self.total)
        ptx.inst.add.f32(log, log, self.largest)
        ptx.inst.mul.rn.f32(log, log, 1 / LOG2_E)
        at = apply(u64, ptx.inst.mul.wide.u32, self.line, 4)
        ptx.inst.st.global_.f32(ptx.addr(self.lse + at), log, pred=(self.thread | self.y) == 0)


def power(x, base):
    return apply(f32, ptx.inst.ex2.approx.ftz.f32, apply(f32, ptx.inst.sub.f32, x, base))
