"""Attention of few queries against a long cache of keys, on Hopper: limited by the bytes of the cache.

A CTA takes a stretch of the keys of one head of K and V, and the queries that read it: the heads that share it and their
queries are packed into the 64 rows of a product.  It writes its part of the result, in f32, and the log of its sum; `combine_kernel`
adds the parts up.  The cache is a tensor, or pages of one that a table names.
"""

import math
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention_forward import Shared, Warpgroup, fetch
from pyptx.kernels._attention_plan import WIDE, Forward
from pyptx.kernels._attention_tiles import Divisor, Tiles, apply, divided, floor_divided, quotient, signed
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E
from pyptx.types import b32, f32, s32, u32, u64

__all__ = ["Decode", "combine_kernel", "decode_kernel"]


@dataclass(frozen=True)
class Decode(Forward):
    """`page`: keys of a page, a power of two of 8 or more; 0: the cache is no pages.  `counted`: sequences have lengths of
    their own, as those of pages have."""

    keys: int = 64
    groups: int = 1
    stages: int = 6
    turns: bool = False
    own_output: bool = False
    page: int = 0
    counted: bool = True

    @property
    def tails(self) -> bool:
        return True

    @property
    def scalars(self) -> list:
        sizes = [
            ("u32", name)
            for name in ("B", "HK", "R", "DV", "S", *(["T"] if self.page else [] if self.counted else ["N"]))
        ]
        given = [
            ("u32", "queries"),
            ("f32", "scale"),
            *[("s32", "shift")] * (self.right or self.left),
            *[("s32", "reach")] * self.left,
            *[("f32", "cap")] * self.softcap,
        ]
        return sizes + given


def decode_kernel(dtype, plan: Decode):
    """The kernel: (q, k, v) to (parts, sums), or (q, k, v, lengths), or with pages (q, k, v, lengths, table).

    q (B, HK, R, D): R = heads that share a head of K, times `queries`; row g queries + i is query i of head g.
    k (B, HK, N, D), v (B, HK, N, DV), or pages: k (P, page, HK, D), v (P, page, HK, DV), table (B, T) s32.
    lengths (B) s32: keys of a sequence.  parts (S, B, HK, R, DV) f32, sums (S, B, HK, R) f32: logarithms to base 2.
    Where `right`, query i sees the keys up to i + shift, counted so that with shift = 0 the last query sees all.
    """
    box = plan.page and min(plan.page, plan.keys)

    def cache(width):
        if plan.page:
            return Tile("P", plan.page, "HK", width, dtype, tma_box=(1, box, 1, WIDE), packed=False, tma_swizzle="128B")
        return Tile("B", "HK", "N", width, dtype, tma_box=(1, 1, plan.keys, WIDE), packed=False, tma_swizzle="128B")

    made = kernel(
        in_specs=(
            Tile("B", "HK", "R", "D", dtype, tma_box=(1, 1, 64, WIDE), packed=False, tma_swizzle="128B"),
            cache("D"), cache("DV"), *[Tile("B", s32)] * plan.counted, *[Tile("B", "T", s32)] * (plan.page > 0),
        ),
        out_specs=(Tile("S", "B", "HK", "R", "DV", f32), Tile("S", "B", "HK", "R", f32)),
        raw_params=plan.scalars,
        grid=lambda S, B, HK, R: (B * HK, S, -(-R // 64)),
        block=(256, 1, 1),
        reqntid=True,
        dependent_launch=True,
        arch="sm_90a",
    )  # fmt: skip

    if plan.page:

        @made
        def paged_decode_attention(Q, K, V, LENGTHS, TABLE, PARTS, SUMS):
            write(plan, dtype, Stretch(plan, *ptx.global_ptrs(LENGTHS, TABLE)), (Q, K, V), PARTS, SUMS)

        return paged_decode_attention

    if plan.counted:

        @made
        def counted_decode_attention(Q, K, V, LENGTHS, PARTS, SUMS):
            write(plan, dtype, Stretch(plan, *ptx.global_ptrs(LENGTHS)), (Q, K, V), PARTS, SUMS)

        return counted_decode_attention

    @made
    def decode_attention(Q, K, V, PARTS, SUMS):
        write(plan, dtype, Stretch(plan), (Q, K, V), PARTS, SUMS)

    return decode_attention


def write(plan: Decode, dtype, stretch, tensors, parts, sums):
    """The body."""
    shared = Shared(plan, dtype)
    tid = reg.from_(ptx.special.tid.x(), u32)
    shared.initialise(tid == 0)
    maps = [tensor.tma_desc() for tensor in tensors]
    pointers = ptx.global_ptrs(parts, sums)
    with ptx.if_(tid >= 128), ptx.if_(tid == 128):
        fetch(plan, shared, stretch, (*maps, None))
    with ptx.else_():
        PackedWarpgroup(plan, dtype, shared, tid, reg.scalar(u32, init=0)).run(stretch, None, *pointers)
    ptx.ret()


class Stretch(Tiles):
    """The CTA's blocks of keys."""

    def __init__(self, plan: Decode, lengths=None, table=None):
        self.lengths, self.table = lengths, table
        ptx.griddepcontrol.wait()  # what stands in memory is of kernels ahead
        ptx.griddepcontrol.launch_dependents()
        super().__init__(plan)

    def _find(self):
        plan = self.plan
        self.batch, self.head = quotient(reg.from_(ptx.special.ctaid.x(), u32), self.HK)
        self.kv_head, self.H, self.M = self.head, self.HK, self.R
        self.part = reg.from_(ptx.special.ctaid.y(), u32)
        if plan.counted:
            self.N = apply(u32, ptx.inst.ld.global_.nc.u32, ptx.addr(self.lengths + self.batch * 4))
        self.row = reg.from_(ptx.special.ctaid.z(), u32) << 6
        self.of_query = Divisor(self.queries)
        ahead = self.shift if plan.right or plan.left else 0
        self.shift = signed(self.N - self.queries) + ahead
        last = signed(divided(self.N + (plan.keys - 1), plan.keys)) - 1
        least = reg.scalar(s32, init=0)
        if plan.left:
            ptx.inst.max.s32(least, least, floor_divided(self.shift - self.reach, plan.keys))
        blocks = apply(u32, ptx.inst.mov.b32, last - least + 1)
        each, _ = quotient(blocks + self.S - 1, self.S)
        self.first = apply(s32, ptx.inst.min.s32, least + signed(each * self.part), last + 1)
        self.last = apply(s32, ptx.inst.min.s32, self.first + signed(each) - 1, last)
        self.some = self.first <= self.last
        # A row without blocks visits one, where every key is masked.
        ptx.inst.max.s32(self.last, self.last, self.first)
        whole = signed(self.N)
        if plan.right:
            ptx.inst.min.s32(whole, whole, self.shift + 1)
        self.whole_last = floor_divided(whole, plan.keys) - 1
        self.whole_first = self.first
        if plan.left:
            begin = self.shift + signed(self.queries) - 1 - self.reach
            self.whole_first = apply(
                s32, ptx.inst.max.s32, floor_divided(begin + (plan.keys - 1), plan.keys), self.first
            )

    def each(self):
        yield

    def query(self, row):
        return self.of_query.quotient(row)[1]

    def sums_at(self, row):
        return self.line(row)

    def line(self, row):
        """A row of the parts."""
        outer = (self.part * self.B + self.batch) * self.HK + self.head
        return apply(u64, ptx.inst.mul.wide.u32, outer, self.R) + row

    def key_boxes(self, index):
        plan = self.plan
        if not plan.page:
            yield 0, (index * plan.keys, self.kv_head, self.batch)
            return
        box = min(plan.page, plan.keys)
        for row in range(0, plan.keys, box):
            key = index * plan.keys + row
            entry = apply(s32, ptx.inst.shr.s32, key, plan.page.bit_length() - 1)
            within = apply(s32, ptx.inst.and_.b32, key, plan.page - 1)
            # Blocks may pass the end of the table; what is read there is masked.
            ptx.inst.min.s32(entry, entry, signed(self.T) - 1)
            at = apply(u64, ptx.inst.mul.wide.u32, self.batch, self.T) + apply(u64, ptx.inst.cvt.u64.s32, entry)
            page = apply(s32, ptx.inst.ld.global_.nc.s32, ptx.addr(self.table + at * 4))
            yield row, (self.kv_head, within, page)


class PackedWarpgroup(Warpgroup):
    """The only one; its result stays f32."""

    def _store_sums(self, sums):
        tiles = self.tiles
        for row in range(2):
            at = tiles.row + self.first_row + 8 * row
            log = apply(f32, ptx.inst.lg2.approx.f32, self.total[row])
            self._add_base(row, log)
            ptx.inst.selp.f32(log, -math.inf, log, self.total[row] == 0.0)
            with ptx.if_((at < tiles.R) & ((self.thread & 3) == 0)):
                ptx.inst.st.global_.f32(ptx.addr(sums + tiles.line(at) * 4), log)

    def _output(self, o_map, parts):
        tiles = self.tiles
        for row in range(2):
            at = tiles.row + self.first_row + 8 * row
            with ptx.if_(at < tiles.R):
                width = apply(u64, ptx.inst.mul.wide.u32, tiles.DV, 4)
                to = parts + tiles.line(at) * width + self.first_column * 4
                for group in range(len(self.out) // 4):
                    pair = [self.out[4 * group + 2 * row], self.out[4 * group + 2 * row + 1]]
                    ptx.inst.st.global_.v2.f32(ptx.addr(to, 32 * group), pair, pred=8 * group < tiles.DV)


def combine_kernel(dtype, sinks=False, early=True):
    """The kernel: (parts, sums) of `decode_kernel` to o (B, HK, R, DV) and its lse (B, HK, R).  A CTA has 128 columns of a row,
    its warps every fourth part; there are up to 64 parts.

    With `sinks` (parts, sums, sinks), (H) f32: exp of a head's joins the sum; a head is `queries` rows.
    `early`: it may begin beside the kernel before, which GPUs since sm_90 can."""
    names = ("PARTS", "SUMS", *["SINKS"] * sinks, "OUT", "LSE")
    more = [("u32", "H"), ("u32", "queries")] if sinks else []

    made = kernel(
        in_specs=(Tile("S", "L", "DV", f32, align=16), Tile("S", "L", f32), *[Tile("H", f32)] * sinks),
        out_specs=(Tile("L", "DV", dtype), Tile("L", f32)),
        raw_params=[*(("u32", name) for name in ("S", "L", "DV")), *more],
        grid=lambda L, DV: (L, -(-DV // 128), 1),
        block=(128, 1, 1),
        reqntid=True,
        dependent_launch=early,
        arch="sm_90" if early else "sm_80",
    )

    def body(PARTS, SUMS, OUT, LSE, SINKS=None):
        parts, sums, o, lse = ptx.global_ptrs(PARTS, SUMS, OUT, LSE)
        count, lines, width = (ptx.param(u32, name) for name in ("S", "L", "DV"))
        thread, line, y = (reg.from_(each, u32) for each in (ptx.special.tid.x(), *place()))
        lane, warp = thread & 31, thread >> 5
        first_column = y << 7
        column = first_column + (lane << 2)
        memory = smem.alloc(f32, 4 * 128, align=16)
        base = reg.scalar(u32)
        ptx.inst.mov.u32(base, memory.name)
        step = apply(u64, ptx.inst.mul.wide.u32, lines, width) * 4  # from a part to the next
        from_ = apply(u32, ptx.inst.selp.u32, column, 0, column < width)
        begin = parts + (apply(u64, ptx.inst.mul.wide.u32, line, width) + from_) * 4
        if early:
            ptx.griddepcontrol.launch_dependents()
            ptx.griddepcontrol.wait()

        def fetched(first):
            """Of four parts; behind the last stands a weight of 0."""
            loaded = []
            for i in range(4):
                at = apply(u32, ptx.inst.min.u32, first + warp + 4 * i, count - 1)
                loaded.append([reg.scalar(f32) for _ in range(4)])
                ptx.inst.ld.global_.v4.f32(loaded[-1], ptx.addr(begin + apply(u64, ptx.inst.cvt.u64.u32, at) * step))
            return loaded

        logs = [reg.scalar(f32, init=-math.inf) for _ in range(2)]
        for half, log in enumerate(logs):
            index = lane + 32 * half
            at = apply(u64, ptx.inst.mul.wide.u32, index, lines) + line
            ptx.inst.ld.global_.f32(log, ptx.addr(sums + at * 4), pred=index < count)
        loaded = fetched(0)
        largest = apply(f32, ptx.inst.max.f32, *logs)
        ptx.warp.reduce_max(largest)
        if sinks:
            _, head = quotient(quotient(line, ptx.param(u32, "queries"))[0], ptx.param(u32, "H"))
            (sinks_,) = ptx.global_ptrs(SINKS)
            sink = apply(f32, ptx.inst.ld.global_.f32, ptx.addr(sinks_ + apply(u64, ptx.inst.mul.wide.u32, head, 4)))
            ptx.inst.mul.rn.f32(sink, sink, LOG2_E)
            ptx.inst.max.f32(largest, largest, sink)
        nearest = apply(f32, ptx.inst.selp.f32, 0.0, largest, largest == -math.inf)
        weights = [power(log, nearest) for log in logs]
        total = apply(f32, ptx.inst.add.f32, *weights)
        ptx.warp.reduce_sum(total)
        if sinks:
            ptx.inst.add.f32(total, total, power(sink, nearest))
        result = [reg.scalar(f32, init=0.0) for _ in range(4)]

        def add(first, loaded):
            for i, values in enumerate(loaded):
                index = first + warp + 4 * i
                weight = apply(f32, ptx.inst.selp.f32, *weights, index < 32)
                ptx.inst.shfl.sync.idx.b32(weight, weight, index & 31, 31, 0xFFFFFFFF)
                for into, value in zip(result, values, strict=True):
                    ptx.inst.fma.rn.f32(into, value, weight, into)

        add(0, loaded)
        for first in ptx.range_(reg.scalar(u32, init=16), count, 16):
            add(first, fetched(first))
        ptx.inst.st.shared.v4.f32(ptx.addr(base + (thread << 4)), result)
        ptx.bar.sync(0)
        inverse = apply(f32, ptx.inst.rcp.approx.ftz.f32, total)
        ptx.inst.selp.f32(inverse, 0.0, inverse, total == 0.0)
        pair = thread << 1
        with ptx.if_((thread < 64) & (first_column + pair < width)):
            added = [reg.scalar(f32, init=0.0) for _ in range(2)]
            for i in range(4):
                values = [reg.scalar(f32) for _ in range(2)]
                ptx.inst.ld.shared.v2.f32(values, ptx.addr(base + (pair << 2), 512 * i))
                for into, value in zip(added, values, strict=True):
                    ptx.inst.add.f32(into, into, value)
            low, high = (apply(f32, ptx.inst.mul.rn.f32, each, inverse) for each in added)
            packed = apply(b32, getattr(ptx.inst.cvt.rn, dtype.name + "x2").f32, high, low)
            at = apply(u64, ptx.inst.mul.wide.u32, line, width) + (first_column + pair)
            ptx.inst.st.global_.b32(ptx.addr(o + at * 2), packed)
        log = apply(f32, ptx.inst.lg2.approx.f32, total)
        ptx.inst.add.f32(log, log, largest)
        ptx.inst.mul.rn.f32(log, log, 1 / LOG2_E)
        at = apply(u64, ptx.inst.mul.wide.u32, line, 4)
        ptx.inst.st.global_.f32(ptx.addr(lse + at), log, pred=(thread | y) == 0)
        ptx.ret()

    def place():
        return ptx.special.ctaid.x(), ptx.special.ctaid.y()

    def power(x, base):
        difference = apply(f32, ptx.inst.sub.f32, x, base)
        return apply(f32, ptx.inst.ex2.approx.ftz.f32, difference)

    return made(with_tensors("combine_attention", names, body))
