"""C = A B where A has up to four rows and B rows that TMA cannot address, or where C has few elements: f32 arithmetic, one pass over B.

`dots`: B is (N, K), and the lanes of a warp, or all warps of a CTA, add up parts of K.  `columns`: B is (K, N), a lane has four columns, and the warps of
a CTA parts of K.  Where CTAs would be few, they take parts of K, too, whose results a second kernel adds up.  The order of sums is fixed.
"""

import functools

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._epilogue import NOTHING, Epilogue, Finisher, with_tensors
from pyptx.kernels._matmul.mma import product
from pyptx.kernels._matmul.tiles import MULTIPROCESSORS
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    STORE_SHARED,
    add,
    apply,
    constant,
    copied,
    divided,
    move,
    narrowed,
    quotient,
    registers,
    smem_address,
    to_u64,
    wide_product,
    widened,
)
from pyptx.types import PtxType, f32, u32, u64

__all__ = ["LONG", "MOST_ROWS", "Columns", "body_of_vectors", "vectors_kernel", "vectors_of"]

MOST_ROWS = 4  # of A
WARPS = 8
AT_ONCE = 8  # rows of B that are loaded before the first is multiplied
VECTORS, WORDS = 16, 64  # of B, of a thread: the same, and registers of them and of A
COLUMNS = 4  # of a lane, or of a warp or CTA
LONG = 1024  # elements of K for which all warps of a CTA share a column


class Body:
    """What both kernels share; `sums` differs.  `rows`: of A.  `width`: bytes that divide addresses and strides of A and B.  `parts`: whether C
    has f32 sums of parts of K, (P, M, N).  A subclass sets `across`, the columns of a CTA; `step`, of which a part of K is a multiple; and
    `round`, the elements of K that its threads take in one turn of their loop."""

    def __init__(
        self, dtype: PtxType, out: PtxType, rows: int, width: int, batched: bool, epilogue: Epilogue, parts: bool
    ):
        self.dtype, self.out, self.rows, self.batched = dtype, out, rows, batched
        self.epilogue, self.parts = epilogue, parts
        self.size = dtype.bits // 8
        self.vector = max(self.size, min(self.widest, width)) // self.size  # elements

    @property
    def widest(self) -> int:
        """Bytes of the largest load."""
        return 16

    def write(self, A, B, C, **more):
        pa, pb, self.to = ptx.global_ptrs(A, B, C)
        self.n, self.k, self.m = ptx.param(u32, "N"), ptx.param(u32, "K"), reg.scalar(u32, init=self.rows)
        self.thread = reg.from_(ptx.special.tid.x(), u32)
        self.lane, self.warp = self.thread & 31, self.thread >> 5
        self.finisher = Finisher(self.epilogue, more, self.n, False, self.out)
        block, self.batch = reg.from_(ptx.special.ctaid.x(), u32), None
        first, behind = reg.scalar(u32, init=0), copied(self.k)
        if self.batched or self.parts:
            number, block = divided(block, quotient(self.n + (self.across - 1), self.across))
        if self.batched:
            self.batch = number
            pa, pb = pa + product(number, self.m, self.k) * self.size, pb + product(number, self.n, self.k) * self.size
        if self.parts:  # whole steps of K, so that vectors stay aligned
            each = quotient(
                quotient(self.k + (self.step - 1), self.step) + (ptx.param(u32, "P") - 1), ptx.param(u32, "P")
            )
            first = number * each * self.step
            ptx.inst.min.u32(behind, behind, first + each * self.step)
        if self.batched or self.parts:
            self.to = self.to + product(number, self.m, self.n) * (self.out.bits // 8)
        self.sums(pa, pb, block * self.across, first, behind)
        ptx.ret()

    def address(self, pointer, line, pitch, place):
        """The address of an element of a line."""
        at = wide_product(line, pitch)
        return pointer + (at + to_u64(place)) * self.size

    def load(self, at, further: int, elements: int, inside) -> list:
        """Registers with neighbouring elements, so many further; with zeros if they are not `inside`."""
        bits = registers(self.dtype, elements, init=0)
        move(LOAD, at, further * self.size, bits, elements * self.size, pred=inside)
        return bits

    def values(self, bits) -> list:
        return [value for each in bits for value in widened(each, self.dtype)]

    def store(self, row: int, column, value, inside):
        """Finishes a value and stores it."""
        with ptx.if_(inside):
            row = reg.scalar(u32, init=row)
            finish = self.finisher.line(row, self.m, self.batch)
            (value,) = finish([value], column, self.finisher.columns(column, 1, self.batch))
            at = wide_product(row, self.n) + column
            move(STORE, self.to + at * (self.out.bits // 8), 0, narrowed([value], self.out), self.out.bits // 8)


class Dots(Body):
    """`together`: warps that share columns; `each`: how many columns."""

    def __init__(self, together: int, each: int, *more):
        super().__init__(*more)
        self.together = together
        self.each = each
        self.across = WARPS // together * self.each
        self.step = 32 * together * self.vector
        words = (self.each + self.rows) * max(1, self.vector * self.size // 4)
        self.at_once = min(VECTORS // self.each, 1 << ((WORDS // words).bit_length() - 1))
        self.round = self.step * self.at_once

    def sums(self, pa, pb, column, first, behind):
        rows, each = range(self.rows), range(self.each)
        if self.together == 1:
            column = column + self.warp * self.each
        totals = [[constant(0.0) for _ in each] for _ in rows]
        start = first + (self.lane if self.together == 1 else self.thread) * self.vector
        lines = [self.address(pb, column + j, self.k, start) for j in each]
        factors = [self.address(pa, reg.scalar(u32, init=m), self.k, start) for m in rows]
        inside = [column + j < self.n for j in each]
        for k in ptx.range_(start, behind, self.round):
            loaded = []
            for further in range(0, self.round, self.step):
                there = k + further < behind
                of_b = [self.load(at, further, self.vector, there & ok) for at, ok in zip(lines, inside, strict=True)]
                loaded.append((of_b, [self.load(at, further, self.vector, there) for at in factors]))
            for at in (*lines, *factors):
                at += self.round * self.size
            for of_b, of_a in loaded:
                of_b, of_a = [self.values(bits) for bits in of_b], [self.values(bits) for bits in of_a]
                for m in rows:
                    for j in each:
                        for x, y in zip(of_a[m], of_b[j], strict=True):
                            ptx.inst.fma.rn.f32(totals[m][j], x, y, totals[m][j])
        for distance in (16, 8, 4, 2, 1):
            for line in totals:
                for total in line:
                    other = apply(ptx.inst.shfl.sync.bfly.b32, total, distance, 31, 0xFFFFFFFF)
                    ptx.inst.add.f32(total, total, other)
        if self.together == 1:
            for m in rows:
                for j in each:
                    self.store(m, column + j, totals[m][j], (self.lane == 0) & (column + j < self.n))
            return
        count = self.rows * self.each
        base = smem_address(smem.alloc(f32, (count, WARPS), align=16))
        for i, total in enumerate(total for line in totals for total in line):
            ptx.inst.st.shared.f32(ptx.addr(base + self.warp * 4, 4 * i * WARPS), total, pred=self.lane == 0)
        ptx.bar.sync(0)
        for i in range(count):
            parts = [apply(ptx.inst.ld.shared.f32, ptx.addr(base, 4 * (i * WARPS + w))) for w in range(WARPS)]
            at = column + i % self.each
            self.store(i // self.each, at, functools.reduce(add, parts), (self.thread == i) & (at < self.n))


class Columns(Body):
    across, step = 32 * COLUMNS, WARPS * AT_ONCE
    round = step

    @property
    def widest(self) -> int:
        return COLUMNS * self.size

    def sums(self, pa, pb, column, first, behind):
        rows, pieces = range(self.rows), range(COLUMNS // self.vector)
        place = column + self.lane * self.vector
        totals = [[[constant(0.0) for _ in range(self.vector)] for _ in pieces] for _ in rows]
        start = first + self.warp * AT_ONCE
        line, apart, jump = self.address(pb, start, self.n, place), reg.scalar(u64), reg.scalar(u64)
        ptx.inst.mul.wide.u32(apart, self.n, self.size)
        ptx.inst.mul.lo.u64(jump, apart, self.step)
        factors = [self.address(pa, reg.scalar(u32, init=m), self.k, start) for m in rows]
        inside = [place + 32 * self.vector * i < self.n for i in pieces]
        for k in ptx.range_(start, behind, self.step):
            of_b, of_a, at = [], [], line
            for i in range(AT_ONCE):
                there = k + i < behind
                of_b.append([self.load(at, 32 * self.vector * j, self.vector, there & inside[j]) for j in pieces])
                of_a.append([self.load(each, i, 1, there) for each in factors])
                at = at + apart
            line += jump
            for each in factors:
                each += self.step * self.size
            for row, each in zip(of_b, of_a, strict=True):
                row = [self.values(bits) for bits in row]
                for m in rows:
                    (x,) = self.values(each[m])
                    for into, values in zip(totals[m], row, strict=True):
                        for total, y in zip(into, values, strict=True):
                            ptx.inst.fma.rn.f32(total, x, y, total)
        base = smem_address(smem.alloc(f32, (WARPS, self.across), align=16))
        mine = base + (self.warp * self.across + self.lane * self.vector) * 4
        for m in rows:
            if m:
                ptx.bar.sync(0)  # all have read the row before
            for i in pieces:
                move(STORE_SHARED, mine, 4 * 32 * self.vector * i, totals[m][i], 4 * self.vector)
            ptx.bar.sync(0)
            with ptx.if_(self.thread < self.across):
                at = base + self.thread * 4
                parts = [apply(ptx.inst.ld.shared.f32, ptx.addr(at, 4 * i * self.across)) for i in range(WARPS)]
                self.store(m, column + self.thread, functools.reduce(add, parts), column + self.thread < self.n)


@functools.cache
def vectors_kernel(
    shared: tuple[int, int] | None, dtype: PtxType, out: PtxType, rows: int, width: int, batched=False, epilogue=NOTHING, parts=False
):  # fmt: skip
    """The kernel (A, B, ...) -> C.  `shared`: of `dots`, how many warps share how many columns; None: `columns`.  A is (rows, K), B (N, K) or (K, N).
    `parts`: C is (P, rows, N), of f32."""
    body = body_of(shared, dtype, out, rows, width, batched, epilogue, parts)
    across = body.across  # a number, because an object that `grid` reads would be compared at each call
    batch = ("L",) if batched else ()
    b, more = ("N", "K") if shared else ("K", "N"), epilogue.tiles(batch)

    # Without a bound ptxas spills what an epilogue needs, to keep to 64 registers.
    bound = (("minnctapersm", (2,)),) if rows > 2 and epilogue != NOTHING else ()

    def tile(*shape):
        return Tile(*batch, *shape, dtype, align=width if width >= 4 else 0)

    grids = (lambda N, L: (-(-N // across) * L, 1, 1)) if batched else (lambda N: (-(-N // across), 1, 1))
    if parts:
        grids = lambda N, P: (-(-N // across) * P, 1, 1)  # noqa: E731
    return kernel(
        in_specs=(tile(rows, "K"), tile(*b), *more.values()),
        out_specs=(Tile(*(("P",) if parts else batch), rows, "N", out),),
        raw_params=[("u32", name) for name in ("N", "K", *(("P",) if parts else ()))],
        grid=grids, block=(32 * WARPS, 1, 1), reqntid=True, raw_directives=bound, batch="L" if batched else None, arch="sm_80",
    )(with_tensors("dot_matmul" if shared else "vector_matmul", ("A", "B", *more, "C"), body.write))  # fmt: skip


def vectors_of(p, parts: bool = False):
    """The kernel for a Problem, or for parts of its K."""
    shared, dtype, out, *more = told(p)
    return vectors_kernel(shared, dtype, f32 if parts else out, *more, p.batch is not None, p.epilogue, parts)


def body_of_vectors(p) -> Body:
    return body_of(*told(p), p.batch is not None, p.epilogue, False)


def told(p) -> tuple:
    shared = (WARPS if p.k >= LONG else 1, 1 if p.n <= MULTIPROCESSORS else COLUMNS) if p.b_k_major else None
    return shared, p.dtype, p.out, p.m, min(p.a_width, p.b_width, 16)


def body_of(shared: tuple[int, int] | None, *more) -> Body:
    return Dots(*shared, *more) if shared else Columns(*more)
