"""Which kernel, in which configuration, makes a product: by its sizes, types and addresses.

The table is measured: `python bench/gemm.py --tune` on an H200 prints it.
"""

import functools
from dataclasses import dataclass, replace

from pyptx.kernels._epilogue import NOTHING, Epilogue
from pyptx.kernels._matmul_blackwell import blackwell_cut, blackwell_kernel
from pyptx.kernels._matmul_hopper import product_kernel
from pyptx.kernels._matmul_mma import mma_kernel
from pyptx.kernels._matmul_stream import StreamConfig, stream_kernel
from pyptx.kernels._matmul_tiles import MULTIPROCESSORS, ROW, Config
from pyptx.kernels._target import family
from pyptx.types import PtxType, s8

__all__ = [
    "BLOCKS",
    "CANDIDATES",
    "SPLITS",
    "Problem",
    "blackwell_cut",
    "blocks_of",
    "configuration",
    "engine",
    "for_output",
    "kernel_of",
    "stream_of",
    "streams",
]


@dataclass(frozen=True)
class Problem:
    """`batch`: None of matrices.  A is stored (M, K), or (K, M) where it is not K-major, B (N, K), or (K, N).  `a_width`, `b_width`: bytes, up to
    16, that addresses and rows are multiples of; `on_gpu`: not on the simulator."""

    m: int
    n: int
    k: int
    batch: int | None
    dtype: PtxType
    out: PtxType
    a_k_major: bool = True
    b_k_major: bool = True
    a_width: int = 16
    b_width: int = 16
    out_width: int = 16
    epilogue: Epilogue = NOTHING
    on_gpu: bool = True


def engine(on_gpu: bool, dtype: PtxType, *widths: int) -> str:
    """What multiplies, where the copy engine can address all three matrices: "sm_90a", wgmma; "sm_100a" or "sm_103a", tcgen05, which has
    s8 on the former alone; else "", mma.sync."""
    found = family(on_gpu) if min(widths) == 16 else ""
    return "" if found == "sm_103a" and dtype == s8 else found


def kernel_of(p: Problem):
    """The kernel (A, B, ...) -> C."""
    batched = p.batch is not None
    found = engine(p.on_gpu, p.dtype, p.a_width, p.b_width, p.out_width)
    if found.startswith("sm_10"):
        c = blackwell_cut(p.m, p.n, p.batch or 1, p.epilogue.gated, p.epilogue.scales == "block")
        return blackwell_kernel(c, p.dtype, p.a_k_major, p.b_k_major, p.out, batched, p.epilogue, arch=found)
    if not found:
        return mma_kernel(p.dtype, p.out, p.a_k_major, p.b_k_major, p.a_width, p.b_width, batched, p.epilogue)
    if (
        p.m <= 128
        and p.epilogue.scales != "block"
        and not batched
        and p.a_k_major
        and p.dtype != s8
        and not p.epilogue.gated
    ):
        return stream_kernel(stream_of(p.m, p.n, p.k), p.dtype, p.b_k_major, p.out, p.epilogue)
    gated = p.epilogue.gated
    if p.epilogue.scales == "block":
        c = blocks_of(p.m, p.n, gated=gated)
    else:
        c = configuration(p.m, p.n, p.k, p.batch or 1, p.out.bits, p.b_k_major, gated=gated)
    return product_kernel(c, p.dtype, p.a_k_major, p.b_k_major, p.out, batched, p.epilogue)


# With scales of blocks there are three sets of accumulators, and K is walked in one direction.  Two CTAs share their rows of A.
BLOCKS = Config(bm=128, bn=128, stages=6, cn=2, overlap=False, swing=False)


def blocks_of(m: int, n: int, grouped: bool = False, gated: bool = False) -> Config:
    """Pairs of CTAs along N; along M, or none, where that leaves one of a pair without a tile."""
    if -(-n // (64 if gated else 128)) % 2 == 0:
        return BLOCKS
    return replace(BLOCKS, cm=2 if -(-m // 128) % 2 == 0 and not (grouped or gated) else 1, cn=1)


# Tile, and microseconds of a wave of CTAs: for each 64 of K, and besides; where B is stored (N, K), and where it is (K, N), None for a
# tile that is not taken there.  `python bench/gemm.py tune` fits them.  A multiprocessor takes 64 bytes a clock from L2, which
# bounds the small tiles, multicast or not; blocks of (K, N) are 64 columns wide, so that 96 or 144 columns fetch more than they need.
CANDIDATES = (
    (Config(128, 256, 4), (0.687, 1.79), (0.672, 1.97)),
    (Config(128, 224, 3), (0.593, 2.11), (0.685, 1.45)),
    (Config(128, 192, 4), (0.500, 1.94), (0.492, 2.03)),
    (Config(128, 160, 4), (0.419, 2.03), (0.439, 2.19)),
    (Config(128, 144, 4), (0.381, 1.91), None),
    (Config(128, 128, 6), (0.329, 1.80), (0.325, 1.88)),
    (Config(128, 96, 5), (0.267, 1.56), None),
    (Config(128, 64, 8), (0.222, 1.75), (0.222, 1.75)),
    (Config(128, 64, 8, cm=2), (0.200, 2.20), None),
    (Config(64, 256, 4, consumers=1), (0.342, 1.79), (0.334, 1.94)),
    (Config(64, 192, 5, consumers=1), (0.263, 1.80), (0.258, 1.84)),
    (Config(64, 128, 8, consumers=1), (0.213, 1.45), (0.210, 1.45)),
    (Config(64, 64, 8, consumers=1), (0.143, 1.00), (0.140, 1.03)),
)
# From so many waves of the largest tile on, only wide tiles, the second 3 % dearer than in few waves: smaller ones read more from L2,
# which takes power that lowers the clock.
MANY = 8
WIDE = ((Config(128, 256, 4), (0.684, 2.06), (0.684, 2.06)), (Config(128, 192, 4), (0.530, 1.86), (0.530, 1.86)))

# For few tiles and a long K.  `tune` measures them beside the others; none is chosen before it has.
SPLITS = (
    Config.split(128, 256, 4), Config.split(128, 256, 4, parts=4), Config.split(128, 128, 6),
    Config.split(64, 256, 4, consumers=1), Config.split(64, 128, 8, consumers=1),
)  # fmt: skip


@functools.lru_cache(4096)
def configuration(
    m: int, n: int, k: int, batch: int, out_bits: int, b_k_major: bool, grouped: bool = False, gated: bool = False
) -> Config:
    """The tile whose waves take least.  Of products of groups, `batch` in number, it is stored in parts of 64 columns; where it is
    `gated`, of 2 n columns of B, in parts of 128 bytes of half of the columns."""
    n = 2 * n if gated else n

    def waves(c):
        tiles = -(-m // (c.bm * c.cm)) * -(-n // (c.bn * c.cn)) * batch
        return -(-tiles // (MULTIPROCESSORS // c.ctas))

    def microseconds(candidate):
        c, *costs = candidate
        block, wave = costs[not b_k_major]
        return waves(c) * (-(-k // 64) * block + wave)

    unit = 2 * ROW * 8 // out_bits if gated else 64 if grouped else out_bits
    some = WIDE if waves(WIDE[0][0]) >= MANY else CANDIDATES
    legal = [each for each in some if each[2 - b_k_major] and each[0].bn % unit == 0 and each[0].cm <= 2 - gated]
    c, *_ = min(legal, key=microseconds)
    return for_output(c, out_bits)


def for_output(c: Config, bits: int) -> Config:
    """Values of 32 bits are as many as the accumulators: there are no registers to keep a tile in while the next is begun."""
    return c if bits == 16 else replace(c, overlap=False)


@functools.lru_cache(4096)
def stream_of(m: int, n: int, k: int) -> StreamConfig:
    """64 columns a CTA and K in parts while that leaves multiprocessors idle; 128 columns where they fill the GPU.  CTAs that leave room for
    others on their multiprocessor let those of the next kernel begin."""
    rows = max(8, 1 << (m - 1).bit_length())
    if n > 64 * MULTIPROCESSORS:
        once = n <= 128 * MULTIPROCESSORS
        if rows >= 128 and not once:
            return StreamConfig.of(rows, 1, 128, 2, 2)
        return StreamConfig.of(rows, 1, 128, 4 if rows >= 64 else 1, 1 if rows >= 64 else 2, once)
    parts = 1
    while parts < (4 if rows < 64 else 2) and -(-n // 64) * parts * 2 <= MULTIPROCESSORS and k >= 512 * parts:
        parts *= 2
    if rows < 64:
        resident = 3 if parts == 4 or (parts == 2 and rows < 32) else 2
    else:
        resident = 2 if rows == 64 and parts == 1 else 1
    # Clusters of four fill no more than about 30 times four multiprocessors.
    share = 4 if rows == 128 and parts == 1 and n <= 64 * 112 else 1
    return StreamConfig.of(rows, parts, 64, share, resident, True)


def streams() -> list[StreamConfig]:
    """All that `stream_of` chooses among."""
    sizes = [(m, n, k) for m in (8, 16, 32, 64, 128) for n in (2048, 4096, 8192, 16384, 32768) for k in (512, 8192)]
    return list(dict.fromkeys(stream_of(*size) for size in sizes))
