"""Columns of tensors X (L, N, W) over N: a thread has some neighbours, 16 bytes of each row at most, and all of their N elements."""

from pyptx import ptx, reg
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    apply_to,
    beyond,
    divided,
    move,
    quotient,
    registers,
    to_u64,
    wide_product,
    widened,
)
from pyptx.types import f32, u32, u64

__all__ = ["THREADS", "Columns", "ctas_of"]

THREADS, UNROLL = 128, 8  # of a CTA; rows whose loads are in flight together


def ctas_of(matrices: int, columns: int, vector: int) -> int:
    return matrices * -(-columns // (THREADS * vector))


class Columns:
    """The columns of a thread: `vector` neighbours.  Threads behind the last columns have those, too, and are not `inside`."""

    def __init__(self, X, vector: int):
        self.X, self.n, self.vector = X, X.shape[1], vector
        self.w = ptx.param(u32, "W")
        self.thread = reg.from_(ptx.special.tid.x(), u32)
        self.cta = reg.from_(ptx.special.ctaid.x(), u32)
        outer, tile = divided(self.cta, quotient(self.w + (THREADS * vector - 1), THREADS * vector))
        column = (tile * THREADS + self.thread) * vector
        self.inside = column < self.w
        column = apply_to(reg.scalar(u32), ptx.inst.min.u32, column, self.w - vector)
        column = to_u64(column)
        self.flat = beyond(column, outer, self.w)  # of the columns of all matrices
        above = wide_product(outer, self.n)
        wide = to_u64(self.w)
        self.first = apply_to(reg.scalar(u64), ptx.inst.mad.lo.u64, above, wide, column)  # element of X

    def pitch(self, tensor):
        """Bytes from a row to the next."""
        return self.w * (tensor.dtype.bits // 8)

    def address(self, tensor):
        """Where the columns begin in a tensor like X."""
        (pointer,) = ptx.global_ptrs(tensor)
        return pointer + self.first * (tensor.dtype.bits // 8)

    def of_columns(self, tensor):
        """The address of what a tensor has for each column."""
        (pointer,) = ptx.global_ptrs(tensor)
        return pointer + self.flat * (tensor.dtype.bits // 8)

    def batches(self, body):
        """Calls `body(number of the first row, the values of each)` for some rows at a time."""
        whole = self.n // UNROLL * UNROLL if self.n > 2 * UNROLL else 0
        for number in ptx.range_(0, whole, UNROLL) if whole else ():
            body(number, self.loaded(number, UNROLL))
        for number in range(whole, self.n, UNROLL):
            body(number, self.loaded(number, min(UNROLL, self.n - number)))

    def loaded(self, number, count: int, tensor=None) -> list:
        """The values of so many rows from `number` on, a register or an integer; of X, or another tensor like it."""
        tensor = tensor or self.X
        found, size = [registers(tensor.dtype, self.vector) for _ in range(count)], tensor.dtype.bits // 8
        for place, bits in zip(self.places(tensor, number, count), found, strict=True):
            move(LOAD, place, 0, bits, self.vector * size)
        return [[value for each in bits for value in widened(each, tensor.dtype)] for bits in found]

    def places(self, tensor, number, count: int) -> list:
        """The addresses of so many rows from `number` on."""
        base, pitch = self.address(tensor), self.pitch(tensor)
        if isinstance(number, int):
            return [beyond(base, pitch, number + i) if number + i else base for i in range(count)]
        base = beyond(base, number, pitch)
        return [beyond(base, pitch, i) if i else base for i in range(count)]

    def load(self, tensor) -> list:
        """The f32 of each column."""
        bits = registers(f32, self.vector)
        move(LOAD, self.of_columns(tensor), 0, bits, 4 * self.vector)
        return bits

    def store(self, tensor, values: list):
        move(STORE, self.of_columns(tensor), 0, values, 4 * self.vector, pred=self.inside)
