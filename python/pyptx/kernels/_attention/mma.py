"""The forward of attention by mma.sync, in f16 and bf16, for GPUs since sm_80: what _attention/forward.py computes on Hopper.  e4m3 is
computed in bf16, with scales, because bf16 represents all its numbers.

A warp takes 16 queries.  A tile of q stays in shared memory, beside one block of K and one of V: the copies of V run beside q k^T, those
of the next K beside softmax and p v.  Rows of 64 columns, 128 bytes, are swizzled as tensor copies do it, so that ldmatrix meets each bank
once.  Scores lie in registers as those of wgmma do, so the softmax is the same.
"""

from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.forward import Warpgroup, batch_of, beside_of
from pyptx.kernels._attention.plan import Forward
from pyptx.kernels._attention.results import Lines
from pyptx.kernels._attention.tiles import RaggedTile, Tiles, apply, signed
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E, smem_address
from pyptx.types import b32, f32, s32, u8, u32, u64

__all__ = ["Mma", "mma_attention_kernel"]


@dataclass(frozen=True)
class Mma(Forward):
    """How the kernel for one size of heads is cut; `width` and `values` are multiples of 16."""

    keys: int = 64
    groups: int = 2  # of four warps
    turns: bool = False
    ctas: int = 0
    scaled: bool = False  # scores and results of a head are multiplied by numbers

    @classmethod
    def of(cls, width: int, values: int, **masks) -> "Mma":
        """The plan for heads of this size, within 100 KB of shared memory and 255 registers."""
        cut = {
            "keys": 64 if width <= 128 else 32,
            "groups": 2 if 64 < width <= 128 else 1,
            "slack": 8.0 if width <= 64 else 0.0,
        }
        return cls(-(-width // 32) * 32, -(-values // 32) * 32, **cut, **masks)

    @staticmethod
    def halves(width: int) -> int:
        """Blocks of 64 columns."""
        return -(-width // 64)

    @property
    def threads(self) -> int:
        return 128 * self.groups

    @property
    def directives(self) -> list:
        """Registers for three CTAs of 128 threads on a multiprocessor.  On some GPUs ptxas would choose four, and spill."""
        three = self.groups == 1 and self.width + self.values <= 320
        return [("reqntid", (self.threads, 1, 1)), *[("maxnreg", (168,))] * three]

    @property
    def at_k(self) -> int:
        return self.rows * self.halves(self.width) * 128

    @property
    def at_v(self) -> int:
        return self.at_k + self.keys * self.halves(self.width) * 128

    @property
    def bytes(self) -> int:
        return self.at_v + self.keys * self.halves(self.values) * 128

    @property
    def scalars(self) -> list:
        return [("u32", "D"), *([] if self.ragged else [("u32", "DV")]), *super().scalars]


def mma_attention_kernel(dtype, plan: Mma):
    """The kernel from (q, k, v) to (o, log-sum-exp).  Shapes are as in `forward_kernel`; all tensors are contiguous, D and DV multiples of 8.

    If `scaled`, (2, H) f32 follows v, by which the scores and the results of each head are multiplied; then, as there, what `biased`,
    `sinks` and `ragged` add."""

    def tile(heads, length, width):
        return Tile(*((length, heads) if plan.ragged else ("B", heads, length)), width, dtype, align=16)

    more = ({"SCALES": Tile(2, "H", f32)} if plan.scaled else {}) | beside_of(dtype, plan)
    if plan.ragged:
        more |= {"BEGINS": Tile("P", s32), "KEY_BEGINS": Tile("P", s32)}

    def body(Q, K, V, OUT, LSE, SCALES=None, SINKS=None, BIAS=None, BEGINS=None, KEY_BEGINS=None):
        pointers = ptx.global_ptrs(Q, K, V, OUT, LSE)
        tiles = RaggedTile(plan, *ptx.global_ptrs(BEGINS, KEY_BEGINS)) if plan.ragged else Tiles(plan)
        tiles.D, tiles.DV = ptx.param(u32, "D"), ptx.param(u32, "DV")
        tiles.take(scales=SCALES, bias=BIAS, sinks=SINKS)
        Warps(plan, dtype, reg.from_(ptx.special.tid.x(), u32)).run(tiles, *pointers)
        ptx.ret()

    return kernel(
        in_specs=(tile("H", "M", "D"), tile("HK", "N", "D"), tile("HK", "N", "DV"), *more.values()),
        out_specs=(tile("H", "M", "DV"), Tile("H", "M", f32) if plan.ragged else Tile("B", "H", "M", f32)),
        raw_params=plan.scalars,
        grid=grid_of_rows(plan),
        block=(plan.threads, 1, 1),
        raw_directives=plan.directives,
        batch=batch_of(plan),
        arch="sm_80",
    )(with_tensors("mma_attention", ("Q", "K", "V", *more, "OUT", "LSE"), body))


def grid_of_rows(plan):
    """The grid: a CTA for each tile of queries; if `ragged`, as many as sequences of any lengths could have."""
    if plan.ragged:
        return lambda H, M, P: (H * (M // plan.rows + P - 1), 1, 1)
    return lambda B, H, M: (B * H * -(-M // plan.rows), 1, 1)


class Warps(Warpgroup):
    """All warps of a CTA; four of them have 64 query rows."""

    def __init__(self, plan: Mma, dtype, thread):
        self.plan, self.dtype, self.result_type = plan, dtype, dtype
        self.all, self.thread, self.number = thread, thread & 127, thread >> 7
        self.scores = reg.array(f32, plan.keys // 2)
        self.p = [reg.scalar(b32) for _ in range(plan.keys // 4)]
        self.out = reg.array(f32, plan.result // 2)
        self._make_rows()
        self.first_row = ((self.thread >> 5) << 4) + ((thread & 31) >> 2)
        self.first_column = (thread & 3) << 1
        memory = smem.alloc(u8, plan.bytes, align=128)
        self.base = smem_address(memory)
        self.q = rows_of_a(self.base, thread)
        self.k = rows_of_b(self.base + plan.at_k, thread)
        self.v = columns_of_b(self.base + plan.at_v, thread)

    def run(self, tiles: Tiles, q, k, v, o, lse):
        self.tiles = tiles
        for _ in tiles.each():
            self._set_scale()
            self._begin_tile(q, k, v)
            top = tiles.last + 1
            for until, masked in self._stretches():
                for index in ptx.range_(top - 1, until - 1, -1):
                    self._block(index, masked)
                top = apply(s32, ptx.inst.min.s32, top, until)
            scale = [self._finish(row) for row in range(2)]
            self._store_sums(lse)
            for i, each in enumerate(self.out):
                ptx.inst.mul.rn.f32(each, each, scale[i // 2 % 2])
            rows_of_queries(tiles, o, tiles.DV).store(self.dtype, self.out, self._row, self.first_column)

    def _set_scale(self):
        super()._set_scale()
        if self.plan.scaled:
            tiles = self.tiles
            self.of_scores, self.of_values = reg.scalar(f32), reg.scalar(f32)
            at = tiles.scales + tiles.head * 4
            ptx.inst.ld.global_.nc.f32(self.of_scores, ptx.addr(at))
            ptx.inst.ld.global_.nc.f32(self.of_values, ptx.addr(at + apply(u64, ptx.inst.mul.wide.u32, tiles.H, 4)))
            ptx.inst.mul.rn.f32(self.c[0], self.c[0], self.of_scores)
            self._set_reach()

    def _scale_of_scores(self):
        return apply(f32, ptx.inst.mul.rn.f32, self.c[0], 1 / LOG2_E)

    def _finish(self, row: int):
        scale = super()._finish(row)
        if self.plan.scaled:
            ptx.inst.mul.rn.f32(scale, scale, self.of_values)
        return scale

    def _row(self, half: int):
        return self.tiles.row + self.number * 64 + self.first_row + 8 * half

    def _begin_tile(self, q, k, v):
        plan, tiles = self.plan, self.tiles
        for each in self.out:
            ptx.inst.mov.f32(each, 0.0)
        self._reset_rows()
        self._begin_bias(tiles.last)
        self.from_k, self.from_v = (rows_of_keys(tiles, each, width) for each, width in ((k, tiles.D), (v, tiles.DV)))
        self._copy(rows_of_queries(tiles, q, tiles.D), tiles.row, plan.rows, self.base, plan.width)
        self._copy_k(tiles.last)

    def _copy_k(self, index):
        plan = self.plan
        self._copy(self.from_k, index * plan.keys, plan.keys, self.base + plan.at_k, plan.width)
        ptx.cp.async_.commit_group()

    def _copy(self, matrix: Lines, first, rows: int, to, width: int):
        copy_rows(matrix, first, rows, to, width, self.all, self.plan.threads)

    def _block(self, index, masked: bool):
        plan = self.plan
        ptx.cp.async_.wait_group(0)
        ptx.bar.sync(0)  # all see k, and all have read the last v
        self._copy(self.from_v, index * plan.keys, plan.keys, self.base + plan.at_v, plan.values)
        ptx.cp.async_.commit_group()
        self._multiply_scores()
        ptx.cp.async_.wait_group(0)
        ptx.bar.sync(0)  # all see v, and all have read this k
        with ptx.if_(index > self.tiles.first):
            self._copy_k(index - 1)
        self._softmax(index, masked)
        self._scale_where_grown()
        self._pack()
        self._multiply_values()

    def _multiply_scores(self):
        plan = self.plan
        self._by_columns(self.scores, (self.q, plan.rows), (self.k, plan.keys), plan.width)

    def _multiply_values(self):
        self._by_rows(self.out, self.p, (self.v, self.plan.keys), self.plan.values)

    def _by_columns(self, d, a, b, width: int):
        """d (16 rows of a, rows of b) = a b^T, for matrices in shared memory with `width` columns: each is (addresses, number of rows)."""
        (a, a_rows), (b, b_rows) = a, b
        for each in d:
            ptx.inst.mov.f32(each, 0.0)
        for step in range(width // 16):
            half, within = divmod(step, 4)
            part = self._load(a[within], half * a_rows * 128)
            for pair in range(b_rows // 16):
                other = self._load(b[within], half * b_rows * 128 + pair * 16 * 128)
                for i in range(2):
                    self._mma(d, 2 * pair + i, part, other[2 * i : 2 * i + 2])

    def _by_rows(self, d, a, b, width: int):
        """d (16 rows, width) += a b, where a is in registers and has as many columns as b has rows."""
        b, rows = b
        for step in range(rows // 16):
            part = a[4 * step : 4 * step + 4]
            for pair in range(width // 16):
                half, within = divmod(pair, 4)
                other = self._load(b[within], half * rows * 128 + step * 16 * 128, trans=True)
                for i in range(2):
                    self._mma(d, 2 * pair + i, part, other[2 * i : 2 * i + 2])

    def _load(self, at, offset: int, trans: bool = False):
        registers = [reg.scalar(b32) for _ in range(4)]
        ptx.matrix.ldmatrix(registers, ptx.addr(at, offset), trans=trans)
        return registers

    def _mma(self, accumulators, tile: int, a, b):
        d = list(accumulators)[4 * tile : 4 * tile + 4]
        ptx.mma.sync((16, 8, 16), f32, self.dtype, self.dtype, f32, d, a, b, d)


def rows_of_queries(tiles: Tiles, pointer, width) -> Lines:
    """The rows of the tile's head and sequence, in a tensor like q."""
    if tiles.plan.ragged:
        return Lines(pointer, tiles.M, tiles.begin, tiles.H, tiles.head, width)
    return Lines(pointer, tiles.M, (tiles.batch * tiles.H + tiles.head) * tiles.M, 1, 0, width)


def rows_of_keys(tiles: Tiles, pointer, width) -> Lines:
    """The rows of the tile's head and sequence, in a tensor like k."""
    if tiles.plan.ragged:
        return Lines(pointer, tiles.N, tiles.key_begin, tiles.HK, tiles.kv_head, width)
    return Lines(pointer, tiles.N, (tiles.batch * tiles.HK + tiles.kv_head) * tiles.N, 1, 0, width)


def address_of(lines: Lines, row, column):
    line = apply(u64, ptx.inst.mul.wide.u32, lines.begin + apply(u32, ptx.inst.mov.b32, row), lines.heads) + lines.head
    at = line * apply(u64, ptx.inst.mul.wide.u32, lines.width, 2) + column * 2
    return lines.pointer + at


def copy_rows(matrix: Lines, first, rows: int, to, width: int, thread, threads: int):
    """Starts the copies of the rows from `first` to `first + rows` of a matrix, by `threads` threads.  Rows that do not exist become zeros."""
    pieces = -(-width // 64) * 8
    line, piece = thread >> 3, thread & 7
    at = to + line * 128 + ((piece ^ (line & 7)) << 4)
    step = threads // 8  # a multiple of 8: the swizzle is the same
    for part in range(0, rows, step):
        row = signed(first) + (part + signed(line))
        # A piece outside the tensor copies 0 bytes, from an address inside.
        there = row < signed(matrix.count)
        source = address_of(matrix, apply(s32, ptx.inst.selp.s32, row, 0, there), piece << 3)
        for half in range(pieces // 8):
            inside = there & ((piece << 3) + 64 * half < matrix.width)
            bytes_ = apply(u32, ptx.inst.selp.u32, 16, 0, inside)
            target = ptx.addr(at, half * rows * 128 + part * 128)
            ptx.inst.cp.async_.cg.shared.global_(target, ptx.addr(source, 128 * half), 16, bytes_)


# Addresses for ldmatrix: a lane gives that of row lane % 8 of matrix lane / 8.  Each function returns four, one for each 16 of 64 columns.


def rows_of_a(base, thread):
    """Addresses of a warp's 16 rows, then of the same rows 8 columns further."""
    lane = thread & 31
    return steps(base + (((thread >> 5) << 4) + (lane & 15)) * 128, lane >> 4, thread & 7)


def rows_of_b(base, thread):
    """Addresses of 8 rows, of their next 8 columns, then the same of the next 8 rows."""
    lane, seven = thread & 31, thread & 7
    return steps(base + (((lane >> 4) << 3) + seven) * 128, (lane >> 3) & 1, seven)


def columns_of_b(base, thread):
    """Addresses of 16 rows, then of the same rows 8 columns further, for fragments that are transposed."""
    lane = thread & 31
    return steps(base + (lane & 15) * 128, lane >> 4, thread & 7)


def steps(row, upper, seven):
    return [row + (((upper + 2 * step) ^ seven) << 4) for step in range(4)]
