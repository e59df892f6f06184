"""Functions over rows that lie apart: slices of longer rows, transposed heads, gradients and results with gaps, halves of one tensor."""

from __future__ import annotations

import contextlib
import functools
import math

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchValueError  # noqa: E402

F = torch.nn.functional
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")])  # fmt: skip
devices = pytest.mark.parametrize("device", ["cpu", GPU])
TOLERANCES = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


@functools.cache
def angles(places, columns, dtype, device):
    line = torch.arange(places)[:, None] * torch.linspace(0, 3, columns // 2, dtype=torch.float64)
    return line.cos().to(device, dtype), line.sin().to(device, dtype)


def turned(x):
    return kernels.rope(x, *angles(*x.shape[-2:], torch.float32, x.device))


def rotated(x):
    (a, b), (cos, sin) = x.chunk(2, -1), angles(*x.shape[-2:], torch.float64, x.device)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def first_classes(x):
    return torch.zeros(x.shape[:-1], dtype=torch.int64, device=x.device)


# Name: (ours, torch's, matrices, vectors)
FUNCTIONS = {
    "rms_norm": (kernels.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), 1, 1),
    "rms_norm_alone": (kernels.rms_norm, lambda x: F.rms_norm(x, x.shape[-1:], None, 1e-6), 1, 0),
    "layer_norm": (kernels.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), 1, 2),
    "layer_norm_alone": (kernels.layer_norm, lambda x: F.layer_norm(x, x.shape[-1:]), 1, 0),
    "add_rms_norm": (lambda *given: kernels.add_rms_norm(*given)[0], lambda x, r, w: F.rms_norm(x + r, w.shape, w, 1e-6), 2, 1),
    "softmax": (kernels.softmax, lambda x: x.softmax(-1), 1, 0),
    "log_softmax": (kernels.log_softmax, lambda x: x.log_softmax(-1), 1, 0),
    "swiglu": (kernels.swiglu, lambda gate, up: F.silu(gate) * up, 2, 0),
    "geglu": (kernels.geglu, lambda gate, up: F.gelu(gate) * up, 2, 0),
    "swiglu_of_halves": (kernels.swiglu, lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], 1, 0),
    "cross_entropy": (
        lambda x: kernels.cross_entropy(x, first_classes(x), dim=-1, reduction="none"),
        lambda x: -x.log_softmax(-1)[..., 0], 1, 0,
    ),
    "mean_of_cross_entropy": (
        lambda x: kernels.cross_entropy(x, first_classes(x), dim=-1), lambda x: -x.log_softmax(-1)[..., 0].mean(), 1, 0,
    ),
    "rope": (turned, rotated, 1, 0),
}  # fmt: skip
functions = pytest.mark.parametrize("name", FUNCTIONS)


def distance(got, wanted) -> float:
    return float((got.detach().double() - wanted.detach()).norm() / wanted.detach().norm().clamp_min(1e-9))


def lying(shape, order, gaps, dtype, device="cpu"):
    """A random tensor whose leading dimensions lie in this order, innermost last, with so many elements of gap behind each."""
    strides, step = [1] * len(shape), shape[-1]
    for dim, gap in zip(reversed(order), gaps, strict=True):
        step += gap
        strides[dim], step = step, step * shape[dim]
    memory = torch.randn(step + 16, device=device).to(dtype)
    return memory.as_strided(shape, strides, 8)


@contextlib.contextmanager
def nothing_copied():
    """Raises if torch copies elements of a tensor, adds tensors up or joins them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        yield
    copies = {"aten::copy_", "aten::clone", "aten::contiguous", "aten::cat", "aten::add", "aten::add_"}
    assert not copies.intersection(event.name for event in profile.events())


def compare(name, inputs, pull_of=torch.randn_like, around=contextlib.nullcontext):
    ours, theirs, *_ = FUNCTIONS[name]
    leaves = [each.detach().requires_grad_() for each in inputs]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    wanted = theirs(*exact)
    pull = pull_of(wanted.to(inputs[0].dtype if name[-7:] != "entropy" else torch.float32))
    with around():
        got = ours(*leaves)
        gradients = torch.autograd.grad(got, leaves, pull)
    expected = torch.autograd.grad(wanted, exact, pull.double())
    for a, b in zip((got, *gradients), (wanted, *expected), strict=True):
        assert a.shape == b.shape
        assert distance(a, b) < TOLERANCES[inputs[0].dtype]
    plain = ours(*[each.detach() for each in inputs])
    assert torch.equal(plain, got.detach())


def of_names(name, x, *matrices):
    _, _, count, vectors = FUNCTIONS[name]
    beside = [torch.randn(x.shape[-1], device=x.device).to(x.dtype) for _ in range(vectors)]
    return [x, *matrices[: count - 1], *beside]


ROWS = {
    "a slice of rows": lambda device: torch.randn(5, 96, device=device)[:, 32:80],
    "heads of qkv": lambda device: torch.randn(2, 3, 3, 2, 48, device=device)[:, :, 1],
    "transposed heads": lambda device: torch.randn(2, 3, 4, 48, device=device).transpose(1, 2),
    "one row for all": lambda device: torch.randn(2, 1, 48, device=device).expand(2, 3, 48),
}


@devices
@functions
@pytest.mark.parametrize("rows", ROWS)
def test_rows_are_not_copied(name, rows, device):
    """Neither forward nor backward."""
    x = ROWS[rows](device)
    other = torch.randn_like(x.contiguous())
    ours = FUNCTIONS[name][0]
    inputs = of_names(name, x, other)
    compare(name, inputs)
    with nothing_copied():
        ours(*inputs)
    leaves = [each.requires_grad_() for each in of_names(name, x.detach(), other)]
    with nothing_copied():
        y = ours(*leaves)
    pull = torch.randn_like(y)
    with nothing_copied():
        torch.autograd.grad(y, leaves, pull)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_any_strides_of_leading_dimensions(data):
    """Of x, of a second matrix and of the gradient, each its own, by kernels for all GPUs and by those for GPUs with clusters."""
    name = data.draw(st.sampled_from(list(FUNCTIONS)))
    dtype = data.draw(st.sampled_from(list(TOLERANCES)))
    lead = data.draw(st.lists(st.integers(1, 4), min_size=2 if name == "rope" else 1, max_size=4))
    shape = (*lead, data.draw(st.sampled_from([16, 24, 72, 256, 1024, *([] if name == "rope" else [2064])])))

    def drawn(shape):
        order = data.draw(st.permutations(range(len(lead))))
        gaps = data.draw(st.lists(st.sampled_from([0, 0, 8, 24, 3]), min_size=len(lead), max_size=len(lead)))
        return lying(shape, order, gaps, dtype)

    x, other = drawn(shape), drawn(shape)
    strided = data.draw(st.booleans())

    def pull_of(y):
        return drawn(y.shape).to(y.dtype) if strided and y.dim() == len(shape) else torch.randn_like(y)

    target = data.draw(st.sampled_from([None, "sm_90a"]))
    with kernels.simulated_target(target) if target else contextlib.nullcontext():
        compare(name, of_names(name, x, other), pull_of)


@functions
@pytest.mark.parametrize("n", [64, 5128])
def test_the_sanitizer_finds_nothing(name, n):
    n = min(n, 1024) if name == "rope" else n
    x = lying((2, 2, 3, n), (0, 2, 1), (0, 16, 8), torch.bfloat16)
    with pyptx.simulator(check="all"), kernels.simulated_target("sm_90a"):
        compare(name, of_names(name, x, x), lambda y: torch.randn_like(y))


@devices
@pytest.mark.parametrize("shape", [(3, 14336), (2, 3, 40000), (3, 8200)], ids=str)
def test_rows_that_are_cut_into_pieces(shape, device):
    """So are rows of gated activations, and halves of rows."""
    wide = torch.randn(*shape[:-1], 2 * shape[-1] + 8, device=device)
    compare("swiglu", [wide[..., 8 : shape[-1] + 8], wide[..., : shape[-1]]])
    compare("swiglu_of_halves", [wide[..., 8:]])
    compare("swiglu_of_halves", [wide[..., 8:].contiguous()])


@devices
@pytest.mark.parametrize("n", [24, 14336, 10002, 40008, 14, 150, 2730, 18006])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_halves_have_one_gradient(n, dtype, device):
    for approximate in ("none", "tanh"):
        x = torch.randn(3, n, device=device).to(dtype).requires_grad_()
        exact = x.detach().double().requires_grad_()
        got, (gate, up) = kernels.geglu(x, approximate=approximate), exact.chunk(2, -1)
        wanted = F.gelu(gate, approximate=approximate) * up
        pull = torch.randn_like(got)
        ours, theirs = torch.autograd.grad(got, x, pull), torch.autograd.grad(wanted, exact, pull.double())
        assert distance(got, wanted) < TOLERANCES[dtype] and distance(*ours, *theirs) < TOLERANCES[dtype]
    plain = x.detach()
    with nothing_copied():
        kernels.swiglu(plain)
    wanted = kernels.swiglu(plain)
    out = torch.zeros(3, n, device=device).to(dtype)[:, : n // 2]
    assert kernels.swiglu(plain, out=out) is out
    assert torch.equal(out, wanted)
    with pytest.raises(LaunchValueError, match=r"swiglu.*out"):
        kernels.swiglu(plain[None], out=torch.empty(1, 3, n, device=device).to(dtype))


def test_halves_in_frameworks():
    x = torch.randn(2, 4, 48)
    wanted = F.silu(x[..., :24]) * x[..., 24:]
    traced = torch.compile(kernels.swiglu, fullgraph=True, dynamic=True, backend="aot_eager")
    for given_ in (x, x[:, :3]):
        torch.testing.assert_close(traced(given_), wanted[:, : given_.shape[1]])
    torch.testing.assert_close(torch.vmap(kernels.swiglu)(x), wanted)
    gradient = torch.func.grad(lambda x: kernels.swiglu(x).sum())(x)
    torch.testing.assert_close(gradient, torch.func.grad(lambda x: (F.silu(x[..., :24]) * x[..., 24:]).sum())(x))
    torch.testing.assert_close(torch.from_numpy(kernels.swiglu(x.numpy())), wanted)


@pytest.mark.skipif(not pytest.importorskip("jax", reason="skipped: no jax"), reason="skipped: no jax")
def test_halves_of_jax():
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(torch.randn(3, 5, 32).numpy())

    def wanted(x):
        return jax.nn.silu(x[..., :16]) * x[..., 16:]

    assert jnp.allclose(jax.jit(kernels.swiglu)(x), wanted(x), atol=1e-5)
    ours, theirs = (jax.grad(lambda x, f=f: f(x).sum())(x) for f in (kernels.swiglu, wanted))
    assert jnp.allclose(ours, theirs, atol=1e-5)


@devices
def test_results_that_lie_apart(device):
    x, w = torch.randn(4, 6, 48, device=device), torch.randn(48, device=device)
    for out in (torch.zeros(4, 6, 96, device=device)[..., 48:], torch.zeros(6, 4, 48, device=device).transpose(0, 1)):
        for given_ in (x, torch.cat([x, x], -1)[..., :48]):
            with nothing_copied():
                assert kernels.rms_norm(given_, w, out=out) is out
            assert torch.equal(out, kernels.rms_norm(x, w))
    both = torch.randn(5, 96, device=device)
    x, wanted = both[:, :48], kernels.softmax(both[:, :48].contiguous())
    beside = both[:, 48:].clone()
    assert torch.equal(kernels.softmax(x, out=x), wanted)  # in place
    assert torch.equal(both[:, 48:], beside)
    both = torch.randn(5, 96, device=device)
    wanted = kernels.softmax(both[:, :48].contiguous())
    assert torch.equal(kernels.softmax(both[:, :48], out=both[:, 16:64]), wanted)  # in a part of its own memory
    with pytest.raises(LaunchValueError, match=r"stride of 0.*\.contiguous"):
        kernels.softmax(both[:, :48], out=torch.empty(1, 48, device=device).expand(5, 48))


@devices
def test_other_rows_are_copied_as_before(device):
    """Strides and addresses that 16 bytes do not divide, columns, five dimensions, and rows of a few or an odd number of elements."""
    wide = torch.randn(6, 100, device=device)
    odd = [
        wide[:, 1:49], wide[:, :98:2], wide.T, torch.randn(100, 6, 2, device=device).movedim(0, -1), torch.randn(6, 51, device=device)[:, :48], torch.randn(6, 24, device=device)[:, :7],
        torch.randn(2, 3, 2, 3, 2, 16, device=device).transpose(0, 3), torch.randn(4, 16, device=device)[:, :8], wide[:0, :48],
    ]  # fmt: skip
    for x in odd:
        torch.testing.assert_close(kernels.softmax(x), x.softmax(-1))
        torch.testing.assert_close(kernels.layer_norm(x), F.layer_norm(x, x.shape[-1:]))


TURNED = {
    "a matrix": lambda device: torch.randn(20, 33, device=device).mT,
    "images, their channels behind": lambda device: torch.randn(2, 48, 9, 5, device=device).permute(0, 2, 3, 1),
    "several matrices": lambda device: torch.randn(3, 130, 70, device=device).mT,
    "their first dimension behind": lambda device: torch.randn(16, 3, 22, device=device).permute(1, 2, 0),
}


@devices
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("rows", TURNED)
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "add_rms_norm", "swiglu"])
def test_turned_rows_are_packed_by_a_kernel(name, rows, dtype, device):
    x = TURNED[rows](device).to(dtype)
    assert not x.is_contiguous()
    compare(name, inputs := of_names(name, x, torch.randn_like(x)))
    with nothing_copied():
        FUNCTIONS[name][0](*inputs)


@devices
@pytest.mark.parametrize("block", [None, 128, (128, 128)], ids=str)
def test_turned_rows_are_quantized(block, device):
    for x in (torch.randn(40, 140, device=device).mT, torch.randn(42, 33, device=device).mT):
        with nothing_copied():
            found = kernels.quantize_fp8(x, block=block)
        for got, wanted in zip(found, kernels.quantize_fp8(x.contiguous(), block=block), strict=True):
            assert torch.equal(got.float(), wanted.float())


@pytest.mark.parametrize(("bits", "shape"), [(16, (2, 70, 133)), (16, (1, 64, 40)), (32, (3, 33, 68))])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_sanitizer_finds_nothing_in_turned_matrices(target, bits, shape):
    from pyptx.kernels._rows.turned import turning_kernel
    from pyptx.types import bf16, f32

    turn = turning_kernel(bf16 if bits == 16 else f32, *shape[:0:-1], target == "sm_90a")
    x = torch.randn(shape).to(torch.bfloat16 if bits == 16 else torch.float32).requires_grad_()
    with pyptx.simulator(check="all"), kernels.simulated_target(target):
        y = turn(x)
    assert torch.equal(y, x.mT.contiguous())
    (gradient,) = torch.autograd.grad(y, x, pull := torch.randn_like(y))
    assert torch.equal(gradient, pull.mT)


@devices
@pytest.mark.parametrize("block", [None, 128, (128, 128)], ids=str)
def test_quantized_rows(block, device):
    wide = torch.randn(6, 2, 400, device=device)
    for x in (wide[:, 1, 8:280], wide[..., :272]) if block != (128, 128) else (wide[:, 1, 8:280],):
        for got, wanted in zip(
            kernels.quantize_fp8(x, block=block), kernels.quantize_fp8(x.contiguous(), block=block), strict=True
        ):
            assert got.shape == wanted.shape
            assert torch.equal(got.float(), wanted.float())


def test_transformations_see_packed_rows():
    x, w = torch.randn(3, 4, 64)[..., :32], torch.rand(32)
    wanted = F.rms_norm(x, (32,), w, 1e-6)
    traced = torch.compile(kernels.rms_norm, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(traced(x, w), wanted)
    torch.testing.assert_close(torch.vmap(kernels.rms_norm, in_dims=(0, None))(x, w), wanted)
    gradient = torch.func.grad(lambda x: kernels.rms_norm(x, w).square().sum())(x)
    torch.testing.assert_close(gradient, torch.func.grad(lambda x: F.rms_norm(x, (32,), w, 1e-6).square().sum())(x))
    once = kernels.rms_norm(x.requires_grad_(), w)
    (first,) = torch.autograd.grad(once.square().sum(), x, create_graph=True)
    with pytest.raises(LaunchValueError, match="second derivative"):
        first.sum().backward()


@pytest.mark.parametrize("x", [torch.randn(3, 4, 64), torch.randn(3, 4, 96)[..., :64]], ids=["packed", "apart"])
def test_a_backward_under_a_mode(x):
    """The forward is outside of it; the mode has operations of torch to see."""
    from torch.utils.flop_counter import FlopCounterMode

    x, w, pull = x.detach().requires_grad_(), torch.rand(64).requires_grad_(), torch.randn(4, 3, 64).transpose(0, 1)
    ours, theirs = kernels.rms_norm(x, w), F.rms_norm(x, (64,), w, 1e-6)
    wanted = torch.autograd.grad(theirs, (x, w), pull)
    with FlopCounterMode(display=False):
        got = torch.autograd.grad(ours, (x, w), pull)
    torch.testing.assert_close(got, wanted)


@devices
@pytest.mark.parametrize(
    "name", ["rms_norm", "layer_norm_alone", "add_rms_norm", "softmax", "swiglu", "swiglu_of_halves", "rope"]
)
def test_gradients_of_packed_tensors_are_not_copied(name, device):
    """As those of heads, which a transpose follows."""
    x = torch.randn(2, 3, 4, 64, device=device)
    leaves = [each.requires_grad_() for each in of_names(name, x, torch.randn_like(x))]
    exact = [each.detach().double().requires_grad_() for each in leaves]
    y, wanted = FUNCTIONS[name][0](*leaves), FUNCTIONS[name][1](*exact)
    pull = torch.randn(2, 4, 3, y.shape[-1], device=device).transpose(1, 2)
    with nothing_copied():
        got = torch.autograd.grad(y, leaves, pull)
    for a, b in zip(got, torch.autograd.grad(wanted, exact, pull.double()), strict=True):
        assert distance(a, b) < 3e-6


def test_what_does_not_fit_is_refused():
    x, w = torch.randn(5, 96)[:, :48], torch.ones(48)
    for call in (
        lambda: kernels.rms_norm(x, torch.ones(40)),
        lambda: kernels.swiglu(x, torch.randn(4, 96)[:, :48]),
        lambda: kernels.rms_norm(x, w, out=torch.empty(4, 96)[:, :48]),
        lambda: kernels.cross_entropy(x, torch.zeros(4, dtype=torch.int64)),
    ):
        with pytest.raises(LaunchValueError):
            call()


@devices
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (3, 21, 35), (1, 40, 300), (2, 17, 8, 8), (2, 3, 1030)], ids=str)
def test_classes_that_lie_in_columns(shape, dtype, device):
    generator = torch.Generator().manual_seed(sum(shape))
    x = (3 * torch.randn(shape, generator=generator) + 100).to(device, dtype)
    target = torch.randint(0, shape[1], (shape[0], *shape[2:]), generator=generator).to(device)
    target[0, 1] = -100
    weight = torch.rand(shape[1], generator=generator).to(device)
    for told in (
        {}, {"weight": weight}, {"label_smoothing": 0.2}, {"weight": weight, "label_smoothing": 0.1, "reduction": "sum"},
        {"reduction": "none"}, {"weight": weight, "label_smoothing": 0.1, "reduction": "none", "ignore_index": 2},
    ):  # fmt: skip
        goal = target.int() if told else target
        if "ignore_index" in told:
            goal = goal.clamp_min(0)
        ours, theirs = x.detach().requires_grad_(), x.detach().double().requires_grad_()
        exact = {key: value.double() if key == "weight" else value for key, value in told.items()}
        got, wanted = kernels.cross_entropy(ours, goal, dim=1, **told), F.cross_entropy(theirs, goal.long(), **exact)
        assert got.shape == wanted.shape and distance(got, wanted) < 3e-6
        pull = torch.randn(wanted.shape, generator=generator).to(device)
        (a,), (b,) = torch.autograd.grad(got, ours, pull), torch.autograd.grad(wanted, theirs, pull.double())
        assert distance(a, b) < TOLERANCES[dtype]
    target[0, 2] = shape[1]  # no class
    assert kernels.cross_entropy(x, target, dim=1).isnan()
    if device == "cpu":  # a GPU has too few columns of these
        with nothing_copied():
            kernels.cross_entropy(x, target, dim=1)


def test_classes_in_columns_of_all_kinds():
    x, target = torch.randn(2, 3, 16), torch.randint(0, 3, (2, 16))
    x[0, :, 1], x[0, 0, 2], x[1, 2, 3] = -math.inf, math.inf, math.nan
    got, wanted = (f(x, target, reduction="none") for f in (kernels.cross_entropy, F.cross_entropy))
    torch.testing.assert_close(got, wanted, equal_nan=True)
    x = torch.randn(2, 3, 16)
    loss = F.cross_entropy(x, target)
    traced = torch.compile(
        lambda x, t: kernels.cross_entropy(x, t, dim=1), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    torch.testing.assert_close(traced(x, target), loss)
    torch.testing.assert_close(
        torch.vmap(lambda x, t: kernels.cross_entropy(x[None], t[None], dim=1))(x, target).mean(), loss
    )
    with kernels.simulated_target("sm_90a"), pyptx.simulator(check="all"):
        leaf = x.requires_grad_()
        ours, theirs = kernels.cross_entropy(leaf, target, dim=1), F.cross_entropy(leaf, target)
        torch.testing.assert_close(torch.autograd.grad(ours, leaf), torch.autograd.grad(theirs, leaf))


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block", [None, 128, (128, 128)])
def test_quantize_fp8(block, dtype, device):
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("skipped: no e4m3 before sm_89")
    x = torch.randn(3, 50, 4, 208, device=device).to(dtype)
    for slice_ in (x[0, :, 1], x[1].flatten(1)[:, 208:624], *([] if block == (128, 128) else [x.transpose(1, 2)])):
        wanted = kernels.quantize_fp8(slice_.contiguous(), block=block)
        with nothing_copied():
            got = kernels.quantize_fp8(slice_, block=block)
        for one, other in zip(got, wanted, strict=True):
            assert one.shape == other.shape and torch.equal(one.float(), other.float())
