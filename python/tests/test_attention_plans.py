"""Ways to cut `attention`, also those that no call chooses; and scores that are as large as f32 has neighbours for."""

from __future__ import annotations

import dataclasses
import math
import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from test_attention import agrees, reference, tensors  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.kernels._attention.forward import forward_kernel  # noqa: E402
from pyptx.kernels._attention.fp8 import Fp8, fp8_kernel  # noqa: E402
from pyptx.kernels._attention.plan import taken_together  # noqa: E402
from pyptx.kernels._attention.transposed import transpose_kernel  # noqa: E402
from pyptx.types import bf16  # noqa: E402

ATTENTION = sys.modules["pyptx.kernels.attention"]
CHOICE, PARTS = (sys.modules[f"pyptx.kernels._attention.{name}"] for name in ("choice", "parts"))
FP8 = torch.float8_e4m3fn


def cut(width: int, causal: bool, **more):
    """Two CTAs, so that each has several tiles."""
    return dataclasses.replace(CHOICE.plan(width, width, causal, False, False, True), **{"ctas": 2, **more})


@pytest.mark.parametrize(
    "plan",
    [
        cut(64, True, skips=True, from_end=True),
        cut(64, True, skips=True, from_end=True, joined=True),
        cut(64, True, groups=2, skips=False, from_end=True, joined=True),
        cut(64, False, skips=True),
        cut(64, False, joined=True),
        cut(64, False, pairs=True, joined=True),
        cut(128, True, tiles=2, joined=True),
        cut(128, False, joined=True, pairs=True),
        cut(64, False, ctas=3),
        cut(64, True, uneven=False),
        cut(64, True, groups=2),
        cut(64, False, groups=2),
        cut(192, True),
        cut(256, False),
        cut(256, False, keys=64, pairs=False),
        cut(256, True),
        cut(256, False, direct=False),
    ],
)
@pytest.mark.parametrize(("queries", "keys"), [(450, 450), (193, 260), (260, 140)])
def test_plans(plan, queries, keys):
    q, k, v = tensors("cpu", *((1, 2, length, plan.width) for length in (queries, keys, keys)))
    options = {"scale": plan.width**-0.5, "together": 1} | ({"shift": keys - queries} if plan.right else {})
    with pyptx.simulator(check="all", raises=False) as run:
        got = forward_kernel(bf16, plan)(q, k, v, **options)
    assert [str(report) for report in run.reports] == []
    agrees(got, reference(*(each.double() for each in (q, k, v)), causal=plan.right))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_plans_of_e4m3(causal, scaled):
    plan = Fp8(128, 128, 96, 3, tiles=2, ctas=2, scaled=scaled, right=causal, skips=True, from_end=causal, joined=True)  # fmt: skip
    q, k, v = (each.to(FP8) for each in tensors("cpu", *((1, 2, 400, 128),) * 3))
    turned = transpose_kernel()(v.reshape(2, 400, 128), NP=400).reshape(1, 2, 128, 400)
    scales = torch.tensor([[0.5, 2.0], [3.0, 0.25]])
    options = {"scale": 128**-0.5, "together": 1} | ({"shift": 0} if causal else {})
    with pyptx.simulator(check="all", raises=False) as run:
        o, lse = fp8_kernel(bf16, plan)(q, k, turned, *[scales] * scaled, **options)
    assert [str(report) for report in run.reports] == []
    of_q, of_v = (scales[i].double().view(1, 2, 1, 1) if scaled else 1.0 for i in range(2))
    want, sums = reference(q.double() * of_q, k.double(), v.double() * of_v, causal=causal)
    assert (o.double() - want).norm() < 0.05 * want.norm()
    assert (lse.double() - sums).abs().max() < 5e-3  # e4m3's products are summed in 14 bits


@pytest.mark.parametrize(("width", "values", "causal"), [(128, 48, True), (64, 64, False)])
def test_values_are_transposed_beside_fetching(width, values, causal):
    """By three CTAs, of whose tiles the second and the third wait for what `transpose_kernel` has left."""
    plan = dataclasses.replace(CHOICE.e4m3_plan(width, 64, causal, False, False, 2, False, False), begun=True, ctas=3)
    q, k, v = (each.to(FP8) for each in tensors("cpu", (1, 6, 333, width), (1, 3, 333, width), (1, 3, 333, values)))
    padded, rows = 336, v.reshape(3, 333, values)
    options = {"scale": width**-0.5, "together": 1} | ({"shift": 0} if causal else {})
    with pyptx.simulator(check="all", raises=False) as run:
        turned, counts = transpose_kernel(64, begun=True)(rows[:1], NP=padded, L=3)
        turned, counts = turned.reshape(1, 3, values, padded), counts.reshape(2, 1, 3)
        o, _ = fp8_kernel(bf16, plan)(q, k, turned, v, counts, **options)
    assert [str(report) for report in run.reports] == []
    whole = transpose_kernel(64)(rows, NP=padded)
    assert torch.equal(turned.view(torch.uint8), whole.view(torch.uint8).reshape(turned.shape))
    assert counts[1].unique().tolist() == [11]  # strips of 32 keys
    want, _ = reference(*(each.double() for each in (q, k, v)), causal=causal)
    assert (o.double() - want).norm() < 0.04 * want.norm()


@pytest.mark.parametrize(("step", "every"), [(1.0, 96), (6.0, 96), (140.0, 400)])
@pytest.mark.parametrize("causal", [False, True])
def test_bases_of_e4m3_that_rise(causal, step, every):
    """Blocks are visited from the last key on: in some rows scores rise by so many exponents of 2, once in so many keys."""
    q, k, v = (each.to(FP8) for each in tensors("cpu", *((1, 1, 700, 128),) * 3))
    q[..., 0], k[..., 0] = torch.where(torch.arange(700) % 3 == 0, 16.0, 0.0).to(FP8), 0.0
    k[..., 0] = ((700 - torch.arange(700)) // every * (step / 16 * math.log(2) * 128**0.5)).to(FP8)
    o, lse = kernels.attention(q, k, v, causal=causal, lse=True)
    want, sums = reference(*(each.double() for each in (q, k, v)), causal=causal)
    assert ((o.double() - want).norm(dim=-1) < 0.15 * want.norm(dim=-1)).all()  # e4m3's products are summed in 14 bits
    torch.testing.assert_close(lse.double(), sums, rtol=1e-3, atol=5e-2)


@pytest.mark.parametrize("width", [64, 128, 256])
@pytest.mark.parametrize("long", [0, 1, 2])
def test_equal_scores_of_e4m3_are_not_made_again(width, long):
    """Where a base was raised, sums of exponentials that are all the largest are no reason to raise it again."""
    for causal in (False, True):
        plan = CHOICE.e4m3_plan(width, width, causal, False, False, long, False, False)
        assert plan.keys // 4 // plan.chains * 2**plan.shift < 448 > 2 ** (plan.shift + plan.slack)


@pytest.mark.parametrize("heads", [512, 256, 96, 64, 30, 18, 15, 7])
@pytest.mark.parametrize("tiles", [4, 8, 9, 32, 128])
def test_work_is_shared_out(heads, tiles):
    """What the busiest of 132 CTAs has to do under a causal mask, beside the mean, as `Tiles` gives tiles out."""
    plan = CHOICE.plan(128, 128, True, False, False, False)
    together = taken_together(plan, heads, 1, 128 * tiles, 128 * tiles, False)
    if together:
        rounds = [heads - first if heads - first < together else together for first in range(0, heads, together)]
        order = [length for count in rounds for length in range(tiles, 0, -1) for _ in range(count)]
        turns = [order[first : first + 132] for first in range(0, len(order), 132)]
    else:
        pairs = [
            (tiles - place, place + 1) for place in [*range(tiles)] * (heads // 2) + [*range(tiles // 2)] * (heads % 2)
        ]
        if heads * tiles % 2:  # the middle tile of the last head comes twice
            pairs.append((tiles // 2 + 1, 0))
        turns = [pairs[first : first + 132] for first in range(0, len(pairs), 132)]
        turns = [[each[i] for each in turn][:: 1 - 2 * i] for turn in turns for i in range(2)]
    loads = [0] * 132
    for number, turn in enumerate(turns):
        row = [*turn, *[0] * (132 - len(turn))] if together or number % 2 == 0 else [*[0] * (132 - len(turn)), *turn]
        for cta, length in enumerate(reversed(row) if number % 2 else row):
            loads[cta] += length
    assert sum(loads) == heads * tiles * (tiles + 1) // 2
    assert max(loads) <= max(1.15 * sum(loads) / 132, tiles + 1)


def large(form: str, bits: int):
    """q and k whose scores are 2^bits and a few neighbours of it in f32."""
    q, k, v = torch.zeros(1, 1, 20, 64), torch.zeros(1, 1, 1100, 64), torch.randn(1, 1, 1100, 64)
    q[..., 0], k[..., 0] = 2.0 ** (bits // 2), 2.0 ** (bits - bits // 2)
    q[..., 1] = 2.0 ** max(0, bits - 23)
    k[..., 1] = torch.randint(-3, 4, (1, 1, 1100)).float()
    return [each.to(getattr(torch, form)) for each in (q, k, v)]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("bits", [10, 20, 24, 30])
def test_large_scores(target, bits):
    """What sums so far are multiplied by is 1 where the largest score stays, however large it is."""
    torch.manual_seed(bits)
    q, k, v = large("bfloat16", bits)
    with kernels.simulated_target(target):
        o, lse = kernels.attention(q, k, v, scale=0.7, lse=True)
    want, sums = reference(q.double(), k.double(), v.double(), scale=0.7)
    assert (o.double() - want).norm() < 5e-3 * want.norm()
    assert ((lse.double() - sums).abs() < 1e-3 + 2e-7 * sums).all()


@pytest.mark.parametrize("form", ["bfloat16", "float16", "float8_e4m3fn"])
@pytest.mark.parametrize("offset", [0.0, -300.0], ids=["of both signs", "negative"])
@pytest.mark.parametrize("step", [0.25, 1.5, 3.0, 12.0])
def test_scores_that_grow(form, offset, step):
    """The largest score grows by `step` exponents of two with each 16 keys towards the first key, which comes last: by less than what
    may be above it, by more, and within a block."""
    torch.manual_seed(int(step * 4))
    q, k, v = torch.randn(1, 2, 70, 64), torch.randn(1, 2, 500, 64), torch.randn(1, 2, 500, 64)
    q[..., 0], k[..., 0] = 8.0, (offset - step * (torch.arange(500) // 16)) / 8
    q, k, v = (each.to(getattr(torch, form)) for each in (q, k, v))
    o, lse = kernels.attention(q, k, v, scale=math.log(2), lse=True)
    want, sums = reference(q.double(), k.double(), v.double(), scale=math.log(2))
    assert (o.double() - want).norm() < {"bfloat16": 5e-3, "float16": 6e-4, "float8_e4m3fn": 0.05}[form] * want.norm()
    precision = 2e-3 if form == "float8_e4m3fn" else 1e-6  # e4m3's products are summed in 14 bits
    assert ((lse.double() - sums).abs() < 1e-4 + precision * sums.abs()).all()


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinite_scores(value):
    """An infinite score in a block behind the first makes NaN of the rows in which it is positive, as in torch; the others pass over it."""
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, 1, length, 64, dtype=torch.bfloat16) for length in (70, 400, 400))
    q[..., 0], k[..., 0] = -1.0, 0.0
    q[:, :, 5, 0], k[:, :, 10, 0] = 1.0, value
    got = kernels.attention(q, k, v)
    want = torch.nn.functional.scaled_dot_product_attention(*(each.double() for each in (q, k, v)))
    rows = torch.isfinite(want).all(-1)
    assert rows.sum() == (69 if value > 0 else 1)
    torch.testing.assert_close(got[rows].double(), want[rows], rtol=0.02, atol=0.02)
    assert got[~rows].isnan().all()


@pytest.mark.parametrize(
    "more", [{"causal": True}, {"softcap": 5.0, "sinks": torch.tensor([0.5, 3.0, -1.0, 0.0])}], ids=str
)
@pytest.mark.parametrize(
    ("width", "values", "queries"), [(64, 64, 150), (128, 128, 70), (192, 128, 100), (256, 256, 66)]
)
def test_keys_in_parts(width, values, queries, more):
    """Tiles of 128 rows with the queries of two heads, whose keys CTAs share; the last tile has few rows."""
    shapes = (2, 4, queries, width), (2, 2, 1300, width), (2, 2, 1300, values)
    q, k, v = tensors("cpu", *shapes)
    assert PARTS.are_quicker(2, 4, 2, queries, 1300, -(-width // 64) * 64, -(-values // 64) * 64, "causal" in more)
    with pyptx.simulator(check="all"):
        o, lse = kernels.attention(q, k, v, lse=True, **more)
    want, sums = reference(q.double(), k.double(), v.double(), **more)
    assert (o.double() - want).norm() < 5e-3 * want.norm()
    assert ((lse.double() - sums).abs() < 1e-3).all()
    again, _ = kernels.attention(q, k, v, lse=True, **more)  # by the call that is remembered
    assert torch.equal(again, o)


def test_tiles_of_128_queries():
    """Heads of up to 64 have tiles of 192 queries, and of 128 where the busiest of 132 CTAs has as many of them."""
    for heads, queries, small in (
        (16, 2048, True),
        (20, 4096, False),
        (128, 1024, False),
        (1, 32768, True),
        (8, 1024, True),
    ):
        q = k = v = ATTENTION.Described((1, heads, queries, 64), torch.bfloat16)
        for causal in (False, True):
            key, *_ = ATTENTION._planned(q, k, v, ATTENTION.Masks(causal, None, None, None), False)
            cut = CHOICE.plan(*key[1:7])
            assert cut.rows == (128 if small else 192)
