"""`kernels.attention` against caches of keys: by mma.sync, of e4m3, in pages of any size, with sequences of queries."""

from __future__ import annotations

import math
import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from test_attention import agrees, devices, near, reference, tensors  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402

FP8, PARTS = torch.float8_e4m3fn, sys.modules["pyptx.kernels._attention.parts"]


def numbers(device, *values):
    return torch.tensor(values, dtype=torch.int32, device=device)


def exact(*given):
    return [each.double() for each in given]


@devices
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("queries", [1, 16])
def test_few_queries(queries, target, device):
    """Of one to 16 queries the keys are cut into parts; heads that share keys are rows beside each other."""
    q, k, v = tensors(device, (2, 4, queries, 64), (2, 1, 1100, 64), (2, 1, 1100, 64))
    with kernels.simulated_target(target):
        got = kernels.attention(q, k, v, causal=True, lse=True)
    agrees(got, reference(*exact(q, k, v), causal=True))


@devices
@pytest.mark.parametrize(
    ("kind", "target", "shape", "masks"),
    [
        (torch.bfloat16, "sm_80", (1, 4, 2, 3, 150, 64, 64), {}),
        (torch.float16, "sm_80", (2, 4, 1, 5, 200, 128, 128), {"causal": True}),
        (FP8, "sm_90a", (2, 4, 1, 5, 200, 128, 128), {"causal": True}),
        (FP8, "sm_90a", (1, 2, 1, 20, 90, 256, 192), {"causal": True, "window": 33, "softcap": 3.0}),
        (torch.bfloat16, "sm_80", (1, 2, 1, 20, 90, 256, 192), {"window": 33}),
        (FP8, "sm_90a", (1, 4, 4, 2, 70, 48, 32), {}),
        (FP8, "sm_90a", (2, 4, 1, 9, 300, 128, 128), {"causal": True}),
        (FP8, "sm_90a", (1, 8, 2, 30, 200, 64, 48), {"causal": True, "softcap": 3.0}),
        (FP8, "sm_90a", (1, 1, 1, 140, 300, 256, 256), {"causal": True, "window": 90}),
        (FP8, "sm_90a", (1, 3, 1, 24, 200, 192, 128), {}),
        (FP8, "sm_80", (2, 4, 1, 9, 200, 128, 128), {"causal": True}),
    ],
)
def test_cache(kind, target, shape, masks, device):
    batch, heads, shared, queries, keys, width, values = shape
    made = tensors(device, (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, values))
    q, k, v = made[0].half() if kind == torch.float16 else made[0], *(each.to(kind) for each in made[1:])
    scales = [torch.rand(shared, device=device) + 0.5, torch.tensor([0.7], device=device)] if kind == FP8 else []
    told = dict(zip(("scale_k", "scale_v"), scales, strict=False))
    counts = numbers(device, *([keys] * batch))
    with kernels.simulated_target(target), pyptx.simulator(check="all", raises=False) as run:
        got = kernels.attention(q, k, v, lengths=counts, lse=True, **told, **masks)
    assert [str(report) for report in run.reports] == []
    wide = exact(k, v)
    for at, scale in enumerate(scales):
        wide[at] = wide[at] * scale.double()[None, :, None, None]
    agrees(got, reference(q.double(), *wide, **masks))
    assert got[0].dtype == q.dtype


@devices
@pytest.mark.parametrize(
    ("shape", "masks", "sinks", "mask"),
    [
        ((2, 6, 2, 3, 600, 64, 40), {"causal": True}, True, None),
        ((1, 2, 1, 50, 700, 128, 128), {"window": 90, "softcap": 3.0}, True, None),  # two warpgroups
        ((2, 4, 1, 1, 601, 64, 64), {}, True, torch.bool),
        ((1, 2, 2, 2, 600, 192, 192), {"causal": True}, False, torch.bfloat16),
    ],
    ids=str,
)
def test_one_part_is_the_result(shape, masks, sinks, mask, device, monkeypatch):
    """Where a CTA has all keys of its rows, no other kernel follows it."""
    monkeypatch.setattr(PARTS, "_parts", lambda *_: 1)
    monkeypatch.setattr(PARTS, "_combination", None)
    batch, heads, shared, queries, keys, width, values = shape
    q, k, v = tensors(
        device, (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, values)
    )
    told = masks | ({"sinks": torch.linspace(-1, 2, heads, device=device)} if sinks else {})
    if mask is not None:
        drawn = torch.rand(batch, 1, queries, keys, device=device)
        told["mask"] = drawn > 0.3 if mask == torch.bool else drawn.to(mask)
    else:
        told["lengths"] = numbers(device, *([keys] * batch))
    with pyptx.simulator(check="all", raises=False) as run:
        got = kernels.attention(q, k, v, lse=True, **told)
    assert [str(report) for report in run.reports] == []
    told.pop("lengths", None)
    agrees(got, reference(*exact(q, k, v), **told))
    if mask is None:
        empty = kernels.attention(q, k, v, lengths=numbers(device, *([0] * batch)), **masks)
        assert torch.equal(empty, torch.zeros_like(empty))


@devices
@pytest.mark.parametrize("kind", [torch.bfloat16, FP8])
@pytest.mark.parametrize(("page", "masks"), [(1, {"causal": True}), (4, {"causal": True, "window": 20}), (16, {})])
def test_pages_and_sequences_of_queries(page, masks, kind, device):
    """Pages with heads outside, of which nothing behind a sequence's last key is read as a number."""
    counts, queries = [50, 1, 40, 0], [3, 1, 20, 2]
    most = -(-max(counts) // page)
    order = torch.randperm(4 * most, generator=torch.Generator().manual_seed(1)) + 1
    table = order.reshape(4, most).int().to(device)
    q, k, v = tensors(device, (sum(queries), 4, 64), *[(4 * most + 1, 2, page, 64)] * 2)
    k, v = (each.to(kind).transpose(1, 2) for each in (k, v))
    at = int(table[1, 0]), 1  # the second sequence has one key
    if page > 1:
        (k if kind != FP8 else k.view(torch.uint8))[at[0], 1:] = 0x7F if kind == FP8 else float("nan")
        (v if kind != FP8 else v.view(torch.uint8))[at[0], 1:] = 0x7F if kind == FP8 else float("nan")
    begins = torch.tensor([0, *queries]).cumsum(0).int()
    sinks = torch.tensor([0.1, 0.2, -1.0, 2.0], device=device)
    with pyptx.simulator(check="all", raises=False) as run:
        o, lse = kernels.attention(
            q, k, v, cu_seqlens=begins.to(device), lengths=numbers(device, *counts), block_table=table, sinks=sinks,
            lse=True, **masks,
        )  # fmt: skip
    assert [str(report) for report in run.reports] == []
    for i, count in enumerate(counts):
        a, b = int(begins[i]), int(begins[i + 1])
        own = [each.float()[table[i].long()].flatten(0, 1)[:count].transpose(0, 1)[None] for each in (k, v)]
        if count:
            want = reference(*exact(q[a:b].transpose(0, 1)[None], *own), sinks=sinks, **masks)
            agrees((o[a:b].transpose(0, 1)[None], lse[None, :, a:b]), want)
        else:
            assert torch.equal(o[a:b], torch.zeros_like(o[a:b]))


@devices
@pytest.mark.parametrize(
    ("page", "heads", "shared", "width", "values", "masks", "kind", "narrow"),
    [
        (16, 4, 1, 64, 64, {"causal": True}, torch.bfloat16, False),
        (0, 4, 2, 128, 128, {"causal": True}, torch.bfloat16, False),
        (8, 3, 1, 64, 40, {"window": 20}, torch.float16, False),
        (64, 2, 2, 256, 256, {"causal": True, "window": 33}, torch.bfloat16, False),
        (16, 8, 1, 192, 192, {"causal": True}, torch.float16, False),
        (128, 6, 1, 128, 128, {"causal": True, "softcap": 3.0}, torch.bfloat16, False),
        (16, 14, 2, 128, 128, {"causal": True}, torch.bfloat16, False),
        (16, 7, 1, 64, 64, {"window": 20}, torch.bfloat16, True),
        (64, 4, 2, 128, 128, {"causal": True}, torch.bfloat16, True),
        (0, 4, 1, 128, 112, {"causal": True, "softcap": 3.0}, torch.bfloat16, True),
        (8, 2, 2, 192, 64, {"causal": True, "window": 33}, torch.float16, True),
        (16, 2, 1, 256, 256, {"causal": True}, torch.bfloat16, True),
    ],
    ids=str,
)
def test_many_queries(page, heads, shared, width, values, masks, kind, narrow, device, monkeypatch):
    """By tiles of the forward, whose rows are queries of several heads.  What lies behind the last key of a sequence is no number."""
    monkeypatch.setattr(PARTS, "_have_many_queries", lambda *_: True)
    counts, queries = [50, 1, 140, 0, 300], [30, 1, 140, 2, 65]
    most, sequences = -(-max(counts) // (page or 1)), len(counts)
    order = torch.randperm(sequences * most, generator=torch.Generator().manual_seed(1)) + 1
    table = order.reshape(sequences, most).int()
    sizes = (sequences * most + 1, page, shared) if page else (sequences, shared, max(counts))
    q, k, v = tensors("cpu", (sum(queries), heads, width), (*sizes, width), (*sizes, values), dtype=kind)
    scales = {"scale_k": torch.rand(shared) + 0.5, "scale_v": torch.tensor([0.7])} if narrow else {}
    if narrow:
        k, v = k.to(FP8), v.to(FP8)
        q *= torch.logspace(-3, 0, sum(queries))[:, None, None]  # rows are rounded by themselves
    own = []
    for i, count in enumerate(counts):
        lines = [each[table[i].long()].flatten(0, 1).transpose(0, 1) if page else each[i] for each in (k, v)]
        own.append([each[None, :, :count].double() for each in lines])
        for at, scale in enumerate(scales.values()):
            own[-1][at] = own[-1][at] * scale.double()[None, :, None, None]
    for i, count in enumerate(counts):
        for each in (k, v):
            each, nan = (each.view(torch.uint8), 0x7F) if narrow else (each, math.nan)
            if page and count % page:
                each[table[i, count // page], count % page :] = nan
            elif not page:
                each[i, :, count:] = nan
    begins, sinks = torch.tensor([0, *queries]).cumsum(0).int(), torch.linspace(-1, 2, heads)
    told = {"cu_seqlens": begins.to(device), "lengths": numbers(device, *counts), "sinks": sinks.to(device)}
    told |= {name: scale.to(device) for name, scale in scales.items()}
    told |= {"block_table": table.to(device)} if page else {}
    with pyptx.simulator(check="all", raises=False) as run:
        o, lse = (
            each.cpu() for each in kernels.attention(*(x.to(device) for x in (q, k, v)), **told, **masks, lse=True)
        )
    assert [str(report) for report in run.reports] == []
    for i, count in enumerate(counts):
        a, b = int(begins[i]), int(begins[i + 1])
        if count:
            want = reference(q[a:b].transpose(0, 1)[None].double(), *own[i], sinks=sinks, **masks)
            agrees((o[a:b].transpose(0, 1)[None], lse[None, :, a:b]), want)
        else:
            assert torch.equal(o[a:b], torch.zeros_like(o[a:b]))


def test_which_sequences_have_many_queries():
    """A CTA for each tile, if that is quicker: of many queries and of many sequences."""
    for sequences, queries, page, kind, many in (
        (4, 512, 16, torch.bfloat16, True),
        (64, 1, 16, torch.bfloat16, False),
        (1, 64, 16, torch.bfloat16, False),
        (64, 33, 16, torch.bfloat16, True),
        (8, 16, 16, torch.bfloat16, False),
        (8, 4, 16, torch.bfloat16, False),
        (4, 512, 4, torch.bfloat16, False),
        (4, 512, 16, FP8, True),
        (4, 512, 4, FP8, False),
    ):
        q, k = torch.empty(sequences * queries, 32, 128, dtype=torch.bfloat16), torch.empty(9, page, 8, 128, dtype=kind)
        begins = torch.arange(sequences + 1)
        assert PARTS._have_many_queries(q, k, begins, torch.empty(sequences, 9)) is many
        with kernels.simulated_target("sm_80"):
            assert not PARTS._have_many_queries(q, k, begins, torch.empty(sequences, 9))


def test_how_many_heads_are_rows_of_a_tile():
    """All that share keys, if a tile has few rows beside them; fewer, if tiles are then one round less."""
    for lengths, heads, shared, beside in (
        ((64, 64 * 33), 28, 4, 7),
        ((4, 4 * 512), 28, 4, 1),  # 448 tiles for 464
        ((4, 4 * 512), 24, 4, 2),
        ((16, 16 * 40), 24, 4, 6),
        ((4, 4 * 512), 32, 8, 4),
        ((64, 64), 71, 1, 1),
    ):
        sequences, queries = lengths
        q, k = torch.empty(queries, heads, 128), torch.empty(9, 16, shared, 128)
        assert PARTS._heads_of_a_tile(q, k, torch.arange(sequences + 1), torch.empty(sequences, 9)) == beside


def test_strides_of_a_large_cache():
    """Strides are counted in the largest power of two that they are multiples of."""
    q = torch.empty(1, 32, 1, 128, dtype=torch.bfloat16, device="meta")
    arguments = sys.modules["pyptx.kernels._attention.arguments"]
    k = torch.empty(3 << 20, 16, 8, 128, dtype=FP8, device="meta")
    assert k.numel() > 1 << 35
    strides = arguments.strides_of(q, torch.empty_like(k, dtype=torch.bfloat16), k.to(torch.bfloat16), False, True, 8)
    assert [strides[name] for name in ("k_outer", "k_key", "k_head", "unit")] == [128, 8, 1, 256]
    strides = arguments.strides_of(q, k[:, :, :1], k[:, :, :1, :64], False, True, 16)
    assert [strides[name] for name in ("k_outer", "k_key", "v_head", "unit")] == [16, 1, 0, 1024]
    odd = torch.empty(1, dtype=FP8, device="meta").as_strided((1 << 20, 16, 8, 128), (1 << 17, 144, 2320, 1))
    with pytest.raises(LaunchValueError, match="within 2\\^32 times 16 bytes, of which its strides are multiples"):
        arguments.strides_of(q, odd, odd, False, True, 16)


@devices
@pytest.mark.parametrize("ragged", [False, True])
def test_rows_of_any_size_beside_e4m3(ragged, device, monkeypatch):
    """Each row of q in bf16 becomes f16 by itself: zeros, tiny and huge ones, and one that is not finite, whose result alone is none."""
    monkeypatch.setattr(PARTS, "_have_many_queries", lambda *_: True)
    q, k, v = tensors(device, (1, 1, 20, 64), *[(1, 1, 200, 64)] * 2)
    sizes = (0.0, 1e-38, 1e-20, 1e3, 1e7, 1.0, math.inf)
    for row, size in enumerate(sizes):
        q[0, 0, row] = q[0, 0, row] * size if math.isfinite(size) else size
    k, v = k.to(FP8), v.to(FP8)
    scale, finite = 0.125, [row for row in range(20) if row != 6]
    if ragged:
        told = {"cu_seqlens": numbers(device, 0, 20), "lengths": numbers(device, 200)}
        o = kernels.attention(q[0].transpose(0, 1), k, v, scale=scale, **told).transpose(0, 1)[None]
    else:
        o = kernels.attention(q, k, v, scale=scale)
    want = reference(*exact(q, k, v), scale=scale)[0]
    near(o[:, :, finite], want[:, :, finite])
    assert o[:, :, 6].isnan().all()


@devices
def test_queries_of_e4m3(device):
    q, k, v = (each.to(FP8) for each in tensors(device, (1, 2, 3, 64), (1, 1, 90, 64), (1, 1, 90, 64)))
    for scale in (torch.tensor([0.5], device=device), torch.tensor([0.5, 2.0], device=device)):
        got = kernels.attention(q, k, v, lengths=numbers(device, 90), scale_q=scale, scale_k=scale[:1])
        of_q, of_k = (each.double()[None, :, None, None] for each in (scale, scale[:1]))
        near(got, reference(q.double() * of_q, k.double() * of_k, v.double())[0], 1e-2)
        assert got.dtype == torch.bfloat16


def test_all_keys_of_e4m3_count_without_lengths():
    q, k, v = tensors("cpu", (1, 2, 3, 64), *[(1, 1, 90, 64)] * 2)
    k, v = k.to(FP8), v.to(FP8)
    near(kernels.attention(q, k, v, causal=True), reference(*exact(q, k, v), causal=True)[0])


def test_a_cache_in_jax():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    given = tensors("cpu", (1, 4, 1, 64), (5, 16, 2, 64), (5, 16, 2, 64))
    q, k, v = (jax.numpy.asarray(each.float().numpy()) for each in given)
    k, v = (each.astype(jax.numpy.float8_e4m3fn) for each in (k, v))
    table, counts = (jax.numpy.asarray(each, jax.numpy.int32) for each in ([[3, 1, 4]], [40]))
    got = kernels.attention(q.astype(jax.numpy.bfloat16), k, v, lengths=counts, block_table=table)
    own = [each.to(FP8).double()[[3, 1, 4]].flatten(0, 1)[:40].transpose(0, 1)[None] for each in given[1:]]
    near(torch.tensor(got.astype(jax.numpy.float32).tolist()), reference(given[0].double(), *own)[0])


def test_what_does_not_fit_is_refused():
    q, k, v = tensors("cpu", (1, 2, 1, 64), *[(4, 16, 2, 64)] * 2)
    told = {"lengths": numbers("cpu", 20), "block_table": numbers("cpu", 0, 1)[None]}
    narrow = [each.to(FP8) for each in (k, v)]
    rows = {"cu_seqlens": numbers("cpu", 0, 1), "lengths": numbers("cpu", 20)}
    for error, message, arguments, keywords in (
        (LaunchValueError, "q has 4 dimensions beside a cache, not 3", (q[0], *narrow), told),
        (LaunchTypeError, "q, k, v are of bfloat16, float8_e4m3fn, bfloat16", (q, narrow[0], v), told),
        (LaunchTypeError, "q, k, v are of float32", (q.float(), *narrow), told),
        (LaunchValueError, "block_table needs lengths", (q, *narrow), {"block_table": told["block_table"]}),
        (LaunchValueError, r"block_table is \(B, T\) with B = 1", (q, *narrow), told | {"block_table": numbers("cpu", 1)}),
        (LaunchValueError, "a page has a power of two of keys, not 12", (q, *(each[:, :12] for each in narrow)), told),
        (LaunchValueError, "scale_q is of q in float8_e4m3fn", (q, *narrow), told | {"scale_q": torch.ones(1)}),
        (LaunchValueError, r"scale_k is f32 of one number or \(2,\)", (q, *narrow), told | {"scale_k": torch.ones(3)}),
        (LaunchValueError, "sizes of q, k, v do not fit", (q, narrow[0], narrow[1][:2]), told),
        (LaunchValueError, "multiples of 16, not 8", (q[..., :8], *(each[..., :8] for each in narrow)), told),
        (LaunchValueError, "cu_seqlens is of q alone", (q[0], k, v), rows | {"cu_seqlens": (1, 1)}),
        (LaunchValueError, r"cu_seqlens is \(B \+ 1\)", (q[0], k, v), rows | {"cu_seqlens": numbers("cpu", 0)}),
        (LaunchValueError, "a cache and cu_seqlens need lengths", (q[0], *narrow), {"cu_seqlens": rows["cu_seqlens"]}),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            kernels.attention(*arguments, **keywords)
