"""Products whose epilogue is a gated activation, and groups of rows of which some count (masked), against float64 on the simulator."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import pyptx  # noqa: E402
from pyptx import assembler, kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul.choice import BLOCKS, tile_of  # noqa: E402
from pyptx.kernels._matmul.costs import Sizes  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import Config  # noqa: E402
from pyptx.types import bf16, e4m3, f32  # noqa: E402

F = torch.nn.functional
ACTIVATIONS = {
    None: lambda z: z,
    "relu": torch.relu,
    "swiglu": lambda z: F.silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
    "geglu": lambda z: F.gelu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
}
TARGETS = ("sm_80", "sm_90a")
needs_ptxas = pytest.mark.skipif(
    not any(row.name.startswith("ptxas") and "PTX up to" in row.name for row in assembler.found()),
    reason="skipped: no ptxas",
)


def distance(got, wanted) -> float:
    assert got.shape == wanted.shape
    return float((got.detach().double() - wanted).norm() / wanted.norm().clamp_min(1e-9))


def half(*shape):
    return torch.randn(shape).bfloat16()


sizes = st.integers(1, 150)


@pytest.mark.parametrize("target", TARGETS)
@settings(deadline=None, max_examples=6)
@given(
    m=sizes, n=sizes, k=sizes, eights=st.booleans(), transposed=st.booleans(), batch=st.sampled_from([(), (2,)]),
    dtype=st.sampled_from([torch.bfloat16, torch.float32]), name=st.sampled_from(["swiglu", "geglu"]), more=st.booleans(),
)  # fmt: skip
def test_gates(target, m, n, k, eights, transposed, batch, dtype, name, more):
    n, k = (-(-n // 8) * 8, -(-k // 8) * 8) if eights else (n, k)  # which wgmma takes
    a, w = torch.randn(*batch, m, k).to(dtype), torch.randn(*batch, 2 * n, k).to(dtype)
    b = w.mT if transposed else w.mT.contiguous()
    bias, residual = (torch.randn(2 * n).to(dtype), torch.randn(*batch, m, n).to(dtype)) if more else (None, None)
    with kernels.simulated_target(target):
        got = kernels.matmul(a, b, bias=bias, activation=name, residual=residual)
    z = a.double() @ b.double() + (bias.double() if more else 0)
    assert distance(got, ACTIVATIONS[name](z) + (residual.double() if more else 0)) < 5e-3


@pytest.mark.parametrize("target", (*TARGETS, "sm_100a"))
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(129, 32, 184), (64, 64, 64), (129, 128, 64), (300, 96, 136), (20, 200, 72)])
def test_gates_to_float32(m, n, k, transposed, target):
    """Half as many columns are stored together as of 16 bits, but B (K, N) is copied by as many."""
    a, b, out = half(m, k), half(2 * n, k).mT if transposed else half(k, 2 * n), torch.empty(m, n)
    with kernels.simulated_target(target):
        assert kernels.matmul(a, b, activation="swiglu", out=out) is out
    assert distance(out, ACTIVATIONS["swiglu"](a.double() @ b.double())) < 1e-5


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scales", ["tensor", "row", "block"])
def test_gates_of_fp8(target, scales):
    m, n, k = 70, 192, 272
    a, w = (torch.randn(shape).to(torch.float8_e4m3fn) for shape in ((m, k), (2 * n, k)))
    of_a, of_b = {
        "tensor": (torch.rand(1) + 0.5, torch.rand(1) + 0.5),
        "row": (torch.rand(m, 1) + 0.5, torch.rand(2 * n) + 0.5),
        "block": (torch.rand(m, 3) + 0.5, torch.rand(3, 3) + 0.5),
    }[scales]
    wide_a, wide_b = of_a, of_b
    if scales == "block":
        wide_a = of_a.repeat_interleave(128, 1)[:, :k]
        wide_b = of_b.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, : 2 * n]
    with kernels.simulated_target(target):
        got = kernels.matmul(a, w.mT, activation="swiglu", scale_a=of_a, scale_b=of_b)
    wanted = ACTIVATIONS["swiglu"]((a.double() * wide_a) @ (w.double().mT * wide_b))
    assert distance(got, wanted) < 5e-3


@pytest.mark.parametrize("target", TARGETS)
def test_scales_of_columns_for_all_of_a_batch(target):
    a, b = torch.randn(2, 9, 48).to(torch.float8_e4m3fn), torch.randn(2, 48, 64).to(torch.float8_e4m3fn)
    of_a, of_b = torch.rand(2, 9) + 0.5, torch.rand(64) + 0.5
    wanted = ACTIVATIONS["swiglu"]((a.double() @ b.double()) * of_a[..., None] * of_b)
    with kernels.simulated_target(target):
        got = kernels.matmul(a, b, activation="swiglu", scale_a=of_a, scale_b=of_b)
    assert distance(got, wanted) < 5e-3
    jnp = pytest.importorskip("jax", reason="skipped: no jax").numpy
    given = [jnp.asarray(each.float().numpy()).astype(jnp.float8_e4m3fn) for each in (a, b)]
    scales = [jnp.asarray(each.numpy()) for each in (of_a, of_b)]
    got = kernels.matmul(*given, activation="swiglu", scale_a=scales[0], scale_b=scales[1])
    assert distance(torch.from_numpy(np.asarray(got, np.float32)), wanted) < 5e-3


@pytest.mark.parametrize("name", ["swiglu", "geglu"])
def test_gradients_of_gates(name):
    given = [half(*shape).requires_grad_() for shape in ((3, 20, 32), (32, 32), (32,), (3, 20, 16))]
    exact = [each.detach().double().requires_grad_() for each in given]
    y = kernels.matmul(*given[:2], bias=given[2], activation=name, residual=given[3])
    wanted = ACTIVATIONS[name](exact[0] @ exact[1] + exact[2]) + exact[3]
    pull = torch.randn_like(y)
    mine, theirs = torch.autograd.grad(y, given, pull), torch.autograd.grad(wanted, exact, pull.double())
    for ours, expected in zip(mine, theirs, strict=True):
        assert distance(ours, expected) < 1e-2


def test_torch_traces_gates():
    x, w = half(4, 8, 16), half(16, 16)
    compiled = torch.compile(
        lambda x: kernels.matmul(x, w, activation="swiglu") + 1, dynamic=True, fullgraph=True, backend="aot_eager"
    )
    wanted = ACTIVATIONS["swiglu"](x.double() @ w.double())
    for count in (3, 4):
        assert distance(compiled(x[:count]), wanted[:count] + 1) < 1e-2
    assert distance(torch.vmap(lambda x: kernels.matmul(x, w, activation="swiglu"))(x), wanted) < 5e-3
    torch.library.opcheck(torch.ops.pyptx.matmul, (x[0].requires_grad_(), w, None, None, None, None, "geglu"))


def test_numpy_and_jax():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((20, 24)).astype(np.float32), rng.standard_normal((24, 32)).astype(np.float32)
    wanted = ACTIVATIONS["swiglu"](torch.from_numpy(a).double() @ torch.from_numpy(b).double())
    assert distance(torch.from_numpy(kernels.matmul(a, b, activation="swiglu")), wanted) < 1e-3
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    bias = jax.numpy.asarray(rng.standard_normal(32), "float32")

    def ours(a, b, bias):
        return (kernels.matmul(a, b, bias=bias, activation="swiglu") ** 2).sum()

    def theirs(a, b, bias):
        gate, up = jax.numpy.split(jax.numpy.matmul(a, b, precision="highest") + bias, 2, axis=-1)
        return ((jax.nn.silu(gate) * up) ** 2).sum()

    given = (jax.numpy.asarray(a), jax.numpy.asarray(b), bias)
    value, gradients = jax.jit(jax.value_and_grad(ours, (0, 1, 2)))(*given)
    wanted, expected = jax.value_and_grad(theirs, (0, 1, 2))(*given)
    assert np.allclose(value, wanted, rtol=1e-2)
    for one, two in zip(gradients, expected, strict=True):
        assert np.linalg.norm(one - two) < 1e-2 * np.linalg.norm(two)


# Groups of rows.

COUNTS = (150, 0, 77)


def groups(k: int, n: int, counts=COUNTS, rows: int = 150, fp8: bool = False):
    """(a, w, scales of both, z): z is what they make, in float64."""
    experts = len(counts)
    a, w = half(experts, rows, k), half(experts, n, k)
    if not fp8:
        return a, w, {}, a.double() @ w.double().mT
    a, w = (each.to(torch.float8_e4m3fn) for each in (a, w))
    blocks, columns = -(-k // 128), -(-n // 128)
    of_a, of_w = torch.rand(experts, rows, blocks) + 0.5, torch.rand(experts, blocks, columns) + 0.5
    wide_a = a.double() * of_a.repeat_interleave(128, 2)[..., :k]
    wide_w = w.double() * of_w.mT.repeat_interleave(128, 1)[:, :n].repeat_interleave(128, 2)[..., :k]
    return a, w, {"scale_a": of_a, "scale_b": of_w}, wide_a @ wide_w.mT


def masked(z, counts, fill=7.0):
    """z where rows count, else what was there."""
    rows = torch.arange(z.shape[1])
    return torch.where((rows < torch.tensor(counts)[:, None])[..., None], z, fill)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("k", "n", "fp8", "counts", "name"),
    [
        (64, 256, False, COUNTS, "swiglu"), (200, 256, True, COUNTS, None), (200, 256, True, COUNTS, "swiglu"),
        (50, 74, False, (150, -3, 999), "geglu"), (64, 136, False, (1, 128, 129), "relu"),
    ],
)  # fmt: skip
def test_rows_that_count(target, k, n, fp8, counts, name, monkeypatch):
    """Counts outside of the rows are clamped, as on a GPU, where nobody refuses them."""
    monkeypatch.setattr("pyptx.kernels._matmul.grouped_in_torch.check_ends", lambda *_: None)
    a, w, scales, z = groups(k, n, counts, fp8=fp8)
    b = w.mT if fp8 else w.mT.contiguous()
    wanted = masked(ACTIVATIONS[name](z), counts)
    out = torch.full(wanted.shape, 7.0).bfloat16()
    with kernels.simulated_target(target):
        got = kernels.grouped_matmul(
            a, b, counts=torch.tensor(counts, dtype=torch.int32), activation=name, out=out, **scales
        )
    assert got is out
    assert distance(got, wanted) < 5e-3
    assert (got[masked(torch.zeros_like(z), counts, 1.0)[..., : got.shape[-1]] == 1] == 7).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fp8", [False, True])
def test_gates_of_groups(target, fp8):
    a, w, scales, _ = groups(200, 384, fp8=fp8)
    ends, rows = [130, 130, 440], a.shape[0] * a.shape[1]
    flat = a.reshape(rows, -1)
    wide_a, wide_w = flat.double(), w.double()
    if fp8:
        scales["scale_a"] = scales["scale_a"].reshape(rows, -1)
        wide_a = wide_a * scales["scale_a"].repeat_interleave(128, 1)[:, :200]
        wide_w = wide_w * scales["scale_b"].mT.repeat_interleave(128, 1).repeat_interleave(128, 2)[..., :200]
    out, starts = torch.full((rows, 192), 7.0).bfloat16(), [0, *ends]
    wanted = out.double()
    for e, end in enumerate(ends):
        wanted[starts[e] : end] = ACTIVATIONS["swiglu"](wide_a[starts[e] : end] @ wide_w[e].mT)
    with kernels.simulated_target(target):
        kernels.grouped_matmul(
            flat, w.mT, torch.tensor(ends, dtype=torch.int32), activation="swiglu", out=out, **scales
        )
    assert distance(out, wanted) < 5e-3


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fp8", [False, True])
def test_nothing_is_reported(target, fp8):
    a, w, scales, _ = groups(264, 256, fp8=fp8)
    counts = torch.tensor(COUNTS, dtype=torch.int32)
    with (
        kernels.simulated_target(target),
        pyptx.simulator(check="all", seed=3, raises=False) as run,
    ):
        kernels.grouped_matmul(a, w.mT, counts=counts, activation="swiglu", **scales)
        kernels.matmul(half(136, 264), half(264, 272), activation="swiglu", bias=half(272))
    assert [str(report) for report in run.reports] == []


@pytest.mark.parametrize("name", [None, "swiglu"])
@pytest.mark.parametrize("by", ["counts", "offs"])
def test_gradients_of_groups(by, name):
    counts = torch.tensor(COUNTS, dtype=torch.int32)
    a, w, _, _ = groups(16, 32)
    given = [a.requires_grad_(), w.mT.contiguous().requires_grad_()]
    exact = [each.detach().double().requires_grad_() for each in given]
    if by == "counts":
        wanted = masked(ACTIVATIONS[name](exact[0] @ exact[1]), COUNTS, 0.0)
        y = kernels.grouped_matmul(*given, counts=counts, activation=name)
    else:
        ends, flat = [130, 130, 440], exact[0].reshape(450, 16)
        parts = [flat[:130] @ exact[1][0], flat[130:440] @ exact[1][2]]
        wanted = ACTIVATIONS[name](torch.cat([*parts, flat[440:] @ torch.zeros(16, 32).double()]))
        y = kernels.grouped_matmul(given[0].reshape(450, 16), given[1], torch.tensor(ends, dtype=torch.int32), activation=name)  # fmt: skip
    pull = torch.randn_like(y)
    pull = torch.where(wanted == 0, torch.nan, pull) if by == "counts" else pull
    mine = torch.autograd.grad(y, given, pull)
    for ours, expected in zip(mine, torch.autograd.grad(wanted, exact, pull.nan_to_num().double()), strict=True):
        assert distance(ours, expected) < 1e-2


def test_torch_traces_groups():
    a, w, _, z = groups(16, 32)
    counts = torch.tensor(COUNTS, dtype=torch.int32)
    wanted = masked(ACTIVATIONS["swiglu"](z), COUNTS)

    def call(a, counts):
        return kernels.grouped_matmul(a, w.mT, counts=counts, activation="swiglu")

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    made = compiled(a, counts)
    assert distance(masked(made.double(), COUNTS), wanted) < 5e-3
    torch.library.opcheck(torch.ops.pyptx.grouped_matmul, (a, w.mT, counts, None, None, True, "swiglu"))
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    given = [jax.numpy.asarray(each.float().numpy()).astype("bfloat16") for each in (a, w.mT.contiguous())]
    got = kernels.grouped_matmul(*given, counts=jax.numpy.asarray(counts.numpy()), activation="swiglu")
    assert distance(masked(torch.from_numpy(np.array(got.astype("float32"))).double(), COUNTS), wanted) < 5e-3


@pytest.mark.parametrize("target", [None, "sm_90a", "sm_100a"])
def test_rows_behind_the_last_group_of_jax(target):
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    jnp, rng = jax.numpy, np.random.default_rng(0)
    a, b = (jnp.asarray(rng.standard_normal(shape), "bfloat16") for shape in ((70, 64), (3, 64, 32)))
    with kernels.simulated_target(target) if target else contextlib.nullcontext():
        got = kernels.grouped_matmul(a, b, jnp.asarray([10, 10, 33], "int32"))
    wanted = jnp.concatenate([a[:10] @ b[0], a[10:33] @ b[2]])
    assert got.shape == (70, 32)
    assert (
        distance(*(torch.from_numpy(np.array(each.astype("float32"))).double() for each in (got[:33], wanted))) < 1e-2
    )


@pytest.mark.parametrize(("counted", "activation"), [(False, "swiglu"), (True, None)])
def test_gradients_of_jax(counted, activation):
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    jnp, rng = jax.numpy, np.random.default_rng(0)
    a = jnp.asarray(rng.standard_normal((3, 20, 16) if counted else (60, 16)), "bfloat16")
    b = jnp.asarray(rng.standard_normal((3, 16, 32)), "bfloat16")
    ends = jnp.asarray([20, 0, 7] if counted else [20, 20, 60], "int32")
    told = {"counts" if counted else "offs": ends, "activation": activation}
    own = (jnp.arange(20) < ends[:, None])[..., None] if counted else jnp.ones((60, 1), bool)

    def ours(a, b):
        return (jnp.where(own, kernels.grouped_matmul(a, b, **told), 0).astype("float32") ** 2).sum()

    def theirs(a, b):
        a, b = a.astype("float32"), b.astype("float32")
        z = jnp.einsum("erk,ekn->ern", a, b) if counted else jnp.concatenate([a[:20] @ b[0], a[20:] @ b[2]])
        if activation is not None:
            gate, up = jnp.split(z, 2, axis=-1)
            z = jax.nn.silu(gate) * up
        return (jnp.where(own, z, 0) ** 2).sum()

    got = jax.block_until_ready(jax.jit(jax.grad(ours, (0, 1)))(a, b))
    for one, other in zip(got, jax.grad(theirs, (0, 1))(a, b), strict=True):
        assert distance(*(torch.from_numpy(np.array(each.astype("float32"))).double() for each in (one, other))) < 1e-2


def test_autocast_of_groups():
    a, b, ends = torch.randn(10, 16), torch.randn(2, 16, 8), torch.tensor([3, 10], dtype=torch.int32)
    with torch.autocast("cpu", torch.bfloat16):
        made = kernels.grouped_matmul(a, b, ends)
    assert torch.equal(made, kernels.grouped_matmul(a.bfloat16(), b.bfloat16(), ends))


def test_nothing_to_multiply():
    a, w, _, _ = groups(16, 32)
    counts = torch.tensor(COUNTS, dtype=torch.int32)
    out = torch.full((3, 150, 32), 7.0).bfloat16()
    kernels.grouped_matmul(a[..., :0], w.mT[:, :0], counts=counts, out=out)
    assert torch.equal(out.double(), masked(torch.zeros(3, 150, 32).double(), COUNTS))
    assert kernels.grouped_matmul(a[:0], w[:0].mT, counts=counts[:0]).shape == (0, 150, 32)
    apart = torch.full((3, 150, 64), 7.0).bfloat16()
    kernels.grouped_matmul(a, w.mT, counts=counts, out=apart[..., ::2])
    assert (apart[..., 1::2] == 7).all()
    assert (apart[1] == 7).all()


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (LaunchTypeError, "give either offs, for a (T, K), or counts, for a (E, R, K)", lambda a, b, n: kernels.grouped_matmul(a, b)),
        (LaunchTypeError, "give either offs", lambda a, b, n: kernels.grouped_matmul(a, b, n, counts=n)),
        (LaunchTypeError, "counts is of int64; legal is int32", lambda a, b, n: kernels.grouped_matmul(a, b, counts=n.long())),
        (LaunchValueError, "are not (E, R, K), (E, K, N) and (E,)", lambda a, b, n: kernels.grouped_matmul(a[0], b, counts=n)),
        (LaunchValueError, "are not (E, R, K), (E, K, N) and (E,)", lambda a, b, n: kernels.grouped_matmul(a[:1], b, counts=n)),
        (LaunchValueError, "are not (T, K), (E, K, N) and (E,)", lambda a, b, n: kernels.grouped_matmul(a, b, n)),
        (LaunchValueError, "not 'tanh'", lambda a, b, n: kernels.grouped_matmul(a, b, counts=n, activation="tanh")),
        (LaunchValueError, "b has 7 columns; with activation 'swiglu' it has as many ups as gates", lambda a, b, n: kernels.grouped_matmul(a, b[..., :7], counts=n, activation="swiglu")),
        (LaunchValueError, "out is bfloat16 (2, 4, 7), not bfloat16 (2, 4, 8)", lambda a, b, n: kernels.grouped_matmul(a, b, counts=n, out=half(2, 4, 7))),
        (LaunchTypeError, "out= has no gradient", lambda a, b, n: kernels.grouped_matmul(a.requires_grad_(), b, counts=n, out=half(2, 4, 8))),
        (LaunchValueError, "b has 8 columns; with activation 'swiglu' it has a multiple of 128, because it has scales", lambda a, b, n: kernels.grouped_matmul(a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), counts=n, activation="swiglu", scale_a=torch.ones(2, 4, 1), scale_b=torch.ones(2, 1, 1))),
        (LaunchValueError, "bias has shape (4,), not (8,)", lambda a, b, n: kernels.matmul(a[0], b[0], activation="swiglu", bias=half(4))),
        (LaunchValueError, "residual has shape (4, 8), not (4, 4)", lambda a, b, n: kernels.matmul(a[0], b[0], activation="swiglu", residual=half(4, 8))),
        (LaunchValueError, "b has 7 columns", lambda a, b, n: kernels.matmul(a[0], b[0, :, :7], activation="geglu")),
        (ValueError, "no kernels are written for 'sm_91'", lambda a, b, n: kernels.simulated_target("sm_91").__enter__()),
    ],
)  # fmt: skip
def test_what_does_not_fit(error, message, call):
    with pytest.raises(error) as raised:
        call(half(2, 4, 8), half(2, 8, 8), torch.tensor([1, 2], dtype=torch.int32))
    assert message in str(raised.value)


def test_cuts_that_do_not_fit():
    for config in (Config(128, 64), Config(128, 128, cm=2)):
        with pytest.raises(ValueError, match="gates and ups want no clusters along M, and a multiple of 128 columns"):
            product_kernel(config, bf16, epilogue=Epilogue(activation="swiglu"))
    product_kernel(Config(128, 64), bf16, out=f32, epilogue=Epilogue(activation="swiglu"))
    with pytest.raises(ValueError, match="a multiple of 128 columns"):
        product_kernel(Config(128, 64), bf16, True, False, f32, epilogue=Epilogue(activation="swiglu"))


@needs_ptxas
@pytest.mark.parametrize(("m", "out"), [(4096, bf16), (64, bf16), (4096, f32)])
def test_gates_assemble(m, out):
    gates, sizes = Epilogue(bf16, "swiglu"), {"M": m, "N": 4096, "K": 4096}
    c = tile_of(Sizes(m, 4096, 64, bits=out.bits, gated=True))
    made = [product_kernel(c, bf16, out=out, epilogue=gates).resources(**sizes)]
    if out == bf16:
        scaled = Epilogue(activation="swiglu", scales="block")
        kernel = product_kernel(c, bf16, epilogue=Epilogue(activation="swiglu"), grouped=True, masked=True)
        made.append(kernel.resources(**sizes, E=8))
        kernel = product_kernel(BLOCKS, e4m3, epilogue=scaled, grouped=True, masked=True)
        made.append(kernel.resources(**sizes, E=8, KB=32, NB=64))
    assert all(found.spill_stores == 0 and found.dynamic_shared <= 232448 for found in made)
