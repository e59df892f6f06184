"""How the accumulators of a warpgroup, 64 rows, become results in memory: by tensor copies through shared memory, or from registers."""

from dataclasses import dataclass

from pyptx import ptx, reg
from pyptx.kernels._attention.tiles import apply, signed
from pyptx.kernels._registers import narrowed
from pyptx.types import b32, f32, u64

__all__ = ["Lines", "clear_rows", "stage_halves", "stage_packed", "store_directly"]


@dataclass
class Lines:
    """Rows of one head of a tensor (rows of all sequences, heads, width): `count` of them, from `begin` on."""

    pointer: object
    count: object
    begin: object
    heads: object
    head: object
    width: object

    def line(self, at):
        """Where a row lies among those of all heads."""
        return apply(u64, ptx.inst.mul.wide.u32, self.begin + at, self.heads) + self.head

    def store(self, dtype, accumulators, row, column):
        """Stores those rows of a warpgroup's accumulators that exist, two elements at a time.  `row(0)`, `row(1)`: the thread's two rows."""
        size = dtype.bits // 8
        for half in range(2):
            at = row(half)
            with ptx.if_(at < self.count):
                to = self.pointer + self.line(at) * apply(u64, ptx.inst.mul.wide.u32, self.width, size) + column * size
                for group in range(len(accumulators) // 4):
                    pair = list(accumulators[4 * group + 2 * half : 4 * group + 2 * half + 2])
                    at, there = ptx.addr(to, 8 * size * group), 8 * group < self.width
                    if dtype == f32:
                        ptx.inst.st.global_.v2.f32(at, pair, pred=there)
                    else:
                        ptx.inst.st.global_.b32(at, *narrowed(pair, dtype), pred=there)


def store_directly(dtype, accumulators, pointer, rows, width, thread):
    """Stores `width` columns, a multiple of 8, of a thread's two rows.  `rows`: (whether the row exists, bytes in front of it) of both.

    The four threads of a row exchange columns, so that each stores 16 contiguous bytes."""
    lane = thread & 3
    convert = getattr(ptx.inst.cvt.rn, dtype.name + "x2").f32
    odd, high = (lane & 1) != 0, (lane & 2) != 0
    for half, (there, bytes_) in enumerate(rows):
        to = pointer + bytes_ + apply(u64, ptx.inst.mul.wide.u32, lane, 16)
        columns = signed(width) - signed(lane << 3)  # from the thread's first on
        ptx.inst.selp.s32(columns, columns, 0, there)
        for first in range(0, len(accumulators) // 4, 4):
            four = [reg.scalar(b32) for _ in range(4)]
            for i, each in enumerate(four):
                at = 4 * (first + i) + 2 * half
                convert(each, accumulators[at + 1], accumulators[at])
            four = exchanged(exchanged(four, 1, odd), 2, high)
            ptx.inst.st.global_.v4.b32(ptx.addr(to, 16 * first), four, pred=columns > 8 * first)


def exchanged(words, distance: int, upper):
    """Exchanges words between threads that lie `distance`, a power of two, apart: words i + distance of the lower thread for words i of the
    `upper` one."""
    result = list(words)
    for i in range(len(words)):
        if i & distance:
            continue
        low, high = words[i], words[i + distance]
        given = apply(b32, ptx.inst.selp.b32, low, high, upper)
        taken = apply(b32, ptx.inst.shfl.sync.bfly.b32, given, distance, 31, 0xFFFFFFFF)
        result[i] = apply(b32, ptx.inst.selp.b32, taken, low, upper)
        result[i + distance] = apply(b32, ptx.inst.selp.b32, high, taken, upper)
    return result


def clear_rows(base, first, rows: int, halves: int, thread, threads: int):
    """Writes zeros to rows `first` to `rows` of a block in shared memory, `halves` times 64 columns wide, by `threads` threads."""
    zeros = [reg.scalar(b32, init=0)] * 4
    start = base + ((thread & 7) << 4)
    for row in ptx.range_(first + signed(thread >> 3), rows, threads // 8):
        for i in range(halves):
            ptx.inst.st.shared.v4.b32(ptx.addr(start + (row << 7), i * rows * 128), zeros)


def stage_halves(dtype, accumulators, to, thread, rows: int):
    """Rounds the accumulators of a warpgroup, 64 rows, and stores them to shared memory as `stage_packed` does."""
    stage_packed(narrowed(list(accumulators), dtype), to, thread, rows)


def stage_packed(packed, to, thread, rows: int):
    """Stores accumulators, in pairs, to shared memory at `to`, in the order of tensor copies and descriptors: rows of 128 bytes, whose pieces
    of 16 are swizzled.  Each next 64 columns lie `rows` rows further.

    A stmatrix stores four 8 x 8 blocks: rows 0 to 7 and 8 to 15 of two neighbouring pieces.  Lane l gives the address of
    row l % 16 of piece l / 16."""
    lane = thread & 31
    row = ((thread >> 5) << 4) + (lane & 15)
    start = to + row * 128
    swizzle, odd = lane & 7, lane >> 4
    for pair in range(len(packed) // 4):
        half, piece = divmod(pair * 2, 8)
        at = start + (((odd + piece) ^ swizzle) << 4)
        ptx.matrix.stmatrix(ptx.addr(at, half * rows * 128), packed[4 * pair : 4 * pair + 4])
