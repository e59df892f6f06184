"""How a stream (stream.py) of f32 adds up where B lies (K, N).  wgmma takes tf32 from shared memory by rows of K alone, so that each warp loads 16
columns of B as mma.sync takes them; its accumulators lie as wgmma's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyptx import ptx, reg
from pyptx.kernels._matmul.tiles import ROW, Ring, address
from pyptx.types import b32, f32, tf32, u32

if TYPE_CHECKING:
    from pyptx.kernels._matmul.stream import Stream

__all__ = ["ColumnSums"]

STEP = 8  # of K, of an instruction


class ColumnSums:
    """Adds up a part of K.  The word of 16 bytes number w of a line of 128 bytes, number l, lies where w xor l mod 8 would.

    A line of B has 32 columns: a thread has one of each eight of its warp, of the lines of K that are its number mod 4.  A line of A has 32
    elements of K: eight threads give ldmatrix the addresses of a word of eight rows."""

    def __init__(self, stream: Stream, thread, acc):
        self.stream, self.acc = stream, acc
        start, lane = address(stream.ring), thread & 31
        column = (thread >> 5) * 16 + (lane >> 2)
        at, first = start + (column >> 5) * (stream.b.bk * ROW) + (column & 3) * 4, (column & 31) >> 2
        lines, words = [lane & 3, (lane & 3) + 4], [first, first + 2]  # of this column, and of that eight further
        self.at_b = [at + line * ROW + ((word ^ line) << 4) for line in lines for word in words]
        row, word = lane & 7, lane >> 3
        behind = start + stream.c.deep * stream.b.bytes + row * ROW
        self.at_a = [behind + (((word + more if more else word) ^ row) << 4) for more in (0, 4)]

    def add_up(self, ring: Ring, release):
        """`release(stage)` says that a stage has been read."""
        stream = self.stream
        for each in self.acc:
            ptx.inst.mov.f32(each, 0.0)
        for _ in ptx.range_(stream.first, stream.last, dtype=u32):
            ptx.mbarrier.wait(stream.full[ring.stage], ring.parity)
            stage = ring.stage * stream.stage_bytes
            at_b, at_a = [each + stage for each in self.at_b], [each + stage for each in self.at_a]
            for block in range(stream.c.deep):
                self.multiply(at_b, at_a, block)
            ptx.warp.sync(0xFFFFFFFF)
            release(ring.stage)
            ring.advance()

    def multiply(self, at_b, at_a, block: int):
        """Adds the products of a block of 128 bytes of K, two instructions' K at a time."""
        stream = self.stream
        for half, words in enumerate(at_a):
            of_b = []
            for step in (2 * half, 2 * half + 1):
                of_b.append([reg.scalar(b32) for _ in at_b])
                for each, at in zip(of_b[-1], at_b, strict=True):
                    ptx.inst.ld.shared.b32(each, ptx.addr(at, block * stream.b.bytes + step * (STEP * ROW)))
            for group in range(stream.c.groups):
                of_a = [reg.scalar(b32) for _ in range(4)]
                ptx.matrix.ldmatrix(of_a, ptx.addr(words, block * stream.block_of_a + group * (8 * ROW)))
                sums = list(self.acc[4 * group : 4 * group + 4])
                for step, some in enumerate(of_b):
                    ptx.mma.sync((16, 8, STEP), f32, tf32, tf32, f32, sums, some, of_a[2 * step : 2 * step + 2], sums)
