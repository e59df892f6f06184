"""What products that copy tiles by tensor maps (wgmma, tcgen05) have in common: how a product is cut, how its operands lie in shared memory,
and which tiles a cluster takes."""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import quotient
from pyptx.types import PtxType, b16, b32, f32, pred, s32, tf32, u32, u64

__all__ = [
    "CLUSTERS", "ENDS", "MOST_GROUPS", "MULTIPROCESSORS", "ROW", "WARPGROUP", "WORD", "Config", "Groups", "Operand", "Place", "Ring", "Tiles", "address",
    "clear_behind", "copied", "fetch_maps", "keep_ends", "kernel_of_tiles", "mask", "of_batch", "quotient", "within",
]  # fmt: skip

MULTIPROCESSORS = 132  # of an H200
# By the CTAs of a cluster, how many run at once where each CTA fills a multiprocessor.
CLUSTERS = {1: MULTIPROCESSORS, 2: 66, 3: 39, 4: 30, 8: 15}
WARPGROUP = 128  # threads
MOST_GROUPS = 512  # groups whose ends fit into shared memory
ENDS = MOST_GROUPS + MOST_GROUPS // 32  # words: of these, and of a bit for each group
ROW = 128  # bytes of a row of a tile in shared memory: the width of the swizzle
WORD = 16  # bytes that a descriptor counts
BATCHES = ((), ("L",), ("L", "LI"))  # the dimensions of a batch, by their number


@dataclass(frozen=True)
class Config:
    """How a product is cut.

    bm, bn: a CTA's tile of C; `consumers` warpgroups share its rows.  stages: of 128 bytes of K.
    cm, cn: CTAs of a cluster along M and along N.
    group: rows of a cluster's tiles that are taken together.
    overlap: whether a tile is stored during the next one.
    swing: whether every other tile goes through K backwards, because what was read last is still in L2.
    turned: whether wgmma takes the columns of B as its rows; bm and cm count those.  The tile of C^T is stored as one of C.
    inside: whether the last tile of a row or column of tiles is moved back so that it ends with the matrix, which has to be as large as a
        tile.  A copy needs some 12 clocks to fill a row outside the matrix with zeros, ten times what a row inside takes.  Where the tile
        overlaps the one before, that one stores.
    l2: how much L2 reads at a time.
    ahead: steps of B (weights, which are read once) that are fetched to L2 before the kernel ahead has ended; L2 then evicts B before A.
    beside: groups of eight columns of a tile whose activation runs beside one step of the next tile; 0: all of it ends before.
    once: whether each cluster has one tile, which is staged where its stages were, so that there is room for more of these.
    parts: of K, of whose steps each takes every `parts`-th.  A cluster that has one tile has cm x cn CTAs for each, which add up through
        distributed shared memory, each some columns (`exchange.py`).
    tail: how many 32 bytes of K the last step has, of a K of more than 128 bytes; 0: four.  Its stage begins so much earlier, as bytes outside
        of a matrix take ten times as long to copy, and what the step before had is not multiplied again.
    few: whether A has fewer rows than a tile.  Copies bring those, and zeros lie behind them.
    """

    bm: int = 128
    bn: int = 256
    stages: int = 4
    consumers: int = 2
    cm: int = 1
    cn: int = 1
    group: int = 16
    overlap: bool = True
    swing: bool = True
    turned: bool = False
    inside: bool = False
    l2: str = "256B"
    ahead: int = 0
    beside: int = 4
    once: bool = False
    parts: int = 1
    tail: int = 0
    few: bool = False

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.share * self.parts

    @property
    def share(self) -> int:
        """CTAs of a cluster that have the same part of K."""
        return self.cm * self.cn


@dataclass(frozen=True)
class Operand:
    """A or B: a tile has `rows` of its M or N, which `share` CTAs of a cluster share."""

    dtype: PtxType
    k_major: bool
    rows: int
    share: int
    bk: int
    halves: bool = (
        False  # whether half of the rows are gates and the other half, N rows further, the ups that belong to them
    )
    pieces: int = 1  # copies of a CTA's part of the rows, if K is contiguous

    @property
    def block(self) -> int:
        """Rows of one copy; 128 bytes of them if rows (M or N) are contiguous."""
        return self.rows // (self.share * self.pieces) if self.k_major else ROW * 8 // self.dtype.bits

    @property
    def bytes(self) -> int:
        """The bytes of a tile.  If rows are contiguous, it has whole blocks, of which the last may be wider than the tile."""
        return (self.rows if self.k_major else -(-self.rows // self.block) * self.block) * ROW

    @property
    def box(self) -> tuple[int, ...]:
        """The box of one copy, in the order of the tensor's dimensions."""
        if self.halves:
            return (2, self.rows // 2, self.bk) if self.k_major else (self.bk, 1, self.block)
        return (self.block, self.bk) if self.k_major else (self.bk // self.share, self.block)

    @property
    def part(self) -> tuple[int, int, int]:
        """(rows, elements of K, bytes) from the part that one CTA of a cluster copies to that of the next."""
        rows = self.rows // self.share
        return (rows, 0, rows * ROW) if self.k_major else (0, self.box[0], self.box[0] * ROW)

    def tile(self, batch: tuple, size: str, l2: str = "256B", rows: str | None = None) -> Tile:
        """`rows`: the size that is the number of rows of a box, if it is not `block`."""
        size = (2, size) if self.halves else (size,)
        shape = (*size, "K") if self.k_major else ("K", *size)
        box = (1,) * len(batch) + ((rows, self.bk) if rows else self.box)
        # The copy rounds f32 to tf32.
        read_as = tf32 if self.dtype == f32 else None
        return Tile(
            *batch, *shape, self.dtype, packed=False, tma_box=box, tma_swizzle="128B", tma_l2=l2, tma_dtype=read_as
        )

    @property
    def multiplied(self) -> PtxType:
        return tf32 if self.dtype == f32 else self.dtype

    def copies(self):
        """(first row, first byte) of each copy of a CTA's part of the tile."""
        rows = self.rows // self.share if self.k_major else self.rows
        return [(at, at * ROW) for at in range(0, rows, self.block)]

    def where(self, first, at: int, k):
        """The coordinates of the copy `at` rows behind the first row of the tile, which is `first`."""
        half, at = divmod(at, self.rows // 2) if self.halves else (0, at)
        place, half = first + at if at else first, (half,) if self.halves else ()
        return (k, place, *half) if self.k_major else (place, *half, k)

    @property
    def step(self) -> int:
        """How many words of 16 bytes the part of a stage that one wgmma reads lies from the next: 32 bytes of each row, or so many elements as
        rows of 128 bytes."""
        return 32 // WORD if self.k_major else 256 // self.dtype.bits * ROW // WORD

    def descriptor(self, start):
        """The descriptor of the matrix at `start`, a shared address in a register."""
        # The offset between groups of eight rows and, if rows are contiguous, the one between blocks of 64.
        leading = 1 if self.k_major else self.bk * ROW // WORD
        high = 1 << 30 | 8 * ROW // WORD
        low = reg.scalar(u32)
        ptx.inst.and_.b32(low, start, 0x3FFF0)  # in a cluster, the upper bits are the CTA's rank
        ptx.inst.shr.u32(low, low, 4)
        ptx.inst.or_.b32(low, low, leading << 16)
        made = reg.scalar(u64)
        ptx.inst.mov.b64(made, [low, reg.scalar(b32, init=high)])
        return made


class Place(NamedTuple):
    """Where a CTA's tile is: its first row and column; the number of the matrix in a batch; in grouped products, the number of the matrix of B,
    the row behind the group's last one, and how many rows the group has; `own`, the first row and column that the tile stores
    (`Config.inside`)."""

    row: Any
    column: Any
    batch: Any = None
    expert: Any = None
    end: Any = None
    rows: Any = None
    own: tuple | None = None


class Tiles:
    """Which tiles of C a cluster takes: the one with the cluster's number, then each that lies as many tiles further as there are clusters."""

    def __init__(self, c: Config, batched: int, columns: int):
        self.c, self.batched, self.columns = c, batched, columns  # columns of C in a tile
        rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
        if c.parts > 1:
            rank = rank & (c.share - 1)
        self.rm, self.rn = (rank & (c.cm - 1)), rank >> (c.cm.bit_length() - 1)
        self.rows, self.width = ("N", "M") if c.turned else ("M", "N")
        self.across = quotient(ptx.param(u32, self.width) + (columns * c.cn - 1), columns * c.cn)
        self.first = reg.from_(ptx.sreg("%clusterid.x"), u32)
        self.step = reg.from_(ptx.sreg("%nclusterid.x"), u32)

    def down(self, rows):
        """How many tiles so many rows have."""
        return quotient(rows + (self.c.bm * self.c.cm - 1), self.c.bm * self.c.cm)

    def places(self, begin=None):
        """A loop over the tiles: yields a Place.  `begin` writes what comes before a tile's place is known."""
        down = self.down(ptx.param(u32, self.rows))
        in_one = down * self.across
        count = functools.reduce(operator.mul, (ptx.param(u32, each) for each in BATCHES[self.batched]), in_one)
        for t in ptx.range_(self.first, count, self.step):
            if begin:
                begin()
            batch = quotient(t, in_one) if self.batched else None
            place = Place(*self.place(t - batch * in_one if self.batched else t, down), batch)
            yield self.moved(place) if self.c.inside else place

    def moved(self, place: Place) -> Place:
        """The place moved back so that the tile ends with the matrix."""
        row, column = reg.scalar(u32), reg.scalar(u32)
        ptx.inst.min.u32(row, place.row, ptx.param(u32, self.rows) - self.c.bm)
        ptx.inst.min.u32(column, place.column, ptx.param(u32, self.width) - self.columns)
        return place._replace(row=row, column=column, own=(place.row, place.column))

    def place(self, t, down):
        """(first row, first column) of this CTA's part of tile t of a matrix that is `down` tiles high."""
        c = self.c
        group = quotient(t, self.across * c.group)
        above = group * c.group
        inside = t - above * self.across
        rows = reg.scalar(u32)
        ptx.inst.min.u32(rows, down - above, c.group)
        column = quotient(inside, rows)
        row = above + (inside - column * rows)
        with ptx.if_((group & 1) == 1):  # from right to left: what was read last is still in L2
            ptx.inst.sub.u32(column, self.across - 1, column)
        row, column = row * c.cm + self.rm, column * c.cn + self.rn
        return row * c.bm, column * self.columns


def of_batch(batched: int, number) -> tuple:
    """The coordinates of matrix `number` of a batch of so many dimensions, the last one first."""
    if batched < 2:
        return () if number is None else (number,)
    inner = ptx.param(u32, BATCHES[2][1])
    outer = quotient(number, inner)
    return number - outer * inner, outer


class Groups(Tiles):
    """The tiles of grouped products.  `ends`, of `keep_ends`, has for each matrix of B the row of A behind its last one.  `masked`: each matrix
    has M / E rows of A, and `ends` says how many of them count."""

    def __init__(self, c: Config, columns: int, ends, role: str, masked: bool):
        super().__init__(c, 0, columns)
        self.ends, self.role, self.masked = ends, role, masked

    def places(self, begin=None):
        experts = ptx.param(u32, "E")
        t = copied(self.first)
        before = reg.scalar(u32, init=0)  # tiles of the experts before
        expert, start, end = reg.scalar(u32, init=0), reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        down = reg.scalar(u32, init=0)
        room = quotient(ptx.param(u32, "M"), experts) if self.masked else None
        again, following, skip, found, done = (
            f"{self.role}_{name}" for name in ("next", "following", "skip", "found", "done")
        )
        ptx.label(again)
        inside = t - before
        ptx.bra(found, pred=inside < down * self.across)
        # The tiles of this expert are taken; try the next one, if there is one.
        ptx.inst.mad.lo.u32(before, down, self.across, before)
        if not self.masked:
            ptx.inst.mov.u32(start, end)
        ptx.label(following)
        ptx.bra(done, pred=expert >= experts)
        ptx.inst.ld.shared.u32(end, ptx.addr(self.ends + expert * 4))
        within(start, end, expert, room)
        ptx.inst.mov.u32(down, self.down(end - start))
        expert += 1
        ptx.bra(again, pred=down > 0)
        # Where few groups have rows, to try the others one by one would take microseconds.
        ptx.label(skip)
        ptx.bra(done, pred=expert >= experts)
        bits, zeros = reg.scalar(b32), reg.scalar(u32)
        ptx.inst.ld.shared.b32(bits, ptx.addr(self.ends + ((expert >> 5) << 2), MOST_GROUPS * 4))
        ptx.inst.shr.b32(bits, bits, expert & 31)
        none = bits == 0
        ptx.inst.add.u32(expert, expert | 31, 1, pred=none)
        ptx.bra(skip, pred=none)
        ptx.inst.brev.b32(bits, bits)
        ptx.inst.clz.b32(zeros, bits)
        expert += zeros
        ptx.bra(following)
        ptx.label(found)
        if begin:
            begin()
        row, column = self.place(inside, down)
        yield Place(start + row, column, None, expert - 1, end, end - start)
        t += self.step
        ptx.bra(again)
        ptx.label(done)


def clear_behind(ring, blocks: Sequence[int], lines: int, thread, threads: int):
    """Zeros in the rows of A behind the M that are copied; `blocks`: where A has so many lines in the ring."""
    zero, m = reg.scalar(b32, init=0), ptx.param(u32, "M")
    to = (address(ring) + blocks[0] if blocks[0] else address(ring)) + m * ROW
    for at in ptx.range_(thread, (lines - m) * (ROW // WORD), threads, dtype=u32):
        for block in blocks:
            ptx.inst.st.shared.v4.b32(ptx.addr(to + at * WORD, block - blocks[0]), [zero] * 4)
    ptx.fence.proxy_async_shared_cta()


def kernel_of_tiles(body, name: str, at_once: int, threads: int, lines: int, arch: str):
    """The kernel (A, B, ...) -> C that `body` writes: for one product, a batch, or groups.  `at_once`: how many clusters run at once.  C is stored in
    boxes of `lines` rows."""
    c, epilogue, grouped = body.c, body.epilogue, body.grouped
    batch = BATCHES[body.batched]
    each = () if body.parted else batch  # the batch dimension of A and B
    # Numbers, because an object that `grid` reads would be compared at each call.
    ctas, down, across, turned, single = c.ctas, c.bm * c.cm, body.columns * c.cn, c.turned, c.once

    def grid(M, N, L=1, LI=1):
        """The fewest clusters that need no more waves, because more would take power."""
        rows, columns = (N, M) if turned else (M, N)
        tiles = -(-rows // down) * -(-columns // across) * L * LI
        waves = 1 if single else -(-tiles // at_once)
        return (-(-tiles // waves) * ctas, 1, 1)

    grids = ((lambda M, N: grid(M, N)), (lambda M, N, L: grid(M, N, L)), (lambda M, N, L, LI: grid(M, N, L, LI)))[
        body.batched
    ]
    more = epilogue.tiles(batch, grouped)
    if grouped or body.parted:
        more["OFFS"] = Tile("E" if grouped else "L", s32)
    a, b = (body.b, body.a) if turned else (body.a, body.b)
    rows = "M" if a.k_major and not grouped and epilogue.scales != "block" else None
    part = (body.chunk, lines) if turned else (lines, body.chunk)
    box, swizzle = (1,) * len(batch) + part, "128B" if body.swizzled else None
    if body.residual_copied:
        more["RESIDUAL"] = Tile(*batch, "M", "N", epilogue.residual, tma_box=box, tma_swizzle=swizzle)
    return kernel(
        in_specs=(
            a.tile(each, "M", c.l2, "M" if c.few else None),
            b.tile(("E",) if grouped else each, "N", c.l2),
            *more.values(),
        ),
        out_specs=(
            Tile(*batch, "M", "N", body.out, packed=grouped, whole=not grouped, tma_box=box, tma_swizzle=swizzle),
        ),
        raw_params=[("u32", size) for size in ("M", "N", "K", *batch, *(("E",) if grouped else ()))],
        grid=at_once * ctas if grouped else grids,
        block=(threads, 1, 1),
        cluster=(ctas, 1, 1),
        reqntid=True,
        batch=None if body.parted or body.batched == 2 else "L" if body.batched else rows,
        dependent_launch=True,
        arch=arch,
    )(with_tensors(name, ("A", "B", *more, "C"), body.write))


def fetch_maps(maps):
    """Prefetches tensor maps; the first copies would wait for them some 0.3 us."""
    for each in maps:
        ptx.inst.prefetch.tensormap(ptx.addr(each))


def keep_ends(OFFS, thread, threads: int, masked: bool, groups: str = "E"):
    """Copies the ends of the groups to shared memory, by all threads of a CTA, and returns their address.  Behind them is a bit for each group, set if it
    has rows.  `groups`: the parameter that has their number."""
    (pointer,) = ptx.global_ptrs(OFFS)
    base, count, lane = address(smem.alloc(u32, ENDS)), ptx.param(u32, groups), thread & 31
    for first in ptx.range_(thread - lane, count, threads):  # of a warp
        number, end, start = first + lane, reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        at, inside = pointer + number * 4, number < count
        ptx.inst.ld.global_.nc.u32(end, ptx.addr(at), pred=inside)
        if not masked:
            ptx.inst.ld.global_.nc.u32(start, ptx.addr(at, -4), pred=inside & (number > 0))
        ptx.inst.st.shared.u32(ptx.addr(base + number * 4), end, pred=inside)
        has_rows, bits = reg.scalar(pred), reg.scalar(b32)
        (ptx.inst.setp.gt.s32 if masked else ptx.inst.setp.gt.u32)(has_rows, end, start)
        ptx.inst.vote.sync.ballot.b32(bits, has_rows, 0xFFFFFFFF)
        ptx.inst.st.shared.b32(ptx.addr(base + (first >> 3), MOST_GROUPS * 4), bits, pred=lane == 0)
    ptx.bar.sync(0)
    return base


def within(start, end, expert, room, rows: str = "M"):
    """Turns `end`, as the caller gave it, into the row behind the group's last one, clipped to what there is.  If groups have `room` for rows,
    `end` was a count, and `start` is set, too."""
    if room is None:
        ptx.inst.max.u32(end, end, start)
        ptx.inst.min.u32(end, end, ptx.param(u32, rows))
        return
    ptx.inst.mul.lo.u32(start, expert, room)
    ptx.inst.max.s32(end, end, 0)
    ptx.inst.min.u32(end, end, room)
    ptx.inst.add.u32(end, end, start)


def copied(register):
    result = reg.scalar(u32)
    ptx.inst.mov.u32(result, register)
    return result


class Ring:
    """The position of one role in the ring of stages: `stage`, and the parity with which it waits for the stage's barriers."""

    def __init__(self, stages: int):
        self.stages = stages
        self.stage, self.parity = reg.scalar(u32, init=0), reg.scalar(u32, init=0)

    def advance(self):
        wraps = reg.scalar(pred)
        self.stage += 1
        ptx.inst.setp.eq.u32(wraps, self.stage, self.stages)
        ptx.inst.mov.u32(self.stage, 0, pred=wraps)
        ptx.inst.xor.b32(self.parity, self.parity, 1, pred=wraps)


def address(allocation):
    where = reg.scalar(u32)
    ptx.inst.mov.u32(where, allocation.name)
    return where


def mask(bits: int, shift):
    """The mask of the CTAs of a multicast, `bits` shifted left, in a b16 register."""
    wide, result = reg.scalar(u32), reg.scalar(b16)
    ptx.inst.shl.b32(wide, bits, shift)
    ptx.inst.cvt.u16.u32(result, wide)
    return result
