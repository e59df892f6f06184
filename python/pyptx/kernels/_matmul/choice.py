"""Which kernel multiplies, and in which configuration: chosen by the sizes, types and addresses of a product.

Tiles take what `costs.py` says; of few rows, streams and tiles that fill the GPU once have rules that were measured on an H200.
"""

import functools
import math
from dataclasses import dataclass, replace

from pyptx.kernels._epilogue import NOTHING, Epilogue
from pyptx.kernels._matmul.arguments import NAMES, width_of
from pyptx.kernels._matmul.blackwell import blackwell_cut, blackwell_kernel
from pyptx.kernels._matmul.costs import (
    CLOCKS,
    WIDEST,
    Sizes,
    quickest,
    tiles_of,
    waves,
    whole_lines,
    with_one_tile,
    with_stages,
)
from pyptx.kernels._matmul.cuts import cut_of, small_cut
from pyptx.kernels._matmul.hopper import product_kernel
from pyptx.kernels._matmul.mma import Cut, mma_kernel
from pyptx.kernels._matmul.stream import StreamConfig, stream_kernel
from pyptx.kernels._matmul.tiles import CLUSTERS, MOST_GROUPS, MULTIPROCESSORS, ROW, Config
from pyptx.kernels._target import family
from pyptx.types import PtxType, bf16, e4m3, f32, s8

__all__ = [
    "BLOCKS",
    "OF_BLOCKS",
    "OF_LINES",
    "ONCE",
    "PAIR",
    "PARTED",
    "WIDEST",
    "WIDE_BLOCKS",
    "Problem",
    "blackwell_cut",
    "blocks_of",
    "engine",
    "fills_once",
    "grouped_kernel",
    "kernel_of",
    "lies_by_columns",
    "microseconds_in_one",
    "mma_of",
    "parted_kernel",
    "scaled_stream_of",
    "sizes_of",
    "stream_of",
    "streams",
    "streams_few",
    "tile_of",
    "with_tail",
]


@dataclass(frozen=True)
class Problem:
    """What decides how a product is computed.  `batch`: how many matrices, None for one without that dimension.  A is stored (M, K), or
    (K, M) if it is not K-major; B is stored (N, K), or (K, N).  `a_width`, `b_width`, `out_width`: the power of two, up to 32 bytes, that
    divides the address and the strides.  `on_gpu`: False on the simulator.  `pitched`: C has gaps between its rows.
    `turned`: the result is C^T, of a stream.  `packed`: A and B have no gaps between their rows.  `apart`: the batch has two dimensions, with
    any strides."""

    m: int
    n: int
    k: int
    batch: int | None
    dtype: PtxType
    out: PtxType
    a_k_major: bool = True
    b_k_major: bool = True
    a_width: int = 32
    b_width: int = 32
    out_width: int = 32
    epilogue: Epilogue = NOTHING
    on_gpu: bool = True
    pitched: bool = False
    turned: bool = False
    packed: bool = True
    apart: bool = False


def engine(on_gpu: bool, dtype: PtxType, *widths: int) -> str:
    """Which instructions multiply: "sm_90a", wgmma; "sm_100a" or "sm_103a", tcgen05; "", mma.sync.  The first two need matrices that TMA can
    address, with `widths` of 16 bytes or more, and sm_103a has no tcgen05 for s8."""
    found = family(on_gpu) if min(widths) >= 16 else ""
    return "" if found == "sm_103a" and dtype == s8 else found


def kernel_of(p: Problem):
    """The kernel (A, B, ...) -> C for a problem."""
    batched = p.batch is not None
    found = engine(p.on_gpu, p.dtype, p.a_width, p.b_width, p.out_width)
    if found.startswith("sm_10"):
        c = blackwell_cut(p.m, p.n, p.batch or 1, p.epilogue.gated, p.epilogue.scales == "block")
        return blackwell_kernel(c, p.dtype, p.a_k_major, p.b_k_major, p.out, batched, p.epilogue, arch=found)
    gated = p.epilogue.gated
    if p.turned:
        return stream_kernel(stream_for(p), p.dtype, p.b_k_major, p.out, p.epilogue, whole=False, turned=True)
    if not found and streams_few(p):
        return stream_kernel(stream_for(p), p.dtype, p.b_k_major, p.out, p.epilogue, whole=False)
    if not found:
        return mma_of(p)
    tiles = found == "sm_90a" and p.dtype.bits == 16 and p.packed and not gated
    if tiles and (cut := small_cut(p.m, p.n, 2 * p.k, p.batch or 1)):
        return mma_of(p, cut)
    if is_line_of_batch(p):
        return product_kernel(OF_LINES[p.m > 16], p.dtype, True, p.b_k_major, p.out, batched + p.apart)
    once = once_in(p)
    if not once and is_stream(p):
        return stream_kernel(stream_for(p), p.dtype, p.b_k_major, p.out, p.epilogue)
    c = (
        blocks_of(p.m, p.n, p.k, gated=gated, plain=p.out.bits == 16 and not p.epilogue.finishes)
        if p.epilogue.scales == "block"
        else inside(once or tile_of(sizes_of(p)), p)
    )
    c = with_beside(with_tail(c, p), p.k * p.dtype.bits // 8, p.epilogue)
    return product_kernel(c, p.dtype, p.a_k_major, p.b_k_major, p.out, batched + p.apart, p.epilogue)


def with_tail(c: Config, p: Problem) -> Config:
    """The configuration with `Config.tail`.  Of many steps, to go through K backwards in every other tile saves more."""
    bytes_ = p.k * p.dtype.bits // 8
    tail = -(-(bytes_ % ROW) // 32) % 4
    if not tail or not ROW < bytes_ <= TAILED * ROW or p.epilogue.scales == "block":
        return c
    return replace(c, tail=tail, swing=False)


def with_beside(c: Config, k_bytes: int, epilogue: Epilogue) -> Config:
    """The configuration with `Config.beside`.  Of narrow tiles the warpgroups themselves drift apart, so that one multiplies beside the epilogue
    of the other; of few steps there is nothing to run beside; with many, finer pieces leave no step waiting."""
    if epilogue == NOTHING:
        return c
    steps = -(-k_bytes // ROW)
    return replace(c, beside=0 if c.bn <= 128 or steps < 10 else 4 if steps < 32 else 2)


def is_line_of_batch(p: Problem) -> bool:
    """Whether each matrix of a batch has few rows and a long K, and all together fill the GPU: then tiles of C^T read B quickest."""
    plain = p.epilogue == NOTHING and p.dtype.bits == p.out.bits == 16 and p.a_k_major
    return plain and p.batch is not None and p.m <= 32 and p.k >= 512 and -(-p.n // 128) * p.batch >= MULTIPROCESSORS


def mma_of(p: Problem, cut: Cut | None = None, parts=False):
    """The kernel by tiles of mma.sync: with the cut, or with the one that takes least.  `parts`: whether parts of K are summed side by side."""
    a_width, b_width = min(p.a_width, 16), min(p.b_width, 16)
    if cut is None and not p.epilogue.gated and p.epilogue.scales != "block":
        cut = cut_of(p.m, p.n, p.k * p.dtype.bits // 8, p.batch or 1, min(a_width, b_width))
    cut = None if cut == Cut() else cut
    batched = p.batch is not None
    return mma_kernel(
        p.dtype, p.out, p.a_k_major, p.b_k_major, a_width, b_width, batched, p.epilogue, cut=cut, parts=parts
    )


def sizes_of(p: Problem) -> Sizes:
    """What costs ask of a problem.  All numbers of rows that need the same tiles are one, so that a new one is seldom thought over."""
    plain = p.epilogue == NOTHING and p.dtype.bits == p.out.bits == 16
    ragged, gated = (p.a_width == 16, p.b_width == 16), p.epilogue.gated
    steps = -(-p.k * p.dtype.bits // (8 * ROW))
    return Sizes(
        whole_lines(p.m), p.n, steps, p.batch or 1, p.a_k_major, p.b_k_major, ragged, p.out.bits, plain, False, gated
    )


def is_thin(s: Sizes) -> bool:
    """Whether memory bounds a product, so that what L2 reads ahead is in the way."""
    k = 64 * s.steps
    return not s.grouped and s.m * s.columns * k < THIN * (s.m * k + s.columns * k + s.m * s.columns)


def reads_by_columns(c: Config, s: Sizes) -> bool:
    """Whether neighbours of a row of tiles read less together than those of a column: sixteen CTAs are on one GPC."""
    down, across = tiles_of(c, s)
    high, wide = min(GPC, down), min(GPC, across)
    by_rows, by_columns = high * c.bm + -(-GPC // high) * c.bn, -(-GPC // wide) * c.bm + wide * c.bn
    return by_columns < LESS * by_rows


def may_stream(p: Problem) -> bool:
    return not p.epilogue.gated and p.batch is None and p.a_k_major and not p.pitched


def lies_by_columns(p: Problem) -> bool:
    """Whether a stream of few rows takes f32 of B (K, N), as other kernels do not.  Of few columns and a long K it has too few CTAs."""
    return p.dtype == f32 and streams_few(p) and not p.epilogue.gated and (p.n >= 512 or p.k <= 1024)


def streams_few(p: Problem) -> bool:
    """Whether a stream takes few rows of A, whatever the width of those of C."""
    by_copies = engine(p.on_gpu, p.dtype, p.a_width, p.b_width) == "sm_90a"
    return by_copies and may_stream(p) and p.m <= 128 and stream_for(p) is not None


def is_stream(p: Problem) -> bool:
    few = p.m <= 128 and not (p.m > 112 and p.n > 128 * MULTIPROCESSORS and p.dtype.bits == 16)  # else wide tiles
    return may_stream(p) and (few or is_narrow(p) or is_long(p)) and stream_for(p) is not None


def stream_for(p: Problem) -> StreamConfig | None:
    if p.epilogue.scales == "block":
        return scaled_stream_of(p.m, p.n, p.k)
    return stream_of(p.m, p.n, p.k, p.b_k_major, unit_of(p))


def unit_of(p: Problem) -> int:
    """What a multiple of which wgmma has as columns, of many."""
    return 16 if p.dtype == s8 else 8


def once_in(p: Problem) -> Config | None:
    """For few rows: the configuration whose tiles or clusters fill the GPU once, unless a tall stream does."""
    return None if may_stream(p) and tall_of(p.m, p.n, p.k, p.b_k_major, unit_of(p)) else fills_once(p) or once_of(p)


def microseconds_in_one(p: Problem) -> float:
    """About how many a product without an epilogue takes."""
    if once_in(p) or not is_stream(p):
        return quickest(sizes_of(p))[1]
    c = stream_for(p)
    steps, tiles = -(-p.k * p.dtype.bits // (8 * ROW * c.parts)), -(-p.n // c.bn) * c.parts
    return STREAM + max(1, tiles / MULTIPROCESSORS) * steps * (p.m + c.lines + 2 * c.bn) / CLOCKS


def is_narrow(p: Problem) -> bool:
    """Whether there are few columns and a long K: clusters of four CTAs take it, each CTA a part of K.  Of 256 rows, and columns for more than
    80 CTAs, tiles that four CTAs share, in two parts of K, are quicker."""
    narrow = p.m <= 256 and p.n <= 64 * 28 and p.k >= 4096 and p.dtype.bits == 16
    return narrow and not (p.m > 240 and p.n > 64 * 20 and p.k >= 7168 and quickest(sizes_of(p))[0].parts > 1)


def is_long(p: Problem) -> bool:
    """Whether there are up to 256 rows and a long K, so that tiles of all rows x 64, cut into halves or thirds of K, nearly fill the GPU.
    Above 224 rows that is quicker than tiles of 128 x 64 only if K is longer still."""
    if p.m > 256 or p.dtype.bits != 16:
        return False
    if p.m > 224:
        return p.k > 8192 and in_halves(p.n)
    return p.k >= 4096 and (96 < 2 * -(-p.n // 64) <= MULTIPROCESSORS or in_thirds(p.n))


def in_halves(n: int) -> bool:
    return 120 < 2 * -(-n // 64) <= MULTIPROCESSORS


def in_thirds(n: int) -> bool:
    """Whether clusters of three fill the GPU once; one more is a second wave."""
    return 32 < -(-n // 64) <= CLUSTERS[3]


AHEAD = 4  # steps of the weights
TAILED = 16  # steps up to which the last one is as short as K
STREAM = 2.5  # microseconds of a stream besides its steps, which shared memory bounds
PAIR = Config(128, 64, 8, cm=2)
WIDE_PAIR, WIDE_PAIR_OF_KN = Config(128, 96, 7, cm=2), Config(128, 96, 6, cm=2)
LOW_PAIR = Config(128, 96, 7, cn=2, turned=True)
SHORT_PAIR, SHORT_PAIR_OF_KN = Config(64, 112, 9, consumers=1, cm=2), Config(64, 128, 8, consumers=1, cm=2)
FOUR = Config(64, 112, 8, consumers=1, cm=4, turned=True)


def fills_once(p: Problem) -> Config | None:
    """For few rows: the configuration whose clusters fill the GPU once, or None.  The CTAs of a cluster share columns of B (two halves of the
    rows by 64 to 128 columns) or rows of A (all rows by 64 columns)."""
    whole = p.batch is None and p.a_k_major and p.dtype.bits == p.out.bits == 16 and not p.epilogue.gated
    if not whole or not 64 < p.m <= 256:
        return None
    if p.m <= 128 and p.k <= 2048:
        c = SHORT_PAIR if p.b_k_major else SHORT_PAIR_OF_KN
        return c if 88 < 2 * -(-p.n // c.bn) <= MULTIPROCESSORS else None
    if p.epilogue == NOTHING:
        if 96 < p.m <= FOUR.bn and 88 < -(-p.n // 64) <= 120:
            return FOUR
        if p.m > 176 and p.k <= 8192 and in_halves(p.n):  # else a stream in parts of K is quicker
            c = Config(64, max(96, 16 * -(-p.m // 32)), consumers=1, cn=2, turned=True)
            return with_stages(c, True, True, 16)
        if 160 < p.m <= 192 and 88 < 2 * -(-p.n // 128) <= MULTIPROCESSORS:
            return LOW_PAIR
    if p.m <= 192:
        return None
    if 120 < 2 * -(-p.n // 96) <= MULTIPROCESSORS:
        if not p.b_k_major:
            return WIDE_PAIR_OF_KN
        return with_one_tile(WIDE_PAIR, True) if p.epilogue == NOTHING else WIDE_PAIR
    return PAIR if in_halves(p.n) and not p.b_k_major and not is_long(p) else None


def once_of(p: Problem) -> Config | None:
    """For few rows: tiles so wide that they fill the GPU once, or None.  They are taken where a stream's tiles, of 64 columns, do not fill it
    once, nor twice with two parts of K."""
    whole = p.b_k_major and p.dtype.bits == p.out.bits == 16 and p.epilogue.scales != "block" and not p.epilogue.gated
    if not whole or p.m not in (64, 128) or p.batch is not None:
        return None
    if p.m > 64 and 32 * MULTIPROCESSORS < p.n <= 48 * MULTIPROCESSORS:
        return ONCE[1][0]
    return next((c for c in ONCE[p.m > 64] if 120 < -(-p.n // c.bn) <= MULTIPROCESSORS), None)


def inside(c: Config, p: Problem) -> Config:
    """The configuration with `Config.inside`, if the matrix is as large as a tile and some cluster would reach beyond it: by more than 7 rows it is
    quicker; by fewer it is the kernel of sizes beside this one, which need not be assembled twice.  Where
    K is not the innermost dimension of A or B, copies begin at a multiple of 16 bytes along M or N."""
    sizes = (p.n, p.m) if c.turned else (p.m, p.n)
    behind = max(-size % tile for size, tile in zip(sizes, (c.bm * c.cm, c.bn * c.cn), strict=True))
    small = any(size < tile for size, tile in zip(sizes, (c.bm, c.bn), strict=True))
    innermost = [size for size, k_major in ((p.m, p.a_k_major), (p.n, p.b_k_major)) if not k_major]
    odd = any(size * p.dtype.bits % 128 for size in innermost)
    return c if small or odd or not behind or p.epilogue.gated or p.pitched else replace(c, inside=True)


# With scales of blocks there are three sets of accumulators.  Two CTAs share their rows of A.
BLOCKS = Config(bm=128, bn=128, stages=6, cn=2, swing=False)
# Two sets, or one and a half (WIDEST): a warpgroup scales while the other multiplies.
WIDE_BLOCKS = Config(bm=128, bn=192, stages=4, group=8, swing=False)
# And what a wave takes, in microseconds: (for each 128 of K, besides).
OF_BLOCKS = (
    (BLOCKS, 0.30, 2.0),
    (WIDEST, 0.58, 4.2),
    (WIDE_BLOCKS, 0.45, 3.0),
    (Config(128, 64, 8, swing=False), 0.25, 1.5),
    (Config(64, 128, 8, consumers=1, swing=False), 0.24, 1.5),
)
FEW_WAVES = 3  # up to which power does not bound products with scales of blocks, and WIDEST is not measured
OF_GROUP = 1024  # rows of a group, from which on it is measured
# Tiles for up to 16 and for up to 32 rows of each matrix of a batch.
OF_LINES = Config(128, 16, 10, turned=True, l2="64B"), Config(128, 32, 9, turned=True, l2="64B")
# Tiles of 64 rows, and of 128, that fill the GPU once.
ONCE = (
    (Config(64, 48, 12, consumers=1, ahead=AHEAD), Config(64, 112, 8, consumers=1, ahead=AHEAD)),
    (Config(128, 48, 8, ahead=AHEAD), Config(128, 112, 5, ahead=AHEAD), Config(128, 224, 3, ahead=AHEAD)),
)


@functools.lru_cache(4096)
def blocks_of(
    m: int, n: int, k: int, grouped: bool = False, gated: bool = False, batch: int = 1, plain: bool = True
) -> Config:
    """The configuration whose waves take the least time.  BLOCKS: pairs of CTAs along N; along M, or none, where that leaves one of a pair
    without a tile.  `plain`: without an epilogue, for which WIDEST has too few registers, and no masked groups, for which it is not measured."""
    columns = 2 * n if gated else n

    def waves(c: Config) -> int:
        return -(-(-(-m // c.bm) * -(-columns // c.bn) * batch) // MULTIPROCESSORS)

    def is_taken(c: Config) -> bool:
        if c == WIDEST:
            return plain and not gated and waves(c) > FEW_WAVES and (not grouped or m >= OF_GROUP)
        return c.bn == 128 or not gated

    def microseconds(candidate):
        c, step, besides = candidate
        return waves(c) * (-(-k // 128) * step + besides)

    c, *_ = min((each for each in OF_BLOCKS if is_taken(each[0])), key=microseconds)
    if c != BLOCKS:
        return c
    if -(-n // (64 if gated else 128)) % 2 == 0:
        return BLOCKS
    return replace(BLOCKS, cm=2 if -(-m // 128) % 2 == 0 and not (grouped or gated) else 1, cn=1)


# With more steps, of many waves, pairs of CTAs share columns of B: 1.5 % quicker in a long run, at the limit of power; with 128 slower.
LONG, MANY = 192, 8
GPC, LESS = 16, 0.9  # multiprocessors; of what is read
THIN = 160  # multiplications for each value that is read or written


def tile_of(s: Sizes) -> Config:
    """The tile that takes least, and how its clusters go through it."""
    c, _ = quickest(s)
    if c.ctas == 1 and not s.grouped and reads_by_columns(c, s):
        c = replace(c, group=1)
    if is_thin(s):
        c = replace(c, l2="128B")
    # Two CTAs share rows of A.
    if s.grouped and s.gated and c.bm * c.bn == 128 * 256 and -(-s.columns // c.bn) % 2 == 0:
        return replace(c, cn=2)
    # A is read once: nothing of it is still in L2.
    if s.batch > 1 and not (s.grouped or c.turned) and s.columns <= c.bn * c.cn:
        return replace(c, swing=False)
    if s.plain and c == WIDEST and s.steps > LONG and waves(c, s) >= MANY and -(-s.m // c.bm) % 2 == 0:
        return replace(c, cm=2, group=6)
    return c


# A stage has two steps; one goes to L2 before the kernel ahead has ended.
TWO_STEPS = {"deep": 2, "ahead": 1}
# The next kernel's CTAs begin when this kernel's have started all their copies, and fetch two stages of B before this kernel has ended.
LATE = {"late": True, "ahead": 2}


def tall_of(m: int, n: int, k: int, b_k_major: bool, unit: int) -> StreamConfig | None:
    """Of 33 to 128 rows whose products wgmma makes by 64 of them: columns are any multiple of `unit`, so many that clusters of two, three,
    four or eight fill the GPU once."""
    if not 32 < m <= 128 or k < 4096 or not b_k_major:
        return None
    if in_thirds(n):
        parts = 3
    elif 64 * CLUSTERS[2] < n <= 96 * CLUSTERS[2]:
        parts = 2
    elif 1024 <= n <= 2048:
        parts = 4
    elif 128 <= n <= 640:
        parts = 8
    else:
        return None
    deep = 1 if m > 64 else 2
    bn = unit * -(-n // (unit * CLUSTERS[parts]))
    return StreamConfig.of(-(-m // 64) * 64, parts, bn, tall=True, deep=deep, late=True, ahead=2 // deep)


def rows_of(m: int, unit: int = 8) -> int:
    """The columns that wgmma has of a stream of m rows, a multiple of `unit`: few numbers of them, as each is a kernel, and copies bring no row more
    than there is.  Above 64, other 16 take up to 2 % longer."""
    unit = max(unit, 8 if m <= 16 else 32 if m <= 64 else 16)
    return -(-m // unit) * unit


def many_parts(tiles: int, k: int) -> int | None:
    """For few columns, tiles of 64 of them: the parts of K, more than four, that were measured to take least."""
    parts = 8 if tiles <= 4 else 6 if tiles <= 16 else 5
    return parts if tiles * parts <= MULTIPROCESSORS and k >= 512 * parts else None


def sharing(n: int, rows: int) -> int:
    """How many CTAs of 128 columns share rows of A where there are several waves: so many that the last wave is full, but two at the most of
    many rows, which then fill the ring."""

    def full(share: int) -> float:
        waves = -(-n // (128 * share)) / CLUSTERS[share]
        return waves / math.ceil(waves)

    return max((2, 1, 4) if rows == 64 else (2, 1), key=full)


@functools.lru_cache(4096)
def stream_of(m: int, n: int, k: int, b_k_major: bool = True, unit: int = 8) -> StreamConfig:
    """64 columns a CTA and K in parts while that leaves multiprocessors idle; 128 columns where they fill the GPU.  CTAs that leave room for
    others on their multiprocessor let those of the next kernel begin."""
    if tall := tall_of(m, n, k, b_k_major, unit):
        return tall
    rows, tiles = max(8, 1 << (m - 1).bit_length()), -(-n // 64)

    def made(parts, bn, share=1, *more, **told):
        return StreamConfig.of(rows_of(m, 8 * share), parts, bn, share, *more, **told)

    if rows > 128:
        parts = 2 if 96 < 2 * tiles <= MULTIPROCESSORS else 3 if in_thirds(n) else 4
        return StreamConfig.of(rows_of(m), parts, 64, **LATE)
    if n > 64 * MULTIPROCESSORS:
        once = n <= 128 * MULTIPROCESSORS
        if rows >= 64:
            return made(1, 128, 4 if once else sharing(n, rows), 1, once, ahead=AHEAD)
        return made(1, 128, 1, 2, once, **({} if once else LATE))
    if MULTIPROCESSORS < 2 * tiles <= 196 and rows in (8, 32, 64):
        return made(2, 128, 1, 2) if rows == 8 else made(2, 64, 1, 3)
    if in_thirds(n) and k >= 4096 and rows != 64:
        if rows <= 16:
            return made(3, 64, 1, 2, deep=2, ahead=1)
        return made(3, 64, late=True, **({"ahead": 4} if rows == 128 else {"deep": 2, "ahead": 1}))
    if rows < 64 and (parts := many_parts(tiles, k)):
        return made(parts, 64, 1, 2, True, **TWO_STEPS) if parts == 5 else made(parts, 64, late=True, **TWO_STEPS)
    parts = 1
    while parts < (4 if rows < 64 else 2) and tiles * parts * 2 <= MULTIPROCESSORS and k >= 512 * parts:
        parts *= 2
    if (rows == 16 and parts == 1) or (rows <= 16 and parts == 2):
        return made(parts, 64, 1, 2, True, deep=2, ahead=1)
    if parts == 2:
        return made(parts, 64, deep=2, late=True, ahead=1)
    if rows < 64:
        return made(parts, 64, 1, 3 if parts == 4 else 2, True)
    if rows == 64:
        return made(1, 64, 1, 2, True)
    return made(1, 64, 4 if n <= 64 * 112 else 1, 1, True, ahead=AHEAD)


@functools.lru_cache(4096)
def scaled_stream_of(m: int, n: int, k: int) -> StreamConfig | None:
    """With scales of blocks.  Above 32 rows it is tall, with 48 columns or more of a CTA, as many as there are registers for, where K can be cut
    so; if not, of up to 64 rows it has 128 columns, and of more there is None, because tiles are quicker."""
    told = {"scaled": True, "deep": 2, "late": True, "ahead": 1}
    most = max(1, min(4, k // 512))  # each part has some stages
    if m > 32:
        cuts = {parts: 8 * -(-n // (8 * CLUSTERS[parts])) for parts in range(1, most + 1)}
        parts = next((parts for parts, bn in cuts.items() if bn >= 48), most)
        if cuts[parts] <= (72 if m > 64 else 112):
            return StreamConfig.of(-(-m // 64) * 64, parts, cuts[parts], tall=True, **told)
        if m > 64:
            return None
    rows, tiles = rows_of(m), -(-n // 64)
    if tiles > 2 * MULTIPROCESSORS or m > 32:
        return StreamConfig.of(rows, 1, 128, **told)
    parts = next((parts for parts in range(most, 1, -1) if tiles <= CLUSTERS[parts]), 1)
    return StreamConfig.of(rows, parts, 64, 1, 1 + (tiles > MULTIPROCESSORS), True, **told)


def streams() -> list[StreamConfig]:
    """The configurations that `stream_of` chooses among, for `tune`."""
    sizes = [
        (m, n, k)
        for m in (8, 16, 32, 64, 128)
        for n in (2048, 2112, 4096, 6144, 8192, 16384, 32768)
        for k in (512, 8192)
    ]
    sizes += [
        (256, 1536, 7168),
        (256, 4096, 14336),
        (160, 4096, 4096),
        (200, 2112, 7168),
        (100, 8192, 4096),
        (100, 28672, 4096),
        (40, 6144, 4096),
    ]
    return list(dict.fromkeys(stream_of(*size) for size in sizes))


# Products of groups.


def grouped_kernel(
    shape_a, experts: int, n: int, dtype: str, b_k_major: bool, a_width: int, b_width: int, on_gpu: bool,
    masked: bool = False, activation: str | None = None, by_rows: bool = True, b_by_rows: bool = False,
):  # fmt: skip
    """The kernel (A, B, the scales of both if they are e4m3, OFFS) -> C.  `shape_a`: that of all rows of all groups; B has `experts`
    matrices, C has n columns.  `by_rows`, `b_by_rows`: as of `Epilogue`."""
    t, k = shape_a
    kind = NAMES[dtype]
    scaled = kind == e4m3
    out = bf16 if scaled else kind
    lie = {"by_rows": by_rows, "b_by_rows": b_by_rows} if scaled else {}
    epilogue = Epilogue(activation=activation, scales="block" if scaled else None, **lie)
    some = experts if masked else max(1, min(experts, t))  # that have rows, at the most
    each, gated = -(-t // some), epilogue.gated
    found = engine(on_gpu, kind, a_width, b_width, width_of(n * 2)) if experts <= MOST_GROUPS else ""
    if found.startswith("sm_10"):
        c = blackwell_cut(each, n, experts, gated, scaled)
        return blackwell_kernel(c, kind, True, b_k_major, out, False, epilogue, True, masked, found)
    if found:
        c = (
            blocks_of(each, n, k, True, gated, some, plain=not masked)
            if scaled
            else tile_of(
                Sizes(each, n, -(-k * kind.bits // (8 * ROW)), some, True, b_k_major, grouped=True, gated=gated)
            )
        )
        c = with_beside(c, k * kind.bits // 8, epilogue)
        # A copy of A that fills the rows behind with zeros takes longer than that of B.
        if not masked and t < c.bm == 64:
            c = replace(c, few=True)
        if not b_k_major:  # of whose lines a tile has 128 to 512 bytes
            c = replace(c, l2="128B")
        return product_kernel(c, kind, True, b_k_major, out, epilogue=epilogue, grouped=True, masked=masked)
    widths = min(a_width, 16), min(b_width, 16)
    return mma_kernel(kind, out, True, b_k_major, *widths, epilogue=epilogue, grouped=True, masked=masked)


PARTED = Config(128, 256, 4, swing=False)


def parted_kernel(k: int, n: int, experts: int, dtype: str, on_gpu: bool, masked: bool = False):
    """The kernel (A, G, OFFS) -> C for the products A[rows of group e]^T G[rows of group e]: A (T, K), G (T, N), C (E, K, N).  masked: each
    group has T / E rows, and OFFS says how many of them count."""
    kind = NAMES[dtype]
    widths = width_of(k * 2), width_of(n * 2)
    if experts <= MOST_GROUPS and engine(on_gpu, kind, *widths) == "sm_90a":
        return product_kernel(PARTED, kind, False, False, kind, parted=True, masked=masked)
    return mma_kernel(kind, kind, False, False, *(min(each, 16) for each in widths), parted=True, masked=masked)
