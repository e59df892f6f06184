"""Attention of one query to a head, and its gradients, as of pooling by attention: both read k and v once, and the gradients are as large as
these.  So it is memory that bounds both, and no tensor core is used.

A CTA takes a stretch of the keys of a head.  A warp of its own fetches blocks of keys into a ring; lanes of the others have 8 elements of a key
each.  The CTAs of a head are a cluster in the forward, whose results one of them adds up.  In the gradients they are as many as fill the GPU;
dq comes in parts, which `add_parts_kernel` (_attention/sums.py) adds up.

It leaves out heads that share keys, caps of scores, sinks and masks that are tensors.
"""

import math
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.plan import options_of
from pyptx.kernels._attention.softmax import UNSEEN, power
from pyptx.kernels._attention.tiles import apply, signed, take_scalars
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E, divided, narrowed, quotient, smem_address, widened
from pyptx.types import b32, f32, s32, u8, u32, u64

__all__ = ["OneQuery", "one_query_gradient_kernel", "one_query_kernel"]

WARPS = 8  # that compute
PIECE = 8  # elements of a lane


@dataclass(frozen=True)
class OneQuery:
    """How the kernels are cut.  `ctas`: CTAs of a cluster."""

    width: int
    values: int
    right: bool = False
    left: bool = False
    ctas: int = 1

    stages = 3
    softcap = False  # of `options_of`

    @property
    def keys(self) -> int:
        """Keys of a block."""
        return 64 if self.width <= 128 else 32

    @property
    def lanes(self) -> int:
        """Lanes of a key."""
        return 32 if self.width > 128 else self.width // PIECE

    @property
    def at_once(self) -> int:
        """Keys that a warp takes at a time."""
        return 32 // self.lanes

    @property
    def steps(self) -> int:
        """How often a warp takes keys of a block."""
        return self.keys // (WARPS * self.at_once)

    @property
    def k_bytes(self) -> int:
        return self.keys * self.width * 2

    @property
    def stage_bytes(self) -> int:
        return self.k_bytes + self.keys * self.values * 2

    @property
    def bytes(self) -> int:
        return self.stages * self.stage_bytes

    @property
    def threads(self) -> int:
        return 32 * (WARPS + 1)

    def scalars(self, *more: str) -> list:
        return [*(("u32", name) for name in ("H", "N", "D", "E", *more)), *options_of(self)]


def tiles_of(dtype, plan: OneQuery) -> list:
    """The Tiles of q, k and v."""
    keys = [
        Tile("B", "H", "N", name, dtype, tma_box=(1, 1, plan.keys, width), packed=False)
        for name, width in (("D", plan.width), ("E", plan.values))
    ]
    return [Tile("B", "H", 1, "D", dtype, align=16), *keys]


def one_query_kernel(dtype, plan: OneQuery):
    """The kernel from (q, k, v) to (o, log-sum-exp): q (B, H, 1, D), k (B, H, N, D), v (B, H, N, E), o (B, H, 1, E), the sums (B, H, 1) f32."""

    def body(Q, K, V, OUT, LSE):
        stretch = Stretch(plan, plan.ctas)
        shared = Shared(plan, plan.values)
        pointers = dict(zip("qo", ptx.global_ptrs(Q, OUT), strict=True))
        (lse,) = ptx.global_ptrs(LSE)
        with ptx.if_(shared.fetches):
            shared.fetch(stretch, K.tma_desc(), V.tma_desc())
        with ptx.else_():
            Forward(dtype, shared, stretch, pointers).run()
        ptx.cluster.sync() if plan.ctas > 1 else ptx.bar.sync(0)
        with ptx.if_(stretch.part == 0):
            add_up(dtype, shared, stretch, pointers["o"], lse)
        if plan.ctas > 1:
            ptx.cluster.sync()  # the first CTA has read what the others have
        ptx.ret()

    return kernel(
        in_specs=tuple(tiles_of(dtype, plan)),
        out_specs=(Tile("B", "H", 1, "E", dtype, align=16), Tile("B", "H", 1, f32)),
        raw_params=plan.scalars(),
        grid=lambda B, H: (B * H * plan.ctas, 1, 1),
        block=(plan.threads, 1, 1),
        cluster=(plan.ctas, 1, 1) if plan.ctas > 1 else None,
        reqntid=True,
        batch="B",
        arch="sm_90a",
    )(with_tensors("one_query_attention", ("Q", "K", "V", "OUT", "LSE"), body))


def one_query_gradient_kernel(dtype, plan: OneQuery):
    """The kernel from (q, k, v, o, do, lse, dlse) to (dq in S parts (B, S, H, 1, D) f32, dk, dv)."""

    def body(Q, K, V, OUT, DO, LSE, DLSE, DQ, DK, DV):
        stretch = Stretch(plan, ptx.param(u32, "S"), whole=True)
        shared = Shared(plan, plan.width)
        names = ("q", "o", "do", "lse", "dlse", "dq", "dk", "dv")
        pointers = dict(zip(names, ptx.global_ptrs(Q, OUT, DO, LSE, DLSE, DQ, DK, DV), strict=True))
        with ptx.if_(shared.fetches):
            shared.fetch(stretch, K.tma_desc(), V.tma_desc())
        with ptx.else_():
            Gradient(dtype, shared, stretch, pointers).run()
        ptx.ret()

    row, number = Tile("B", "H", 1, "E", dtype, align=16), Tile("B", "H", 1, f32)
    return kernel(
        in_specs=(*tiles_of(dtype, plan), row, row, number, number),
        out_specs=(
            Tile("B", "S", "H", 1, "D", f32, align=16), Tile("B", "H", "N", "D", dtype, align=16),
            Tile("B", "H", "N", "E", dtype, align=16),
        ),
        raw_params=plan.scalars("S"),
        grid=lambda B, H, S: (B * H * S, 1, 1),
        block=(plan.threads, 1, 1),
        reqntid=True,
        batch="B",
        arch="sm_90a",
    )(with_tensors("one_query_gradients", ("Q", "K", "V", "OUT", "DO", "LSE", "DLSE", "DQ", "DK", "DV"), body))  # fmt: skip


class Stretch:
    """The CTA's blocks of keys, `first` to `last` without that one, of a head; the query sees the keys from `begin` to `end`.  `parts`: CTAs of a
    head.  `whole`: blocks that the query does not see count too."""

    def __init__(self, plan: OneQuery, parts, whole: bool = False):
        self.plan = plan
        take_scalars(self, plan.scalars())
        self.line, self.part = divided(reg.from_(ptx.special.ctaid.x(), u32), parts)
        self.batch, self.head = divided(self.line, self.H)
        self.begin, self.end = reg.scalar(s32, init=0), signed(self.N)
        if plan.right:
            ptx.inst.min.s32(self.end, self.end, self.shift + 1)
        if plan.left:
            ptx.inst.max.s32(self.begin, self.begin, self.shift - self.reach)
        least, last = reg.scalar(u32, init=0), quotient(self.N + (plan.keys - 1), plan.keys)
        if not whole:
            end = apply(s32, ptx.inst.max.s32, self.end, 0)
            last = quotient(apply(u32, ptx.inst.mov.b32, end) + (plan.keys - 1), plan.keys)
            least = apply(u32, ptx.inst.min.u32, last, quotient(apply(u32, ptx.inst.mov.b32, self.begin), plan.keys))
        each = quotient(last - least + (parts - 1), parts)
        self.first = apply(u32, ptx.inst.min.u32, least + each * self.part, last)
        self.last = apply(u32, ptx.inst.min.u32, self.first + each, last)

    def row(self, pointer, width, size: int = 2):
        """Where the head's row lies in a tensor that has one for each head."""
        return pointer + apply(u64, ptx.inst.mul.wide.u32, self.line, width * size)


class Shared:
    """The ring of blocks, and what the warps leave for each other: `width` numbers of each, the largest exponent and the sum."""

    def __init__(self, plan: OneQuery, width: int):
        self.plan, self.width = plan, width
        self.base = smem_address(smem.alloc(u8, plan.bytes, align=128))
        self.of_warps = smem_address(smem.alloc(f32, (WARPS + 1) * (width + 4), align=16))
        self.full, self.empty = smem.mbarrier(plan.stages), smem.mbarrier(plan.stages)
        self.thread = reg.from_(ptx.special.tid.x(), u32)
        self.fetches = self.thread >= 32 * WARPS
        with ptx.if_(self.thread == 0):
            for stage in range(plan.stages):
                ptx.mbarrier.init(self.full[stage], 1)
                ptx.mbarrier.init(self.empty[stage], WARPS)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

    @property
    def pitch(self) -> int:
        """Bytes of what a warp leaves."""
        return (self.width + 4) * 4

    def fetch(self, stretch: Stretch, *maps):
        """Writes the copies of all blocks, by one thread."""
        plan, ring = self.plan, ptx.pipeline(self.plan.stages)
        with ptx.if_(self.thread == 32 * WARPS):
            for index in ptx.range_(stretch.first, stretch.last, 1):
                stage, phase = ring.advance()
                ptx.mbarrier.wait(self.empty[stage], phase ^ 1)
                ptx.mbarrier.arrive_expect_tx(self.full[stage], plan.stage_bytes)
                to = self.base + stage * plan.stage_bytes
                for map_, offset in zip(maps, (0, plan.k_bytes), strict=True):
                    place = (0, index * plan.keys, stretch.head, stretch.batch)
                    ptx.tensor_copy.load(ptx.addr(to, offset), map_, place, self.full[stage])


class Lanes:
    """The lanes of a warp that computes: `lanes` of them have a key, 8 elements each."""

    def __init__(self, dtype, shared: Shared, stretch: Stretch, pointers: dict):
        self.dtype, self.shared, self.stretch, self.pointers, self.plan = dtype, shared, stretch, pointers, shared.plan
        plan = self.plan
        self.warp, self.lane = shared.thread >> 5, shared.thread & 31
        self.place = self.lane & (plan.lanes - 1)
        self.column = self.place * PIECE
        self.first = self.warp * plan.at_once + (self.lane >> (plan.lanes.bit_length() - 1))  # key of a block
        self.at_k = shared.base + self.first * (plan.width * 2) + self.column * 2
        self.at_v = shared.base + self.first * (plan.values * 2) + self.column * 2 + plan.k_bytes

    def blocks(self):
        """A loop over the blocks: yields (the lane's first key, the stage), and frees the stage."""
        plan, shared, ring = self.plan, self.shared, ptx.pipeline(self.plan.stages)
        for index in ptx.range_(self.stretch.first, self.stretch.last, 1):
            stage, phase = ring.advance()
            ptx.mbarrier.wait(shared.full[stage], phase)
            yield index * plan.keys + self.first, stage * plan.stage_bytes
            ptx.warp.sync(0xFFFFFFFF)
            ptx.mbarrier.arrive(shared.empty[stage], pred=self.lane == 0)

    def elements(self, at, step: int, width: int) -> list:
        """The lane's elements of its key of a step, of rows that are `width` wide in shared memory."""
        there = {"pred": self.column < width} if width < self.plan.lanes * PIECE else {}
        words = [reg.scalar(b32, **({"init": 0} if there else {})) for _ in range(4)]
        offset = step * WARPS * self.plan.at_once * width * 2
        ptx.inst.ld.shared.v4.b32(words, ptx.addr(at, offset), **there)
        return [value for word in words for value in widened(word, self.dtype)]

    def row(self, name: str, width) -> list:
        """The lane's elements of the query's row of a tensor."""
        words = [reg.scalar(b32, init=0) for _ in range(4)]
        at = self.stretch.row(self.pointers[name], width) + apply(u64, ptx.inst.mul.wide.u32, self.column, 2)
        ptx.inst.ld.global_.nc.v4.b32(words, ptx.addr(at), pred=self.column < width)
        return [value for word in words for value in widened(word, self.dtype)]

    def product(self, left: list, right: list):
        """The sum of the products of a key's elements, in all of its lanes."""
        total = apply(f32, ptx.inst.mul.rn.f32, left[0], right[0])
        for x, y in zip(left[1:], right[1:], strict=True):
            ptx.inst.fma.rn.f32(total, x, y, total)
        self.over(total, range(self.plan.lanes.bit_length() - 1), ptx.inst.add.f32)
        return total

    def over(self, value, distances, combine):
        for distance in distances:
            other = apply(f32, ptx.inst.shfl.sync.bfly.b32, value, 1 << distance, 31, 0xFFFFFFFF)
            combine(value, value, other)

    def over_keys(self, value, combine):
        """Combines the values of the keys that a warp has at a time."""
        self.over(value, range(self.plan.lanes.bit_length() - 1, 5), combine)

    def sees(self, key):
        return (signed(key) >= self.stretch.begin) & (signed(key) < self.stretch.end)

    def key(self, first, step: int):
        return first + step * WARPS * self.plan.at_once

    def leave(self, values: list, width: int):
        """Stores the lane's numbers for `Shared`, behind four others."""
        at = self.shared.of_warps + self.warp * self.shared.pitch + self.column * 4
        mine = self.lane < self.plan.lanes
        if width < self.plan.lanes * PIECE:
            mine = mine & (self.column < width)
        for half in range(2):
            ptx.inst.st.shared.v4.f32(ptx.addr(at, 16 + 16 * half), values[4 * half : 4 * half + 4], pred=mine)


class Forward(Lanes):
    def run(self):
        plan, stretch = self.plan, self.stretch
        q = self.row("q", stretch.D)
        c = apply(f32, ptx.inst.mul.rn.f32, stretch.scale, LOG2_E)
        for each in q:
            ptx.inst.mul.rn.f32(each, each, c)
        self.largest, self.total = reg.scalar(f32, init=-math.inf), reg.scalar(f32, init=0.0)
        self.out = [reg.scalar(f32, init=0.0) for _ in range(PIECE)]
        for first, stage in self.blocks():
            seen = [self.sees(self.key(first, step)) for step in range(plan.steps)]
            scores = [self.product(q, self.elements(self.at_k + stage, step, plan.width)) for step in range(plan.steps)]
            self._add(scores, seen, self.at_v + stage)
        self._join()

    def _add(self, scores: list, seen: list, at_v):
        """Adds the values of a block's keys, weighted by their exponentials."""
        before = apply(f32, ptx.inst.mov.f32, self.largest)
        for score, there in zip(scores, seen, strict=True):
            ptx.inst.selp.f32(score, score, -math.inf, there)
            ptx.inst.max.f32(self.largest, self.largest, score)
        base = base_of(self.largest)
        self._scale(power(before, base))
        for step, (score, there) in enumerate(zip(scores, seen, strict=True)):
            p = power(score, base)
            ptx.inst.add.f32(self.total, self.total, p)
            for into, value in zip(self.out, self.elements(at_v, step, self.plan.values), strict=True):
                ptx.inst.fma.rn.f32(into, p, value, into, pred=there)

    def _scale(self, factor):
        for each in (self.total, *self.out):
            ptx.inst.mul.rn.f32(each, each, factor)

    def _join(self):
        """Leaves the CTA's sums behind those of its warps."""
        own = apply(f32, ptx.inst.mov.f32, self.largest)
        self.over_keys(self.largest, ptx.inst.max.f32)
        self._scale(power(own, base_of(self.largest)))
        for each in (self.total, *self.out):
            self.over_keys(each, ptx.inst.add.f32)
        shared, thread = self.shared, self.shared.thread
        self.leave(self.out, self.plan.values)
        at = ptx.addr(shared.of_warps + self.warp * shared.pitch)
        ptx.inst.st.shared.v2.f32(at, [self.largest, self.total], pred=self.lane == 0)
        ptx.bar.sync(1, 32 * WARPS)
        with ptx.if_(thread < shared.width // 2):
            largest, total, pair = joined(shared.of_warps, thread, shared.pitch, WARPS, ptx.inst.ld.shared.v2.f32)
            behind = shared.of_warps + WARPS * shared.pitch
            ptx.inst.st.shared.v2.f32(ptx.addr(behind + (thread << 3), 16), pair)
            ptx.inst.st.shared.v2.f32(ptx.addr(behind), [largest, total], pred=thread == 0)


def joined(at, thread, pitch: int, count: int, load) -> tuple:
    """(the largest exponent, the sum relative to it, the thread's two columns) of what `count` warps or CTAs have left; `at`: where the first has,
    or the places of all."""
    places = [at + i * pitch for i in range(count)] if not isinstance(at, list) else at
    sums, pairs = ([[reg.scalar(f32), reg.scalar(f32)] for _ in places] for _ in range(2))
    for place, sum_, pair in zip(places, sums, pairs, strict=True):
        load(sum_, ptx.addr(place))
        load(pair, ptx.addr(place + (thread << 3), 16))
    largest = reg.scalar(f32, init=-math.inf)
    for top, _ in sums:
        ptx.inst.max.f32(largest, largest, top)
    base, total, result = base_of(largest), reg.scalar(f32, init=0.0), [reg.scalar(f32, init=0.0) for _ in range(2)]
    for (top, each), pair in zip(sums, pairs, strict=True):
        weight = power(top, base)
        ptx.inst.fma.rn.f32(total, each, weight, total)
        for into, value in zip(result, pair, strict=True):
            ptx.inst.fma.rn.f32(into, value, weight, into)
    return largest, total, result


def add_up(dtype, shared: Shared, stretch: Stretch, out, lse):
    """Stores the result of what the CTAs of the head have left, by one of them."""
    plan, thread = shared.plan, shared.thread
    with ptx.if_(thread < shared.width // 2):
        own = shared.of_warps + WARPS * shared.pitch
        there, load = [own], ptx.inst.ld.shared.v2.f32
        if plan.ctas > 1:
            there = [apply(u32, ptx.inst.mapa.shared__cluster.u32, own, rank) for rank in range(plan.ctas)]
            load = ptx.inst.ld.shared__cluster.v2.f32
        largest, total, pair = joined(there, thread, 0, plan.ctas, load)
        inverse = apply(f32, ptx.inst.rcp.approx.ftz.f32, total)
        ptx.inst.selp.f32(inverse, 0.0, inverse, total == 0.0)
        for each in pair:
            ptx.inst.mul.rn.f32(each, each, inverse)
        column = thread << 1
        at = stretch.row(out, stretch.E) + apply(u64, ptx.inst.mul.wide.u32, column, 2)
        ptx.inst.st.global_.b32(ptx.addr(at), *narrowed(pair, dtype), pred=column < stretch.E)
        log = apply(f32, ptx.inst.lg2.approx.f32, total)
        ptx.inst.add.f32(log, log, base_of(largest))
        ptx.inst.mul.rn.f32(log, log, 1 / LOG2_E)
        ptx.inst.st.global_.f32(ptx.addr(lse + stretch.line * 4), log, pred=thread == 0)


class Gradient(Lanes):
    def run(self):
        plan, stretch = self.plan, self.stretch
        q, do = self.row("q", stretch.D), self.row("do", stretch.E)
        delta = self.product(self.row("o", stretch.E), do)
        lse, dlse = (
            apply(f32, ptx.inst.ld.global_.nc.f32, ptx.addr(self.pointers[name] + stretch.line * 4))
            for name in ("lse", "dlse")
        )
        ptx.inst.sub.f32(delta, delta, dlse)
        ptx.inst.mul.rn.f32(lse, lse, LOG2_E)
        ptx.inst.selp.f32(lse, math.inf, lse, lse == -math.inf)  # a query that sees no key: p is 0
        c = apply(f32, ptx.inst.mul.rn.f32, stretch.scale, LOG2_E)
        dq = [reg.scalar(f32, init=0.0) for _ in range(PIECE)]
        self.to_k, self.to_v = (self._lines(name, width) for name, width in (("dk", stretch.D), ("dv", stretch.E)))
        for first, stage in self.blocks():
            for step in range(plan.steps):
                key = self.key(first, step)
                seen = self.sees(key)
                k = self.elements(self.at_k + stage, step, plan.width)
                score, dp = self.product(q, k), self.product(do, self.elements(self.at_v + stage, step, plan.values))
                exponent = apply(f32, ptx.inst.fma.rn.f32, score, c, apply(f32, ptx.inst.neg.f32, lse))
                p = apply(f32, ptx.inst.ex2.approx.ftz.f32, exponent)
                ds = apply(f32, ptx.inst.mul.rn.f32, p, apply(f32, ptx.inst.sub.f32, dp, delta))
                ptx.inst.mul.rn.f32(ds, ds, stretch.scale)
                for each in (p, ds):
                    ptx.inst.selp.f32(each, each, 0.0, seen)
                for into, value in zip(dq, k, strict=True):
                    ptx.inst.fma.rn.f32(into, ds, value, into, pred=seen)
                self._store(self.to_k, key, stretch.D, q, ds)
                self._store(self.to_v, key, stretch.E, do, p)
        self._add_up(dq)

    def _lines(self, name: str, width):
        """Where the lane's elements of the head's first key lie."""
        lines = apply(u64, ptx.inst.mul.wide.u32, self.stretch.line, self.stretch.N)
        return (
            self.pointers[name]
            + lines * apply(u64, ptx.inst.mul.wide.u32, width, 2)
            + apply(u64, ptx.inst.mul.wide.u32, self.column, 2)
        )

    def _store(self, to, key, width, row: list, factor):
        """Stores a key's gradient, the row times a number."""
        values = [apply(f32, ptx.inst.mul.rn.f32, each, factor) for each in row]
        at = apply(u64, ptx.inst.mad.wide.u32, key, width * 2, to)
        there = (key < self.stretch.N) & (self.column < width)
        ptx.inst.st.global_.v4.b32(ptx.addr(at), narrowed(values, self.dtype), pred=there)

    def _add_up(self, dq: list):
        """Stores the CTA's part of dq."""
        stretch, shared, thread = self.stretch, self.shared, self.shared.thread
        for each in dq:
            self.over_keys(each, ptx.inst.add.f32)
        self.leave(dq, self.plan.width)
        ptx.bar.sync(1, 32 * WARPS)
        with ptx.if_(thread < stretch.D):
            total = reg.scalar(f32, init=0.0)
            for warp in range(WARPS):
                at = ptx.addr(shared.of_warps + (thread << 2), warp * shared.pitch + 16)
                ptx.inst.add.f32(total, total, apply(f32, ptx.inst.ld.shared.f32, at))
            line = (stretch.batch * ptx.param(u32, "S") + stretch.part) * stretch.H + stretch.head
            at = self.pointers["dq"] + apply(u64, ptx.inst.mul.wide.u32, line, stretch.D * 4)
            ptx.inst.st.global_.f32(ptx.addr(at + apply(u64, ptx.inst.mul.wide.u32, thread, 4)), total)


def base_of(largest):
    """What is subtracted from exponents: the largest, or 0 where no key is seen."""
    return apply(f32, ptx.inst.selp.f32, 0.0, largest, largest < UNSEEN)
