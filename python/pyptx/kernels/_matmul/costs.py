"""What a product by tiles of wgmma takes, and which tile takes least: one model for every tile, shape, layout and type.

Its constants were fitted to times that an H200 took (docs/performance/products.md).  A step, 128 bytes of K, is bounded by shared memory, by
the tensor cores, or by copies of rows that begin within a sector of L2; a product takes its waves of tiles, and what memory needs beside them.
"""

import functools
import itertools
import math
from dataclasses import dataclass, replace

from pyptx.kernels._matmul.exchange import Exchange
from pyptx.kernels._matmul.store import chunk_of
from pyptx.kernels._matmul.tiles import CLUSTERS, ROW, Config

__all__ = [
    "CLOCKS",
    "ROOM",
    "WIDEST",
    "Sizes",
    "asking",
    "copying",
    "microseconds",
    "quickest",
    "step_microseconds",
    "tiles",
    "tiles_of",
    "waves",
    "whole_lines",
    "with_one_tile",
    "with_stages",
]

CLOCKS = 1850  # of a microsecond
# How much of what shared memory needs, and of the tensor cores' clocks, a step takes.
SHARED, TENSOR = 0.865, 1.094
SHALLOW = 1.04, 0.13  # with but three stages: how much longer a step takes; microseconds of a wave besides
# How much of the former, by the CTAs of a cluster, which read less from L2: of tiles of 64 rows, of others.  The CTAs of a pair of the former share
# the 64.
SHARING = {1: (1.0, 1.0), 2: (0.944, 1.008), 4: (0.842, 0.831), 8: (0.803, 0.831)}
SQUARE = 0.909  # of 2 x 2 CTAs with tiles of 64 rows
# How much longer it takes where tiles of 64 rows lie along the longer side of the matrix, so that the larger operand is read more often: for pairs, and
# for wide tiles.
CROSSED, ACROSS = 1.189, 1.05
# Microseconds: of a product besides; by the rows and columns of its first tile; of a wave, by the rows of its tiles; of 64 rows of a part of a tile
# that is stored; of a wave of clusters; of clusters that have one tile.
START, FILL, STORED, ONCE = 0.5, 0.0068, 0.0253, 0.51
WAVE = {64: 0.73, 128: 0.59, 192: 0.63, 256: 0.88}
CLUSTER = {1: 0.0, 2: 0.41, 4: 0.51, 8: 0.51}
# Of parts of K, by the CTAs that share columns: how much of what shared memory needs a step takes; how much longer, where they share none, if lines
# of K begin at multiples of 16 KB; microseconds of an exchange besides, and of each byte that a CTA gets.
IN_PARTS, ALIGNED, LINE = {1: 1.08, 4: 0.8}, 1.17, 16_384
EXCHANGED, GOT = {1: 0.2, 4: 0.1}, 1.2e-5
# How much longer a product of few rows (or columns) takes in one wave where several clusters read the same part of an operand larger than half of
# L2; rows, bytes, and steps from which on it does.
AGAIN, FEW, LARGE, LONG = 1.06, 320, 2.5e7, 56
BANDWIDTH = 5.58e6  # bytes of a microsecond
WASTED = 1.145  # how much longer, where blocks of 64 columns are wider than the tile
# How much longer products of tiles of 128 x 256 take, as power lowers the clock, and of how many multiplications; smaller tiles read more.
POWER, DENSE, READING = 0.0487, 4e10, 2.42
# Microseconds of a row of 128 bytes that a CTA asks for, where rows do not begin within a sector of L2 and where they do (strides of 16 bytes
# modulo 32); and of a row of the latter kind that it gets, also from others of its cluster.
ASKED_ROW, RAGGED_GOT = (1.7e-3, 2.4e-3), 1.4e-3
RAGGED_READ = "128B"  # then L2 reads no more at a time

ROOM = 232_448 - 2_048  # bytes of shared memory for stages and results
FINISHING, NARROW = 16_384, 32  # of them for more parts of a tile that has an epilogue, if they have fewer columns
# With more stages CTAs drift apart and share less of what L2 reads; of small tiles, and of pairs.
MOST_STAGES, OF_SMALL = 8, 10
SINGLE, PAIRS, FOURS, EIGHTS = ((1, 1),), ((1, 2), (2, 1)), ((2, 2), (4, 1), (1, 4)), ((4, 2),)
# Rows of tiles, their columns and warpgroups, and the CTAs of clusters along M and along N.
CUTS = (
    (64, range(64, 257, 16), 1, SINGLE + PAIRS[:1] + FOURS[:2] + EIGHTS),
    (128, range(64, 257, 16), 2, SINGLE + PAIRS + FOURS + EIGHTS),
    (192, range(80, 193, 16), 3, SINGLE + PAIRS + FOURS[2:]),
    (256, range(112, 161, 16), 2, SINGLE + PAIRS),
)
# Parts of K, the CTAs of each, and the columns of their tiles, of 64 rows; with fewer steps other tiles are as quick.
PARTS, OF_PARTS, WIDE, LEAST_OF_PARTS = 2, ((1, 1), (4, 1)), range(128, 193, 32), 64
SMALL = 144  # rows and columns
MOST_OF_TWO = 128  # columns of a tile with two blocks of rows a warpgroup that is stored beside the next one
LINES = 16  # which divide the rows and columns of all tiles and clusters
LEAST_OF_FOUR = 80  # columns of tiles in clusters of four and eight
WIDEST, EQUAL = Config(128, 256, 4), 1.01
LEAST_STEPS = 20  # of clusters that have one tile: with fewer, more is gained by a next kernel that begins beside this one, which they keep out


@dataclass(frozen=True)
class Sizes:
    """What costs ask of a product.  `steps`: of 128 bytes of K.  `ragged`: whether rows of A, and of B, begin within a sector of L2.  `bits`: of
    a result.  `plain`: values of 16 bits and no epilogue.  `grouped`: there are `batch` groups of about m rows.  `gated`: B has 2 n columns."""

    m: int
    n: int
    steps: int
    batch: int = 1
    a_k_major: bool = True
    b_k_major: bool = True
    ragged: tuple[bool, bool] = (False, False)
    bits: int = 16
    plain: bool = False
    grouped: bool = False
    gated: bool = False

    @functools.cached_property
    def columns(self) -> int:
        return 2 * self.n if self.gated else self.n

    @functools.cached_property
    def dense(self) -> float:
        """The part of its effect that power has, by how many multiplications there are."""
        return min(1, 64 * self.steps * self.m * self.columns * self.batch / DENSE)

    @functools.cached_property
    def reading(self) -> float:
        """The microseconds that memory needs."""
        read = ROW * self.steps * (self.m + self.columns) + self.m * self.n * self.bits / 8
        return read * self.batch / BANDWIDTH

    @property
    def kinds(self) -> tuple:
        """What decides which tiles there are."""
        return self.a_k_major, self.b_k_major, self.bits, self.plain, self.grouped, self.gated


def whole_lines(m: int) -> int:
    """Rows rounded up, for which tiles and clusters are as many."""
    return -(-m // LINES) * LINES


def of_matrix(c: Config, s: Sizes) -> tuple[int, int]:
    """The rows and columns that tiles count."""
    return (s.columns, s.m) if c.turned else (s.m, s.columns)


def tiles_of(c: Config, s: Sizes) -> tuple[int, int]:
    """How many tiles of clusters lie below each other, and side by side."""
    rows, columns = of_matrix(c, s)
    return -(-rows // (c.bm * c.cm)), -(-columns // (c.bn * c.cn))


def clocks_of_shared(bm: int, bn: int, whole: bool = True) -> float:
    """Those that shared memory, which gives and takes 128 bytes a clock, needs for a step: copies write, and each block of 64 rows reads all
    columns.  whole: not if copies of columns are blocks of 64 of them."""
    return 2 * bm + (bn if whole else -(-bn // 64) * 64) + bn * bm / 64


@functools.cache
def step_microseconds(bm: int, bn: int, whole: bool = True, sharing: float = 1.0) -> float:
    return max(SHARED * sharing * clocks_of_shared(bm, bn, whole), TENSOR * bm * bn / 32) / CLOCKS


def sharing(c: Config, wide: bool, aligned: bool = False) -> float:
    """`wide`: whether the matrix has more columns than rows.  `aligned`: whether lines of K begin at multiples of LINE."""
    if c.parts > 1:
        return IN_PARTS[c.share] * (ALIGNED if aligned and c.share == 1 else 1)
    if c.bm == 64 and c.ctas == 1 and c.bn > 128 and wide:
        return ACROSS
    if c.bm == 64 and c.ctas == 2 and wide == (c.cn == 2):
        return CROSSED
    return SQUARE if c.bm == 64 and c.cm == c.cn == 2 else SHARING[c.ctas][c.bm > 64]


def asking(rows: int, columns: int, ragged: tuple[bool, bool]) -> float:
    """The microseconds that a CTA takes to ask for so many rows of 128 bytes of A, and of B, if some of them are ragged."""
    of_a, of_b = ragged
    return rows * ASKED_ROW[of_a] + columns * ASKED_ROW[of_b] if of_a or of_b else 0


def copying(c: Config, s: Sizes) -> float:
    """The microseconds that the copies of a CTA take for a step, if rows of A or B are ragged."""
    rows, columns = of_matrix(c, s)
    rows, columns = min(c.bm, rows), min(c.bn, columns)
    ragged = s.ragged[::-1] if c.turned else s.ragged
    got = RAGGED_GOT * (rows * ragged[0] + columns * ragged[1]) if c.once else 0
    return max(asking(rows // c.cn, columns // c.cm, ragged), got)


class Cost:
    """What a tile costs, so far as no size decides it: worked out once, because a new size asks some hundred tiles.  `whole`: as of
    `clocks_of_shared`; `bits`: of a result."""

    def __init__(self, c: Config, whole: bool, bits: int):
        self.c, self.turned, self.once, self.tall = c, c.turned, c.once, c.bm > 128
        self.high, self.wide, self.at_once = c.bm * c.cm, c.bn * c.cn, CLUSTERS[c.ctas]  # of a cluster
        self.longer, besides = SHALLOW if c.stages == 3 else (1, 0)
        if c.parts > 1:
            besides += EXCHANGED[c.share] + GOT * Exchange.of(c).landing
        of_step = functools.partial(step_microseconds, c.bm, c.bn, whole)
        self.steps = [[of_step(sharing(c, wide, aligned)) for wide in (False, True)] for aligned in (False, True)]
        stored = 0 if c.once else STORED * (c.bm / 64) * (c.bn / chunk_of(c.bn, bits)[0])
        self.of_wave = WAVE[c.bm] + besides + stored + CLUSTER[c.ctas]
        self.power = POWER * ((128 / c.bm + 256 / c.bn) / 2) ** READING
        self.wasted = WASTED if not whole and c.bn % 64 else 1
        self.start = START + FILL * (c.bm + c.bn)

    def waves(self, s: Sizes) -> int:
        rows, columns = (s.columns, s.m) if self.turned else (s.m, s.columns)
        return -(-(-(-rows // self.high) * -(-columns // self.wide) * s.batch) // self.at_once)

    def is_taken(self, s: Sizes, waves: int) -> bool:
        """Whether a tile is one for such a product.  A cluster that has one tile is, where all of them run at once; there others are as quick as
        those of more than 128 rows.  Parts of K read the larger operand seldom: four CTAs share its columns, or tiles are wide along the shorter
        side."""
        alone = waves == 1 and s.plain and s.batch == 1 and s.steps >= LEAST_STEPS
        if alone and self.c.parts > 1:
            rows, columns = of_matrix(self.c, s)
            wide = self.c.bn <= columns and (self.c.share > 1 or columns < rows)
            return wide and s.steps >= LEAST_OF_PARTS and not any(s.ragged)
        return alone if self.once else not (alone and self.tall)

    def reads_again(self, s: Sizes) -> bool:
        """Whether what L2 has of the larger operand goes to several clusters, maybe on both sides of L2."""
        (rows, columns), (down, across) = of_matrix(self.c, s), tiles_of(self.c, s)
        few, many, clusters = (rows, columns, down) if columns > rows else (columns, rows, across)
        return clusters > 1 and few <= FEW and many * s.steps * ROW > LARGE

    def microseconds(self, s: Sizes, waves: int) -> float:
        """About."""
        aligned = s.steps % (LINE // ROW) == 0 and (s.a_k_major or s.b_k_major)
        step = self.steps[aligned][s.m > s.columns if self.turned else s.columns > s.m]
        if s.ragged[0] or s.ragged[1]:
            step = max(step, copying(self.c, s))
        steps = -(-s.steps // self.c.parts)
        computing = waves * (steps * step * self.longer + self.of_wave) + ONCE * self.once
        if waves == 1 and s.steps >= LONG and self.reads_again(s):
            computing *= AGAIN
        return self.start + math.hypot(computing * (1 + self.power * s.dense) * self.wasted, s.reading)


@functools.cache
def cost_of(c: Config, whole: bool, bits: int) -> Cost:
    return Cost(c, whole, bits)


def cost_for(c: Config, s: Sizes) -> Cost:
    return cost_of(c, s.a_k_major if c.turned else s.b_k_major, s.bits)


def microseconds(c: Config, s: Sizes) -> float:
    """About."""
    cost = cost_for(c, s)
    return cost.microseconds(s, cost.waves(s))


def waves(c: Config, s: Sizes) -> int:
    return cost_for(c, s).waves(s)


def is_taken(c: Config, s: Sizes) -> bool:
    cost = cost_for(c, s)
    return cost.is_taken(s, cost.waves(s))


@functools.cache
def costs(a_k_major: bool, b_k_major: bool, bits: int, *rest) -> tuple[Cost, ...]:
    """Those of `tiles`."""
    found = tiles(a_k_major, b_k_major, bits, *rest)
    return tuple(cost_of(c, a_k_major if c.turned else b_k_major, bits) for c in found)


@functools.lru_cache(4096)
def quickest(s: Sizes) -> tuple[Config, float]:
    """The tile that takes least, and how many microseconds about."""
    turned = any(s.ragged)  # rows that are ragged are a little quicker as columns
    best, time, widest = None, math.inf, math.inf
    for cost in costs(*s.kinds):
        waves = cost.waves(s)
        if not cost.is_taken(s, waves):
            continue
        found = cost.microseconds(s, waves)
        if found < time or (found == time and cost.turned == turned != best.turned):
            best, time = cost, found
        if cost.c == WIDEST:
            widest = found
    # The widest reads least, and so takes least power.
    c, time = (WIDEST, widest) if widest < EQUAL * time else (best.c, time)
    return (replace(c, l2=RAGGED_READ) if turned else c), time


@functools.cache
def tiles(a_k_major: bool, b_k_major: bool, bits: int, plain: bool, grouped: bool, gated: bool) -> tuple[Config, ...]:
    """Those that there is room for, of the products that `Sizes.kinds` tells."""
    found = []
    for (bm, columns, consumers, shapes), turned in itertools.product(CUTS, (False, True)):
        whole = a_k_major if turned else b_k_major
        # Gates and ups are stored in parts of 128 bytes; of B (K, N) they are copied by 64 columns.
        unit = 2 * max(ROW * 8 // bits, 0 if whole else 64) if gated else 64 if grouped else bits if whole else 32
        for bn, (cm, cn) in itertools.product(columns, shapes):
            c = Config(bm, bn, consumers=consumers, cm=cm, cn=cn, turned=turned)
            simple = bm <= 128 and not turned and c.ctas <= (1 if grouped or gated else 2)
            few = c.ctas > 2 and bn < LEAST_OF_FOUR
            if few or bn % unit or (whole and bn % (8 * cm)) or not (plain or simple):
                continue
            if c.ctas <= 2 and (bm < 256 or bn <= MOST_OF_TWO):
                found.append(with_stages(c, whole, plain, bits))
            if plain and (c.ctas > 2 or bm > 128):
                found.append(with_one_tile(c, whole))
            if plain and bm == 64 and (cm, cn) in OF_PARTS and bn in WIDE:
                found.append(with_one_tile(replace(c, parts=PARTS), whole))
    return tuple(c for c in found if c.stages >= least_stages(c))


def least_stages(c: Config) -> int:
    """Three warpgroups that store narrow parts are slow with three stages: 192 x 160 took up to 1.1 of the time of others."""
    return 4 if c.bn % 64 and c.consumers == 3 else 3


def with_stages(c: Config, whole: bool, plain: bool, bits: int) -> Config:
    """The configuration with as many stages as there is room for beside what is being stored.  Values of 32 bits need as many registers as the
    accumulators, so a tile cannot be kept while the next one begins.  whole: as of `with_one_tile`."""
    part = chunk_of(c.bn, bits)[0]
    room = ROOM - c.consumers * 2 * 64 * part * bits // 8 - FINISHING * (not plain and part < NARROW)
    wide = c.bn if whole else -(-c.bn // 64) * 64
    most = OF_SMALL if c.bm + c.bn <= SMALL or c.ctas > 1 else MOST_STAGES
    return replace(c, stages=min(most, room // ((c.bm + wide) * ROW)), overlap=bits == 16)


def with_one_tile(c: Config, whole: bool) -> Config:
    """The configuration for clusters that have one tile each, with as many stages as there is room for.  whole: not if copies of a tile's columns
    are blocks of 64 of them, as of B (K, N)."""
    wide = c.bn if whole else -(-c.bn // 64) * 64
    return replace(
        c, stages=(ROOM - Exchange.of(c).landing) // ((c.bm + wide) * ROW), overlap=False, swing=False, once=True
    )
