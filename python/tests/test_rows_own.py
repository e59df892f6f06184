"""Rows of a few elements, of which a thread has some for itself: whole vectors of them, and the last rows one by one."""

from __future__ import annotations

import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from test_row_edges import with_gradients  # noqa: E402

from pyptx import kernels  # noqa: E402
from pyptx.kernels import _row_function  # noqa: E402
from pyptx.kernels._rows.split import Split  # noqa: E402

gated, softmax = (sys.modules[f"pyptx.kernels.{name}"] for name in ("gated", "softmax"))

F = torch.nn.functional
TYPES = {torch.bfloat16: 2e-2, torch.float32: 1e-5}


def targets(x):
    return torch.arange(len(x)) * 5 % x.shape[1]


FUNCTIONS = {
    "softmax": (kernels.softmax, lambda x: x.softmax(-1), 0),
    "log_softmax": (kernels.log_softmax, lambda x: x.log_softmax(-1), 0),
    "softmax to f32": (lambda x: kernels.softmax(x, dtype=torch.float32), lambda x: x.softmax(-1), 0),
    "rms_norm": (kernels.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), 1),
    "rms_norm, alone": (kernels.rms_norm, lambda x: F.rms_norm(x, x.shape[-1:], None, 1e-6), 0),
    "add_rms_norm": (
        lambda x, w: torch.stack(kernels.add_rms_norm(x, x.flip(0), w)).float(),
        lambda x, w: torch.stack((F.rms_norm(x + x.flip(0), w.shape, w, 1e-6), x + x.flip(0))),
        1,
    ),
    "layer_norm": (kernels.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), 2),
    "cross_entropy": (
        lambda x: kernels.cross_entropy(x, targets(x), reduction="none"),
        lambda x: F.cross_entropy(x, targets(x), reduction="none"),
        0,
    ),
    "cross_entropy, smoothed": (
        lambda x, w: kernels.cross_entropy(x, targets(x), w.abs(), label_smoothing=0.1),
        lambda x, w: F.cross_entropy(x, targets(x), w.abs(), label_smoothing=0.1),
        1,
    ),
}


@pytest.mark.parametrize("rows", [1, 7, 264])
@pytest.mark.parametrize("n", [3, 5, 6, 7, 8, 10, 14, 33, 46, 77])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_float64(name, dtype, n, rows, monkeypatch):
    monkeypatch.setattr(_row_function, "FEW_ROWS", ())
    compare(name, dtype, n, rows)


@pytest.mark.parametrize("n", [1, 3, 8, 9, 33, 77])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_few_rows_by_lanes(name, dtype, n):
    compare(name, dtype, n, 13)


def compare(name, dtype, n, rows):
    ours, theirs, vectors = FUNCTIONS[name]
    generator = torch.Generator().manual_seed(n * rows)
    x = torch.randn(rows, n, generator=generator).to(dtype)
    weights = [torch.randn(n, generator=generator).to(dtype) for _ in range(vectors)]
    for one, other in with_gradients(ours, theirs, x, weights, generator, "sm_90a"):
        assert (one.double() - other).abs().max() < TYPES[dtype] * other.abs().max().clamp_min(1)


def test_a_target_outside_and_one_that_is_ignored():
    x = torch.randn(9, 5).requires_grad_()
    target = torch.tensor([0, 5, -1, -100, 4, 2**32 + 1, 1, 2, 3])
    losses = kernels.cross_entropy(x, target, reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    for rows in (losses, gradient.sum(1)):
        assert rows.isnan().tolist() == [False, True, True, False, False, True, False, False, False]
    assert losses[3] == 0 and not gradient[3].any()


def test_which_rows_are_few():
    shapes = (8192, 77), (64, 128, 17), (8193, 77), (8192, 80), (65536, 7), (65536, 8), (65537, 7), (8192, 97)
    few = [True, True, False, False, True, True, False, False]
    assert [softmax.SOFTMAX[0]._are_few(shape) for shape in shapes] == few
    assert not gated.SWIGLU._are_few((8192, 77))
    x = torch.randn(3, 77).bfloat16()
    few, many = (softmax.SOFTMAX[0].run_for((x.dtype,), False, False, "", 0, few) for few in (True, False))
    assert "shfl" in few.ptx(N=77) and "shfl" not in many.ptx(N=77)


def test_small_gates_have_rows_of_16_elements():
    """Calls that autograd records keep theirs, and are remembered with their tensors."""

    def columns(*shape, recorded=False):
        return gated.SWIGLU._columns([torch.empty(shape, device="meta")] * 2, recorded)

    assert [columns(4, 4096), columns(512, 4096), columns(3, 2, 8)] == [16] * 3
    assert [columns(513, 4096), columns(37, 1001), columns(2**20, 24), columns(100_000, 120)] == [4096, 1001, 4096, 120]
    assert [columns(4, 4096, recorded=True), columns(3, 2, 8, recorded=True)] == [4096, 8]
    assert softmax.SOFTMAX[0]._columns([torch.empty(4, 4096, device="meta")], False) == 4096
    for shape in ((4, 4096), (5, 48), (3, 100), (2, 3, 8)):
        x, up = torch.randn(2, *shape).bfloat16()
        wanted = kernels.swiglu(x.requires_grad_(), up).detach()
        plain, out = x.detach(), torch.empty(shape).bfloat16()
        assert torch.equal(kernels.swiglu(plain, up), wanted)
        assert kernels.swiglu(plain, up, out=out) is out and torch.equal(out, wanted)
        assert kernels.swiglu(plain, up, out=plain) is plain and torch.equal(plain, wanted)


def test_which_rows():
    """Two vectors of 16 bytes a thread at least, or one row; longer rows, and those that vectors divide, are shared by threads."""
    found = {n: Split.once(n, 16, own=True) for n in (1, 3, 8, 9, 10, 16, 28, 30, 32)}
    assert {n: split.batch for n, split in found.items() if split.threads == 1} == {
        1: 16,
        3: 8,
        8: 2,
        9: 1,
        10: 4,
        28: 2,
        30: 1,
    }
    assert all(split.batch == 1 or split.batch * n % 8 == 0 for n, split in found.items() if split.threads == 1)
    assert Split.once(3, 16).threads > 1 and Split.once(10, 16, 2, own=True).threads == 1
    two = [Split.once(n, 16, 2, own=True) for n in (7, 71, 73)]  # matrices, of which fewer elements find registers
    assert [(split.threads, split.batch) for split in two[:2]] == [(1, 1), (1, 1)] and two[2].threads > 1


def test_lanes_that_leave_few_places_empty():
    """In 16 bits, and where an element takes many instructions: 160 elements are 20 vectors of 16 bits, of which sixteen lanes would have two each."""
    found = {
        (n, bits, tight): Split.once(n, bits, tight=tight)
        for n in (64, 160)
        for bits in (16, 32)
        for tight in (False, True)
    }
    assert [(split.threads, split.each) for split in found.values()] == [
        (4, 2), (4, 2), (8, 2), (8, 2), (4, 5), (4, 5), (32, 2), (8, 5),
    ]  # fmt: skip
