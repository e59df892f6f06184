"""Rotary position embedding against float64: on the simulator, and on a GPU where there is one."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402

TYPES = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")])  # fmt: skip
devices = pytest.mark.parametrize("device", ["cpu", GPU])
SHAPES = [
    (-2, (2, 3, 10, 64)),
    (-3, (2, 10, 3, 64)),
    (-2, (10, 128)),
    (-3, (5, 2, 30)),
    (-2, (1, 7, 9, 7)),
    (-2, (3, 100, 16)),
]


def turned(x, cos, sin, positions, interleaved, seq_dim):
    """In float64, by the formula."""
    lines = slice(x.shape[seq_dim]) if positions is None else positions.long()
    c, s = cos.double()[lines], sin.double()[lines]
    c, s = (c.unsqueeze(-2), s.unsqueeze(-2)) if seq_dim == -3 else (c, s)
    while positions is not None and positions.dim() == 2 and c.dim() < x.dim():
        c, s = c.unsqueeze(1), s.unsqueeze(1)
    half = cos.shape[1]
    a, b = (
        (x[..., : 2 * half : 2], x[..., 1 : 2 * half : 2]) if interleaved else (x[..., :half], x[..., half : 2 * half])
    )
    pairs = a * c - b * s, b * c + a * s
    y = torch.stack(pairs, -1).flatten(-2) if interleaved else torch.cat(pairs, -1)
    return torch.cat([y, x[..., 2 * half :]], -1)


def distance(got, wanted) -> float:
    return float((got.detach().double() - wanted.detach()).norm() / wanted.detach().norm())


def tables(lines: int, half: int, dtype=torch.float32, device="cpu"):
    angles = torch.rand(lines, half, generator=torch.Generator().manual_seed(half)).to(device) * 6
    return angles.cos().to(dtype), angles.sin().to(dtype)


@devices
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("seq_dim", "shape"), SHAPES)
def test_against_float64(seq_dim, shape, interleaved, dtype, device):
    generator = torch.Generator().manual_seed(sum(shape))
    places, columns = shape[seq_dim], shape[-1]
    choices = [None, torch.randint(0, places + 5, (places,), generator=generator)]
    if len(shape) > -seq_dim:
        choices.append(torch.randint(0, places + 5, (shape[0], places), generator=generator, dtype=torch.int32))
    for half in {columns // 2, max(1, columns // 4)}:
        for table_type in {torch.float32, dtype}:
            cos, sin = tables(places + 5, half, table_type, device)
            for positions in choices:
                positions = None if positions is None else positions.to(device)
                x, pull = (torch.randn(shape, generator=generator).to(device, dtype) for _ in range(2))
                x, exact = x.requires_grad_(), x.detach().double().requires_grad_()
                y = kernels.rope(x, cos, sin, positions=positions, interleaved=interleaved, seq_dim=seq_dim)
                wanted = turned(exact, cos, sin, positions, interleaved, seq_dim)
                assert y.shape == wanted.shape and distance(y, wanted) < TYPES[dtype]
                (ours,), (theirs,) = torch.autograd.grad(y, x, pull), torch.autograd.grad(wanted, exact, pull.double())
                assert distance(ours, theirs) < TYPES[dtype]


@devices
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize(("columns", "half"), [(80, 16), (24, 4), (88, 32), (10, 3)])
def test_the_elements_behind_are_copied(columns, half, dtype, device):
    """Also what is infinite and NaN."""
    x = torch.randn(2, 3, 5, columns, device=device).to(dtype)
    x[..., 2 * half :] = (
        torch.tensor([math.inf, -math.inf, math.nan, -0.0], device=device)
        .to(dtype)
        .repeat(columns)[: columns - 2 * half]
    )
    for interleaved in (False, True):
        y = kernels.rope(x, *tables(5, half, device=device), interleaved=interleaved)
        torch.testing.assert_close(y[..., 2 * half :], x[..., 2 * half :], rtol=0, atol=0, equal_nan=True)
        assert y[..., : 2 * half].isfinite().all()


@devices
def test_out_and_nothing(device):
    cos, sin = tables(20, 32, device=device)
    x = torch.randn(2, 3, 6, 64, device=device)
    out = torch.empty_like(x)
    assert kernels.rope(x, cos, sin, out=out) is out
    assert torch.equal(out, kernels.rope(x, cos, sin))
    assert kernels.rope(x[:, :, :0], cos, sin).shape == (2, 3, 0, 64)
    none = torch.zeros(2, 0, dtype=torch.int64, device=device)
    assert kernels.rope(x[:, :, :0], cos, sin, positions=none).shape == (2, 3, 0, 64)


@devices
def test_compiled_and_vmapped(device):
    torch.compiler.reset()
    cos, sin = tables(20, 32, device=device)
    compiled = torch.compile(kernels.rope, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    for places in (4, 5, 6):
        x = torch.randn(2, 3, places, 64, device=device)
        positions = torch.randint(0, 20, (2, places), device=device)
        assert torch.equal(compiled(x, cos, sin), kernels.rope(x, cos, sin))
        assert torch.equal(compiled(x, cos, sin, positions=positions), kernels.rope(x, cos, sin, positions=positions))
    x = torch.randn(4, 2, 3, 5, 64, device=device)
    assert torch.equal(torch.vmap(lambda x: kernels.rope(x, cos, sin))(x), kernels.rope(x, cos, sin))


def test_of_jax_and_numpy():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    cos, sin = (table.numpy() for table in tables(20, 32))
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 64), dtype=np.float32)
    wanted = kernels.rope(x, cos, sin)
    assert isinstance(wanted, np.ndarray)
    given = [jax.numpy.asarray(each) for each in (x, cos, sin)]
    np.testing.assert_array_equal(kernels.rope(*given), wanted)
    gradient = jax.jit(jax.grad(lambda x: (kernels.rope(x, *given[1:]) ** 2).sum() / 2))(given[0])
    np.testing.assert_allclose(gradient, x, rtol=1e-5, atol=1e-5)  # turned there and back


def test_refusals():
    x, (cos, sin) = torch.randn(4, 5, 64), tables(20, 32)
    for given, options, wanted in (
        ((x, cos, sin), {"seq_dim": 0}, r"seq_dim is -2 of \(..., S, D\) or -3"),
        ((x, cos, sin), {"positions": torch.zeros(3, dtype=torch.int64)}, r"legal are \(5,\), \(1, 5\), \(4, 5\)"),
        ((x, cos[:3], sin[:3]), {}, "have 3 lines for 5 positions"),
        ((x, cos, sin[:3]), {}, r"have one shape \(L, R / 2\) with R up to 64, not"),
        ((x, *tables(20, 64)), {}, "with R up to 64, not"),
        ((torch.randn(3, 2000), cos, sin), {}, "heads have at most 1024 elements, not 2000"),
    ):
        with pytest.raises(LaunchValueError, match=wanted):
            kernels.rope(*given, **options)
    with pytest.raises(LaunchTypeError, match="`x` is of float64"):
        kernels.rope(x.double(), cos, sin)
    with pytest.raises(LaunchTypeError, match="cos and sin get no gradient"):
        kernels.rope(x, cos.requires_grad_(), sin)


@devices
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("interleaved", [False, True])
def test_a_position_outside_the_tables_is_nan(index, interleaved, device):
    places = [0, -1, 4, 5, -(2**31)] if index is torch.int32 else [0, -1, 2**32 + 1, 5, -(2**63)]
    positions = torch.tensor(places, dtype=index, device=device)
    for dtype in TYPES:
        x = torch.randn(2, 5, 18, device=device).to(dtype)
        y = kernels.rope(x, *tables(5, 8, dtype, device), positions=positions, interleaved=interleaved)
        wrong = [not 0 <= place < 5 for place in places]
        assert torch.equal(y[..., :16].isnan(), torch.tensor(wrong, device=device)[:, None].expand(2, 5, 16))
        assert torch.equal(y[..., 16:], x[..., 16:])


@pytest.mark.parametrize("array", [lambda x: x, lambda x: x.numpy()], ids=["torch", "numpy"])
@pytest.mark.parametrize("seq_dim", [-2, -3])
def test_positions_of_one_sequence(array, seq_dim):
    """x without a batch takes (S,) and (1, S), and has no sequences with positions of their own."""
    x, at = torch.randn(*((5, 16) if seq_dim == -2 else (5, 3, 16))), torch.tensor([3, 0, 6, 2, 1])
    x, cos, sin, at = map(array, (x, *tables(7, 8, torch.float32, "cpu"), at))
    wanted = kernels.rope(x, cos, sin, positions=at, seq_dim=seq_dim)
    assert (kernels.rope(x, cos, sin, positions=at[None], seq_dim=seq_dim) == wanted).all()
    with pytest.raises(LaunchValueError, match=r"legal are \(5,\), \(1, 5\)$"):
        kernels.rope(x, cos, sin, positions=array(torch.zeros(5, 5, dtype=torch.int64)), seq_dim=seq_dim)


def test_positions_of_all_sequences():
    """(1, S), as transformers pass them."""
    x, at = torch.randn(3, 2, 5, 16), torch.tensor([[4, 0, 7, 1, 1]])
    cos, sin = tables(8, 8)
    wanted = kernels.rope(x, cos, sin, positions=at[0])
    assert torch.equal(kernels.rope(x, cos, sin, positions=at), wanted)
    assert torch.equal(kernels.rope(x, cos, sin, positions=at.expand(3, 5)), wanted)
    heads_inside = kernels.rope(x.transpose(1, 2), cos, sin, positions=at, seq_dim=-3)
    assert torch.equal(heads_inside.transpose(1, 2), wanted)
    one = torch.vmap(lambda x, at: kernels.rope(x, cos, sin, positions=at))(x, at.expand(3, 1, 5))
    assert torch.equal(one, wanted)
