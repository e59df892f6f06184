"""`kernels.attention` by what GPUs other than Hopper have, on the simulator and by mma.sync on one; its accuracy and gradients by
other measures than a fixed bound."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from test_attention import GPU, agrees, gradients_agree, near, needs_hopper, reference, tensors  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.kernels._attention.mma import Mma, mma_attention_kernel  # noqa: E402
from pyptx.types import bf16  # noqa: E402

MODULE = sys.modules["pyptx.kernels.attention"]  # the package has the function under this name
CHOICE = sys.modules["pyptx.kernels._attention.choice"]
FP8 = torch.float8_e4m3fn


@pytest.fixture(params=["cpu", GPU])
def device(request):
    return request.param


@pytest.fixture
def by_mma(device, monkeypatch):
    """What a GPU of sm_80 runs, which runs on later ones, too."""
    monkeypatch.setattr(CHOICE, "other_than_hopper", lambda tensor: "mma")
    monkeypatch.setattr(MODULE, "CHOICE", MODULE.Attention())  # which remembers no call


@pytest.mark.parametrize(
    ("target", "shape", "masks"),
    [
        ("sm_80", (1, 2, 1, 70, 130, 64, 64), {}),
        ("sm_80", (1, 1, 1, 140, 200, 128, 128), {"causal": True}),
        ("sm_80", (2, 1, 1, 40, 200, 96, 96), {"causal": True, "window": 33, "softcap": 3.0}),
        ("sm_80", (1, 1, 1, 70, 40, 256, 256), {"causal": True}),
        ("sm_80", (1, 1, 1, 30, 1100, 40, 24), {"scale": 0.2}),
        ("sm_100a", (1, 2, 1, 70, 130, 64, 64), {}),
        ("sm_100a", (1, 1, 1, 140, 520, 128, 128), {"causal": True}),
        ("sm_103a", (2, 1, 1, 40, 400, 96, 72), {"causal": True, "window": 33, "softcap": 3.0}),
        ("sm_100a", (1, 1, 1, 70, 40, 192, 128), {"causal": True}),
        ("sm_90a", (1, 1, 1, 70, 140, 192, 128), {"causal": True}),
        ("sm_90a", (1, 1, 1, 70, 140, 96, 96), {}),
        ("sm_90a", (1, 1, 1, 70, 140, 256, 256), {"causal": True}),
    ],
)
def test_forward(target, shape, masks, monkeypatch):
    made, choose = [], CHOICE.choose
    monkeypatch.setattr(CHOICE, "choose", lambda *key: made.append(choose(*key)) or made[0])
    batch, heads, shared, queries, keys, width, values = shape
    q, k, v = tensors(
        "cpu", (batch, queries, heads, width), (batch, shared, keys, width), (batch, shared, keys, values)
    )
    q, sinks = q.transpose(1, 2), torch.linspace(-1, 1, heads)
    with kernels.simulated_target(target), pyptx.simulator(check="all", raises=False) as run:
        got = kernels.attention(q, k, v, lse=True, sinks=sinks, **masks)
    assert [str(report) for report in run.reports] == []
    assert made[0].__name__ == {"sm_80": "mma_attention", "sm_90a": "attention"}.get(target, "blackwell_attention")
    assert made[0].options.arch in (target, "sm_80")
    agrees(got, reference(*(x.double() for x in (q, k, v)), sinks=sinks, **masks))


@pytest.mark.usefixtures("by_mma")
@pytest.mark.parametrize(
    ("shape", "masks"),
    [
        ((1, 2, 1, 70, 100, 64, 64), {"causal": True}),
        ((1, 2, 1, 70, 130, 256, 256), {"causal": True}),
        ((1, 1, 1, 130, 70, 192, 128), {"causal": True, "window": 40}),
        ((2, 1, 1, 40, 66, 128, 96), {"window": 20, "softcap": 2.0}),
    ],
)
def test_gradient_by_mma(shape, masks, device):
    batch, heads, shared, queries, keys, width, values = shape
    *inputs, g = tensors(
        device, (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, values),
        (batch, heads, queries, values),
    )  # fmt: skip
    with pyptx.simulator(check="all", raises=False) as run:
        first = gradients_agree(inputs, g, masks, {}, 1.2e-2)
    assert [str(report) for report in run.reports] == []
    again = gradients_agree(inputs, g, masks, {}, 1.2e-2)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@pytest.mark.usefixtures("by_mma")
@pytest.mark.parametrize("width", [64, 192])
def test_gradient_of_sequences_by_mma(width, device):
    from test_attention import test_gradient_of_sequences

    with pyptx.simulator(check="all", raises=False) as run:
        test_gradient_of_sequences(width, min(width, 128), {"causal": True}, False, device)
    assert [str(report) for report in run.reports] == []


@pytest.mark.parametrize("other", ["", "mma"])
@pytest.mark.parametrize(("width", "masks"), [(128, {"causal": True}), (64, {"window": 40, "softcap": 4.0})])
def test_sequences_of_e4m3(width, masks, other, device, monkeypatch):
    """What is behind a sequence, here NaN, does not reach it."""
    monkeypatch.setattr(CHOICE, "other_than_hopper", lambda tensor: other)
    queries, keys = [5, 0, 140, 1], [70, 3, 300, 0]
    begins = [torch.tensor([0, *each]).cumsum(0).int() for each in (queries, keys)]
    made = tensors(device, (sum(queries), 4, width), (sum(keys), 2, width), (sum(keys), 2, width))
    q, k, v = (each.to(FP8) for each in made)
    of_q, of_k, of_v = torch.tensor([0.7]), torch.rand(2) + 0.5, torch.rand(2) + 0.5
    told = {"scale_q": of_q.to(device), "scale_k": of_k.to(device), "scale_v": of_v.to(device)}
    for wild in (False, True):
        if wild:
            k.view(torch.uint8)[73:] = v.view(torch.uint8)[73:] = 0x7F
        o, lse = kernels.attention(q, k, v, cu_seqlens=tuple(x.to(device) for x in begins), lse=True, **told, **masks)
        for i in (0,) if wild else (0, 2, 3):
            (a, b), (c, d) = ((int(each[i]), int(each[i + 1])) for each in begins)
            own = [x.double().cpu().transpose(0, 1)[None] for x in (q[a:b], k[c:d], v[c:d])]
            scales = (of_q, of_k, of_v)
            own = [x * scale.double()[None, :, None, None] for x, scale in zip(own, scales, strict=True)]
            want, want_lse = reference(*own, **masks)
            near(o[a:b].cpu().transpose(0, 1)[None], want, 4e-2)
            torch.testing.assert_close(lse[None, :, a:b].cpu().double(), want_lse, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("shape", "masks", "options"),
    [
        ((1, 2, 1, 70, 100, 64, 64), {"causal": True, "softcap": 2.0}, {}),
        ((1, 1, 1, 70, 100, 128, 128), {"window": 30, "softcap": 1.0}, {"deterministic": True}),
        ((1, 1, 1, 70, 100, 192, 128), {"causal": True, "softcap": 3.0}, {}),
    ],
)
def test_gradient_of_capped_scores(shape, masks, options, device):
    batch, heads, shared, queries, keys, width, values = shape
    *inputs, g = tensors(
        device, (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, values),
        (batch, heads, queries, values),
    )  # fmt: skip
    gradients_agree(inputs, g, masks, options, 1.3e-2)


def as_flash_attention(q, k, v, causal):
    """What FlashAttention-2 computes: scores in f32, exponentials rounded for the second product, the result rounded."""
    per = q.shape[1] // k.shape[1]
    wide = [each.float() for each in (q, k.repeat_interleave(per, 1), v.repeat_interleave(per, 1))]
    scores = wide[0] @ wide[1].transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        queries, keys = scores.shape[-2:]
        hidden = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(keys - queries + 1)
        scores = scores.masked_fill(hidden, -math.inf)
    p = (scores - scores.amax(-1, keepdim=True).clamp(min=-1e30)).exp()
    return (p.to(q.dtype).float() @ wide[2] / p.sum(-1, keepdim=True)).nan_to_num(0.0).to(q.dtype)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_errors_are_those_of_flash_attention(target):
    """Random shapes: the distance to float64 is at most 1.15 of that of FlashAttention-2's arithmetic."""

    @settings(max_examples=6, deadline=None, derandomize=True, database=None)
    @given(data=st.data())
    def check(data):
        width = data.draw(st.sampled_from([64, 128]))
        shared, per = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
        queries, keys = data.draw(st.integers(17, 150)), data.draw(st.integers(40, 200))
        causal, dtype = data.draw(st.booleans()), data.draw(st.sampled_from([torch.bfloat16, torch.float16]))
        q, k, v = tensors(
            "cpu", (1, shared * per, queries, width), *[(1, shared, keys, width)] * 2, dtype=dtype, seed=queries + keys
        )
        want, _ = reference(*(each.double() for each in (q, k, v)), causal=causal)
        with kernels.simulated_target(target):
            ours = kernels.attention(q, k, v, causal=causal)
        errors = [(each.double() - want).norm() for each in (ours, as_flash_attention(q, k, v, causal))]
        assert errors[0] <= 1.15 * errors[1]

    check()


@pytest.mark.gpu
@needs_hopper
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_errors_beside_flash_attention_on_a_gpu(data):
    """The same beside FlashAttention-2 itself."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    width, heads = data.draw(st.sampled_from([64, 96, 128, 256])), data.draw(st.integers(1, 4))
    length, causal = data.draw(st.integers(1, 2000)), data.draw(st.booleans())
    q, k, v = tensors("cuda", *[(2, heads, length, width)] * 3, seed=length)
    want, _ = reference(*(each.double() for each in (q, k, v)), causal=causal)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        flash = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    errors = [(each.double() - want).norm() for each in (kernels.attention(q, k, v, causal=causal), flash)]
    assert errors[0] <= 1.15 * errors[1]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("masks", [{"causal": True}, {"window": 9, "softcap": 2.0}])
def test_gradcheck(masks, target):
    """Our gradient beside differences of the function in float64, at numbers that f16 has."""

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return reference(*inputs, **masks)[0]

        @staticmethod
        def backward(ctx, g):
            leaves = [each.detach().half().requires_grad_() for each in ctx.saved_tensors]
            with torch.enable_grad():
                result = kernels.attention(*leaves, **masks)
            return tuple(each.double() for each in torch.autograd.grad(result, leaves, g.half()))

    torch.manual_seed(0)
    shapes = ((1, 2, 20, 16), (1, 1, 24, 16), (1, 1, 24, 16))
    inputs = [torch.randn(shape).half().double().requires_grad_() for shape in shapes]
    with kernels.simulated_target(target):
        assert torch.autograd.gradcheck(
            Attention.apply, inputs, eps=1e-4, atol=5e-3, rtol=2e-2, fast_mode=True, nondet_tol=1e-3
        )


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_runs_are_identical(target):
    q, k, v = tensors("cpu", (1, 2, 70, 64), (1, 1, 150, 64), (1, 1, 150, 64))
    with kernels.simulated_target(target):
        found = [kernels.attention(q, k, v, causal=True, lse=True) for _ in range(5)]
    assert all(torch.equal(one, other) for each in found for one, other in zip(each, found[0], strict=True))


@pytest.mark.gpu
@needs_hopper
@pytest.mark.parametrize("form", ["forward", "by mma", "gradient", "cache of e4m3", "sequences of e4m3"])
def test_100_runs_are_identical(form, monkeypatch):
    q, k, v = tensors("cuda", *[(2, 4, 700, 128)] * 3)
    narrow, counts = [each.to(FP8) for each in (q, k, v)], torch.tensor([700, 333], dtype=torch.int32, device="cuda")
    begins = torch.tensor([0, 100, 1400], dtype=torch.int32, device="cuda")
    leaves = [each.clone().requires_grad_() for each in (q, k, v)]

    def gradient():
        return torch.autograd.grad(kernels.attention(*leaves, causal=True, deterministic=True), leaves, q)

    if form == "by mma":
        monkeypatch.setattr(CHOICE, "other_than_hopper", lambda tensor: "mma")
        monkeypatch.setattr(MODULE, "CHOICE", MODULE.Attention())
    forms = {
        "gradient": gradient,
        "cache of e4m3": lambda: [kernels.attention(q[:, :, :3], *narrow[1:], lengths=counts)],
        "sequences of e4m3": lambda: [
            kernels.attention(*(each.transpose(1, 2).flatten(0, 1) for each in narrow), cu_seqlens=begins)
        ],
    }
    run = forms.get(form, lambda: [kernels.attention(q, k, v, causal=True)])
    want = run()
    assert all(torch.equal(one, other) for _ in range(100) for one, other in zip(run(), want, strict=True))


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="skipped: no ptxas")
@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_120"])
def test_nothing_spills_by_mma(target, tmp_path):
    for name, masks in (("whole", {}), ("window", {"right": True, "left": True})):
        file = tmp_path / f"{name}.ptx"
        file.write_text(mma_attention_kernel(bf16, Mma.of(64, 64, **masks)).ptx())
        command = ["ptxas", f"-arch={target}", "-v", "-o", str(tmp_path / "k.cubin"), str(file)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        assert " 0 bytes spill stores" in told, told
