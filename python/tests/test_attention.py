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

hopper = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
needs_hopper = pytest.mark.skipif(not hopper, reason="skipped: no sm_90 GPU")
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, needs_hopper])
devices = pytest.mark.parametrize("device", ["cpu", GPU])


def reference(q, k, v, *, causal=False, window=None, softcap=None, scale=None):
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
    scores = scores.masked_fill(hidden, -math.inf)
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
    ],
)
def test_forward(shape, masks, device):
    batch, heads, shared, queries, keys, width, values = shape
    q, k, v = tensors(
        device, (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, values)
    )
    agrees(kernels.attention(q, k, v, lse=True, **masks), reference(*(x.double() for x in (q, k, v)), **masks))


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


@devices
def test_sequences_behind_each_other(device):
    lengths = [5, 0, 70, 1]
    begins = torch.tensor([0, *lengths]).cumsum(0).int()
    total = sum(lengths)
    q, k, v = tensors(device, (total, 2, 64), (total, 1, 64), (total, 1, 64))
    o, lse = kernels.attention(q, k, v, causal=True, cu_seqlens=begins.to(device), lse=True)
    for first, last in zip(begins[:-1], begins[1:], strict=True):
        if first < last:
            own = [each[first:last].transpose(0, 1)[None].double() for each in (q, k, v)]
            agrees((o[first:last].transpose(0, 1)[None], lse[None, :, first:last]), reference(*own, causal=True))


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


def test_arguments_that_do_not_fit_are_refused():
    q, k, v = tensors("cpu", (1, 2, 8, 64), (1, 2, 8, 64), (1, 2, 8, 64))
    for error, message, arguments, keywords in (
        (LaunchTypeError, "k is a tensor", (q, 1, v), {}),
        (LaunchTypeError, "q is of float32; legal are float16, bfloat16", (q.float(), k, v), {}),
        (LaunchTypeError, "v is of float16", (q, k, v.half()), {}),
        (LaunchValueError, "q has 4 dimensions", (q[0], k, v), {}),
        (LaunchValueError, "sizes of q, k, v do not fit", (q, k, v[:, :, :4]), {}),
        (LaunchValueError, "3 heads of q cannot share 2", (q[:, :1].expand(1, 3, 8, 64), k, v), {}),
        (LaunchValueError, "D is a multiple of 8 up to 256", (*(x[..., :12] for x in (q, k)), v), {}),
        (LaunchValueError, "window is a number of keys", (q, k, v), {"window": 0}),
        (LaunchValueError, "softcap is positive", (q, k, v), {"softcap": -1.0}),
        (LaunchValueError, "scale is positive", (q, k, v), {"scale": 0.0}),
        (LaunchValueError, "block_table needs lengths", (q, k, v), {"block_table": torch.zeros(1, 1).int()}),
        (LaunchValueError, "cu_seqlens goes with neither", (q, k, v), {"cu_seqlens": 1, "lengths": 1}),
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
    described = [module._described(name, each) for name, each in zip("qkv", given, strict=True)]
    key, options, _ = module._planned(*described, module.Masks(True, None, None, None), False)
    found = torch.library.opcheck(module._choose(*key, True).op, tuple(given), options)
    assert set(found.values()) == {"SUCCESS"}
