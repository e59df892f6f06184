"""fp8 products whose operands have scales for each 128 of K, against float64: streams of few rows, small tiles, scales by rows and by columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from test_matmul import devices, distance, needs_ptxas  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul.choice import BLOCKS, OF_BLOCKS, Problem, blocks_of, kernel_of, scaled_stream_of  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.stream import StreamConfig, stream_kernel  # noqa: E402
from pyptx.types import bf16, e4m3, f32  # noqa: E402

SIZES = [(m, n, k) for m in (1, 16, 32, 64, 72, 128) for n in (1024, 1536, 2112, 4096, 7168, 14336, 24576) for k in (512, 7168)]  # fmt: skip
STREAMS = sorted({c for size in SIZES if (c := scaled_stream_of(*size))}, key=str)


def scaled(m, n, k, device="cpu"):
    """(a, b (N, K), the scales of both, their product in float64)."""
    a, b = (torch.randn(rows, k).to(device, torch.float8_e4m3fn) for rows in (m, n))
    of_a = torch.rand(m, -(-k // 128), device=device) + 0.5
    of_b = torch.rand(-(-k // 128), -(-n // 128), device=device) + 0.5
    wide_a = a.double() * of_a.repeat_interleave(128, 1)[:, :k]
    wide_b = b.double() * of_b.mT.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    return a, b, of_a, of_b, wide_a @ wide_b.mT


@settings(deadline=None, max_examples=12)
@given(
    config=st.sampled_from(STREAMS),
    m=st.integers(1, 128),
    n=st.integers(1, 300),
    k=st.integers(1, 80),
    by_rows=st.booleans(),
    biased=st.booleans(),
)
def test_streams(config, m, n, k, by_rows, biased):
    m = min(m, config.rows)
    a, b, of_a, of_b, wanted = scaled(m, n, 16 * k)
    epilogue = Epilogue(bf16 if biased else None, scales="block", by_rows=by_rows)
    kernel = stream_kernel(config, e4m3, True, bf16, epilogue, n % 4 == 0)
    bias = [torch.randn(n).bfloat16()] * biased
    with pyptx.simulator(check="all"):
        got = kernel(a, b, of_a if by_rows else of_a.mT.contiguous(), of_b, *bias)
    assert distance(got, wanted + sum(each.double() for each in bias)) < 5e-3


@devices
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 4096, 512), (16, 1536, 2048), (33, 264, 400), (64, 7168, 256), (100, 2112, 2048), (200, 512, 1024)]
)  # fmt: skip
@pytest.mark.parametrize("by_columns", [False, True])
def test_library(m, n, k, by_columns, device):
    """The scales of A are taken as they lie."""
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("skipped: fp8 needs sm_89")
    a, b, of_a, of_b, wanted = scaled(m, n, k, device)
    of_a = of_a.mT.contiguous().mT if by_columns else of_a
    with kernels.simulated_target("sm_90a"):
        got = kernels.matmul(a, b.mT, scale_a=of_a, scale_b=of_b)
        assert distance(got, wanted) < 5e-3
        assert torch.equal(got, kernels.matmul(a, b.mT, scale_a=of_a, scale_b=of_b))
        wide = kernels.matmul(a, b.mT, scale_a=of_a, scale_b=of_b, out=torch.empty(m, n, device=device))
        assert distance(wide, wanted) < 1e-3


@devices
@pytest.mark.parametrize(("m", "n"), [(16, 520), (40, 264), (300, 264)])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_scales_of_b_that_lie_by_its_columns(m, n, target, device):
    """As `quantize_fp8` makes them of weights (N, K): no copy."""
    a, b, of_a, of_b, wanted = scaled(m, n, 656, device)
    turned = of_b.mT.contiguous().mT
    with kernels.simulated_target(target):
        assert distance(kernels.matmul(a, b.mT, scale_a=of_a, scale_b=turned), wanted) < 5e-3
        ends = torch.tensor([m], dtype=torch.int32, device=device)
        got = kernels.grouped_matmul(a, b[None].mT, ends, scale_a=of_a, scale_b=turned[None])
        assert distance(got, wanted) < 5e-3


@pytest.mark.parametrize("framework", ["numpy", "jax"])
def test_elsewhere(framework):
    pytest.importorskip(framework, reason=f"skipped: no {framework}")
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="skipped: no ml_dtypes")
    a, b, of_a, of_b, wanted = scaled(40, 136, 400)
    a, b = (each.float().numpy().astype(ml_dtypes.float8_e4m3fn) for each in (a, b.mT))
    of_a, of_b = of_a.numpy(), of_b.numpy()
    if framework == "jax":
        import jax

        a, b, of_a, of_b = (jax.numpy.asarray(each) for each in (a, b, of_a, of_b))
    got = kernels.matmul(a, b, scale_a=of_a, scale_b=of_b)
    assert distance(torch.tensor(np.asarray(got).astype("float32")), wanted) < 5e-3


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("config", [each for each, *_ in OF_BLOCKS], ids=str)
def test_tiles(config, by_rows):
    a, b, of_a, of_b, wanted = scaled(136, 328, 656)
    kernel = product_kernel(config, e4m3, epilogue=Epilogue(scales="block", by_rows=by_rows))
    with pyptx.simulator(check="all"):
        assert distance(kernel(a, b, of_a if by_rows else of_a.mT.contiguous(), of_b), wanted) < 5e-3


def test_what_measured_best_is_chosen():
    tiles = [blocks_of(*size) for size in (
        (4096, 24576, 1536), (4096, 2112, 7168), (4096, 4096, 7168), (4096, 7168, 2048), (4096, 7168, 16384), (2048, 4096, 7168), (512, 2112, 7168), (256, 4096, 4096),
    )]  # fmt: skip
    wide = [(128, 256)] * 3
    assert [(c.bm, c.bn) for c in tiles] == [(128, 128), (128, 192), *wide, (128, 128), (128, 64), (64, 128)]
    assert blocks_of(4096, 7168, 16384, plain=False).bn == blocks_of(512, 7168, 16384, True, batch=8).bn == 128
    assert blocks_of(4096, 2112, 7168, gated=True) == replace(BLOCKS, cn=1)
    groups = [blocks_of(rows, 4096, 7168, grouped=True, batch=32) for rows in (8, 128, 2048)]
    assert [(c.bm, c.bn) for c in groups] == [(64, 128), (128, 128), (128, 256)]
    assert blocks_of(2048, 4096, 7168, True, batch=32, plain=False).bn == 128
    found = [scaled_stream_of(m, n, 7168) for m, n in ((1, 4096), (16, 2112), (32, 7168), (64, 4096), (128, 2112), (16, 24576), (64, 24576))]  # fmt: skip
    assert [(c.tall, c.parts, c.bn) for c in found] == [
        (False, 2, 64), (False, 3, 64), (False, 1, 64), (True, 2, 64), (True, 3, 56), (False, 1, 128), (False, 1, 128)
    ]  # fmt: skip
    assert scaled_stream_of(128, 24576, 1536) is None
    with kernels.simulated_target("sm_90a"):
        of = Problem(128, 24576, 1536, None, e4m3, bf16, epilogue=Epilogue(scales="block"), on_gpu=False)
        names = [kernel_of(replace(of, n=n)).__name__ for n in (24576, 4096)]
    assert names == ["matmul", "stream_matmul"]


def test_a_stream_that_is_not_scaled():
    plain, odd = StreamConfig.of(16, 1, 64, deep=2), StreamConfig.of(16, 1, 64, scaled=True)
    for config, epilogue in ((plain, Epilogue(scales="block")), (odd, Epilogue(scales="block")), (odd, Epilogue())):
        with pytest.raises(ValueError, match="a stream of fp8 that is scaled, whose stages have 2 blocks"):
            stream_kernel(config, e4m3, epilogue=epilogue)


@pytest.mark.filterwarnings("error::pyptx.errors.PerformanceWarning")  # that ptxas waits after each wgmma
@needs_ptxas
@pytest.mark.parametrize("config", STREAMS[::5], ids=str)
def test_streams_assemble(config):
    epilogue = Epilogue(bf16, scales="block", by_rows=True)
    found = stream_kernel(config, e4m3, epilogue=epilogue).resources(M=config.rows, N=4096, K=4096, KB=32, NB=32)
    assert found.spill_stores == 0
    assert found.dynamic_shared <= 232448


@pytest.mark.filterwarnings("error::pyptx.errors.PerformanceWarning")
@needs_ptxas
@pytest.mark.parametrize("config", [each for each, *_ in OF_BLOCKS], ids=str)
def test_tiles_assemble(config):
    for out in (bf16, f32):
        kernel = product_kernel(config, e4m3, out=out, epilogue=Epilogue(scales="block", by_rows=True))
        found = kernel.resources(M=4096, N=4096, K=4096, KB=32, NB=32)
        assert found.spill_stores == 0
        assert found.dynamic_shared <= 232448
