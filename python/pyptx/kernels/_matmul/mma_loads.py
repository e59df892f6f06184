"""How tiles of the operands of `_matmul/mma.py` come to shared memory: by cp.async, or through registers."""

from dataclasses import dataclass

from pyptx import ptx, reg
from pyptx.kernels._registers import apply_to, beyond, wide_product
from pyptx.types import PtxType, b16, b32, u32

__all__ = ["ROW", "Loader", "Matrix", "behind"]

ROW = 128  # bytes of a row of a tile in shared memory


@dataclass(frozen=True)
class Matrix:
    """A or B, contiguous: (rows, K), or (K, rows) if it is not K-major.  A tile has `high` of its rows and `deep` bytes of K.  `width`: the most
    bytes that one copy may have.  `halves`: it has gates, and N further the ups that belong to them; 16 of both take turns in a tile."""

    dtype: PtxType
    k_major: bool
    width: int
    high: int
    deep: int
    halves: bool = False

    @property
    def size(self) -> int:
        return self.dtype.bits // 8

    @property
    def bk(self) -> int:
        return self.deep // self.size

    @property
    def bytes(self) -> int:
        """Bytes of a tile: rows of 128 bytes, or blocks of bk lines of 128 bytes."""
        return ROW * (self.high if self.k_major else -(-self.high * self.size // ROW) * self.bk)

    @property
    def by_copies(self) -> bool:
        """Whether cp.async copies it.  With fewer than 8 bytes, that is slower than copies through registers."""
        return self.width >= 8


class Loader:
    """Copies tiles of one matrix into the ring."""

    def __init__(self, matrix: Matrix, pointer, first, rows, k_size, long, thread, threads: int):
        # In memory the tile is `high` lines, which are cut into pieces of `unit` bytes.  Neighbouring threads copy neighbouring pieces: of a
        # line, as many as there are, or of `apart` lines.
        self.matrix, self.pointer, self.first, self.thread, self.threads = matrix, pointer, first, thread, threads
        self.rows, self.k_size = rows, k_size
        self.pitch = long if matrix.k_major else rows + rows if matrix.halves else rows
        wide, high = (matrix.bk, matrix.high) if matrix.k_major else (matrix.high, matrix.bk)
        self.unit = matrix.width if matrix.by_copies else max(matrix.size, matrix.width)
        self.piece = self.unit // matrix.size  # elements
        self.across = wide // self.piece
        self.count = max(1, self.across * high // threads)
        # Whether the thread has a piece: of a shallow tile there may be fewer than threads.
        self.guard = {"pred": thread < self.across * high} if self.across * high < threads else {}
        self.apart, self.rounds = threads // self.across, max(1, self.across // threads)
        self.line, place = thread >> (self.across.bit_length() - 1), thread & (self.across - 1)
        self.place = place * self.piece
        self.swizzled = [self.swizzle(i) for i in range(self.period)]

    @property
    def period(self) -> int:
        """Pieces of a thread until one lies at the same place of its line, a multiple of eight lines further."""
        return min(self.count, max(1, 8 // self.apart) if self.apart else 8 * self.rounds)

    def further(self, i: int) -> tuple[int, int]:
        """How many lines, and elements of a line, the thread's i-th piece lies behind its first."""
        return (i * self.apart, 0) if self.apart else (i // self.rounds, i % self.rounds * self.threads * self.piece)

    def swizzle(self, i: int):
        m, (lines, elements) = self.matrix, self.further(i)
        line, byte = self.line + lines, (self.place + elements) * m.size
        block = 0
        if not m.k_major:  # blocks of 128 bytes, each of bk lines
            block = (byte >> 7) * (m.bk * ROW)
            byte = byte & 127
        return line * ROW + (byte ^ ((line & 7) << 4)) + block

    def to(self, stage, i: int):
        """The place of the thread's i-th piece in shared memory."""
        first = i % self.period
        return ptx.addr(stage + self.swizzled[first], (self.further(i)[0] - self.further(first)[0]) * ROW)

    def fetch(self, k, stage, half: int | None = None):
        """Starts the copies of the tile, or of a half of it, at column `k` of K.  Returns a function that finishes them."""
        m, pieces = self.matrix, []
        some = range(self.count) if half is None else range(self.count // 2 * half, self.count // 2 * (half + 1))
        where = self.of_halves(k) if m.halves else self.places(k)
        for i in some:
            source, left, inside = where(i)
            if m.by_copies:
                # How many bytes lie inside the matrix; the rest of the piece becomes zeros.
                bytes_ = reg.scalar(u32, init=0)
                ptx.inst.min.u32(left, left, self.piece)
                ptx.inst.mul.lo.u32(bytes_, left, m.size, pred=inside)
                ptx.inst.mov.u64(source, self.pointer, pred=~inside)
                copy = ptx.inst.cp.async_.cg if m.width == 16 else ptx.inst.cp.async_.ca
                copy.shared.global_(self.to(stage, i), ptx.addr(source), m.width, bytes_, **self.guard)
            else:
                value = reg.scalar(b32 if self.unit == 4 else b16, init=0)
                getattr(ptx.inst.ld.global_.nc, f"b{8 * self.unit}")(value, ptx.addr(source), pred=inside)
                pieces.append((i, value))

        def finish():
            for i, value in pieces:
                getattr(ptx.inst.st.shared, f"b{8 * self.unit}")(self.to(stage, i), value, **self.guard)

        return finish

    def places(self, k):
        """The function i -> (address of the thread's i-th piece, elements from there to the end of the line, whether it is inside of the
        matrix)."""
        m = self.matrix
        if m.k_major:
            line, height, place, width = self.first + self.line, self.rows, k + self.place, self.k_size
        else:
            line, height, place, width = k + self.line, self.k_size, self.first + self.place, self.rows
        at = wide_product(line, self.pitch)
        start = self.pointer + (at + place) * m.size
        lines = behind(line, height)

        def of(i: int):
            further, elements = self.further(i)
            source = beyond(start, self.pitch, further * m.size)
            left = behind(place + elements, width)
            return source + elements * m.size if elements else source, left, (lines > further) & (left > 0)

        return of

    def of_halves(self, k):
        """The same, of gates and ups: lines of the tile are sixteen gates and the sixteen ups that belong to them, in turn."""
        m = self.matrix

        def of(i: int):
            lines, elements = self.further(i)
            line, place = self.line + lines, self.place + elements
            number = line if m.k_major else place
            half = apply_to(reg.scalar(u32), ptx.inst.mul.lo.u32, (number >> 4) & 1, self.rows)
            row, column = self.first + (((number >> 5) << 4) + (number & 15)), k + (place if m.k_major else line)
            inside = (row < self.rows) & (column < self.k_size)
            if m.k_major:
                row, left = row + half, behind(column, self.k_size)
                at = wide_product(row, self.k_size) + column
            else:
                left = behind(row, self.rows)
                at = wide_product(column, self.pitch) + (row + half)
            return self.pointer + at * m.size, left, inside

        return of


def behind(place, size):
    """How many elements there are from a place to the end."""
    return apply_to(reg.scalar(u32), ptx.inst.sub.u32, apply_to(reg.scalar(u32), ptx.inst.max.u32, size, place), place)
