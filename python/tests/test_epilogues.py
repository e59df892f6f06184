"""Epilogues of products on Hopper, on the simulator: activations over all of f32, and tiles whose epilogue runs beside the next one's products."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import torch.nn.functional as F  # noqa: E402

import pyptx  # noqa: E402
from pyptx import Tile, kernel, ptx, reg  # noqa: E402
from pyptx.kernels._activations import activated  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul import hopper  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import Config  # noqa: E402
from pyptx.types import bf16, e4m3, f16, f32, u32  # noqa: E402

DTYPES = {bf16: torch.bfloat16, f16: torch.float16, f32: torch.float32, e4m3: torch.float8_e4m3fn}
ACTIVATIONS = {"relu": torch.relu, "gelu": F.gelu, "silu": F.silu}


def alone(name: str, dtype):
    """A kernel of the activation of each element, as it is before it is rounded."""

    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=lambda N: N // 128, block=128, arch="sm_90a")
    def each(X, Y):
        x, y = ptx.global_ptrs(X, Y)
        at, value = (
            (reg.from_(ptx.sreg("%ctaid.x"), u32) * 128 + reg.from_(ptx.sreg("%tid.x"), u32)) * 4,
            reg.scalar(f32),
        )
        ptx.inst.ld.global_.f32(value, ptx.addr(x + at))
        ptx.inst.st.global_.f32(ptx.addr(y + at), activated(name, [value], dtype)[0])
        ptx.ret()

    return each


@pytest.mark.parametrize("dtype", [bf16, f16, f32], ids=str)
@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_errors_of_activations(name, dtype):
    x = torch.cat(
        [
            torch.linspace(-5, 5, 20480),
            torch.linspace(-100, 100, 4096),
            torch.logspace(-30, 30, 1024),
            -torch.logspace(-30, 30, 1024),
        ]
    )
    wanted = x.double() * torch.special.ndtr(x.double()) if name == "gelu" else F.silu(x.double())
    error = (alone(name, dtype)(x).double() - wanted).abs()
    if dtype == f32:
        assert (error <= 3e-7 * x.double().abs()).all()
        return
    legal = {bf16: 3.1e-4, f16: 6e-5}[dtype] * wanted.abs() + 1e-30
    if name == "gelu":
        legal[x < -5] = 1e-6
    assert (error <= legal).all()


@pytest.mark.parametrize("dtype", [bf16, f16, f32], ids=str)
@pytest.mark.parametrize("name", ["relu", "gelu", "silu"])
def test_activations_of_what_is_no_number(name, dtype):
    x = torch.zeros(128)
    x[:4] = torch.tensor([float("inf"), float("-inf"), float("nan"), -3e38])
    y = alone(name, dtype)(x).to(DTYPES[dtype])
    assert y[0] == float("inf") and y[1] == 0 and y[2].isnan() and y[3] == 0 and (y[4:] == 0).all()


def product(monkeypatch, c: Config, shape, epilogue: Epilogue, dtype=bf16, out=bf16, batch=()):
    """The error of a product by one cluster, which has all tiles, with every check of the simulator."""
    monkeypatch.setitem(hopper.CLUSTERS, c.ctas, 1)
    m, n, k = shape
    columns = 2 * n if epilogue.gated else n
    kernel_ = product_kernel.__wrapped__(c, dtype, True, True, out, bool(batch), epilogue)
    a, b = torch.randn(*batch, m, k).to(DTYPES[dtype]), torch.randn(*batch, columns, k).to(DTYPES[dtype])
    z, more = a.double() @ b.double().mT, []
    halves = (2, n) if epilogue.gated else (n,)
    if epilogue.scales == "row":
        of_rows, of_columns = torch.rand(*batch, m) + 0.5, torch.rand(*batch, columns) + 0.5
        z, more = z * of_rows[..., None] * of_columns[..., None, :], [of_rows, of_columns.view(*batch, *halves)]
    if epilogue.bias:
        bias = torch.randn(columns).to(DTYPES[epilogue.bias])
        z, more = z + bias.double(), [*more, bias.view(halves)]
    if epilogue.gated:
        z = ACTIVATIONS["silu"](z[..., :n]) * z[..., n:]
    elif epilogue.activation:
        z = ACTIVATIONS[epilogue.activation](z)
    if epilogue.residual:
        residual = torch.randn(*batch, m, n).to(DTYPES[epilogue.residual])
        z, more = z + residual.double(), [*more, residual]
    with pyptx.simulator(check="all"):
        got = kernel_(a, b.view(*batch, *halves, k), *more)
    return float((got.double() - z).norm() / z.norm())


CONFIGS = [
    Config(128, 256, 4), Config(128, 192, 4), Config(128, 128, 6), Config(128, 80, 3), Config(128, 112, 3), Config(64, 256, 4, 1), Config(64, 64, 2, 1),
    Config(192, 192, 3, 3), Config(64, 64, 3, 1, cm=2), Config(128, 64, 3, cn=2), Config(256, 64, 3), Config(128, 128, 4, overlap=False),
    Config(64, 64, 2, 1, inside=True), Config(128, 80, 3, inside=True), Config(128, 256, 4, beside=2), Config(128, 256, 4, beside=0), Config(128, 192, 4, beside=0),
]  # fmt: skip


@pytest.mark.parametrize("steps", [1, 3, 9])
@pytest.mark.parametrize("c", CONFIGS, ids=str)
def test_everything_over_many_tiles(c, steps, monkeypatch):
    """A tile's last parts are finished beside the next one's first steps, of which there may be fewer than parts, or than stages."""
    shape = 2 * c.bm * c.cm + 8, 2 * c.bn * c.cn + 24, 64 * steps - 8
    assert product(monkeypatch, c, shape, Epilogue(bf16, "gelu", bf16)) < 4e-3


@pytest.mark.parametrize("c", [Config(128, 256, 4), Config(128, 128, 4), Config(64, 128, 3, 1)], ids=str)
@pytest.mark.parametrize(
    "epilogue",
    [
        Epilogue(f32), Epilogue(f16, "silu", f16), Epilogue(None, "relu"), Epilogue(None, None, f32), Epilogue(bf16, "swiglu", bf16), Epilogue(bf16, "swiglu"),
    ],
    ids=str,
)  # fmt: skip
def test_every_epilogue_of_a_batch(c, epilogue, monkeypatch):
    shape = (c.bm + 8, c.bn + 8, 328)
    assert product(monkeypatch, c, shape, epilogue, batch=(3,)) < 4e-3
    assert product(monkeypatch, c, shape, epilogue, out=f32, batch=(2,)) < 1e-3


@pytest.mark.parametrize("c", [Config(128, 256, 4), Config(128, 128, 4)], ids=str)
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_scales_of_rows(c, activation, monkeypatch):
    """Of 256 columns, there is no room for their scales beside their biases."""
    shape = 2 * c.bm + 8, 2 * c.bn + 32, 656
    assert product(monkeypatch, c, shape, Epilogue(f32, activation, bf16, "row"), e4m3) < 4e-3
    assert product(monkeypatch, c, shape, Epilogue(None, activation, None, "row"), e4m3, batch=(2,)) < 4e-3


@pytest.mark.parametrize("beside", [0, 2])
def test_c_takes_the_place_of_the_residual(beside, monkeypatch):
    """A part of the residual has been read before C is stored there."""
    monkeypatch.setitem(hopper.CLUSTERS, 1, 2)
    c = Config(128, 256, 4, beside=beside)
    kernel_ = product_kernel.__wrapped__(c, bf16, epilogue=Epilogue(None, "silu", bf16))
    a, b, residual = (torch.randn(*shape).bfloat16() for shape in ((384, 328), (768, 328), (384, 768)))
    wanted = F.silu(a.double() @ b.double().mT) + residual.double()
    with pyptx.simulator(check="all"):
        kernel_(a, b, residual, out=residual)
    assert float((residual.double() - wanted).norm() / wanted.norm()) < 4e-3
