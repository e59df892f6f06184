"""Attention of many queries of each sequence against a cache of keys, on Hopper: the forward's tiles, whose keys lie in pages.

It computes what _attention/cache.py computes of sequences of queries that lie one behind the other.  A CTA takes a tile of one sequence.
Queries of heads that share keys are rows beside each other, so a sequence with few queries has few tiles.  Keys and values in e4m3 are widened
in shared memory (_attention/widened.py).
"""

from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._attention.forward import Warpgroup, beside_of, write
from pyptx.kernels._attention.plan import WIDE, options_of
from pyptx.kernels._attention.results import Lines, clear_rows
from pyptx.kernels._attention.tiles import Divisor, apply, bounds_of, sequence_of, signed
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
from pyptx.kernels._registers import quotient
from pyptx.types import f32, s32, u32, u64

__all__ = ["Prefill", "prefill_kernel"]


@dataclass(frozen=True)
class Prefill(Widened):
    """How the kernel is cut.  `page`: keys of a page, a power of two, 8 or more; 0: the cache has no pages.  `beside`: heads that share keys
    and are rows of a tile, up to 64."""

    page: int = 0
    beside: int = 1

    @property
    def tile_queries(self) -> int:
        return self.rows // self.beside

    @property
    def filled(self) -> int:
        """Rows of a tile that are queries."""
        return self.tile_queries * self.beside

    @property
    def copied_rows(self) -> int:
        return self.filled

    @property
    def scalars(self) -> list:
        sizes = ("P", "H", "HK", "M", self.width_name, *["T"] * bool(self.page), *["SK", "SV"] * self.scaled)
        return [*(("u32", name) for name in sizes), *options_of(self)]


def prefill_kernel(dtype, plan: Prefill):
    """The kernel from (q, k, v, ..., begins, lengths) and, with pages, the table to (o, log-sum-exp).

    q (M, H, D), k (B, HK, N, D), v (B, HK, N, DV), or pages: k (PAGES, page, HK, D), v (PAGES, page, HK, DV), table (B, T) s32.  Where the plan
    has them, scales of k and v, f32 of one number or (HK), and sinks (H) f32 follow v.  begins (P) s32: where the sequences of q begin; lengths (B) s32: how many keys each has.
    o (M, H, DV), the sums (H, M) f32.  If `right`, query i sees the keys up to i + shift, counted so that the last query sees all if shift is 0.
    """

    def queries(width, rows):
        box = (max(1, rows // plan.beside), plan.beside, WIDE)
        return Tile("M", "H", width, dtype, tma_box=box, packed=False, tma_swizzle="128B")

    sequences = "SEQUENCES" if plan.page else "B"
    more = scales_of(plan) | beside_of(dtype, plan) | {"BEGINS": Tile("P", s32), "LENGTHS": Tile(sequences, s32)}
    if plan.page:
        more["TABLE"] = Tile(sequences, "T", s32)

    def body(Q, K, V, OUT, LSE, BEGINS, LENGTHS, TABLE=None, SINKS=None, SCALE_K=None, SCALE_V=None):
        tiles = CachedTile(plan, *ptx.global_ptrs(BEGINS, LENGTHS, *([TABLE] if plan.page else [])))
        tiles.take(sinks=SINKS, scale_k=SCALE_K, scale_v=SCALE_V)
        computes = warpgroup_of(plan, PackedRows, WidenedRows, dtype)
        write(plan, plan.multiplied(dtype), tiles, (Q, K, V, OUT), LSE, computes, memory_of(plan))

    return kernel(
        in_specs=(queries("D", plan.rows), *keys_of(dtype, plan), *more.values()),
        out_specs=(queries("DV", 64), Tile("H", "M", f32)),
        raw_params=plan.scalars,
        grid=lambda H, M, P: (H // plan.beside * (M // plan.tile_queries + P - 1), 1, 1),
        block=(plan.threads, 1, 1),
        reqntid=True,
        arch="sm_90a",
    )(with_tensors("prefill_attention", ("Q", "K", "V", *more, "OUT", "LSE"), body))


class CachedTile(WidenedTiles):
    """The CTA's only tile.  `M` and `row` count rows: `beside` for each query.  The grid has as many CTAs as there could be tiles; those
    without a tile end."""

    def __init__(self, plan: Prefill, begins, lengths, table=None):
        self.begins, self.lengths, self.table = begins, lengths, table
        self.lane = reg.from_(ptx.special.tid.x(), u32) & 31
        super().__init__(plan)

    def _find(self):
        plan = self.plan
        groups = quotient(self.H, plan.beside)
        tile, group = Divisor(groups).divided(reg.from_(ptx.special.ctaid.x(), u32))
        self.head = group * plan.beside
        self.kv_head = quotient(self.head, quotient(self.H, self.HK))

        def rows_of(sequence):
            return [each * plan.beside for each in bounds_of(self.begins, sequence)]

        found, place = sequence_of(tile, self.P - 1, self.lane, rows_of, plan.filled)
        ptx.ret(pred=found == 0)
        self.batch, self.row = found - 1, place * plan.filled
        self.begin, end = bounds_of(self.begins, self.batch)
        queries, self.total = end - self.begin, self.M
        self.M = queries * plan.beside
        self.end = apply(u32, ptx.inst.min.u32, self.M, self.row + plan.filled)
        self.N = apply(u32, ptx.inst.ld.global_.nc.u32, ptx.addr(self.lengths + self.batch * 4))
        if plan.right or plan.left:
            ptx.inst.add.s32(self.shift, self.shift, signed(self.N - queries))
        self._blocks()

    def each(self):
        yield

    def query(self, row):
        return quotient(row, self.plan.beside)

    def place(self, column: int, row):
        return (column, self.head, self.begin + self.query(row))

    def line(self, row):
        """(the query among all, the head) of a row."""
        query = self.query(row)
        return self.begin + query, self.head + (row - query * self.plan.beside)

    def sums_at(self, row):
        query, head = self.line(row)
        return apply(u64, ptx.inst.mul.wide.u32, head, self.total) + query


class PackedRows(Warpgroup):
    """A warpgroup whose rows are queries of heads beside each other."""

    def _await_q(self):
        super()._await_q()
        plan = self.plan
        if plan.filled == plan.rows:
            return
        with ptx.if_(self.number == plan.groups - 1):  # rows that no copy fills
            clear_rows(self.shared.base, plan.filled, plan.rows, plan.width // WIDE, self.thread, 128)
            ptx.fence.proxy_async_shared_cta()
            self._sync_group()

    def _output(self, o_map, o):
        if 64 % self.plan.beside:  # boxes would pass the warpgroup's rows
            self._store_rows(o)
        else:
            super()._output(o_map, o)

    def _head_of(self, row: int):
        return self.tiles.line(self.tiles.row + self.number * 64 + self.first_row + 8 * row)[1]

    def _store_rows(self, o):
        tiles = self.tiles

        def row(half: int):
            return tiles.row + self.number * 64 + self.first_row + 8 * half

        lines = LinesOfHeads(o, tiles.end, tiles, tiles.H, tiles.head, tiles.DV)
        lines.store(self.result_type, self.out, row, self.first_column)


class WidenedRows(ScaledRows, PackedRows):
    """Such a warpgroup with keys and values that were e4m3."""


class LinesOfHeads(Lines):
    """Rows of the heads of a `CachedTile`."""

    def line(self, at):
        query, head = self.begin.line(at)
        return apply(u64, ptx.inst.mul.wide.u32, query, self.heads) + head
