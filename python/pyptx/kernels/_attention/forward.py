"""The forward of attention on Hopper, o = softmax(scale q k^T) v, in f16 and bf16, for heads of up to 256 elements.

A CTA takes tiles of query rows.  Its first warpgroup fetches: one thread issues tensor copies of K and V into two rings.
The others compute 64 query rows each.  A block of keys is two products with softmax between them.  To keep the tensor cores
busy meanwhile,

- q k^T of the next block is issued before p v of this one, so softmax runs beside p v, and
- the warpgroups take turns: while one computes exponentials, another one's products run.

P never leaves the registers: the accumulators of one product, rounded, are the operand A of the other.  Rows of scores keep a
running maximum and sum (FlashAttention, Dao 2022; the schedule is that of FlashAttention-3, Shah et al. 2024).
"""

import contextlib
import copy
import types

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.plan import EVERYONE, K_MAJOR, WIDE, Forward, k_major
from pyptx.kernels._attention.results import Lines, stage_halves, store_directly
from pyptx.kernels._attention.softmax import Softmax
from pyptx.kernels._attention.tiles import RaggedTile, Tiles, apply, floor_divided, signed
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import smem_address
from pyptx.types import b16, b32, f32, pred, s32, u32, u64

__all__ = ["forward_kernel"]


def forward_kernel(dtype, plan: Forward, computes=None):
    """The kernel: (q, k, v) to (o, log-sum-exp of the scores).

    q (B, H, M, D), k (B, HK, N, D), v (B, HK, N, DV), o (B, H, M, DV), the sums (B, H, M) f32; HK divides H, D and DV are at
    most the plan's: copies fill what lies beyond with zeros, and store none of it.  Query i sees the keys up to i + shift
    where `right`, and from i + shift - reach on where `left`.  `together` heads share K and V in L2.  Where `biased` a tensor of
    q's type follows v, what is added to scores, with its strides as scalars; with `sinks` one more, (H) f32, and the sums have
    exp(sink) in them.  `computes` takes the place of `Warpgroup`.
    """

    def tile(heads, length, width, rows):
        if plan.ragged:
            return Tile(length, heads, width, dtype, tma_box=(rows, 1, WIDE), packed=False, tma_swizzle="128B")
        return Tile("B", heads, length, width, dtype, tma_box=(1, 1, rows, WIDE), packed=False, tma_swizzle="128B")

    def grid(H, M, B=1, P=None):
        tiles = H * (M // plan.rows + P - 1) if P is not None else B * H * plan.row_tiles(M)
        return (min(tiles, plan.ctas or tiles), 1, 1)

    sums = Tile("H", "M", f32) if plan.ragged else Tile("B", "H", "M", f32)
    more = beside_of(dtype, plan)
    if plan.ragged:
        more |= {"BEGINS": Tile("P", s32), "KEY_BEGINS": Tile("P", s32)}

    def body(Q, K, V, OUT, LSE, SINKS=None, BIAS=None, BEGINS=None, KEY_BEGINS=None):
        tiles = RaggedTile(plan, *ptx.global_ptrs(BEGINS, KEY_BEGINS)) if plan.ragged else Tiles(plan)
        tiles.take(bias=BIAS, sinks=SINKS)
        write(plan, dtype, tiles, (Q, K, V, OUT), LSE, computes)

    return kernel(
        in_specs=(
            tile("H", "M", "D", plan.copied_rows), tile("HK", "N", "D", plan.copied_keys), tile("HK", "N", "DV", plan.copied_keys),
            *more.values(),
        ),
        out_specs=(Tile("B", "H", "M", "DV", dtype, align=16) if plan.direct else tile("H", "M", "DV", 64), sums),
        raw_params=plan.scalars,
        grid=(lambda H, M, P: grid(H, M, P=P)) if plan.ragged else (lambda B, H, M: grid(H, M, B)),
        block=(plan.threads, 1, 1),
        cluster=(2, 1, 1) if plan.pairs else None,
        reqntid=True,
        raw_directives=(("minnctapersm", (plan.resident,)),) if plan.resident > 1 else (),
        dependent_launch=plan.ahead,
        batch=batch_of(plan),
        arch="sm_90a",
    )(with_tensors("ragged_attention" if plan.ragged else "attention", ("Q", "K", "V", *more, "OUT", "LSE"), body))  # fmt: skip


def batch_of(plan: Forward) -> str | None:
    """The dimension of sequences that have nothing to do with each other; a bias may be that of each or of all."""
    return None if plan.ragged or plan.biased else "B"


def beside_of(dtype, plan: Forward) -> dict:
    """The Tiles of the tensors that follow v, by name."""
    bias = {"BIAS": Tile("BB", "BH", "BM", "BN", dtype, align=2 * plan.biased, packed=False)} if plan.biased else {}
    return bias | ({"SINKS": Tile("H", f32)} if plan.sinks else {})


def write(plan: Forward, dtype, tiles, tensors, sums, computes=None, memory=None):
    """Writes the body.  `computes`: the class of the warpgroups that do not fetch, Warpgroup by default; `memory`: that of Shared."""
    shared = (memory or Shared)(plan, dtype)
    tid = reg.from_(ptx.special.tid.x(), u32)
    group = tid >> 7
    shared.initialise(tid == 0)
    if plan.ahead:
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
    maps = [tensor.tma_desc() for tensor in (tensors[:3] if plan.direct else tensors)]
    out, lse = ptx.global_ptrs(tensors[3], sums)
    fetching, computing = plan.registers
    alone = plan.resident == 1
    fetcher = 0 if alone else plan.groups
    with ptx.if_(group == fetcher):
        if alone:
            ptx.setmaxnreg_dec(fetching)
        with ptx.if_(tid == 128 * fetcher):
            fetch(*shared.copied, tiles, maps)
        tiles.beside_fetching(shared, tid)
    with ptx.else_():
        if alone:
            ptx.setmaxnreg_inc(computing)
        number = group - 1 if alone else group
        (computes or Warpgroup)(plan, dtype, shared, tid & 127, number).run(tiles, maps[-1], out, lse)
    if plan.pairs:
        ptx.cluster.sync()  # the other CTA may still write to this one's memory, or arrive at its barriers
    ptx.ret()


class Shared:
    """The memory of a CTA: q, the rings of K and V, the result, and their barriers."""

    def __init__(self, plan: Forward, dtype):
        self.plan = plan
        memory = smem.alloc(dtype, plan.bytes // plan.size, align=1024)
        self.base = smem_address(memory)
        self.q_full, self.q_empty = smem.mbarrier(plan.q_parts), smem.mbarrier(plan.q_parts)
        self.k_full, self.k_empty, self.v_full, self.v_empty = (smem.mbarrier(plan.stages) for _ in range(4))
        self.copied = plan, self  # how the memory is cut that copies fill, and that memory

    def initialise(self, leader):
        with ptx.if_(leader):
            for part in range(self.plan.q_parts):
                ptx.mbarrier.init(self.q_full[part], 1)
                ptx.mbarrier.init(self.q_empty[part], 1 if self.plan.direct else self.plan.groups)
            for stage in range(self.plan.stages):
                for full, empty in ((self.k_full, self.k_empty), (self.v_full, self.v_empty)):
                    ptx.mbarrier.init(full[stage], self.plan.fillers)
                    ptx.mbarrier.init(empty[stage], self.plan.groups * (1 + self.plan.pairs))
            self._initialise_more()
            ptx.fence.mbarrier_init()
        if self.plan.pairs:
            ptx.cluster.sync()
        else:
            ptx.bar.sync(0)

    def _initialise_more(self):
        """Initialises barriers beside these."""


def fetch(plan: Forward, shared: Shared, tiles: Tiles, maps):
    """Writes the copies of all tiles, which one thread makes: q and the last block of K, then each block of K and, after it, the V of the block
    behind it.  Blocks are visited from the last to the first."""
    q_map, k_map, v_map = maps[:3]
    k_ring, v_ring, q_ring = (ptx.pipeline(count) for count in (plan.stages, plan.stages, plan.tiles))
    half = 0  # where this CTA's keys of a block begin
    given = {}
    if plan.pairs:
        half = reg.from_(ptx.sreg("%cluster_ctarank"), u32) * plan.copied_keys
        given["multicast_mask"] = reg.scalar(b16, init=3)

    def block(ring, full, empty, at, bytes_, map_, index, boxes):
        stage, phase = ring.advance()
        ptx.mbarrier.wait(empty[stage], phase ^ 1)
        ptx.mbarrier.arrive_expect_tx(full[stage], bytes_)
        to = shared.base + stage * bytes_ + half * plan.line
        for offset, (column, key, *outer) in boxes(index, bytes_):
            place = (column, key + signed(half) if plan.pairs else key, *outer)
            ptx.tensor_copy.load(ptx.addr(to, at + offset), map_, place, full[stage], **given)

    def keys(index):
        block(k_ring, shared.k_full, shared.k_empty, plan.at_k, plan.k_bytes, k_map, index, tiles.boxes_of_k)

    def values(index):
        tiles.await_values()
        block(v_ring, shared.v_full, shared.v_empty, plan.at_v, plan.v_bytes, v_map, index, tiles.boxes_of_v)

    def queries(stage, phase, to, row):
        full = shared.q_full[stage]
        ptx.mbarrier.wait(shared.q_empty[stage], phase ^ 1)
        ptx.mbarrier.arrive_expect_tx(full, plan.copied_rows * plan.width * plan.size)
        for i in range(plan.width // plan.columns):
            coord = tiles.place(i * plan.columns, row)
            ptx.tensor_copy.load(ptx.addr(to, i * plan.rows * plan.line), q_map, coord, full)

    for _ in tiles.each():
        stage, phase = q_ring.advance()
        if plan.direct:
            keys(tiles.last)
            for group in ptx.range_(reg.scalar(u32, init=0), plan.groups, 1):
                queries(group, phase, shared.base + group * (64 * plan.line), tiles.row + group * 64)
        else:
            queries(stage, phase, shared.base + stage * plan.q_bytes, tiles.row)
            keys(tiles.last)
        tiles.begin_values()
        for index in ptx.range_(tiles.last - 1, tiles.first - 1, -1):
            keys(index)
            values(index + 1)
        values(tiles.first)


class Warpgroup(Softmax):
    """Computes 64 query rows of a CTA's tiles.  A thread has parts of two rows, 8 apart: registers 4j and 4j + 1 of an accumulator are
    columns 8j + 2 (lane % 4) and the next one of the first row, 4j + 2 and 4j + 3 those of the second."""

    def __init__(self, plan: Forward, dtype, shared: Shared, thread, number):
        self.plan, self.dtype, self.shared, self.thread, self.number = plan, dtype, shared, thread, number
        self.result_type = dtype
        self.scores = reg.array(f32, plan.keys // 2)
        self.p = [reg.scalar(b32) for _ in range(plan.keys // 4)]
        self.out = reg.array(f32, plan.result // 2)
        self._make_rows()
        self.some = reg.scalar(pred)  # whether `out` has a value
        self.q, self.q_stage = reg.scalar(u64), reg.scalar(u32)
        self.k_ring, self.v_ring, self.q_ring = (
            ptx.pipeline(count) for count in (plan.stages, plan.stages, plan.tiles)
        )
        base = shared.base
        self.first_q = descriptor(base + number * (64 * plan.line), k_major(plan.line))
        self.k = descriptor(base + plan.at_k, k_major(plan.line))
        self.v = descriptor(base + plan.at_v, K_MAJOR & ~0xFFFF0000 | plan.keys * 8 << 16)
        self.first_row = ((thread >> 5) << 4) + ((thread & 31) >> 2)
        self.first_column = (thread & 3) << 1
        self.leader = thread == 0
        if plan.pairs:
            self.other = reg.from_(ptx.sreg("%cluster_ctarank"), u32) ^ 1

    def run(self, tiles: Tiles, o_map, o, lse):
        plan = self.plan
        self.tiles = tiles
        self._set_scale()
        if plan.turns:
            with ptx.if_(self.number == plan.groups - 1):
                self._pass_on()
        if plan.joined:
            self._each_joined(o_map, o, lse)
        else:
            for _ in tiles.each():
                top = self._own_last()
                self._begin(top)
                self._blocks(top)
                self._end(o_map, o, lse)
        if plan.turns:
            with ptx.if_(self.number == 0):
                self._wait_turn()
        if plan.own_output:  # shared memory stays until the last copy has read it
            with ptx.if_(self.leader):
                ptx.cp_async_bulk.wait_group(0, read=True)

    def _each_joined(self, o_map, o, lse):
        """Takes the tiles one after the other, but the last p v of a tile, and its end, run beside the first scores of the next tile."""
        self.before = Before(self.tiles, self.v_ring)
        begun = reg.scalar(pred)
        ptx.inst.setp.ne.u32(begun, self.number, self.number)
        for _ in self.tiles.each():
            if not self.plan.uneven:
                self._joined_tile(begun, o_map, o, lse)
                continue
            with ptx.if_(self.tiles.row + self.number * 64 >= self.tiles.end):  # no row of this warpgroup
                with ptx.if_(begun):
                    self._end_of_before(o_map, o, lse)
                ptx.inst.setp.ne.u32(begun, self.number, self.number)
                self._await_q()
                self._pass_over(self.tiles.first - 1)
                self._free(self.shared.q_empty[self.q_stage])
            with ptx.else_():
                self._joined_tile(begun, o_map, o, lse)
        with ptx.if_(begun):
            self._end_of_before(o_map, o, lse)

    def _joined_tile(self, begun, o_map, o, lse):
        top = self._own_last()
        with ptx.if_(begun):
            self._join(top, o_map, o, lse)
        with ptx.else_():
            self._begin(top)
        self._blocks(top)
        self._free(self.shared.q_empty[self.q_stage])
        self.before.keep(self.tiles, self.v_ring)
        ptx.inst.setp.eq.u32(begun, self.number, self.number)

    def _end_of_before(self, o_map, o, lse):
        tiles = self.tiles
        stage = self._issue_values(self.before.value_stage)
        self.tiles = self.before.tiles
        scale = [self._finish(row) for row in range(2)]
        self._store_sums(lse)
        self._give(stage, scale, o_map, o)
        self.tiles = tiles

    def _join(self, last, o_map, o, lse):
        """Computes the first block of a tile, and ends the tile before."""
        tiles, before, stages = self.tiles, self.before, self.before.value_stage
        self._await_q()
        self._wait_turn()
        k_stage, v_stage = self._issue_scores(), self._issue_values(stages)
        self._pass_on()
        self.tiles = before.tiles
        scale = [self._finish(row) for row in range(2)]
        self._store_sums(lse)
        self.tiles = tiles
        self._reset()
        ptx.wgmma.wait_group(1)
        self._free_block(self.shared.k_empty, k_stage)
        self._softmax(last, masked=True, first=True)
        self.tiles = before.tiles
        self._give(v_stage, scale, o_map, o)
        self.tiles = tiles
        self._pack()

    def _blocks(self, top):
        """Computes the blocks below the first, which is `top`."""
        for until, masked in self._stretches():
            for index in ptx.range_(top - 1, until - 1, -1):
                self._block(index, masked)
            top = apply(s32, ptx.inst.min.s32, top, until)

    def _stretches(self):
        """Yields (where a stretch of blocks ends, whether they need masks), from the last block down."""
        tiles = self.tiles
        yield apply(s32, ptx.inst.max.s32, tiles.whole_last + (1 - self.plan.careful), tiles.first), True
        if self.plan.left:
            yield apply(s32, ptx.inst.max.s32, tiles.whole_first, tiles.first), False
        yield tiles.first, self.plan.left

    # A tile.

    def _own_last(self):
        """The block to begin with.  No row of this warpgroup sees a key of the blocks behind it, which are passed over."""
        plan, tiles = self.plan, self.tiles
        if not plan.skips:
            return tiles.last
        row = signed(tiles.row) + signed(self.number * 64)
        last = apply(s32, ptx.inst.mov.s32, tiles.last)
        if plan.right:
            ptx.inst.min.s32(last, signed(tiles.N), row + tiles.shift + 64)
            last = floor_divided(last - 1, plan.keys)
            ptx.inst.max.s32(last, last, tiles.first)
            ptx.inst.min.s32(last, last, tiles.last)
        if plan.joined:  # the last block of v before these still keeps its stage
            ptx.inst.max.s32(last, last, tiles.last - (plan.stages - 1))
        else:  # rows that do not exist
            ptx.inst.selp.s32(last, tiles.first, last, row >= signed(tiles.end))
        self._pass_over(last)
        return last

    def _pass_over(self, until):
        """Frees the blocks behind `until` without computing them."""
        shared = self.shared
        for _ in ptx.range_(self.tiles.last, until, -1):
            self._wait_turn()
            self._pass_on()
            stages = []
            for ring, full in ((self.k_ring, shared.k_full), (self.v_ring, shared.v_full)):
                stage, phase = ring.advance()
                ptx.mbarrier.wait(full[stage], phase)
                stages.append(stage)
            # No product makes sure that all four warps have come so far; a late one would find the stages filled again.
            self._sync_group()
            for empty, stage in zip((shared.k_empty, shared.v_empty), stages, strict=True):
                self._free_block(empty, stage)

    def _begin(self, last):
        """Computes the scores of the first block; nothing runs beside them yet."""
        self._reset()
        self._begin_bias(last)
        self._await_q()
        self._wait_turn()
        stage = self._issue_scores()
        self._pass_on()
        ptx.wgmma.wait_group(0)
        self._free_block(self.shared.k_empty, stage)
        self._softmax(last, masked=True, first=True)
        self._pack()
        if self.plan.tails:
            self._clear_tail()

    def _reset(self):
        """Sets the state of rows that have seen no key."""
        self._reset_rows()
        ptx.inst.setp.ne.u32(self.some, self.number, self.number)

    def _await_q(self):
        stage, phase = self.q_ring.advance()
        if self.plan.direct:
            stage = self.number
        ptx.inst.mov.u32(self.q_stage, stage)
        ptx.mbarrier.wait(self.shared.q_full[stage], phase)
        ptx.inst.mov.u64(self.q, self.first_q)
        if self.plan.tiles > 1:
            ptx.inst.mad.wide.u32(self.q, stage, self.plan.q_bytes >> 4, self.first_q)

    def _issue(self):
        """Starts the scores of a block and p v of the block before, in the warpgroup's turn, and waits for the scores.  Returns the stage of v,
        which is still being read."""
        self._wait_turn()
        k_stage = self._issue_scores()
        v_stage = self._issue_values()
        self._pass_on()
        ptx.wgmma.wait_group(1)
        self._free_block(self.shared.k_empty, k_stage)
        return v_stage

    def _block(self, index, masked: bool):
        v_stage = self._issue()
        self._softmax(index, masked)
        ptx.wgmma.wait_group(0)
        self._free_block(self.shared.v_empty, v_stage)
        self._pack()
        self._scale_where_grown()

    def _end(self, o_map, o, lse):
        if self.plan.own_output or self.plan.direct:
            self._free(self.shared.q_empty[self.q_stage])
        stage = self._issue_values()
        scale = [self._finish(row) for row in range(2)]
        self._store_sums(lse)
        self._give(stage, scale, o_map, o)

    def _give(self, stage, scale, o_map, o):
        """Stores the result, once the last product has read `stage` of v."""
        ptx.wgmma.wait_group(0)
        self._free_block(self.shared.v_empty, stage)
        for i, each in enumerate(self.out):
            ptx.inst.mul.rn.f32(each, each, scale[i // 2 % 2])
        self._output(o_map, o)

    def _output(self, o_map, o):
        if self.plan.direct:
            tiles = self.tiles
            rows = [tiles.row + self.number * 64 + self.first_row + 8 * half for half in range(2)]
            at = [
                (row < tiles.end, apply(u64, ptx.inst.mul.wide.u32, tiles.DV, 2) * tiles.sums_at(row)) for row in rows
            ]
            store_directly(self.result_type, self.out, o, at, tiles.DV, self.thread)
            return
        if not self.plan.ragged:
            self._store(o_map)
            return
        # A box that passes the end of its sequence would write to the next one.
        with ptx.if_(self.tiles.row + self.number * 64 + 64 > self.tiles.M):
            self._store_rows(o)
        with ptx.else_():
            self._store(o_map)

    def _store(self, o_map):
        plan, tiles = self.plan, self.tiles
        with ptx.if_(self.leader):
            ptx.cp_async_bulk.wait_group(0, read=True)  # the last tile's result has left its place
        self._sync_group()
        at = self.shared.base + self.number * (64 * 128)
        stage_halves(self.result_type, self.out, at + plan.at_o, self.thread, plan.rows)
        ptx.fence.proxy_async_shared_cta()
        self._sync_group()
        with ptx.if_(self.leader):
            row = tiles.row + self.number * 64
            with ptx.if_(row < tiles.end) if plan.from_end else contextlib.nullcontext():
                for i in range(plan.result // WIDE):
                    coord = tiles.place(i * WIDE, row)
                    ptx.tensor_copy.store(o_map, coord, ptx.addr(at, plan.at_o + i * plan.rows * 128))
            ptx.cp_async_bulk.commit_group()
            if not plan.own_output:
                ptx.cp_async_bulk.wait_group(0, read=True)
                ptx.mbarrier.arrive(self.shared.q_empty[self.q_stage])

    def _store_rows(self, o):
        """Stores the rows that exist, of o (M, H, DV)."""
        tiles = self.tiles

        def row(half: int):
            return tiles.row + self.number * 64 + self.first_row + 8 * half

        lines = Lines(o, tiles.M, tiles.begin, tiles.H, tiles.head, getattr(tiles, self.plan.width_name))
        lines.store(self.result_type, self.out, row, self.first_column)

    # Products.

    def _issue_scores(self):
        """Starts scores = q k^T with the ring's next stage of k, and returns that stage."""
        plan, kind = self.plan, self.dtype
        stage, k = self._next(self.k_ring.advance(), self.shared.k_full, plan.k_bytes, self.k)
        for step in range(plan.width * plan.size // 32):
            box, within = divmod(step * 32, plan.line)
            q_at, k_at = ((box * size * plan.line + within) >> 4 for size in (plan.rows, plan.keys))
            ptx.wgmma.mma_async(
                (64, plan.keys, 32 // plan.size),
                f32,
                kind,
                kind,
                self.scores,
                self.q + q_at,
                k + k_at,
                scale_d=step > 0,
            )
        ptx.wgmma.commit_group()
        return stage

    def _issue_values(self, place=None):
        """Starts out += p v with the ring's next stage of v, or the one at `place`, and returns that stage."""
        plan, kind = self.plan, self.dtype
        stage, v = self._next(place or self.v_ring.advance(), self.shared.v_full, plan.v_bytes, self.v)
        for step in range(plan.keys * plan.size // 32):
            p = self.p[4 * step : 4 * step + 4]
            ptx.wgmma.mma_async(
                (64, plan.values, 32 // plan.size), f32, kind, kind, self.out, p, v + (self._place_of_v(step) >> 4),
                scale_d=self.some if step == 0 else True, **self.layout_of_v,
            )  # fmt: skip
        ptx.wgmma.commit_group()
        ptx.inst.setp.eq.u32(self.some, self.number, self.number)
        return stage

    def _next(self, place, full, bytes_: int, first):
        """Waits for the stage at `place` of a ring.  Returns (the stage, its descriptor); `first` is the descriptor of the first stage."""
        stage, phase = place
        ptx.mbarrier.wait(full[stage], phase)
        at = apply(u64, ptx.inst.mad.wide.u32, stage, bytes_ >> 4, first)
        ptx.wgmma.fence()
        return stage, at

    layout_of_v = types.MappingProxyType({"trans_b": 1})  # rows are keys

    def _place_of_v(self, step: int) -> int:
        """The bytes in front of the keys of product `step`."""
        return step * 16 * 128

    def _clear_tail(self):
        """Writes zeros to the values behind the last key, in the block that comes next.  Their p is 0, but 0 times infinity is NaN.

        All warpgroups do it together, while none of them has its turn."""
        plan, tiles, ring = self.plan, self.tiles, self.v_ring
        zeros = [reg.scalar(b32, init=0)] * 4
        ptx.mbarrier.wait(self.shared.v_full[ring.cursor], ring.phase)
        base = self.shared.base + ring.cursor * plan.v_bytes + ((self.thread & 7) << 4)
        begin = signed(tiles.N) - tiles.last * plan.keys
        ptx.inst.max.s32(begin, begin, 0)
        mine = signed((self.number << 4) + (self.thread >> 3))
        for row in ptx.range_(begin + mine, plan.keys, 16 * plan.groups):
            at = base + (row << 7)
            for i in range(plan.values // WIDE):
                ptx.inst.st.shared.v4.b32(ptx.addr(at, plan.at_v + i * plan.keys * 128), zeros)
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(EVERYONE + 2 * plan.groups, 128 * plan.groups)

    # Who waits for whom.

    def _free_block(self, barriers, stage):
        """Tells that this warpgroup has read a stage; in a pair, tells both CTAs."""
        self._free(barriers[stage])
        if self.plan.pairs:
            address = smem_address(barriers)
            ptx.inst.mapa.shared__cluster.u32(address, address, self.other)
            ptx.mbarrier.arrive_cluster(ptx.addr(address + stage * 8), pred=self.leader)

    def _free(self, barrier):
        ptx.mbarrier.arrive(barrier, pred=self.leader)

    def _sync_group(self):
        ptx.bar.sync(self.number + (EVERYONE + self.plan.groups), 128)

    def _wait_turn(self):
        if self.plan.turns:
            ptx.bar.sync(self.number + EVERYONE, 256)

    def _pass_on(self):
        if not self.plan.turns:
            return
        following = self.number + (EVERYONE + 1)
        ptx.inst.selp.u32(following, EVERYONE, following, self.number == self.plan.groups - 1)
        ptx.bar.arrive(following, 256)


class Before:
    """The tile before: copies of what its end needs of `Tiles`, and the place of its last block of v."""

    def __init__(self, tiles: Tiles, ring):
        self.tiles = copy.copy(tiles)
        self.names = ["row", "head", "batch", *["end"] * tiles.plan.from_end]
        for name in self.names:
            setattr(self.tiles, name, reg.scalar(u32))
        self.value_stage = reg.scalar(u32), reg.scalar(u32)

    def keep(self, tiles: Tiles, ring):
        for name in self.names:
            ptx.inst.mov.u32(getattr(self.tiles, name), getattr(tiles, name))
        for into, each in zip(self.value_stage, ring.advance(), strict=True):
            ptx.inst.mov.u32(into, each)


def descriptor(address, constant: int):
    return ptx.wgmma.masked_descriptor(address, mask=0x3FFF0, const_bits=constant)
