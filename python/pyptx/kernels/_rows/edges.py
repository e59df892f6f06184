"""Rows of 16 bits that begin inside a vector of 16 bytes, as those of 1,001 columns do: threads have the vectors of memory, so that all loads and
stores are whole and aligned.  The first and the last vector of a row have elements of its neighbours, which no sum counts and no store writes.

Rows of all matrices of a kernel begin at the same element of a vector.  Vectors of weights do not: two are loaded, and shifted together.
"""

import copy

from pyptx import ptx, reg
from pyptx.kernels._registers import LOAD, STORE, apply_to, beyond, move, registers
from pyptx.types import b16, b32, f32, pred, s32, u32, u64

__all__ = ["Edges"]


class Edges:
    """Where a row begins and ends inside of vectors: its `shift` is how many elements its first vector has before it; `begin` is the column of the
    thread's first element."""

    def __init__(self, row):
        self.row, self.split = row, row.split
        self.pitch = row.split.together * row.split.vector  # elements from a thread's vector to its next
        first = row.worker if row.split.pipelined else row.index
        self.shift = (first * row.split.n) & (row.split.vector - 1)
        begin = row.thread * row.split.vector - self.shift
        self.begin = apply_to(reg.scalar(s32), ptx.inst.mov.b32, begin)

    def of(self, row) -> "Edges":
        """Those of another row, which begins at the same element of a vector."""
        made = copy.copy(self)
        made.row = row
        return made

    def address(self, pointer, index, size: int):
        """The address of the thread's first vector in row `index` of a matrix."""
        place = beyond(pointer, index, self.split.n * size)
        return apply_to(reg.scalar(u64), ptx.inst.mad.wide.s32, self.begin, size, place)

    def guard(self, k: int, i: int | None) -> dict:
        """The predicate of the threads whose k-th vector has elements of the row, or has its element i there; {}: all."""
        full = self.split.full(k)
        if i is None:
            return {} if full else {"pred": self.below(k, 0)}
        if k > 0:
            return {} if full else {"pred": self.below(k, i)}
        if full:
            return {"pred": compared(ptx.inst.setp.ge.s32, self.begin, -i)}
        column = apply_to(reg.scalar(u32), ptx.inst.add.s32, self.begin, i)
        return {"pred": compared(ptx.inst.setp.lt.u32, column, self.split.n)}

    def below(self, k: int, i: int):
        """Whether element i of the k-th vector lies before the end of the row."""
        return compared(ptx.inst.setp.lt.s32, self.begin, self.split.n - k * self.pitch - i)

    def whole(self, k: int):
        """Whether all of the k-th vector lies in the row."""
        inside = self.below(k, self.split.vector - 1)
        return inside if k else inside & compared(ptx.inst.setp.ge.s32, self.begin, 0)

    def load(self, tensor, base, k: int, bits: list):
        """Loads the k-th vector of a matrix.  Of the matrix's last row, the last vector may end behind it, and is loaded by elements."""
        offset, size = k * self.pitch * tensor.dtype.bits // 8, self.split.vector * tensor.dtype.bits // 8
        if self.split.full(k):
            move(LOAD, base, offset, bits, size)
            return
        exists = self.below(k, 0)
        whole = self.below(k, self.split.vector - 1) | (self.row.index + 1 < self.row.count())
        move(LOAD, base, offset, bits, size, pred=exists & whole)
        with ptx.if_(exists & ~whole):
            guards = [self.guard(k, i) for i in range(self.split.vector)]
            load_elements(tensor.dtype, base, offset, bits, guards)

    def store(self, tensor, base, k: int, bits: list):
        """Stores the elements of the k-th vector that are of the row."""
        width = tensor.dtype.bits // 8
        offset, size = k * self.pitch * width, self.split.vector * width
        if k and self.split.full(k):
            move(STORE, base, offset, bits, size)
            return
        whole = self.whole(k)
        move(STORE, base, offset, bits, size, pred=whole)
        with ptx.if_(~whole):
            for i in range(self.split.vector):
                store_element(tensor.dtype, ptx.addr(base, offset + i * width), bits, i, **self.guard(k, i))

    def copied(self, k: int, index) -> list:
        """How many bytes of the k-th vector of row `index` are to be copied, where it may end behind the last row of the matrix."""
        if self.split.full(k):
            return []
        left = (self.split.n - k * self.pitch - self.begin) * 2
        there = apply_to(reg.scalar(u32), ptx.inst.min.u32, left, self.split.vector * 2)
        ptx.inst.mov.u32(there, self.split.vector * 2, pred=index + 1 < self.row.count())
        return [there]

    def load_shared(self, tensor, base, k: int, at, bits: list):
        """Loads what a vector that all rows share has beside the row's k-th vector; `base`: its element at the thread's column."""
        if tensor.dtype == f32:
            for i, each in enumerate(bits):
                LOAD.b32(each, ptx.addr(base, (k * self.pitch + i) * 4), **({} if at is not None else self.guard(k, i)))
            return
        before, here = (self.of_shared(tensor, base, k, at, back) for back in (1, 0))
        shifted(before + here, self.shift, bits, self.split.n % 2 == 0)

    def of_shared(self, tensor, base, k: int, at, back: int) -> list:
        """The vector with the number of the row's k-th, less `back`, or zeros where there is none."""
        split, number = self.split, k * self.split.together - back  # of thread 0
        bits, offset = registers(tensor.dtype, split.vector, init=0), number * split.vector * 2
        last, rest = divmod(split.n, split.vector)
        if at is not None or (number >= 0 and number + split.together <= last):
            move(LOAD, base, offset, bits, split.vector * 2)
            return bits
        thread = apply_to(reg.scalar(s32), ptx.inst.mov.b32, self.row.thread)
        there = compared(ptx.inst.setp.lt.s32, thread, last - number)
        if number < 0:
            there = there & compared(ptx.inst.setp.ge.s32, thread, -number)
        move(LOAD, base, offset, bits, split.vector * 2, pred=there)
        with ptx.if_(compared(ptx.inst.setp.eq.s32, thread, last - number)):
            load_elements(tensor.dtype, base, offset, bits, [{}] * rest)
        return bits


def compared(instruction, a, b):
    return apply_to(reg.scalar(pred), instruction, a, b)


def load_elements(dtype, base, offset: int, bits: list, guards: list):
    """Loads the first elements of a vector, one by one, each with its predicate; the others are 0 where two are in a register."""
    if dtype == f32:
        for i, guard in enumerate(guards):
            LOAD.b32(bits[i], ptx.addr(base, offset + 4 * i), **guard)
        return
    halves = [reg.scalar(b16, init=0) for _ in range(2 * len(bits))]
    for i, guard in enumerate(guards):
        LOAD.b16(halves[i], ptx.addr(base, offset + 2 * i), **guard)
    for i, each in enumerate(bits):
        ptx.inst.mov.b32(each, halves[2 * i : 2 * i + 2])


def store_element(dtype, place, bits: list, i: int, **guard):
    """Stores element i of a vector."""
    of_one = 32 // dtype.bits
    value, part = bits[i // of_one], i % of_one
    if part:
        value = apply_to(reg.scalar(b32), ptx.inst.shr.b32, value, part * dtype.bits)
    getattr(STORE, f"b{dtype.bits}")(place, value, **guard)


def shifted(words: list, shift, bits: list, even: bool):
    """The vector that begins `shift` elements before the second of two vectors, whose eight words have elements of 16 bits; `even`: whether the shift is."""
    for distance in (2, 1):  # words
        further = compared(ptx.inst.setp.ne.u32, shift & (2 * distance), 0)
        words = [
            apply_to(reg.scalar(b32), ptx.inst.selp.b32, before, now, further)
            for before, now in zip(words, words[distance:], strict=False)
        ]
    if even:
        for each, word in zip(bits, words[1:], strict=True):
            ptx.inst.mov.b32(each, word)
        return
    amount = reg.scalar(u32, init=32)
    ptx.inst.mov.u32(amount, 16, pred=compared(ptx.inst.setp.ne.u32, shift & 1, 0))
    for each, low, high in zip(bits, words[:-1], words[1:], strict=True):
        ptx.inst.shf.r.clamp.b32(each, low, high, amount)
