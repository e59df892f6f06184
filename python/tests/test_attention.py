"""`kernels.attention` against float64: small shapes on the simulator, random ones on an sm_90a GPU."""

from __future__ import annotations

import math
import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.kernels._attention.forward import forward_kernel  # noqa: E402
from pyptx.kernels._attention.fp8 import Fp8, fp8_kernel  # noqa: E402
from pyptx.kernels._attention.plan import Forward  # noqa: E402
from pyptx.kernels._attention.transposed import transpose_kernel  # noqa: E402
from pyptx.types import bf16  # noqa: E402

hopper = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
needs_hopper = pytest.mark.skipif(not hopper, reason="skipped: no sm_90 GPU")
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, needs_hopper])
devices = pytest.mark.parametrize("device", ["cpu", GPU])


def reference(q, k, v, *, causal=False, window=None, softcap=None, scale=None, sinks=None, mask=None):
    """(o, lse) in the type of the inputs, (B, H, M, D)."""
    per = q.shape[1] // k.shape[1]
    k, v = (each.repeat_interleave(per, 1) for each in (k, v))
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    queries, keys = scores.shape[-2:]
    i = torch.arange(queries, device=q.device)[:, None] + keys - queries
    j = torch.arange(keys, device=q.device)[None]
    hidden = torch.zeros(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        hidden |= j > i
    if window is not None:
        hidden |= (j <= i - window) | (j >= i + window)
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + mask.to(scores)
    elif mask is not None:
        hidden = hidden | ~mask
    scores = scores.masked_fill(hidden, -math.inf)
    if sinks is not None:  # a key more, whose value is 0
        scores = torch.cat([scores, sinks.to(scores)[None, :, None, None].expand(*scores.shape[:-1], 1)], -1)
        v = torch.cat([v, v.new_zeros(*v.shape[:2], 1, v.shape[3])], 2)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v, torch.logsumexp(scores, -1)


def tensors(device, *shapes, dtype=torch.bfloat16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(device, dtype) for shape in shapes]


def near(got, want, bound=6e-3):
    error = (got.double() - want.double()).norm() / want.double().norm().clamp(min=1e-9)
    assert torch.isfinite(got).all()
    assert error < bound, f"relative error {error:.1e}"


def agrees(result, want):
    (o, lse), (want_o, want_lse) = result, want
    near(o, want_o)
    finite = torch.isfinite(want_lse)
    assert torch.equal(torch.isfinite(lse), finite)
    torch.testing.assert_close(lse.double()[finite], want_lse.double()[finite], rtol=1e-4, atol=2e-3)


@devices
@pytest.mark.parametrize(
    ("shape", "masks"),
    [
        ((1, 2, 1, 70, 130, 64, 64), {}),
        ((1, 1, 1, 130, 70, 64, 64), {"causal": True}),
        ((2, 1, 1, 40, 200, 64, 64), {"causal": True, "window": 33}),
        ((1, 1, 1, 100, 140, 40, 24), {"window": 20, "softcap": 3.0}),
        ((1, 1, 1, 65, 129, 128, 128), {"causal": True, "scale": 0.2}),
        ((1, 1, 1, 65, 129, 192, 192), {"causal": True}),
        ((1, 3, 1, 150, 150, 192, 192), {}),
        ((1, 3, 3, 150, 230, 256, 256), {"causal": True, "window": 40}),
        ((1, 3, 3, 150, 230, 256, 256), {"window": 40}),
    ],
)
def test_forward(shape, masks, device):
    batch, heads, shared, queries, keys, width, values = shape
    q, k, v = tensors(
        device, (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, values)
    )
    agrees(kernels.attention(q, k, v, lse=True, **masks), reference(*(x.double() for x in (q, k, v)), **masks))


@pytest.mark.parametrize(
    "cut",
    [
        Forward(64, 64, 64, 3, tiles=2, ctas=1, right=True, skips=True),
        Forward(64, 64, 64, 2, tiles=2, ctas=2, right=True),
        Forward(64, 64, 64, 3, tiles=2, ctas=2, right=True, joined=True, uneven=True),
        Forward(128, 128, 128, 2, tiles=2, ctas=1, ahead=True),
        Forward(256, 256, 64, 2, own_output=False, ctas=1, right=True, skips=True, direct=True),
        Fp8(64, 64, 96, 3, tiles=2, ctas=1, right=True, skips=True, scaled=False),
    ],
    ids=["blocks passed over", "both ways", "joined", "two tiles", "from registers", "e4m3"],
)
@pytest.mark.parametrize(
    ("heads", "together"),
    [(2, 2), (2, 0), (3, 2), (3, 0)],
    ids=["rounds", "pairs", "part of a round", "a head with itself"],
)
def test_tiles_that_a_cta_takes_one_after_the_other(cut, heads, together):
    """Three tiles of each head, of which CTAs take every second turn in the other order."""
    width, small = cut.width, isinstance(cut, Fp8)
    shape = (1, heads, 3 * cut.rows - 20, width)
    q, k, v = (each.to(torch.float8_e4m3fn) if small else each for each in tensors("cpu", *[shape] * 3))
    options = {"scale": width**-0.5, "together": together if cut.right else 1} | ({"shift": 0} if cut.right else {})
    values = v
    if small:
        padded = -(-shape[2] // 16) * 16
        values = transpose_kernel(64)(v.reshape(heads, shape[2], width), NP=padded).reshape(1, heads, width, padded)
    o, lse = (fp8_kernel if small else forward_kernel)(bf16, cut)(q, k, values, **options)
    want, want_lse = reference(*(each.double() for each in (q, k, v)), causal=cut.right)
    near(o, want, 4e-2 if small else 6e-3)
    torch.testing.assert_close(lse.double(), want_lse, rtol=1e-3, atol=1e-2)


def test_an_address_that_copies_cannot_take():
    kernels.attention(*tensors("cpu", *[(1, 2, 33, 64)] * 3))  # which is remembered
    q, k, v = (torch.randn(2 * 33 * 64 + 1, dtype=torch.bfloat16)[1:].view(1, 2, 33, 64) for _ in range(3))
    near(kernels.attention(q, k, v), reference(*(x.double() for x in (q, k, v)))[0])


@devices
def test_types_strides_and_out(device):
    q, k, v = (x.transpose(1, 2) for x in tensors(device, *[(1, 66, 2, 64)] * 3, dtype=torch.float16))
    want, _ = reference(q.double(), k.double(), v.double())
    out = torch.empty(1, 2, 66, 64, dtype=torch.float16, device=device)
    assert kernels.attention(q, k, v, out=out).data_ptr() == out.data_ptr()
    near(out, want)
    assert torch.equal(kernels.attention(q, k, v), out)
    assert torch.equal(kernels.scaled_dot_product_attention(q, k, v), out)


@devices
def test_gradient(device):
    q, k, v, g = tensors(device, (1, 2, 70, 64), (1, 1, 100, 64), (1, 1, 100, 64), (1, 2, 70, 64))
    inputs = [each.requires_grad_() for each in (q, k, v)]
    got = torch.autograd.grad(kernels.attention(*inputs, causal=True), inputs, g)
    exact = [each.detach().double().requires_grad_() for each in inputs]
    want = torch.autograd.grad(reference(*exact, causal=True)[0], exact, g.double())
    for one, other in zip(got, want, strict=True):
        near(one, other, 1e-2)


def gradients_agree(inputs, g, masks, options, bound=1e-2):
    """Of attention and of the reference; g: of its result."""
    leaves = [each.requires_grad_() for each in inputs]
    got = torch.autograd.grad(kernels.attention(*leaves, **masks, **options), leaves, g)
    exact = [each.detach().double().requires_grad_() for each in inputs]
    want = torch.autograd.grad(reference(*exact, **masks)[0], exact, g.double())
    for one, other in zip(got, want, strict=True):
        near(one, other, bound)
    return got


@devices
@pytest.mark.parametrize(
    ("shape", "masks"),
    [
        ((1, 2, 1, 70, 130, 256, 256), {"causal": True}),
        ((1, 1, 1, 130, 70, 192, 128), {"causal": True, "window": 40}),
        ((2, 2, 1, 66, 66, 136, 64), {}),
        ((1, 1, 1, 65, 140, 96, 96), {"causal": True}),
        ((1, 2, 1, 40, 66, 64, 32), {"window": 20}),
    ],
)
def test_gradient_of_wide_heads(shape, masks, device):
    batch, heads, shared, queries, keys, width, values = shape
    *inputs, g = tensors(
        device, (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, values),
        (batch, heads, queries, values),
    )  # fmt: skip
    gradients_agree(inputs, g, masks, {})


@devices
@pytest.mark.parametrize("width", [64, 128])
def test_gradient_that_is_the_same_every_time(width, device):
    *inputs, g = tensors(device, (1, 2, 140, width), (1, 1, 300, width), (1, 1, 300, width), (1, 2, 140, width))
    first = gradients_agree(inputs, g, {"causal": True}, {"deterministic": True})
    again = gradients_agree(inputs, g, {"causal": True}, {"deterministic": True})
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@devices
@pytest.mark.parametrize(
    ("width", "values", "masks", "deterministic"),
    [
        (64, 64, {"causal": True}, False),
        (128, 128, {"window": 50}, False),
        (64, 64, {"window": 50, "causal": True}, True),
        (128, 128, {}, True),
        (192, 128, {"causal": True}, False),
    ],
)
def test_gradient_of_sequences(width, values, masks, deterministic, device):
    """What is behind a sequence, here infinite, does not reach its gradients."""
    queries, keys = [5, 0, 130, 1], [70, 3, 140, 0]
    begins = [torch.tensor([0, *each]).cumsum(0).int() for each in (queries, keys)]
    *inputs, g = tensors(
        device, (136, 2, width), (213, 1, width), (213, 1, values), (136, 2, values), dtype=torch.float16
    )
    wild = [each.clone() for each in (*inputs, g)]
    for i, begin in enumerate((0, 1, 1, 0)):
        wild[i][int(begins[begin][2]) :] = math.inf
    sinks = torch.tensor([0.3, -1.0], device=device)
    for tensors_, sequences in (((*inputs, g), (0, 1, 2, 3)), (wild, (0,))):
        leaves = [*(each.detach().requires_grad_() for each in tensors_[:3]), sinks.detach().requires_grad_()]
        o, lse = kernels.attention(
            *leaves[:3], sinks=leaves[3], cu_seqlens=tuple(each.to(device) for each in begins), lse=True,
            deterministic=deterministic, **masks,
        )  # fmt: skip
        got = torch.autograd.grad((o, lse), leaves, (tensors_[3], torch.ones_like(lse)))
        total = torch.zeros(2, dtype=torch.float64, device=device)
        for i in sequences:
            (a, b), (c, d) = ((int(each[i]), int(each[i + 1])) for each in begins)
            parts = [tensors_[j][x:y] for j, (x, y) in enumerate(((a, b), (c, d), (c, d)))]
            exact = [each.detach().transpose(0, 1)[None].double().requires_grad_() for each in parts]
            beside = sinks.double().requires_grad_()
            want_o, want_lse = reference(*exact, sinks=beside, **masks)
            want = torch.autograd.grad(
                (want_o, want_lse), [*exact, beside],
                (tensors_[3][a:b].transpose(0, 1)[None].double(), torch.ones_like(want_lse)), materialize_grads=True,
            )  # fmt: skip
            total += want[3]
            for one, other, (x, y) in zip(got[:3], want[:3], ((a, b), (c, d), (c, d)), strict=True):
                near(one[x:y].transpose(0, 1)[None], other, 1e-2)
        if len(sequences) == 4:
            near(got[3], total, 1e-2)


@devices
@pytest.mark.parametrize("short", [0, 1000], ids=["tiles of long ones", "of short ones"])
@pytest.mark.parametrize(
    ("lengths", "width", "masks"),
    [
        ([5, 0, 230, 1], 64, {"causal": True}),
        ([0, 5, 140, 1], 128, {"window": 50}),
        ([1, 0, 3, 70] * 18, 64, {}),  # more than the lanes of a warp
    ],
    ids=["causal", "window", "many"],
)
def test_sequences_behind_each_other(lengths, width, masks, short, device, monkeypatch):
    monkeypatch.setitem(sys.modules["pyptx.kernels.attention"].SHORT, width, short)
    begins = torch.tensor([0, *lengths]).cumsum(0).int()
    total = sum(lengths)
    q, k, v = tensors(device, (total, 2, width), (total, 1, width), (total, 1, width))
    o, lse = kernels.attention(q, k, v, cu_seqlens=begins.to(device), lse=True, **masks)
    for first, last in zip(begins[:-1], begins[1:], strict=True):
        if first < last:
            own = [each[first:last].transpose(0, 1)[None].double() for each in (q, k, v)]
            agrees((o[first:last].transpose(0, 1)[None], lse[None, :, first:last]), reference(*own, **masks))


@devices
@pytest.mark.parametrize("masks", [{"causal": True}, {"window": 50}])
def test_decoding_from_pages(masks, device):
    counts, page = [130, 1, 40], 16
    table = torch.tensor([[8, 3, 11, 0, 5, 1, 12, 9, 2], [4] * 9, [7, 10, 6, 6, 6, 6, 6, 6, 6]], dtype=torch.int32)
    q, k, v = tensors(device, (3, 4, 2, 64), (13, page, 2, 64), (13, page, 2, 64))
    k[2, 2:] = v[2, 2:] = math.nan  # behind the last key of the first sequence
    lengths = torch.tensor(counts, dtype=torch.int32)
    got = kernels.attention(q, k, v, lengths=lengths.to(device), block_table=table.to(device), lse=True, **masks)
    for i, count in enumerate(counts):
        own = [each[table[i].long()].flatten(0, 1)[:count].transpose(0, 1)[None].double() for each in (k, v)]
        agrees([each[i : i + 1] for each in got], reference(q[i : i + 1].double(), *own, **masks))


@devices
def test_sinks(device):
    """Of a query that sees no key, and beside scores that are smaller; of few queries too, whose keys are cut into parts."""
    sinks = torch.tensor([1.5, -2.0], device=device, dtype=torch.bfloat16)
    for queries, keys, masks in ((70, 60, {"causal": True}), (70, 140, {"window": 30, "softcap": 4.0}), (2, 1100, {})):
        q, k, v = tensors(device, (1, 2, queries, 64), (1, 1, keys, 64), (1, 1, keys, 64))
        want = reference(*(x.double() for x in (q, k, v)), sinks=sinks, **masks)
        agrees(kernels.attention(q, k, v, sinks=sinks, lse=True, **masks), want)
        begins = tuple(torch.tensor([0, n], dtype=torch.int32, device=device) for n in (queries, keys))
        packed = [each[0].transpose(0, 1).contiguous() for each in (q, k, v)]
        o, lse = kernels.attention(*packed, sinks=sinks, cu_seqlens=begins, lse=True, **masks)
        agrees((o.transpose(0, 1)[None], lse[None]), want)


@devices
@pytest.mark.parametrize(
    ("shape", "masks"),
    [
        ((1, 2, 1, 70, 300, 128, 128), {"causal": True}),
        ((2, 1, 1, 33, 77, 64, 64), {"window": 20, "softcap": 4.0}),
        ((1, 2, 2, 130, 200, 256, 256), {}),
        ((1, 2, 1, 130, 520, 128, 128), {"window": 280, "softcap": 4.0}),
        ((1, 1, 1, 130, 520, 64, 48), {"causal": True, "window": 400}),
    ],
)
def test_fp8(shape, masks, device):
    """Beside float64 of the same e4m3; p is rounded to four bits, which leaves an error of 2 or 3 in 100."""
    batch, heads, shared, queries, keys, width, values = shape
    made = tensors(device, (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, values))
    q, k, v = (each.to(torch.float8_e4m3fn) for each in made)
    scales = [
        torch.tensor([0.5], device=device),
        torch.rand(shared, device=device) + 1,
        torch.rand(shared, device=device) + 1,
    ]
    sinks = torch.linspace(-1, 1, heads, device=device)
    got, lse = kernels.attention(
        q, k, v, scale_q=scales[0], scale_k=scales[1], scale_v=scales[2], sinks=sinks, lse=True, **masks
    )
    exact = [each.double() * scale.double()[None, :, None, None] for each, scale in zip((q, k, v), scales, strict=True)]
    want, want_lse = reference(*exact, sinks=sinks, **masks)
    assert got.dtype == torch.bfloat16
    near(got, want, 4e-2)
    torch.testing.assert_close(lse.double(), want_lse.double(), rtol=1e-3, atol=1e-2)
    near(kernels.attention(q, k, v, **masks), reference(*(each.double() for each in (q, k, v)), **masks)[0], 4e-2)


@devices
def test_fp8_of_more_heads_than_tiles_begin_with(device):
    """The attention kernel transposes the values of the last ones; and of values that begin anywhere."""
    q, k = (each.to(torch.float8_e4m3fn) for each in tensors(device, *[(2, 136, 8, 64)] * 2))
    v = torch.randn(2 * 136 * 8 * 64 + 8, device=device).to(torch.float8_e4m3fn)[8:].view(q.shape)
    near(kernels.attention(q, k, v), reference(*(each.double() for each in (q, k, v)))[0], 4e-2)


@devices
@pytest.mark.parametrize("causal", [False, True])
def test_equal_scores_of_fp8_are_exact(causal, device):
    """Their exponentials are one power of 2, which e4m3 has: only the result is rounded, to bf16."""
    q, k, v = (each.to(torch.float8_e4m3fn) for each in tensors(device, *[(1, 1, 300, 128)] * 3))
    q = torch.zeros_like(q)
    want, _ = reference(*(each.double() for each in (q, k, v)), causal=causal)
    near(kernels.attention(q, k, v, causal=causal), want, 2.5e-3)


@devices
def test_gradient_of_sinks(device):
    q, k, v, g = tensors(device, *[(2, 2, 70, 64)] * 4)
    s = torch.tensor([0.5, 2.0], device=device)
    inputs = [each.requires_grad_() for each in (q, k, v, s)]
    o, lse = kernels.attention(q, k, v, sinks=s, causal=True, lse=True)
    got = torch.autograd.grad((o * g).sum() + lse.sum(), inputs)
    exact = [each.detach().double().requires_grad_() for each in inputs]
    o, lse = reference(*exact[:3], sinks=exact[3], causal=True)
    want = torch.autograd.grad((o * g.double()).sum() + lse.sum(), exact)
    for one, other in zip(got, want, strict=True):
        near(one, other, 1e-2)


def test_arguments_that_do_not_fit_are_refused():
    q, k, v = tensors("cpu", (1, 2, 8, 64), (1, 2, 8, 64), (1, 2, 8, 64))
    fp8 = [each.to(torch.float8_e4m3fn) for each in (q, k, v)]
    for error, message, arguments, keywords in (
        (LaunchTypeError, "k is a tensor", (q, 1, v), {}),
        (LaunchTypeError, "q is of float32; legal are float16, bfloat16", (q.float(), k, v), {}),
        (LaunchTypeError, "v is of float16", (q, k, v.half()), {}),
        (LaunchValueError, "q has 4 dimensions", (q[0], k, v), {}),
        (
            LaunchValueError,
            "sizes of q, k, v do not fit.*; legal are k .1, HK, N, 64. and v .1, HK, N, DV.",
            (q, k, v[:, :, :4]),
            {},
        ),
        (LaunchValueError, "3 heads of q cannot share 2", (q[:, :1].expand(1, 3, 8, 64), k, v), {}),
        (LaunchValueError, "D is a multiple of 8 up to 256", (*(x[..., :12] for x in (q, k)), v), {}),
        (LaunchValueError, "window is a number of keys", (q, k, v), {"window": 0}),
        (LaunchValueError, "softcap is positive", (q, k, v), {"softcap": -1.0}),
        (LaunchValueError, "scale is positive", (q, k, v), {"scale": 0.0}),
        (LaunchValueError, "block_table needs lengths", (q, k, v), {"block_table": torch.zeros(1, 1).int()}),
        (LaunchValueError, r"sinks has one number a head, \(2,\)", (q, k, v), {"sinks": torch.zeros(3)}),
        (LaunchTypeError, "sinks is of int32", (q, k, v), {"sinks": torch.zeros(2).int()}),
        (LaunchTypeError, "sinks is a tensor", (q, k, v), {"sinks": 1.0}),
        (LaunchValueError, r"cu_seqlens is \(B \+ 1\)", (q[0], k[0], v[0]), {"cu_seqlens": torch.zeros(1).int()}),
        (LaunchValueError, "scale_q, scale_k, scale_v go with float8_e4m3fn", (q, k, v), {"scale_k": torch.ones(1)}),
        (LaunchValueError, r"scale_k is f32 of one number or \(2,\)", fp8, {"scale_k": torch.ones(3)}),
        (LaunchTypeError, "k is of bfloat16; legal are", (fp8[0], k, v), {}),
        (LaunchValueError, "multiples of 16, not 8", [each[..., :8] for each in fp8], {}),
    ):
        with pytest.raises(error, match=message):
            kernels.attention(*arguments, **keywords)


@pytest.mark.gpu
@needs_hopper
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_shapes_on_a_gpu(data):
    draw = data.draw
    width = draw(st.sampled_from([64, 96, 128, 256]))
    shared, per = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    queries, keys = draw(st.integers(1, 700)), draw(st.integers(1, 1500))
    masks = {"causal": draw(st.booleans()), "window": draw(st.sampled_from([None, 1, 60, 400]))}
    masks["softcap"] = draw(st.sampled_from([None, 8.0]))
    batch = draw(st.integers(1, 3))
    q, k, v = tensors(
        "cuda", (batch, shared * per, queries, width), *[(batch, shared, keys, width)] * 2, seed=queries * 7919 + keys
    )
    agrees(kernels.attention(q, k, v, lse=True, **masks), reference(*(x.double() for x in (q, k, v)), **masks))


@pytest.mark.gpu
@needs_hopper
def test_runs_are_equal_and_streams_are_apart():
    q, k, v = tensors("cuda", *[(2, 8, 1000, 128)] * 3)
    want = kernels.attention(q, k, v, causal=True)
    streams = [torch.cuda.Stream() for _ in range(8)]
    torch.cuda.synchronize()
    results = []
    for _ in range(13):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(kernels.attention(q, k, v, causal=True))
    torch.cuda.synchronize()
    assert all(torch.equal(each, want) for each in results)


@pytest.mark.gpu
@needs_hopper
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic):
    compiled = torch.compile(
        lambda q, k, v: kernels.attention(q, k, v, causal=True) * 2, fullgraph=True, dynamic=dynamic
    )
    for length in (200, 333, 1100):
        inputs = [each.requires_grad_() for each in tensors("cuda", *[(1, 4, length, 64)] * 3, seed=length)]
        want, _ = reference(*(each.detach().double() for each in inputs), causal=True)
        got = compiled(*inputs)
        near(got, 2 * want)
        for one, other in zip(
            torch.autograd.grad(got.sum(), inputs),
            torch.autograd.grad((kernels.attention(*inputs, causal=True) * 2).sum(), inputs),
            strict=True,
        ):
            near(one, other, 1e-2)


def test_gradients_of_each_sample():
    q, k, v = (torch.randn(3, 2, 40, 64, dtype=torch.bfloat16) for _ in range(3))

    def loss(*heads):
        return kernels.attention(*(each[None] for each in heads), causal=True).float().pow(2).sum()

    gradient = torch.func.grad(loss, argnums=(0, 1, 2))
    together = torch.func.vmap(gradient)(q, k, v)
    for i in range(3):
        for found, wanted in zip(together, gradient(q[i], k[i], v[i]), strict=True):
            torch.testing.assert_close(found[i], wanted)


def test_opcheck():
    given = [torch.randn(2, 2, 40, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    module = sys.modules["pyptx.kernels.attention"]  # the package has the function under this name
    described = [module.described(name, each) for name, each in zip("qkv", given, strict=True)]
    key, options, *_ = module._planned(*described, module.Masks(True, None, None, None), False)
    found = torch.library.opcheck(module.choice.choose(*key, False, False, False, True, "").op, tuple(given), options)
    assert set(found.values()) == {"SUCCESS"}


def test_features_in_jax():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    numbers = tensors("cpu", (1, 2, 70, 64), (1, 1, 100, 64), (1, 1, 100, 64))
    q, k, v = (jax.numpy.asarray(each.float().numpy(), jax.numpy.bfloat16) for each in numbers)
    sinks = jax.numpy.asarray([0.5, -1.0], jax.numpy.float32)

    def total(*given):
        o = kernels.attention(*given[:3], sinks=given[3], causal=True, deterministic=True)
        return o.astype(jax.numpy.float32).sum()

    got = jax.grad(total, argnums=(0, 1, 2, 3))(q, k, v, sinks)
    exact = [each.double().requires_grad_() for each in (*numbers, torch.tensor([0.5, -1.0]))]
    want = torch.autograd.grad(reference(*exact[:3], sinks=exact[3], causal=True)[0].sum(), exact)
    for one, other in zip(got, want, strict=True):
        near(torch.tensor(one.astype(jax.numpy.float32).tolist()), other, 2e-2)
