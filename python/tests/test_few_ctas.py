"""Persistent kernels as on a GPU of one multiprocessor, or two: each CTA takes three tiles or more, so that its rings and its barriers are used
again, the stages are no divisor of the steps, and the last tiles end behind the matrix.  All checks are on; float64 is the reference.

On the simulator the kernels would have as many CTAs as an H200, one for each tile of so small a tensor.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from test_attention import agrees, reference  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul import blackwell, hopper, scaled, stream  # noqa: E402
from pyptx.kernels._matmul.blackwell import PAIR, blackwell_kernel  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.stream import StreamConfig, stream_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import Config  # noqa: E402
from pyptx.kernels._row_function import FUNCTIONS  # noqa: E402
from pyptx.kernels.column_sums import column_sums  # noqa: E402
from pyptx.types import bf16, e4m3, f32, s8, s32  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def clean():
    torch.manual_seed(0)
    with pyptx.simulator(check="all", raises=False, schedule="synchronisation", seed=1) as run:
        yield
    assert [str(report) for report in run.reports] == []


def half(*shape):
    return torch.randn(shape).bfloat16()


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


def distance(got, wanted) -> float:
    return float((got.detach().double() - wanted).norm() / wanted.norm().clamp_min(1e-9))


def hopper_kernel(monkeypatch, c: Config, clusters: int, *args, **more):
    monkeypatch.setitem(hopper.CLUSTERS, c.ctas, clusters)
    return product_kernel.__wrapped__(c, *args, **more)


def turns(c: Config, kernel, m: int, n: int, *batch: int) -> float:
    """Tiles of the CTA that has most of them, at least."""
    rows, columns = (n, m) if c.turned else (m, n)
    tiles = -(-rows // (c.bm * c.cm)) * -(-columns // (c.bn * c.cn)) * (batch[0] if batch else 1)
    return tiles / (kernel.grid(m, n, *batch)[0] / c.ctas)


CONFIGS = [
    Config(64, 64, 3, 1), Config(64, 64, 3, 1, ahead=2), Config(64, 64, 2, 1, swing=False), Config(128, 96, 3), Config(128, 64, 3, overlap=False), Config(256, 64, 3),
    Config(192, 64, 3, 3), Config(64, 64, 3, 1, cm=2), Config(64, 64, 3, 1, cn=2), Config(64, 64, 3, 1, cm=2, cn=2), Config(128, 64, 3, cm=2),
    Config(64, 64, 3, 1, turned=True), Config(64, 48, 3, 1, cn=2, turned=True), Config(64, 64, 3, 1, cm=4, turned=True),
    Config(64, 64, 3, 1, inside=True), Config(64, 64, 3, 1, cm=2, inside=True), Config(128, 80, 3, turned=True, inside=True),
]  # fmt: skip


@pytest.mark.parametrize("k", [8, 264])  # one step, and five: of two or three stages
@pytest.mark.parametrize("c", CONFIGS, ids=str)
def test_products(c, k, monkeypatch):
    rows, columns = c.bm * c.cm, c.bn * c.cn
    m, n = 2 * rows + 8, 2 * columns + 24
    m, n = (n, m) if c.turned else (m, n)
    kernel = hopper_kernel(monkeypatch, c, 1, bf16)
    assert turns(c, kernel, m, n) >= 9
    a, b = half(m, k), half(n, k)
    assert distance(kernel(a, b), a.double() @ b.double().mT) < 5e-3


@pytest.mark.parametrize("clusters", [1, 2])
@pytest.mark.parametrize("majors", [*itertools.product((True, False), repeat=2)], ids=str)
def test_products_of_a_batch_with_an_epilogue(majors, clusters, monkeypatch):
    c, (m, n, k) = Config(64, 64, 3, 1), (72, 88, 200)
    kernel = hopper_kernel(monkeypatch, c, clusters, bf16, *majors, batched=True, epilogue=Epilogue(f32, "silu", bf16))
    assert turns(c, kernel, m, n, 3) >= 3
    a, b, bias, residual = half(3, m, k), half(3, k, n), torch.randn(n), half(3, m, n)
    stored = a if majors[0] else a.mT.contiguous(), b.mT.contiguous() if majors[1] else b
    wanted = F.silu(a.double() @ b.double() + bias.double()) + residual.double()
    assert distance(kernel(*stored, bias, residual), wanted) < 5e-3


def test_products_to_float32_of_tf32_and_of_int8(monkeypatch):
    c, a, b = Config(64, 64, 3, 1), torch.randn(200, 168), torch.randn(136, 168)
    assert distance(hopper_kernel(monkeypatch, c, 2, f32, out=f32)(a, b), a.double() @ b.double().mT) < 2e-3
    a, b = a.bfloat16(), b.bfloat16()
    assert distance(hopper_kernel(monkeypatch, c, 2, bf16, out=f32)(a, b), a.double() @ b.double().mT) < 1e-6
    a, b = (torch.randint(-128, 128, (rows, 656), dtype=torch.int8) for rows in (200, 136))
    assert torch.equal(hopper_kernel(monkeypatch, c, 2, s8, out=s32)(a, b), (a.long() @ b.long().mT).int())


@pytest.mark.parametrize("c", [Config(64, 128, 3, 1), Config(128, 128, 3, overlap=False)], ids=str)
def test_gated_products(c, monkeypatch):
    m, n, k = 2 * c.bm + 8, 136, 264
    kernel = hopper_kernel(monkeypatch, c, 1, bf16, epilogue=Epilogue(activation="swiglu"))
    assert -(-m // c.bm) * -(-n // (c.bn // 2)) / kernel.grid(m, n)[0] >= 9
    x, w = half(m, k), half(2 * n, k)
    gate, up = (x.double() @ w.double().mT).chunk(2, -1)
    assert distance(kernel(x, w.view(2, n, k)), F.silu(gate) * up) < 5e-3


def groups_of(a, b, ends):
    """The products of rows that belong together; other rows are as they were, of 7."""
    wanted, start = torch.full((len(a), b.shape[1]), 7.0, dtype=torch.float64), 0
    for e, end in enumerate(ends):
        wanted[start:end], start = a[start:end].double() @ b[e].double().mT, end
    return wanted


@pytest.mark.parametrize("c", [Config(64, 64, 3, 1), Config(64, 64, 3, 1, cn=2), Config(128, 64, 3, overlap=False), Config(128, 64, 3), Config(128, 64, 3, cn=2)], ids=str)  # fmt: skip
def test_groups(c, monkeypatch):
    """Empty ones, one of a row, one of several tiles of each CTA, and a masked form."""
    a, b, ends = half(600, 200), half(5, 136, 200), (0, 1, 300, 300, 557)
    kernel = hopper_kernel(monkeypatch, c, 2, bf16, grouped=True)
    assert kernel.grid == 2 * c.ctas
    got = kernel(a, b, numbers(*ends), out=torch.full((600, 136), 7.0).bfloat16())
    assert distance(got, groups_of(a, b, ends)) < 5e-3
    counts = (0, 1, 120, 64, 77)
    masked = hopper_kernel(monkeypatch, c, 2, bf16, grouped=True, masked=True)
    got = masked(a, b, numbers(*counts), out=torch.full((600, 136), 7.0).bfloat16()).view(5, 120, 136)
    for e, count in enumerate(counts):
        assert bool((got[e, count:] == 7).all())
        wanted = a.view(5, 120, 200)[e, :count].double() @ b[e].double().mT
        assert count == 0 or distance(got[e, :count], wanted) < 5e-3


def blocks_of(rows: int, k: int, size: int, *lead: int):
    """(e4m3, its scales (..., K / 128, rows / size), what both are in float64)."""
    data, factors = torch.randn(*lead, rows, k).to(torch.float8_e4m3fn), torch.rand(*lead, -(-k // 128), -(-rows // size)) + 0.5  # fmt: skip
    wide = factors.mT.double().repeat_interleave(128, -1).repeat_interleave(size, -2)
    return data, factors, data.double() * wide[..., :rows, :k]


@pytest.mark.parametrize("c", [
    Config(128, 128, 3, swing=False), Config(128, 128, 3, cn=2, swing=False), Config(128, 160, 3, swing=False), Config(128, 192, 3, cn=2),
    Config(128, 256, 3), Config(128, 256, 2, group=2, swing=False),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("k", [64, 208, 272, 528])
def test_products_with_scales_of_blocks(c, k, monkeypatch):
    (a, one, wide), (b, two, columns) = blocks_of(264, k, 1), blocks_of(2 * c.bn * c.cn + 24, k, 128)
    kernel = hopper_kernel(monkeypatch, c, 1, e4m3, epilogue=Epilogue(scales="block"))
    assert turns(c, kernel, len(a), len(b)) >= 9
    assert distance(kernel(a, b, one, two), wide @ columns.mT) < 5e-3


@pytest.mark.parametrize("k", [64, 208, 528])
@pytest.mark.parametrize(("c", "finished"), [(Config(128, 128, 3, swing=False), False), (Config(128, 128, 3, swing=False), True), (Config(128, 256, 3), True)], ids=str)  # fmt: skip
def test_finished_products_with_scales_of_blocks(c, finished, k, monkeypatch):
    """With a bias and a residual, or with gates."""
    m, n = 264, 280 if finished else 192
    (a, one, wide), (b, two, columns) = blocks_of(m, k, 1), blocks_of(n if finished else 2 * n, k, 128)
    more = {"bias": bf16, "residual": bf16} if finished else {"activation": "swiglu"}
    kernel = hopper_kernel(monkeypatch, c, 1, e4m3, epilogue=Epilogue(scales="block", **more))
    if finished:
        bias, residual = half(n), half(m, n)
        got, wanted = kernel(a, b, one, two, bias, residual), wide @ columns.mT + bias.double() + residual.double()
    else:
        gate, up = (wide @ columns.mT).chunk(2, -1)
        got, wanted = kernel(a, b.view(2, n, k), one, two), F.silu(gate) * up
    assert distance(got, wanted) < 5e-3


@pytest.mark.parametrize("c", [
    Config(128, 128, 3, swing=False), Config(128, 128, 3, cn=2, swing=False), Config(128, 192, 3, swing=False), Config(128, 256, 3),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("masked", [False, True])
def test_groups_with_scales_of_blocks(masked, c, monkeypatch):
    (a, one, wide), (b, two, columns) = blocks_of(900, 272, 1), blocks_of(256, 272, 128, 3)
    told = (0, 300, 50) if masked else (0, 333, 860)
    kernel = hopper_kernel(monkeypatch, c, 1, e4m3, epilogue=Epilogue(scales="block"), grouped=True, masked=masked)
    got = kernel(a, b, one, two, numbers(*told), out=torch.full((900, 256), 7.0).bfloat16())
    for e, end in enumerate(told):
        start = 300 * e if masked else (0, *told)[e]
        end += start if masked else 0
        assert start == end or distance(got[start:end], wide[start:end] @ columns[e].mT) < 5e-3
    assert bool((got[650 if masked else 860 :] == 7).all())


@pytest.mark.parametrize("c", [Config(64, 64, 3, 1, swing=False), Config(64, 64, 3, 1, overlap=False, swing=False), Config(128, 96, 3, swing=False)], ids=str)  # fmt: skip
def test_groups_of_lines(c, monkeypatch):
    kernel = hopper_kernel(monkeypatch, c, 1, bf16, False, False, parted=True)
    a, b, ends = half(400, 136), half(400, 200), (0, 1, 230, 230, 390)
    got, start = kernel(a, b, numbers(*ends)), 0
    for each, end in zip(got, ends, strict=True):
        wanted = a[start:end].double().mT @ b[start:end].double()
        assert distance(each, wanted) < 5e-3 if end > start else not each.any()
        start = end


@pytest.mark.parametrize("c", [StreamConfig(16, 1, 64, 3), StreamConfig(16, 1, 64, 3, ahead=2), StreamConfig(24, 1, 128, 2), StreamConfig(32, 1, 64, 3, 2), StreamConfig(8, 1, 64, 3, resident=2)], ids=str)  # fmt: skip
@pytest.mark.parametrize("k", [8, 264])
@pytest.mark.parametrize("k_major", [True, False])
def test_streams(c, k, k_major, monkeypatch):
    monkeypatch.setitem(stream.CLUSTERS, c.share, 1)
    m, n = c.rows - 3, 9 * c.bn * c.share - (21 if k_major else 24)
    kernel = stream_kernel.__wrapped__(c, bf16, k_major, bf16, Epilogue(bf16, "relu", bf16), whole=not k_major)
    assert kernel.grid(n)[0] == c.share * c.resident
    a, b, bias, residual = half(m, k), half(k, n), half(n), half(m, n)
    got = kernel(a, b.mT.contiguous() if k_major else b, bias, residual)
    assert distance(got, F.relu(a.double() @ b.double() + bias.double()) + residual.double()) < 5e-3


@pytest.mark.parametrize("c", [StreamConfig(16, 1, 64, 3), StreamConfig(24, 1, 128, 2, deep=2), StreamConfig(32, 1, 64, 3, 2)], ids=str)  # fmt: skip
@pytest.mark.parametrize("k", [8, 264])
def test_streams_of_f32_by_columns_and_of_int8(c, k, monkeypatch):
    monkeypatch.setitem(stream.CLUSTERS, c.share, 1)
    m, n = c.rows - 3, 9 * c.bn * c.share - 24
    a, b = torch.randn(m, k), torch.randn(k, n)
    kernel = stream_kernel.__wrapped__(c, f32, False, f32)
    assert kernel.grid(n)[0] == c.share and distance(kernel(a, b), a.double() @ b.double()) < 2e-3
    a, b = (torch.randint(-128, 128, (rows, 2 * k), dtype=torch.int8) for rows in (m, n))
    assert torch.equal(stream_kernel.__wrapped__(c, s8, out=s32)(a, b), (a.long() @ b.long().mT).int())


@pytest.mark.parametrize("pair", [False, True])
def test_blackwell(pair, monkeypatch):
    c = PAIR if pair else blackwell.SINGLE
    monkeypatch.setattr(blackwell, "MULTIPROCESSORS", c.ctas)
    made = blackwell_kernel.__wrapped__
    m, n, k = 2 * c.bm * c.cm + 8, 2 * c.bn + 24, 200
    a, b, bias = half(m, k), half(n, k), half(n)
    kernel = made(c, bf16, epilogue=Epilogue(bf16, "relu"))
    assert kernel.grid(m, n)[0] == c.ctas
    assert distance(kernel(a, b, bias), F.relu(a.double() @ b.double().mT + bias.double())) < 5e-3
    w = half(2 * c.bn + 48, k)
    gate, up = (a.double() @ w.double().mT).chunk(2, -1)
    kernel = made(c, bf16, epilogue=Epilogue(activation="swiglu"))
    assert distance(kernel(a, w.view(2, -1, k)), F.silu(gate) * up) < 5e-3


def test_blackwell_with_factors(monkeypatch):
    """mxfp8: one CTA, nine tiles, five steps."""
    monkeypatch.setattr(scaled, "MULTIPROCESSORS", 1)
    monkeypatch.setattr(scaled, "scaled_kernel", functools.cache(scaled.scaled_kernel.__wrapped__))
    m, n, k = 264, 2 * scaled.CUT.bn + 24, 576
    a, b = (torch.randn(rows, k).to(torch.float8_e4m3fn) for rows in (m, n))
    one, two = (torch.randint(120, 135, (rows, k // 32), dtype=torch.uint8) for rows in (m, n))
    wide = [
        each.double() * torch.exp2(codes.double() - 127).repeat_interleave(32, 1)
        for each, codes in ((a, one), (b, two))
    ]
    one, two = (each.view(torch.float8_e8m0fnu) for each in (one, two))
    with kernels.simulated_target("sm_100a"):
        got = kernels.matmul(a, b.mT, scale_a=one, scale_b=two.mT)
    assert distance(got, wide[0] @ wide[1].mT) < 5e-3


ATTENTION = sys.modules["pyptx.kernels.attention"]
CHOICE, PARTS = (sys.modules[f"pyptx.kernels._attention.{name}"] for name in ("choice", "parts"))


@pytest.fixture
def few(monkeypatch):
    """So many CTAs of each kernel of attention that is persistent: the function to set it, and the kernels that were made so."""

    def chosen(ctas: int) -> list:
        made = []

        def maker(make, dtype, cut, *more):
            made.append(dataclasses.replace(cut, ctas=ctas))
            return make(dtype, made[-1], *more)

        for name in ("forward_kernel", "fp8_kernel"):
            monkeypatch.setattr(CHOICE, name, functools.partial(maker, getattr(CHOICE, name)))
        for name in ("forward_of", "choose", "masked", "e4m3_of"):
            monkeypatch.setattr(CHOICE, name, functools.cache(getattr(CHOICE, name).__wrapped__))
        monkeypatch.setattr(ATTENTION, "share_keys", lambda *_: (False, False))
        monkeypatch.setattr(ATTENTION, "_planned_once", ATTENTION._planned)
        return made

    return chosen


def attend(*shapes, dtype=torch.bfloat16, **told):
    """The result and the sums, and those of float64."""
    tensors = [torch.randn(shape).to(dtype) for shape in shapes]
    exact = {name: each.double() if isinstance(each, torch.Tensor) else each for name, each in told.items()}
    return kernels.attention(*tensors, lse=True, **told), reference(*(each.double() for each in tensors), **exact)


@pytest.mark.parametrize(
    "told", [{}, {"causal": True}, {"causal": True, "window": 70, "softcap": 5.0}, {"window": 70}, {"sinks": torch.tensor([0.5, 3.0, -1.0])}], ids=str
)  # fmt: skip
@pytest.mark.parametrize(("width", "values"), [(64, 64), (128, 128), (256, 256), (72, 40)])
def test_attention(width, values, told, few):
    """Three heads or more of two tiles, the second with few rows; keys of four blocks, of rings of two stages."""
    made = few(1)
    got, wanted = attend((1, 3, 203, width), (1, 1, 411, width), (1, 1, 411, values), **told)
    assert len(made) == 1 and made[0].row_tiles(203) >= 2
    agrees(got, wanted)


@pytest.mark.parametrize("told", [{}, {"causal": True}], ids=str)
@pytest.mark.parametrize("width", [64, 128, 256])
def test_attention_of_e4m3(width, told, few):
    made = few(1)
    got, wanted = attend((1, 3, 203, width), (1, 1, 411, width), (1, 1, 411, width), dtype=torch.float8_e4m3fn, **told)
    assert len(made) == 1
    assert distance(got[0], wanted[0]) < 4e-2


@pytest.mark.parametrize("width", [64, 128, 256])
def test_attention_under_a_mask(width, few):
    made = few(1)
    q, k, v = (half(2, heads, length, width) for heads, length in ((2, 203), (1, 411), (1, 411)))
    mask = half(2, 1, 203, 411)
    o = kernels.attention(q, k, v, mask=mask, causal=True)
    assert len(made) == 1
    hidden = torch.ones(203, 411, dtype=torch.bool).triu(209)
    wanted = F.scaled_dot_product_attention(
        *(each.double() for each in (q, k, v)), attn_mask=mask.double().masked_fill(hidden, -torch.inf), enable_gqa=True
    )
    assert distance(o, wanted) < 6e-3


@pytest.mark.parametrize("told", [{"causal": True}, {"window": 200}], ids=str)
@pytest.mark.parametrize("form", ["keys", "pages", "small pages", "e4m3"])
@pytest.mark.parametrize("width", [64, 256])
def test_cached_keys_in_one_part(width, form, told, monkeypatch):
    """A CTA goes over all keys of a sequence: of many blocks, of a few, of one key, and of none."""
    for name in ("_parts", "_parts_of_warps"):
        monkeypatch.setattr(PARTS, name, lambda *_: 1)
    lengths, page = (1203, 1, 0, 700), 4 if form == "small pages" else 32
    room = -(-max(lengths) // page)
    kind = torch.float8_e4m3fn if form == "e4m3" else torch.bfloat16
    q, (k, v) = half(4, 4, 3, width), (half(4, 2, room * page, width).to(kind) for _ in range(2))
    more = {"lengths": numbers(*lengths)}
    keys = k, v
    if form != "keys":
        order = torch.randperm(4 * room)
        pages = [each.view(4, 2, room, page, width).permute(0, 2, 3, 1, 4).flatten(0, 1)[order] for each in keys]
        keys, more["block_table"] = pages, torch.argsort(order).view(4, room).int()
    with kernels.simulated_target("sm_90a"):
        o, lse = kernels.attention(q, *keys, lse=True, **more, **told)
    for i, count in enumerate(lengths):
        wanted = reference(*(each[i : i + 1, :, :count].double() if each is not q else q[i : i + 1].double() for each in (q, k, v)), **told)  # fmt: skip
        agrees((o[i : i + 1], lse[i : i + 1]), wanted)


@pytest.mark.parametrize(
    ("width", "deterministic", "told"),
    [
        (64, False, {"causal": True}), (64, True, {}), (128, False, {"window": 130}), (128, True, {"causal": True}), (192, True, {"window": 130}),
        (256, True, {}),
    ],
)  # fmt: skip
def test_gradients_of_many_blocks(width, deterministic, told):
    """A CTA that keeps keys goes over all queries, and the other way round: five blocks and more."""
    q, k, v, g = (half(1, 1, length, width) for length in (300, 391, 391, 300))
    leaves = [each.requires_grad_() for each in (q, k, v)]
    got = torch.autograd.grad(kernels.attention(*leaves, deterministic=deterministic, **told), leaves, g)
    exact = [each.detach().double().requires_grad_() for each in leaves]
    wanted = torch.autograd.grad(reference(*exact, **told)[0], exact, g.double())
    for one, other in zip(got, wanted, strict=True):
        assert distance(one, other) < 1e-2


SPLIT = sys.modules["pyptx.kernels._rows.split"]
ROWS = {
    "rms_norm": (kernels.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), 1, 1),
    "layer_norm": (kernels.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), 1, 2),
    "add_rms_norm": (lambda *given: sum(kernels.add_rms_norm(*given)), lambda x, r, w: F.rms_norm(x + r, w.shape, w, 1e-6) + x + r, 2, 1),
    "softmax": (kernels.softmax, lambda x: x.softmax(-1), 1, 0),
    "swiglu": (kernels.swiglu, lambda x, u: F.silu(x) * u, 2, 0),
    "cross_entropy": (
        lambda x, w: kernels.cross_entropy(x, torch.arange(len(x)) * 3, w.abs(), label_smoothing=0.1),
        lambda x, w: F.cross_entropy(x, torch.arange(len(x)) * 3, w.abs(), label_smoothing=0.1), 1, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("n", "dtype", "packed"), [(1000, torch.float32, False), (12290, torch.bfloat16, False), (20488, torch.bfloat16, False), (20488, torch.bfloat16, True), (16386, torch.float32, False)])  # fmt: skip
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, n, dtype, packed, monkeypatch):
    """Five rows of one cluster, forward and backward, of vectors of 4 to 16 bytes: two turns of a ring of two rows, and one more.  Of rows that begin
    inside vectors a cluster has each eighth, which begin at the same element of one."""
    for module in ("pyptx.kernels._row_function", "pyptx.kernels.norm"):
        monkeypatch.setattr(sys.modules[module], "has_clusters", lambda tensor: True)
    for function in FUNCTIONS.values():
        monkeypatch.setattr(function, "made", functools.cache(function.made.__wrapped__))
        monkeypatch.setattr(function, "run_for", functools.cache(function.run_for.__wrapped__))
    monkeypatch.setattr(SPLIT, "clusters_of", lambda row, rows, types: row.stride)
    monkeypatch.setattr(SPLIT.Split, "workers", lambda row, *_, **told: max(row.rows, row.stride))
    if not packed:
        monkeypatch.setattr(SPLIT.Split, "_packed", lambda *_: None)
    ours, theirs, matrices, vectors = ROWS[name]
    rows = 40 if n == 12290 else 5
    given = [torch.randn(shape).to(dtype).requires_grad_() for shape in [(rows, n)] * matrices + [(n,)] * vectors]
    if name == "cross_entropy":
        given[1].requires_grad_(False)
    exact = [each.detach().double().requires_grad_(each.requires_grad) for each in given]
    got, wanted = ours(*given), theirs(*exact)
    pull, parts = torch.randn_like(got), [(got, wanted)]
    pulled = (
        torch.autograd.grad(*of, [each for each in leaves if each.requires_grad], pull.to(of[0].dtype))
        for of, leaves in (((got,), given), ((wanted,), exact))
    )
    parts += zip(*pulled, strict=True)
    for one, other in parts:
        assert distance(one, other.detach()) < (1e-5 if dtype is torch.float32 else 1.5e-2)


@pytest.mark.parametrize(("rows", "n"), [(3100, 5), (1100, 4099), (300, 16388)])
def test_sums_of_many_rows(rows, n):
    """Each group of threads adds up three times its eight rows, or more."""
    x = torch.randn(rows, n)
    assert distance(column_sums(f32)(x), x.double().sum(0)) < 1e-6
