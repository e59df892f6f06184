"""Products of few tiles and a long K, as of gradients of weights: K in parts that fill the GPU, whose results in f32 a second kernel adds up.

The parts are one batched product of views of A and B.  The order of the sum is fixed, and it is rounded once.
"""

import functools
from dataclasses import replace

from pyptx.kernels._epilogue import NOTHING
from pyptx.kernels._matmul_arguments import width_of
from pyptx.kernels._matmul_choice import Problem, configuration, engine, kernel_of, stream_of
from pyptx.kernels._matmul_tiles import MULTIPROCESSORS
from pyptx.kernels.column_sums import column_sums
from pyptx.types import bf16, f16, f32

__all__ = ["InParts", "parts_of"]

LEAST = 2048  # of K; a shorter one is not worth a second launch
STEP, CLOCKS = 64, 1850  # elements of K, and clocks of a microsecond
WAVE, SUM = 2.0, 4.0  # microseconds of a wave besides its steps, and of the second kernel besides its bytes
BANDWIDTH = 3.5e6  # bytes of a microsecond
GAIN = 0.85  # of the time in one part


class InParts:
    """The kernels as one: (A, B) -> C."""

    def __init__(self, parts: int, p: Problem):
        self.parts, self.a_k_major, self.b_k_major = parts, p.a_k_major, p.b_k_major
        self.kernel, self.sums = kernel_of(one_of(p, parts)), column_sums(p.out, hopper=True)

    def __call__(self, a, b, out=None):
        made = self.kernel(self.cut(a, self.a_k_major), self.cut(b, self.b_k_major))
        sums = self.sums(made.view(self.parts, -1), **({} if out is None else {"out": out.view(-1)}))
        return sums.view(made.shape[1:]) if out is None else out

    def cut(self, matrix, k_major: bool):
        """(parts, rows, K of a part), or (parts, K of a part, rows): a view."""
        return (
            matrix.unflatten(1, (self.parts, -1)).transpose(0, 1) if k_major else matrix.unflatten(0, (self.parts, -1))
        )


def one_of(p: Problem, parts: int) -> Problem:
    """The batched product of the parts."""
    k = p.k // parts
    width = width_of(k * p.dtype.bits // 8)
    a_width, b_width = (
        min(each, width) if k_major else each for each, k_major in ((p.a_width, p.a_k_major), (p.b_width, p.b_k_major))
    )
    return replace(p, k=k, batch=parts, out=f32, a_width=a_width, b_width=b_width, out_width=width_of(p.n * 4))


def parts_of(p: Problem) -> int:
    """How many parts take least; 1 where that is not much less than one takes, or where the product cannot be made so."""
    plain = p.batch is None and p.epilogue == NOTHING and p.dtype in (bf16, f16, f32) and p.k >= LEAST
    if not plain or engine(p.on_gpu, p.dtype, p.a_width, p.b_width, p.out_width, width_of(p.n * 4)) != "sm_90a":
        return 1
    return _quickest(p)


@functools.lru_cache(4096)
def _quickest(p: Problem) -> int:
    if -(-p.m // 128) * -(-p.n // 128) > MULTIPROCESSORS // 2:
        return 1
    unit = 128 // p.dtype.bits if p.a_k_major or p.b_k_major else 1
    times = {parts: microseconds(p, parts) for parts in range(2, MULTIPROCESSORS + 1) if p.k % (parts * unit) == 0}
    parts = min(times, key=times.get, default=1)
    return parts if parts > 1 and times[parts] < GAIN * microseconds(p, 1) else 1


def microseconds(p: Problem, parts: int) -> float:
    """About; what bounds a step of a tile is shared memory (docs/performance/products.md)."""
    k = p.k * p.dtype.bits // 16 // parts
    c = configuration(p.m, p.n, k, parts, p.out.bits if parts == 1 else 32, p.b_k_major)
    waves = -(-(-(-p.m // c.bm) * -(-p.n // c.bn) * parts) // MULTIPROCESSORS)
    streamed = stream_of(p.m, p.n, p.k).parts if parts == 1 and p.m <= 128 and p.a_k_major else 1
    step = (2 * c.bm + c.bn * (1 + c.bm / 64)) / CLOCKS
    reading = p.k * (p.m + p.n) * p.dtype.bits / 8 / BANDWIDTH
    took = max(reading if parts > 1 else 0, waves * (-(-k // STEP) * step / streamed + WAVE))
    return took if parts == 1 else took + SUM + parts * p.m * p.n * 8 / BANDWIDTH
