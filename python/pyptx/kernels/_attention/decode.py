"""Attention of few queries against a long cache of keys, on Hopper.  Its speed is limited by reading the cache.

A CTA takes a stretch of the keys of one head of K and V.  The queries of all heads that share it are packed into the 64 or 128 rows of a
tile.  The CTA writes its part of the result, in f32, and its sum; `combine_kernel` (_attention/combine.py) adds up the parts.  Where there are
so many sequences and heads that a CTA has all keys, it writes the result.
The cache is a tensor, or consists of pages that a table names.
"""

import math
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._attention.forward import Warpgroup, beside_of, fetch
from pyptx.kernels._attention.plan import BIAS, WIDE, options_of
from pyptx.kernels._attention.results import Lines
from pyptx.kernels._attention.small_forward import resident
from pyptx.kernels._attention.tiles import Divisor, apply, floor_divided, signed
from pyptx.kernels._attention.widened import (
    ScaledRows,
    Widened,
    WidenedTiles,
    keys_of,
    memory_of,
    scales_of,
    warpgroup_of,
)
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import divided, quotient
from pyptx.types import f32, s32, u32, u64

__all__ = ["Decode", "decode_kernel"]


@dataclass(frozen=True)
class Decode(Widened):
    """How the kernel is cut.  `page`: keys of a page, a power of two, 8 or more; 0: the cache has no pages.  `counted`: sequences have lengths
    of their own, as those in pages always have.  `alone`: a CTA has all keys of a tile."""

    keys: int = 64
    groups: int = 1
    stages: int = 6
    turns: bool = False
    own_output: bool = False
    page: int = 0
    counted: bool = True
    alone: bool = False

    @classmethod
    def of(cls, width: int, values: int, tall: bool, **masks) -> "Decode":
        """The plan for heads of this size; `tall`: tiles of 128 rows, by two warpgroups with blocks and rings as the forward's."""
        if masks["narrow"]:  # beside which memory has no room for larger blocks of heads above 128
            groups, stages = 2 if tall else 1, 1 if tall and width > 192 else 2
            keys = 128 if width == 128 or (tall and width == 64) else 64
            return cls(width, values, keys, groups, 2, turns=tall, narrow_stages=stages, **masks)
        if tall:
            keys = 128 if width <= 192 and values <= 128 else 64
            return cls(width, values, keys, 2, 3 if width <= 64 else 2, turns=True, **masks)
        return cls(width, values, stages=2 if width > 128 else 6, **masks)

    @property
    def tails(self) -> bool:
        return True

    @property
    def scalars(self) -> list:
        sizes = [
            ("u32", name)
            for name in (
                "B",
                "HK",
                "R",
                "DV",
                *["S"] * (not self.alone),
                *(["T"] if self.page else [] if self.counted else ["N"]),
                *["SK", "SV"] * self.scaled,
            )
        ]
        strides = BIAS if self.biased else ()
        return [*sizes, *strides, ("u32", "queries"), *options_of(self)]


def decode_kernel(dtype, plan: Decode):
    """The kernel from (q, k, v), (q, k, v, lengths), with pages (q, k, v, lengths, table), or (q, k, v, bias) to (parts, sums), if `alone` to (o,
    log-sum-exp).

    q (B, HK, R, D): R is the number of heads that share a head of K, times `queries`; row g * queries + i is query i of head g.
    k (B, HK, N, D), v (B, HK, N, DV), or pages: k (PAGES, page, HK, D), v (PAGES, page, HK, DV), table (B, T) s32.
    If `scaled`, scales of k and v, f32 of one number or (HK), follow v.  lengths (B) s32: the keys of each sequence.  parts (S, B, HK, R, DV) f32; sums (S, B, HK, R, 2) f32, as `combine_kernel` takes them;
    o (B, HK, R, DV), log-sum-exp (B, HK, R) f32.  If `alone`, sinks (H) f32 may come last.  The bias is as `forward_kernel` takes it.  If `right`, query i sees the keys
    up to i + shift, counted so that the last query sees all if shift is 0.
    """

    threads = 128 * (plan.groups + 1)
    together = resident(plan.bytes, threads, 128)  # CTAs; with a bias, ptxas would take registers for one
    more = scales_of(plan) | ({"LENGTHS": Tile("B", s32)} if plan.counted else {})
    more |= ({"TABLE": Tile("B", "T", s32)} if plan.page else {}) | beside_of(dtype, plan)

    def body(Q, K, V, OUT, SUMS, LENGTHS=None, TABLE=None, BIAS=None, SINKS=None, SCALE_K=None, SCALE_V=None):
        beside = {"lengths": LENGTHS, "table": TABLE, "bias": BIAS, "sinks": SINKS}
        stretch = Stretch(plan, **beside, scale_k=SCALE_K, scale_v=SCALE_V)
        write(plan, dtype, stretch, (Q, K, V), OUT, SUMS)

    lines, parts = ("B", "HK", "R"), [] if plan.alone else ["S"]
    outputs = (
        Tile(*parts, *lines, "DV", dtype if plan.alone else f32),
        Tile(*parts, *lines, *([] if plan.alone else [2]), f32, align=4 if plan.alone else 8),
    )

    def grid(B, HK, R, S=1):
        return (B * HK, S, -(-R // plan.rows))

    return kernel(
        in_specs=(
            Tile("B", "HK", "R", "D", dtype, tma_box=(1, 1, plan.rows, WIDE), packed=False, tma_swizzle="128B"),
            *keys_of(dtype, plan), *more.values(),
        ),
        out_specs=outputs,
        raw_params=plan.scalars,
        grid=(lambda B, HK, R: grid(B, HK, R)) if plan.alone else (lambda S, B, HK, R: grid(B, HK, R, S)),
        block=(threads, 1, 1),
        reqntid=True,
        raw_directives=(("minnctapersm", (together,)),) if together > 1 else (),
        dependent_launch=True,
        arch="sm_90a",
    )(with_tensors("decode_attention", ("Q", "K", "V", *more, "OUT", "SUMS"), body))  # fmt: skip


def write(plan: Decode, dtype, stretch, tensors, out, sums):
    """Writes the body."""
    kinds = (WholeWarpgroup, WidenedWhole) if plan.alone else (PackedWarpgroup, WidenedPart)
    computes = warpgroup_of(plan, *kinds, dtype)
    shared = memory_of(plan)(plan, dtype)
    tid = reg.from_(ptx.special.tid.x(), u32)
    shared.initialise(tid == 0)
    maps = [tensor.tma_desc() for tensor in tensors]
    pointers = ptx.global_ptrs(out, sums)
    fetching, computing = plan.registers
    first = 128 * plan.groups
    with ptx.if_(tid >= first):
        if plan.groups > 1:
            ptx.setmaxnreg_dec(fetching)
        with ptx.if_(tid == first):
            fetch(*shared.copied, stretch, (*maps, None))
        stretch.beside_fetching(shared, tid - first)
    with ptx.else_():
        if plan.groups > 1:
            ptx.setmaxnreg_inc(computing)
        computes(plan, plan.multiplied(dtype), shared, tid & 127, tid >> 7).run(stretch, None, *pointers)
    ptx.ret()


class Stretch(WidenedTiles):
    """The CTA's blocks of keys."""

    def __init__(self, plan: Decode, **tensors):
        self.take(**tensors)
        ptx.griddepcontrol.wait()  # lengths and the table may come from the kernel before
        ptx.griddepcontrol.launch_dependents()
        super().__init__(plan)

    def _find(self):
        plan = self.plan
        self.batch, self.head = divided(reg.from_(ptx.special.ctaid.x(), u32), self.HK)
        self.kv_head, self.H, self.M = self.head, self.HK, self.R
        self.end = self.R
        if plan.counted:
            self.N = apply(u32, ptx.inst.ld.global_.nc.u32, ptx.addr(self.lengths + self.batch * 4))
        self.row = reg.from_(ptx.special.ctaid.z(), u32) * plan.rows
        self.of_query = Divisor(self.queries)
        ahead = self.shift if plan.right or plan.left else 0
        self.shift = signed(self.N - self.queries) + ahead
        last = signed(quotient(self.N + (plan.keys - 1), plan.keys)) - 1
        least = reg.scalar(s32, init=0)
        if plan.left:
            ptx.inst.max.s32(least, least, floor_divided(self.shift - self.reach, plan.keys))
        if plan.alone:
            self.first, self.last = apply(s32, ptx.inst.min.s32, least, last + 1), last
        else:
            self.part = reg.from_(ptx.special.ctaid.y(), u32)
            each, _ = divided(apply(u32, ptx.inst.mov.b32, last - least + 1) + self.S - 1, self.S)
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
        return self.of_query.divided(row)[1]

    def bias_at(self, row):
        return self.row_of_bias(*self.head_and_query(row))

    def head_and_query(self, row):
        group, query = self.of_query.divided(row)
        return self.head * quotient(self.R, self.queries) + group, query

    def sums_at(self, row):
        return self.line(row)

    def line(self, row):
        """The line of the result, or of `parts`, for a row."""
        batch = self.batch if self.plan.alone else self.part * self.B + self.batch
        return apply(u64, ptx.inst.mul.wide.u32, batch * self.HK + self.head, self.R) + row


class PackedWarpgroup(Warpgroup):
    """A warpgroup whose result stays in f32."""

    def _store_sums(self, sums):
        tiles = self.tiles
        for row in range(2):
            at = tiles.row + self.number * 64 + self.first_row + 8 * row
            base = self._base(row)
            ptx.inst.selp.f32(base, -math.inf, base, self.total[row] == 0.0)
            with ptx.if_((at < tiles.R) & ((self.thread & 3) == 0)):
                ptx.inst.st.global_.v2.f32(ptx.addr(sums + tiles.line(at) * 8), [base, self.total[row]])

    def _output(self, o_map, parts):
        tiles = self.tiles
        for row in range(2):
            at = tiles.row + self.number * 64 + self.first_row + 8 * row
            with ptx.if_(at < tiles.R):
                width = apply(u64, ptx.inst.mul.wide.u32, tiles.DV, 4)
                to = parts + tiles.line(at) * width + self.first_column * 4
                for group in range(len(self.out) // 4):
                    pair = [self.out[4 * group + 2 * row], self.out[4 * group + 2 * row + 1]]
                    ptx.inst.st.global_.v2.f32(ptx.addr(to, 32 * group), pair, pred=8 * group < tiles.DV)


class WholeWarpgroup(Warpgroup):
    """A warpgroup that has all keys of its rows."""

    def _head_of(self, row: int):
        at = self.tiles.row + self.number * 64 + self.first_row + 8 * row
        return self.tiles.head_and_query(apply(u32, ptx.inst.min.u32, at, self.tiles.R - 1))[0]

    def _output(self, o_map, o):
        tiles = self.tiles
        begin = (tiles.batch * tiles.HK + tiles.head) * tiles.R

        def row(half: int):
            return tiles.row + self.number * 64 + self.first_row + 8 * half

        lines = Lines(o, tiles.R, begin, 1, 0, tiles.DV)
        lines.store(self.result_type, self.out, row, self.first_column)


class WidenedPart(ScaledRows, PackedWarpgroup):
    """A `PackedWarpgroup` with keys that were e4m3."""


class WidenedWhole(ScaledRows, WholeWarpgroup):
    """A `WholeWarpgroup` with such keys."""
