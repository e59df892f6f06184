"""The gradients of attention by mma.sync, for GPUs since sm_80: what _attention/wide.py and _attention/dq.py compute on Hopper.

For dk and dv, a CTA keeps 64 keys, 16 for each warp, and goes over blocks of queries with S and dP transposed, so that P and dS are
operands A in registers.  For dq, a CTA keeps 64 queries and goes over blocks of keys.  One warp adds up each element, in one order.
"""

from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention import backward as over_keys
from pyptx.kernels._attention.dq import QueryWarpgroup
from pyptx.kernels._attention.key_tiles import grid_over_keys, key_tile, part_of_keys
from pyptx.kernels._attention.mma import (
    Mma,
    Warps,
    columns_of_b,
    copy_rows,
    grid_of_rows,
    rows_of_a,
    rows_of_b,
    rows_of_keys,
    rows_of_queries,
)
from pyptx.kernels._attention.results import Lines
from pyptx.kernels._attention.tiles import RaggedTile, Tiles, apply
from pyptx.kernels._attention.wide import Wide
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import smem_address
from pyptx.types import b32, f32, s32, u8, u32

__all__ = ["MmaKeys", "MmaQueries", "mma_dq_kernel", "mma_keys_kernel"]


@dataclass(frozen=True)
class MmaKeys(Wide):
    """How the kernel over keys is cut.  `results`: which of dk (0) and dv (1) it computes."""

    rows: int = 32
    stages: int = 1
    results: tuple[int, ...] = (0, 1)

    threads = 128

    @property
    def scalars(self) -> list:
        return [*super().scalars, *([] if self.ragged or self.parts else [("u32", "D"), ("u32", "E")])]


def mma_keys_kernel(dtype, plan: MmaKeys):
    """The kernel from (q, k, v, do, sums) to dk and dv, or to one of them.  Shapes are as in `wide_kernel`; all tensors are contiguous."""
    names, widths = ("DK", "DV"), ("D", "E")

    def tile(heads, length, width):
        return Tile(*((length, heads) if plan.ragged else ("B", heads, length)), width, dtype, align=16)

    sums = Tile(*(("H",) if plan.ragged else ("B", "H")), 2, "R", f32, align=16)
    more = {"BEGINS": Tile("P", s32), "KEY_BEGINS": Tile("P", s32)} if plan.ragged else {}
    made = [names[which] for which in plan.results]

    def body(Q, K, V, DO, SUMS, BEGINS=None, KEY_BEGINS=None, **results):
        tile = key_tile(plan, BEGINS, KEY_BEGINS)
        for name in widths:
            setattr(tile, name, ptx.param(u32, name))
        outs = ptx.global_ptrs(*(results[name] for name in made))
        KeyWarps(plan, dtype, tile, reg.from_(ptx.special.tid.x(), u32)).run(ptx.global_ptrs(Q, K, V, DO, SUMS), outs)
        ptx.ret()

    def result(width):
        return part_of_keys(plan, width) if plan.parts else tile("HK", "N", width)

    return kernel(
        in_specs=(
            tile("H", "M", "D"), tile("HK", "N", "D"), tile("HK", "N", "E"), tile("H", "M", "E"), sums, *more.values()
        ),
        out_specs=tuple(result(widths[which]) for which in plan.results),
        raw_params=plan.scalars,
        grid=grid_over_keys(plan),
        block=(plan.threads, 1, 1),
        reqntid=True,
        batch=None if plan.ragged else "B",
        arch="sm_80",
    )(with_tensors("mma_attention_keys", ("Q", "K", "V", "DO", "SUMS", *more, *made), body))  # fmt: skip


class KeyWarps(over_keys.Warpgroup):
    """The warps of a CTA with 64 keys, 16 for each."""

    _by_columns, _by_rows, _load, _mma = Warps._by_columns, Warps._by_rows, Warps._load, Warps._mma

    def __init__(self, plan: MmaKeys, dtype, tile, thread):
        self.plan, self.dtype, self.tile, self.thread, self.first_key = plan, dtype, tile, thread, 0
        self.scores, self.dp = (list(reg.array(f32, plan.rows // 2)) for _ in range(2))
        self.p, self.ds = ([reg.scalar(b32) for _ in range(plan.rows // 4)] for _ in range(2))
        self.gradients = {which: reg.array(f32, (plan.width, plan.values)[which] // 2) for which in plan.results}
        self.c = over_keys.exponent_of_scores(plan, tile)
        memory = smem.alloc(u8, plan.bytes, align=128)
        self.base = smem_address(memory)
        self.k, self.v = (rows_of_a(self.base + at, thread) for at in (0, plan.at_v))
        self.q, self.do = (rows_of_b(self.base + at, thread) for at in (plan.at_q, plan.at_do))
        self.q_across, self.do_across = (columns_of_b(self.base + at, thread) for at in (plan.at_q, plan.at_do))

    def run(self, pointers, outs):
        plan, tile = self.plan, self.tile
        q, k, v, do, sums = pointers
        for each in self.gradients.values():
            for register in each:
                ptx.inst.mov.f32(register, 0.0)
        for pointer, at, width, elements in ((k, 0, plan.width, tile.D), (v, plan.at_v, plan.values, tile.E)):
            self._copy(tile.lines(pointer, elements), tile.key, plan.keys, self.base + at, width)
        for _ in tile.heads():
            self.queries = [(self._of_queries(*each)) for each in ((q, tile.D), (do, tile.E))]
            self.sums = tile.sums_at(sums)
            index = tile.first
            for until, masked in self._stretches():
                for at in ptx.range_(index, until, 1):
                    self._block(at, masked)
                index = apply(s32, ptx.inst.max.s32, index, until)
        self._store(outs)

    def _of_queries(self, pointer, width) -> Lines:
        tile = self.tile
        if self.plan.ragged:
            return Lines(pointer, tile.M, tile.begin, tile.H, tile.head, width)
        return Lines(pointer, tile.M, (tile.batch * tile.H + tile.head) * tile.M, 1, 0, width)

    def _copy(self, matrix: Lines, first, rows: int, to, width: int):
        copy_rows(matrix, first, rows, to, width, self.thread, self.plan.threads)

    def _block(self, index, masked: bool):
        plan = self.plan
        ptx.bar.sync(0)  # all have read the block before
        for matrix, at, width in zip(self.queries, (plan.at_q, plan.at_do), (plan.width, plan.values), strict=True):
            self._copy(matrix, index * plan.rows, plan.rows, self.base + at, width)
        piece = self.thread & (plan.rows // 4 - 1)
        for which in range(2):
            source = self.sums[which] + index * (plan.rows * 4) + piece * 16
            to = ptx.addr(self.base + piece * 16, plan.at_sums + which * plan.rows * 4)
            with ptx.if_(self.thread < plan.rows // 4):
                ptx.inst.cp.async_.cg.shared.global_(to, ptx.addr(source), 16)
        ptx.cp.async_.commit_group()
        ptx.cp.async_.wait_group(0)
        ptx.bar.sync(0)
        sums = self.base + ((self.thread & 3) << 3)
        self._by_columns(self.scores, (self.k, plan.keys), (self.q, plan.rows), plan.width)
        self._probabilities(index, masked, sums)
        if 1 in self.gradients:
            self._by_rows(self.gradients[1], self.p, (self.do_across, plan.rows), plan.values)
        if 0 in self.gradients:
            self._by_columns(self.dp, (self.v, plan.keys), (self.do, plan.rows), plan.values)
            self._differences(sums)
            self._by_rows(self.gradients[0], self.ds, (self.q_across, plan.rows), plan.width)

    def _store(self, outs):
        tile = self.tile
        row = ((self.thread >> 5) << 4) + ((self.thread & 31) >> 2)
        for pointer, (which, gradient) in zip(outs, self.gradients.items(), strict=True):
            if which == 0:
                for each in gradient:
                    ptx.inst.mul.rn.f32(each, each, tile.scale)
            lines = tile.lines(pointer, tile.E if which else tile.D, self.plan.parts)
            lines.store(
                f32 if self.plan.parts else self.dtype,
                gradient,
                lambda half: tile.key + row + 8 * half,
                (self.thread & 3) << 1,
            )


@dataclass(frozen=True)
class MmaQueries(Mma):
    """How the kernel over queries is cut."""

    groups: int = 1

    @classmethod
    def of(cls, width: int, values: int, **masks) -> "MmaQueries":
        return cls(width, values, keys=64 if width <= 128 else 32, **masks)

    @property
    def at_do(self) -> int:
        return self.rows * self.halves(self.width) * 128

    @property
    def at_k(self) -> int:
        return self.at_do + self.rows * self.halves(self.values) * 128

    @property
    def result(self) -> int:
        return self.width

    @property
    def scalars(self) -> list:
        return [*super().scalars, ("u32", "R")]


def mma_dq_kernel(dtype, plan: MmaQueries):
    """The kernel from (q, k, v, do, sums) to dq.  Shapes are as in `mma_keys_kernel`."""

    def tile(heads, length, width):
        return Tile(*((length, heads) if plan.ragged else ("B", heads, length)), width, dtype, align=16)

    more = {"BEGINS": Tile("P", s32), "KEY_BEGINS": Tile("P", s32)} if plan.ragged else {}
    sums = Tile(*(("H",) if plan.ragged else ("B", "H")), 2, "R", f32)

    def body(Q, K, V, DO, SUMS, OUT, BEGINS=None, KEY_BEGINS=None):
        pointers = ptx.global_ptrs(Q, K, V, DO, SUMS, OUT)
        tiles = RaggedTile(plan, *ptx.global_ptrs(BEGINS, KEY_BEGINS)) if plan.ragged else Tiles(plan)
        tiles.D, tiles.DV = ptx.param(u32, "D"), ptx.param(u32, "DV")
        QueryWarps(plan, dtype, reg.from_(ptx.special.tid.x(), u32)).run(tiles, *pointers)
        ptx.ret()

    return kernel(
        in_specs=(
            tile("H", "M", "D"), tile("HK", "N", "D"), tile("HK", "N", "DV"), tile("H", "M", "DV"), sums, *more.values()
        ),
        out_specs=(tile("H", "M", "D"),),
        raw_params=plan.scalars,
        grid=grid_of_rows(plan),
        block=(plan.threads, 1, 1),
        reqntid=True,
        batch=None if plan.ragged else "B",
        arch="sm_80",
    )(with_tensors("mma_attention_dq", ("Q", "K", "V", "DO", "SUMS", *more, "OUT"), body))  # fmt: skip


class QueryWarps(Warps):
    """The warps of a CTA with 64 queries, 16 for each; `out` is their dq."""

    _probabilities, _differences, _read_sums = (
        QueryWarpgroup._probabilities, QueryWarpgroup._differences, QueryWarpgroup._read_sums,
    )  # fmt: skip

    def __init__(self, plan: MmaQueries, dtype, thread):
        super().__init__(plan, dtype, thread)
        self.c = reg.scalar(f32)
        self.dp = reg.array(f32, plan.keys // 2)
        self.lse, self.delta = ([reg.scalar(f32) for _ in range(2)] for _ in range(2))
        self.do = rows_of_a(self.base + plan.at_do, thread)
        self.v = rows_of_b(self.base + plan.at_v, thread)
        self.k_across = columns_of_b(self.base + plan.at_k, thread)

    def run(self, tiles: Tiles, q, k, v, do, sums, dq):
        plan = self.plan
        self.tiles = tiles
        for _ in tiles.each():
            ptx.inst.mov.f32(self.c, over_keys.exponent_of_scores(plan, tiles))
            for each in self.out:
                ptx.inst.mov.f32(each, 0.0)
            self._read_sums(sums)
            self.from_k, self.from_v = (rows_of_keys(tiles, *each) for each in ((k, tiles.D), (v, tiles.DV)))
            for pointer, elements, at, width in ((q, tiles.D, 0, plan.width), (do, tiles.DV, plan.at_do, plan.values)):
                self._copy(rows_of_queries(tiles, pointer, elements), tiles.row, plan.rows, self.base + at, width)
            top = tiles.last + 1
            for until, masked in self._stretches():
                for index in ptx.range_(top - 1, until - 1, -1):
                    self._block(index, masked)
                top = apply(s32, ptx.inst.min.s32, top, until)
            for each in self.out:
                ptx.inst.mul.rn.f32(each, each, tiles.scale)
            rows_of_queries(tiles, dq, tiles.D).store(self.dtype, self.out, self._row, self.first_column)

    def _block(self, index, masked: bool):
        plan = self.plan
        ptx.bar.sync(0)  # all have read the block before
        for matrix, at, width in (
            (self.from_k, plan.at_k, plan.width), (self.from_v, plan.at_v, plan.values),
        ):  # fmt: skip
            self._copy(matrix, index * plan.keys, plan.keys, self.base + at, width)
        ptx.cp.async_.commit_group()
        ptx.cp.async_.wait_group(0)
        ptx.bar.sync(0)
        self._multiply_scores()
        self._probabilities(index, masked)
        self._by_columns(self.dp, (self.do, plan.rows), (self.v, plan.keys), plan.values)
        self._differences()
        self._by_rows(self.out, self.p, (self.k_across, plan.keys), plan.width)
