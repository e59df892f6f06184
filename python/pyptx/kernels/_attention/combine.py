"""Adds up the parts of an attention over stretches of keys, which `decode_kernel` and `cache_kernel` leave in f32, with the sums of their
exponentials.

A CTA has 128 columns of a row, and each of its warps every fourth part; or, of many rows, each of its warps has all parts of a row.  There
are up to 64 parts; lane l of each warp has the weights of parts l and l + 32.
"""

import math

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.softmax import power
from pyptx.kernels._attention.tiles import apply
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E, divided, registers, smem_address
from pyptx.types import b32, f32, u32, u64

__all__ = ["WARPS", "combine_kernel"]

WARPS, COLUMNS, UNROLL = 4, 128, 4


def combine_kernel(dtype, sinks=False, early=True, sharing=WARPS):
    """The kernel from parts (S, L, DV) and sums (S, L, 2) to o (L, DV) and lse (L), where L counts the rows of all sequences and heads.

    sums: (b, s): the exponentials of a part add up to s 2^b; (-inf, 0) where it has no key.  As a logarithm s is lost where b is large.
    sinks: a third tensor, (H) f32, whose exponentials are added to the sums; `queries` rows belong to one head.
    early: the kernel may begin while the one before it runs, which GPUs since sm_90 can do.
    sharing: how many warps share a row: WARPS, or 1."""
    names = ("PARTS", "SUMS", *["SINKS"] * sinks, "OUT", "LSE")
    more = [("u32", "H"), ("u32", "queries")] if sinks else []

    def body(PARTS, SUMS, OUT, LSE, SINKS=None):
        parts = Parts(sharing, PARTS, SUMS, OUT, LSE)
        if early:
            ptx.griddepcontrol.launch_dependents()
            ptx.griddepcontrol.wait()
        parts.add_up(SINKS)
        parts.store(dtype)
        ptx.ret()

    return kernel(
        in_specs=(Tile("S", "L", "DV", f32, align=16), Tile("S", "L", 2, f32, align=8), *[Tile("H", f32)] * sinks),
        out_specs=(Tile("L", "DV", dtype), Tile("L", f32)),
        raw_params=[*(("u32", name) for name in ("S", "L", "DV")), *more],
        grid=lambda L, DV: (-(-L * sharing // WARPS), -(-DV // COLUMNS), 1),
        block=(32 * WARPS, 1, 1),
        reqntid=True,
        dependent_launch=early,
        arch="sm_90" if early else "sm_80",
    )(with_tensors("combine_attention", names, body))


class Parts:
    """The parts of a row and its columns, of which a warp has every `sharing`-th.  `total`: what their sums add up to, relative to the
    `largest` exponent."""

    def __init__(self, sharing: int, PARTS, SUMS, OUT, LSE):
        parts, self.sums, self.out, self.lse = ptx.global_ptrs(PARTS, SUMS, OUT, LSE)
        self.count, self.lines, self.width = (ptx.param(u32, name) for name in ("S", "L", "DV"))
        ids = ptx.special.tid.x(), ptx.special.ctaid.x(), ptx.special.ctaid.y()
        self.thread, self.line, self.y = (reg.from_(each, u32) for each in ids)
        self.lane, self.warp = self.thread & 31, self.thread >> 5
        self.sharing = sharing
        if sharing == 1:
            self.line = self.line * WARPS + self.warp
            ptx.ret(pred=self.line >= self.lines)
        self.first_column = self.y << 7
        column = self.first_column + (self.lane << 2)
        if sharing > 1:
            self.memory = smem_address(smem.alloc(f32, WARPS * COLUMNS, align=16))
        self.step = apply(u64, ptx.inst.mul.wide.u32, self.lines, self.width) * 4  # from a part to the next
        from_ = apply(u32, ptx.inst.selp.u32, column, 0, column < self.width)
        self.begin = parts + (apply(u64, ptx.inst.mul.wide.u32, self.line, self.width) + from_) * 4

    def add_up(self, SINKS):
        """Adds up each warp's parts with their weights."""
        sums = self.fetched_sums()
        loaded = self.fetched(0)
        weights = self.weigh(sums, SINKS)
        self.result = [reg.scalar(f32, init=0.0) for _ in range(4)]
        self.add(weights, 0, loaded)
        step = self.sharing * UNROLL
        for first in ptx.range_(reg.scalar(u32, init=step), self.count, step):
            self.add(weights, first, self.fetched(first))

    def fetched_sums(self) -> list:
        """(exponent, sum) of the lane's two parts."""
        sums = [(reg.scalar(f32, init=-math.inf), reg.scalar(f32, init=0.0)) for _ in range(2)]
        for half, pair in enumerate(sums):
            index = self.lane + 32 * half
            at = apply(u64, ptx.inst.mul.wide.u32, index, self.lines) + self.line
            ptx.inst.ld.global_.v2.f32(list(pair), ptx.addr(self.sums + at * 8), pred=index < self.count)
        return sums

    def part(self, first, i: int):
        """The warp's part number i behind part `first`."""
        return first + self.warp + WARPS * i if self.sharing > 1 else first + i

    def fetched(self, first) -> list:
        """Loads the thread's elements of UNROLL parts.  Those behind the last part are loaded again, and have weight 0."""
        loaded = []
        for i in range(UNROLL):
            at = apply(u32, ptx.inst.min.u32, self.part(first, i), self.count - 1)
            loaded.append(registers(f32, 4))
            where = ptx.addr(self.begin + apply(u64, ptx.inst.cvt.u64.u32, at) * self.step)
            ptx.inst.ld.global_.v4.f32(loaded[-1], where)
        return loaded

    def weigh(self, sums: list, SINKS) -> list:
        self.largest = apply(f32, ptx.inst.max.f32, *(exponent for exponent, _ in sums))
        ptx.warp.reduce_max(self.largest)
        if SINKS:
            sink = self.sink(SINKS)
            ptx.inst.max.f32(self.largest, self.largest, sink)
        nearest = apply(f32, ptx.inst.selp.f32, 0.0, self.largest, self.largest == -math.inf)
        weights = [apply(f32, ptx.inst.mul.rn.f32, sum_, power(exponent, nearest)) for exponent, sum_ in sums]
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

    def add(self, weights: list, first, loaded: list):
        for i, values in enumerate(loaded):
            index = self.part(first, i)
            weight = apply(f32, ptx.inst.selp.f32, *weights, index < 32)
            ptx.inst.shfl.sync.idx.b32(weight, weight, index & 31, 31, 0xFFFFFFFF)
            for into, value in zip(self.result, values, strict=True):
                ptx.inst.fma.rn.f32(into, value, weight, into)

    def store(self, dtype):
        """Stores the row's sums and the logarithm of the sum of exponentials."""
        inverse = apply(f32, ptx.inst.rcp.approx.ftz.f32, self.total)
        ptx.inst.selp.f32(inverse, 0.0, inverse, self.total == 0.0)
        at = self.out + (apply(u64, ptx.inst.mul.wide.u32, self.line, self.width) + self.first_column) * 2
        if self.sharing == 1:
            column = self.lane << 2
            packed = self.packed(dtype, self.result, inverse)
            with ptx.if_(self.first_column + column < self.width):
                ptx.inst.st.global_.v2.b32(ptx.addr(at + apply(u64, ptx.inst.mul.wide.u32, column, 2)), packed)
            first = self.lane | self.y
        else:
            self.store_shared(dtype, at, inverse)
            first = self.thread | self.y
        log = apply(f32, ptx.inst.lg2.approx.f32, self.total)
        ptx.inst.add.f32(log, log, self.largest)
        ptx.inst.mul.rn.f32(log, log, 1 / LOG2_E)
        ptx.inst.st.global_.f32(
            ptx.addr(self.lse + apply(u64, ptx.inst.mul.wide.u32, self.line, 4)), log, pred=first == 0
        )

    def store_shared(self, dtype, at, inverse):
        """Adds up the sums of the warps through shared memory and stores them, two columns for each thread."""
        ptx.inst.st.shared.v4.f32(ptx.addr(self.memory + (self.thread << 4)), self.result)
        ptx.bar.sync(0)
        pair = self.thread << 1
        with ptx.if_((self.thread < COLUMNS // 2) & (self.first_column + pair < self.width)):
            added = [reg.scalar(f32, init=0.0) for _ in range(2)]
            for i in range(WARPS):
                values = registers(f32, 2)
                ptx.inst.ld.shared.v2.f32(values, ptx.addr(self.memory + (pair << 2), 4 * COLUMNS * i))
                for into, value in zip(added, values, strict=True):
                    ptx.inst.add.f32(into, into, value)
            (packed,) = self.packed(dtype, added, inverse)
            ptx.inst.st.global_.b32(ptx.addr(at + apply(u64, ptx.inst.mul.wide.u32, pair, 2)), packed)

    def packed(self, dtype, values: list, factor) -> list:
        """The values times the factor, rounded, two in a register."""
        convert = getattr(ptx.inst.cvt.rn, dtype.name + "x2").f32
        values = [apply(f32, ptx.inst.mul.rn.f32, each, factor) for each in values]
        return [apply(b32, convert, high, low) for low, high in zip(values[::2], values[1::2], strict=True)]
