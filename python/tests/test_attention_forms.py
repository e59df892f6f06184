"""Random calls of `kernels.attention` against float64 in every form that its keys may have: beside a mask, as sequences behind each other, as a
cache, whole or in pages; with each of the options that go with the form, and gradients where there are some."""

from __future__ import annotations

import math
import sys
from unittest import mock

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from placed import distance, length, placed, random_calls  # noqa: E402
from test_attention import hopper, reference  # noqa: E402

from pyptx import kernels  # noqa: E402
from pyptx.kernels._target import simulated  # noqa: E402

FP8 = torch.float8_e4m3fn
PARTS = sys.modules["pyptx.kernels._attention.parts"]
TARGETS = ("sm_80", "sm_90a", "sm_90a", "sm_100a")


def options(rnd, heads: int, device: str) -> dict:
    made = {
        "causal": rnd.random() < 0.5,
        "window": rnd.choice((None, None, 1, 40)),
        "softcap": rnd.choice((None, None, 5.0)),
        "scale": rnd.choice((None, 0.3)),
    }
    return made | ({"sinks": torch.randn(heads, device=device)} if rnd.random() < 0.4 else {})


def sizes(rnd) -> tuple:
    """(heads, heads of k, elements of q and k, of v)."""
    shared, width = rnd.randint(1, 2), rnd.choice((16, 64, 80, 128, 192, 256))
    return shared * rnd.choice((1, 3, 4)), shared, width, rnd.choice((width, width, 16 * rnd.randint(1, width // 16)))


def agree(got, want):
    """Of (o, lse); rows that see no key are 0 and -inf."""
    got, want = ([each.detach() for each in pair] for pair in (got, want))
    assert distance(got[0], want[0]) < 1e-2
    seen = torch.isfinite(want[1])
    assert torch.equal(torch.isfinite(got[1]), seen)
    assert not seen.any() or float((got[1][seen].double() - want[1][seen]).abs().max()) < 1e-2


def exact(tensors, **told):
    return reference(*(each.double() for each in tensors), **told)


def mask_of(rnd, kind, shape, device: str):
    shape = [1 if rnd.random() < 0.3 else size for size in shape]
    shape = shape[rnd.choice((0, 0, 2)) :]
    if rnd.random() < 0.5:
        return torch.rand(shape, device=device) > rnd.choice((0.1, 0.5, 0.98))
    made = placed(rnd, kind, *shape, device=device)
    return made.masked_fill(torch.rand(shape, device=device) < rnd.choice((0.0, 0.3, 0.98)), -math.inf)


@random_calls(15, 25)
def test_masks(rnd, device):
    (heads, shared, width, values), kind = sizes(rnd), rnd.choice((torch.bfloat16, torch.float16))
    batch, queries, keys = rnd.randint(1, 2), length(rnd, device, 80, 500), length(rnd, device, 300, 1500)
    shapes = (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, values)
    tensors, told = [placed(rnd, kind, *each, device=device, size=1) for each in shapes], options(rnd, heads, device)
    told["mask"] = mask_of(rnd, kind, (batch, heads, queries, keys), device)
    with kernels.simulated_target(rnd.choice(TARGETS)):
        agree(kernels.attention(*tensors, lse=True, **told), exact(tensors, **told))


def begins_of(lengths, device: str):
    return torch.tensor([0, *lengths], device=device).cumsum(0).int()


@random_calls(12, 25)
def test_sequences(rnd, device):
    (heads, shared, width, values), kind = sizes(rnd), rnd.choice((torch.bfloat16, torch.float16))
    count = rnd.randint(1, 5)
    queries = [rnd.choice((0, 1, length(rnd, device, 90, 500))) for _ in range(count)]
    keys = queries if rnd.random() < 0.5 else [rnd.choice((0, 1, length(rnd, device, 150, 500))) for _ in range(count)]
    lines = (sum(queries), heads, width), (sum(keys), shared, width), (sum(keys), shared, values)
    leaves = [placed(rnd, kind, *each, device=device, size=1).requires_grad_() for each in lines]
    told, of_q, of_k = options(rnd, heads, device), begins_of(queries, device), begins_of(keys, device)
    pull = torch.randn(sum(queries), heads, values, device=device).to(kind)
    with kernels.simulated_target(rnd.choice(TARGETS)):
        o, lse = kernels.attention(*leaves, cu_seqlens=(of_q, of_k), lse=True, deterministic=rnd.random() < 0.3, **told)
        gradients = torch.autograd.grad(o, leaves, pull)
    for i in range(count):
        (a, b), (c, d) = ((int(each[i]), int(each[i + 1])) for each in (of_q, of_k))
        parts = (a, b), (c, d), (c, d)
        own = [each[x:y].detach().transpose(0, 1)[None].double() for each, (x, y) in zip(leaves, parts, strict=True)]
        own = [each.requires_grad_() for each in own]
        want = reference(*own, **told)
        agree((o[a:b].transpose(0, 1)[None], lse[None, :, a:b]), want)
        expected = torch.autograd.grad(want[0], own, pull[a:b].transpose(0, 1)[None].double())
        size = max(float(each.norm()) for each in expected)
        for got, wanted, (x, y) in zip(gradients, expected, parts, strict=True):
            off = float((got[x:y].transpose(0, 1)[None].double() - wanted).norm())
            assert off <= 3e-2 * max(float(wanted.norm()), 0.1 * size)


@random_calls(20, 25)
def test_caches(rnd, device):
    if device == "cuda" and not hopper:
        pytest.skip("skipped: no sm_90 GPU")
    (heads, shared, width, values), kind = sizes(rnd), rnd.choice((torch.bfloat16, torch.float16))
    count, page = rnd.randint(1, 3), rnd.choice((0, 1, 8, 16, 64))
    ragged, narrow, long = rnd.random() < 0.6, rnd.random() < 0.3, rnd.random() < 0.5
    counts = [rnd.choice((0, 1, length(rnd, device, 200, 1500))) for _ in range(count)]
    queries = [rnd.choice((1, length(rnd, device, 70, 300))) for _ in range(count)]
    queries = queries if ragged else queries[:1] * count
    room = -(-max(1, *counts) // max(page, 1))
    table = torch.randperm(count * room + 1, device=device)[1:].reshape(count, room).int()
    places = (count * room + 1, page, shared) if page else (count, shared, room)
    q = placed(rnd, kind, sum(queries), heads, width, device=device, size=1)
    k, v = (torch.randn(*places, each, device=device).to(FP8 if narrow else kind) for each in (width, values))
    told, scales = options(rnd, heads, device), {}
    if narrow:
        scales = {"scale_k": torch.rand(shared, device=device) + 0.5, "scale_v": torch.rand(1, device=device) + 0.5}
    more = {"lengths": torch.tensor(counts, device=device).int()} | ({"block_table": table} if page else {})
    begins = begins_of(queries, device)
    many = PARTS._have_many_queries if device == "cuda" else lambda q, k, _, table: long and by_tiles(q, k, table)
    with kernels.simulated_target(rnd.choice(TARGETS[1:3] if narrow else TARGETS)):
        with mock.patch.object(PARTS, "_have_many_queries", many):
            if ragged:
                got = kernels.attention(q, k, v, cu_seqlens=begins, lse=True, **more, **scales, **told)
            else:
                whole = q.reshape(count, queries[0], heads, width).transpose(1, 2)
                o, lse = kernels.attention(whole, k, v, lse=True, **more, **scales, **told)
                got = o.transpose(1, 2).flatten(0, 1), lse.transpose(0, 1).flatten(1)
    for i, keys in enumerate(counts):
        a, b = int(begins[i]), int(begins[i + 1])
        own = [
            each[table[i].long()].double().flatten(0, 1).transpose(0, 1) if page else each[i].double()
            for each in (k, v)
        ]
        own = [each[None, :, :keys] for each in own]
        if narrow:
            own = [own[0] * scales["scale_k"].double()[None, :, None, None], own[1] * scales["scale_v"].double()]
        want = reference(q[a:b].transpose(0, 1)[None].double(), *own, **told)
        agree((got[0][a:b].transpose(0, 1)[None], got[1][None, :, a:b]), want)


def by_tiles(q, k, table) -> bool:
    """Whether the simulated GPU takes a cache by tiles of the forward at all."""
    return simulated.target == "sm_90a" and k.dtype == q.dtype and (table is None or k.shape[1] >= 8)
