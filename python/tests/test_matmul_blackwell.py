"""The products of Blackwell (tcgen05) against float64 on the simulator, clean under all checks, and assembled.  No hardware here runs them."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402
from pyptx import assembler, kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul import blackwell  # noqa: E402
from pyptx.kernels._matmul.blackwell import BLOCKS, PAIR, SINGLE, blackwell_cut, blackwell_kernel  # noqa: E402
from pyptx.types import bf16, e4m3, f16, f32, s8, s32  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from blackwell_scaled import numbers  # noqa: E402

if not hasattr(torch, "float4_e2m1fn_x2"):
    pytest.skip("skipped: this torch has no float4_e2m1fn_x2", allow_module_level=True)
F = torch.nn.functional
needs_ptxas = pytest.mark.skipif(
    not any(row.name.startswith("ptxas") and "PTX up to" in row.name for row in assembler.found()),
    reason="skipped: no ptxas",
)
HALF = 5e-3  # of results of bf16


def distance(got, wanted) -> float:
    assert got.shape == wanted.shape
    return float((got.detach().double() - wanted).norm() / wanted.norm().clamp_min(1e-9))


def gated(z):
    gate, up = z.chunk(2, -1)
    return F.silu(gate) * up


@pytest.fixture
def clean(request):
    """Multiplies as sm_100a does, or another target that a test names; nothing is reported."""
    torch.manual_seed(0)
    with (
        kernels.simulated_target(getattr(request, "param", "sm_100a")),
        pyptx.simulator(check="all", seed=3, raises=False) as run,
    ):
        yield
    assert [str(report) for report in run.reports] == []


both = pytest.mark.parametrize("clean", ["sm_100a", "sm_103a"], indirect=True)


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    ("m", "n", "k", "a_across", "b_across", "batch"),
    [(304, 520, 200, False, False, ()), (304, 136, 72, True, True, ()), (100, 264, 136, False, True, ()), (1, 8, 8, True, False, ()), (130, 96, 64, False, True, (2,))],
)  # fmt: skip
def test_products(clean, m, n, k, a_across, b_across, batch, dtype):
    a, b = torch.randn(*batch, k, m).mT if a_across else torch.randn(*batch, m, k), torch.randn(*batch, k, n)
    b = torch.randn(*batch, n, k).mT if b_across else b
    a, b, bias, residual = a.to(dtype), b.to(dtype), torch.randn(n).to(dtype), torch.randn(*batch, m, n).to(dtype)
    got = kernels.matmul(a, b, bias=bias, activation="gelu", residual=residual)
    assert distance(got, F.gelu(a.double() @ b.double() + bias.double()) + residual.double()) < HALF
    assert distance(kernels.matmul(a, b, out=torch.empty(got.shape)), a.double() @ b.double()) < 1e-3


@pytest.mark.parametrize("m", [70, 300])
def test_fp8_and_gates(clean, m):
    n, k = 192, 272
    a, w = (torch.randn(shape).to(torch.float8_e4m3fn) for shape in ((m, k), (2 * n, k)))
    of_a, of_b = torch.rand(m, 1) + 0.5, torch.rand(2 * n) + 0.5
    z = (a.double() * of_a) @ (w.double().mT * of_b)
    assert distance(kernels.matmul(a, w.mT, scale_a=of_a, scale_b=of_b), z) < HALF
    assert distance(kernels.matmul(a, w.mT, scale_a=of_a, scale_b=of_b, activation="swiglu"), gated(z)) < HALF


@pytest.mark.parametrize("name", [None, "swiglu"])
def test_groups(clean, name):
    finish = gated if name else (lambda z: z)
    a, w, counts, ends = (
        torch.randn(3, 150, 200).bfloat16(),
        torch.randn(3, 256, 200).bfloat16(),
        [150, 0, 77],
        [130, 130, 440],
    )
    z = finish(a.double() @ w.double().mT)
    own = (torch.arange(150) < torch.tensor(counts)[:, None])[..., None]
    out = torch.full(z.shape, 7.0).bfloat16()
    kernels.grouped_matmul(a, w.mT, counts=torch.tensor(counts, dtype=torch.int32), activation=name, out=out)
    assert distance(out, torch.where(own, z, 7.0)) < HALF
    flat, out = a.reshape(450, 200), torch.full((450, z.shape[-1]), 7.0).bfloat16()
    wanted = out.double()
    wanted[:130], wanted[130:440] = (
        finish(flat[rows].double() @ w[e].double().mT) for rows, e in ((slice(130), 0), (slice(130, 440), 2))
    )
    kernels.grouped_matmul(flat, w.mT, torch.tensor(ends, dtype=torch.int32), activation=name, out=out)
    assert distance(out, wanted) < HALF


def blocks_of(x, rows: int):
    """(e4m3, f32 scales of `rows` x 128, what the two are together in float64)."""
    q, s = kernels.quantize_fp8(x, block=128 if rows == 1 else (128, 128))
    whole = s.double().repeat_interleave(rows, 0)[: x.shape[0]].repeat_interleave(128, 1)[:, : x.shape[1]]
    return q, s, q.double() * whole


@pytest.fixture
def by_tcgen05():
    """The test asked for a kernel of Blackwell, not for the one of all GPUs."""
    asked = sum(blackwell_kernel.cache_info()[:2])
    yield
    assert sum(blackwell_kernel.cache_info()[:2]) > asked


@pytest.mark.parametrize(("m", "n", "k"), [(300, 264, 400), (70, 128, 128), (1, 136, 1040)])
def test_f32_scales_of_blocks(clean, by_tcgen05, m, n, k):
    (q, s, x), (r, t, w) = blocks_of(torch.randn(m, k), 1), blocks_of(torch.randn(n, k), 128)
    out = kernels.matmul(q, r.mT, scale_a=s, scale_b=t.mT, out=torch.empty(m, n))
    assert distance(out, x @ w.mT) < 1e-5
    bias = torch.randn(n).bfloat16()
    assert distance(kernels.matmul(q, r.mT, scale_a=s, scale_b=t.mT, bias=bias), x @ w.mT + bias.double()) < HALF


@pytest.mark.parametrize("name", [None, "swiglu"])
def test_groups_with_scales_of_blocks(clean, by_tcgen05, name):
    finish = gated if name else (lambda z: z)
    ends = torch.tensor([130, 130, 200], dtype=torch.int32)
    q, s, x = blocks_of(torch.randn(210, 272), 1)
    r, t, w = (torch.stack(each) for each in zip(*(blocks_of(torch.randn(256, 272), 128) for _ in ends), strict=True))
    out = torch.full((210, 128 if name else 256), 7.0).bfloat16()
    wanted = out.double()
    for e, rows in ((0, slice(130)), (2, slice(130, 200))):
        wanted[rows] = finish(x[rows] @ w[e].mT)
    kernels.grouped_matmul(q, r.mT, ends, scale_a=s, scale_b=t.mT, activation=name, out=out)
    assert distance(out, wanted) < HALF


@pytest.mark.parametrize(("m", "n", "k"), [(300, 264, 400), (130, 128, 64), (1, 16, 16)])
def test_int8(clean, by_tcgen05, m, n, k):
    a, w = (torch.randint(-128, 128, size, dtype=torch.int8) for size in ((m, k), (n, k)))
    assert torch.equal(kernels.matmul(a, w.mT), (a.long() @ w.long().mT).int())
    if m == 300:
        assert torch.equal(kernels.matmul(a, w.mT.contiguous()), (a.long() @ w.long().mT).int())


@pytest.fixture
def small_gpu(monkeypatch):
    """So that a CTA has several tiles: both accumulators take turns."""
    monkeypatch.setattr(blackwell, "MULTIPROCESSORS", 4)
    blackwell_kernel.cache_clear()
    yield
    blackwell_kernel.cache_clear()


@pytest.mark.parametrize("c", [SINGLE, PAIR])
def test_tiles_in_turn(clean, small_gpu, c):
    a, b = torch.randn(1100, 264).bfloat16(), torch.randn(1000, 264).bfloat16()
    assert distance(blackwell_kernel(c, bf16)(a, b), a.double() @ b.double().mT) < HALF
    ends, w = [300, 301, 301, 1050], torch.randn(4, 512, 264).bfloat16()
    out = torch.full((1100, 512), 7.0).bfloat16()
    wanted, start = out.double(), 0
    for e, end in enumerate(ends):
        wanted[start:end], start = a[start:end].double() @ w[e].double().mT, end
    blackwell_kernel(c, bf16, grouped=True)(a, w, torch.tensor(ends, dtype=torch.int32), out=out)
    assert distance(out, wanted) < HALF


def scaled_operand(rng, name: str, rows: int, k: int):
    """(numbers, scale factors, what the two are together in float64)."""
    if name == "mxfp8":
        data = rng.integers(0, 256, (rows, k)).astype(np.uint8)
        data[data & 0x7F == 0x7F] = 0  # no NaN
        values, codes = numbers(data, 4, 3, 7), rng.integers(120, 135, (rows, -(-k // 32))).astype(np.uint8)
        dtypes, factors, block = (torch.float8_e4m3fn, torch.float8_e8m0fnu), 2.0 ** (codes.astype(int) - 127), 32
    else:
        data = rng.integers(0, 256, (rows, k // 2)).astype(np.uint8)
        values = numbers(np.stack([data & 15, data >> 4], -1).reshape(rows, k), 2, 1, 1)
        codes = rng.integers(0x20, 0x60, (rows, -(-k // 16))).astype(np.uint8)
        dtypes, factors, block = (torch.float4_e2m1fn_x2, torch.float8_e4m3fn), numbers(codes, 4, 3, 7), 16
    wide = torch.from_numpy(values * factors.repeat(block, axis=1)[:, :k])
    return *(torch.from_numpy(each).view(dtype) for each, dtype in zip((data, codes), dtypes, strict=True)), wide


@both
@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 256), (200, 136, 1504), (5, 37, 100), (300, 260, 1056)])
def test_block_scales(clean, name, m, n, k):
    rng = np.random.default_rng(0)
    (a, of_a, wide_a), (w, of_w, wide_w) = (scaled_operand(rng, name, rows, k) for rows in (m, n))
    wanted, bias = wide_a @ wide_w.mT, torch.randn(n).bfloat16()
    out = torch.empty(m, n)
    assert kernels.matmul(a, w.mT, scale_a=of_a, scale_b=of_w.mT, out=out) is out
    assert distance(out, wanted) < 1e-5
    residual = torch.randn(m, n).bfloat16()
    got = kernels.matmul(a, w.mT, scale_a=of_a, scale_b=of_w.mT, bias=bias, activation="relu", residual=residual)
    assert got.dtype == torch.bfloat16
    assert distance(got, torch.relu(wanted + bias.double()) + residual.double()) < HALF


def test_torch_traces_block_scales(clean):
    rng = np.random.default_rng(0)
    (a, of_a, wide_a), (w, of_w, wide_w) = (scaled_operand(rng, "mxfp8", rows, 64) for rows in (12, 16))

    def call(a, of_a):
        return kernels.matmul(a, w.mT, scale_a=of_a, scale_b=of_w.mT)

    assert distance(torch.compile(call, fullgraph=True, backend="aot_eager")(a, of_a), wide_a @ wide_w.mT) < HALF
    leading = call(a.view(3, 4, 64), of_a.view(3, 4, 2))
    assert distance(leading.view(12, 16), wide_a @ wide_w.mT) < HALF
    assert call(a[:0], of_a[:0]).shape == (0, 16)


@pytest.mark.parametrize(
    ("error", "message", "change"),
    [
        (LaunchTypeError, "which sm_100a and sm_103a have; elsewhere scales are float32", {"target": "sm_90a"}),
        (LaunchTypeError, "with block scales a and b are float8_e4m3fn with float8_e8m0fnu or float4_e2m1fn_x2 with float8_e4m3fn", {"a": torch.ones(4, 64).half()}),
        (LaunchTypeError, "with block scales a and b are", {"scale_b": torch.ones(2, 8)}),
        (LaunchValueError, "scale_a has shape (4, 3), not (4, 2): one for 32 of K", {"scale_a": torch.ones(4, 3).to(torch.float8_e8m0fnu)}),
        (LaunchValueError, "are (..., M, K) and (K, N)", {"b": torch.ones(32, 8).to(torch.float8_e4m3fn)}),
        (LaunchValueError, "activation 'swiglu' has no kernel for float8_e4m3fn with scales", {"activation": "swiglu"}),
        (LaunchValueError, "bias has shape (7,), not (8,)", {"bias": torch.ones(7)}),
        (LaunchTypeError, "`out` is of float64", {"out": torch.ones(4, 8).double()}),
    ],
)  # fmt: skip
def test_what_does_not_fit(error, message, change):
    given = {
        "a": torch.ones(4, 64).to(torch.float8_e4m3fn), "b": torch.ones(64, 8).to(torch.float8_e4m3fn), "target": "sm_100a",
        "scale_a": torch.ones(4, 2).to(torch.float8_e8m0fnu), "scale_b": torch.ones(2, 8).to(torch.float8_e8m0fnu),
    } | change  # fmt: skip
    with kernels.simulated_target(given.pop("target")), pytest.raises(error) as raised:
        kernels.matmul(**given)
    assert message in str(raised.value)


def test_cuts():
    assert blackwell_cut(128, 65536, 1, False) == SINGLE
    assert blackwell_cut(8192, 8192, 1, False) == PAIR
    assert blackwell_cut(512, 512, 1, False).bn == 128
    assert blackwell_cut(512, 512, 1, True) == PAIR
    with pytest.raises(ValueError, match="columns of C are stored 64 at a time"):
        blackwell_kernel(blackwell_cut(512, 512, 1, False), bf16, epilogue=Epilogue(activation="swiglu"))


@pytest.mark.parametrize("c", [SINGLE, PAIR])
def test_maps_are_asked_for_before_the_kernel_ahead_has_ended(c):
    before, behind = blackwell_kernel(c, bf16).ptx().split("griddepcontrol.wait")
    assert before.count("prefetch.tensormap") == 3 and "prefetch" not in behind


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize("c", [SINGLE, PAIR])
def test_products_assemble(arch, c):
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    gates = Epilogue(activation="swiglu")
    made = [
        blackwell_kernel(c, bf16, False, False, epilogue=Epilogue(bf16, "gelu", bf16), arch=arch).resources(**sizes),
        blackwell_kernel(c, f16, out=f32, arch=arch).resources(**sizes),
        blackwell_kernel(c, e4m3, epilogue=Epilogue(activation="swiglu", scales="row"), arch=arch).resources(**sizes),
        blackwell_kernel(c, f32, out=f32, arch=arch).resources(**sizes),
        blackwell_kernel(c, bf16, epilogue=gates, grouped=True, masked=True, arch=arch).resources(**sizes, E=8),
    ]
    if arch == "sm_100a":  # sm_103a has no int8
        made.append(blackwell_kernel(c, s8, out=s32, arch=arch).resources(**sizes))
    assert all(found.spill_stores == 0 and found.dynamic_shared <= 232448 for found in made)


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_f32_scales_of_blocks_assemble(arch):
    blocks, gates = Epilogue(bf16, scales="block"), Epilogue(activation="swiglu", scales="block")
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    made = [
        blackwell_kernel(BLOCKS, e4m3, epilogue=blocks, arch=arch).resources(**sizes),
        blackwell_kernel(BLOCKS, e4m3, epilogue=gates, grouped=True, arch=arch).resources(**sizes, E=8),
    ]
    assert all(found.spill_stores == 0 and found.dynamic_shared <= 232448 for found in made)


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_block_scales_assemble(arch):
    from pyptx.kernels._matmul.scaled import FORMATS, scaled_kernel

    for form in FORMATS.values():
        made = scaled_kernel(form, bf16, Epilogue(bf16, "relu"), arch)
        found = made.resources(M=4096, N=4096, K=4096, FA=1 << 20, FB=1 << 20)
        assert found.spill_stores == 0
        assert found.dynamic_shared <= 232448
