"""Batches of products: those of heads that lie transposed, which are not copied, and those with few columns."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from test_matmul import GPU, distance  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.kernels._matmul import calls_in_torch  # noqa: E402
from pyptx.kernels._matmul.choice import tile_of  # noqa: E402
from pyptx.kernels._matmul.costs import Sizes  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import Config  # noqa: E402
from pyptx.types import bf16  # noqa: E402


def heads(rows: int, columns: int, dtype=torch.bfloat16):
    return torch.randn(2, rows, 3, columns).to(dtype).transpose(1, 2)


def half(*shape):
    return torch.randn(shape).bfloat16()


CASES = {
    "q @ k.mT": lambda: (heads(80, 64), heads(96, 64).mT),
    "p @ v": lambda: (half(2, 3, 80, 96), heads(96, 64)),
    "in another order": lambda: (half(3, 2, 80, 64).transpose(0, 1), half(2, 3, 96, 64).mT),
    "of f32": lambda: (heads(80, 64, torch.float32), heads(96, 64, torch.float32).mT),
    "of fewer matrices": lambda: (heads(80, 64), half(3, 64, 96)),
    "rows that TMA cannot address": lambda: (heads(75, 64), heads(99, 63 + 1).mT[..., :99]),
    "small matrices": lambda: (heads(16, 16), heads(16, 16).mT),
    "of three dimensions": lambda: (half(2, 2, 3, 80, 64).transpose(1, 2), half(2, 3, 2, 96, 64).mT),
}


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("case", CASES)
def test_any(case, device):
    a, b = (each.to(device) for each in CASES[case]())
    with kernels.simulated_target("sm_90a"), pyptx.simulator(check="all"):
        got = kernels.matmul(a, b)
        assert distance(got, a.double() @ b.double()) < 5e-3
        assert torch.equal(kernels.matmul(a, b, out=torch.empty_like(got)), got)
        gelu = kernels.matmul(a, b, activation="relu")
        assert distance(gelu, (a.double() @ b.double()).relu()) < 5e-3


@pytest.mark.parametrize("case", list(CASES)[:4])
def test_heads_that_lie_transposed_are_not_copied(case):
    a, b = CASES[case]()
    with kernels.simulated_target("sm_90a"):
        call = calls_in_torch.Call((a, b, None, None, None, None), None, None)
    for given, seen in zip((a, b), call.seen[:2], strict=True):
        assert seen.again(given).data_ptr() == given.data_ptr()


@pytest.mark.parametrize("config", [Config(128, 64, 6), Config(64, 80, 6, consumers=1, turned=True), Config(128, 128, 5, cn=2)], ids=str)  # fmt: skip
def test_tiles_of_two_dimensions(config):
    kernel = product_kernel(config, bf16, True, False, batched=2)
    a, b = heads(136, 80), heads(80, 144)
    with pyptx.simulator(check="all"):
        assert distance(kernel(a, b), a.double() @ b.double()) < 5e-3


def test_narrow_matrices_have_narrow_tiles():
    """Of many waves, too; and K goes forwards, if A is read once."""

    def of(m, n, k, batch):
        return tile_of(Sizes(m, n, k // 64, batch, b_k_major=False, plain=True))

    sizes = ((1024, 64, 1024, 256), (1024, 96, 1024, 256), (2048, 128, 2048, 64))
    assert [c.bm if c.turned else c.bn for c in (of(*size) for size in sizes)] == [64, 128, 128]
    low = of(64, 1024, 1024, 256)
    assert low.bm == 64 and low.swing and not of(128, 128, 4096, 32).swing
