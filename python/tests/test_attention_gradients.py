"""Gradients of `kernels.attention` whose kernels are chosen by lengths, against float64: of short sequences, of few queries with many keys, and
of heads that share keys."""

from __future__ import annotations

import contextlib
import sys
import warnings
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from test_attention import agrees, devices, gradients_agree, near, reference, tensors  # noqa: E402

import pyptx  # noqa: E402
from pyptx import assembler, kernels  # noqa: E402
from pyptx.kernels._attention import gradient  # noqa: E402
from pyptx.kernels._attention.backward import Backward, backward_kernel  # noqa: E402
from pyptx.kernels._attention.dq import QueryGradient, dq_kernel  # noqa: E402
from pyptx.kernels._attention.small import Small, small_kernel, small_sizes  # noqa: E402
from pyptx.kernels._attention.small_forward import SmallForward, small_forward_kernel  # noqa: E402
from pyptx.kernels._attention.wide import Wide, wide_kernel  # noqa: E402
from pyptx.types import bf16  # noqa: E402

needs_ptxas = pytest.mark.skipif(
    not any(row.name.startswith("ptxas") and "PTX up to" in row.name for row in assembler.found()),
    reason="skipped: no ptxas",
)


def on_hopper(device):
    if device != "cpu":
        return contextlib.nullcontext()
    stack = contextlib.ExitStack()
    stack.enter_context(kernels.simulated_target("sm_90a"))
    stack.enter_context(pyptx.simulator(check="all"))
    return stack


def compare(device, q, k, v, g, options, *, of_lse=False, bound=6e-3):
    """The gradients of q, k and v beside float64's; they are returned."""
    inputs = [each.detach().requires_grad_() for each in (q, k, v)]
    exact = [each.detach().double().requires_grad_() for each in (q, k, v)]
    masks = {name: value for name, value in options.items() if name != "deterministic"}
    want, want_lse = reference(*exact, **masks)
    with on_hopper(device):
        o, lse = kernels.attention(*inputs, **options, lse=True)
        results, pulls = ([o, lse], [g, torch.ones_like(lse)]) if of_lse else ([o], [g])
        got = torch.autograd.grad(results, inputs, pulls)
    results = [want, want_lse] if of_lse else [want]
    for one, other in zip(got, torch.autograd.grad(results, exact, [each.double() for each in pulls]), strict=True):
        near(one, other, bound)
    return got


@devices
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 3, 64, 64, 64), {}),
        ((1, 2, 49, 49, 32), {"scale": 0.3}),
        ((1, 2, 1, 128, 64), {"causal": True}),
        ((1, 2, 100, 100, 64), {"causal": True}),
        ((1, 2, 128, 128, 128), {"softcap": 2.0}),
        ((1, 1, 65, 17, 96), {}),
        ((1, 1, 100, 30, 40), {"causal": True, "softcap": 1.5}),
        ((1, 1, 128, 128, 64), {"causal": True, "window": 40}),
        ((2, 1, 33, 90, 128), {"window": 9}),
        ((1, 1, 3, 5, 8), {}),
    ],
    ids=str,
)
def test_short_sequences(device, shape, options):
    """Queries that see no key, rows and columns that do not exist, and the gradient of lse among them."""
    batch, heads, queries, keys, width = shape
    sizes = [(batch, heads, length, width) for length in (queries, keys, keys, queries)]
    seen = not options.get("causal") or keys >= queries  # or lse is infinite
    for dtype in (torch.bfloat16, torch.float16) if width == 64 else (torch.bfloat16,):
        given = tensors(device, *sizes, dtype=dtype)
        got = compare(device, *given, options, of_lse=seen)
        if device != "cpu":
            again = compare(device, *given, options, of_lse=seen)
            assert all(torch.equal(one, other) for one, other in zip(got, again, strict=True))


def test_which_sequences_are_short():
    assert small_sizes(64, 64, 64) == (1, 1, True) and small_sizes(128, 65, 128) == (2, 2, False)
    assert small_sizes(129, 64, 64) is small_sizes(64, 129, 64) is small_sizes(64, 64, 192) is None


def test_heads_between_others():
    """q, k and v of (B, M, H, D), as projections leave them."""
    given = [each.transpose(1, 2) for each in tensors("cpu", *[(2, 40, 3, 64)] * 4)]
    compare("cpu", *given, {})


@needs_ptxas
@pytest.mark.parametrize("masks", [(), ("right",), ("right", "left", "softcap")], ids=str)
@pytest.mark.parametrize("width", [64, 128])
def test_registers_of_short_sequences(width, masks, recwarn):
    """As many CTAs find room as the kernels say, nothing spills, and no product waits for another."""
    told = dict.fromkeys(masks, True)
    for queries, keys in ((64, 64), (128, 128), (64, 100), (100, 64)):
        groups, blocks, whole = small_sizes(queries, keys, width)
        sizes = {"B": 1, "H": 1, "M": queries, "N": keys, "D": width}
        backward = Small(width, groups, blocks, whole, **told)
        forward = SmallForward(width, width, blocks, groups, whole, **told)
        for plan, made, more in (
            (backward, small_kernel(bf16, backward), {}),
            (forward, small_forward_kernel(bf16, forward), {"HK": 1, "DV": width}),
        ):
            found = made.resources(**sizes, **more)
            assert found.spill_stores == 0 and found.blocks >= plan.together >= 1
    assert not recwarn.list


@devices
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((1, 1, 1, 70, 600, 256, 256), {}),
        ((1, 2, 1, 70, 700, 192, 128), {"causal": True}),
        ((1, 1, 1, 130, 1100, 64, 64), {"causal": True, "window": 300, "deterministic": True}),
        ((1, 1, 1, 9, 1100, 72, 72), {"softcap": 3.0, "deterministic": True}),
    ],
    ids=str,
)
def test_few_queries_in_parts(device, shape, options, monkeypatch):
    parts, parts_of = [], gradient.parts_of
    monkeypatch.setattr(gradient, "parts_of", lambda *given: parts.append(parts_of(*given)) or parts[-1])
    batch, heads, shared, queries, keys, width, values = shape
    sizes = (heads, queries, width), (shared, keys, width), (shared, keys, values), (heads, queries, values)
    compare(device, *tensors(device, *[(batch, *each) for each in sizes]), options)
    assert len(parts) == 1 < parts[0]


@devices
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((1, 2, 2, 140, 140, 128, 64), {"causal": True}),
        ((1, 2, 1, 150, 260, 104, 40), {}),
        ((2, 1, 1, 130, 300, 128, 104), {"window": 40}),
        ((1, 2, 2, 140, 150, 64, 40), {"causal": True, "softcap": 3.0}),
    ],
    ids=str,
)
def test_values_shorter_than_keys(device, shape, options, monkeypatch):
    """dq is added to memory by the kernel that makes dk and dv, as of heads whose values are as long; in a fixed order it is not."""
    made, own = [], gradient.queries_function
    monkeypatch.setattr(gradient, "queries_function", lambda *given: made.append(given) or own(*given))
    choice = sys.modules["pyptx.kernels._attention.choice"]
    batch, heads, shared, queries, keys, width, values = shape
    sizes = (heads, queries, width), (shared, keys, width), (shared, keys, values), (heads, queries, values)
    for deterministic in (False, True):
        choice.choose.cache_clear(), choice.derivative.cache_clear()
        given = tensors(device, *[(batch, *each) for each in sizes])
        compare(device, *given, options | {"deterministic": deterministic}, of_lse=keys >= queries)
        assert bool(made) is deterministic


@pytest.mark.parametrize("width", [64, 128])
def test_many_pulls_at_once(width):
    """torch's older vmap takes no op that writes to an argument, as the kernel that adds to dq is one."""
    q, k, v = (each.requires_grad_() for each in tensors("cpu", *[(1, 1, 150, width)] * 3))
    pulls = torch.randn(2, 1, 1, 150, width).bfloat16()
    with on_hopper("cpu"):
        many = torch.autograd.grad(kernels.attention(q, k, v), (q, k, v), pulls, is_grads_batched=True)
        for at, pull in enumerate(pulls):
            one = torch.autograd.grad(kernels.attention(q, k, v, deterministic=True), (q, k, v), pull)
            assert all(torch.equal(got[at], wanted) for got, wanted in zip(many, one, strict=True))


def test_how_many_parts():
    cut = QueryGradient(256, 256, 64)
    assert gradient.parts_of(cut, (2, 4, 300, 256), 3000) == 5  # 24 tiles
    assert gradient.parts_of(cut, (1, 1, 64, 256), 1 << 20) == 132
    assert gradient.parts_of(cut, (1, 67, 64, 256), 1 << 20) == 1 == gradient.parts_of(cut, (1, 1, 64, 256), 200)


@needs_ptxas
def test_registers_of_parts():
    sizes = {"B": 1, "H": 1, "HK": 1, "M": 300, "N": 3000, "D": 256, "DV": 256, "R": 384, "S": 5}
    found = dq_kernel(bf16, QueryGradient(256, 256, 64, parts=True)).resources(**sizes)
    assert found.spill_stores == 0


@devices
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("length", [49, 150, 200])
def test_scores_far_below_zero(device, length, deterministic, width):
    """Of a key behind the last one, whose score is 0, P would be infinite: 0 times that must not reach dq."""
    q, k, v, g = tensors(device, *[(1, 1, length, width)] * 4)
    q, k = (0.1 * q + 4).bfloat16(), (0.5 * k - 4).bfloat16()
    compare(device, q, k, v, g, {"deterministic": deterministic}, bound=5e-2)


def test_scores_far_below_zero_of_sequences():
    q, k, v, g = tensors("cpu", *[(200, 1, 64)] * 4)
    q, k = (0.1 * q + 4).bfloat16(), (0.5 * k - 4).bfloat16()
    inputs = [each.requires_grad_() for each in (q, k, v)]
    begins = torch.tensor([0, 50, 200], dtype=torch.int32)
    with on_hopper("cpu"):
        got = torch.autograd.grad(kernels.attention(*inputs, cu_seqlens=begins), inputs, g)
    for start, end in ((0, 50), (50, 200)):
        exact = [each[start:end].detach().double().transpose(0, 1)[None].requires_grad_() for each in inputs]
        want = torch.autograd.grad(reference(*exact)[0], exact, g[start:end].double().transpose(0, 1)[None])
        for one, other in zip(got, want, strict=True):
            near(one[start:end].transpose(0, 1)[None], other, 5e-2)


@pytest.fixture
def in_parts(monkeypatch):
    """Makes gradients take heads that share keys in so many parts; it returns where they note that they did."""

    def ask(parts):
        noted = []
        monkeypatch.setattr(gradient, "parts_of_heads", lambda *given: noted.append(given) or (parts, 3))
        return noted

    return ask


@devices
@pytest.mark.parametrize(
    ("shape", "parts", "options"),
    [
        ((1, 3, 1, 150, 150, 64, 64), 2, {"causal": True}),
        ((2, 4, 2, 70, 140, 128, 128), 2, {"softcap": 3.0}),
        ((1, 6, 2, 140, 200, 72, 72), 3, {"causal": True, "window": 40}),
        ((1, 5, 1, 140, 130, 104, 104), 5, {"deterministic": True}),
        ((1, 3, 1, 130, 90, 256, 256), 3, {"causal": True}),
        ((2, 4, 2, 70, 130, 192, 128), 2, {"window": 20}),
        ((1, 3, 1, 70, 130, 96, 40), 2, {"scale": 0.3}),
    ],
    ids=str,
)
def test_heads_in_parts(device, shape, parts, options, in_parts):
    """Parts with unequal numbers of heads, and keys that do not exist or that no query sees, among them."""
    noted = in_parts(parts)
    batch, heads, shared, queries, keys, width, values = shape
    sizes = (heads, queries, width), (shared, keys, width), (shared, keys, values), (heads, queries, values)
    for dtype in (torch.bfloat16, torch.float16) if parts == 3 else (torch.bfloat16,):
        given = tensors(device, *[(batch, *each) for each in sizes], dtype=dtype)
        got = compare(device, *given, options, of_lse=keys >= queries)
        again = compare(device, *given, options, of_lse=keys >= queries)
        # Others are added to dq in any order.
        same = 0 if options.get("deterministic") or width > 128 else 1
        assert all(torch.equal(one, other) for one, other in zip(got[same:], again[same:], strict=True))
    assert noted


@devices
def test_heads_in_parts_between_others(device, in_parts):
    """q, k and v of (B, M, H, D)."""
    noted = in_parts(2)
    sizes = [(2, 140, heads, 64) for heads in (4, 2, 2, 4)]
    compare(device, *(each.transpose(1, 2) for each in tensors(device, *sizes)), {"causal": True})
    assert noted


@devices
@pytest.mark.parametrize(
    ("width", "values", "masks", "deterministic"),
    [(64, 64, {"causal": True}, False), (128, 128, {"window": 50}, True), (192, 128, {"causal": True}, False)],
)
def test_heads_of_sequences_in_parts(width, values, masks, deterministic, device, in_parts):
    from test_attention import test_gradient_of_sequences

    noted = in_parts(2)
    with on_hopper(device):
        test_gradient_of_sequences(width, values, masks, deterministic, device)
    assert noted


@pytest.mark.parametrize("width", [64, 256])
def test_heads_in_parts_by_mma(width, in_parts):
    noted = in_parts(3)
    q, k, v, g = tensors("cpu", *[(1, heads, 70, width) for heads in (5, 1, 1, 5)])
    with kernels.simulated_target("sm_80"), pyptx.simulator(check="all"):
        gradients_agree([q, k, v], g, {"causal": True}, {}, 1.2e-2)
    assert noted


def test_heads_in_parts_of_jax(in_parts):
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    noted = in_parts(2)
    given = tensors("cpu", *[(1, heads, 140, 64) for heads in (2, 1, 1, 2)])
    q, k, v, g = (jax.numpy.asarray(each.float().numpy(), jax.numpy.bfloat16) for each in given)
    with on_hopper("cpu"):
        got = jax.vjp(lambda *given: kernels.attention(*given, causal=True), q, k, v)[1](g)
    exact = [each.double().requires_grad_() for each in given[:3]]
    want = torch.autograd.grad(reference(*exact, causal=True)[0], exact, given[3].double())
    for one, other in zip(got, want, strict=True):
        near(torch.tensor(one.astype(jax.numpy.float32).tolist()), other)
    assert noted


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize(("width", "keys"), [(64, 70), (256, 520)], ids=["heads", "heads, and keys of dq"])
def test_vmap_of_parts(framework, width, keys, in_parts):
    """Members of vmap are more sequences, and have no launches of their own, of which JAX would warn."""
    noted = in_parts(2)
    given = tensors("cpu", *[(2, 2, *each, width) for each in ((2, 70), (1, keys), (1, keys))])
    with on_hopper("cpu"), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        if framework == "torch":
            gradients = torch.func.grad(lambda *given: kernels.attention(*given, causal=True).float().sum(), (0, 1, 2))
            got = torch.func.vmap(gradients)(*given)
        else:
            jax = pytest.importorskip("jax", reason="skipped: no jax")
            gradients = jax.grad(
                lambda *given: kernels.attention(*given, causal=True).astype("float32").sum(), (0, 1, 2)
            )
            arrays = [jax.numpy.asarray(each.float().numpy(), jax.numpy.bfloat16) for each in given]
            got = [torch.tensor(each.astype("float32").tolist()) for each in jax.vmap(gradients)(*arrays)]
    exact = [each.double().requires_grad_() for each in given]
    want = torch.autograd.grad(sum(reference(*each, causal=True)[0].sum() for each in zip(*exact, strict=True)), exact)
    for one, other in zip(got, want, strict=True):
        near(one, other)
    assert noted


@needs_ptxas
@pytest.mark.parametrize("masks", [(), ("right", "left", "softcap")], ids=str)
def test_registers_of_heads_in_parts(masks):
    told = dict.fromkeys(masks, True)
    sizes = {"B": 1, "H": 8, "HK": 2, "M": 300, "N": 300, "R": 384}
    for width in (64, 128):
        plan = Backward(width, 64 if width == 128 else 128, parts=True, **told)
        whole = backward_kernel(bf16, replace(plan, parts=False)).resources(**sizes, D=width)
        assert backward_kernel(bf16, plan).resources(**sizes, D=width, S=2).spill_stores <= whole.spill_stores
    plan = Wide(256, of_values=256, parts=True, **told)
    assert wide_kernel(bf16, plan).resources(**sizes, D=256, E=256, S=2).spill_stores == 0


@devices
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 2, 2, 64, 384, 64), {}),
        ((1, 4, 1, 60, 200, 64), {"causal": True}),
        ((1, 1, 1, 5, 300, 48), {"causal": True, "window": 150, "softcap": 2.0}),
    ],
    ids=str,
)
def test_up_to_64_queries(device, shape, options):
    """Of heads of 64, which are a block of 64."""
    batch, heads, shared, queries, keys, width = shape
    sizes = (heads, queries), (shared, keys), (shared, keys), (heads, queries)
    compare(device, *tensors(device, *[(batch, *each, width) for each in sizes]), options)


def causal(width):
    return Backward(width, 64 if width == 128 else 128, right=True)


def test_how_many_parts_of_heads():
    """By what was quickest on an H200 of the numbers tried (docs/performance/attention.md)."""
    plain, told = Backward(128, 64), (256, 0, 0)
    assert gradient.cut_heads(plain, 1, 32, 8, 333, 333, *told) == (4, 1)  # 24 tiles
    assert gradient.cut_heads(plain, 1, 32, 8, 2048, 2048, *told) == (1, 1)  # 128 tiles of equal work
    assert gradient.cut_heads(causal(128), 1, 32, 8, 2048, 2048, *told) == (2, 8)
    assert gradient.cut_heads(causal(128), 8, 32, 8, 2048, 2048, *told) == (1, 8)
    assert gradient.cut_heads(causal(128), 8, 64, 8, 2048, 2048, *told)[0] == 2  # or each CTA has eight heads
    assert gradient.cut_heads(causal(64), 1, 71, 1, 2048, 2048, 128, 0, 0) == (18, 18)
    assert gradient.cut_heads(Backward(64, 128), 1, 71, 1, 2048, 2048, 128, 0, 0) == (8, 1)
    assert gradient.cut_heads(causal(128), 1, 16, 16, 16384, 16384, *told) == (1, 2)


@pytest.mark.parametrize(
    ("queries", "keys", "shift", "reach"), [(300, 300, 0, 0), (200, 500, 300, 0), (500, 300, -200, 150), (1, 1, 0, 9)]
)
def test_blocks_that_see_the_keys_of_a_tile(queries, keys, shift, reach):
    plan = Backward(128, 64, right=True, left=reach > 0)
    counted = []
    for begin in range(0, keys, 128):
        columns = range(begin, begin + 128)
        seen = {
            i // 64 for i in range(queries) for j in columns if i >= j - shift and (not reach or i <= j - shift + reach)
        }
        counted.append(len(seen))
    assert gradient.blocks_of_tiles(plan, queries, keys, shift, reach) == counted


def test_the_busiest_multiprocessor():
    begun = gradient.BEGIN
    assert gradient.busiest([3], [1], 132, 1) == 3 + begun and gradient.busiest([3], [1], 133, 1) == 2 * (3 + begun)
    assert gradient.busiest([4, 2], [2], 66, 66) == 8 + begun
    assert gradient.busiest([4, 2], [1], 132, 132) == pytest.approx(4 + 2 + 2 * begun)


def test_heads_whose_tiles_of_queries_are_together():
    cut, shape = QueryGradient(192, 192, 64, right=True), (1, 16, 2048, 192)
    assert gradient.heads_of_queries(cut, shape, shape) == 16
    assert gradient.heads_of_queries(replace(cut, right=False), shape, shape) == 1


@devices
@pytest.mark.parametrize(
    ("shape", "masks", "kind"),
    [
        ((2, 2, 300, 64, 64), {}, torch.bfloat16),
        ((1, 2, 1100, 128, 128), {"window": 150, "scale": 0.2}, torch.float16),
        ((1, 3, 200, 72, 40), {"causal": True}, torch.bfloat16),
        ((1, 1, 333, 192, 128), {"window": 40}, torch.bfloat16),
        ((1, 1, 150, 256, 256), {}, torch.float16),
    ],
    ids=str,
)
def test_one_query(shape, masks, kind, device, monkeypatch):
    """Of one query to a head, the CTAs of a cluster share the keys of the forward, and each gradient is made once."""
    (batch, heads, keys, width, values), made = shape, []
    choice = sys.modules["pyptx.kernels._attention.choice"]
    own = choice.one_query
    monkeypatch.setattr(choice, "one_query", lambda *key: made.append(key[-1]) or own(*key))
    choice.choose.cache_clear()
    sizes = (batch, 1, heads, width), (batch, heads, keys, width), (batch, heads, keys, values)
    q, k, v, do = tensors(device, *sizes, (batch, heads, 1, values), dtype=kind)
    leaves = [each.requires_grad_() for each in (q.transpose(1, 2), k, v)]
    dlse = torch.randn(batch, heads, 1, device=device)
    with pyptx.simulator(check="all", raises=False) as run:
        got = kernels.attention(*leaves, lse=True, **masks)
        found = torch.autograd.grad(got, leaves, (do, dlse))
    assert [str(report) for report in run.reports] == []
    assert made == [1 if keys < 512 else 4]
    exact = [each.detach().double().requires_grad_() for each in leaves]
    want = reference(*exact, **masks)
    agrees(got, want)
    for one, other in zip(found, torch.autograd.grad(want, exact, (do.double(), dlse.double())), strict=True):
        near(one, other)


def test_one_query_that_sees_few_keys():
    """torch's causal mask leaves the first query the first key alone; what others are does not matter."""
    q, k, v, do = tensors("cpu", (1, 2, 1, 64), (1, 2, 200, 64), (1, 2, 200, 64), (1, 2, 1, 64))
    k[..., 1:, :] = v[..., 1:, :] = torch.nan
    leaves = [each.requires_grad_() for each in (q, k, v)]
    o = kernels.scaled_dot_product_attention(*leaves, is_causal=True)
    assert torch.equal(o, v[..., :1, :])
    dq, dk, dv = torch.autograd.grad(o, leaves, do)
    assert torch.equal(dv[..., :1, :], do) and not dv[..., 1:, :].any()
    assert not dq.float().norm() > 1e-3 and not dk.float().norm() > 1e-3
