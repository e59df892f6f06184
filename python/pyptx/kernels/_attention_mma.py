"""The forward of attention by mma.sync, for GPUs since sm_80: f16 and bf16, what _attention_forward.py makes on Hopper.

A warp takes 16 queries.  A tile of q stays in shared memory, beside one block of K and one of V: the copies of V run beside
q k^T, those of the next K beside softmax and p v.  Rows of 64 columns, 128 bytes, are swizzled as tensor copies do it, so that
ldmatrix meets each bank once.  Scores lie in registers as those of a wgmma do, so softmax is the same.
"""

from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention_forward import Forward, Lines, Tiles, Warpgroup, apply, signed
from pyptx.kernels._epilogue import with_tensors
from pyptx.types import b32, f32, s32, u8, u32, u64

__all__ = ["Mma", "mma_attention_kernel"]


@dataclass(frozen=True)
class Mma(Forward):
    """How the kernel for one head size is cut; `width` and `values` are multiples of 16."""

    keys: int = 64
    groups: int = 2  # of four warps
    turns: bool = False
    ctas: int = 0
    lazy: bool = False

    @classmethod
    def of(cls, width: int, values: int, **masks) -> "Mma":
        """For heads of this size, within 100 KB of shared memory and 255 registers."""
        cut = {"keys": 64, "groups": 2} if width <= 128 else {"keys": 32, "groups": 1}
        return cls(-(-width // 32) * 32, -(-values // 32) * 32, **cut, **masks)

    @staticmethod
    def halves(width: int) -> int:
        """Blocks of 64 columns."""
        return -(-width // 64)

    @property
    def threads(self) -> int:
        return 128 * self.groups

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
        return [*super().scalars, ("u32", "D"), ("u32", "DV")]


def mma_attention_kernel(dtype, plan: Mma):
    """The kernel: (q, k, v) to (o, log-sum-exp), shapes as in `forward_kernel`; all contiguous, D and DV multiples of 8."""

    def tile(heads, length, width):
        return Tile("B", heads, length, width, dtype, align=16)

    more = {"SINKS": Tile("H", f32)} if plan.sinks else {}

    def body(Q, K, V, OUT, LSE, SINKS=None):
        tiles = Tiles(plan)
        tiles.D, tiles.DV = ptx.param(u32, "D"), ptx.param(u32, "DV")
        pointers = ptx.global_ptrs(Q, K, V, OUT, LSE)
        if plan.sinks:
            (tiles.sinks,) = ptx.global_ptrs(SINKS)
        Warps(plan, dtype, reg.from_(ptx.special.tid.x(), u32)).run(tiles, *pointers)
        ptx.ret()

    return kernel(
        in_specs=(tile("H", "M", "D"), tile("HK", "N", "D"), tile("HK", "N", "DV"), *more.values()),
        out_specs=(tile("H", "M", "DV"), Tile("B", "H", "M", f32)),
        raw_params=plan.scalars,
        grid=lambda B, H, M: (B * H * -(-M // plan.rows), 1, 1),
        block=(plan.threads, 1, 1),
        reqntid=True,
        arch="sm_80",
    )(with_tensors("mma_attention", ("Q", "K", "V", *more, "OUT", "LSE"), body))


class Warps(Warpgroup):
    """All warps of a CTA; four of them have 64 query rows."""

    def __init__(self, plan: Mma, dtype, thread):
        self.plan, self.dtype, self.result_type = plan, dtype, dtype
        self.all, self.thread, self.number = thread, thread & 127, thread >> 7
        self.scores = reg.array(f32, plan.keys // 2)
        self.p = [reg.scalar(b32) for _ in range(plan.keys // 4)]
        self.out = reg.array(f32, plan.values // 2)
        self.largest, self.total, self.factor = ([reg.scalar(f32) for _ in range(2)] for _ in range(3))
        self.top = [reg.scalar(f32) for _ in range(2)] if plan.sinks else []
        self.c = reg.scalar(f32)
        self.first_row = ((self.thread >> 5) << 4) + ((thread & 31) >> 2)
        self.first_column = (thread & 3) << 1
        memory = smem.alloc(u8, plan.bytes, align=128)
        self.base = reg.scalar(u32)
        ptx.inst.mov.u32(self.base, memory.name)
        # ldmatrix takes the address of row lane % 8 of matrix lane / 8.  In the order of registers the four are, of q and of V,
        # 16 rows, then the same of the next 8 columns; of K 8 rows, the next 8 columns, then the next 8 rows.
        lane, seven = thread & 31, thread & 7
        row, upper = lane & 15, lane >> 4
        self.q = self._steps(self.base + ((thread >> 5) << 4) * 128 + row * 128, upper, seven)
        self.v = self._steps(self.base + plan.at_v + row * 128, upper, seven)
        row, upper = ((lane >> 4) << 3) + seven, (lane >> 3) & 1
        self.k = self._steps(self.base + plan.at_k + row * 128, upper, seven)

    def _steps(self, row, upper, seven):
        """Addresses of 16 columns after the other, of 64."""
        return [row + (((upper + 2 * step) ^ seven) << 4) for step in range(4)]

    def run(self, tiles: Tiles, q, k, v, o, lse):
        self.tiles = tiles
        self._set_scale()
        for _ in tiles.each():
            self._begin_tile(q, k, v)
            top = tiles.last + 1
            for until, masked in self._stretches():
                for index in ptx.range_(top - 1, until - 1, -1):
                    self._block(index, masked)
                top = apply(s32, ptx.inst.min.s32, top, until)
            scale = [self._finish(row) for row in range(2)]
            self._store_sums(lse)
            for i, each in enumerate(self.out):
                ptx.inst.mul.f32(each, each, scale[i // 2 % 2])
            begin = (tiles.batch * tiles.H + tiles.head) * tiles.M
            lines = Lines(o, tiles.M, begin, 1, 0, tiles.DV)
            lines.store(self.dtype, self.out, self._row, self.first_column)

    def _row(self, half: int):
        return self.tiles.row + self.number * 64 + self.first_row + 8 * half

    def _begin_tile(self, q, k, v):
        plan, tiles = self.plan, self.tiles
        for each in self.out:
            ptx.inst.mov.f32(each, 0.0)
        for row in range(2):
            ptx.inst.mov.f32(self.largest[row], float("-inf"))
            ptx.inst.mov.f32(self.total[row], 0.0)
        head = tiles.batch * tiles.HK + tiles.kv_head
        self.from_k = Matrix(k, head, tiles.N, tiles.D)
        self.from_v = Matrix(v, head, tiles.N, tiles.DV)
        of_q = Matrix(q, tiles.batch * tiles.H + tiles.head, tiles.M, tiles.D)
        self._copy(of_q, tiles.row, plan.rows, self.base, plan.width)
        self._copy_k(tiles.last)

    def _copy_k(self, index):
        plan = self.plan
        self._copy(self.from_k, index * plan.keys, plan.keys, self.base + plan.at_k, plan.width)
        ptx.cp.async_.commit_group()

    def _copy(self, matrix: "Matrix", first, rows: int, to, width: int):
        """Rows `first` to `first + rows` of a matrix; what is not there becomes zeros."""
        pieces = self.plan.halves(width) * 8
        piece, row = self.all & 7, self.all >> 3
        at = to + row * 128 + ((piece ^ (row & 7)) << 4)
        step = self.plan.threads // 8  # a multiple of 8: the swizzle is the same
        for line in range(0, rows, step):
            source_row = signed(row) + (line + signed(first))
            for half in range(pieces // 8):
                column = (piece << 3) + 64 * half
                inside = (source_row < signed(matrix.rows)) & (column < matrix.width)
                bytes_ = apply(u32, ptx.inst.selp.u32, 16, 0, inside)
                source = matrix.address(source_row, column)
                ptx.inst.selp.b64(source, source, matrix.pointer, inside)
                target = ptx.addr(at, half * rows * 128 + line * 128)
                ptx.inst.cp.async_.cg.shared.global_(target, ptx.addr(source), 16, bytes_)

    def _block(self, index, masked: bool):
        plan = self.plan
        ptx.cp.async_.wait_group(0)
        ptx.bar.sync(0)  # k is there for all, and all have read the last v
        self._copy(self.from_v, index * plan.keys, plan.keys, self.base + plan.at_v, plan.values)
        ptx.cp.async_.commit_group()
        self._multiply_scores()
        ptx.cp.async_.wait_group(0)
        ptx.bar.sync(0)  # v is there for all, and all have read this k
        with ptx.if_(index > self.tiles.first):
            self._copy_k(index - 1)
        self._softmax(index, masked)
        self._scale()
        self._pack()
        self._multiply_values()

    def _multiply_scores(self):
        plan = self.plan
        for each in self.scores:
            ptx.inst.mov.f32(each, 0.0)
        for step in range(plan.width // 16):
            half, within = divmod(step, 4)
            a = self._load(self.q[within], half * plan.rows * 128)
            for pair in range(plan.keys // 16):
                b = self._load(self.k[within], half * plan.keys * 128 + pair * 16 * 128)
                for i in range(2):
                    self._mma(self.scores, 2 * pair + i, a, b[2 * i : 2 * i + 2])

    def _multiply_values(self):
        plan = self.plan
        for step in range(plan.keys // 16):
            a = self.p[4 * step : 4 * step + 4]
            for pair in range(plan.values // 16):
                half, within = divmod(pair, 4)
                b = self._load(self.v[within], half * plan.keys * 128 + step * 16 * 128, trans=True)
                for i in range(2):
                    self._mma(self.out, 2 * pair + i, a, b[2 * i : 2 * i + 2])

    def _load(self, at, offset: int, trans: bool = False):
        registers = [reg.scalar(b32) for _ in range(4)]
        ptx.matrix.ldmatrix(registers, ptx.addr(at, offset), trans=trans)
        return registers

    def _mma(self, accumulators, tile: int, a, b):
        d = list(accumulators)[4 * tile : 4 * tile + 4]
        ptx.mma.sync((16, 8, 16), f32, self.dtype, self.dtype, f32, d, a, b, d)


@dataclass
class Matrix:
    """A head's rows in memory, and how many there are."""

    memory: object
    head: object
    rows: object
    width: object

    def __post_init__(self):
        line = apply(u64, ptx.inst.mul.wide.u32, self.head, self.rows)
        self.pointer = self.memory + line * apply(u64, ptx.inst.mul.wide.u32, self.width, 2)

    def address(self, row, column):
        at = apply(u64, ptx.inst.mul.wide.u32, apply(u32, ptx.inst.mov.b32, row), self.width)
        return self.pointer + (at + column) * 2
