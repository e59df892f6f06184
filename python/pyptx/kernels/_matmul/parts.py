"""Products of few tiles and a long K, as of gradients of weights: whether and how K is split (`_matmul/split.py`)."""

import functools

from pyptx.kernels._epilogue import NOTHING, Epilogue
from pyptx.kernels._matmul.arguments import width_of
from pyptx.kernels._matmul.choice import Problem, engine, microseconds_in_one
from pyptx.kernels._matmul.costs import asking, step_microseconds
from pyptx.kernels._matmul.split import Split, shares_of, split_kernel, sums_kernel
from pyptx.kernels._matmul.tiles import MULTIPROCESSORS, ROW
from pyptx.types import PtxType, bf16, f16, f32

__all__ = ["InParts", "in_parts"]

LEAST = 2048  # of K
LESS = 0.4  # microseconds less than in one part, which two kernels have to take

TILES = (
    (64, 64), (64, 96), (64, 128), (64, 192), (64, 256), (128, 64), (128, 96), (128, 112), (128, 128), (128, 144), (128, 192),
    (192, 96), (192, 128),
)  # fmt: skip
ALONE = 64  # parts of one tile of 64 x 64, of which, as they read most from L2, there is one at most; more parts take longer to add up
# Microseconds, fitted as those of `costs.py`: of both kernels besides, and of each byte between them.
KERNELS, LEFT = 2.35, 0.47e-6
DRIFTING = 1.15  # how much longer a step takes, as CTAs share less of what L2 reads
BANDWIDTH = 4.4e6  # bytes of a microsecond
BESIDE = 0.16  # how much of reading or of multiplying, of what is shorter, is not hidden


class InParts:
    """The kernels as one: (A, B, ...) -> C."""

    def __init__(
        self, split: Split, dtype: PtxType, a_k_major: bool, b_k_major: bool, out: PtxType, epilogue: Epilogue = NOTHING
    ):
        batched = split.batch is not None
        self.products = split_kernel(split.bm, split.bn, batched, dtype, a_k_major, b_k_major)
        self.sums = sums_kernel(*shares_of(split.parts), batched, out, epilogue)
        self.left, self.sizes = split.left, {"M": split.m, "N": split.n}

    def __call__(self, a, b, *more, out=None):
        made = self.products(a, b, **self.left)
        return self.sums(made, *more, **self.sizes) if out is None else self.sums(made, *more, out=out)


def in_parts(p: Problem) -> InParts | None:
    """The kernels for a problem; None where one part does not take much longer, or where the product cannot be made so."""
    plain = not (p.epilogue.gated or p.epilogue.scales or p.apart)
    taken = p.dtype in (bf16, f16) or (p.dtype == f32 and p.b_k_major)
    if not (plain and taken and p.k >= LEAST):
        return None
    if engine(p.on_gpu, p.dtype, p.a_width, p.b_width, p.out_width, width_of(p.n * 4)) != "sm_90a":
        return None
    split = quickest(p)
    return split and _made(split, p.dtype, p.a_k_major, p.b_k_major, p.out, p.epilogue)


_made = functools.lru_cache(4096)(InParts)


@functools.lru_cache(4096)
def quickest(p: Problem) -> Split | None:
    """How K is split; None where one part does not take much longer."""
    found = []
    for bm, bn in TILES:
        if bn % 64 and not p.b_k_major and p.n > bn:
            continue  # where a tile begins within a line of memory
        tiles = Split(p.m, p.n, bm, bn, 1, p.batch).tiles
        most = ALONE if (bm, bn) == (64, 64) else MULTIPROCESSORS // tiles
        parts = min(most, p.k * p.dtype.bits // (8 * ROW))
        if parts > 1 and (tiles == 1 or (bm, bn) != (64, 64)):
            found.append(Split(p.m, p.n, bm, bn, parts, p.batch))
    best = min(found, key=lambda split: microseconds(p, split), default=None)
    return best if best and microseconds(p, best) + LESS < microseconds_in_one(p) else None


def microseconds(p: Problem, split: Split) -> float:
    """About."""
    steps = -(-p.k * p.dtype.bits // (8 * ROW * split.parts))
    reading = p.k * (p.m + p.n) * (p.batch or 1) * p.dtype.bits / 8 / BANDWIDTH
    step = DRIFTING * step_microseconds(split.bm, split.bn, p.b_k_major)
    multiplying = steps * max(step, asking(split.bm, split.bn, (p.a_width == 16, p.b_width == 16)))
    return KERNELS + split.bytes * LEFT + max(reading, multiplying) + BESIDE * min(reading, multiplying)
