"""The gradients of products of groups of rows, and of gates and ups, against float64 on the simulator."""

from __future__ import annotations

import contextlib

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.kernels._matmul import grouped_in_torch, in_torch  # noqa: E402

F = torch.nn.functional
GATED = {
    "swiglu": lambda z: F.silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
    "geglu": lambda z: F.gelu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
}


def distance(got, wanted) -> float:
    assert got.shape == wanted.shape
    return float((got.detach().double() - wanted).norm() / wanted.norm().clamp_min(1e-9))


@pytest.mark.parametrize(
    ("k", "n", "counts", "target"),
    [
        (72, 136, [0, 130, 64, 200], "sm_90a"),
        (72, 520, [0, 0, 3], "sm_90a"),
        (64, 48, [5, 0, 33], "sm_80"),
        (33, 17, [9, 1], None),
    ],
)
def test_products_of_counted_groups_of_k(k, n, counts, target):
    """With the tile of a group stored beside the steps of the next one, of which it may have none."""
    a, g = (torch.randn(len(counts), 200, each).bfloat16() for each in (k, n))
    for e, count in enumerate(counts):
        a[e, count:] = g[e, count:] = torch.nan
    given = a.requires_grad_(), g.requires_grad_()
    with kernels.simulated_target(target) if target else contextlib.nullcontext(), pyptx.simulator(check="all"):
        got = grouped_in_torch.parted_product(*given, torch.tensor(counts, dtype=torch.int32), True)
    parts = [a[e, :count].double().mT @ g[e, :count].double() for e, count in enumerate(counts)]
    assert distance(got.detach(), torch.stack(parts).detach()) < 5e-3
    if target is None:
        pull = torch.randn(got.shape).bfloat16()
        exact = torch.autograd.grad(parts, (a, g), list(pull.double()))
        for ours, theirs in zip(torch.autograd.grad(got, given, pull), exact, strict=True):
            assert distance(ours, theirs.nan_to_num()) < 1e-2


@pytest.mark.parametrize("columns", [48, 17, 10])
@pytest.mark.parametrize("masked", [False, True])
def test_rows_of_no_group_are_cleared(columns, masked):
    a, b = torch.randn(3, 20, 16).bfloat16(), torch.randn(3, 16, columns).bfloat16()
    ends = torch.tensor([3, 0, 20] if masked else [5, 5, 41], dtype=torch.int32)
    given = (a if masked else a.reshape(60, 16), b, ends, None, None, masked, None)
    with pyptx.simulator(check="all"):
        made = torch.ops.pyptx.grouped_matmul(*given, True)
    own = grouped_in_torch.counted(given[0], ends, masked)
    assert torch.equal(made, torch.where(own, torch.ops.pyptx.grouped_matmul(*given), 0))
    full = torch.full_like(made, torch.nan)
    grouped_in_torch.zeros_behind(ends, full, masked)
    assert torch.equal(full.isnan(), own.expand_as(full)) and not full.nan_to_num().any()


@pytest.mark.parametrize("shape", [(3, 5, 24), (2, 7), (0, 8), (130, 2, 6)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", ["swiglu", "geglu"])
def test_gradient_of_gates_and_ups(name, dtype, shape):
    """Where nothing is differentiated again one kernel; where something is, torch's functions."""
    g, z = torch.randn(shape).to(dtype), torch.randn(*shape[:-1], 2 * shape[-1]).to(dtype)
    exact = z.double().requires_grad_()
    (wanted,) = torch.autograd.grad(GATED[name](exact), exact, g.double())
    with torch.no_grad(), pyptx.simulator(check="all"):
        got = in_torch.DERIVATIVES[name](g, z)
    assert got.shape == z.shape and got.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float32 else 3e-3
    assert distance(got, wanted) < tolerance
    assert distance(in_torch.DERIVATIVES[name](g, z), wanted) < 3 * tolerance
    torch.library.opcheck(torch.ops.pyptx.gated_gradient, (g, z, name))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("experts", [0, 3])
@pytest.mark.parametrize("spread", [True, False])
def test_no_rows(experts, spread, target):
    a, b = (torch.randn(shape).bfloat16().requires_grad_() for shape in ((0, 64), (experts, 64, 48)))
    with kernels.simulated_target(target):
        y = kernels.grouped_matmul(a, b, torch.zeros(experts, dtype=torch.int32))
        g = torch.ones(()).bfloat16().expand(0, 48) if spread else torch.ones(0, 48).bfloat16()
        da, db = torch.autograd.grad(y, (a, b), g)
        parts = kernels.grouped_matmul(a.detach().mT, g, torch.zeros(2, dtype=torch.int32))
    assert da.shape == a.shape and db.shape == b.shape and not db.any()
    assert parts.shape == (2, 64, 48) and not parts.any()
