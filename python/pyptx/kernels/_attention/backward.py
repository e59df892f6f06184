"""The gradients of attention on Hopper: dq, dk, dv of o = softmax(scale q k^T) v, for f16 and bf16.

Three kernels.  `prepare_kernel` makes delta = sum(o do) of each query row.  `backward_kernel` gives each CTA 128 keys, 64 to
each of two warpgroups, and goes over blocks of queries: with S = q k^T, P = exp(scale S - lse), dP = do v^T and
dS = P (dP - delta),

    dv += P^T do        dk += dS^T q        dq += dS k

S and dP are computed transposed (keys are rows), so that P^T and dS^T are operands A in registers; dS goes through shared
memory for the third product.  dq collects in f32 in memory, to which registers are added; `finish_kernel` orders and rounds it.
Where heads of q share keys and such CTAs are few, several take the same keys, each with some of the heads, and `add_parts_kernel` adds up
what they leave.
"""

import math
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.forward import descriptor
from pyptx.kernels._attention.key_tiles import KeyTile, grid_over_keys, key_tile, part_of_keys, scalars_over_keys
from pyptx.kernels._attention.plan import EVERYONE, K_MAJOR, WIDE
from pyptx.kernels._attention.results import clear_rows, stage_halves, stage_packed
from pyptx.kernels._attention.tiles import apply, signed
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E, smem_address, widened
from pyptx.types import b32, f32, s32, u32, u64

__all__ = ["Backward", "backward_kernel"]

GROUPS = 2


@dataclass(frozen=True)
class Backward:
    """How the backward kernel for one size of heads is cut."""

    width: int  # elements of a head, rounded up to a multiple of 64
    rows: int  # queries of a block: 64 or 128
    stages: int = 2
    right: bool = False
    left: bool = False
    dq: bool = True  # whether the kernel adds to dq; otherwise _attention/dq.py computes it
    ragged: bool = False  # sequences of different lengths lie one behind the other
    softcap: bool = False
    whole: bool = False  # whether the last CTA of a head has all its keys
    parts: bool = False  # whether S CTAs share the heads of q of a tile, so that dk and dv are S parts in f32
    of_values: int = 0  # elements of a head of v, rounded up likewise; 0: as many as of k

    @property
    def square(self) -> bool:
        return not self.of_values

    @property
    def values(self) -> int:
        return self.of_values or self.width

    @property
    def keys(self) -> int:
        """Keys of a CTA."""
        return 128

    @property
    def k_bytes(self) -> int:
        return self.keys * self.width * 2

    @property
    def v_bytes(self) -> int:
        return self.keys * self.values * 2

    @property
    def q_bytes(self) -> int:
        return self.rows * self.width * 2

    @property
    def do_bytes(self) -> int:
        return self.rows * self.values * 2

    @property
    def at_v(self) -> int:
        return self.k_bytes

    @property
    def at_q(self) -> int:
        return self.at_v + self.v_bytes

    @property
    def at_do(self) -> int:
        return self.at_q + self.stages * self.q_bytes

    @property
    def at_ds(self) -> int:
        return self.at_do + self.stages * self.do_bytes

    @property
    def at_sums(self) -> int:
        return self.at_ds + self.dq * self.rows * self.keys * 2

    @property
    def bytes(self) -> int:
        return self.at_sums + self.stages * 2 * self.rows * 4

    @property
    def scalars(self) -> list:
        return scalars_over_keys(self)


def backward_kernel(dtype, plan: Backward):
    """The kernel from (q, k, v, do, sums) to (dk, dv), for heads of up to 128 elements.  With `plan.dq` it adds to dq, which follows the sums.

    Shapes are as in `forward_kernel`.  sums (B, H, 2, R) f32, where R is a multiple of 128 and at least M: row 0 is log2(e)
    lse, infinite for rows that do not exist, and row 1 is delta.  dq (B, H, R, width) f32, in the order of `Warpgroup._add_dq`.  If
    `ragged`, sums are (H, 2, R), dq is (H, R, width), and the last two tensors (P) say where the sequences of queries and of keys begin.
    In parts, dk and dv are f32, with a dimension S behind B, or in front if `ragged`.
    """

    def consume(shared, tile, thread, group, dq, results):
        Warpgroup(plan, dtype, shared, tile, thread & 127, group - 1).run(dq, results)

    return kernel_over_keys("attention_backward", consume, dtype, plan)


def kernel_over_keys(name: str, consume, dtype, plan):
    """A kernel whose CTAs keep keys: one warpgroup fetches, the others run `consume(shared, tile, thread, group, dq, results)`."""

    def body(Q, K, V, DO, SUMS, DK, DV, DQ=None, BEGINS=None, KEY_BEGINS=None):
        shared = Shared(plan, dtype)
        tid = reg.from_(ptx.special.tid.x(), u32)
        group = tid >> 7
        shared.initialise(tid == 0)
        tile = key_tile(plan, BEGINS, KEY_BEGINS)
        (sums,) = ptx.global_ptrs(SUMS)
        maps = [x.tma_desc() for x in (Q, K, V, DO)]
        copies = [] if plan.parts else [x.tma_desc() for x in (DK, DV)]
        dq = ptx.global_ptrs(DQ)[0] if plan.dq else None
        results = Results(tile, copies, ptx.global_ptrs(DK, DV) if plan.ragged or plan.parts else ())
        with ptx.if_(group == 0):
            ptx.setmaxnreg_dec(24)
            with ptx.if_(tid == 0):
                fetch(plan, shared, tile, maps, sums)
        with ptx.else_():
            ptx.setmaxnreg_inc(240)
            consume(shared, tile, tid, group, dq, results)
        ptx.ret()

    def tile(heads, length, width, rows):
        if plan.ragged:
            return Tile(length, heads, width, dtype, tma_box=(rows, 1, WIDE), packed=False, tma_swizzle="128B")
        return Tile("B", heads, length, width, dtype, tma_box=(1, 1, rows, WIDE), packed=False, tma_swizzle="128B")

    values = "D" if plan.square else "E"
    sums = Tile("H", 2, "R", f32, align=16) if plan.ragged else Tile("B", "H", 2, "R", f32, align=16)
    more = {"DQ": Tile(*[] if plan.ragged else ["B"], "H", "R", plan.width, f32, align=16)} if plan.dq else {}
    if plan.ragged:
        more |= {"BEGINS": Tile("P", s32), "KEY_BEGINS": Tile("P", s32)}

    return kernel(
        in_specs=(
            tile("H", "M", "D", plan.rows), tile("HK", "N", "D", plan.keys), tile("HK", "N", values, plan.keys),
            tile("H", "M", values, plan.rows), sums, *more.values(),
        ),
        out_specs=tuple(part_of_keys(plan, each) if plan.parts else tile("HK", "N", each, 64) for each in ("D", values)),
        mutates=("DQ",) if plan.dq else (),
        raw_params=plan.scalars,
        grid=grid_over_keys(plan),
        block=(128 * (GROUPS + 1), 1, 1),
        reqntid=True,
        batch=None if plan.ragged else "B",
        arch="sm_90a",
    )(with_tensors(name, ("Q", "K", "V", "DO", "SUMS", *more, "DK", "DV"), body))  # fmt: skip


class Shared:
    """The memory of a CTA: k and v, the rings of q and do with their sums, dS and dq, and the barriers."""

    def __init__(self, plan: Backward, dtype):
        self.plan = plan
        memory = smem.alloc(dtype, plan.bytes // 2, align=1024)
        self.base = smem_address(memory)
        self.kv_full = smem.mbarrier(1)[0]
        self.operands_empty = smem.mbarrier(1)[0]  # of dS; if that is not in shared memory, of k and v
        self.q_full, self.q_empty, self.do_full, self.do_empty = (smem.mbarrier(plan.stages) for _ in range(4))

    def initialise(self, leader):
        with ptx.if_(leader):
            ptx.mbarrier.init(self.kv_full, 1)
            ptx.mbarrier.init(self.operands_empty, GROUPS)
            for stage in range(self.plan.stages):
                for full, empty in ((self.q_full, self.q_empty), (self.do_full, self.do_empty)):
                    ptx.mbarrier.init(full[stage], 1)
                    ptx.mbarrier.init(empty[stage], GROUPS)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)


class Results:
    """Stores dk and dv of the CTA's keys: by tensor copies, or row by row if a box would pass the end of its sequence, or in parts."""

    def __init__(self, tile: KeyTile, maps, pointers):
        self.tile, self.maps, self.pointers = tile, maps, pointers

    def passes(self, first):
        """A predicate whether some of the 64 keys from `first` on are beyond the end of the sequence; None if copies clip boxes by themselves."""
        return self.tile.key + first + 64 > self.tile.N if self.pointers else None

    def store_rows(self, which: int, dtype, accumulators, row, column):
        tile = self.tile
        width = tile.E if which and not tile.plan.square else tile.D
        lines = tile.lines(self.pointers[which], width, tile.plan.parts)
        lines.store(dtype, accumulators, lambda half: tile.key + row + 8 * half, column)

    def copy(self, which: int, source, first, halves: int, apart: int):
        """Copies the 64 keys from `first` on, from shared memory at `source`, 64 columns at a time, which lie `apart` bytes from each other."""
        for half in range(halves):
            coord = self.tile.key_box(half * WIDE, self.tile.key + first)
            ptx.tensor_copy.store(self.maps[which], coord, ptx.addr(source, half * apart))


def fetch(plan: Backward, shared: Shared, tile: KeyTile, maps, sums):
    """Writes the copies of a CTA, which one thread makes: k and v, then for each block q with lse, and do with delta."""
    q_map, k_map, v_map, do_map = maps
    q_ring, do_ring = ptx.pipeline(plan.stages), ptx.pipeline(plan.stages)
    ptx.mbarrier.arrive_expect_tx(shared.kv_full, plan.k_bytes + plan.v_bytes)
    for map_, at, width in ((k_map, 0, plan.width), (v_map, plan.at_v, plan.values)):
        for half in range(width // WIDE):
            coord = tile.key_box(half * WIDE, tile.key)
            ptx.tensor_copy.load(ptx.addr(shared.base, at + half * plan.keys * 128), map_, coord, shared.kv_full)

    def block(ring, full, empty, at, which, map_, index, row):
        bytes_ = plan.do_bytes if which else plan.q_bytes
        stage, phase = ring.advance()
        ptx.mbarrier.wait(empty[stage], phase ^ 1)
        ptx.mbarrier.arrive_expect_tx(full[stage], bytes_ + plan.rows * 4)
        to = shared.base + stage * bytes_
        for half in range(bytes_ // (plan.rows * 128)):
            coord = tile.query_box(half * WIDE, index * plan.rows)
            ptx.tensor_copy.load(ptx.addr(to, at + half * plan.rows * 128), map_, coord, full[stage])
        beside = shared.base + stage * (2 * plan.rows * 4)
        source = row + index * (plan.rows * 4)
        ptx.cp_async_bulk.load(
            ptx.addr(beside, plan.at_sums + which * plan.rows * 4), ptx.addr(source), plan.rows * 4, full[stage]
        )

    for _ in tile.heads():
        lse, delta = tile.sums_at(sums)
        for index in ptx.range_(tile.first, tile.last + 1, 1):
            block(q_ring, shared.q_full, shared.q_empty, plan.at_q, 0, q_map, index, lse)
            block(do_ring, shared.do_full, shared.do_empty, plan.at_do, 1, do_map, index, delta)


class Warpgroup:
    """64 keys of the CTA.  Accumulators of S^T and dP^T: rows are keys, columns are queries."""

    def __init__(self, plan: Backward, dtype, shared: Shared, tile: KeyTile, thread, number):
        self.plan, self.dtype, self.shared, self.tile = plan, dtype, shared, tile
        self.thread, self.number = thread, number
        self.first_key = number * 64
        self.scores, self.dp = (list(reg.array(f32, plan.rows // 2)) for _ in range(2))
        self.p, self.ds = ([reg.scalar(b32) for _ in range(plan.rows // 4)] for _ in range(2))
        self.dk, self.dv = reg.array(f32, plan.width // 2), reg.array(f32, plan.values // 2)
        self.dq = list(reg.array(f32, plan.rows * plan.width // 256)) if plan.dq else []
        self.q_ring, self.do_ring = ptx.pipeline(plan.stages), ptx.pipeline(plan.stages)
        self.ds_ring = ptx.pipeline(1) if plan.dq else None
        self.leader = thread == 0
        base, rows = shared.base, number * (64 * 128)
        mn_major = K_MAJOR & ~0xFFFF0000
        self.k = descriptor(base + rows, K_MAJOR)
        self.v = descriptor(base + rows + plan.at_v, K_MAJOR)
        self.q, self.do = (descriptor(base + at, K_MAJOR) for at in (plan.at_q, plan.at_do))
        across = mn_major | plan.rows * 8 << 16  # with the offset from 64 columns of q and do to the next 64
        self.q_mn, self.do_mn = (descriptor(base + at, across) for at in (plan.at_q, plan.at_do))
        if not plan.dq:
            return
        # dq: if a block has 64 queries, a warpgroup takes half of the columns, otherwise half of the rows.
        by_columns = plan.rows == 64
        self.dq_columns = plan.width // 2 if by_columns else plan.width
        part = number * (plan.keys * 128)
        half = part if plan.width > WIDE else number * 64
        self.k_mn = descriptor(base + half if by_columns else base, mn_major | plan.keys * 8 << 16)
        self.ds_mn = descriptor(base + plan.at_ds if by_columns else base + part + plan.at_ds, mn_major | 1 << 16)

    def run(self, dq, results):
        tile, plan = self.tile, self.plan
        self.c = exponent_of_scores(plan, tile)
        for each in (*self.dk, *self.dv):
            ptx.inst.mov.f32(each, 0.0)
        self._wait_for_keys()
        self.ends = tile.key + self.first_key + 64 > tile.N
        for _ in tile.heads():
            index = tile.first
            for until, masked in self._stretches():
                for at in ptx.range_(index, until, 1):
                    self._block(at, masked, dq)
                index = apply(s32, ptx.inst.max.s32, index, until)
        ptx.bar.sync(EVERYONE, 128 * GROUPS)  # k is no operand any more
        for each in self.dk:
            ptx.inst.mul.rn.f32(each, each, tile.scale)
        self._store(results, [(0, self.dk, 0), (1, self.dv, plan.at_v)], self.number * 64, plan.keys)

    def _wait_for_keys(self):
        """Waits for k and v.  Behind the last key of a sequence are those of the next sequence, which become zeros."""
        plan, tile, shared = self.plan, self.tile, self.shared
        ptx.mbarrier.wait(shared.kv_full, 0)
        if not plan.ragged:
            return
        with ptx.if_(tile.key + plan.keys > tile.N):
            for at, width in ((0, plan.width), (plan.at_v, plan.values)):
                self._clear(shared.base + at, signed(tile.N - tile.key), plan.keys, width)
            self._cleared()

    def _clear(self, base, first, rows: int, width: int):
        both = (self.number << 7) + self.thread
        clear_rows(base, first, rows, width // WIDE, both, 128 * GROUPS)

    def _cleared(self):
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(EVERYONE, 128 * GROUPS)

    def _clear_queries(self, index, q, do):
        """Writes zeros behind the last query of a sequence: P is 0 there, but 0 times infinity is NaN.  `q`, `do`: stage and phase."""
        plan, shared, tile = self.plan, self.shared, self.tile
        count = signed(tile.M) - index * plan.rows
        with ptx.if_(count < plan.rows):
            for (stage, phase), full, at, width in (
                (q, shared.q_full, plan.at_q, plan.width), (do, shared.do_full, plan.at_do, plan.values),
            ):  # fmt: skip
                ptx.mbarrier.wait(full[stage], phase)
                self._clear(shared.base + stage * (plan.rows * width * 2) + at, count, plan.rows, width)
            self._cleared()

    def _store(self, results, parts, first, rows: int):
        """Stores 64 keys of dk and dv.  `parts`: (0 for dk or 1 for dv, accumulators, place in shared memory), where a place has `rows` rows."""
        row = first + ((self.thread >> 5) << 4) + ((self.thread & 31) >> 2)

        def store_rows(dtype):
            for which, accumulators, _ in parts:
                results.store_rows(which, dtype, accumulators, row, (self.thread & 3) << 1)

        if self.plan.parts:
            store_rows(f32)
            return
        passes = results.passes(first)
        if passes is None:
            self._copy(results, parts, first, rows)
            return
        with ptx.if_(passes):
            store_rows(self.dtype)
        with ptx.else_():
            self._copy(results, parts, first, rows)

    def _copy(self, results, parts, first, rows: int):
        source = self.shared.base + self.number * (64 * 128) if rows > 64 else self.shared.base
        for _, accumulators, at in parts:
            stage_halves(self.dtype, accumulators, source + at, self.thread, rows)
        ptx.fence.proxy_async_shared_cta()
        self._sync_group()
        with ptx.if_(self.leader):
            for which, accumulators, at in parts:
                results.copy(which, source + at, first, len(accumulators) * 2 // WIDE, rows * 128)
            ptx.cp_async_bulk.commit_group()
            ptx.cp_async_bulk.wait_group(0)

    def _stretches(self):
        tile, plan = self.tile, self.plan
        end = tile.last + 1
        if plan.right:
            yield apply(s32, ptx.inst.min.s32, tile.whole_first, end), True
        if plan.left:
            yield tile.whole_last + 1, False
        yield end, plan.left

    def _block(self, index, masked: bool, dq):
        plan, shared = self.plan, self.shared
        stage, phase = self.q_ring.advance()
        ahead = self.do_ring.advance() if plan.ragged else None
        if plan.ragged:
            self._clear_queries(index, (stage, phase), ahead)
        ptx.mbarrier.wait(shared.q_full[stage], phase)
        q, q_mn = (apply(u64, ptx.inst.mad.wide.u32, stage, plan.q_bytes >> 4, x) for x in (self.q, self.q_mn))
        ptx.wgmma.fence()
        self._by_columns(self.scores, self.k, q, plan.width)
        do_stage, do_phase = ahead or self.do_ring.advance()
        ptx.mbarrier.wait(shared.do_full[do_stage], do_phase)
        do, do_mn = (apply(u64, ptx.inst.mad.wide.u32, do_stage, plan.do_bytes >> 4, x) for x in (self.do, self.do_mn))
        self._by_columns(self.dp, self.v, do, plan.values)
        sums = shared.base + stage * (2 * plan.rows * 4) + ((self.thread & 3) << 3)
        ptx.wgmma.wait_group(1)
        self._probabilities(index, masked, sums)
        ptx.wgmma.wait_group(0)
        self._differences(sums)
        ptx.wgmma.fence()
        self._by_rows(self.dv, self.p, do_mn)
        if plan.dq:
            if not plan.whole:
                with ptx.if_(self.ends):
                    self._clear_keys()
            self._stage_ds()
            ptx.bar.sync(EVERYONE, 128 * GROUPS)
            ptx.wgmma.fence()
            self._by_keys()
        else:
            self._sync_group()  # all have read the sums
        self._by_rows(self.dk, self.ds, q_mn)
        ptx.wgmma.wait_group(1)
        self._free(shared.do_empty[do_stage])
        if plan.dq:
            self._add_dq(index, dq)
        ptx.wgmma.wait_group(0)
        self._free(shared.q_empty[stage])

    # Products.

    def _by_columns(self, d, a, b, width: int):
        """d (keys, queries) = a (keys, width) b (queries, width)^T."""
        plan = self.plan
        for step in range(width // 16):
            half, within = divmod(step, 4)
            a_at, b_at = ((half * size * 128 + within * 32) >> 4 for size in (plan.keys, plan.rows))
            kind = self.dtype
            ptx.wgmma.mma_async((64, plan.rows, 16), f32, kind, kind, d, a + a_at, b + b_at, scale_d=step > 0)
        ptx.wgmma.commit_group()

    def _by_rows(self, d, a, b):
        """d (keys, width) += a (keys, queries), in registers, b (queries, width)."""
        plan, kind = self.plan, self.dtype
        for step in range(plan.rows // 16):
            part = a[4 * step : 4 * step + 4]
            ptx.wgmma.mma_async(
                (64, 2 * len(d), 16), f32, kind, kind, d, part, b + (step * 2048 >> 4), scale_d=True, trans_b=1
            )
        ptx.wgmma.commit_group()

    def _by_keys(self):
        """dq (64 queries, columns) = dS (queries, keys) k (keys, columns)."""
        kind = self.dtype
        for step in range(self.plan.keys // 16):
            at = step * 2048 >> 4
            ptx.wgmma.mma_async(
                (64, self.dq_columns, 16),
                f32,
                kind,
                kind,
                self.dq,
                self.ds_mn + at,
                self.k_mn + at,
                scale_d=step > 0,
                trans_a=1,
                trans_b=1,
            )
        ptx.wgmma.commit_group()

    # Between them.

    def _columns(self, sums, at: int):
        """Yields (a group of 8 queries, the sums of the thread's two of them), loaded from shared memory."""
        for group in range(self.plan.rows // 8):
            pair = [reg.scalar(f32), reg.scalar(f32)]
            ptx.inst.ld.shared.v2.f32(pair, ptx.addr(sums, at + group * 32))
            yield group, pair

    def _probabilities(self, index, masked: bool, sums):
        """Makes P = exp(scale score - lse) of `scores`, and rounds it to `p`.  With a cap, `scores` keep their tanh instead."""
        plan = self.plan
        if plan.softcap:
            cap_scores(self.scores, self.tile)
        if masked:
            self._mask(index)
        for group, pair in self._columns(sums, plan.at_sums):
            negatives = [apply(f32, ptx.inst.neg.f32, each) for each in pair]
            for half in range(2):
                at = 4 * group + 2 * half
                into = self.scores[at : at + 2] if not plan.softcap else [reg.scalar(f32) for _ in range(2)]
                for each, score, negative in zip(into, self.scores[at : at + 2], negatives, strict=True):
                    ptx.inst.fma.rn.f32(each, score, self.c, negative)
                    ptx.inst.ex2.approx.ftz.f32(each, each)
                self._pack(self.p[at // 2 : at // 2 + 1], into)

    def _differences(self, sums):
        """Makes dS = P (dP - delta) of `dp`, with a cap times the derivative of tanh, and rounds it to `ds`."""
        plan = self.plan
        for group, pair in self._columns(sums, plan.at_sums + plan.rows * 4):
            for i in range(4):
                at = 4 * group + i
                each, score = self.dp[at], self.scores[at]
                ptx.inst.sub.f32(each, each, pair[i % 2])
                if plan.softcap:
                    score = self._times_slope(at)
                ptx.inst.mul.rn.f32(each, each, score)
        self._pack(self.ds, self.dp)

    def _times_slope(self, at: int):
        """P, as it was rounded, times 1 - t t.  For masked scores t is infinite and P is 0, so t is clipped."""
        t = apply(f32, ptx.inst.max.f32, self.scores[at], -1.0)
        slope = apply(f32, ptx.inst.fma.rn.f32, apply(f32, ptx.inst.neg.f32, t), t, 1.0)
        return apply(f32, ptx.inst.mul.rn.f32, widened(self.p[at // 2], self.dtype)[at % 2], slope)

    def _pack(self, packed, values):
        convert = getattr(ptx.inst.cvt.rn, self.dtype.name + "x2").f32
        for i, each in enumerate(packed):
            convert(each, values[2 * i + 1], values[2 * i])

    def _mask(self, index):
        """Makes the scores of queries that do not see a key -inf."""
        plan, tile = self.plan, self.tile
        first = index * plan.rows + signed((self.thread & 3) << 1)
        key = signed(tile.key + self._key())
        for row in range(2):
            sees = key - tile.shift - first + 8 * row  # the first query of the block that sees the key
            for i, each in enumerate(self.scores):
                if i // 2 % 2 != row:
                    continue
                column = i // 4 * 8 + i % 2
                if plan.right:
                    ptx.inst.selp.f32(each, each, -math.inf, sees <= column)
                if plan.left:
                    ptx.inst.selp.f32(each, each, -math.inf, sees + tile.reach >= column)

    def _clear_keys(self):
        """Makes dS of keys that do not exist zero: where all scores of a query are far below 0, P of a score of 0 is infinite."""
        exists = [self.tile.key + self._key() + 8 * half < self.tile.N for half in range(2)]
        for i, each in enumerate(self.ds):
            ptx.inst.selp.b32(each, each, 0, exists[i % 2])

    def _key(self):
        """The thread's first key of the CTA's; the other is 8 further."""
        return self.first_key + ((self.thread >> 5) << 4) + ((self.thread & 31) >> 2)

    def _stage_ds(self):
        """Stores dS^T to shared memory, once the products of both warpgroups have read the one before.  Rows are keys, each of 64 queries."""
        _, phase = self.ds_ring.advance()
        ptx.mbarrier.wait(self.shared.operands_empty, phase ^ 1)
        to = self.shared.base + self.plan.at_ds + self.number * (64 * 128)
        stage_packed(self.ds, to, self.thread, self.plan.keys)
        ptx.fence.proxy_async_shared_cta()

    def _add_dq(self, index, dq):
        """Adds the warpgroup's part of dq to memory.  There, a block of 64 queries and 8 columns is 128 times the four values of a thread."""
        plan, tile = self.plan, self.tile
        self._sync_group()
        self._free(self.shared.operands_empty)
        first = tile.padded_row() + apply(u32, ptx.inst.mov.b32, index) * plan.rows
        if plan.rows > 64:
            first += self.number << 6
        at = (
            dq
            + apply(u64, ptx.inst.mul.wide.u32, first, plan.width * 4)
            + apply(u64, ptx.inst.mul.wide.u32, self.thread, 16)
        )
        if plan.rows == 64:
            at += apply(u64, ptx.inst.mul.wide.u32, self.number, self.dq_columns * 256)
        for group in range(self.dq_columns // 8):
            four = list(self.dq[4 * group : 4 * group + 4])
            ptx.inst.red.relaxed.gpu.global_.add.v4.f32(ptx.addr(at, group * 2048), four)

    def _free(self, barrier):
        ptx.mbarrier.arrive(barrier, pred=self.leader)

    def _sync_group(self):
        ptx.bar.sync(self.number + (EVERYONE + 1), 128)


def exponent_of_scores(plan, tile):
    """The factor that makes exponents of 2 of scores, or, with a cap, of their tanh."""
    return apply(f32, ptx.inst.mul.rn.f32, tile.cap if plan.softcap else tile.scale, LOG2_E)


def cap_scores(scores, tile):
    """scores = tanh(scale score / cap)."""
    down = apply(f32, ptx.inst.div.rn.f32, tile.scale, tile.cap)
    for each in scores:
        ptx.inst.mul.rn.f32(each, each, down)
        ptx.inst.tanh.approx.f32(each, each)


def slope_of_cap(p, lse, c):
    """The derivative of tanh, 1 - t t, from p = 2^(c t - lse).  If p is 0, it may be anything."""
    t = apply(f32, ptx.inst.lg2.approx.f32, p)
    ptx.inst.add.f32(t, t, lse)
    ptx.inst.mul.rn.f32(t, t, apply(f32, ptx.inst.rcp.approx.ftz.f32, c))
    ptx.inst.max.f32(t, t, -1.0)
    ptx.inst.min.f32(t, t, 1.0)
    return apply(f32, ptx.inst.fma.rn.f32, apply(f32, ptx.inst.neg.f32, t), t, 1.0)
