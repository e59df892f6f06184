"""Tensors that lie somewhere in memory, and how far results are from float64: what the tests of random calls share."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")])  # fmt: skip


def random_calls(on_the_simulator: int, on_a_gpu: int):
    """The decorator of a test of so many examples of (rnd, device), where `rnd` is a random.Random that hypothesis draws from."""

    def decorate(test):
        @pytest.mark.parametrize("device", ["cpu", GPU])
        def run(device):
            @settings(max_examples=on_a_gpu if device == "cuda" else on_the_simulator, deadline=None)
            @given(rnd=st.randoms(use_true_random=False))
            def one(rnd):
                torch.manual_seed(rnd.randrange(2**31))
                test(rnd, device)

            one()

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def length(rnd, device: str, most: int, most_on_a_gpu: int) -> int:
    """Of a dimension: small ones, and those near powers of two, as often as others."""
    most = most_on_a_gpu if device == "cuda" else most
    near = max(1, 2 ** rnd.randrange(most.bit_length()) + rnd.choice((-1, 0, 1, 8)))
    return min(most, rnd.choice((rnd.randint(1, 40), rnd.randint(1, most), near)))


def placed(rnd, dtype, *shape, device="cpu", written=False, size=3.0):
    """A tensor of this shape somewhere in memory: packed, behind an offset, transposed, with gaps, as a part of another.  `written`: no two elements
    share their memory.  `size`: the standard deviation of the elements."""
    if len(shape) == 1:
        return placed(rnd, dtype, 1, *shape, device=device, written=written, size=size)[0]
    *lead, r, c = shape

    def made(*shape):
        return (torch.randn(shape, device=device) * size).to(dtype)

    offset, elements = rnd.choice((1, 2, 3, 4, 8)), math.prod(shape)
    ways = [
        lambda: made(*shape), lambda: made(*lead, c, r).mT, lambda: made(elements + offset)[offset:].view(shape),
        lambda: made(*lead, 2 * r + 1, c)[..., 1::2, :], lambda: made(*lead, r, 2 * c + 1)[..., 1::2],
        lambda: made(*lead, c + 3, r + 5).mT[..., 2 : 2 + r, 3 : 3 + c], lambda: made(*lead, r + 2, c + offset)[..., 1 : 1 + r, :c],
        lambda: made(*lead, r, c + 8 * offset)[..., 8 * offset :], lambda: made(*lead[::-1], r, c).permute(*range(len(lead))[::-1], -2, -1),
    ]  # fmt: skip
    if not written:
        ways += [
            lambda: made(*lead, 1, c).expand(shape), lambda: made(*lead, r, 1).expand(shape),
            lambda: made(*[1] * len(lead), r, c).expand(shape),
        ]  # fmt: skip
    return rnd.choice(ways)()


def distance(got, wanted) -> float:
    """Of all elements together, as a part of what is wanted."""
    assert got.shape == wanted.shape, f"{tuple(got.shape)}, not {tuple(wanted.shape)}"
    got, wanted = got.detach().double(), wanted.detach().double()
    return float((got - wanted).norm() / wanted.norm().clamp_min(1e-9)) if wanted.numel() else 0.0
