"""C = A B on Hopper's tensor cores with K split, for few tiles and a long K, as of gradients of weights.

A CTA has one tile of C, of one matrix of a batch, and a part of K: one warp copies, warpgroups of 64 rows multiply.  What they have added up they
leave as it lies in their threads, for a second kernel, which adds up the parts in a fixed order, applies bias, activation and residual, and
rounds once.
"""

import functools
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._epilogue import NOTHING, Epilogue, Finisher, with_tensors
from pyptx.kernels._matmul.costs import ROOM
from pyptx.kernels._matmul.tiles import ROW, WARPGROUP, WORD, Operand, Ring, address, copied, fetch_maps
from pyptx.kernels._registers import divided, narrowed, quotient, tree, wide_product
from pyptx.types import PtxType, f32, u8, u32, u64

__all__ = ["Split", "shares_of", "split_kernel", "sums_kernel"]

# A block of what the first kernel leaves is what a warpgroup has of eight columns: four accumulators of each thread.
ROWS, COLUMNS, BLOCK = 64, 8, WARPGROUP * WORD
# Threads of a CTA of the second kernel, the most of them that have parts of the same values, and how many parts one adds up where that suffices.
SUMS_THREADS, MOST_SHARES, EACH = 256, 8, 8


@dataclass(frozen=True)
class Split:
    """A product (M, K) x (K, N), or a `batch` of them, in tiles of bm x bn and `parts` of K.  The first kernel is of the tile, and the second one of
    about how many parts there are; both take any M, N, K and batch."""

    m: int
    n: int
    bm: int
    bn: int
    parts: int
    batch: int | None = None

    @property
    def across(self) -> int:
        return -(-self.n // self.bn)

    @property
    def down(self) -> int:
        return -(-self.m // self.bm)

    @property
    def tiles(self) -> int:
        """How many tiles all matrices have."""
        return self.down * self.across * (self.batch or 1)

    @property
    def bytes(self) -> int:
        """Bytes of the sums that the first kernel leaves."""
        return self.parts * self.tiles * self.bm * self.bn * 4

    @property
    def left(self) -> dict[str, int]:
        """The sizes of what the first kernel leaves: of each part, and each matrix, R blocks of 64 rows by G groups of eight columns."""
        return {"P": self.parts, "R": self.down * (self.bm // ROWS), "G": self.across * (self.bn // COLUMNS)}


class Body:
    """The body of the first kernel, of tiles of bm x bn: `write` writes it."""

    def __init__(self, bm: int, bn: int, a: Operand, b: Operand, batched: bool):
        self.bm, self.bn, self.a, self.b, self.batched = bm, bn, a, b, batched
        self.stage_bytes = a.bytes + b.bytes
        self.stages = min(12, ROOM // self.stage_bytes)
        self.threads = bm // ROWS * WARPGROUP  # that multiply; a warp that copies follows them

    def write(self, A, B, PARTS):
        self.maps = A.tma_desc(), B.tma_desc()
        (self.pointer,) = ptx.global_ptrs(PARTS)
        self.ring = smem.alloc(u8, self.stages * self.stage_bytes, align=1024)
        self.full, self.empty = smem.mbarrier(self.stages), smem.mbarrier(self.stages)
        thread = reg.from_(ptx.special.tid.x(), u32)
        producer = thread == self.threads
        with ptx.if_(producer):
            fetch_maps(self.maps)
        with ptx.if_(thread == 0):
            for stage in range(self.stages):
                ptx.mbarrier.init(self.full[stage], 1)
                ptx.mbarrier.init(self.empty[stage], self.threads // 32)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        part = self.find_place()
        steps = (ptx.param(u32, "K") + (self.a.bk - 1)) >> (self.a.bk.bit_length() - 1)
        self.first, self.last = (quotient((part + more) * steps, ptx.param(u32, "P")) for more in range(2))
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
        with ptx.if_(producer):
            self.produce()
        with ptx.if_(thread < self.threads):
            self.consume(thread)
        ptx.ret()

    def find_place(self):
        """Finds the first row and column of the CTA's tile, the number of its matrix in a batch, and, of what is left, its first block.  Returns
        the number of its part.  Neighbours lie along the shorter side, which is that of x, so that what those of a GPC read is close to a square."""
        short, long, part = (
            reg.from_(each(), u32) for each in (ptx.special.ctaid.x, ptx.special.ctaid.y, ptx.special.ctaid.z)
        )
        blocks, groups = ptx.param(u32, "R"), ptx.param(u32, "G")
        # Whether more tiles lie side by side than below each other.
        wide = groups * (self.bm // ROWS) > blocks * (self.bn // COLUMNS)
        row, column, matrix = reg.scalar(u32), reg.scalar(u32), None
        ptx.inst.selp.u32(row, short, long, wide)
        ptx.inst.selp.u32(column, long, short, wide)
        above = part
        if self.batched:
            part, matrix = divided(part, ptx.param(u32, "L"))
        self.block = (above * blocks + row * (self.bm // ROWS)) * groups + column * (self.bn // COLUMNS)
        self.place = row * self.bm, column * self.bn, matrix
        return part

    def produce(self):
        ring, base, k = Ring(self.stages), address(self.ring), copied(self.first * self.a.bk)
        row, column, matrix = self.place
        of_batch = () if matrix is None else (matrix,)
        for _ in ptx.range_(self.first, self.last, dtype=u32):
            full = self.full[ring.stage]
            ptx.mbarrier.wait(self.empty[ring.stage], ring.parity ^ 1)
            ptx.mbarrier.arrive_expect_tx(full, self.stage_bytes)
            to = base + ring.stage * self.stage_bytes
            for operand, tensor_map, start, offset in (
                (self.a, self.maps[0], row, 0),
                (self.b, self.maps[1], column, self.a.bytes),
            ):
                for rows, at in operand.copies():
                    where = (*operand.where(start, rows, k), *of_batch)
                    ptx.tensor_copy.load(ptx.addr(to, offset + at), tensor_map, where, full)
            k += self.a.bk
            ring.advance()

    def consume(self, thread):
        ring, start = Ring(self.stages), address(self.ring)
        desc_a = self.a.descriptor(start + (thread >> 7) * (64 * ROW))
        desc_b = self.b.descriptor(start + self.a.bytes)
        acc = reg.array(f32, self.bn // 2)
        for each in acc:
            ptx.inst.mov.f32(each, 0.0)
        lane, before, later = thread & 31, reg.scalar(u32), reg.scalar(u32, init=0)
        for _ in ptx.range_(self.first, self.last, dtype=u32):
            ptx.mbarrier.wait(self.full[ring.stage], ring.parity)
            words = reg.scalar(u64)
            ptx.inst.mul.wide.u32(words, ring.stage, self.stage_bytes // WORD)
            self.issue(acc, desc_a + words, desc_b + words)
            ptx.wgmma.wait_group(1)
            with ptx.if_(later == 1):  # the stage before has been read
                ptx.mbarrier.arrive(self.empty[before], pred=lane == 0)
            ptx.inst.mov.u32(before, ring.stage)
            ptx.inst.mov.u32(later, 1)
            ring.advance()
        ptx.wgmma.wait_group(0)
        own = self.block + (thread >> 7) * ptx.param(u32, "G")
        at = self.pointer + wide_product(own, BLOCK) + (thread & (WARPGROUP - 1)) * WORD
        for group in range(self.bn // COLUMNS):
            there = ptx.addr(at, group * BLOCK)
            ptx.inst.st.global_.v4.f32(there, list(acc[4 * group : 4 * group + 4]))

    def issue(self, acc, a, b):
        ptx.wgmma.fence()
        for step in range(ROW // 32):
            ptx.wgmma.mma_async(
                shape=(64, self.bn, 256 // self.a.dtype.bits),
                dtype_d=f32,
                dtype_a=self.a.multiplied,
                dtype_b=self.b.multiplied,
                d=acc,
                a=a + step * self.a.step,
                b=b + step * self.b.step,
                scale_d=True,
                trans_a=int(not self.a.k_major),
                trans_b=int(not self.b.k_major),
            )
        ptx.wgmma.commit_group()


@functools.cache
def split_kernel(bm: int, bn: int, batched: bool, dtype: PtxType, a_k_major: bool, b_k_major: bool):
    """The kernel (A, B) -> what `sums_kernel` makes C of, with the sizes of `Split.left`.  A is (M, K), or (K, M) if it is not K-major; B is
    (N, K), or (K, N)."""
    bk = ROW * 8 // dtype.bits
    a, b = Operand(dtype, a_k_major, bm, 1, bk), Operand(dtype, b_k_major, bn, 1, bk)
    body, blocks, groups = Body(bm, bn, a, b, batched), bm // ROWS, bn // COLUMNS

    def grid(P, R, G, L=1):
        down, across = R // blocks, G // groups
        return (min(down, across), max(down, across), P * L)

    lead = ("L",) * batched
    return kernel(
        in_specs=(a.tile(lead, "M"), b.tile(lead, "N")),
        out_specs=(Tile("P", *lead, "R", "G", BLOCK // 4, f32, align=16),),
        raw_params=[("u32", size) for size in ("K", "P", "R", "G", *lead)],
        grid=grid if batched else lambda P, R, G: grid(P, R, G),
        block=(body.threads + 32, 1, 1),
        reqntid=True,
        dependent_launch=True,
        arch="sm_90a",
    )(with_tensors("split_matmul", ("A", "B", "PARTS"), body.write))


def added(fours) -> list:
    return [tree(column, ptx.inst.add.f32) for column in zip(*fours, strict=True)]


def over_shares(sums, thread, share, shares: int) -> list:
    """The sums of the threads that have the same values, in those of the first share."""
    memory = address(smem.alloc(f32, SUMS_THREADS * 4, align=16)) + thread * WORD
    ptx.inst.st.shared.v4.f32(ptx.addr(memory), sums)
    ptx.bar.sync(0)
    others = [[reg.scalar(f32) for _ in range(4)] for _ in range(shares - 1)]
    for i, each in enumerate(others, 1):
        ptx.inst.ld.shared.v4.f32(each, ptx.addr(memory, i * (SUMS_THREADS // shares) * WORD), pred=share == 0)
    return added([sums, *others])


def shares_of(parts: int) -> tuple[int, int]:
    """(how many threads have parts of the same values, how many parts each has at the most): few pairs for all numbers of parts."""
    shares = 1
    while shares < MOST_SHARES and shares * EACH < parts:
        shares *= 2
    each = -(-parts // shares)
    return shares, 1 << (each - 1).bit_length() if each <= EACH else -(-each // EACH) * EACH


@functools.cache
def sums_kernel(shares: int, each: int, batched: bool, out: PtxType, epilogue: Epilogue = NOTHING):
    """The kernel from what the first one leaves, and the epilogue's tensors, to C (M, N).  A CTA's threads have neighbours of a block of 64 rows,
    and the next CTA the same ones of the next 64; where there are many parts, threads further on have others of the same values.  `shares`, `each`: as of `shares_of`."""
    side, lead = SUMS_THREADS // shares, ("L",) * batched
    across, tensors = WARPGROUP // side or 1, epilogue.tiles(lead)
    groups = max(1, side // WARPGROUP)  # of a CTA

    def grid(R, G, L=1):
        return (R, -(-G // groups) * across, L)

    def split_sums(PARTS, C, **more):
        parts, to = ptx.global_ptrs(PARTS, C)
        m, n, count, blocks, width = (ptx.param(u32, name) for name in ("M", "N", "P", "R", "G"))
        finisher = Finisher(epilogue, more, n, True, out)
        thread, of_rows, some = (
            reg.from_(each(), u32) for each in (ptx.special.tid.x, ptx.special.ctaid.x, ptx.special.ctaid.y)
        )
        share, number, block = thread >> (side.bit_length() - 1), some * side + (thread & (side - 1)), of_rows
        matrix = reg.from_(ptx.special.ctaid.z(), u32) if batched else None
        if batched:
            block, blocks = matrix * blocks + of_rows, ptx.param(u32, "L") * blocks
        begin, end = (((share + more) * count) >> (shares.bit_length() - 1) for more in range(2))
        pitch = blocks * width
        at = parts + wide_product(begin * pitch + block * width, BLOCK) + wide_product(number, WORD)
        apart = wide_product(pitch, BLOCK)
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
        found = [[reg.scalar(f32, init=0.0) for _ in range(4)] for _ in range(each)]
        inside = (number >> 7) < width
        for i, four in enumerate(found):
            if i:
                at = at + apart
            ptx.inst.ld.global_.v4.f32(four, ptx.addr(at), pred=inside & (begin + i < end))
        sums = added(found)
        if shares > 1:
            sums = over_shares(sums, thread, share, shares)
        with ptx.if_((share == 0) & inside):
            store(sums, of_rows, number, matrix, (m, n), to, out, finisher)
        ptx.ret()

    return kernel(
        in_specs=(Tile("P", *lead, "R", "G", BLOCK // 4, f32, align=16), *tensors.values()),
        out_specs=(Tile(*lead, "M", "N", out, align=16),),
        raw_params=[("u32", size) for size in ("M", "N", "P", "R", "G", *lead)],
        grid=grid if batched else lambda R, G: grid(R, G),
        block=(SUMS_THREADS, 1, 1),
        reqntid=True,
        dependent_launch=True,
        arch="sm_90",
    )(with_tensors("split_sums", ("PARTS", *tensors, "C"), split_sums))


def store(values, block, number, matrix, sizes, pointer, out: PtxType, finisher: Finisher):
    """Finishes and stores four accumulators, number `number` of a block of 64 rows: two of a row, and two of that eight rows further."""
    (m, n), lane = sizes, number & 31
    row = (block << 6) + (((number >> 5) & 3) << 4) + (lane >> 2)
    column = ((number >> 7) << 3) + ((lane & 3) << 1)
    columns = finisher.columns(column, 2, matrix)
    for half in range(2):
        line, at = row + 8 * half if half else row, reg.scalar(u64)
        ptx.inst.mul.wide.u32(at, line if matrix is None else matrix * m + line, n)
        there, inside = ptx.addr(pointer + (at + column) * (out.bits // 8)), (line < m) & (column < n)
        finished = finisher.line(line, m, matrix)(values[2 * half : 2 * half + 2], column, columns)
        pair = narrowed(finished, out)
        if len(pair) == 2:
            ptx.inst.st.global_.v2.b32(there, pair, pred=inside)
        else:
            ptx.inst.st.global_.b32(there, pair[0], pred=inside)
