"""C = A B by mma.sync, for GPUs since sm_80 and for every shape.  Matrices that TMA cannot address are multiplied by it on Hopper, too.

A CTA computes a tile of 128 x 128, a warp 64 x 32 or 64 x 64 of it; two CTAs share a multiprocessor.  Tiles of A and B, 128 bytes of K
wide, go through a ring of three stages: by cp.async of 16 or 8 bytes if the alignment of rows allows it, otherwise through registers, 4
bytes or an element at a time.  The words of 16 bytes of a row are swizzled, so that ldmatrix, which reads eight rows at once, meets each
bank once.
"""

import functools
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._epilogue import NOTHING, BlockScales, Epilogue, Finisher, with_tensors
from pyptx.kernels._matmul_tiles import within
from pyptx.kernels._registers import apply_to, quotient, smem_address
from pyptx.types import PtxType, b16, b32, bf16, e4m3, f16, f32, pred, s8, s32, tf32, u8, u32, u64

__all__ = ["mma_kernel"]

BM = BN = 128
STAGES, ROW = 3, 128  # ROW: bytes of a row of a tile in shared memory
SHAPES = {bf16: (16, 8, 16), f16: (16, 8, 16), tf32: (16, 8, 8), f32: (16, 8, 8), s8: (16, 8, 32), e4m3: (16, 8, 32)}
GROUP = 8  # rows of tiles that are taken together, so that the tiles that run at one time are close to a square


@dataclass(frozen=True)
class Matrix:
    """A or B, contiguous: (rows, K), or (K, rows) if it is not K-major.  `width`: the most bytes that one copy may have."""

    dtype: PtxType
    k_major: bool
    width: int
    halves: bool = (
        False  # whether it has gates, and N further the ups that belong to them; 16 of both take turns in a tile
    )

    @property
    def size(self) -> int:
        return self.dtype.bits // 8

    @property
    def bk(self) -> int:
        return ROW // self.size

    @property
    def by_copies(self) -> bool:
        """Whether cp.async copies it.  With fewer than 8 bytes, that is slower than copies through registers."""
        return self.width >= 8


class Loader:
    """Copies tiles of one matrix into the ring."""

    def __init__(self, matrix: Matrix, pointer, first, rows, k_size, thread, threads: int):
        # In memory the tile is `high` lines of `wide` elements, which are cut into pieces of `width` bytes.
        self.matrix, self.threads = matrix, threads
        self.rows, self.k_size, self.first = rows, k_size, first
        self.pitch = k_size if matrix.k_major else rows + rows if matrix.halves else rows
        wide = matrix.bk if matrix.k_major else BM
        self.piece = max(1, (matrix.width if matrix.by_copies else 16) // matrix.size)
        self.across = wide // self.piece
        self.high = BM if matrix.k_major else matrix.bk
        self.count = self.across * self.high // threads
        self.line, place = thread >> (self.across.bit_length() - 1), thread & (self.across - 1)
        self.place = place * self.piece
        self.pointer = pointer

    def lines_apart(self) -> int:
        return self.threads // self.across

    def to(self, i: int):
        """The place of the thread's i-th piece in shared memory, in bytes from the beginning of the tile."""
        m = self.matrix
        line, byte = self.line + i * self.lines_apart(), self.place * m.size
        block = 0
        if not m.k_major:  # blocks of 128 bytes, each of bk lines
            block = (byte >> 7) * (m.bk * ROW)
            byte = byte & 127
        swizzled = byte ^ ((line & 7) << 4)
        return line * ROW + swizzled + block

    def fetch(self, k, stage, half: int | None = None):
        """Starts the copies of the tile, or of a half of it, at column `k` of K.  Returns a function that finishes them."""
        m, pieces = self.matrix, []
        some = range(self.count) if half is None else range(self.count // 2 * half, self.count // 2 * (half + 1))
        for i in some:
            line = self.line + i * self.lines_apart()
            row, further = self.row(line if m.k_major else self.place)
            row, column = (row, k + self.place) if m.k_major else (k + line, row)
            height, width = (self.rows, self.k_size) if m.k_major else (self.k_size, self.rows)
            inside = (row < height) & (column < width)
            at = reg.scalar(u64)
            ptx.inst.mul.wide.u32(at, row, self.pitch)
            if further is not None:
                at = at + (further * self.k_size if m.k_major else further)
            source = self.pointer + (at + column) * m.size
            left = reg.scalar(u32)
            ptx.inst.sub.u32(left, width, column)
            if m.by_copies:
                # How many bytes lie inside the matrix; the rest of the piece becomes zeros.
                bytes_ = reg.scalar(u32, init=0)
                ptx.inst.min.u32(left, left, self.piece)
                ptx.inst.mul.lo.u32(bytes_, left, m.size, pred=inside)
                ptx.inst.mov.u64(source, self.pointer, pred=~inside)
                copy = ptx.inst.cp.async_.cg if m.width == 16 else ptx.inst.cp.async_.ca
                copy.shared.global_(ptx.addr(stage + self.to(i)), ptx.addr(source), m.width, bytes_)
            else:
                pieces.append((self.to(i), self.elements(source, left, inside)))

        def finish():
            for to, piece in pieces:
                ptx.inst.st.shared.v4.b32(ptx.addr(stage + to), piece)

        return finish

    def row(self, line):
        """(the row of the matrix for a line of the tile, None).  If the matrix has gates and ups: (the row of the gate, how many rows further
        the line's row lies)."""
        if not self.matrix.halves:
            return self.first + line, None
        further = reg.scalar(u32)
        ptx.inst.mul.lo.u32(further, (line >> 4) & 1, self.rows)
        return self.first + (((line >> 5) << 4) + (line & 15)), further

    def elements(self, source, left, inside):
        """Loads 16 bytes to four registers: element by element, or 4 bytes at a time if those lie all inside the matrix or all outside."""
        size = max(self.matrix.size, self.matrix.width)
        each = size // self.matrix.size
        words = []
        kind, load = {
            1: (b16, ptx.inst.ld.global_.nc.u8),
            2: (b16, ptx.inst.ld.global_.nc.b16),
            4: (b32, ptx.inst.ld.global_.nc.b32),
        }[size]
        values = []
        for i in range(16 // size):
            value = reg.scalar(kind, init=0)
            load(value, ptx.addr(source, i * size), pred=inside & (left > i * each))
            values.append(value)
        if size == 4:
            return values
        if size == 1:
            pairs = []
            for low, high in zip(values[::2], values[1::2], strict=True):
                both = reg.scalar(b16)
                ptx.inst.shl.b16(both, high, 8)
                ptx.inst.or_.b16(both, both, low)
                pairs.append(both)
            values = pairs
        for low, high in zip(values[::2], values[1::2], strict=True):
            words.append(reg.scalar(b32))
            ptx.inst.mov.b32(words[-1], [low, high])
        return words


class Fragments:
    """Loads fragments of 16 rows x 32 bytes as mma.sync takes them.  `first`: the warp's first row of the tile, a register."""

    def __init__(self, matrix: Matrix, is_a: bool, first, lane):
        self.matrix = matrix
        # A lane gives ldmatrix the address of row lane % 8 of matrix lane / 8.  The four matrices are, in the order of the registers:
        # for A, rows 0 to 7, rows 8 to 15, then the same rows of the upper half of K; for B, both halves of K, then those of the next
        # eight columns.
        number = lane >> 3
        self.upper_rows = (number & 1) if is_a else number >> 1
        self.upper_k = number >> 1 if is_a else number & 1
        self.seven = lane & 7
        self.first = first

    def load(self, tile, row: int, step: int):
        """Loads the fragment that lies `row` rows and `step` * 32 bytes of K further."""
        m = self.matrix
        registers = [reg.scalar(b32) for _ in range(4)]
        if m.k_major:
            line = self.first + self.upper_rows * 8 + self.seven + row
            word = (self.upper_k + 2 * step) ^ self.seven  # line % 8 is lane % 8
            at = line * ROW + word * 16
        else:
            line = self.upper_k * 8 + self.seven + 16 * step
            column = self.first + self.upper_rows * 8 + row
            word = ((column >> 3) & 7) ^ self.seven
            at = (column >> 6) * (m.bk * ROW) + line * ROW + word * 16
        ptx.matrix.ldmatrix(registers, ptx.addr(tile + at), trans=not m.k_major)
        return registers


class Stages:
    """The ring of stages, each a tile of A and one of B, 128 bytes of K wide: one is multiplied while others are fetched."""

    def __init__(self, body: "Tensor", ring, row, column, thread):
        self.base = smem_address(ring)
        (pa, pb, _), self.bk = body.pointers, body.a.bk
        self.loaders = [
            Loader(matrix, pointer, first, size, body.k, thread, body.threads)
            for matrix, pointer, first, size in ((body.a, pa, row, body.rows), (body.b, pb, column, body.n))
        ]
        self.count = quotient(body.k + (self.bk - 1), self.bk)
        self.stage, self.ahead = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        self.k = reg.scalar(u32, init=0)

    def fetch(self, number: int, half: int | None = None):
        """Starts to copy a tile of A (0) or B (1), or a half of it.  Returns a function that finishes it."""
        to = self.base + (self.ahead * (2 * BM * ROW) + number * (BM * ROW))
        return self.loaders[number].fetch(self.k, to, half)

    def fetched(self):
        """Ends the copies of a stage."""
        ptx.cp.async_.commit_group()
        self.k += self.bk
        next_stage(self.ahead)

    def each(self):
        """A loop over all stages."""
        for _ in ptx.range_(0, self.count, dtype=u32):
            yield
            next_stage(self.stage)

    def wait(self):
        """Waits for the stage, and returns its address."""
        ptx.cp.async_.wait_group(STAGES - 2)
        ptx.bar.sync(0)  # all see this stage, and all have read the stage that is fetched next
        return self.base + self.stage * (2 * BM * ROW)


class Tensor:
    """The body of the kernel: `write` writes it."""

    def __init__(
        self,
        a: Matrix,
        b: Matrix,
        out: PtxType,
        epilogue: Epilogue,
        batched: bool,
        grouped: bool,
        masked: bool,
        parted: bool,
    ):
        self.a, self.b, self.out, self.epilogue, self.batched = a, b, out, epilogue, batched
        self.grouped, self.masked, self.parted = grouped, masked, parted
        self.columns = BN // 2 if epilogue.gated else BN  # columns of C in a tile
        # How many eights of columns a warp has.  With eight it reads less from shared memory; four leave more registers, and more warps
        # to run while others wait for memory.
        narrow = min(a.width, b.width)
        few = epilogue.gated or epilogue.scales == "block" or a.width == b.width == 16 or narrow < 4
        few |= narrow == 4 and (not a.k_major or epilogue != NOTHING)
        self.eights = 4 if few else 8
        self.threads = 1024 // self.eights
        self.acc_type = s32 if a.dtype == s8 else f32

    def write(self, A, B, C, OFFS=None, **more):
        self.pointers = ptx.global_ptrs(A, B, C)
        self.m, self.n, self.k = (ptx.param(u32, name) for name in "MNK")
        self.width = self.n + self.n if self.epilogue.gated else self.n  # columns of B
        ring = smem.alloc(u8, STAGES * 2 * BM * ROW, align=128)
        thread = reg.from_(ptx.special.tid.x(), u32)
        lane, warp = thread & 31, thread >> 5
        self.rows = self.m  # rows of A
        row, column = self.find_tile(OFFS)
        self.finisher = Finisher(self.epilogue, more, self.n, whole=False)
        stages = Stages(self, ring, row, column, thread)
        for _ in range(STAGES - 1):
            for number in range(2):
                stages.fetch(number)()
            stages.fetched()
        warp_row, warp_column = (warp & 1) * 64, (warp >> 1) * (8 * self.eights)
        reads = Fragments(self.a, True, warp_row, lane), Fragments(self.b, False, warp_column, lane)
        acc = [[reg.array(self.acc_type, 4) for _ in range(self.eights)] for _ in range(4)]
        fill(acc, 0)
        if self.epilogue.scales == "block":
            self.sum_blocks(acc, stages, reads, self.scales(more, row + warp_row + (lane >> 2), column))
        else:
            for _ in stages.each():
                self.multiply_stage(acc, stages, reads)
        if self.epilogue.gated:
            warp_column = warp_column >> 1
        self.store(acc, self.pointers[2], row + warp_row + (lane >> 2), column + warp_column + (lane & 3) * 2)
        ptx.ret()

    def find_tile(self, OFFS):
        """(first row, first column) of the CTA's tile.  Moves `pointers` to the matrices of the tile, and sets `batch` and `expert`, their
        numbers; of a group it sets `m`, the row behind its last one, or `k`, how many lines of K it has."""
        self.batch = self.expert = None
        pa, pb, pc = self.pointers
        if self.grouped:
            row, column, self.expert, self.m = self.place_in_group(OFFS)
            self.pointers = pa, pb + product(self.expert, self.width, self.k) * self.b.size, pc
            return row, column
        number, down = reg.from_(ptx.special.ctaid.x(), u32), quotient(self.m + (BM - 1), BM)
        if self.batched or self.parted:  # all matrices are along the grid's x, as y and z have no room for many
            in_one = down * quotient(self.n + (self.columns - 1), self.columns)
            batch = quotient(number, in_one)
            number = number - batch * in_one
        place = self.place(number, down)
        if self.parted:
            start, self.k = self.part_of_k(OFFS, batch, self.k)
            pa, pb = pa + product(start, self.m, 1) * self.a.size, pb + product(start, self.n, 1) * self.b.size
        if self.batched:
            self.batch = batch
            pa = pa + product(batch, self.m, self.k) * self.a.size
            pb = pb + product(batch, self.width, self.k) * self.b.size
        if self.batched or self.parted:
            pc = pc + product(batch, self.m, self.n) * (self.out.bits // 8)
        self.pointers = pa, pb, pc
        return place

    def scales(self, more, first, column) -> BlockScales:
        """The scales of the thread's eight rows, `first` and every eighth behind it, and of the tile's blocks of columns."""
        columns = [column, column + self.n] if self.epilogue.gated else [column]
        group = (self.expert, self.m) if self.grouped else ()
        return BlockScales(more, [first + 8 * i for i in range(8)], self.rows, columns, self.width, *group)

    def sum_blocks(self, total, stages: "Stages", reads, scales: BlockScales):
        """Adds up the products of all stages, each times its scales."""
        acc = [[reg.array(f32, 4) for _ in range(4)] for _ in range(4)]

        def scaled():
            promote(total, acc, scales.next() * (1 if self.epilogue.gated else 2))

        for _ in stages.each():
            self.multiply_stage(acc, stages, reads, scaled)

    def multiply_stage(self, acc, stages: "Stages", reads, scaled=None):
        """The products of one stage, while the copies of a later one are started.  `scaled` adds the products to sums; without it, they
        are added to what the accumulators hold."""
        here = stages.wait()
        if scaled:
            fill(acc, 0)
        halves = min(self.a.width, self.b.width) == 4  # there are registers for half a tile at a time
        both = [] if halves else [stages.fetch(0), stages.fetch(1)]
        for step in range(ROW // 32):
            half = stages.fetch(step // 2, step % 2) if halves else None
            self.multiply(acc, *reads, here, step)
            if half:
                half()
        if scaled:
            scaled()
        for finish in both:
            finish()
        stages.fetched()

    def multiply(self, acc, reads_a, reads_b, here, step: int):
        rows = [reads_a.load(here, 16 * i, step) for i in range(4)]
        columns = [reads_b.load(here + BM * ROW, 16 * i, step) for i in range(self.eights // 2)]
        dtype = tf32 if self.a.dtype == f32 else self.a.dtype
        if dtype == tf32:
            for registers in (*rows, *columns):
                for each in registers:
                    ptx.inst.cvt.rna.tf32.f32(each, each)
        for a, line in zip(rows, acc, strict=True):
            for j, d in enumerate(line):
                b = columns[j // 2][2 * (j % 2) : 2 * (j % 2) + 2]
                ptx.mma.sync(SHAPES[dtype], self.acc_type, dtype, dtype, self.acc_type, d, a, b, d)

    def place(self, number, down):
        """(first row, first column) of a tile of a matrix that is `down` tiles high.  Tiles are taken in groups of rows, column by column."""
        across = quotient(self.n + (self.columns - 1), self.columns)
        group = quotient(number, across * GROUP)
        above = group * GROUP
        inside = number - above * across
        rows = reg.scalar(u32)
        ptx.inst.min.u32(rows, down - above, GROUP)
        column = quotient(inside, rows)
        return (above + inside - column * rows) * BM, column * self.columns

    def part_of_k(self, OFFS, number, k_size):
        """(the first line of K of a group, how many lines it has)."""
        (ends,) = ptx.global_ptrs(OFFS)
        start, end = reg.scalar(u32, init=0), reg.scalar(u32)
        at = apply_to(reg.scalar(u64), ptx.inst.mad.wide.u32, number, 4, ends)
        ptx.inst.ld.global_.nc.u32(start, ptx.addr(at, -4), pred=number > 0)
        ptx.inst.ld.global_.nc.u32(end, ptx.addr(at))
        ptx.inst.min.u32(start, start, k_size)
        ptx.inst.max.u32(end, end, start)
        ptx.inst.min.u32(end, end, k_size)
        return start, end - start

    def place_in_group(self, OFFS):
        """(first row, first column, number of the matrix of B, row behind the group's last one) of the CTA's tile, in grouped products."""
        (ends,) = ptx.global_ptrs(OFFS)
        number = reg.from_(ptx.special.ctaid.x(), u32)
        across = quotient(self.n + (self.columns - 1), self.columns)
        room = quotient(self.m, ptx.param(u32, "E")) if self.masked else None
        expert, start, end, tiles = (reg.scalar(u32, init=0) for _ in range(4))
        ptx.label("next_group")
        ptx.inst.sub.u32(number, number, tiles)
        if not self.masked:
            ptx.inst.mov.u32(start, end)
        ptx.ret(pred=expert == ptx.param(u32, "E"))  # there are more CTAs than tiles
        ptx.inst.ld.global_.nc.u32(end, ptx.addr(ends + expert * 4))
        within(start, end, expert, room)
        down = quotient(end - start + (BM - 1), BM)
        ptx.inst.mul.lo.u32(tiles, down, across)
        expert += 1
        ptx.bra("next_group", pred=number >= tiles)
        row, column = self.place(number, down)
        return start + row, column, expert - 1, end

    def store(self, acc, pointer, row, column):
        size = self.out.bits // 8
        # Values are stored in pairs if N and the address are multiples of a pair; `out` may begin anywhere.
        apart = reg.scalar(u32)
        ptx.inst.cvt.u32.u64(apart, pointer)
        even = ((self.n & 1) == 0) & ((apart & (2 * size - 1)) == 0)
        store = ptx.inst.st.global_
        one, two = (store.b16, store.v2.b16) if size == 2 else (store.b32, store.v2.b32)
        gated = self.epilogue.gated
        tiles = range(2 if gated else self.eights)
        columns = [self.finisher.columns(column + 8 * j, 2, self.batch) for j in tiles]
        for i, line in enumerate(acc):
            for half in range(2):
                r = row + (16 * i + 8 * half)
                finish = self.finisher.line(r, self.m, self.batch)
                at = reg.scalar(u64)
                ptx.inst.mul.wide.u32(at, r, self.n)
                for j in tiles:
                    c = column + 8 * j
                    to = pointer + (at + c) * size
                    inside = (r < self.m) & (c < self.n)
                    values = [value for tile in line[j :: len(tiles)] for value in list(tile)[2 * half : 2 * half + 2]]
                    values = finish(values, c, columns[j])
                    values = narrowed(values, self.out)
                    two(ptx.addr(to), values, pred=inside & even)
                    one(ptx.addr(to), values[0], pred=inside & ~even)
                    one(ptx.addr(to, size), values[1], pred=inside & (c + 1 < self.n) & ~even)


def fill(acc, value: int):
    for line in acc:
        for tile in line:
            for each in tile:
                ptx.inst.mov.b32(each, value)


def promote(total, acc, scales):
    """total += scale acc, for the thread's eight rows.  The first two tiles of a line have one list of scales, the last two another."""
    for i, (into, line) in enumerate(zip(total, acc, strict=True)):
        for number, (sums, tile) in enumerate(zip(into, line, strict=True)):
            for j in range(4):
                ptx.inst.fma.rn.f32(sums[j], tile[j], scales[number // 2][2 * i + j // 2], sums[j])


def narrowed(values, dtype):
    if dtype.bits == 32:
        return values
    halves = []
    for value in values:
        halves.append(reg.scalar(b16))
        getattr(ptx.inst.cvt.rn, dtype.name).f32(halves[-1], value)
    return halves


def next_stage(stage):
    stage += 1
    wraps = reg.scalar(pred)
    ptx.inst.setp.eq.u32(wraps, stage, STAGES)
    ptx.inst.mov.u32(stage, 0, pred=wraps)


def product(a, b, c):
    """A register of 64 bits with the product of three registers of 32."""
    result, wide = reg.scalar(u64), reg.scalar(u64)
    ptx.inst.mul.wide.u32(result, a, b)
    ptx.inst.cvt.u64.u32(wide, c)
    ptx.inst.mul.lo.u64(result, result, wide)
    return result


@functools.cache
def mma_kernel(
    dtype: PtxType,
    out: PtxType,
    a_k_major=True,
    b_k_major=True,
    a_width=16,
    b_width=16,
    batched=False,
    epilogue=NOTHING,
    grouped=False,
    masked=False,
    parted=False,
):
    """The kernel (A, B, ...) -> C.

    A is (M, K), or (K, M) if it is not K-major; B is (N, K), or (K, N); with a gated activation it is (2, N, K), or (K, 2, N).  All are
    contiguous.
    a_width, b_width: 16, 8 or 4 if all rows and addresses are multiples of so many bytes, otherwise the size of an element.
    grouped: B has E matrices, (E, N, K) or (E, K, N), and OFFS has, for each, the row of A behind its last one.  masked: each matrix has
        M / E rows of A, and OFFS says how many of them count.
    parted: A (K, M) and B (K, N) have a product for each group of lines of K, C (E, M, N); OFFS has the line behind each group's last one.
    """
    a, b = Matrix(dtype, a_k_major, a_width), Matrix(dtype, b_k_major, b_width, epilogue.gated)
    body = Tensor(a, b, out, epilogue, batched, grouped, masked, parted)
    columns = body.columns  # a number, because an object that `grid` reads would be compared at each call
    batch = ("L",) if batched else ()

    def tile(matrix, rows, lead):
        rows = (2, rows) if matrix.halves else (rows,)
        shape = (*rows, "K") if matrix.k_major else ("K", *rows)
        return Tile(*lead, *shape, matrix.dtype, align=matrix.width if matrix.width >= 4 else 0)

    def grid(M, N, L=1, E=0):
        return ((-(-M // BM) + E) * -(-N // columns) * L, 1, 1)

    # Two CTAs share a multiprocessor, if their values fit into its registers.
    two = body.threads == 128 or (min(a_width, b_width) == 16 and dtype != f32 and epilogue.scales != "block")
    more = epilogue.tiles(batch, grouped)
    grids = lambda M, N: grid(M, N)  # noqa: E731
    if batched:
        grids = lambda M, N, L: grid(M, N, L)  # noqa: E731
    if grouped:
        more["OFFS"] = Tile("E", s32)
        grids = lambda M, N, E: grid(M, N, 1, E)  # noqa: E731
    if parted:
        more["OFFS"] = Tile("E", s32)
        grids = lambda M, N, E: grid(M, N, E)  # noqa: E731
    return kernel(
        in_specs=(tile(a, "M", batch), tile(b, "N", ("E",) if grouped else batch), *more.values()),
        out_specs=(Tile(*(("E",) if parted else batch), "M", "N", out, whole=not grouped),),
        raw_params=[("u32", name) for name in ("M", "N", "K", *(("E",) if grouped else ()))],
        grid=grids,
        block=(body.threads, 1, 1),
        reqntid=True,
        raw_directives=(("minnctapersm", (2 if two else 1,)),),
        batch="L" if batched else "M" if a_k_major and not grouped and epilogue.scales != "block" else None,
        arch="sm_89" if dtype == e4m3 else "sm_80",
    )(
        with_tensors(
            "mma_grouped_matmul" if grouped else "mma_parted_matmul" if parted else "mma_matmul",
            ("A", "B", *more, "C"),
            body.write,
        )
    )
