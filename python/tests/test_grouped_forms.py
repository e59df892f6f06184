"""`grouped_matmul` where b is one matrix, as torch._grouped_mm has it: groups of what is summed over, and of columns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from placed import GPU, distance  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402

ENDS = [130, 130, 137, 290]
devices = pytest.mark.parametrize("device", ["cpu", GPU])
types = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def ends_on(device, ends=ENDS):
    return torch.tensor(ends, dtype=torch.int32, device=device)


def cuts(ends=ENDS):
    return itertools.pairwise([0, *ends])


def of_terms(a, b):
    return torch.stack([a[:, begin:end] @ b[begin:end] for begin, end in cuts()])


def of_columns(a, b):
    return torch.cat([a[e] @ b[:, begin:end] for e, (begin, end) in enumerate(cuts())], 1)


FORMS = {"terms": (of_terms, (72, 300), (300, 48)), "columns": (of_columns, (4, 40, 64), (64, 300))}


@devices
@types
@pytest.mark.parametrize("across", [(False, False), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_against_float64(form, across, dtype, device):
    """With gradients; what belongs to no group is not read."""
    reference, *shapes = FORMS[form]
    made = [torch.randn(shape, device=device).to(dtype) for shape in shapes]
    given = [each.mT.contiguous().mT if turned else each for each, turned in zip(made, across, strict=True)]
    given[-1][(slice(ENDS[-1], None),) if form == "terms" else (slice(None), slice(ENDS[-1], None))] = torch.nan
    given = [each.requires_grad_() for each in given]
    exact = [each.detach().double().requires_grad_() for each in given]
    got, wanted = kernels.grouped_matmul(*given, ends_on(device)), reference(*exact)
    got = got if form == "terms" else got[:, : ENDS[-1]]
    assert distance(got, wanted) < 5e-3
    pull = torch.randn(wanted.shape, device=device).to(dtype)
    gradients = torch.autograd.grad(got, given, pull)
    for ours, theirs in zip(gradients, torch.autograd.grad(wanted, exact, pull.double()), strict=True):
        assert distance(ours, theirs) < 1e-2


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_reported(form, target):
    reference, *shapes = FORMS[form]
    a, b = (torch.randn(shape).bfloat16() for shape in shapes)
    wanted = reference(a.double(), b.double())
    out = torch.zeros((4, 72, 48) if form == "terms" else (40, 300)).bfloat16()
    with kernels.simulated_target(target), pyptx.simulator(check="all", raises=False) as run:
        assert kernels.grouped_matmul(a, b, ends_on("cpu"), out=out) is out
    assert [str(report) for report in run.reports] == []
    assert distance(out[..., : wanted.shape[-1]], wanted) < 5e-3


@pytest.mark.parametrize("form", FORMS)
def test_traced(form):
    _, *shapes = FORMS[form]
    a, b = (torch.randn(shape).bfloat16() for shape in shapes)
    ends = ends_on("cpu", [130, 130, 137, 300])
    compiled = torch.compile(lambda a, b: kernels.grouped_matmul(a, b, ends) * 2, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a, b), kernels.grouped_matmul(a, b, ends) * 2)


@pytest.mark.parametrize("form", FORMS)
def test_jax_and_numpy(form):
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    reference, *shapes = FORMS[form]
    a, b = (np.random.default_rng(0).standard_normal(shape).astype("float16") for shape in shapes)
    wanted = reference(*(torch.from_numpy(each).double() for each in (a, b)))
    ends = np.array(ENDS, np.int32)
    for made in (
        kernels.grouped_matmul(a, b, ends),
        jax.jit(kernels.grouped_matmul)(*map(jax.numpy.asarray, (a, b, ends))),
    ):
        got = torch.from_numpy(np.array(made))
        assert distance(got[..., : wanted.shape[-1]], wanted) < 5e-3


@pytest.mark.parametrize(
    ("error", "message", "change"),
    [
        (LaunchTypeError, "give offs, and neither activation nor scales", {"activation": "relu"}),
        (LaunchTypeError, "give offs, and neither", {"offs": None}),
        (LaunchTypeError, "a is of float32 and b of bfloat16; legal are two of", {"a": torch.ones(4, 8)}),
        (LaunchTypeError, "offs is of int64; legal is int32", {"offs": torch.ones(2, dtype=torch.int64)}),
        (LaunchTypeError, "offs is of uint32; legal is int32", {"offs": torch.ones(2, dtype=torch.int32).view(torch.uint32)}),
        (LaunchValueError, r"are neither \(M, K\), \(K, N\) and \(E,\) nor \(E, M, K\)", {"a": torch.ones(4, 9).bfloat16()}),
        (LaunchValueError, r"a \(3, 4, 8\).* are neither", {"a": torch.ones(3, 4, 8).bfloat16()}),
        (LaunchValueError, "offs rise from 0 to 8", {"offs": torch.tensor([4, 9], dtype=torch.int32)}),
    ],
)  # fmt: skip
def test_what_does_not_fit(error, message, change):
    given = {"a": torch.ones(4, 8).bfloat16(), "b": torch.ones(8, 5).bfloat16(), "offs": ends_on("cpu", [4, 8])}
    with pytest.raises(error, match=message):
        kernels.grouped_matmul(**given | change)
