"""Matrices turned: a copy of X (L, N, W) to Y (L, W, N), by way of shared memory.

A word of shared memory has what lies side by side in a line of Y: one element of 32 bits, or two of 16.  A thread has 16 bytes of so many lines of X, and
writes them as words, one below the other; then it reads four words of a line of Y.
"""

import functools
import math

from pyptx import Tile, differentiable_kernel, kernel, ptx, reg, smem
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    STORE_SHARED,
    apply_to,
    beyond,
    divided,
    move,
    quotient,
    registers,
    smem_address,
    to_u64,
    wide_product,
)
from pyptx.kernels._rows.edges import store_element
from pyptx.kernels._rows.split import begin_early
from pyptx.types import PtxType, b16, b32, u32

__all__ = ["LEAST", "turning_kernel"]

THREADS, SIDE = 256, 8  # of a CTA; vectors of X that lie side by side in its tile
WORDS = 64  # of a line of Y in its tile
LEAST = 16  # elements of N and W, below which most of a tile is empty


class Turn:
    """The tile of a CTA.  `narrow`, `low`: elements of X, and of Y, that are loaded, and stored, together."""

    def __init__(self, X, Y, narrow: int, low: int):
        self.X, self.Y, self.narrow, self.low = X, Y, narrow, low
        self.bits = X.dtype.bits
        self.vector, self.pair = 128 // self.bits, 32 // self.bits
        self.n, self.w = ptx.param(u32, "N"), ptx.param(u32, "W")
        self.thread = reg.from_(ptx.special.tid.x(), u32)
        beside, high = SIDE * self.vector, WORDS * self.pair
        across, down = (quotient(size + (each - 1), each) for size, each in ((self.w, beside), (self.n, high)))
        above, place = divided(reg.from_(ptx.special.ctaid.x(), u32), across)  # neighbours read what lies side by side
        outer, above = divided(above, down)
        self.column, self.row = place * beside, above * high
        self.first = wide_product(outer, self.n) * to_u64(self.w)  # element of both, of the matrix
        self.memory = smem_address(smem.alloc(b32, (beside, WORDS), align=16))

    def load(self) -> list:
        """[(the number of the word, its elements of each line of X)] of the thread."""
        (pointer,) = ptx.global_ptrs(self.X)
        size, found = self.bits // 8, []
        column = self.column + (self.thread & (SIDE - 1)) * self.vector
        for first in range(0, WORDS, THREADS // SIDE):
            word = (self.thread >> 3) + first
            lines = []
            for i in range(self.pair):
                row = self.row + word * self.pair + i
                place = pointer + (self.first + beyond(to_u64(column), row, self.w)) * size
                lines.append(self.line(place, column, row < self.n))
            found.append((word, lines))
        return found

    def line(self, place, column, there) -> list:
        """The registers of a vector of X; of 16 bits, each has two elements, or one if they are loaded one by one."""
        size, alone = self.bits // 8, self.bits == 16 and self.narrow == 1
        bits = [reg.scalar(b16, init=0) for _ in range(8)] if alone else registers(self.X.dtype, self.vector, init=0)
        each = len(bits) * self.narrow // self.vector  # registers of a load
        for k in range(0, len(bits), each):
            ahead = k * self.vector // len(bits)
            inside = there & (column + ahead < self.w)
            move(LOAD, place, ahead * size, bits[k : k + each], self.narrow * size, pred=inside)
        return bits

    def words(self, lines: list) -> list:
        """A word of each of the vector's columns."""
        if self.pair == 1:
            return lines[0]
        found = []
        for low, high in zip(*lines, strict=True):
            if self.narrow == 1:
                found.append(apply_to(reg.scalar(b32), ptx.inst.mov.b32, [low, high]))
            else:
                found += [apply_to(reg.scalar(b32), ptx.inst.prmt.b32, low, high, each) for each in (0x5410, 0x7632)]
        return found

    def keep(self, loaded: list):
        """Writes the words to shared memory.  Four words, by which lanes read, are at places that differ from line to line, so that lanes that write to
        eight lines at a time find eight places."""
        side = self.thread & (SIDE - 1)
        line = self.memory + side * (self.vector * WORDS * 4)
        for word, lines in loaded:
            place = line + self.place(word >> 2, side) + (word & 3) * 4
            for k, each in enumerate(self.words(lines)):
                move(STORE_SHARED, place, k * WORDS * 4, [each], 4)

    def place(self, four, side):
        """Where the four words of this number lie in a line, in bytes."""
        return (four ^ side) * 16

    def store(self):
        (pointer,) = ptx.global_ptrs(self.Y)
        size, fours = self.bits // 8, WORDS // 4
        four = self.thread & (fours - 1)
        row = self.row + four * self.vector
        for first in range(0, SIDE * self.vector, THREADS // fours):
            line = (self.thread >> (fours.bit_length() - 1)) + first
            words, column = [reg.scalar(b32) for _ in range(4)], self.column + line
            place = self.memory + line * (WORDS * 4) + self.place(four, line >> (self.vector.bit_length() - 1))
            move(ptx.inst.ld.shared, place, 0, words, 16)
            to = pointer + (self.first + beyond(to_u64(row), column, self.n)) * size
            for ahead in range(0, self.vector, self.low):
                inside = (column < self.w) & (row + ahead < self.n)
                if self.low * size < 4:
                    store_element(self.Y.dtype, ptx.addr(to, ahead * size), words, ahead, pred=inside)
                    continue
                some = words[ahead // self.pair : (ahead + self.low) // self.pair]
                move(STORE, to, ahead * size, some, self.low * size, pred=inside)


def turning_kernel(dtype: PtxType, w: int, n: int, hopper: bool):
    """The kernel X (L, N, W) -> Y (L, W, N) with its backward, for which nothing moves."""
    vector = 128 // dtype.bits
    return made(dtype, math.gcd(w, vector), math.gcd(n, vector), hopper)


@functools.cache
def made(dtype: PtxType, narrow: int, low: int, hopper: bool):
    beside, high = SIDE * 128 // dtype.bits, WORDS * 32 // dtype.bits

    @kernel(
        in_specs=(Tile("L", "N", "W", dtype, align=16),),
        out_specs=(Tile("L", "W", "N", dtype, align=16),),
        raw_params=[("u32", "N"), ("u32", "W")],
        grid=lambda L, N, W: (L * -(-W // beside) * -(-N // high), 1, 1),
        block=(THREADS, 1, 1),
        reqntid=True,
        dependent_launch=hopper,
        arch="sm_90" if hopper else "sm_80",
    )
    def turned(X, Y):
        begin_early(hopper)
        turn = Turn(X, Y, narrow, low)
        turn.keep(turn.load())
        ptx.bar.sync(0)
        turn.store()
        ptx.ret()

    return differentiable_kernel(turned, lambda g: g.mT, save_for_backward=())
