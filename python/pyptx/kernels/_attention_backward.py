"""The gradients of attention on Hopper: dq, dk, dv of o = softmax(scale q k^T) v, for f16 and bf16.

Three kernels.  `prepare_kernel` makes delta = sum(o do) of each query row.  `backward_kernel` gives each CTA 128 keys, 64 to
each of two warpgroups, and goes over blocks of queries: with S = q k^T, P = exp(scale S - lse), dP = do v^T and
dS = P (dP - delta),

    dv += P^T do        dk += dS^T q        dq += dS k

S and dP are computed transposed (keys are rows), so that P^T and dS^T are operands A in registers; dS goes through shared
memory for the third product.  dq collects in f32 in memory, by tensor copies that add; `finish_kernel` rounds it.
"""

import math
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention_forward import (
    EVERYONE,
    K_MAJOR,
    WIDE,
    apply,
    descriptor,
    divided,
    floor_divided,
    quotient,
    signed,
    stage_halves,
    stage_packed,
)
from pyptx.kernels._rows import LOG2_E, widened
from pyptx.types import b32, f32, s32, u32, u64

__all__ = ["Backward", "backward_kernel", "finish_kernel", "prepare_kernel"]

KEYS = 128  # of a CTA
GROUPS = 2
PAD = 128  # rows of the sums, to which lengths are rounded up


@dataclass(frozen=True)
class Backward:
    """How the backward kernel for one head size is cut."""

    width: int  # elements of a head: 64 or 128
    rows: int  # queries of a block: 64 or 128
    stages: int = 2
    right: bool = False
    left: bool = False

    @property
    def halves(self) -> int:
        return self.width // WIDE

    @property
    def q_bytes(self) -> int:
        return self.rows * self.width * 2

    @property
    def kv_bytes(self) -> int:
        return KEYS * self.width * 2

    @property
    def at_v(self) -> int:
        return self.kv_bytes

    @property
    def at_q(self) -> int:
        return 2 * self.kv_bytes

    @property
    def at_do(self) -> int:
        return self.at_q + self.stages * self.q_bytes

    @property
    def at_ds(self) -> int:
        return self.at_do + self.stages * self.q_bytes

    @property
    def at_dq(self) -> int:
        return self.at_ds + self.rows * KEYS * 2

    @property
    def at_sums(self) -> int:
        return self.at_dq + self.rows * self.width * 4

    @property
    def bytes(self) -> int:
        return self.at_sums + self.stages * 2 * self.rows * 4

    @property
    def scalars(self) -> list:
        sizes = [("u32", name) for name in ("B", "H", "HK", "M", "N")]
        masks = [("s32", "shift")] * (self.right or self.left) + [("s32", "reach")] * self.left
        return [*sizes, ("u32", "together"), ("f32", "scale"), *masks]


def backward_kernel(dtype, plan: Backward):
    """The kernel: (q, k, v, do, sums) to (dk, dv), adding to dq.

    Shapes as in `forward_kernel`, with DV = D; sums (B, H, 2, R) f32, R a multiple of 128 not below M: row 0 is log2(e) lse,
    infinite where there is no row, and row 1 is delta.  dq (B, H, M, D) f32.
    """
    tile = {"packed": False, "tma_swizzle": "128B"}
    queries = Tile("B", "H", "M", "D", dtype, tma_box=(1, 1, plan.rows, WIDE), **tile)
    keys = Tile("B", "HK", "N", "D", dtype, tma_box=(1, 1, KEYS, WIDE), **tile)
    gradients = Tile("B", "HK", "N", "D", dtype, tma_box=(1, 1, 64, WIDE), **tile)

    @kernel(
        in_specs=(
            queries,
            keys,
            keys,
            queries,
            Tile("B", "H", 2, "R", f32, align=16),
            Tile("B", "H", "M", "D", f32, tma_box=(1, 1, 64, 32), tma_swizzle="128B"),
        ),
        out_specs=(gradients, gradients),
        mutates=("DQ",),
        raw_params=[*plan.scalars, ("u32", "R")],
        grid=lambda B, HK, N: (B * HK * -(-N // KEYS), 1, 1),
        block=(128 * (GROUPS + 1), 1, 1),
        reqntid=True,
        arch="sm_90a",
    )
    def attention_backward(Q, K, V, DO, SUMS, DQ, DK, DV):
        shared = Shared(plan, dtype)
        tid = reg.from_(ptx.special.tid.x(), u32)
        group = tid >> 7
        shared.initialise(tid == 0)
        tile = KeyTile(plan)
        (sums,) = ptx.global_ptrs(SUMS)
        q_map, k_map, v_map, do_map, dq_map, dk_map, dv_map = (x.tma_desc() for x in (Q, K, V, DO, DQ, DK, DV))
        with ptx.if_(group == 0):
            ptx.setmaxnreg_dec(24)
            with ptx.if_(tid == 0):
                fetch(plan, shared, tile, (q_map, k_map, v_map, do_map), sums)
        with ptx.else_():
            ptx.setmaxnreg_inc(240)
            Warpgroup(plan, dtype, shared, tile, tid & 127, group - 1).run(dq_map, dk_map, dv_map)
        ptx.ret()

    return attention_backward


class Shared:
    """The memory of a CTA: k and v, the rings of q and do with their sums, dS and dq, and the barriers."""

    def __init__(self, plan: Backward, dtype):
        self.plan = plan
        memory = smem.alloc(dtype, plan.bytes // 2, align=1024)
        self.base = reg.scalar(u32)
        ptx.inst.mov.u32(self.base, memory.name)
        self.kv_full = smem.mbarrier(1)[0]
        self.q_full, self.q_empty, self.do_full, self.do_empty = (smem.mbarrier(plan.stages) for _ in range(4))

    def initialise(self, leader):
        with ptx.if_(leader):
            ptx.mbarrier.init(self.kv_full, 1)
            for stage in range(self.plan.stages):
                for full, empty in ((self.q_full, self.q_empty), (self.do_full, self.do_empty)):
                    ptx.mbarrier.init(full[stage], 1)
                    ptx.mbarrier.init(empty[stage], GROUPS)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)


class KeyTile:
    """The CTA's keys, the longest tiles first, and the blocks of queries that see them: `first` to `last` of each head that
    shares the keys; those from `whole_first` to `whole_last` need no mask."""

    def __init__(self, plan: Backward):
        self.plan = plan
        for name, kind in [*((name, u32) for name in ("B", "H", "HK", "M", "N", "together", "R")), ("scale", f32)]:
            setattr(self, name, ptx.param(kind, name))
        for _, name in plan.scalars[7:]:
            setattr(self, name, ptx.param(s32, name))
        tiles = divided(self.N + (KEYS - 1), KEYS)
        tile = reg.from_(ptx.special.ctaid.x(), u32)
        round_, rest = quotient(tile, self.together * tiles)
        place, within = quotient(rest, self.together)
        self.batch, self.kv_head = quotient(round_ * self.together + within, self.HK)
        self.per, _ = quotient(self.H, self.HK)
        self.key = place * KEYS
        self._blocks()

    def _blocks(self):
        plan = self.plan
        blocks = signed(divided(self.M + (plan.rows - 1), plan.rows))
        self.last = blocks - 1
        self.first, self.whole_first, self.whole_last = reg.scalar(s32, init=0), reg.scalar(s32, init=0), self.last
        if plan.right:  # query i sees key j: i >= j - shift
            sees = signed(self.key) - self.shift
            self.first = clamped(floor_divided(sees, plan.rows), blocks)
            self.whole_first = clamped(floor_divided(sees + (KEYS - 1 + plan.rows - 1), plan.rows), blocks)
        if plan.left:  # i <= j - shift + reach
            until = signed(self.key) - self.shift + self.reach
            self.whole_last = floor_divided(until + 1, plan.rows) - 1
            last = floor_divided(until + (KEYS - 1), plan.rows)
            self.last = apply(s32, ptx.inst.min.s32, self.last, last)
            ptx.inst.min.s32(self.whole_last, self.whole_last, self.last)

    def heads(self):
        """A loop over the heads that share the keys."""
        self.head = self.kv_head * self.per
        for _ in ptx.range_(0, self.per, 1, dtype=u32):
            yield
            self.head += 1


def fetch(plan: Backward, shared: Shared, tile: KeyTile, maps, sums):
    """The copies of a CTA, by one thread: k and v; then of each block q with lse, and do with delta."""
    q_map, k_map, v_map, do_map = maps
    q_ring, do_ring = ptx.pipeline(plan.stages), ptx.pipeline(plan.stages)
    ptx.mbarrier.arrive_expect_tx(shared.kv_full, 2 * plan.kv_bytes)
    for map_, at in ((k_map, 0), (v_map, plan.at_v)):
        for half in range(plan.halves):
            coord = (half * WIDE, tile.key, tile.kv_head, tile.batch)
            ptx.tensor_copy.load(ptx.addr(shared.base, at + half * KEYS * 128), map_, coord, shared.kv_full)

    def block(ring, full, empty, at, which, map_, index, row):
        stage, phase = ring.advance()
        ptx.mbarrier.wait(empty[stage], phase ^ 1)
        ptx.mbarrier.arrive_expect_tx(full[stage], plan.q_bytes + plan.rows * 4)
        to = shared.base + stage * plan.q_bytes
        for half in range(plan.halves):
            coord = (half * WIDE, index * plan.rows, tile.head, tile.batch)
            ptx.tensor_copy.load(ptx.addr(to, at + half * plan.rows * 128), map_, coord, full[stage])
        beside = shared.base + stage * (2 * plan.rows * 4)
        source = row + index * (plan.rows * 4)
        ptx.cp_async_bulk.load(
            ptx.addr(beside, plan.at_sums + which * plan.rows * 4), ptx.addr(source), plan.rows * 4, full[stage]
        )

    for _ in tile.heads():
        lines = (tile.batch * tile.H + tile.head) * 2
        lse = sums + apply(u64, ptx.inst.mul.wide.u32, lines, tile.R * 4)
        delta = lse + apply(u64, ptx.inst.mul.wide.u32, tile.R, 4)
        for index in ptx.range_(tile.first, tile.last + 1, 1):
            block(q_ring, shared.q_full, shared.q_empty, plan.at_q, 0, q_map, index, lse)
            block(do_ring, shared.do_full, shared.do_empty, plan.at_do, 1, do_map, index, delta)


class Warpgroup:
    """64 keys of the CTA.  Accumulators of S^T and dP^T: rows are keys, columns are queries."""

    def __init__(self, plan: Backward, dtype, shared: Shared, tile: KeyTile, thread, number):
        self.plan, self.dtype, self.shared, self.tile, self.thread, self.number = (
            plan,
            dtype,
            shared,
            tile,
            thread,
            number,
        )
        self.scores, self.dp = (list(reg.array(f32, plan.rows // 2)) for _ in range(2))
        self.p, self.ds = ([reg.scalar(b32) for _ in range(plan.rows // 4)] for _ in range(2))
        self.dk, self.dv = reg.array(f32, plan.width // 2), reg.array(f32, plan.width // 2)
        self.dq = list(reg.array(f32, plan.rows * plan.width // 256))
        self.q_ring, self.do_ring = ptx.pipeline(plan.stages), ptx.pipeline(plan.stages)
        self.leader = thread == 0
        base, rows = shared.base, number * (64 * 128)
        mn_major = K_MAJOR & ~0xFFFF0000
        self.k = descriptor(base + rows, K_MAJOR)
        self.v = descriptor(base + rows + plan.at_v, K_MAJOR)
        self.q, self.do = (descriptor(base + at, K_MAJOR) for at in (plan.at_q, plan.at_do))
        across = mn_major | plan.rows * 8 << 16  # of q and do: from 64 columns to the next
        self.q_mn, self.do_mn = (descriptor(base + at, across) for at in (plan.at_q, plan.at_do))
        # dq: with 64 queries a warpgroup takes half of the columns, else half of the rows.
        by_columns = plan.rows == 64 and plan.width > WIDE
        self.dq_columns = plan.width // 2 if plan.rows == 64 else plan.width
        part = number * (KEYS * 128)
        self.k_mn = descriptor(base + part if by_columns else base, mn_major | KEYS * 8 << 16)
        self.ds_mn = descriptor(base + plan.at_ds if plan.rows == 64 else base + part + plan.at_ds, mn_major | 1 << 16)

    def run(self, dq_map, dk_map, dv_map):
        tile, plan = self.tile, self.plan
        self.c = apply(f32, ptx.inst.mul.f32, tile.scale, LOG2_E)
        for each in (*self.dk, *self.dv):
            ptx.inst.mov.f32(each, 0.0)
        ptx.mbarrier.wait(self.shared.kv_full, 0)
        for _ in tile.heads():
            index = tile.first
            for until, masked in self._stretches():
                for at in ptx.range_(index, until, 1):
                    self._block(at, masked, dq_map)
                index = apply(s32, ptx.inst.max.s32, index, until)
        with ptx.if_(self.leader):
            ptx.cp_async_bulk.wait_group(0, read=True)
        ptx.bar.sync(EVERYONE, 128 * GROUPS)  # k is no operand any more
        for each in self.dk:
            ptx.inst.mul.f32(each, each, tile.scale)
        for accumulators, at in ((self.dk, 0), (self.dv, plan.at_v)):
            stage_halves(self.dtype, accumulators, self.shared.base + self.number * (64 * 128) + at, self.thread, KEYS)
        ptx.fence.proxy_async_shared_cta()
        self._sync_group()
        with ptx.if_(self.leader):
            for map_, at in ((dk_map, 0), (dv_map, plan.at_v)):
                for half in range(plan.halves):
                    coord = (half * WIDE, tile.key + self.number * 64, tile.kv_head, tile.batch)
                    source = self.shared.base + self.number * (64 * 128)
                    ptx.tensor_copy.store(map_, coord, ptx.addr(source, at + half * KEYS * 128))
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

    def _block(self, index, masked: bool, dq_map):
        plan, shared = self.plan, self.shared
        stage, phase = self.q_ring.advance()
        ptx.mbarrier.wait(shared.q_full[stage], phase)
        offset = plan.q_bytes >> 4
        q, q_mn = (apply(u64, ptx.inst.mad.wide.u32, stage, offset, x) for x in (self.q, self.q_mn))
        ptx.wgmma.fence()
        self._by_columns(self.scores, self.k, q)
        do_stage, do_phase = self.do_ring.advance()
        ptx.mbarrier.wait(shared.do_full[do_stage], do_phase)
        do, do_mn = (apply(u64, ptx.inst.mad.wide.u32, do_stage, offset, x) for x in (self.do, self.do_mn))
        self._by_columns(self.dp, self.v, do)
        sums = shared.base + stage * (2 * plan.rows * 4) + ((self.thread & 3) << 3)
        ptx.wgmma.wait_group(1)
        self._probabilities(index, masked, sums)
        ptx.wgmma.wait_group(0)
        self._differences(sums)
        ptx.wgmma.fence()
        self._by_rows(self.dv, self.p, do_mn)
        self._stage_ds()
        ptx.bar.sync(EVERYONE, 128 * GROUPS)
        ptx.wgmma.fence()
        self._by_keys()
        self._by_rows(self.dk, self.ds, q_mn)
        ptx.wgmma.wait_group(1)
        self._free(shared.do_empty[do_stage])
        self._add_dq(index, dq_map)
        ptx.wgmma.wait_group(0)
        self._free(shared.q_empty[stage])

    # Products.

    def _by_columns(self, d, a, b):
        """d (keys, queries) = a (keys, width) b (queries, width)^T."""
        plan = self.plan
        for step in range(plan.width // 16):
            half, within = divmod(step, 4)
            a_at, b_at = ((half * size * 128 + within * 32) >> 4 for size in (KEYS, plan.rows))
            kind = self.dtype
            ptx.wgmma.mma_async((64, plan.rows, 16), f32, kind, kind, d, a + a_at, b + b_at, scale_d=step > 0)
        ptx.wgmma.commit_group()

    def _by_rows(self, d, a, b):
        """d (keys, width) += a (keys, queries), in registers, b (queries, width)."""
        plan, kind = self.plan, self.dtype
        for step in range(plan.rows // 16):
            part = a[4 * step : 4 * step + 4]
            ptx.wgmma.mma_async(
                (64, plan.width, 16), f32, kind, kind, d, part, b + (step * 2048 >> 4), scale_d=True, trans_b=1
            )
        ptx.wgmma.commit_group()

    def _by_keys(self):
        """dq (64 queries, columns) = dS (queries, keys) k (keys, columns)."""
        kind = self.dtype
        for step in range(KEYS // 16):
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
        """For each group of 8 queries the values of the thread's two, from shared memory."""
        for group in range(self.plan.rows // 8):
            pair = [reg.scalar(f32), reg.scalar(f32)]
            ptx.inst.ld.shared.v2.f32(pair, ptx.addr(sums, at + group * 32))
            yield group, pair

    def _probabilities(self, index, masked: bool, sums):
        """scores become exp(scale score - lse); p is the same, rounded."""
        plan = self.plan
        if masked:
            self._mask(index)
        for group, pair in self._columns(sums, plan.at_sums):
            for i, each in enumerate(self.scores[4 * group : 4 * group + 4]):
                negative = apply(f32, ptx.inst.neg.f32, pair[i % 2])
                ptx.inst.fma.rn.f32(each, each, self.c, negative)
                ptx.inst.ex2.approx.ftz.f32(each, each)
        self._pack(self.p, self.scores)

    def _differences(self, sums):
        """dp becomes P (dP - delta); ds is the same, rounded."""
        plan = self.plan
        for group, pair in self._columns(sums, plan.at_sums + plan.rows * 4):
            for i in range(4):
                each = self.dp[4 * group + i]
                ptx.inst.sub.f32(each, each, pair[i % 2])
                ptx.inst.mul.f32(each, each, self.scores[4 * group + i])
        self._pack(self.ds, self.dp)

    def _pack(self, packed, values):
        convert = getattr(ptx.inst.cvt.rn, self.dtype.name + "x2").f32
        for i, each in enumerate(packed):
            convert(each, values[2 * i + 1], values[2 * i])

    def _mask(self, index):
        """Queries that do not see a key get -inf."""
        plan, tile = self.plan, self.tile
        first = index * plan.rows + signed((self.thread & 3) << 1)
        key = signed(tile.key + self.number * 64 + ((self.thread >> 5) << 4) + ((self.thread & 31) >> 2))
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

    def _stage_ds(self):
        """dS^T to shared memory: rows are keys, of 64 queries."""
        to = self.shared.base + self.plan.at_ds + self.number * (64 * 128)
        stage_packed(self.ds, to, self.thread, KEYS)
        ptx.fence.proxy_async_shared_cta()

    def _add_dq(self, index, dq_map):
        """The warpgroup's part of dq is added to that in memory: boxes of 64 rows and 32 columns of f32."""
        plan, tile = self.plan, self.tile
        with ptx.if_(self.leader):
            ptx.cp_async_bulk.wait_group(0, read=True)
        self._sync_group()
        boxes = self.dq_columns // 32
        base = self.shared.base + plan.at_dq + self.number * (boxes * 64 * 128)
        row = ((self.thread >> 5) << 4) + ((self.thread & 31) >> 2)
        start = base + row * 128 + ((self.thread & 1) << 3)
        swizzle, odd = row & 7, (self.thread & 3) >> 1
        for group in range(self.dq_columns // 8):
            box, piece = divmod(group * 2, 8)
            at = start + (((odd + piece) ^ swizzle) << 4)
            for i in range(2):
                pair = self.dq[4 * group + 2 * i : 4 * group + 2 * i + 2]
                ptx.inst.st.shared.v2.f32(ptx.addr(at, box * 64 * 128 + i * 8 * 128), list(pair))
        ptx.fence.proxy_async_shared_cta()
        self._sync_group()
        with ptx.if_(self.leader):
            by_columns = plan.rows == 64
            row = index * plan.rows + (0 if by_columns else signed(self.number * 64))
            for box in range(boxes):
                column = self.number * self.dq_columns + box * 32 if by_columns else box * 32
                coord = (column, row, tile.head, tile.batch)
                ptx.tensor_copy.reduce("add", dq_map, coord, ptx.addr(base, box * 64 * 128))
            ptx.cp_async_bulk.commit_group()

    def _free(self, barrier):
        ptx.mbarrier.arrive(barrier, pred=self.leader)

    def _sync_group(self):
        ptx.bar.sync(self.number + (EVERYONE + 1), 128)


def clamped(block, blocks):
    """Between 0 and the number of blocks."""
    low = apply(s32, ptx.inst.max.s32, block, 0)
    return apply(s32, ptx.inst.min.s32, low, blocks)


# Before and after.


def prepare_kernel(dtype, width: int):
    """The kernel: (o, do, lse, dlse) to sums, as `backward_kernel` takes them, and dq, zeros; all contiguous.

    o and do (B, H, M, D), lse and its gradient (B, H, M), which takes part in dS as -delta does.  `width / 8` threads take a
    row, 8 elements each.
    """
    lanes = width // 8
    rows = 128 // lanes
    matrix, column = Tile("B", "H", "M", "D", dtype, align=16), Tile("B", "H", "M", f32)

    @kernel(
        in_specs=(matrix, matrix, column, column),
        out_specs=(Tile("B", "H", 2, "R", f32), Tile("B", "H", "M", "D", f32)),
        raw_params=[("u32", "M"), ("u32", "R"), ("u32", "D")],
        grid=lambda B, H, R: (B * H * R // rows, 1, 1),
        block=(128, 1, 1),
        reqntid=True,
        arch="sm_80",
    )
    def attention_sums(OUT, DO, LSE, DLSE, SUMS, DQ):
        po, pdo, plse, pdlse, psums, pdq = ptx.global_ptrs(OUT, DO, LSE, DLSE, SUMS, DQ)
        length, padded, pieces = ptx.param(u32, "M"), ptx.param(u32, "R"), ptx.param(u32, "D") >> 3
        thread = reg.from_(ptx.special.tid.x(), u32)
        line = reg.from_(ptx.special.ctaid.x(), u32) * rows + (thread >> (lanes.bit_length() - 1))
        lane = thread & (lanes - 1)
        group, row = quotient(line, padded)
        delta, lse = reg.scalar(f32, init=0.0), reg.scalar(f32, init=math.inf)
        inside = row < length
        with ptx.if_(inside):
            at = apply(u64, ptx.inst.mul.wide.u32, group, length) + row
            with ptx.if_(lane < pieces):
                piece = at * apply(u64, ptx.inst.cvt.u64.u32, pieces) + lane
                o, do = ([reg.scalar(b32) for _ in range(4)] for _ in range(2))
                for bits, pointer in ((o, po), (do, pdo)):
                    ptx.inst.ld.global_.nc.v4.b32(bits, ptx.addr(pointer + piece * 16))
                for left, right in zip(o, do, strict=True):
                    for x, y in zip(widened(left, dtype), widened(right, dtype), strict=True):
                        ptx.inst.fma.rn.f32(delta, x, y, delta)
                zeros = [reg.scalar(f32, init=0.0)] * 4
                for half in range(2):
                    ptx.inst.st.global_.v4.f32(ptx.addr(pdq + piece * 32, 16 * half), zeros)
            ptx.inst.ld.global_.nc.f32(lse, ptx.addr(plse + at * 4))
            ptx.inst.mul.f32(lse, lse, LOG2_E)
            ptx.inst.selp.f32(lse, math.inf, lse, lse == -math.inf)  # a query that sees no key: P is 0
        ptx.warp.reduce_sum(delta, width=lanes)
        with ptx.if_(lane == 0):
            with ptx.if_(inside):
                ptx.inst.sub.f32(delta, delta, apply(f32, ptx.inst.ld.global_.nc.f32, ptx.addr(pdlse + at * 4)))
            to = psums + (apply(u64, ptx.inst.mul.wide.u32, group * 2, padded) + row) * 4
            ptx.inst.st.global_.f32(ptx.addr(to), lse)
            ptx.inst.st.global_.f32(ptx.addr(to + apply(u64, ptx.inst.mul.wide.u32, padded, 4)), delta)
        ptx.ret()

    return attention_sums


def finish_kernel(dtype):
    """The kernel: dq in f32 times `scale`, rounded."""

    @kernel(
        in_specs=(Tile("L", 8, f32, align=16),),
        out_specs=(Tile("L", 8, dtype, align=16),),
        raw_params=[("u32", "L"), ("f32", "scale")],
        grid=lambda L: (-(-L // 128), 1, 1),
        block=(128, 1, 1),
        reqntid=True,
        arch="sm_80",
    )
    def attention_dq(DQ, OUT):
        source, to = ptx.global_ptrs(DQ, OUT)
        scale = ptx.param(f32, "scale")
        convert = getattr(ptx.inst.cvt.rn, dtype.name + "x2").f32
        at = reg.from_(ptx.special.ctaid.x(), u32) * 128 + reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(at < ptx.param(u32, "L")):
            values = [reg.scalar(f32) for _ in range(8)]
            for half in range(2):
                ptx.inst.ld.global_.nc.v4.f32(values[4 * half : 4 * half + 4], ptx.addr(source + at * 32, 16 * half))
            packed = [reg.scalar(b32) for _ in range(4)]
            for i, each in enumerate(packed):
                low, high = (apply(f32, ptx.inst.mul.f32, x, scale) for x in values[2 * i : 2 * i + 2])
                convert(each, high, low)
            ptx.inst.st.global_.v4.b32(ptx.addr(to + at * 16), packed)
        ptx.ret()

    return attention_dq
