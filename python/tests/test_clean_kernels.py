"""The ready-made kernels and the examples under all checks of the simulator, in several schedules: no reports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.mma import Cut, mma_kernel  # noqa: E402
from pyptx.kernels._matmul.stream import StreamConfig, stream_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import Config  # noqa: E402
from pyptx.kernels._rows.softmax_columns import column_softmax  # noqa: E402
from pyptx.types import bf16, e4m3  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"


def half(*shape):
    return torch.randn(shape).to(torch.bfloat16)


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


def attention_backward():
    inputs = [half(1, 1, 70, 64).requires_grad_() for _ in range(3)]
    torch.autograd.grad(kernels.attention(*inputs, causal=True).sum(), inputs)


def attention_backward_of(width, values, **options):
    inputs = [half(1, n, 70, d).requires_grad_() for n, d in ((2, width), (1, width), (1, values))]
    torch.autograd.grad(kernels.attention(*inputs, causal=True, **options).sum(), inputs)


def attention_backward_of_sequences(width, **options):
    inputs = [half(75, 1, width).requires_grad_() for _ in range(3)]
    begins = numbers(0, 5, 5, 75)
    torch.autograd.grad(kernels.attention(*inputs, cu_seqlens=begins, causal=True, **options).sum(), inputs)


def attention_with_sinks():
    inputs = [*(half(2, 1, 70, 64).requires_grad_() for _ in range(3)), torch.ones(1, requires_grad=True)]
    torch.autograd.grad(kernels.attention(*inputs[:3], sinks=inputs[3]).sum(), inputs)
    kernels.attention(half(1, 2, 1, 64), half(1, 1, 1100, 64), half(1, 1, 1100, 64), sinks=torch.ones(2))


def product(*config, k=640, **more):
    """The kernel of Hopper, which CPU tensors do not reach through `matmul`; its stages are used again."""
    return lambda: product_kernel(Config(*config, **more), bf16)(half(264, k), half(136, k))


def stream(m: int, k: int, *config, **more):
    kernel = stream_kernel(StreamConfig(*config, **more), bf16, True, bf16, Epilogue(), True)
    return lambda: kernel(half(m, k), half(136, k))


def fp8_blocks():
    """By tiles whose warpgroups take turns: each scales while the other multiplies."""
    a, b = (half(rows, 512).to(torch.float8_e4m3fn) for rows in (136, 136))
    config = Config(128, 160, 3, swing=False)
    product_kernel(config, e4m3, epilogue=Epilogue(scales="block"))(a, b, torch.ones(4, 136), torch.ones(4, 2))


def example(name: str):
    sys.path.insert(0, str(EXAMPLES))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(EXAMPLES))


def hopper_gemm():
    made = example("hopper_gemm")
    tiles = torch.from_numpy(made.tile_schedule(512, 512))
    made.gemm(half(512, 320), half(512, 320), tiles, M=512, N=512, K=320)  # its three stages are used again


CLEAN = {
    "rms_norm": lambda: kernels.rms_norm(torch.randn(4, 100), torch.ones(100)),
    "softmax": lambda: kernels.softmax(torch.randn(3, 2000)),
    "cross_entropy": lambda: kernels.cross_entropy(torch.randn(4, 300), torch.tensor([1, 2, 3, 4])),
    "matmul by wgmma": product(128, 128, 3),
    "matmul by clusters along M": product(128, 128, 3, cm=2),
    "matmul by tiles that end with the matrix": product(128, 96, 3, inside=True),
    "matmul by clusters of such tiles": product(128, 64, 3, cm=2, inside=True),
    "matmul by clusters along N": product(128, 64, 3, cn=2, group=1),
    "matmul by clusters that have one tile": product(
        64, 64, 3, consumers=1, cm=4, cn=2, overlap=False, swing=False, once=True
    ),
    "matmul by parts of K of a cluster": product(
        64, 64, 3, consumers=1, parts=2, overlap=False, swing=False, once=True
    ),
    "matmul by tiles of the transposed result": product(128, 80, 3, turned=True),
    "matmul of groups of lines": lambda: product_kernel(
        Config(64, 64, 3, 1, overlap=False, swing=False), bf16, False, False, parted=True
    )(half(300, 72), half(300, 136), numbers(10, 10, 267)),
    "matmul of fp8 with scales of blocks": fp8_blocks,
    "matmul by streams that split K in three": stream(30, 640, 32, 3, 64, 3, once=True),
    "softmax of columns": lambda: column_softmax(bf16, 8)[0](half(2, 20, 304)),
    "matmul by a stream": stream(9, 1920, 16, 1, 64, 3),
    "matmul by streams that split K": stream(60, 640, 64, 2, 64, 3, once=True),
    "matmul by tall streams that split K in four": stream(60, 640, 64, 4, 72, 3, once=True, tall=True),
    "matmul by tall streams of other rows": stream(36, 640, 40, 2, 40, 3, once=True, tall=True),
    "matmul by streams of many rows": stream(250, 640, 256, 2, 64, 3, once=True),
    "matmul of 16 bits": lambda: kernels.matmul(half(200, 64), half(64, 96)),
    "matmul of few rows": lambda: kernels.matmul(half(16, 128), half(128, 96)),
    "matmul of small matrices by mma": lambda: mma_kernel(bf16, bf16, batched=True, cut=Cut(16, 16, 1, 1, 2, 64, 4))(
        half(5, 16, 72), half(5, 16, 72)
    ),
    "matmul of a long K in parts": lambda: kernels.matmul(half(40, 4001), half(4001, 33)),
    "matmul of vectors": lambda: kernels.matmul(half(2, 333), half(333, 45)),
    "matmul of vectors by rows": lambda: kernels.matmul(half(2, 1333), half(45, 1333).mT),
    "matmul by mma": lambda: kernels.matmul(torch.randn(33, 71), torch.randn(71, 45)),
    "grouped_matmul": lambda: kernels.grouped_matmul(half(100, 64), half(3, 64, 64), numbers(30, 30, 100)),
    "attention": lambda: kernels.attention(half(1, 2, 70, 64), half(1, 1, 200, 64), half(1, 1, 200, 64), causal=True),
    "attention of sequences": lambda: kernels.attention(
        half(75, 1, 64), half(75, 1, 64), half(75, 1, 64), cu_seqlens=numbers(0, 5, 5, 75)
    ),
    "attention from pages": lambda: kernels.attention(
        half(1, 4, 1, 64),
        half(3, 16, 2, 64),
        half(3, 16, 2, 64),
        lengths=numbers(40),
        block_table=numbers(1, 0, 2)[None],
    ),
    "gradient of attention": attention_backward,
    "gradient of attention of grouped heads": lambda: attention_backward_of(64, 64),  # over more than one block
    "gradient of attention with heads of 128": lambda: attention_backward_of(128, 128, softcap=2.0),
    "gradient of wide attention": lambda: attention_backward_of(256, 256),
    "gradient of attention in a fixed order": lambda: attention_backward_of(128, 128, deterministic=True),
    "gradient of sequences": lambda: attention_backward_of_sequences(64),
    "gradient of sequences in a fixed order": lambda: attention_backward_of_sequences(64, deterministic=True),
    "gradient of wide sequences": lambda: attention_backward_of_sequences(192),
    "attention with sinks": attention_with_sinks,
    "attention of fp8": lambda: kernels.attention(*(half(1, 1, 300, 64).to(torch.float8_e4m3fn) for _ in range(3))),
    "hopper_gemm": hopper_gemm,
    "hopper_tile": lambda: example("hopper_tile").main(),
    "blackwell_gemm": lambda: example("blackwell_gemm").main(),
    "blackwell_scaled": lambda: example("blackwell_scaled").main(),
}


@pytest.mark.parametrize("seed", [0, 5, 11])
@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_reported(name, seed):
    torch.manual_seed(0)
    with pyptx.simulator(check="all", seed=seed, raises=False) as run:
        CLEAN[name]()
    assert [str(report) for report in run.reports] == []


@pytest.mark.parametrize("seed", [2, 3])
def test_a_late_warp_is_not_lapped(seed):
    """Of the warpgroups that have no rows, one warp stands still (seed 2) while the others of its warpgroup free block after block."""
    torch.manual_seed(0)
    with (
        kernels.simulated_target("sm_90a"),
        pyptx.simulator(check="all", seed=seed, schedule="synchronisation", raises=False) as run,
    ):
        kernels.attention(half(1, 4, 1, 64), half(1, 2, 333, 64), half(1, 2, 333, 64))
    assert [str(report) for report in run.reports] == []
