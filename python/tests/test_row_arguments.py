"""The functions over rows called as torch.nn.functional is, and results that go where the caller says."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchValueError  # noqa: E402
from pyptx.kernels import _row_function, _torch_state  # noqa: E402
from pyptx.kernels._rows.softmax_tiles import share_of  # noqa: E402
from pyptx.kernels._rows.split import shorter  # noqa: E402

F = torch.nn.functional
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")])  # fmt: skip
devices = pytest.mark.parametrize("device", ["cpu", GPU])
NORMS = {  # what is called, with the normalized shape and the vectors that it has
    "shape, weight, eps": ("rms_norm", lambda f, x, w, b: f(x, w.shape, w, 1e-3)),
    "no eps": ("rms_norm", lambda f, x, w, b: f(x, w.shape, w, None)),
    "shape alone": ("rms_norm", lambda f, x, w, b: f(x, w.shape, eps=1e-6)),
    "all": ("layer_norm", lambda f, x, w, b: f(x, w.shape, w, b, 1e-3)),
    "a list": ("layer_norm", lambda f, x, w, b: f(x, list(w.shape), weight=w, bias=b)),
    "no bias": ("layer_norm", lambda f, x, w, b: f(x, w.shape, w)),
    "no weight": ("layer_norm", lambda f, x, w, b: f(x, w.shape, bias=b)),
    "neither": ("layer_norm", lambda f, x, w, b: f(x, w.shape)),
}


def same(ours, theirs, given, tolerance=1e-5):
    wanted = torch.autograd.grad(theirs.sin().sum(), given, allow_unused=True)
    got = torch.autograd.grad(ours.sin().sum(), given, allow_unused=True)
    for a, b in zip((ours, *got), (theirs, *wanted), strict=True):
        assert (a is None) == (b is None)
        if a is not None:  # a result rounded to 16 bits may be its neighbour
            step = torch.finfo(b.dtype).eps if b.dtype.itemsize == 2 else 0
            torch.testing.assert_close(a, b, rtol=max(10 * tolerance, step), atol=tolerance)


@devices
@pytest.mark.parametrize("shape", [(8,), (6, 8), (4, 6, 8)], ids=str)
@pytest.mark.parametrize("form", NORMS)
def test_norms_as_torch_calls_them(form, shape, device):
    name, call = NORMS[form]
    x, w, b = (torch.randn(size, device=device, requires_grad=True) for size in ((4, 6, 8), shape, shape))
    same(call(getattr(kernels, name), x, w, b), call(getattr(F, name), x, w, b), (x, w, b))


@devices
def test_weights_give_the_normalized_shape(device):
    x, w, b = (torch.randn(size, device=device, requires_grad=True) for size in ((4, 6, 8), (6, 8), (6, 8)))
    same(kernels.rms_norm(x, w), F.rms_norm(x, (6, 8), w, 1e-6), (x, w))
    same(kernels.layer_norm(x, w, b), F.layer_norm(x, (6, 8), w, b), (x, w, b))
    same(kernels.layer_norm(x, w, bias=b), F.layer_norm(x, (6, 8), w, b), (x, w, b))
    out = torch.empty(4, 6, 8, device=device)
    assert kernels.rms_norm(x.detach(), w.detach(), out=out) is out
    torch.testing.assert_close(out, F.rms_norm(x, (6, 8), w, 1e-6).detach())


@devices
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_any_dimension_and_type_of_result(name, device):
    ours, theirs = getattr(kernels, name), getattr(F, name)
    x = torch.randn(3, 4, 5, device=device, requires_grad=True)
    for dim in range(-3, 3):
        same(ours(x, dim), theirs(x, dim), (x,))
    for dtype in (torch.float16, torch.bfloat16):
        half = torch.randn(3, 20, device=device).to(dtype).requires_grad_()
        for dim in (0, 1):
            got, wanted = ours(half, dim, dtype=torch.float32), theirs(half, dim, dtype=torch.float32)
            assert got.dtype is torch.float32
            same(got, wanted, (half,))
        narrow = ours(x, 1, dtype=dtype)
        assert narrow.dtype is dtype
        torch.testing.assert_close(narrow, theirs(x, 1, dtype=dtype))
    out = torch.empty(3, 4, 5, device=device)
    assert ours(x.detach(), 0, out=out) is out
    torch.testing.assert_close(out, theirs(x, 0).detach())


@settings(deadline=None, max_examples=12)
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 200), st.integers(2, 300)),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    name=st.sampled_from(["softmax", "log_softmax"]),
)
def test_columns_as_they_lie(sizes, dtype, name):
    """What is packed is not copied: neither is the result a view of rows."""
    ours, theirs = getattr(kernels, name), getattr(F, name)
    x, g = (3 * torch.randn(sizes)).to(dtype), torch.randn(sizes).to(dtype)
    x[0, :, 0] = -math.inf
    x[0, 0, 1:3] = torch.tensor([math.inf, math.nan])[: sizes[2] - 1].to(dtype)
    one, two = x.clone().requires_grad_(), x.double().requires_grad_()
    got, wanted = ours(one, 1), theirs(two, 1)
    assert got.is_contiguous()
    near = {"atol": 1e-5, "rtol": 1e-5} if dtype is torch.float32 else {"atol": 0.02, "rtol": 0.01}
    torch.testing.assert_close(got.double(), wanted, equal_nan=True, **near)
    got.backward(g), wanted.backward(g.double())
    torch.testing.assert_close(one.grad.double(), two.grad, equal_nan=True, **(near | {"atol": 2 * near["atol"]}))


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("sizes", [(2, 1000, 20), (1, 700, 5), (3, 2049, 4), (1, 4000, 16), (1, 9000, 8)])
def test_long_columns(sizes, name, dtype, device):
    """In the registers of CTAs, whose lanes are fewer or more, or of clusters; elsewhere, of the longest ones first the gradient, then both are read twice."""
    ours, theirs = getattr(kernels, name), getattr(F, name)
    x, g = (3 * torch.randn(sizes, device=device)).to(dtype), torch.randn(sizes, device=device).to(dtype)
    one, two = x.clone().requires_grad_(), x.double().requires_grad_()
    got, wanted = ours(one, 1), theirs(two, 1)
    near = {"atol": 1e-5, "rtol": 1e-5} if dtype is torch.float32 else {"atol": 0.02, "rtol": 0.01}
    torch.testing.assert_close(got.double(), wanted, **near)
    got.backward(g), wanted.backward(g.double())
    torch.testing.assert_close(one.grad.double(), two.grad, **(near | {"atol": 2 * near["atol"]}))
    if device == "cpu":
        with kernels.simulated_target("sm_90a"), pyptx.simulator(check="all") as run:
            again = ours(one, 1)
            (gradient,) = torch.autograd.grad(again, one, g)
        assert run.reports == []
        torch.testing.assert_close(again, got, **near)
        torch.testing.assert_close(gradient.double(), two.grad, **(near | {"atol": 2 * near["atol"]}))


def test_columns_under_transforms():
    x = torch.randn(3, 5, 4, 8)
    for ours, theirs in ((kernels.softmax, torch.softmax), (kernels.log_softmax, torch.log_softmax)):
        pairs = [
            (
                torch.vmap(lambda x, f=f: f(x, 0), in_dims=2)(x),
                torch.vmap(torch.func.grad(lambda x, f=f: f(x, 1).square().sum()))(x),
            )
            for f in (ours, theirs)
        ]
        for got, wanted in zip(*pairs, strict=True):
            torch.testing.assert_close(got, wanted)
        traced = torch.compile(lambda x, ours=ours: ours(x, 1), fullgraph=True, dynamic=True, backend="aot_eager")
        for y in (x, torch.randn(2, 7, 3, 3), torch.randn(2, 90, 3, 3), torch.randn(2, 300, 3, 8)):
            torch.testing.assert_close(traced(y), theirs(y, 1))


def test_rows_of_gates_are_cut_where_vectors_stay_whole():
    cut = {4096: 4096, 5120: 2560, 8192: 4096, 14336: 3584, 6148: 6148, 8191: 8191, 151936: 4748, 16390: 8195}
    assert {n: shorter(n) for n in cut} == cut


@devices
def test_results_of_long_rows_of_gates(device):
    """Whose rows are cut."""
    x, u = torch.randn(3, 16384, device=device), torch.randn(3, 16384, device=device)
    out = torch.empty_like(x)
    assert kernels.swiglu(x, u, out=out) is out
    torch.testing.assert_close(out, F.silu(x) * u)


@devices
def test_halves_of_rows(device):
    x = torch.randn(3, 4, 20, device=device, requires_grad=True)
    gate, up = x.chunk(2, -1)
    same(kernels.swiglu(x), F.silu(gate) * up, (x,))
    same(kernels.geglu(x, approximate="tanh"), F.gelu(gate, approximate="tanh") * up, (x,))


LAYOUTS = {
    "columns apart": lambda device: torch.zeros(4, 6, 16, device=device)[..., ::2],
    "rows apart": lambda device: torch.zeros(4, 6, 11, device=device)[..., :8],
    "transposed": lambda device: torch.zeros(6, 8, 4, device=device).permute(2, 0, 1),
    "off 16 bytes": lambda device: torch.zeros(193, device=device)[1:].view(4, 6, 8),
}


@devices
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_of_any_strides(layout, device):
    x = torch.randn(4, 6, 8, device=device)
    for x_or_one, out in ((x, LAYOUTS[layout](device)), (x[0], LAYOUTS[layout](device)[0])):
        for _ in range(2):  # the second call may know the first
            assert kernels.softmax(x_or_one, out=out.zero_()) is out
            torch.testing.assert_close(out, x_or_one.softmax(-1))


def test_results_of_numpy_and_overlaps():
    x = np.ones((2, 3, 4), np.float32)
    for out in (np.zeros((2, 3, 4), np.float32), np.zeros((2, 3, 8), np.float32)[..., ::2]):
        assert kernels.softmax(x, out=out) is out and (out == 0.25).all()
    assert (kernels.softmax(x, 1) == np.float32(1 / 3)).all()
    line = torch.randn(8)
    with pytest.raises(ValueError, match="softmax: out has elements that share their memory"):
        kernels.softmax(torch.randn(4, 8), out=line.expand(4, 8))
    memory = torch.randn(60)
    with pytest.raises(ValueError, match="shares a part of its memory"):
        kernels.softmax(memory[:32].view(4, 8), out=memory[8:40].view(4, 8))


def test_compiled_with_numbers_that_change():
    """A number that a kernel is made of comes to torch.compile(dynamic=True) as a symbol."""
    x, w = torch.randn(4, 8), torch.randn(8)
    compiled = torch.compile(kernels.rms_norm, fullgraph=True, dynamic=True, backend="aot_eager")
    for eps in (1e-5, 0.1):
        torch.testing.assert_close(compiled(x, w, eps=eps), kernels.rms_norm(x, w, eps=eps))
    whole = torch.compile(lambda x: kernels.softmax(x, 0, dtype=torch.float32), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(x.half()), x.half().softmax(0, dtype=torch.float32))
    shaped = torch.compile(lambda x, w: kernels.layer_norm(x, w.shape, w), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(shaped(x, x), F.layer_norm(x, (4, 8), x))
    torch.testing.assert_close(torch.vmap(lambda x: kernels.softmax(x, 0))(x[None]), x[None].softmax(1))


def test_of_jax():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    x = np.random.default_rng(0).standard_normal((3, 4, 10)).astype(np.float32)
    given = jax.numpy.asarray(x)
    calls = [
        (lambda x: kernels.softmax(x, 1), lambda x: jax.nn.softmax(x, 1)),
        (lambda x: kernels.log_softmax(x.astype(jax.numpy.bfloat16), 0, dtype="float32"), None),
        (lambda x: kernels.layer_norm(x, (4, 10)), None),
        (lambda x: kernels.swiglu(x), lambda x: jax.nn.silu(x[..., :5]) * x[..., 5:]),
    ]
    theirs = [None, lambda x: x.bfloat16().log_softmax(0, torch.float32), lambda x: F.layer_norm(x, (4, 10)), None]
    for (ours, wanted), of_torch in zip(calls, theirs, strict=True):
        wanted = wanted(given) if wanted else of_torch(torch.from_numpy(x))
        np.testing.assert_allclose(jax.jit(ours)(given), wanted, rtol=1e-4, atol=1e-5)
        assert jax.grad(lambda x, f=ours: (f(x) ** 2).sum())(given).shape == x.shape
    for call in (kernels.softmax, lambda x, out: kernels.matmul(x, x.swapaxes(-1, -2), out=out)):
        with pytest.raises(TypeError, match=r"(softmax|matmul): no out= .*for JAX, which makes"):
            call(given, out=given)


def test_autocast_computes_norms_and_softmax_in_float32(monkeypatch):
    """As torch's list of a CUDA device has it, here for CPU tensors; swiglu is not on it."""
    monkeypatch.setattr(_torch_state, "AUTOCAST", ("cpu",))
    x, w = torch.randn(4, 64).bfloat16().requires_grad_(), torch.randn(64).bfloat16()
    calls = {
        "rms_norm": lambda: kernels.rms_norm(x, w), "rms_norm of a shape": lambda: kernels.rms_norm(x, (64,), w, 1e-5),
        "layer_norm": lambda: kernels.layer_norm(x, w, w), "softmax": lambda: kernels.softmax(x), "log_softmax": lambda: kernels.log_softmax(x, 0),
        "without gradient": lambda: kernels.softmax(x.detach()),
    }  # fmt: skip
    for inside in (False, True, False, True):  # calls are remembered
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            for name, call in calls.items():
                y = call()
                assert y.dtype == (torch.float32 if inside else torch.bfloat16), name
            assert kernels.swiglu(x, x).dtype == torch.bfloat16
            assert kernels.softmax(x.detach(), out=torch.empty_like(x)).dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        y = kernels.rms_norm(x, w)
        torch.testing.assert_close(y, torch.nn.functional.rms_norm(x.float(), (64,), w.float(), 1e-6))
    y.sum().backward()
    assert x.grad.dtype == torch.bfloat16


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(64, 33), (24, 33), (8, 16, 77), (512, 8), (2, 5, 640), (7, 33), (0, 33), (64, 1)])
def test_gates_of_narrow_and_odd_rows(shape, dtype, device):
    """Rows are joined if eight divides all elements."""
    gate, up = (torch.randn(shape, device=device).to(dtype).requires_grad_() for _ in range(2))
    near = {"atol": 1e-5, "rtol": 1e-5} if dtype is torch.float32 else {"atol": 0.03, "rtol": 0.02}
    for ours, theirs in ((kernels.swiglu, F.silu), (kernels.geglu, F.gelu)):
        got, wanted = ours(gate, up), theirs(gate) * up
        torch.testing.assert_close(got, wanted, **near)
        g = torch.randn_like(got)
        for one, two in zip(*(torch.autograd.grad(y, (gate, up), g) for y in (got, wanted)), strict=True):
            torch.testing.assert_close(one, two, **near)
        x, u = gate.detach().clone(), up.detach()
        out = torch.empty_like(x)
        assert ours(x, u, out=out) is out and torch.equal(out, got)
        assert ours(x, u, out=x) is x and torch.equal(x, got)


def test_rows_of_gates_are_joined(monkeypatch):
    asked = []
    monkeypatch.setattr(_row_function, "viewed", lambda array, *shape: asked.append(shape) or array.view(shape))
    x = torch.randn(512, 33)
    kernels.swiglu(x, x, out=torch.empty_like(x))
    monkeypatch.setattr(_row_function, "SMALL", 0)
    longer = torch.cat([x, x])
    kernels.swiglu(longer, longer, out=torch.empty_like(longer))
    kernels.swiglu(x[:24], x[:24], out=torch.empty_like(x[:24]))
    assert asked == [(1056, 16), (33, 1024), (3, 264)]
    with pytest.raises(LaunchValueError, match=r"`up` has shape \(33, 512\), not \(512, 33\)"):
        kernels.swiglu(x, x.view(33, 512))


@pytest.mark.parametrize(
    "sizes, of_gpu, alone",
    [
        ((2, 1000, 4096, 2, 1), (512, 8, 4, 1), (256, 4, 4, 1)),
        ((1, 4096, 4096, 4, 1), (512, 4, 4, 4), (1024, 2, 4, 1)),  # a cluster, or lines of 32 bytes
        ((16, 150, 65536, 2, 1), (256, 32, 4, 1), (256, 32, 4, 1)),
        ((4, 50000, 512, 2, 1), None, None),
    ],
)
def test_which_columns_stay_in_registers(sizes, of_gpu, alone):
    assert share_of(*sizes, True) == of_gpu and share_of(*sizes, False) == alone
