"""How the lanes of a warp share blocks of 128 columns, of `quantize_fp8`."""

from pyptx import ptx, reg
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    beyond,
    bytes_of,
    move,
    mul,
    registers,
    to_u64,
    widened,
)
from pyptx.kernels._rows.apart import Apart
from pyptx.kernels._rows.split import WARP, vector_of
from pyptx.types import u32

__all__ = ["BLOCK", "Lanes"]

BLOCK = 128


class Lanes:
    """`lanes` lanes take one block, as many as have 16 bytes each, so the warp takes `across` blocks together, which lie side by side in a row, or in
    different rows.  A lane has `each` vectors of `vector` elements, `lanes` vectors apart.
    """

    def __init__(self, n: int, dtype):
        self.n, self.dtype, self.vector = n, dtype, vector_of(n, dtype.bits)
        self.lanes = BLOCK * dtype.bits // 128
        self.across = WARP // self.lanes
        self.each = BLOCK // (self.lanes * self.vector)

    def place(self):
        """(the warp, which of its `across` blocks, the column within the block) of the thread."""
        thread = reg.from_(ptx.special.tid.x(), u32)
        lane = thread & 31
        return thread >> 5, lane >> (self.lanes.bit_length() - 1), (lane & (self.lanes - 1)) * self.vector

    def place_in(self, tensor, row, column):
        """The address of an element of a matrix."""
        size = tensor.dtype.bits // 8
        if isinstance(tensor, Apart):
            return beyond(tensor.begin(row), column, size)
        (pointer,) = ptx.global_ptrs(tensor)
        return pointer + beyond(to_u64(column), row, self.n) * size

    def vectors(self, row, column, rows):
        """(row, column, for each of the lane's vectors how many elements it lies behind, and whether it exists)."""
        pitch, inside = self.lanes * self.vector, row < rows
        return row, column, [(k * pitch, inside & (column + k * pitch < self.n)) for k in range(self.each)]

    def load(self, X, vectors) -> list:
        row, column, each = vectors
        place, size, found = self.place_in(X, row, column), self.dtype.bits // 8, []
        for behind, inside in each:
            found.append(registers(self.dtype, self.vector, init=0))
            move(LOAD, place, behind * size, found[-1], self.vector * size, pred=inside)
        return found

    def values(self, loaded) -> list:
        return [[value for each in bits for value in widened(each, self.dtype)] for bits in loaded]

    def store(self, Q, vectors, values, inverse):
        row, column, each = vectors
        place = self.place_in(Q, row, column)
        for (behind, inside), some in zip(each, values, strict=True):
            move(STORE, place, behind, bytes_of([mul(x, inverse) for x in some]), self.vector, pred=inside)
