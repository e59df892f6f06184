"""`kernels.attention` with a mask that is a tensor: of bool, or added to scores."""

from __future__ import annotations

import functools
import math
import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from launches import launches_of  # noqa: E402
from test_attention import agrees, near, tensors  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.kernels._attention.arguments import bias_of  # noqa: E402

MODULE = sys.modules["pyptx.kernels.attention"]


def masked(q, k, v, mask, causal=False, sinks=None):
    """(o, lse) in f64."""
    q, k, v = (each.double() for each in (q, k.repeat_interleave(q.shape[1] // k.shape[1], 1), v.repeat_interleave(q.shape[1] // k.shape[1], 1)))  # fmt: skip
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.double()
    queries, keys = scores.shape[-2:]
    if causal:
        hidden = torch.arange(keys)[None] > torch.arange(queries)[:, None] + keys - queries
        scores = scores.masked_fill(hidden, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.double()[None, :, None, None].expand(*scores.shape[:-1], 1)], -1)
        v = torch.cat([v, v.new_zeros(*v.shape[:2], 1, v.shape[3])], 2)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v, torch.logsumexp(scores, -1)


def masks(batch, heads, queries, keys, kind):
    """Whole, of fewer dimensions, with dimensions of 1, with strides that are odd, with rows that are longer, broadcast without memory."""
    generator = torch.Generator().manual_seed(0)
    number = {"generator": generator}
    yield torch.rand(queries, keys, **number) > 0.3
    yield torch.rand(batch, 1, 1, keys, **number) > 0.3
    yield torch.randn(batch, heads, queries, keys, **number).to(kind)
    yield torch.randn(batch, heads, queries, keys + 3, **number).to(kind)[..., 1 : keys + 1]
    yield torch.randn(batch, heads, queries, -(-keys // 8) * 8, **number).to(kind)[..., :keys]
    yield torch.randn(1, heads, queries, 1, **number).to(kind)
    yield torch.randn(1, 1, queries, keys, **number).to(kind).expand(batch, heads, queries, keys)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((2, 2, 1, 200, 333, 64), torch.bfloat16),
        ((1, 2, 2, 70, 130, 128), torch.float16),
        ((1, 1, 1, 70, 201, 256), torch.bfloat16),
        ((1, 2, 1, 1, 1500, 40), torch.bfloat16),
        ((2, 8, 2, 5, 701, 128), torch.float16),
        ((3, 2, 1, 49, 49, 32), torch.float16),
        ((1, 2, 2, 100, 127, 128), torch.bfloat16),
        ((1, 4, 1, 20, 1300, 192), torch.bfloat16),
    ],
)
def test_masks(shape, kind, causal):
    batch, heads, shared, queries, keys, width = shape
    q, k, v = tensors(
        "cpu", (batch, heads, queries, width), *[(batch, shared, keys, width)] * 2, dtype=kind
    )  # fmt: skip
    for mask in masks(batch, heads, queries, keys, kind):
        call, seen = functools.partial(kernels.attention, q, k, v, mask=mask, causal=causal, lse=True), set()
        for target in ("sm_80", "sm_90a", "sm_100a"):
            with kernels.simulated_target(target):
                launches = launches_of(call)
                if launches <= seen:  # by an earlier target, too
                    continue
                with pyptx.simulator(check="all", raises=False) as run:
                    got = call()
            assert [str(report) for report in run.reports] == []
            agrees(got, masked(q, k, v, mask, causal))
            seen |= launches


def test_beside_sinks_and_where_no_key_counts():
    q, k, v = tensors("cpu", *[(1, 2, 90, 64)] * 3)
    mask, sinks = torch.rand(90, 90) > 0.5, torch.tensor([0.5, -1.0])
    agrees(kernels.attention(q, k, v, mask=mask, sinks=sinks, lse=True), masked(q, k, v, mask, sinks=sinks))
    mask[:40] = False
    o, lse = kernels.attention(q, k, v, mask=mask, lse=True)
    assert not o[:, :, :40].any() and bool((lse[:, :, :40] == -math.inf).all())
    agrees((o, lse), masked(q, k, v, mask))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("width", [64, 128])
def test_rows_that_see_no_key_of_several_blocks(target, width):
    """Blocks whose keys all exist; the largest score stays -inf over them."""
    q, k, v = tensors("cpu", *[(1, 1, size, width) for size in (70, 400, 400)])
    mask = torch.rand(70, 400) > 0.5
    mask[:40] = False
    mask[40:, 128:] = False
    with kernels.simulated_target(target):
        agrees(kernels.attention(q, k, v, mask=mask, lse=True), masked(q, k, v, mask))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("queries", "keys", "width"), [(40, 70, 64), (130, 300, 64), (2, 600, 64), (70, 200, 128)])
def test_rows_of_large_negative_numbers_see_no_key(queries, keys, width, target):
    """Exponents are relative to the largest, which f32 rounds by more than exponentials have room for."""
    q, k, v = tensors("cpu", *[(1, 1, size, width) for size in (queries, keys, keys)])
    for number in (-1e10, -1e12, -1e20, -1e30, torch.finfo(torch.bfloat16).min):
        mask = torch.zeros(queries, keys)
        mask[0], mask[1:, : keys // 2] = number, number
        with kernels.simulated_target(target):
            got = kernels.attention(q, k, v, mask=mask.bfloat16(), lse=True)
        agrees(got, masked(q, k, v, mask == 0))


def test_odd_rows_are_not_copied():
    """Of values of up to 64 columns; for more there are too few registers."""
    q, k = tensors("cpu", *[(1, 2, 30, 64)] * 2)
    even, odd = torch.randn(1, 2, 30, 32).bfloat16()[..., :30], torch.randn(1, 2, 30, 31).bfloat16()[..., :30]
    for mask, width, loaded, same in ((even, 128, 2, True), (odd, 64, 1, True), (odd, 128, 2, False)):
        laid, strides, each = bias_of(mask, q, k, k.new_empty(1, 2, 30, width))
        assert (each, laid.data_ptr() == mask.data_ptr()) == (loaded, same)
        assert strides["bias_query"] * each == laid.stride(2)


@pytest.mark.parametrize("framework", ["numpy", "jax"])
def test_elsewhere(framework):
    numpy = pytest.importorskip(f"{framework}.numpy" if framework == "jax" else framework)
    q, k, v = (each.float().numpy().astype("float16") for each in tensors("cpu", *[(1, 2, 30, 64)] * 3))
    mask = torch.rand(30, 30) > 0.5
    got = kernels.attention(*(numpy.asarray(each) for each in (q, k, v)), mask=numpy.asarray(mask.numpy()))
    near(torch.tensor(got.tolist()), masked(*(torch.tensor(each) for each in (q, k, v)), mask)[0])


def test_the_words_of_torch_with_a_mask(monkeypatch):
    """By our kernel, if it is one of ours and nobody asks for gradients; else by torch's own."""
    calls, inner = [], MODULE._masked
    monkeypatch.setattr(MODULE, "_masked", lambda *given: calls.append(given) or inner(*given))
    q, k, v = tensors("cpu", *[(1, 2, 40, 64)] * 3)
    theirs = torch.nn.functional.scaled_dot_product_attention
    for mask, ours in ((torch.rand(40, 40) > 0.3, 1), (torch.randn(2, 40, 40).bfloat16(), 1), (torch.randn(40, 40), 0)):
        near(kernels.scaled_dot_product_attention(q, k, v, mask), theirs(*(x.double() for x in (q, k, v)), mask.double() if mask.dtype != torch.bool else mask))  # fmt: skip
        assert len(calls) == ours
        calls.clear()
    leaf = q.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(
        kernels.scaled_dot_product_attention(leaf, k, v, torch.ones(40, 40).bool()).sum(), leaf
    )
    assert gradient.shape == q.shape and not calls
    both = (q, k, v, torch.ones(40, 40).bool()), {"is_causal": True}
    assert (
        torch.equal(kernels.scaled_dot_product_attention(*both[0], **both[1]), theirs(*both[0], **both[1]))
        and not calls
    )


Q, K, V = tensors("cpu", (1, 2, 30, 64), (1, 2, 50, 64), (1, 2, 50, 64))
COUNTS = torch.tensor([50], dtype=torch.int32)


@pytest.mark.parametrize(
    ("told", "error", "message"),
    [
        ({"mask": torch.zeros(30, 50)}, LaunchTypeError, "mask is of bool, True where a key counts, or of bfloat16 as q, added to scores; not of float32"),
        ({"mask": torch.zeros(30, 51).bool()}, LaunchValueError, r"mask is \(B, H, M, N\) = \(1, 2, 30, 50\), or 1 where all have the same, not \(30, 51\)"),
        ({"mask": torch.zeros(1, 1, 2, 30, 50).bool()}, LaunchValueError, r"not \(1, 1, 2, 30, 50\)"),
        ({"mask": torch.zeros(30, 50).bool(), "lengths": COUNTS}, LaunchValueError, "beside mask are legal causal, window, softcap, scale, sinks, lse, out; not lengths"),
        ({"mask": [True]}, LaunchTypeError, "mask is a tensor"),
    ],
)  # fmt: skip
def test_refused(told, error, message):
    with pytest.raises(error, match=message):
        kernels.attention(Q, K, V, **told)


def test_no_gradient():
    with pytest.raises(LaunchValueError, match="with a mask there is no gradient"):
        kernels.attention(Q.clone().requires_grad_(), K, V, mask=torch.ones(30, 50).bool())
    with torch.no_grad():
        kernels.attention(Q.clone().requires_grad_(), K, V, mask=torch.ones(30, 50).bool())
