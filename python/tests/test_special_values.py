"""Rows of NaN, infinities, zeros, subnormal and huge numbers: where torch has NaN, an infinity or a number, in f32 or in f64, so have the kernels, forward
and backward."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402

F = torch.nn.functional
NAN, INF = math.nan, math.inf
NEAR = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def changed(row, *places):
    row = row.clone()
    for at, value in places:
        row[at] = value
    return row


def rows(n: int, dtype) -> dict:
    limits, usual, middle = torch.finfo(dtype), torch.randn(n), n // 2
    large = limits.max / 4 if dtype is torch.float16 else 1e30
    signs = torch.where(torch.arange(n) % 3 == 0, 1.0, -1.0)
    found = {
        "usual": usual,
        "NaN": changed(usual, (middle, NAN)),
        "first NaN": changed(usual, (0, NAN)),
        "infinity": changed(usual, (middle, INF)),
        "-infinity": changed(usual, (0, -INF)),
        "both": changed(usual, (0, INF), (-1, -INF)),
        "NaN beside infinity": changed(usual, (0, INF), (middle, NAN)),
        "half -infinity": changed(usual, (slice(middle), -INF)),
        "one number": changed(torch.full((n,), -INF), (middle, 2.0)),
        **{f"all {value}": torch.full((n,), value) for value in (-INF, INF, NAN, 0.0, -0.0, 3.0, -1e4)},
        "large": signs * large,
        "subnormal": signs * limits.smallest_normal * limits.eps,
        "small": usual * limits.tiny,
        "far from zero": usual + 1000,
        "wide": usual * 1000,
    }
    return {name: row.to(dtype) for name, row in found.items()}


def classes(x):
    x = x.double()
    return x.isnan() * 3 + (x == INF) * 1 + (x == -INF) * 2


def losses(of):
    def call(x):
        return of(x, torch.full((len(x),), x.shape[1] // 2), reduction="none", label_smoothing=0.1)

    return call


# Ours, and torch's, which is called with f32 for 16 bits, too, because it rounds on the way.
FUNCTIONS = {
    "softmax": (kernels.softmax, lambda x: F.softmax(x, -1)),
    "log_softmax": (kernels.log_softmax, lambda x: F.log_softmax(x, -1)),
    "softmax of columns": (lambda x: kernels.softmax(x.mT.contiguous(), 0).mT, lambda x: F.softmax(x, -1)),
    "rms_norm": (kernels.rms_norm, lambda x: F.rms_norm(x, x.shape[-1:], None, 1e-6)),
    "rms_norm, eps 0": (lambda x: kernels.rms_norm(x, eps=0.0), lambda x: F.rms_norm(x, x.shape[-1:], None, 0.0)),
    "layer_norm": (kernels.layer_norm, lambda x: F.layer_norm(x, x.shape[-1:])),
    "cross_entropy": (losses(kernels.cross_entropy), losses(F.cross_entropy)),
    "swiglu": (lambda x: kernels.swiglu(x, x), lambda x: F.silu(x) * x),
    "geglu": (lambda x: kernels.geglu(x, x), lambda x: F.gelu(x) * x),
}


def made(function, x):
    x = x.detach().requires_grad_()
    y = function(x)
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
    return y.detach(), dx


@pytest.mark.parametrize("dtype", NEAR, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("n", [5, 37, 1003, 8200])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_torch(name, n, dtype):
    torch.manual_seed(n)
    ours, torchs = FUNCTIONS[name]
    given = rows(n, dtype)
    x = torch.stack(list(given.values()))
    got = made(ours, x)
    single, exact = made(torchs, x.float()), made(torchs, x.double())
    for which, (mine, narrow, wide) in enumerate(zip(got, single, exact, strict=True)):
        for row, a, b, c in zip(given, mine, narrow.to(mine.dtype), wide, strict=True):
            extreme = row in ("large", "subnormal", "small")  # squares overflow in f32, or vanish
            if extreme and which == 1:
                continue
            # Norms multiply the rounding of 1 - n (1 / n) by 1 / sqrt(eps).
            inexact = extreme or (row.startswith("all") and which == 1)
            kind, single_kind, wide_kind = classes(a), classes(b), classes(c.to(a.dtype))
            finite = (kind == 0) & (single_kind == 0) & (wide_kind == 0)
            if which == 1:  # whether the gradient of an infinity is one or NaN is a matter of rounding
                kind, single_kind, wide_kind = kind > 0, single_kind > 0, wide_kind > 0
            # Either may be right: torch's vectors in f32 make NaN of gelu of infinity.
            assert bool(((kind == single_kind) | (kind == wide_kind)).all()), (row, a, b, c)
            off, theirs = ((each.double() - c)[finite].norm() for each in (a, b))
            assert inexact or off <= max(NEAR[dtype] * c[finite].norm(), 2 * theirs) + 1e-6 * n**0.5, (row, off, theirs)
