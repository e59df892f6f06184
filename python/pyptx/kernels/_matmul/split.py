"""C = A B on Hopper's tensor cores with K split, for few tiles and a long K, as of gradients of weights.

A CTA has one tile of C, of one matrix of a batch, and a part of K: one warp copies, warpgroups of 64 rows multiply.  What they have added up they
leave as it lies in their threads, for a second kernel, which adds up the parts in a fixed order, applies bias, activation and residual, and
rounds once.
"""

import functools
import math
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._epilogue import NOTHING, Epilogue, Finisher, with_tensors
from pyptx.kernels._matmul.costs import ROOM
from pyptx.kernels._matmul.tiles import ROW, WARPGROUP, WORD, Operand, Ring, address, copied, fetch_maps
from pyptx.kernels._registers import divided, narrowed, quotient, tree
from pyptx.types import PtxType, f32, u8, u32, u64

__all__ = ["Split", "split_kernel", "sums_kernel"]

# Threads of a CTA of the second kernel; parts that one CTA adds up, where there are not too many.
SUMS_THREADS, EACH = 256, 8


@dataclass(frozen=True)
class Split:
    """A product (M, K) x (K, N), or a `batch` of them, in tiles of bm x bn and `parts` of K.  Its kernels are made for it, and take any K."""

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
        return math.prod(self.left) * 4

    @property
    def threads(self) -> int:
        """The threads that multiply; a warp that copies follows them."""
        return self.bm // 64 * WARPGROUP

    @property
    def left(self) -> tuple[int, int, int]:
        """The shape of what the first kernel leaves."""
        return self.parts, self.tiles, self.bm * self.bn

    @property
    def lead(self) -> tuple:
        """The dimension of a batch."""
        return () if self.batch is None else (self.batch,)

    def place(self, tile) -> tuple:
        """First row and column of a tile, and the number of its matrix in a batch.  Neighbours lie along the shorter side, so that what those of a
        GPC read is close to a square."""
        matrix = None
        if self.batch is not None:
            matrix, tile = divided(tile, self.down * self.across)
        if self.across > self.down:
            column, row = divided(tile, self.down)
        else:
            row, column = divided(tile, self.across)
        return row * self.bm, column * self.bn, matrix

    def store(self, values, place, thread, group, pointer, out: PtxType, finisher: Finisher):
        """Finishes and stores four accumulators of a thread of a tile, those of its `group`-th eight columns: two of a row, and two of that
        eight rows further."""
        (row, column, matrix), lane = place, thread & 31
        row, column = row + ((thread >> 5) << 4) + (lane >> 2), column + group * 8 + ((lane & 3) << 1)
        columns = finisher.columns(column, 2, matrix)
        for half in range(2):
            line, at = row + 8 * half if half else row, reg.scalar(u64)
            ptx.inst.mul.wide.u32(at, line if matrix is None else matrix * self.m + line, self.n)
            there, inside = ptx.addr(pointer + (at + column) * (out.bits // 8)), (line < self.m) & (column < self.n)
            finished = finisher.line(line, self.m, matrix)(values[2 * half : 2 * half + 2], column, columns)
            pair = narrowed(finished, out)
            if len(pair) == 2:
                ptx.inst.st.global_.v2.b32(there, pair, pred=inside)
            else:
                ptx.inst.st.global_.b32(there, pair[0], pred=inside)


class Body:
    """The body of the first kernel: `write` writes it."""

    def __init__(self, split: Split, a: Operand, b: Operand):
        self.split, self.a, self.b = split, a, b
        self.stage_bytes = a.bytes + b.bytes
        self.stages = min(12, ROOM // self.stage_bytes)

    def write(self, A, B, C):
        self.maps = A.tma_desc(), B.tma_desc()
        (self.pointer,) = ptx.global_ptrs(C)
        self.ring = smem.alloc(u8, self.stages * self.stage_bytes, align=1024)
        self.full, self.empty = smem.mbarrier(self.stages), smem.mbarrier(self.stages)
        thread = reg.from_(ptx.special.tid.x(), u32)
        producer = thread == self.split.threads
        with ptx.if_(producer):
            fetch_maps(self.maps)
        with ptx.if_(thread == 0):
            for stage in range(self.stages):
                ptx.mbarrier.init(self.full[stage], 1)
                ptx.mbarrier.init(self.empty[stage], self.split.threads // 32)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        self.number = reg.from_(ptx.special.ctaid.x(), u32)
        part, tile = divided(self.number, self.split.tiles)
        self.place = self.split.place(tile)
        steps = (ptx.param(u32, "K") + (self.a.bk - 1)) >> (self.a.bk.bit_length() - 1)
        self.first, self.last = (quotient((part + more) * steps, self.split.parts) for more in range(2))
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
        with ptx.if_(producer):
            self.produce()
        with ptx.if_(thread < self.split.threads):
            self.consume(thread)
        ptx.ret()

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
        acc = reg.array(f32, self.split.bn // 2)
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
        at = reg.scalar(u64)
        ptx.inst.mul.wide.u32(at, self.number, self.split.bm * self.split.bn * 4)
        at = self.pointer + at + thread * WORD
        for group in range(self.split.bn // 8):
            there = ptx.addr(at, group * self.split.threads * WORD)
            ptx.inst.st.global_.v4.f32(there, list(acc[4 * group : 4 * group + 4]))

    def issue(self, acc, a, b):
        ptx.wgmma.fence()
        for step in range(ROW // 32):
            ptx.wgmma.mma_async(
                shape=(64, self.split.bn, 256 // self.a.dtype.bits),
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
def split_kernel(split: Split, dtype: PtxType, a_k_major: bool, b_k_major: bool):
    """The kernel (A, B) -> what `sums_kernel` makes C of.  A is (M, K), or (K, M) if it is not K-major; B is (N, K), or (K, N)."""
    bk = ROW * 8 // dtype.bits
    a, b = Operand(dtype, a_k_major, split.bm, 1, bk), Operand(dtype, b_k_major, split.bn, 1, bk)
    return kernel(
        in_specs=(a.tile(split.lead, split.m), b.tile(split.lead, split.n)),
        out_specs=(Tile(*split.left, f32, align=16),),
        raw_params=[("u32", "K")],
        grid=(split.tiles * split.parts, 1, 1),
        block=(split.threads + 32, 1, 1),
        reqntid=True,
        dependent_launch=True,
        arch="sm_90a",
    )(with_tensors("split_matmul", ("A", "B", "PARTS"), lambda PARTS, **of: Body(split, a, b).write(C=PARTS, **of)))


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


@functools.cache
def sums_kernel(split: Split, out: PtxType, epilogue: Epilogue = NOTHING):
    """The kernel from what the first one leaves, and the epilogue's tensors, to C.  A CTA's threads have neighbours of a tile; where there are many parts, threads further on
    have others of the same values."""
    shares = 1
    while shares < 8 and shares * EACH < split.parts:
        shares *= 2
    side, size, pitch = SUMS_THREADS // shares, split.bm * split.bn // 4, split.tiles * split.bm * split.bn * 4

    tensors = epilogue.tiles(split.lead)

    def split_sums(PARTS, C, **more):
        parts, to = ptx.global_ptrs(PARTS, C)
        finisher = Finisher(epilogue, more, split.n, True, out)
        thread, cta = (reg.from_(each(), u32) for each in (ptx.special.tid.x, ptx.special.ctaid.x))
        share, number, at = quotient(thread, side), cta * side + (thread & (side - 1)), reg.scalar(u64)
        begin, end = (quotient((share + more) * split.parts, shares) for more in range(2))
        ptx.inst.mad.wide.u32(at, number, WORD, parts)
        ptx.inst.mad.wide.u32(at, begin, pitch, at)
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
        found = [[reg.scalar(f32, init=0.0) for _ in range(4)] for _ in range(-(-split.parts // shares))]
        for i, each in enumerate(found):
            there = None if split.parts % shares == 0 else begin + i < end
            ptx.inst.ld.global_.v4.f32(each, ptx.addr(at + i * pitch), pred=there)
        sums = added(found)
        if shares > 1:
            sums = over_shares(sums, thread, share, shares)
        tile, inside = divided(number, size)
        group, of_tile = divided(inside, split.threads)
        with ptx.if_(share == 0):
            split.store(sums, split.place(tile), of_tile, group, to, out, finisher)
        ptx.ret()

    return kernel(
        in_specs=(Tile(*split.left, f32, align=16), *tensors.values()),
        out_specs=(Tile(*split.lead, split.m, split.n, out, align=16),),
        grid=(split.tiles * size // side, 1, 1),
        block=(SUMS_THREADS, 1, 1),
        reqntid=True,
        dependent_launch=True,
        arch="sm_90",
    )(with_tensors("split_sums", ("PARTS", *tensors, "C"), split_sums))
