"""Which tiles of `_matmul/mma.py` take least, by costs that were measured on an H200 (docs/performance/products.md)."""

import functools
from dataclasses import replace

from pyptx.kernels._matmul.mma import Cut
from pyptx.kernels._matmul.mma_loads import ROW
from pyptx.kernels._matmul.tiles import MULTIPROCESSORS

__all__ = ["cut_of", "microseconds", "parts_by_mma", "small_cut"]

LAUNCH = 1.5  # microseconds
WIDE = Cut()
# A cut, and the microseconds of 128 bytes of K of a tile, alone on its multiprocessor and beside others: where 2, 4 and 8 bytes divide the
# addresses of A and B.
COSTS = (
    (WIDE, {2: (2.1, 2.1), 4: (1.8, 1.5), 8: (1.5, 0.95)}),
    (Cut(128, 64, 4, 2), {2: (1.6, 1.5), 4: (1.0, 0.95), 8: (1.0, 0.6)}),
    (Cut(64, 64, 2, 4), {2: (0.9, 0.85)}),
    (Cut(64, 64, 2, 2), {4: (0.75, 0.55), 8: (0.6, 0.4)}),
    (Cut(64, 32, 2, 2), {2: (0.8, 0.55), 4: (0.6, 0.38), 8: (0.43, 0.25)}),
    (Cut(32, 64, 2, 2), {2: (0.8, 0.55), 4: (0.6, 0.38), 8: (0.43, 0.25)}),
    (Cut(32, 32, 2, 2), {2: (0.6, 0.36), 4: (0.5, 0.25), 8: (0.4, 0.3)}),
    (Cut(16, 64, 1, 4), {2: (0.65, 0.4), 4: (0.55, 0.3), 8: (0.5, 0.25)}),
    (Cut(64, 16, 4, 1), {2: (0.65, 0.4), 4: (0.55, 0.3), 8: (0.45, 0.22)}),
)
# With K of one step: the microseconds of a tile, if A and B go by copies of 8 bytes or more, and if not.
ONCE = (
    (Cut(128, 128, 2, 4, 1), 2.9, 4.1),
    (Cut(128, 64, 4, 2, 1), 1.8, 2.0),
    (Cut(64, 64, 2, 2, 1), 0.85, 1.13),
    (Cut(32, 32, 2, 2, 1), 0.37, 0.44),
    (Cut(16, 128, 1, 4, 1), 0.6, 0.9),
    (Cut(32, 32, 1, 1, 1, apart=4), 0.22, 0.41),
    (Cut(16, 16, 1, 1, 1, apart=4), 0.1, 0.15),
)


def tiles(cut: Cut, m: int, n: int, batch: int) -> int:
    return -(-m // cut.bm) * -(-n // cut.bn) * batch


@functools.lru_cache(4096)
def quickest(m: int, n: int, bytes_: int, batch: int, width: int) -> tuple[float, Cut]:
    """(microseconds, the cut).  `bytes_`: of K."""
    steps = -(-bytes_ // ROW)
    if steps == 1:
        costs = [(cut, by_copies if width >= 8 else by_loads) for cut, by_copies, by_loads in ONCE]
        times = [(max(1, tiles(cut, m, n, batch) / MULTIPROCESSORS) * cost, cut) for cut, cost in costs]
    else:
        known = min(8, max(2, width))
        costs = [(cut, *by_width[known]) for cut, by_width in COSTS if known in by_width]
        times = [
            (steps * max(alone, -(-tiles(cut, m, n, batch) // MULTIPROCESSORS) * beside), cut)
            for cut, alone, beside in costs
        ]
    time, cut = min(times, key=lambda each: each[0])
    return LAUNCH + time, cut


def microseconds(m: int, n: int, bytes_: int, batch: int, width: int) -> float:
    """About what mma.sync takes."""
    return quickest(m, n, bytes_, batch, width)[0]


def cut_of(m: int, n: int, bytes_: int, batch: int, width: int) -> Cut:
    return shallow(quickest(m, n, bytes_, batch, width)[1], bytes_)


SUM, BANDWIDTH = 3.0, 2.5e6  # microseconds of adding up parts, and bytes of a microsecond
GAIN = 0.85  # of the time in one part


@functools.lru_cache(4096)
def parts_by_mma(m: int, n: int, bytes_: int, width: int, at_most: float) -> tuple[int, Cut]:
    """(how many parts of K take least, their cut); one part if they do not take much less than one, or than `at_most`."""

    def of(parts: int):
        time, cut = quickest(m, n, -(-bytes_ // (parts * ROW)) * ROW, parts, width)
        return time + SUM + 8 * parts * m * n / BANDWIDTH, parts, cut

    (whole, cut), most = quickest(m, n, bytes_, 1, width), min(bytes_ // (4 * ROW), 2 * MULTIPROCESSORS)
    time, parts, parted = min(
        (of(parts) for parts in range(2, most + 1)), default=(whole, 1, cut), key=lambda each: each[0]
    )
    return (parts, parted) if time < GAIN * min(whole, at_most) else (1, cut)


def shallow(cut: Cut, bytes_: int) -> Cut:
    """The cut whose single stage has no more of K than there is."""
    return replace(cut, deep=max(32, 1 << (bytes_ - 1).bit_length())) if cut.stages == 1 and bytes_ < ROW else cut


SMALL = 64  # rows and columns of matrices of a batch, or columns of a tall one
TALL = 65536  # rows


def small_cut(m: int, n: int, bytes_: int, batch: int) -> Cut | None:
    """A cut that is quicker than wgmma, or None.  There is one for many small matrices, since a multiprocessor multiplies one at a time by wgmma, and for many
    short rows."""
    if n <= SMALL and bytes_ <= 2 * ROW and m * batch >= TALL and m > 4 * SMALL:
        warps = 8 if bytes_ <= 32 else 4
        return shallow(Cut(32 * warps, max(16, 1 << (n - 1).bit_length()), warps, 1, 1), bytes_)
    if batch == 1 or min(m, n) > SMALL or bytes_ > 4096:
        return None
    if max(m, n) <= 16:
        cut = Cut(16, 16, 1, 1, 1, apart=4)
    elif min(m, n) <= 32 and max(m, n) <= (SMALL if bytes_ <= ROW else 32):
        cut = Cut(32, 32, 1, 1, 1 if bytes_ <= 4 * ROW else 3, apart=4)
    elif m <= 16 and n > SMALL and bytes_ <= 2 * ROW:
        cut = Cut(16, 128, 1, 4, 1)
    elif min(m, n) > 32 and max(m, n) <= 4 * SMALL and bytes_ <= 4 * ROW:
        cut = Cut(64, 64, 2, 2, 1)
    else:
        return None
    return shallow(cut, bytes_) if tiles(cut, m, n, batch) >= MULTIPROCESSORS else None
