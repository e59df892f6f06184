"""The forward of attention on Blackwell (sm_100a, sm_103a), by tcgen05, in f16 and bf16, for heads of up to 128 elements, and of 192 with
values of 128.

A CTA takes 128 queries.  One warp fetches, one thread of another multiplies, and each thread of four more has a row: it reads the
scores from tensor memory and writes their exponentials, rounded, to the same place, as operand A of p v.  There are two such places, so
q k^T of the next block runs beside softmax.  The result stays in tensor memory; it is scaled there when a warp has met a larger score.

With values of 128, two CTAs are a pair with 256 queries.  Each has half of a block's keys, and half of the columns of its values, and
the even one multiplies for both.  The kernel has never run on hardware: it is assembled, and its results are right and its reports clean
on the simulator.
"""

import math
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.forward import Warpgroup
from pyptx.kernels._attention.plan import WIDE, Forward
from pyptx.kernels._attention.softmax import over_row
from pyptx.kernels._attention.tiles import Tiles, apply, signed
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E, smem_address
from pyptx.types import b32, f32, pred, s32, u16, u32, u64

__all__ = ["Blackwell", "blackwell_attention_kernel"]

ROWS = 128  # lanes of tensor memory
OF_BOTH = {
    sem: {"sem": sem, "scope": "cluster"} for sem in ("acquire", "release")
}  # for barriers of both CTAs of a pair
ROLES = 4  # the first four warps have rows; then come the one that fetches and the one that multiplies


@dataclass(frozen=True)
class Blackwell(Forward):
    """How the kernel for one size of heads is cut."""

    keys: int = 128
    groups: int = 2  # of 64 rows of a CTA
    ctas: int = 0
    turns: bool = False
    own_output: bool = False
    ctas_of_tile: int = 1  # 2: a pair

    @classmethod
    def of(cls, width: int, values: int, **masks) -> "Blackwell":
        return cls(width, values, ctas_of_tile=2, stages=4, **masks) if values == 128 else cls(width, values, **masks)

    @property
    def rows(self) -> int:
        return ROWS * self.ctas_of_tile

    @property
    def q_bytes(self) -> int:
        """Bytes of q in a CTA.  `k_bytes` and `v_bytes` are also those of one CTA."""
        return ROWS * self.width * 2

    @property
    def own_keys(self) -> int:
        return self.keys // self.ctas_of_tile

    @property
    def k_bytes(self) -> int:
        return self.own_keys * self.width * 2

    @property
    def v_bytes(self) -> int:
        return self.keys * self.values * 2 // self.ctas_of_tile

    @property
    def at_result(self) -> int:
        """The first column of the result in tensor memory, behind two blocks of scores."""
        return 2 * self.keys


def blackwell_attention_kernel(dtype, plan: Blackwell, arch: str = "sm_100a"):
    """The kernel: (q, k, v) to (o, log-sum-exp), shapes as in `forward_kernel`; o is contiguous."""

    def tile(heads, length, width, rows):
        return Tile("B", heads, length, width, dtype, tma_box=(1, 1, rows, WIDE), packed=False, tma_swizzle="128B")

    more = {"SINKS": Tile("H", f32)} if plan.sinks else {}

    def body(Q, K, V, OUT, LSE, SINKS=None):
        tiles = PairTiles(plan)
        tiles.DV = ptx.param(u32, "DV")
        if plan.sinks:
            (tiles.sinks,) = ptx.global_ptrs(SINKS)
        maps = [each.tma_desc() for each in (Q, K, V)]
        pointers = ptx.global_ptrs(OUT, LSE)
        shared = Shared(plan, dtype)
        thread = reg.from_(ptx.special.tid.x(), u32)
        warp = thread >> 5
        memory = shared.initialise(thread, warp)
        with ptx.if_(thread == ROLES * 32):
            fetch(plan, shared, tiles, maps)
        with ptx.if_((thread ^ (ROLES + 1) * 32 | tiles.rank) == 0):
            multiply(plan, dtype, shared, tiles, memory)
        with ptx.if_(warp < ROLES):
            Rows(plan, dtype, shared, tiles, memory, thread, warp).run(*pointers)
        shared.sync()
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(memory, 512, cta_group=plan.ctas_of_tile)
        ptx.ret()

    return kernel(
        in_specs=(
            tile("H", "M", "D", ROWS), tile("HK", "N", "D", plan.own_keys), tile("HK", "N", "DV", plan.keys),
            *more.values(),
        ),
        out_specs=(Tile("B", "H", "M", "DV", dtype, align=16), Tile("B", "H", "M", f32)),
        raw_params=[*plan.scalars, ("u32", "DV")],
        grid=lambda B, H, M: (B * H * -(-M // plan.rows) * plan.ctas_of_tile, 1, 1),
        block=(32 * (ROLES + 2), 1, 1),
        cluster=(plan.ctas_of_tile, 1, 1),
        reqntid=True,
        batch="B",
        arch=arch,
    )(with_tensors("blackwell_attention", ("Q", "K", "V", *more, "OUT", "LSE"), body))  # fmt: skip


class PairTiles(Tiles):
    """Those of a pair, or of a CTA by itself; `rank` is which of them a CTA is."""

    def __init__(self, plan: Blackwell):
        self.rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
        super().__init__(plan)

    def _turn(self):
        pair = self.plan.ctas_of_tile - 1
        return tuple(each >> pair for each in super()._turn())

    def own_row(self):
        """The first row of the CTA."""
        return self.row + self.rank * ROWS

    def boxes_of_k(self, index, bytes_: int):
        plan = self.plan
        for i in range(plan.width // WIDE):
            key = index * plan.keys + signed(self.rank * plan.own_keys)
            yield i * plan.own_keys * 128, (i * WIDE, key, self.kv_head, self.batch)

    def boxes_of_v(self, index, bytes_: int):
        plan = self.plan
        for i in range(plan.values // WIDE // plan.ctas_of_tile):
            column = signed(self.rank * WIDE) if plan.ctas_of_tile > 1 else i * WIDE
            yield i * plan.keys * 128, (column, index * plan.keys, self.kv_head, self.batch)


class Shared:
    """The memory of a CTA: q, the rings of K and V, and the barriers."""

    def __init__(self, plan: Blackwell, dtype):
        self.plan = plan
        memory = smem.alloc(dtype, plan.bytes // 2, align=1024)
        slot = smem.alloc(u32, 1)
        self.base, self.slot = smem_address(memory), smem_address(slot)
        self.q_full, self.done = smem.mbarrier(1)[0], smem.mbarrier(1)[0]
        self.k_full, self.k_empty, self.v_full, self.v_empty = (smem.mbarrier(plan.stages) for _ in range(4))
        self.scores, self.p = smem.mbarrier(2), smem.mbarrier(2)

    def initialise(self, thread, warp):
        """Initialises the barriers and allocates tensor memory, whose address it returns."""
        pair = self.plan.ctas_of_tile
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(ptx.addr(self.slot), 512, cta_group=pair)
            ptx.tcgen05.relinquish_alloc_permit(cta_group=pair)
        with ptx.if_(thread == 0):
            for each in (self.q_full, self.done):
                ptx.mbarrier.init(each, 1)
            for stage in range(self.plan.stages):
                for each in (self.k_full, self.k_empty, self.v_full, self.v_empty):
                    ptx.mbarrier.init(each[stage], 1)
            for place in range(2):
                ptx.mbarrier.init(self.scores[place], 1)
                ptx.mbarrier.init(self.p[place], ROWS * pair)
            ptx.fence.mbarrier_init()
        self.sync()
        return apply(b32, ptx.inst.ld.shared.b32, ptx.addr(self.slot))

    def sync(self):
        """Synchronises all threads of the CTA, or of both CTAs of a pair."""
        ptx.tcgen05.fence_before_thread_sync()
        if self.plan.ctas_of_tile > 1:
            ptx.cluster.sync()
        else:
            ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()

    def of_leader(self, bar):
        """The barrier of the CTA that multiplies."""
        return ptx.cluster.map_shared_u32(bar, 0) if self.plan.ctas_of_tile > 1 else bar


def fetch(plan: Blackwell, shared: Shared, tiles: Tiles, maps):
    """Writes the copies, which one thread makes: q, then k and v of each block of keys.  Barriers of the CTA that multiplies count the copies of
    both."""
    q_map, k_map, v_map = maps
    k_ring, v_ring = ptx.pipeline(plan.stages), ptx.pipeline(plan.stages)
    how = {"cta_group": 2} if plan.ctas_of_tile > 1 else {}

    def expect(bar, bytes_: int):
        with ptx.if_(tiles.rank == 0):
            ptx.mbarrier.arrive_expect_tx(bar, bytes_ * plan.ctas_of_tile)
        return shared.of_leader(bar)

    def block(ring, full, empty, at, bytes_, map_, boxes):
        stage, phase = ring.advance()
        ptx.mbarrier.wait(empty[stage], phase ^ 1)
        bar = expect(full[stage], bytes_)
        to = shared.base + stage * bytes_
        for offset, place in boxes:
            ptx.tensor_copy.load(ptx.addr(to, at + offset), map_, place, bar, **how)

    for _ in tiles.each():
        bar = expect(shared.q_full, plan.q_bytes)
        for i in range(plan.width // WIDE):
            to = ptx.addr(shared.base, i * ROWS * 128)
            ptx.tensor_copy.load(to, q_map, tiles.place(i * WIDE, tiles.own_row()), bar, **how)
        for index in ptx.range_(tiles.last, tiles.first - 1, -1):
            of_k, of_v = tiles.boxes_of_k(index, plan.k_bytes), tiles.boxes_of_v(index, plan.v_bytes)
            block(k_ring, shared.k_full, shared.k_empty, plan.at_k, plan.k_bytes, k_map, of_k)
            block(v_ring, shared.v_full, shared.v_empty, plan.at_v, plan.v_bytes, v_map, of_v)


def multiply(plan: Blackwell, dtype, shared: Shared, tiles: Tiles, memory):
    """Writes the products, which one thread starts, for both CTAs of a pair: q k^T of a block, then p v of the block before."""
    k_ring, v_ring = ptx.pipeline(plan.stages), ptx.pipeline(plan.stages)
    score_ring, p_ring, done_ring = ptx.pipeline(2), ptx.pipeline(2), ptx.pipeline(1)
    pair = plan.ctas_of_tile
    told = {"m": plan.rows, "a_dtype": dtype, "b_dtype": dtype, "d_dtype": f32}
    of_scores = ptx.tcgen05.instruction_descriptor(n=plan.keys, **told)
    of_values = ptx.tcgen05.instruction_descriptor(n=plan.values, **told) | 1 << 16  # rows of B are keys
    base = shared.base

    def commit(bar):
        if pair > 1:
            ptx.tcgen05.commit(bar, cta_group=2, multicast=True, multicast_mask=reg.from_(3, u16))
        else:
            ptx.tcgen05.commit(bar)

    def scores():
        stage, phase = k_ring.advance()
        place, _ = score_ring.advance()
        ptx.mbarrier.wait(shared.k_full[stage], phase)
        ptx.tcgen05.fence_after_thread_sync()
        k = base + stage * plan.k_bytes + plan.at_k
        for step in range(plan.width // 16):
            half, within = divmod(step, 4)
            a, b = (
                ptx.tcgen05.descriptor(
                    at, byte_offset=half * rows * 128 + within * 32, stride_bytes=1024, swizzle="128B"
                )
                for at, rows in ((base, ROWS), (k, plan.own_keys))
            )
            to = memory + place * plan.keys
            ptx.tcgen05.mma(
                to, a, b, reg.from_(of_scores, u32), kind="kind::f16", cta_group=pair, enable_input_d=step > 0
            )
        commit(shared.k_empty[stage])
        commit(shared.scores[place])

    def values(some):
        stage, phase = v_ring.advance()
        place, p_phase = p_ring.advance()
        ptx.mbarrier.wait(shared.v_full[stage], phase)
        ptx.mbarrier.wait(shared.p[place], p_phase, **(OF_BOTH["acquire"] if pair > 1 else {}))
        ptx.tcgen05.fence_after_thread_sync()
        v = base + stage * plan.v_bytes + plan.at_v
        p = memory + place * plan.keys
        for step in range(plan.keys // 16):
            b = ptx.tcgen05.descriptor(
                v, byte_offset=step * 16 * 128, stride_bytes=1024, leading_bytes=plan.keys * 128, swizzle="128B"
            )
            add = {"pred_operand": some} if step == 0 else {"enable_input_d": True}
            ptx.tcgen05.mma(
                memory + plan.at_result, p + step * 8, b, reg.from_(of_values, u32), kind="kind::f16",
                a_is_tmem=True, cta_group=pair, **add,
            )  # fmt: skip
        commit(shared.v_empty[stage])
        commit(shared.done)

    for _ in tiles.each():
        ptx.mbarrier.wait(shared.q_full, 0)
        scores()
        for index in ptx.range_(tiles.last, tiles.first - 1, -1):
            some = apply(pred, ptx.inst.setp.ne.s32, index, tiles.last)
            with ptx.if_(index > tiles.first):
                # The scores take the place of p of the block before.
                with ptx.if_(some):
                    _, phase = done_ring.advance()
                    ptx.mbarrier.wait(shared.done, phase)
                scores()
            values(some)


class Rows:
    """The queries of the CTA, one for each thread."""

    def __init__(self, plan: Blackwell, dtype, shared: Shared, tiles: Tiles, memory, thread, warp):
        self.plan, self.dtype, self.shared, self.tiles, self.thread = plan, dtype, shared, tiles, thread
        self.memory = memory + (warp << 21)
        self.scores = reg.array(f32, plan.keys)
        self.largest, self.total, self.factor = (reg.scalar(f32) for _ in range(3))
        self.some = reg.scalar(pred)
        self.ring, self.done_ring = ptx.pipeline(2), ptx.pipeline(1)
        self.c = apply(f32, ptx.inst.mul.rn.f32, tiles.scale, LOG2_E)

    def run(self, o, lse):
        tiles = self.tiles
        for _ in tiles.each():
            self.row = tiles.own_row() + self.thread
            ptx.inst.mov.f32(self.largest, -math.inf)
            ptx.inst.mov.f32(self.total, 0.0)
            ptx.inst.setp.ne.u32(self.some, self.thread, self.thread)
            top = tiles.last + 1
            for until, masked in self._stretches():
                for index in ptx.range_(top - 1, until - 1, -1):
                    self._block(index, masked)
                top = apply(s32, ptx.inst.min.s32, top, until)
            self._wait_for_values()
            self._finish(o, lse)

    _stretches, _cap, _scale_of_scores = Warpgroup._stretches, Warpgroup._cap, Warpgroup._scale_of_scores

    def _wait_for_values(self):
        _, phase = self.done_ring.advance()
        ptx.mbarrier.wait(self.shared.done, phase)
        ptx.tcgen05.fence_after_thread_sync()

    def _block(self, index, masked: bool):
        plan, shared = self.plan, self.shared
        place, phase = self.ring.advance()
        ptx.mbarrier.wait(shared.scores[place], phase)
        ptx.tcgen05.fence_after_thread_sync()
        at = self.memory + place * plan.keys
        for first in range(0, plan.keys, 32):
            self._load(list(self.scores)[first : first + 32], at + first)
        ptx.tcgen05.wait_ld()
        self._softmax(index, masked)
        with ptx.if_(self.some):
            self._wait_for_values()
            with ptx.if_(~ptx.warp.vote("all", self.factor == 1.0, 0xFFFFFFFF)):
                self._scale()
        ptx.inst.setp.eq.u32(self.some, self.thread, self.thread)
        convert = getattr(ptx.inst.cvt.rn, self.dtype.name + "x2").f32
        packed = [reg.scalar(b32) for _ in range(plan.keys // 2)]
        for i, each in enumerate(packed):
            convert(each, self.scores[2 * i + 1], self.scores[2 * i])
        for first in range(0, len(packed), 32):
            ptx.tcgen05.st(at + first, packed[first : first + 32], shape="32x32b", count=32)
        ptx.tcgen05.wait_st()
        ptx.tcgen05.fence_before_thread_sync()
        if plan.ctas_of_tile > 1:
            ptx.mbarrier.arrive_cluster(shared.of_leader(shared.p[place]), **OF_BOTH["release"])
        else:
            ptx.mbarrier.arrive(shared.p[place])

    def _load(self, registers, at):
        ptx.tcgen05.ld(registers, at, shape="32x32b", count=32)

    def _scale(self):
        """Multiplies the result so far by `factor`."""
        for first in range(0, self.plan.values, 32):
            part, at = list(reg.array(f32, 32)), self.memory + (self.plan.at_result + first)
            self._load(part, at)
            ptx.tcgen05.wait_ld()
            for each in part:
                ptx.inst.mul.rn.f32(each, each, self.factor)
            ptx.tcgen05.st(at, part, shape="32x32b", count=32)
        ptx.tcgen05.wait_st()

    def _softmax(self, index, masked: bool):
        scores = list(self.scores)
        if self.plan.softcap:
            self._cap()
        if masked:
            self._mask(index, scores)
        before = apply(f32, ptx.inst.mov.f32, self.largest)
        over_row(self.largest, scores, ptx.inst.max.f32)
        base = apply(f32, ptx.inst.mul.rn.f32, self.largest, self.c)
        if masked:  # as on Hopper: exp(-inf - 0) is 0
            ptx.inst.selp.f32(base, 0.0, base, self.largest == -math.inf)
        negative = apply(f32, ptx.inst.neg.f32, base)
        ptx.inst.mul.rn.f32(before, before, self.c)  # rounded as the base was
        ptx.inst.add.f32(before, before, negative)
        ptx.inst.ex2.approx.ftz.f32(self.factor, before)
        for each in scores:
            ptx.inst.fma.rn.f32(each, each, self.c, negative)
            ptx.inst.ex2.approx.ftz.f32(each, each)
        first, *rest = scores
        ptx.inst.fma.rn.f32(self.total, self.total, self.factor, first)
        over_row(self.total, rest, ptx.inst.add.f32)

    def _mask(self, index, scores):
        plan, tiles = self.plan, self.tiles
        first = index * plan.keys
        end = signed(tiles.N)
        if plan.right or plan.left:
            sees = signed(self.row) + tiles.shift
        if plan.right:
            ptx.inst.min.s32(end, end, sees + 1)
        ptx.inst.sub.s32(end, end, first)
        if plan.left:
            begin = sees - tiles.reach - first
        for column, each in enumerate(scores):
            ptx.inst.selp.f32(each, each, -math.inf, end > column)
            if plan.left:
                ptx.inst.selp.f32(each, each, -math.inf, begin <= column)

    def _finish(self, o, lse):
        """Stores the row of the result, and the logarithm of its sum."""
        plan, tiles, total = self.plan, self.tiles, self.total
        top = apply(f32, ptx.inst.mul.rn.f32, self.largest, self.c)
        weight = None
        if plan.sinks:
            base, sink = top, tiles.sink(tiles.head)
            top = apply(f32, ptx.inst.max.f32, base, sink)
            ptx.inst.selp.f32(top, 0.0, top, top == -math.inf)
            weight, own = (apply(f32, ptx.inst.sub.f32, each, top) for each in (base, sink))
            for each in (weight, own):
                ptx.inst.ex2.approx.ftz.f32(each, each)
            ptx.inst.fma.rn.f32(total, total, weight, own)
        scale = apply(f32, ptx.inst.rcp.approx.ftz.f32, total)
        ptx.inst.selp.f32(scale, 0.0, scale, total == 0.0)
        if weight is not None:
            ptx.inst.mul.rn.f32(scale, scale, weight)
        log = apply(f32, ptx.inst.lg2.approx.f32, total)
        ptx.inst.add.f32(log, log, top)
        ptx.inst.mul.rn.f32(log, log, 1 / LOG2_E)
        ptx.inst.selp.f32(log, -math.inf, log, total == 0.0)
        row = self.row
        inside = row < tiles.M
        ptx.inst.st.global_.f32(ptx.addr(lse + tiles.sums_at(row) * 4), log, pred=inside)
        to = o + tiles.sums_at(row) * apply(u64, ptx.inst.mul.wide.u32, tiles.DV, 2)
        convert = getattr(ptx.inst.cvt.rn, self.dtype.name + "x2").f32
        for first in range(0, plan.values, 32):
            part = list(reg.array(f32, 32))
            self._load(part, self.memory + (plan.at_result + first))
            ptx.tcgen05.wait_ld()
            for each in part:
                ptx.inst.mul.rn.f32(each, each, scale)
            for at in range(0, 32, 8):
                packed = [reg.scalar(b32) for _ in range(4)]
                for i, each in enumerate(packed):
                    convert(each, part[at + 2 * i + 1], part[at + 2 * i])
                there = inside & (first + at < tiles.DV)
                ptx.inst.st.global_.v4.b32(ptx.addr(to, 2 * (first + at)), packed, pred=there)
