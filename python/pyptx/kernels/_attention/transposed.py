"""V of attention in e4m3 as tensor cores take it: rows of keys become columns, each 16 keys in the order of accumulators.

`transpose_kernel` does that in front of attention.  Where there are many heads it does those alone that attention begins with: CTAs
of attention do the others meanwhile, by warps that have nothing else to do (`Transposer`), and whoever fetches values waits for those
of its head.
"""

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.sums import place_of
from pyptx.kernels._attention.tiles import apply
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import divided, quotient
from pyptx.types import b32, e4m3, s32, u8, u32, u64

__all__ = ["STRIP", "Transposer", "transpose_kernel"]

THREADS = 256  # that transpose a tile
STRIP = 32  # keys that a warp transposes at a time
WARPS = 3  # of a CTA that run a `Transposer`


def transpose_kernel(columns: int = 128, ragged: bool = False, begun: bool = False):
    """The kernel: v (L, N, DV) to (L, DV, NP), bytes; NP is a multiple of 16, and what is behind the last key is 0.

    Of each 16 keys, key 8h + 2t + e lies at 4t + 2h + e.  N, DV: any with DV a multiple of 16.  A CTA takes 64 or 128
    columns of v, `columns` lanes' worth of 4 beside each other, and 16 keys a lane.  `ragged`: v (N, L, DV) and behind it (P)
    begins of sequences, whose keys begin at `padded_begin` of NP.  `begun`: v (R, N, DV) is the first of L;
    behind the result comes what a `Transposer` needs for the others."""
    lanes = columns // 4  # of a row
    keys = 16 * THREADS // lanes

    def grid(lines, DV, NP):
        return (-(-NP // keys) * lines, -(-DV // columns), 1)  # x alone has room for many heads

    made = kernel(
        in_specs=(
            Tile(*("N", "L") if ragged else ("R" if begun else "L", "N"), "DV", e4m3, align=16), *[Tile("P", s32)] * ragged,
        ),
        out_specs=(Tile("L", "DV", "NP", e4m3, align=16, whole=not begun), *[Tile(2, "L", u32)] * begun),
        raw_params=[("u32", name) for name in ("N", "DV", "NP", *["L", "P"] * ragged, *["L", "R"] * begun)],
        grid=(lambda R, DV, NP: grid(R, DV, NP)) if begun else (lambda L, DV, NP: grid(L, DV, NP)),
        block=(THREADS, 1, 1),
        reqntid=True,
        dependent_launch=True,
        arch="sm_90a",
    )  # fmt: skip

    def body(V, OUT, BEGINS=None, COUNTS=None):
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
        source, to = ptx.global_ptrs(V, OUT)
        length, width, padded = (ptx.param(u32, name) for name in ("N", "DV", "NP"))
        memory = smem.alloc(u8, columns * keys, align=16)
        base = reg.scalar(u32)
        ptx.inst.mov.u32(base, memory.name)
        thread = reg.from_(ptx.special.tid.x(), u32)
        line, place = divided(reg.from_(ptx.special.ctaid.x(), u32), quotient(padded + (keys - 1), keys))
        first_key, first = place * keys, reg.from_(ptx.special.ctaid.y(), u32) * columns
        if begun:
            with ptx.if_(ptx.special.ctaid.x() == 0):
                begin_counts(*ptx.global_ptrs(COUNTS), thread, quotient(padded + (STRIP - 1), STRIP))
        lane, group = thread & (lanes - 1), thread >> (lanes.bit_length() - 1)
        column = first + (lane << 2)
        key = first_key + (group << 4)
        wide = apply(u64, ptx.inst.cvt.u64.u32, width)
        if ragged:
            key, length = place_of(ptx.param(u32, "P"), *ptx.global_ptrs(BEGINS), key)
            heads = ptx.param(u32, "L")
            at = source + (apply(u64, ptx.inst.mul.wide.u32, key, heads) + line) * wide + column
            wide = wide * apply(u64, ptx.inst.cvt.u64.u32, heads)
        else:
            at = source + (apply(u64, ptx.inst.mul.wide.u32, line, length) + key) * wide + column
        words = [reg.scalar(b32, init=0) for _ in range(16)]
        for i, word in enumerate(words):
            ptx.inst.ld.global_.nc.b32(word, ptx.addr(at + wide * i), pred=(key + i < length) & (column < width))
        rows = turned(words)
        # Rows of a column's keys, whose pieces of 16 bytes are swizzled by the number of the lane.
        own = base + lane * (4 * keys) + ((group ^ (lane & 7)) << 4)
        for i, row in enumerate(rows):
            ptx.inst.st.shared.v4.b32(ptx.addr(own, i * keys), row)
        ptx.bar.sync(0)
        store_columns(to, base, (columns, keys), thread, (line, first, first_key), width, padded)
        ptx.ret()

    names = ("V", *["BEGINS"] * ragged, "OUT", *["COUNTS"] * begun)
    return made(with_tensors("attention_transposed", names, body))


def store_columns(to, base, tile: tuple, thread, begin: tuple, width, padded):
    """Stores the tile of (columns, keys) bytes at `base` in shared memory; it begins at (line, column, key) of the result."""
    (columns, keys), (line, first, first_key) = tile, begin
    pieces = keys // 16
    piece, row = thread & (pieces - 1), thread >> (pieces.bit_length() - 1)
    for turn in range(0, columns, THREADS // pieces):
        each = row + turn
        taken = [reg.scalar(b32) for _ in range(4)]
        ptx.inst.ld.shared.v4.b32(taken, ptx.addr(base + each * keys + ((piece ^ ((each >> 2) & 7)) << 4)))
        at = (apply(u64, ptx.inst.mul.wide.u32, line, width) + (first + each)) * apply(
            u64, ptx.inst.cvt.u64.u32, padded
        ) + (first_key + (piece << 4))
        inside = (first + each < width) & (first_key + (piece << 4) < padded)
        ptx.inst.st.global_.v4.b32(ptx.addr(to + at), taken, pred=inside)


def turned(words) -> list:
    """The words of each of four columns: one for each t, with the keys 2t, 2t + 1, 8 + 2t and 9 + 2t.  `words`: one for each key, with its four
    columns, first those of the keys from 2t on, then those of the keys 8 further."""
    rows, half = [[], [], [], []], len(words) // 2
    for t in range(0, half, 2):
        for first, bytes_ in ((0, 0x5140), (2, 0x7362)):
            low, high = (apply(b32, ptx.inst.prmt.b32, *words[i : i + 2], bytes_) for i in (t, half + t))
            for i, pick in enumerate((0x5410, 0x7632)):
                rows[first + i].append(apply(b32, ptx.inst.prmt.b32, low, high, pick))
    return rows


def begin_counts(counts, thread, strips):
    """(2, L): how many strips are taken, in the first; and of each of L how many are done."""
    lines, done = ptx.param(u32, "L"), ptx.param(u32, "R")
    for line in ptx.range_(apply(u32, ptx.inst.mov.u32, thread), lines, THREADS):
        at = counts + apply(u64, ptx.inst.mul.wide.u32, line, 4)
        ptx.inst.st.global_.u32(ptx.addr(at), done * strips)
        of_line = apply(u32, ptx.inst.selp.u32, strips, 0, line < done)
        ptx.inst.st.global_.u32(ptx.addr(at + apply(u64, ptx.inst.mul.wide.u32, lines, 4)), of_line)


class Transposer:
    """The values that `transpose_kernel` has left, by warps of CTAs that wait for each other's.

    Warps take strips in the order of lines, in which tiles need them.  One that has taken a strip waits for nobody, so whoever waits for
    it gets it, however few CTAs there is room for.  Warps have few registers: each method reads what it needs from the kernel's parameters."""

    def __init__(self, lines, rows, values, counts):
        """How many lines of v, which are heads of all sequences; tensors (lines, N, DV), (lines, DV, NP), and `begin_counts`."""
        self.lines, self.tensors = lines, (rows, values, counts)
        self.line, self.awaited = reg.scalar(u32), reg.scalar(u32)
        self.complete = reg.scalar(u32, init=0)  # whether all lines are known to be done

    def run(self, thread):
        """Until there are no more, by whole warps."""
        rows, values, counts = ptx.global_ptrs(*self.tensors)
        strips = self._strips()
        lane, strip = thread & 31, reg.scalar(u32)
        ptx.label("next_strip")
        with ptx.if_(lane == 0):
            ptx.inst.atom.acq_rel.gpu.global_.add.u32(strip, ptx.addr(counts), 1)
        ptx.inst.shfl.sync.idx.b32(strip, strip, 0, 31, 0xFFFFFFFF)
        ptx.bra("no_strip", pred=strip >= self.lines * strips)
        line, place = divided(strip, strips)
        self._transpose(rows, values, line, place << 5, lane)
        ptx.fence.proxy_async()
        ptx.warp.sync()
        ptx.inst.red.release.gpu.global_.add.u32(self._done(counts, line), 1, pred=lane == 0)
        ptx.bra("next_strip")
        ptx.label("no_strip")

    def _transpose(self, rows, values, line, first, lane):
        """A strip: a thread takes 16 columns, and those 8 of 16 keys whose places lie beside each other."""
        length, width, padded = (ptx.param(u32, name) for name in ("N", "DV", "NP"))
        group, half, column = first + ((lane >> 4) << 4), (lane >> 3) & 1, (lane & 7) << 4
        key = group + (half << 2)
        left = apply(s32, ptx.inst.mov.b32, length - key)
        at = (
            rows + apply(u64, ptx.inst.mul.wide.u32, apply(u32, ptx.inst.mad.lo.u32, line, length, key), width) + column
        )
        to = values + (
            apply(u64, ptx.inst.mul.wide.u32, apply(u32, ptx.inst.mad.lo.u32, line, width, column), padded)
            + (group + (half << 3))
        )
        for _ in ptx.range_(column, width, 128):
            quads = [[reg.scalar(b32, init=0) for _ in range(4)] for _ in range(8)]
            for i, quad in enumerate(quads):
                key = i % 4 + i // 4 * 8
                ptx.inst.ld.global_.nc.v4.b32(
                    quad, ptx.addr(at + apply(u64, ptx.inst.mul.wide.u32, width, key)), pred=left > key
                )
            for words in zip(*quads, strict=True):
                for row in turned(words):
                    ptx.inst.st.global_.v2.b32(ptx.addr(to), row, pred=group < padded)
                    ptx.inst.add.u64(to, to, apply(u64, ptx.inst.cvt.u64.u32, padded))
            ptx.inst.add.u64(at, at, 128)
            ptx.inst.add.u64(to, to, apply(u64, ptx.inst.mul.wide.u32, padded, 112))

    def begin(self, line):
        """A tile whose values are a line's, by the thread that fetches them."""
        ptx.inst.mov.u32(self.line, line)
        ptx.inst.mov.u32(self.awaited, self.complete)

    def wait(self):
        """Until they may be fetched.  Each warp takes one strip more than there are, when all of its own are done."""
        with ptx.if_(self.awaited == 0):
            (counts,) = ptx.global_ptrs(self.tensors[2])
            done, strips = reg.scalar(u32), self._strips()
            with ptx.loop("values"):
                ptx.inst.ld.acquire.gpu.global_.u32(done, self._done(counts, self.line))
                ptx.loop_while(done < strips)
            ptx.inst.ld.acquire.gpu.global_.u32(done, ptx.addr(counts))
            warps = reg.from_(ptx.special.nctaid.x(), u32) * WARPS
            ptx.inst.selp.u32(self.complete, 1, 0, done >= self.lines * strips + warps)
            ptx.inst.mov.u32(self.awaited, 1)
            ptx.fence.proxy_async()

    def _strips(self):
        """How many strips a line has."""
        return quotient(ptx.param(u32, "NP") + (STRIP - 1), STRIP)

    def _done(self, counts, line):
        return ptx.addr(counts + apply(u64, ptx.inst.mul.wide.u32, self.lines + line, 4))
