"""The warp-specialised product of examples/hopper_gemm.py: assembled with its register budgets, run from PyTorch and JAX on an H200."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import hopper_gemm
from hopper_gemm import gemm, tile_schedule


def cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


hopper = pytest.mark.skipif(not cuda(), reason="skipped: no sm_90 GPU")
SIZES = ((512, 512, 64), (512, 768, 320), (1024, 256, 192), (2048, 2048, 2048))


def test_code_has_register_budgets():
    code = gemm.sass(M=512, N=512, K=256, S=hopper_gemm.CLUSTERS * hopper_gemm.ENTRIES)
    assert code.count("USETMAXREG") == 2


def test_schedule_covers_each_tile_once():
    tiles = [int(entry) for entry in tile_schedule(2048, 1024) if entry != -1]
    assert sorted(tiles) == [i << 16 | j for i in range(8) for j in range(4)]


@pytest.mark.gpu
@hopper
@pytest.mark.parametrize("m, n, k", SIZES)
def test_torch(m, n, k):
    torch = pytest.importorskip("torch")
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    got = gemm(a, b, torch.from_numpy(tile_schedule(m, n)).cuda(), M=m, N=n, K=k)
    want = (a.double() @ b.double().T).T
    assert (got.double() - want).norm() / want.norm() < 4e-3


@pytest.mark.gpu
@hopper
def test_jax():
    jax = pytest.importorskip("jax")
    m, n, k = 512, 768, 320
    rng = np.random.default_rng(0)
    a, b = (jax.numpy.asarray(rng.standard_normal(shape), jax.numpy.bfloat16) for shape in ((m, k), (n, k)))
    got = np.asarray(jax.jit(lambda a, b, s: gemm(a, b, s, M=m, N=n, K=k))(a, b, tile_schedule(m, n)), np.float64)
    want = (np.asarray(a, np.float64) @ np.asarray(b, np.float64).T).T
    assert np.linalg.norm(got - want) / np.linalg.norm(want) < 4e-3
