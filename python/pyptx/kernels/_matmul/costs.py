"""What any tile of wgmma costs, whether a table has it or not, and which takes least.

The costs were fitted to 827 times of 270 shapes that were measured on an H200 (docs/performance/products.md), with a mean error of 5 %.  What bounds a step
is shared memory or the tensor cores; a product takes as long as its waves, or as memory needs for what it reads and writes.
"""

import functools
import itertools
from dataclasses import replace

from pyptx.kernels._matmul.once import LEAST_K, shared_clocks, with_one_tile
from pyptx.kernels._matmul.store import chunk_of
from pyptx.kernels._matmul.tiles import CLUSTERS, ROW, Config

__all__ = ["CLOCKS", "clusters", "microseconds", "quicker", "tiles", "whole_lines"]

CLOCKS = 1850  # of a microsecond
# How much of what shared memory is found to need, and of the tensor cores' clocks, a step takes.
SHARED, TENSOR = 0.974, 1.117
SHARING = {1: 1.0, 2: 0.97, 4: 0.83, 8: 0.83}  # of the former by the CTAs of a cluster, which then read less from L2
# Microseconds: of a product besides; by the rows and columns of the first tile; of a wave besides, by the rows of its tiles and of each column; of a wave
# of clusters; of clusters that have one tile.
START, FILL, COLUMN, ONCE = 0.72, 0.0058, 0.0026, 0.63
WAVE = {64: 0.24, 128: 0.45, 192: 0.59, 256: 0.93}
CLUSTER = {1: 0.0, 2: 0.34, 4: 0.75, 8: 0.75}
BANDWIDTH = 4.45e6  # bytes of a microsecond
WASTED = 1.08  # how much longer, where blocks of 64 columns are wider than the tile
POWER, DENSE = 0.044, 4e10  # how much longer products take, and of how many multiplications, as power lowers the clock

ROOM = 232_448 - 2_048  # bytes of shared memory for stages and results
FINISHING = 16_384  # of them for an epilogue
MOST_STAGES = 10
SINGLE, PAIRS, MORE = ((1, 1),), ((1, 2), (2, 1)), ((4, 1), (4, 2))
# Rows of tiles, their columns and warpgroups, and the CTAs of clusters along M and along N.
CUTS = (
    (64, range(64, 257, 16), 1, SINGLE + PAIRS[:1] + MORE),
    (128, range(64, 257, 16), 2, SINGLE + PAIRS + MORE),
    (192, range(80, 193, 16), 3, SINGLE + PAIRS),
    (256, range(112, 161, 16), 2, SINGLE + PAIRS),
)
MOST_OF_TWO = 128  # columns of a tile with two blocks of rows a warpgroup that is stored beside the next one
LEAST_OF_FOUR = 80  # columns of tiles in clusters of four and eight; no fewer than rows

LINES = 16  # which divide the rows and columns of all tiles and clusters
GAIN = 0.954  # of the time of the table's choice


def microseconds(c: Config, m: int, n: int, k: int, whole: bool = True) -> float:
    """About, of a product of 16-bit values.  whole: not if copies of a tile's columns are blocks of 64 of them."""
    waves, wide = -(-clusters(c, m, n) // CLUSTERS[c.ctas]), 0 if whole else -(-c.bn // 64) * 64
    step = max(SHARED * SHARING[c.ctas] * shared_clocks(c.bm, c.bn, wide), TENSOR * c.bm * c.bn / 32) / CLOCKS
    computing = waves * (-(-k // 64) * step + WAVE[c.bm] + COLUMN * c.bn + CLUSTER[c.ctas]) + ONCE * c.once
    computing *= (1 + POWER * min(1, m * n * k / DENSE)) * (WASTED if wide > c.bn and not c.once else 1)
    reading = 2 * (m * k + n * k + m * n) / BANDWIDTH
    return START + FILL * (c.bm + c.bn) + (computing**3 + reading**3) ** (1 / 3)


def of_matrix(c: Config, m: int, n: int) -> tuple[int, int]:
    """The rows and columns that tiles count."""
    return (n, m) if c.turned else (m, n)


def clusters(c: Config, m: int, n: int) -> int:
    rows, columns = of_matrix(c, m, n)
    return -(-rows // (c.bm * c.cm)) * -(-columns // (c.bn * c.cn))


@functools.lru_cache(4096)
def quicker(c: Config, m: int, n: int, k: int, a_k_major: bool, b_k_major: bool, plain: bool) -> tuple[Config, float]:
    """The configuration, or another one that takes much less, and how many microseconds about."""
    best = quickest(whole_lines(m), n, k, a_k_major, b_k_major, plain)
    ours, table = (microseconds(each, m, n, k, a_k_major if each.turned else b_k_major) for each in (best, c))
    return (best, ours) if ours < GAIN * table else (c, table)


@functools.lru_cache(4096)
def quickest(m: int, n: int, k: int, a_k_major: bool, b_k_major: bool, plain: bool) -> Config:
    """Of all tiles that are taken."""

    def of(each: Config) -> float:
        return microseconds(each, m, n, k, a_k_major if each.turned else b_k_major)

    return min((each for each in tiles(a_k_major, b_k_major, plain) if is_taken(each, m, n, k)), key=of)


def whole_lines(m: int) -> int:
    """Rows rounded up, for which tiles and clusters are as many."""
    return -(-m // LINES) * LINES


def is_taken(c: Config, m: int, n: int, k: int) -> bool:
    """Whether a configuration is one for such a matrix.  Tiles of 64 rows lie across the longer side, so that fewer of them read what is larger: it
    may come from memory more than once, as CTAs drift apart."""
    rows, columns = of_matrix(c, m, n)
    if c.bm == 64 and columns > rows:
        return False
    alone = k >= LEAST_K and clusters(c, m, n) <= CLUSTERS[c.ctas]
    return alone if c.once else not (alone and c.bm > 128)


@functools.cache
def tiles(a_k_major: bool, b_k_major: bool, plain: bool) -> tuple[Config, ...]:
    """Those that there is room for.  plain: without an epilogue."""
    found = []
    for (bm, columns, consumers, shapes), turned in itertools.product(CUTS, (False, True)):
        whole = a_k_major if turned else b_k_major
        for bn, (cm, cn) in itertools.product(columns, shapes):
            c = Config(bm, bn, consumers=consumers, cm=cm, cn=cn, turned=turned)
            few = c.ctas > 2 and bn < max(bm, LEAST_OF_FOUR)
            if few or bn % (8 * cm if whole else 32) or not (plain or (bm <= 128 and c.ctas <= 2 and not turned)):
                continue
            if c.ctas <= 2 and (bm < 256 or bn <= MOST_OF_TWO) and (whole or bn % 64 == 0):
                found.append(with_stages(c, plain))
            if plain and (c.ctas > 2 or bm > 128):
                found.append(with_one_tile(c, whole))
    return tuple(c for c in found if c.stages >= least_stages(c))


def least_stages(c: Config) -> int:
    """Three warpgroups that store narrow parts are slow with three stages: 192 x 160 took up to 1.1 of the time of the table's tile."""
    return 4 if c.consumers == 3 and c.bn % 64 else 3


def with_stages(c: Config, plain: bool) -> Config:
    """The configuration with as many stages as there is room for beside what is being stored."""
    room = ROOM - c.consumers * 2 * 64 * chunk_of(c.bn, 16)[0] * 2 - FINISHING * (not plain)
    return replace(c, stages=min(MOST_STAGES, room // ((c.bm + c.bn) * ROW)))
