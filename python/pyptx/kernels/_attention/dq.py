"""dq of attention on Hopper, without dk and dv: one warpgroup adds up each element, in the order of the keys.

A CTA keeps 128 queries with their do, 64 for each warpgroup, and goes over blocks of keys, from the last down, as the forward does:

    S = q k^T    dP = do v^T    dS = exp(scale S - lse) (dP - delta)    dq += dS k

dS never leaves the registers: rounded, it is the operand A of the third product.  Where such tiles are few and keys many, CTAs share the keys
of a tile, and leave f32 values for another kernel to add up, in a fixed order.
"""

from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.backward import cap_scores, exponent_of_scores, slope_of_cap
from pyptx.kernels._attention.forward import Warpgroup, descriptor
from pyptx.kernels._attention.plan import EVERYONE, K_MAJOR, WIDE, Forward
from pyptx.kernels._attention.results import clear_rows
from pyptx.kernels._attention.sums import padded_begin
from pyptx.kernels._attention.tiles import RaggedTile, Tiles, apply, signed
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import divided, quotient, smem_address
from pyptx.types import f32, s32, u32, u64

__all__ = ["QueryGradient", "dq_kernel"]


@dataclass(frozen=True)
class QueryGradient(Forward):
    """How the kernel for one size of heads is cut."""

    groups: int = 2
    stages: int = 2  # of the ring of K; that of V has as many, or one if there is no memory for two
    ctas: int = 0
    turns: bool = False
    own_output: bool = False
    parts: bool = False  # whether S CTAs share the keys of a tile

    @property
    def result(self) -> int:
        return self.width

    @property
    def do_bytes(self) -> int:
        return self.rows * self.values * 2

    @property
    def v_stages(self) -> int:
        return 1 if self.values > 192 else self.stages

    @property
    def at_k(self) -> int:
        return self.q_bytes + self.do_bytes

    @property
    def bytes(self) -> int:
        return self.at_v + self.v_stages * self.v_bytes

    @property
    def scalars(self) -> list:
        return [*super().scalars, ("u32", "R"), *[("u32", "S"), ("u32", "D")] * self.parts]

    @property
    def width_name(self) -> str:
        return "D"


def dq_kernel(dtype, plan: QueryGradient):
    """The kernel from (q, k, v, do, sums) to dq.  Shapes are as in `wide_kernel`.  In parts, dq is (B, S, H, M, D) in f32."""

    def tile(heads, length, width, rows):
        if plan.ragged:
            return Tile(length, heads, width, dtype, tma_box=(rows, 1, WIDE), packed=False, tma_swizzle="128B")
        return Tile("B", heads, length, width, dtype, tma_box=(1, 1, rows, WIDE), packed=False, tma_swizzle="128B")

    def grid(H, M, B=1, P=None, S=1):
        return (H * (M // plan.rows + P - 1) if P is not None else S * B * H * -(-M // plan.rows), 1, 1)

    more = {"BEGINS": Tile("P", s32), "KEY_BEGINS": Tile("P", s32)} if plan.ragged else {}
    sums = Tile("H", 2, "R", f32) if plan.ragged else Tile("B", "H", 2, "R", f32)

    def body(Q, K, V, DO, SUMS, OUT, BEGINS=None, KEY_BEGINS=None):
        of_length = PartTiles if plan.parts else Tiles
        tiles = RaggedTile(plan, *ptx.global_ptrs(BEGINS, KEY_BEGINS)) if plan.ragged else of_length(plan)
        shared = Shared(plan, dtype)
        tid = reg.from_(ptx.special.tid.x(), u32)
        group = tid >> 7
        shared.initialise(tid == 0)
        maps = [tensor.tma_desc() for tensor in (Q, K, V, DO)]
        out_map = None if plan.parts else OUT.tma_desc()
        sums_, out = ptx.global_ptrs(SUMS, OUT)
        with ptx.if_(group == 0):
            ptx.setmaxnreg_dec(24)
            with ptx.if_(tid == 0):
                fetch(plan, shared, tiles, maps)
        with ptx.else_():
            ptx.setmaxnreg_inc(240)
            QueryWarpgroup(plan, dtype, shared, tid & 127, group - 1).run(tiles, out_map, out, sums_)
        ptx.ret()

    grids = (lambda H, M, P: grid(H, M, P=P)) if plan.ragged else (lambda B, H, M: grid(H, M, B))
    if plan.parts:
        grids = lambda S, B, H, M: grid(H, M, B, S=S)  # noqa: E731
    return kernel(
        in_specs=(
            tile("H", "M", "D", plan.rows), tile("HK", "N", "D", plan.keys), tile("HK", "N", "DV", plan.keys),
            tile("H", "M", "DV", plan.rows), sums, *more.values(),
        ),
        out_specs=(Tile("B", "S", "H", "M", "D", f32) if plan.parts else tile("H", "M", "D", 64),),
        raw_params=plan.scalars,
        grid=grids,
        block=(128 * (plan.groups + 1), 1, 1),
        reqntid=True,
        batch=None if plan.ragged else "B",
        arch="sm_90a",
    )(with_tensors("attention_dq", ("Q", "K", "V", "DO", "SUMS", *more, "OUT"), body))  # fmt: skip


class PartTiles(Tiles):
    """The CTA's tile, of whose blocks of keys it has one of S parts."""

    def _turn(self):
        self.number, self.part = divided(reg.from_(ptx.special.ctaid.x(), u32), self.S)
        return self.number, self.count

    def _blocks(self):
        super()._blocks()
        blocks, first = self.last - self.first + 1, self.first
        self.first, end = (
            first + signed(quotient(apply(u32, ptx.inst.mul.lo.u32, blocks, part), self.S))
            for part in (self.part, self.part + 1)
        )
        self.last = end - 1


class Shared:
    """The memory of a CTA: q (dq takes its place), do, and the rings of K and V."""

    def __init__(self, plan: QueryGradient, dtype):
        self.plan = plan
        memory = smem.alloc(dtype, plan.bytes // 2, align=1024)
        self.base = smem_address(memory)
        self.q_full, self.q_empty = smem.mbarrier(1)[0], smem.mbarrier(1)
        self.k_full, self.k_empty = smem.mbarrier(plan.stages), smem.mbarrier(plan.stages)
        self.v_full, self.v_empty = smem.mbarrier(plan.v_stages), smem.mbarrier(plan.v_stages)

    def initialise(self, leader):
        plan = self.plan
        with ptx.if_(leader):
            ptx.mbarrier.init(self.q_full, 1)
            ptx.mbarrier.init(self.q_empty[0], plan.groups)
            for stages, full, empty in (
                (plan.stages, self.k_full, self.k_empty), (plan.v_stages, self.v_full, self.v_empty),
            ):  # fmt: skip
                for stage in range(stages):
                    ptx.mbarrier.init(full[stage], 1)
                    ptx.mbarrier.init(empty[stage], plan.groups)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)


def fetch(plan: QueryGradient, shared: Shared, tiles: Tiles, maps):
    """Writes the copies of a CTA, which one thread makes: q and do, then k and v of each block."""
    q_map, k_map, v_map, do_map = maps
    k_ring, v_ring = ptx.pipeline(plan.stages), ptx.pipeline(plan.v_stages)

    def block(ring, full, empty, at, bytes_, map_, index):
        stage, phase = ring.advance()
        ptx.mbarrier.wait(empty[stage], phase ^ 1)
        ptx.mbarrier.arrive_expect_tx(full[stage], bytes_)
        for _, place in tiles.key_boxes(index):
            for i in range(bytes_ // (plan.keys * 128)):
                to = ptx.addr(shared.base + stage * bytes_, at + i * plan.keys * 128)
                ptx.tensor_copy.load(to, map_, (i * WIDE, *place), full[stage])

    for _ in tiles.each():
        ptx.mbarrier.arrive_expect_tx(shared.q_full, plan.q_bytes + plan.do_bytes)
        for at, map_, width in ((0, q_map, plan.width), (plan.q_bytes, do_map, plan.values)):
            for i in range(width // WIDE):
                to = ptx.addr(shared.base, at + i * plan.rows * 128)
                ptx.tensor_copy.load(to, map_, tiles.place(i * WIDE, tiles.row), shared.q_full)
        for index in ptx.range_(tiles.last, tiles.first - 1, -1):
            block(k_ring, shared.k_full, shared.k_empty, plan.at_k, plan.k_bytes, k_map, index)
            block(v_ring, shared.v_full, shared.v_empty, plan.at_v, plan.v_bytes, v_map, index)


class QueryWarpgroup(Warpgroup):
    """Computes 64 query rows of the CTA; `out` is their dq."""

    def __init__(self, plan: QueryGradient, dtype, shared: Shared, thread, number):
        super().__init__(plan, dtype, shared, thread, number)
        self.dp = reg.array(f32, plan.keys // 2)
        self.v_ring = ptx.pipeline(plan.v_stages)
        base = shared.base
        self.q, self.q_stage = self.first_q, 0
        self.do = descriptor(base + number * (64 * 128) + plan.q_bytes, K_MAJOR)
        self.v = descriptor(base + plan.at_v, K_MAJOR)
        self.k_mn = descriptor(base + plan.at_k, K_MAJOR & ~0xFFFF0000 | plan.keys * 8 << 16)
        self.lse, self.delta = ([reg.scalar(f32) for _ in range(2)] for _ in range(2))

    def run(self, tiles: Tiles, out_map, out, sums):
        self.tiles = tiles
        self.c = exponent_of_scores(self.plan, tiles)
        for _ in tiles.each():
            self._begin_tile(sums)
            top = tiles.last + 1
            for until, masked in self._stretches():
                for index in ptx.range_(top - 1, until - 1, -1):
                    self._block(index, masked)
                top = apply(s32, ptx.inst.min.s32, top, until)
            ptx.wgmma.wait_group(0)
            for each in self.out:
                ptx.inst.mul.rn.f32(each, each, tiles.scale)
            self._output(out_map, out)

    def _output(self, out_map, out):
        if not self.plan.parts:
            super()._output(out_map, out)
            return
        tiles = self.tiles
        line = (tiles.batch * tiles.S + tiles.part) * tiles.H + tiles.head
        for half in range(2):
            row = tiles.row + self.number * 64 + self.first_row + 8 * half
            at = apply(u64, ptx.inst.mul.wide.u32, line, tiles.M) + row
            at = at * apply(u64, ptx.inst.mul.wide.u32, tiles.D, 4)
            to = out + at + apply(u64, ptx.inst.mul.wide.u32, self.first_column, 4)
            with ptx.if_(row < tiles.M):
                for group in range(self.plan.width // 8):
                    pair = self.out[4 * group + 2 * half : 4 * group + 2 * half + 2]
                    ptx.inst.st.global_.v2.f32(ptx.addr(to, 32 * group), pair, pred=8 * group < tiles.D)

    def _begin_tile(self, sums):
        plan = self.plan
        for each in self.out:
            ptx.inst.mov.f32(each, 0.0)
        self._read_sums(sums)
        ptx.mbarrier.wait(self.shared.q_full, 0)
        if plan.tails:
            self._clear_last()

    def _read_sums(self, sums):
        """Loads lse and delta of the thread's rows."""
        plan, tiles = self.plan, self.tiles
        row = tiles.row + self.number * 64 + self.first_row
        if plan.ragged:
            line = apply(u64, ptx.inst.mul.wide.u32, tiles.head * 2, tiles.R)
            row = row + padded_begin(tiles.begin, tiles.found - 1)
        else:
            line = apply(u64, ptx.inst.mul.wide.u32, (tiles.batch * tiles.H + tiles.head) * 2, tiles.R)
        at = sums + (line + row) * 4
        below = at + apply(u64, ptx.inst.mul.wide.u32, tiles.R, 4)
        for half in range(2):
            ptx.inst.ld.global_.nc.f32(self.lse[half], ptx.addr(at, 32 * half))
            ptx.inst.ld.global_.nc.f32(self.delta[half], ptx.addr(below, 32 * half))

    def _clear_last(self):
        """Writes zeros behind the last key of a sequence: dS is 0 there, but 0 times infinity is NaN."""
        plan, tiles, shared = self.plan, self.tiles, self.shared
        count = signed(tiles.N) - tiles.last * plan.keys
        ptx.inst.max.s32(count, count, 0)
        with ptx.if_(count < plan.keys):
            both, threads = (self.number << 7) + self.thread, 128 * plan.groups
            for full, at, width in ((shared.k_full, plan.at_k, plan.width), (shared.v_full, plan.at_v, plan.values)):
                ptx.mbarrier.wait(full[0], 0)
                clear_rows(shared.base + at, count, plan.keys, width // WIDE, both, threads)
            ptx.fence.proxy_async_shared_cta()
            ptx.bar.sync(EVERYONE, threads)

    def _block(self, index, masked: bool):
        plan, shared = self.plan, self.shared
        stage, phase = self.k_ring.advance()
        v_stage, v_phase = self.v_ring.advance()
        ptx.mbarrier.wait(shared.k_full[stage], phase)
        ptx.wgmma.fence()
        self._by_columns(self.scores, self.q, self._at(stage, plan.k_bytes, self.k), plan.width)
        ptx.mbarrier.wait(shared.v_full[v_stage], v_phase)
        self._by_columns(self.dp, self.do, self._at(v_stage, plan.v_bytes, self.v), plan.values)
        ptx.wgmma.wait_group(1)
        self._probabilities(index, masked)
        ptx.wgmma.wait_group(0)
        self._free(shared.v_empty[v_stage])
        self._differences()
        ptx.wgmma.fence()
        self._by_rows(self._at(stage, plan.k_bytes, self.k_mn))
        ptx.wgmma.wait_group(0)
        self._free(shared.k_empty[stage])

    def _at(self, stage, bytes_: int, first):
        return apply(u64, ptx.inst.mad.wide.u32, stage, bytes_ >> 4, first)

    def _by_columns(self, d, a, b, width: int):
        """d (queries, keys) = a (queries, width) b (keys, width)^T."""
        plan, kind = self.plan, self.dtype
        for step in range(width // 16):
            half, within = divmod(step, 4)
            a_at, b_at = ((half * size * 128 + within * 32) >> 4 for size in (plan.rows, plan.keys))
            ptx.wgmma.mma_async((64, plan.keys, 16), f32, kind, kind, d, a + a_at, b + b_at, scale_d=step > 0)
        ptx.wgmma.commit_group()

    def _by_rows(self, k):
        """dq += dS k."""
        plan, kind = self.plan, self.dtype
        for step in range(plan.keys // 16):
            part = self.p[4 * step : 4 * step + 4]
            ptx.wgmma.mma_async(
                (64, plan.width, 16), f32, kind, kind, self.out, part, k + (step * 2048 >> 4), scale_d=True, trans_b=1
            )
        ptx.wgmma.commit_group()

    def _probabilities(self, index, masked: bool):
        if self.plan.softcap:
            cap_scores(self.scores, self.tiles)
        if masked:
            self._mask(index)
        for i, each in enumerate(self.scores):
            negative = apply(f32, ptx.inst.neg.f32, self.lse[i // 2 % 2])
            ptx.inst.fma.rn.f32(each, each, self.c, negative)
            ptx.inst.ex2.approx.ftz.f32(each, each)

    def _differences(self):
        """Makes dS of `scores`, and rounds it to `p`."""
        for i, each in enumerate(self.scores):
            difference = apply(f32, ptx.inst.sub.f32, self.dp[i], self.delta[i // 2 % 2])
            if self.plan.softcap:
                ptx.inst.mul.rn.f32(difference, difference, slope_of_cap(each, self.lse[i // 2 % 2], self.c))
            ptx.inst.mul.rn.f32(each, each, difference)
        self._pack()
