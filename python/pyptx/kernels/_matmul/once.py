"""What tiles of wgmma cost, and which take least where there is one for each multiprocessor: each cluster has one tile (`Config.once`).

The costs were measured on an H200 (docs/performance/products.md).  They explain tiles that no table has: what bounds a step is shared memory,
the tensor cores, or copies of rows that begin within a sector of L2.  How much of that bound is reached depends on the cluster, because
CTAs that share rows read less from L2.
"""

import functools
import itertools
from dataclasses import replace

from pyptx.kernels._matmul.tiles import CLUSTERS, ROW, Config

__all__ = ["CLOCKS", "LEAST_K", "copying", "in_one_wave", "shared_clocks", "step_clocks", "tiles", "with_one_tile"]

ROOM = 232_448 - 2_048  # bytes of shared memory for stages
CLOCKS = 1900  # of a microsecond
WAVE, WIDE_WAVE = 2.6, 3.4  # microseconds besides the steps: of tiles of up to 128 rows, and of larger ones
POWER = 1.12  # how much longer products take than the tensor cores alone

# Rows of tiles, their columns, and by the CTAs of a cluster along M and along N the time of a step by that of what bounds it.
CLUSTERED = (
    (64, range(80, 129, 16), {(1, 2): 1.04, (2, 2): 0.90, (4, 1): 0.84, (4, 2): 0.84}),
    (64, range(144, 193, 16), {(1, 2): 1.04, (2, 2): 1.00, (4, 1): 0.91, (4, 2): 0.91}),
    (128, range(80, 113, 16), {(1, 2): 1.04, (2, 2): 0.98, (1, 4): 0.95, (2, 4): 0.95}),
    (128, range(128, 161, 16), {(1, 2): 1.15, (2, 2): 1.15, (1, 4): 1.15, (2, 4): 1.15}),
    (192, range(80, 193, 16), {(1, 1): 1.12, (1, 2): 1.12, (2, 1): 1.12, (1, 4): 1.12}),
    (256, range(80, 161, 16), {(1, 1): 1.12, (1, 2): 1.13, (2, 1): 1.13}),
)
LEAST_K = 1280  # with less, more is gained by a next kernel that begins beside this one, which clusters of all of the GPU keep out
LEAST_STAGES = 4

# Microseconds of a row of 128 bytes that a CTA asks for, where rows begin within a sector of L2 (strides of 16 bytes modulo 32) and where they
# do not; and of a row of the first kind that it gets, also from others of its cluster.
RAGGED_ROW, ROW_OF_SECTORS, RAGGED_GOT = 2.6e-3, 1.5e-3, 1.55e-3


def step_clocks(bm: int, bn: int, wide: int = 0) -> float:
    """Clocks of 128 bytes of K of a tile.  `wide`: how many columns are copied, if more than the tile has."""
    return max(shared_clocks(bm, bn, wide), POWER * bm * bn / 32)


def shared_clocks(bm: int, bn: int, wide: int = 0) -> float:
    """Those of shared memory, which gives and takes 128 bytes a clock: copies write, and each block of 64 rows reads all columns."""
    return 2 * bm + max(bn, wide) + bn * bm / 64


def copying(c: Config, ragged: tuple[bool, bool]) -> float:
    """The microseconds that the copies of a CTA take for each 128 bytes of K, if rows of A or B are ragged."""
    if not any(ragged):
        return 0
    of_rows, of_columns = ragged[::-1] if c.turned else ragged
    asked = [RAGGED_ROW if each else ROW_OF_SECTORS for each in (of_rows, of_columns)]
    got = RAGGED_GOT * (c.bm * of_rows + c.bn * of_columns) if c.once else 0
    return max(c.bm // c.cn * asked[0] + c.bn // c.cm * asked[1], got)


@functools.cache
def tiles(b_k_major: bool) -> tuple[tuple[Config, float], ...]:
    """Those that there is room for, and the microseconds of their steps.  Columns of B (K, N) that are no whole blocks of 64 are taken turned
    only."""
    found = []
    for bm, columns, clusters in CLUSTERED:
        for bn, ((cm, cn), factor) in itertools.product(columns, clusters.items()):
            if bn % (8 * cm):  # a CTA copies rows of whole patterns of the swizzle
                continue
            c = Config(bm, bn, consumers=bm // 64 if bm < 256 else 2, cm=cm, cn=cn)
            both = [replace(c, turned=True)] + [c] * (b_k_major or bn % 64 == 0)
            found += [
                (with_one_tile(each, b_k_major or each.turned), factor * step_clocks(bm, bn) / CLOCKS) for each in both
            ]
    return tuple(each for each in found if each[0].stages >= LEAST_STAGES)


def with_one_tile(c: Config, whole: bool) -> Config:
    """The configuration for clusters that have one tile each, with as many stages as there is room for.  whole: not if copies of a tile's columns
    are blocks of 64 of them, as of B (K, N)."""
    wide = c.bn if whole else -(-c.bn // 64) * 64
    return replace(c, stages=ROOM // ((c.bm + wide) * ROW), overlap=False, swing=False, once=True)


def in_one_wave(m: int, n: int, k: int, b_k_major: bool, ragged: tuple[bool, bool]) -> tuple[Config, float] | None:
    """The configuration that takes least, of those whose clusters all run at once, and how many microseconds about; None if there is none.  Of
    equal ones it is that which reads least, and a turned one, which was up to 5 % quicker where rows are ragged."""
    if k < LEAST_K:
        return None

    def clusters(c):
        rows, columns = (n, m) if c.turned else (m, n)
        return -(-rows // (c.bm * c.cm)) * -(-columns // (c.bn * c.cn))

    def cost(c, step):
        time = (WAVE if c.bm <= 128 else WIDE_WAVE) + -(-k // 64) * max(step, copying(c, ragged))
        return time, clusters(c) * (c.bm * c.cm + c.bn * c.cn)

    found = [(c, cost(c, step)) for c, step in tiles(b_k_major) if clusters(c) <= CLUSTERS[c.ctas]]
    c, (time, _) = min(found, key=lambda each: each[1], default=(None, (0, 0)))
    return c and (c, time)
