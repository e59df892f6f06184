"""Which kernel, in which configuration, makes a product: by its sizes, types and addresses.

The table is measured: `python bench/gemm.py --tune` on an H200 prints it.
"""

import functools
from dataclasses import dataclass, replace

from pyptx._arch import detect_arch
from pyptx.kernels._epilogue import NOTHING, Epilogue
from pyptx.kernels._matmul_hopper import MULTIPROCESSORS, Config, product_kernel
from pyptx.kernels._matmul_mma import mma_kernel
from pyptx.kernels._matmul_stream import StreamConfig, stream_kernel
from pyptx.types import PtxType, s8

__all__ = [
    "BLOCKS",
    "CANDIDATES",
    "SPLITS",
    "Problem",
    "configuration",
    "for_output",
    "has_wgmma",
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


@functools.cache
def is_hopper() -> bool:
    return detect_arch().startswith("sm_90")


def has_wgmma(on_gpu: bool, *widths: int) -> bool:
    """Whether wgmma multiplies it: on Hopper, and where the copy engine can address all three matrices."""
    return on_gpu and min(widths) == 16 and is_hopper()


def kernel_of(p: Problem):
    """The kernel (A, B, ...) -> C."""
    batched = p.batch is not None
    if not has_wgmma(p.on_gpu, p.a_width, p.b_width, p.out_width):
        return mma_kernel(p.dtype, p.out, p.a_k_major, p.b_k_major, p.a_width, p.b_width, batched, p.epilogue)
    if p.m <= 128 and p.epilogue.scales != "block" and not batched and p.a_k_major and p.dtype != s8:
        return stream_kernel(stream_of(p.m, p.n, p.k), p.dtype, p.b_k_major, p.out, p.epilogue)
    c = BLOCKS if p.epilogue.scales == "block" else configuration(p.m, p.n, p.k, p.batch or 1, p.out.bits)
    return product_kernel(c, p.dtype, p.a_k_major, p.b_k_major, p.out, batched, p.epilogue)


# With scales of blocks there are two sets of accumulators, and K is walked in one direction.
BLOCKS = Config(bm=128, bn=128, stages=6, overlap=False, swing=False)


# Tile, and microseconds of a wave of 132: for each 64 of K, and besides.  `python bench/gemm.py tune` fits them.
# (Clusters of two that share what they read were as quick, to within 1 %; clusters of four do not fill the GPU.)
CANDIDATES = (
    (Config(128, 256, 4), 0.684, 2.06),
    (Config(128, 192, 4), 0.514, 1.86),
    (Config(128, 128, 6), 0.346, 2.00),
    (Config(64, 256, 4, consumers=1), 0.358, 1.67),
    (Config(128, 64, 8), 0.224, 0.90),
    (Config(64, 128, 8, consumers=1), 0.202, 1.40),
    (Config(64, 64, 8, consumers=1), 0.150, 1.39),
)

# For few tiles and a long K.  `tune` measures them beside the others; none is chosen before it has.
SPLITS = (
    Config.split(128, 256, 4), Config.split(128, 256, 4, parts=4), Config.split(128, 128, 6),
    Config.split(64, 256, 4, consumers=1), Config.split(64, 128, 8, consumers=1),
)  # fmt: skip


@functools.lru_cache(4096)
def configuration(m: int, n: int, k: int, batch: int, out_bits: int) -> Config:
    """The tile whose waves take least."""

    def microseconds(candidate):
        c, block, wave = candidate
        tiles = -(-m // c.bm) * -(-n // c.bn) * batch
        return -(-tiles // MULTIPROCESSORS) * (-(-k // 64) * block + wave)

    c, *_ = min(CANDIDATES, key=microseconds)
    return for_output(c, out_bits)


def for_output(c: Config, bits: int) -> Config:
    """Values of 32 bits are as many as the accumulators: there are no registers to keep a tile in while the next is begun."""
    return c if bits == 16 else replace(c, overlap=False)


@functools.lru_cache(4096)
def stream_of(m: int, n: int, k: int) -> StreamConfig:
    """64 columns a CTA and K in parts while that leaves multiprocessors idle; 128 columns where they fill the GPU."""
    rows = max(8, 1 << (m - 1).bit_length())
    if n > 64 * MULTIPROCESSORS:
        once = n <= 128 * MULTIPROCESSORS
        return StreamConfig.of(rows, 1, 128, 4 if rows >= 64 else 1, 1 if rows >= 64 else 2, once)
    parts = 1
    while parts < 4 and -(-n // 64) * parts * 2 <= MULTIPROCESSORS and k >= 512 * parts:
        parts *= 2
    # Clusters of four do not fill the GPU with one CTA a multiprocessor.
    return StreamConfig.of(rows, parts, 64, 1, 2 if parts == 4 and rows < 128 else 1, True)


def streams() -> list[StreamConfig]:
    """All that `stream_of` chooses among."""
    sizes = [(m, n, k) for m in (8, 16, 32, 64, 128) for n in (2048, 4096, 8192, 16384, 32768) for k in (512, 8192)]
    return list(dict.fromkeys(stream_of(*size) for size in sizes))
