"""Products of few tiles and a long K, as of gradients of weights: whether and how K is split (`_matmul/split.py`)."""

import functools

from pyptx.kernels._epilogue import NOTHING
from pyptx.kernels._matmul.arguments import width_of
from pyptx.kernels._matmul.choice import Problem, engine, microseconds_in_one
from pyptx.kernels._matmul.once import CLOCKS, step_clocks
from pyptx.kernels._matmul.split import Split, split_kernel, sums_kernel
from pyptx.kernels._matmul.tiles import MULTIPROCESSORS, ROW
from pyptx.types import PtxType, bf16, f16, f32

__all__ = ["InParts", "in_parts"]

LEAST = 2048  # of K
LESS = 0.7  # microseconds less than in one part, which two kernels have to take

TILES = (
    (64, 64), (64, 96), (64, 128), (64, 192), (64, 256), (128, 64), (128, 96), (128, 112), (128, 128), (128, 144), (128, 192),
    (192, 96), (192, 128),
)  # fmt: skip
ALONE = 64  # parts of one tile of 64 x 64, of which, as they read most from L2, there is one at most; more parts take longer to add up
# Microseconds, measured on an H200: of both kernels besides, and of each byte between them; of each row outside of a matrix that copies fill with
# zeros (docs/performance/products.md).
KERNELS, LEFT, OUTSIDE = 2.1, 0.6e-6, 6.5e-3
BANDWIDTH = 4.1e6  # bytes of a microsecond
BESIDE = 0.1  # how much of reading or of multiplying, of what is shorter, is not hidden


class InParts:
    """The kernels as one: (A, B) -> C."""

    def __init__(self, split: Split, dtype: PtxType, a_k_major: bool, b_k_major: bool, out: PtxType):
        self.products, self.sums = split_kernel(split, dtype, a_k_major, b_k_major), sums_kernel(split, out)

    def __call__(self, a, b, out=None):
        made = self.products(a, b)
        return self.sums(made) if out is None else self.sums(made, out=out)


def in_parts(p: Problem) -> InParts | None:
    """The kernels for a problem; None where one part does not take much longer, or where the product cannot be made so."""
    plain = p.batch is None and p.epilogue == NOTHING and p.dtype in (bf16, f16, f32) and p.k >= LEAST
    plain = plain and (p.b_k_major or p.dtype != f32)
    if not plain or engine(p.on_gpu, p.dtype, p.a_width, p.b_width, p.out_width, width_of(p.n * 4)) != "sm_90a":
        return None
    split = quickest(p)
    return split and _made(split, p.dtype, p.a_k_major, p.b_k_major, p.out)


_made = functools.cache(InParts)


@functools.lru_cache(4096)
def quickest(p: Problem) -> Split | None:
    """How K is split; None where one part does not take much longer."""
    found = []
    for bm, bn in TILES:
        if bn % 64 and not p.b_k_major and p.n > bn:
            continue  # where a tile begins within a line of memory
        tiles = Split(p.m, p.n, bm, bn, 1).tiles
        most = ALONE if (bm, bn) == (64, 64) else MULTIPROCESSORS // tiles
        parts = min(most, p.k * p.dtype.bits // (8 * ROW))
        if parts > 1 and (tiles == 1 or (bm, bn) != (64, 64)):
            found.append(Split(p.m, p.n, bm, bn, parts))
    best = min(found, key=lambda split: microseconds(p, split), default=None)
    return best if best and microseconds(p, best) + LESS < microseconds_in_one(p) else None


def microseconds(p: Problem, split: Split) -> float:
    """About."""
    steps = -(-p.k * p.dtype.bits // (8 * ROW * split.parts))
    outside = rows_outside(p.m, split.bm, p.a_k_major) + rows_outside(p.n, split.bn, p.b_k_major)
    reading = p.k * (p.m + p.n) * p.dtype.bits / 8 / BANDWIDTH
    wide = 0 if p.b_k_major else -(-split.bn // 64) * 64
    multiplying = steps * (step_clocks(split.bm, split.bn, wide) / CLOCKS + outside * OUTSIDE)
    return KERNELS + split.bytes * LEFT + max(reading, multiplying) + BESIDE * min(reading, multiplying)


def rows_outside(size: int, tile: int, k_major: bool) -> int:
    """How many rows of 128 bytes of the last tile's copies have nothing of the matrix."""
    last = (size - 1) % tile + 1
    return tile - last if k_major else 64 * (-(-tile // 64) - -(-last // 64))
