"""Rows of 16 bits that begin inside a vector of memory: whole vectors, of whose elements the neighbours' are neither counted nor written."""

from __future__ import annotations

import shutil

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.kernels._rows.split import Split  # noqa: E402
from pyptx.kernels.cross_entropy import CROSS_ENTROPY, OF_FEW_ROWS  # noqa: E402
from pyptx.kernels.gated import SWIGLU  # noqa: E402
from pyptx.kernels.norm import LAYER_NORM  # noqa: E402
from pyptx.kernels.softmax import SOFTMAX  # noqa: E402
from pyptx.types import bf16, s64  # noqa: E402

F = torch.nn.functional
TARGETS = pytest.mark.parametrize("target", ["sm_80", "sm_90a"])


def of_losses(function, **told):
    """The losses of rows whose classes are the first and the last column, and some between."""

    def losses(x, *weight):
        rows, n = x.shape
        target = torch.tensor([0, n - 1, n // 2, 1, n - 2, 5, 7, 3])[:rows]
        return function(x, target, *(each.abs() for each in weight), reduction="none", **told)

    return losses


FUNCTIONS = {
    "softmax": (kernels.softmax, lambda x: x.softmax(-1), ()),
    "log_softmax": (kernels.log_softmax, lambda x: x.log_softmax(-1), ()),
    "softmax to f32": (lambda x: kernels.softmax(x, dtype=torch.float32), lambda x: x.softmax(-1), ()),
    "rms_norm": (kernels.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), (torch.bfloat16,)),
    "rms_norm, weights of f32": (kernels.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), (torch.float32,)),
    "layer_norm": (
        kernels.layer_norm,
        lambda x, w, b: F.layer_norm(x, w.shape, w, b),
        (torch.bfloat16, torch.bfloat16),
    ),
    "cross_entropy": (of_losses(kernels.cross_entropy), of_losses(F.cross_entropy), ()),
    "cross_entropy, smoothed": (
        of_losses(kernels.cross_entropy, label_smoothing=0.1),
        of_losses(F.cross_entropy, label_smoothing=0.1),
        (torch.bfloat16,),
    ),
    "swiglu": (lambda x: kernels.swiglu(x, x), lambda x: F.silu(x) * x, ()),
}


def with_gradients(ours, theirs, x, weights, generator, target: str):
    """(ours, of float64) for the results and for the gradients of x; the checks of the simulator report nothing."""
    with kernels.simulated_target(target), pyptx.simulator(check="all", raises=False) as run:
        got = ours(x.requires_grad_(), *weights)
        pull = torch.randn(got.shape, generator=generator).to(got.dtype)
        (gradient,) = torch.autograd.grad(got, x, pull)
    assert [str(report) for report in run.reports] == []
    exact = x.detach().double().requires_grad_()
    wanted = theirs(exact, *(each.double() for each in weights))
    (goal,) = torch.autograd.grad(wanted, exact, pull.double())
    return (got, wanted), (gradient, goal)


@TARGETS
@pytest.mark.parametrize("n", [66, 129, 333, 1001, 1022, 2047, 5003, 9001, 33_001])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_neighbours_do_not_matter(name, n, target):
    """Every other row is NaN or infinite.  Nothing behind the last row is read: the checks see it."""
    ours, theirs, vectors = FUNCTIONS[name]
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(8 if n < 9000 else 4, n, generator=generator).bfloat16()
    weights = [torch.randn(n, generator=generator).to(dtype) for dtype in vectors]
    x[1], x[-3] = torch.nan, torch.inf
    good = torch.tensor([row for row in range(len(x)) if row not in (1, len(x) - 3)])
    for one, other in with_gradients(ours, theirs, x, weights, generator, target):
        one, other = one.detach()[good].double(), other.detach()[good]
        assert (one - other).norm() < 5e-3 * other.norm()


def vectors_of_memory(text: str) -> bool:
    return "ld.global.nc.v4.b32" in text or "cp.async.cg.shared.global" in text


@pytest.mark.parametrize("n", [129, 1001, 5003, 50_257, 131_073])
def test_all_loads_but_those_of_the_last_row_are_of_16_bytes(n):
    for function, types in ((SOFTMAX[0], (bf16,)), (LAYER_NORM, (bf16,) * 3), (CROSS_ENTROPY, (bf16, s64)), (OF_FEW_ROWS, (bf16, s64))):  # fmt: skip
        assert vectors_of_memory(function.kernel(*types, wide=True).ptx(N=n))


def test_which_rows():
    assert [Split.once(n, 16).edges for n in (127, 129, 130, 132, 1000, 1001)] == [
        False,
        True,
        True,
        False,
        False,
        True,
    ]
    assert [Split.reading(n, 16).edges for n in (63, 65, 66, 68)] == [False, True, True, False]
    assert not Split.once(1001, 32).edges and not Split.once(1001, 16, edges=False).edges
    assert Split.wide(50_257, 16).packed and Split.wide(50_257, 16, arrays=2).packed
    for n in (129, 511, 1001, 1022, 4089, 4090, 4095):  # a row of any shift has room
        split = Split.once(n, 16)
        assert split.each * split.together * split.vector >= n + 7


def test_which_rows_a_warp_takes():
    """A CTA for each would begin too late: of any vectors, up to 3 KB."""
    for split in (Split.once, Split.wide, Split.reading):
        for n, bits in ((197, 32), (577, 32), (514, 32), (1152, 16), (1280, 16)):
            assert split(n, bits).threads == 32 and split(n, bits).rows >= 4, (split, n, bits)
    assert Split.once(1500, 16).threads == Split.once(701, 32).threads == 32
    assert Split.once(1536, 16, norm=2).threads == 32 and Split.once(1544, 16).threads > 32
    # Few lanes that have as few places empty, where one matrix is read.
    assert [Split.once(197, 16, arrays).threads for arrays in (1, 2)] == [8, 16]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="skipped: no ptxas")
@pytest.mark.filterwarnings("ignore:PTX4014")
@pytest.mark.parametrize("n", [9001, 32_003])
def test_long_rows_stay_in_registers(n):
    """Also two matrices, and three."""
    for function, types in ((SWIGLU, (bf16,) * 2), (LAYER_NORM, (bf16,) * 3), (CROSS_ENTROPY, (bf16, s64))):
        for kernel in function.made(types, True, False):
            if hasattr(kernel, "resources"):  # the backward of layer_norm is two kernels
                assert kernel.resources(N=n).spill_stores <= 64


@TARGETS
@pytest.mark.parametrize("shape", [(7, 1001), (2, 3, 333), (300, 10), (9, 3)], ids=str)
def test_the_result_in_the_place_of_the_rows(shape, target):
    """Where a row's vectors have elements of its neighbours, which their own CTAs overwrite, it is made elsewhere and copied."""
    x = torch.randn(shape).bfloat16()
    beside, w = torch.randn(shape).bfloat16(), torch.randn(shape[-1]).bfloat16()
    for call in (kernels.softmax, lambda x, **out: kernels.rms_norm(x, w, **out), lambda x, **out: kernels.swiglu(x, beside, **out)):  # fmt: skip
        with kernels.simulated_target(target):
            wanted, place = call(x), x.clone()
            with pyptx.simulator(check="all", raises=False) as run:
                assert call(place, out=place) is place
                elsewhere = call(x, out=torch.empty_like(x))
        assert [str(report) for report in run.reports] == []
        assert torch.equal(place, wanted) and torch.equal(elsewhere, wanted)
