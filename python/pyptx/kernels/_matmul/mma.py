"""C = A B by mma.sync, for GPUs since sm_80 and for every shape.  Matrices that TMA cannot address are multiplied by it on Hopper, too.

A CTA computes a tile, of 128 x 128 where there are many, of which a warp has 64 x 32 or 64 x 64; or each warp a small one (`Cut`).  Tiles of A
and B go through a ring of stages: by cp.async of 16 or 8 bytes if the alignment of rows allows it, otherwise through registers, 4 bytes or an
element at a time.  The words of 16 bytes of a row are swizzled, so that ldmatrix, which reads eight rows at once, meets each bank once.  The
result goes through the shared memory of the ring, so that neighbouring threads store neighbouring columns.
"""

import functools
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._epilogue import NOTHING, BlockScales, Epilogue, Finisher, with_tensors
from pyptx.kernels._matmul.mma_loads import ROW, Loader, Matrix
from pyptx.kernels._matmul.tiles import within
from pyptx.kernels._registers import (
    STORE,
    beyond,
    copied,
    move,
    narrowed,
    quotient,
    registers,
    smem_address,
)
from pyptx.types import PtxType, b32, bf16, e4m3, f16, f32, pred, s8, s32, tf32, u8, u32, u64

__all__ = ["Cut", "mma_kernel"]

WORD = 16  # bytes that are swizzled
SHAPES = {bf16: (16, 8, 16), f16: (16, 8, 16), tf32: (16, 8, 8), f32: (16, 8, 8), s8: (16, 8, 32), e4m3: (16, 8, 32)}
MOST_HELD = 64  # registers of elements on their way to shared memory
GROUP = 8  # rows of tiles that are taken together, so that the tiles that run at one time are close to a square


@dataclass(frozen=True)
class Cut:
    """A tile has bm x bn elements of C, which `down` x `across` warps share; a CTA has one, or `apart` of one warp each.  `stages`: of `deep` bytes of K;
    with one, nothing is fetched while others are multiplied."""

    bm: int = 128
    bn: int = 128
    down: int = 2
    across: int = 4
    stages: int = 3
    deep: int = ROW
    apart: int = 1

    @property
    def threads(self) -> int:
        """Threads that multiply a tile."""
        return 32 * self.down * self.across


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
    """The ring of stages, each a tile of A and one of B: one is multiplied while others are fetched."""

    def __init__(self, body: "Tensor", row, column):
        (pa, pb, _), self.bk, self.cut = body.pointers, body.a.bk, body.cut
        self.base, self.sync = body.base, body.sync
        self.starts = (0, body.a.bytes)
        self.bytes = body.stage_bytes
        self.loaders = [
            Loader(matrix, pointer, first, size, body.k, body.long, body.thread, self.cut.threads)
            for matrix, pointer, first, size in ((body.a, pa, row, body.rows), (body.b, pb, column, body.n))
        ]
        self.held = sum(each.count for each in self.loaders if not each.matrix.by_copies)
        self.count = quotient(body.k - body.start + (self.bk - 1), self.bk)
        self.stage, self.ahead = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        self.k = copied(body.start)
        for _ in range(self.cut.stages - 1):
            self.fetch_whole()

    def fetch(self, number: int, half: int | None = None):
        """Starts to copy a tile of A (0) or B (1), or a half of it.  Returns a function that finishes it."""
        to = self.base + (self.ahead * self.bytes + self.starts[number])
        return self.loaders[number].fetch(self.k, to, half)

    def fetched(self):
        """Ends the copies of a stage."""
        ptx.cp.async_.commit_group()
        self.k += self.bk
        next_stage(self.ahead, self.cut.stages)

    def fetch_whole(self):
        for some in [(0, 1)] if self.held <= MOST_HELD else [(0,), (1,)]:
            for finish in [self.fetch(number) for number in some]:
                finish()
        self.fetched()

    def each(self):
        """A loop over all stages."""
        for _ in ptx.range_(0, self.count, dtype=u32):
            yield
            next_stage(self.stage, self.cut.stages)

    def wait(self):
        """Waits for the stage, and returns its address."""
        if self.cut.stages == 1:
            self.sync()  # all have read the one before
            self.fetch_whole()
        ptx.cp.async_.wait_group(max(0, self.cut.stages - 2))
        self.sync()  # all see this stage, and all have read the stage that is fetched next
        return self.base + self.stage * self.bytes

    def end(self):
        """Until the ring may be used for something else."""
        ptx.cp.async_.wait_group(0)
        self.sync()


class Tensor:
    """The body of the kernel: `write` writes it."""

    def __init__(
        self,
        a: Matrix,
        b: Matrix,
        cut: Cut,
        out: PtxType,
        epilogue: Epilogue,
        batched: bool,
        grouped: bool,
        masked: bool,
        parted: bool,
        parts: bool,
    ):
        self.a, self.b, self.cut, self.out, self.epilogue, self.batched = a, b, cut, out, epilogue, batched
        self.grouped, self.masked, self.parted = grouped, masked, parted
        self.columns = cut.bn // 2 if epilogue.gated else cut.bn  # columns of C in a tile
        self.parts = parts
        self.high, self.eights = cut.bm // cut.down // 16, cut.bn // cut.across // 8  # of 16 rows, 8 columns, of a warp
        self.acc_type = s32 if a.dtype == s8 else f32
        self.stage_bytes = a.bytes + b.bytes
        # The pitch of the staged result: no two threads of a warp meet in a bank.
        self.pitch = self.columns * out.bits // 8 + WORD
        self.room = max(cut.stages * self.stage_bytes, cut.bm * self.pitch)

    def write(self, A, B, C, OFFS=None, **more):
        cut = self.cut
        self.pointers = ptx.global_ptrs(A, B, C)
        self.m, self.n, self.k = (ptx.param(u32, name) for name in "MNK")
        self.start, self.long = reg.scalar(u32, init=0), self.k  # the first element of K, and how many a row has
        self.width = self.n + self.n if self.epilogue.gated else self.n  # columns of B
        self.base = smem_address(smem.alloc(u8, cut.apart * self.room, align=128))
        self.thread = reg.from_(ptx.special.tid.x(), u32)
        lane, warp = self.thread & 31, self.thread >> 5
        self.number = reg.from_(ptx.special.ctaid.x(), u32)
        if cut.apart > 1:
            self.number, self.base = self.number * cut.apart + warp, self.base + warp * self.room
            self.thread, warp = lane, reg.scalar(u32, init=0)
        self.rows = self.m  # rows of A
        row, column = self.find_tile(OFFS)
        self.finisher = Finisher(self.epilogue, more, self.n, False, self.out)
        stages = Stages(self, row, column)
        warp_row = (warp & (cut.down - 1)) * (16 * self.high)
        warp_column = (warp >> (cut.down.bit_length() - 1)) * (8 * self.eights)
        reads = Fragments(self.a, True, warp_row, lane), Fragments(self.b, False, warp_column, lane)
        acc = [[reg.array(self.acc_type, 4) for _ in range(self.eights)] for _ in range(self.high)]
        fill(acc, 0)
        if self.epilogue.scales == "block":
            self.sum_blocks(acc, stages, reads, self.scales(more, row + warp_row + (lane >> 2), column))
        else:
            for _ in stages.each():
                self.multiply_stage(acc, stages, reads)
        stages.end()
        if self.epilogue.gated:
            warp_column = warp_column >> 1
        self.stage(acc, row, column, warp_row + (lane >> 2), warp_column + (lane & 3) * 2)
        self.sync()
        self.store(row, column)
        ptx.ret()

    def sync(self):
        """Waits for the threads of the tile."""
        if self.cut.threads == 32:
            ptx.warp.sync(0xFFFFFFFF)
        else:
            ptx.bar.sync(0)

    def find_tile(self, OFFS):
        """(first row, first column) of the tile.  Moves `pointers` to the matrices of the tile, and sets `batch` and `expert`, their
        numbers; of a group it sets `m`, the row behind its last one, or `k`, how many lines of K it has."""
        self.batch = self.expert = None
        pa, pb, pc = self.pointers
        if self.grouped:
            row, column, self.expert, self.m = self.place_in_group(OFFS)
            self.pointers = pa, pb + product(self.expert, self.width, self.k) * self.b.size, pc
            return row, column
        number, down = self.number, self.down(self.m)
        in_one = down * self.across()
        if self.cut.apart > 1:  # the last CTA may have more warps than there are tiles
            each = "L" if self.batched else "P" if self.parts else None
            ptx.ret(pred=number >= (in_one * ptx.param(u32, each) if each else in_one))
        if self.batched or self.parted or self.parts:  # all are along the grid's x, as y and z have no room for many
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
        if self.parts:
            self.start, self.k = self.steps_of_k(batch)
        if self.batched or self.parted or self.parts:
            pc = pc + product(batch, self.m, self.n) * (self.out.bits // 8)
        self.pointers = pa, pb, pc
        return place

    def steps_of_k(self, number):
        """(the first element of a part of K, the one behind it): whole stages, so that copies stay aligned."""
        bk, count = self.a.bk, ptx.param(u32, "P")
        each = quotient(quotient(self.k + (bk - 1), bk) + (count - 1), count) * bk
        start, end = reg.scalar(u32), reg.scalar(u32)
        ptx.inst.min.u32(start, number * each, self.k)
        ptx.inst.min.u32(end, start + each, self.k)
        return start, end

    def down(self, rows):
        """How many tiles so many rows have."""
        return quotient(rows + (self.cut.bm - 1), self.cut.bm)

    def across(self):
        return quotient(self.n + (self.columns - 1), self.columns)

    def scales(self, more, first, column) -> BlockScales:
        """The scales of the thread's eight rows, `first` and every eighth behind it, and of the tile's blocks of columns."""
        columns = [column, column + self.n] if self.epilogue.gated else [column]
        group = (self.expert, self.m) if self.grouped else ()
        return BlockScales(
            more, self.epilogue, [first + 8 * i for i in range(8)], self.rows, columns, self.width, *group
        )

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
        halves = self.cut.stages > 1 and stages.held > MOST_HELD  # there are registers for half a tile at a time
        both = [] if halves or self.cut.stages == 1 else [stages.fetch(0), stages.fetch(1)]
        for step in range(self.cut.deep // 32):
            half = stages.fetch(step // 2, step % 2) if halves else None
            self.multiply(acc, *reads, here, step)
            if half:
                half()
        if scaled:
            scaled()
        for finish in both:
            finish()
        if self.cut.stages > 1:
            stages.fetched()

    def multiply(self, acc, reads_a, reads_b, here, step: int):
        rows = [reads_a.load(here, 16 * i, step) for i in range(self.high)]
        columns = [reads_b.load(here + self.a.bytes, 16 * i, step) for i in range(self.eights // 2)]
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
        across = self.across()
        group = quotient(number, across * GROUP)
        above = group * GROUP
        inside = number - above * across
        rows = reg.scalar(u32)
        ptx.inst.min.u32(rows, down - above, GROUP)
        column = quotient(inside, rows)
        return (above + inside - column * rows) * self.cut.bm, column * self.columns

    def part_of_k(self, OFFS, number, k_size):
        """(the first line of K of a group, how many lines it has)."""
        (ends,) = ptx.global_ptrs(OFFS)
        start, end = reg.scalar(u32, init=0), reg.scalar(u32)
        at = beyond(ends, number, 4)
        ptx.inst.ld.global_.nc.u32(end, ptx.addr(at))
        if self.masked:
            within(start, end, number, quotient(k_size, ptx.param(u32, "E")))
            return start, end - start
        ptx.inst.ld.global_.nc.u32(start, ptx.addr(at, -4), pred=number > 0)
        ptx.inst.min.u32(start, start, k_size)
        ptx.inst.max.u32(end, end, start)
        ptx.inst.min.u32(end, end, k_size)
        return start, end - start

    def place_in_group(self, OFFS):
        """(first row, first column, number of the matrix of B, row behind the group's last one) of the CTA's tile, in grouped products."""
        (ends,) = ptx.global_ptrs(OFFS)
        number, across = self.number, self.across()
        room = quotient(self.m, ptx.param(u32, "E")) if self.masked else None
        expert, start, end, tiles = (reg.scalar(u32, init=0) for _ in range(4))
        ptx.label("next_group")
        ptx.inst.sub.u32(number, number, tiles)
        if not self.masked:
            ptx.inst.mov.u32(start, end)
        ptx.ret(pred=expert == ptx.param(u32, "E"))  # there are more CTAs than tiles
        ptx.inst.ld.global_.nc.u32(end, ptx.addr(ends + expert * 4))
        within(start, end, expert, room)
        down = self.down(end - start)
        ptx.inst.mul.lo.u32(tiles, down, across)
        expert += 1
        ptx.bra("next_group", pred=number >= tiles)
        row, column = self.place(number, down)
        return start + row, column, expert - 1, end

    def stage(self, acc, row, column, line, place):
        """Finishes the thread's values and leaves them in shared memory, as rows of the tile.  `line`, `place`: where the first of them is in the tile."""
        size, tiles = self.out.bits // 8, range(self.eights // 2 if self.epilogue.gated else self.eights)
        columns = [self.finisher.columns(column + place + 8 * j, 2, self.batch) for j in tiles]
        at = self.base + line * self.pitch + place * size
        for i, many in enumerate(acc):
            for half in range(2):
                down = 16 * i + 8 * half
                finish = self.finisher.line(row + line + down, self.m, self.batch)
                for j in tiles:
                    values = [value for tile in many[j :: len(tiles)] for value in list(tile)[2 * half : 2 * half + 2]]
                    values = finish(values, column + place + 8 * j, columns[j])
                    to = ptx.addr(at, down * self.pitch + 8 * j * size)
                    if size == 4:
                        ptx.inst.st.shared.v2.b32(to, values)
                    else:
                        ptx.inst.st.shared.b32(to, narrowed(values, self.out)[0])

    def store(self, row, column):
        """Stores the staged tile: 16 bytes a thread if rows and the address are multiples of them, 4 if of those, else an element."""
        pointer, size = self.pointers[2], self.out.bits // 8
        low = reg.scalar(u32)
        ptx.inst.cvt.u32.u64(low, pointer)
        low = (low | (self.n * size)) & (WORD - 1)
        with ptx.if_(low == 0):
            self.store_pieces(pointer, row, column, WORD // size)
        if size == 2:
            with ptx.if_(((low & 3) == 0) & (low > 0)):
                self.store_pieces(pointer, row, column, 2)
        with ptx.if_(((low & 3) if size == 2 else low) > 0):
            self.store_pieces(pointer, row, column, 1)

    def store_pieces(self, pointer, row, column, each: int):
        """`each`: elements of a piece.  Neighbouring threads have neighbouring pieces."""
        across, threads, size = self.columns // each, self.cut.threads, self.out.bits // 8
        for i in range(-(-self.cut.bm * across // threads)):
            number = self.thread + i * threads
            line = number >> (across.bit_length() - 1)
            place = (number & (across - 1)) * each
            inside = (row + line < self.m) & (column + place < self.n)
            if self.cut.bm * across % threads:
                inside = inside & (line < self.cut.bm)
            at = reg.scalar(u64)
            ptx.inst.mul.wide.u32(at, row + line, self.n)
            values = registers(self.out, each)
            move(ptx.inst.ld.shared, self.base + line * self.pitch, place * size, values, each * size)
            move(STORE, pointer + (at + (column + place)) * size, 0, values, each * size, pred=inside)


def at_once(cut: Cut) -> int:
    """How many threads of a multiprocessor leave each other enough registers for accumulators and addresses."""
    accumulators = cut.bm * cut.bn // cut.threads
    return 512 if accumulators >= 64 else 768 if accumulators >= 32 else 1024


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


def next_stage(stage, stages: int):
    stage += 1
    wraps = reg.scalar(pred)
    ptx.inst.setp.eq.u32(wraps, stage, stages)
    ptx.inst.mov.u32(stage, 0, pred=wraps)


def product(a, b, c):
    """A register of 64 bits with the product of three registers of 32."""
    result, wide = reg.scalar(u64), reg.scalar(u64)
    ptx.inst.mul.wide.u32(result, a, b)
    ptx.inst.cvt.u64.u32(wide, c)
    ptx.inst.mul.lo.u64(result, result, wide)
    return result


def wide_cut(a_width: int, b_width: int, epilogue: Epilogue) -> Cut:
    """The cut for many tiles.  With 64 columns a warp reads less from shared memory; 32 leave more registers, and more warps to run while others wait
    for memory."""
    few = epilogue.gated or epilogue.scales == "block" or a_width == b_width == 16 or min(a_width, b_width) < 8
    return Cut(across=4 if few else 2)


def grid_of(rows: int, columns: int, apart: int, batched: bool, grouped: bool, parted: bool, parts: bool):
    """The grid of tiles of so many rows and columns, `apart` to a CTA: a function of the symbols that the tensors have.  It reads numbers, because an object
    would be compared at each call."""

    def grid(M, N, L=1, E=0):
        tiles = (-(-M // rows) + E) * -(-N // columns) * L
        return (-(-tiles // apart), 1, 1)

    if parts:
        return lambda M, N, P: grid(M, N, P)
    if parted:
        return lambda M, N, E: grid(M, N, E)
    if grouped:
        return lambda M, N, E: grid(M, N, 1, E)
    return (lambda M, N, L: grid(M, N, L)) if batched else lambda M, N: grid(M, N)


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
    cut: Cut | None = None,
    parts=False,
):
    """The kernel (A, B, ...) -> C.

    A is (M, K), or (K, M) if it is not K-major; B is (N, K), or (K, N); with a gated activation it is (2, N, K), or (K, 2, N).  All are
    contiguous.
    a_width, b_width: 16, 8 or 4 if all rows and addresses are multiples of so many bytes, otherwise the size of an element.
    grouped: B has E matrices, (E, N, K) or (E, K, N), and OFFS has, for each, the row of A behind its last one.  masked: each matrix has
        M / E rows of A, and OFFS says how many of them count.
    parted: A (K, M) and B (K, N) have a product for each group of lines of K, C (E, M, N); OFFS has the line behind each group's last one.
        masked: each group has K / E lines, and OFFS says how many of them count.
    parts: C is (P, M, N), sums of parts of K.
    cut: of others than grouped, parted and gated products, and those with scales of blocks.
    """
    cut = cut or wide_cut(a_width, b_width, epilogue)
    a = Matrix(dtype, a_k_major, a_width, cut.bm, cut.deep)
    b = Matrix(dtype, b_k_major, b_width, cut.bn, cut.deep, epilogue.gated)
    body = Tensor(a, b, cut, out, epilogue, batched, grouped, masked, parted, parts)
    batch = ("L",) if batched else ()

    def tile(matrix, rows, lead):
        rows = (2, rows) if matrix.halves else (rows,)
        shape = (*rows, "K") if matrix.k_major else ("K", *rows)
        return Tile(*lead, *shape, matrix.dtype, align=matrix.width if matrix.width >= 4 else 0)

    # Two CTAs share a multiprocessor, if their values fit into its registers; of one stage, as many as there are registers for.
    two = cut.threads <= 128 or (min(a_width, b_width) == 16 and dtype != f32 and epilogue.scales != "block")
    together = 2 if two else 1
    if cut.stages == 1 and min(a_width, b_width) >= 8 and dtype.bits >= 16:
        together = (at_once(cut) if epilogue == NOTHING else 512) // (cut.threads * cut.apart)
    more = epilogue.tiles(batch, grouped)
    if grouped or parted:
        more["OFFS"] = Tile("E", s32)
    return kernel(
        in_specs=(tile(a, "M", batch), tile(b, "N", ("E",) if grouped else batch), *more.values()),
        out_specs=(Tile(*(("E",) if parted else ("P",) if parts else batch), "M", "N", out, whole=not grouped),),
        raw_params=[
            ("u32", name)
            for name in ("M", "N", "K", *batch, *(("E",) if grouped or masked else ("P",) if parts else ()))
        ],
        grid=grid_of(cut.bm, body.columns, cut.apart, batched, grouped, parted, parts),
        block=(cut.threads * cut.apart, 1, 1),
        reqntid=True,
        raw_directives=(("minnctapersm", (together,)),),
        batch="L" if batched else "M" if a_k_major and not (grouped or parts) and epilogue.scales != "block" else None,
        arch="sm_89" if dtype == e4m3 else "sm_80",
    )(
        with_tensors(
            "mma_grouped_matmul" if grouped else "mma_parted_matmul" if parted else "mma_matmul",
            ("A", "B", *more, "C"),
            body.write,
        )
    )
