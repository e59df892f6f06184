"""Numbers as e4m3 with scales of 128 columns of a row, or of 128 x 128 elements, of a matrix whose columns lie side by side: X^T (N, M) is read as it lies,
and q (M, N) is written by rows.

A CTA takes 128 x 128 elements.  A thread has some neighbours of eight lines of X^T; its bytes, eight side by side in q, go through shared memory.
"""

from collections.abc import Callable

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    apply,
    apply_to,
    beyond,
    bytes_of,
    divided,
    move,
    mul,
    quotient,
    registers,
    smem_address,
    tree,
    widened,
)
from pyptx.kernels._rows.agreement import warp_max
from pyptx.kernels._rows.lanes import BLOCK
from pyptx.kernels._rows.split import WARP, Split, begin_early
from pyptx.types import b32, e4m3, f32, u8, u32

__all__ = ["make_transposed", "takes_transposed"]

LINES = 8  # of a thread, which follow each other
PITCH = BLOCK + 4  # bytes of a row in shared memory: of the lanes that write a word, four at most have one bank


def takes_transposed(rows: int, columns: int, bits: int) -> bool:
    """Whether vectors of 16 bytes divide the lines of X^T, and words those of q."""
    return rows > 0 and columns > 0 and rows * bits % 128 == 0 and columns % 4 == 0


class Square:
    """The threads of a CTA, which has elements from row `first` and column `begin` on."""

    def __init__(self, dtype):
        self.dtype, self.vector = dtype, 128 // dtype.bits
        self.lanes = BLOCK // self.vector
        self.threads = self.lanes * BLOCK // LINES
        self.warps = self.threads // WARP

    def begin(self):
        self.rows, self.columns = ptx.param(u32, "M"), ptx.param(u32, "N")
        # Neighbours read neighbouring rows.
        self.block, above = divided(reg.from_(ptx.special.ctaid.x(), u32), quotient(self.rows + (BLOCK - 1), BLOCK))
        self.above = above
        self.thread = reg.from_(ptx.special.tid.x(), u32)
        self.lane, self.warp = self.thread & (WARP - 1), self.thread >> 5
        self.row = (self.thread & (self.lanes - 1)) * self.vector  # of the thread's neighbours, within the square
        self.line = (self.thread >> (self.lanes.bit_length() - 1)) * LINES
        self.bytes = smem_address(smem.alloc(u8, (BLOCK * PITCH,), align=16))

    def load(self, X) -> list:
        (pointer,) = ptx.global_ptrs(X)
        row, line = self.above * BLOCK + self.row, self.block * BLOCK + self.line
        size, found = self.dtype.bits // 8, []
        place, above = beyond(pointer, row, size), line * size
        for k in range(LINES):
            found.append(registers(self.dtype, self.vector, init=0))
            inside = (line + k < self.columns) & (row < self.rows)
            move(LOAD, beyond(place, self.rows, above + k * size), 0, found[-1], 16, pred=inside)
        return found

    def values(self, loaded: list) -> list:
        """The values of each line."""
        return [[value for each in bits for value in widened(each, self.dtype)] for bits in loaded]

    def magnitudes(self, loaded: list) -> list:
        """The largest of each of the thread's rows."""
        of_rows = zip(*self.values(loaded), strict=True)
        return [tree([apply(ptx.inst.abs.f32, each) for each in row], ptx.inst.max.NaN.f32) for row in of_rows]

    def largest_of_rows(self, mine: list):
        """The largest magnitude of a row of the square, in the thread of its number."""
        parts = smem_address(smem.alloc(f32, (self.warps, BLOCK), align=16))
        for each in mine if self.lanes < WARP else ():
            other = apply_to(reg.scalar(f32), ptx.inst.shfl.sync.bfly.b32, each, self.lanes, 31, 0xFFFFFFFF)
            ptx.inst.max.NaN.f32(each, each, other)
        place = parts + (self.warp * BLOCK + self.row) * 4
        move(ptx.inst.st.shared, place, 0, mine, 4 * self.vector)
        ptx.bar.sync(0)
        column = parts + (self.thread & (BLOCK - 1)) * 4
        found = [apply(ptx.inst.ld.shared.f32, ptx.addr(column, i * BLOCK * 4)) for i in range(self.warps)]
        return tree(found, ptx.inst.max.NaN.f32)

    def largest_of_all(self, mine: list):
        parts = smem_address(smem.alloc(f32, (self.warps,), align=16))
        warp_max(largest := tree(mine, ptx.inst.max.NaN.f32))
        ptx.inst.st.shared.f32(ptx.addr(parts + self.warp * 4), largest, pred=self.lane == 0)
        ptx.bar.sync(0)
        found = [apply(ptx.inst.ld.shared.f32, ptx.addr(parts, i * 4)) for i in range(self.warps)]
        return tree(found, ptx.inst.max.NaN.f32)

    def handed_out(self, value) -> list:
        """The values of this thread's rows, of which the thread of each row has one."""
        memory = smem_address(smem.alloc(f32, (BLOCK,), align=16))
        ptx.inst.st.shared.f32(ptx.addr(memory + self.thread * 4), value, pred=self.thread < BLOCK)
        ptx.bar.sync(0)
        found = registers(f32, self.vector)
        move(ptx.inst.ld.shared, memory + self.row * 4, 0, found, 4 * self.vector)
        return found

    def store(self, Q, loaded: list, inverses: list):
        of_rows = zip(*self.values(loaded), strict=True)
        place = self.bytes + self.row * PITCH + self.line
        for j, (row, inverse) in enumerate(zip(of_rows, inverses, strict=True)):
            for i, word in enumerate(bytes_of([mul(each, inverse) for each in row])):
                ptx.inst.st.shared.b32(ptx.addr(place, j * PITCH + 4 * i), word)
        ptx.bar.sync(0)
        (pointer,) = ptx.global_ptrs(Q)
        column = self.block * BLOCK + self.lane * 4
        to, place = beyond(pointer, column, 1), self.bytes + self.warp * PITCH + self.lane * 4
        for first in range(0, BLOCK, self.warps):
            row = self.above * BLOCK + first + self.warp
            word = apply_to(reg.scalar(b32), ptx.inst.ld.shared.b32, ptx.addr(place, first * PITCH))
            inside = (row < self.rows) & (column < self.columns)
            STORE.b32(ptx.addr(beyond(to, row, self.columns)), word, pred=inside)


def make_transposed(whole: bool, inverse_scale: Callable, scale_of: Callable, split, dtype):
    """The kernel from X^T to q and s.  `whole`: whether all elements of a square share their scale.  `inverse_scale`, `scale_of`: of the largest
    magnitude."""
    hopper, square = split.func == Split.wide, Square(dtype)

    @kernel(
        in_specs=(Tile("N", "M", dtype, align=16),),
        out_specs=(Tile("M", "N", e4m3, align=16), Tile("P", "B", f32)),
        raw_params=[("u32", "M"), ("u32", "N"), ("u32", "B")],
        grid=lambda M, B: (-(-M // BLOCK) * B, 1, 1),
        block=(square.threads, 1, 1),
        reqntid=True,
        dependent_launch=hopper,
        arch="sm_90" if hopper else "sm_89",
    )
    def quantize_fp8_transposed(X, Q, S):
        begin_early(hopper)
        square.begin()
        loaded = square.load(X)
        mine = square.magnitudes(loaded)
        largest = square.largest_of_all(mine) if whole else square.largest_of_rows(mine)
        inverse = inverse_scale(largest)
        inverses = [inverse] * square.vector if whole else square.handed_out(inverse)
        (scales,) = ptx.global_ptrs(S)
        row = square.above if whole else square.above * BLOCK + square.thread
        own = square.thread == 0 if whole else (square.thread < BLOCK) & (row < square.rows)
        with ptx.if_(own):
            place = beyond(beyond(scales, row, ptx.param(u32, "B") * 4), square.block, 4)
            ptx.inst.st.global_.f32(ptx.addr(place), scale_of(largest))
        square.store(Q, loaded, inverses)
        ptx.ret()

    return quantize_fp8_transposed, None
