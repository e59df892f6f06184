"""Products of few rows: `kernels.matmul` and `kernels.grouped_matmul` where weights are read once, on the simulator, and what is chosen."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.kernels._matmul.choice import Problem, kernel_of, stream_of  # noqa: E402
from pyptx.kernels._matmul.stream import StreamConfig, stream_kernel  # noqa: E402
from pyptx.types import s8, s32  # noqa: E402

OF_BYTES = (
    (StreamConfig.of(8, 1, 64), (3, 100, 288)),
    (StreamConfig.of(32, 2, 64, 1, 2), (20, 130, 256)),
    (StreamConfig.of(40, 3, 48, tall=True), (37, 100, 640)),
    (StreamConfig.of(64, 1, 128, 4), (60, 258, 128)),
)


@pytest.mark.parametrize(("config", "sizes"), OF_BYTES, ids=str)
def test_streams_of_int8(config, sizes):
    m, n, k = sizes
    a, b = (torch.randint(-128, 128, (rows, k), dtype=torch.int8) for rows in (m, n))
    got = stream_kernel(config, s8, True, s32, whole=n % 4 == 0)(a, b)
    assert torch.equal(got.long(), a.long() @ b.long().mT)


def test_few_rows_of_int8_are_a_stream_that_wgmma_takes():
    """Many columns of wgmma are a multiple of 16 where elements are int8."""
    for m, n, k in itertools.product(range(1, 129), (1000, 1024, 1536, 2112, 4096, 5120, 6144, 16400), (512, 4096)):
        c = stream_of(m, n, k, unit=16)
        columns = c.bn if c.tall else c.rows
        assert columns % 16 == 0 or columns in (8, 24), (m, n, k)
    with kernels.simulated_target("sm_90a"):
        for m in (1, 32, 37, 128):
            made = kernel_of(Problem(m, 1536, 4096, None, s8, s32, on_gpu=False))
            assert "wgmma.mma_async.sync.aligned.m64n" in made.ptx(M=m, N=1536, K=4096) and made.__name__ == "stream_matmul"
