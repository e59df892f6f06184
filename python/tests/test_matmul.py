"""`kernels.matmul` against float64: on the simulator, and on a GPU where there is one; and that every configuration assembles."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import pyptx  # noqa: E402
from pyptx import assembler, kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul import calls_in_torch, grouped_in_torch, hopper  # noqa: E402
from pyptx.kernels._matmul.choice import (  # noqa: E402
    BLOCKS,
    ONCE,
    PAIR,
    PARTED,
    WIDE_BLOCKS,
    WIDEST,
    Problem,
    fills_once,
    inside,
    kernel_of,
    sizes_of,
    stream_of,
    streams,
    tile_of,
    with_tail,
)  # fmt: skip
from pyptx.kernels._matmul.costs import Sizes  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.mma import mma_kernel  # noqa: E402
from pyptx.kernels._matmul.stream import StreamConfig, stream_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import Config  # noqa: E402
from pyptx.types import bf16, e4m3, f16, f32, s8, s32  # noqa: E402

F = torch.nn.functional
TYPES = {torch.bfloat16: 5e-3, torch.float16: 1e-3, torch.float32: 1e-3}
ACTIVATIONS = {None: lambda x: x, "relu": torch.relu, "gelu": F.gelu, "silu": F.silu}
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")])  # fmt: skip
devices = pytest.mark.parametrize("device", ["cpu", GPU])
needs_ptxas = pytest.mark.skipif(
    not any(row.name.startswith("ptxas") and "PTX up to" in row.name for row in assembler.found()),
    reason="skipped: no ptxas",
)


def distance(got, wanted) -> float:
    assert got.shape == wanted.shape
    return float((got.detach().double() - wanted).norm() / wanted.norm().clamp_min(1e-9))


def operand(shape, transposed: bool, dtype, device):
    if transposed:
        return operand((*shape[:-2], shape[-1], shape[-2]), False, dtype, device).mT
    return torch.randn(shape).to(device, dtype)


def check(shape_a, shape_b, majors, dtype, device, activation=None, biased=False, residual=False):
    a, b = (operand(*each, dtype, device) for each in zip((shape_a, shape_b), majors, strict=True))
    wanted = a.double() @ b.double()
    bias = torch.randn(shape_b[-1]).to(device, dtype) if biased else None
    more = torch.randn(wanted.shape).to(device, dtype) if residual else None
    got = kernels.matmul(a, b, bias=bias, activation=activation, residual=more)
    wanted = ACTIVATIONS[activation](wanted + (bias.double() if biased else 0)) + (more.double() if residual else 0)
    assert got.dtype == dtype
    assert distance(got, wanted) < TYPES[dtype]


sizes = st.integers(1, 150)


@devices
@settings(deadline=None, max_examples=25)
@given(
    m=sizes, n=sizes, k=sizes, majors=st.tuples(st.booleans(), st.booleans()), dtype=st.sampled_from(list(TYPES)),
    activation=st.sampled_from(list(ACTIVATIONS)), biased=st.booleans(), residual=st.booleans(), batch=st.sampled_from([(), (2,), (3, 1)]),
)  # fmt: skip
def test_any_shape(device, m, n, k, majors, dtype, activation, biased, residual, batch):
    check((*batch, m, k), (*batch, k, n), majors, dtype, device, activation, biased, residual)


# The kernels of Hopper, which CPU tensors do not reach through `matmul`, on the simulator.
ALONE = {"overlap": False, "swing": False, "once": True}  # the tile of its cluster
CUTS = [
    Config(64, 96, 8, 1), PAIR,
    Config(128, 128, 3), Config(128, 128, 3, cm=2), Config(128, 128, 3, cn=2, group=1), Config(128, 64, 3, overlap=False), Config(64, 64, 3, 1),
    Config(256, 128, 3, cm=2), Config(128, 192, 4), Config(),
    Config(128, 144, 4), Config(128, 160, 3, cm=2), Config(128, 96, 3, cn=2), Config(64, 192, 3, 1), Config(128, 224, 3), Config(128, 64, 3, cm=2),
    Config(64, 48, 3, 1, ahead=2), Config(64, 112, 3, 1, cm=2, ahead=4), Config(128, 80, 4, cm=2, cn=4, **ALONE), Config(64, 96, 4, 1, cm=4, cn=2, **ALONE),
    Config(256, 160, 4, cn=2, **ALONE), Config(192, 144, 4, 3, cn=4, **ALONE), Config(128, 192, 4, cm=2, cn=2),
    Config(64, 128, 3, 1, parts=2, **ALONE), Config(128, 96, 3, parts=3, **ALONE), Config(256, 64, 3, parts=4, **ALONE),
]  # fmt: skip
TURNED = [
    Config(64, 64, 3, 1, turned=True), Config(64, 256, 3, 1, turned=True), Config(128, 144, 4, turned=True), Config(128, 128, 3, cm=2, turned=True),
    Config(128, 160, 3, cn=2, overlap=False, turned=True), Config(64, 96, 3, 1, turned=True), Config(64, 64, 3, 1, cn=2, turned=True, ahead=4),
    Config(64, 160, 5, 1, cm=4, turned=True, **ALONE), Config(256, 112, 4, turned=True, **ALONE),
    Config(64, 96, 4, 1, parts=2, turned=True, **ALONE),
]  # fmt: skip
STREAMS = [StreamConfig(32, 3, 64, 3, once=True), StreamConfig(24, 2, 64, 3, once=True), StreamConfig(16, 1, 64, 3), StreamConfig(64, 2, 64, 3, once=True), StreamConfig(32, 1, 128, 3, 2), StreamConfig(16, 4, 128, 3, 2, once=True), StreamConfig(32, 2, 64, 2, once=True, deep=2, late=True, ahead=2), StreamConfig(16, 1, 128, 2, late=True, ahead=1), StreamConfig(64, 4, 72, 3, once=True, tall=True), StreamConfig(128, 3, 56, 3, once=True, tall=True), StreamConfig(64, 1, 48, 3, tall=True), StreamConfig(64, 2, 32, 3, 2, once=True, tall=True, deep=2), StreamConfig(40, 2, 72, 2, once=True, tall=True, deep=2), StreamConfig(208, 3, 64, 3, once=True), StreamConfig(256, 2, 64, 3, once=True)]  # fmt: skip
eights = st.integers(1, 40).map(lambda i: 8 * i)
both_majors = st.tuples(st.booleans(), st.booleans())


@settings(deadline=None, max_examples=20)
@given(
    cut=st.sampled_from(CUTS),
    m=eights,
    n=eights,
    k=eights,
    majors=both_majors,
    batch=st.sampled_from([(), (2,)]),
    finished=st.booleans(),
)
def test_wgmma(cut, m, n, k, majors, batch, finished):
    a, b = torch.randn(*batch, m, k).bfloat16(), torch.randn(*batch, k, n).bfloat16()
    epilogue = Epilogue(bf16, "silu", bf16) if finished else Epilogue()
    kernel = product_kernel(cut, bf16, *majors, bf16, bool(batch), epilogue)
    bias, residual = torch.randn(n).bfloat16(), torch.randn(*batch, m, n).bfloat16()
    stored = a if majors[0] else a.mT.contiguous(), b.mT.contiguous() if majors[1] else b
    got = kernel(*stored, *((bias, residual) if finished else ()))
    wanted = a.double() @ b.double()
    wanted = F.silu(wanted + bias.double()) + residual.double() if finished else wanted
    assert distance(got, wanted) < 5e-3


@settings(deadline=None, max_examples=12)
@given(cut=st.sampled_from(TURNED), m=eights, n=eights, k=eights, majors=both_majors, batch=st.sampled_from([(), (2,)]))
def test_turned(cut, m, n, k, majors, batch):
    a, b = torch.randn(*batch, m, k).bfloat16(), torch.randn(*batch, k, n).bfloat16()
    stored = a if majors[0] else a.mT.contiguous(), b.mT.contiguous() if majors[1] else b
    assert distance(product_kernel(cut, bf16, *majors, bf16, bool(batch))(*stored), a.double() @ b.double()) < 5e-3


@pytest.mark.parametrize("clusters", [{}, {"cm": 2}, {"cn": 2}, {"turned": True}, {"cm": 4, "cn": 2, **ALONE}, {"cm": 4, "turned": True, **ALONE}], ids=str)  # fmt: skip
@pytest.mark.parametrize("majors", [(True, True), (True, False), (False, True)], ids=str)
def test_tiles_that_end_with_the_matrix(clusters, majors, monkeypatch):
    """A CTA has several tiles, whole ones and such as are left out in part, or one, which may be another's."""
    c = Config(64, 64, 2, 1, inside=True, **clusters)
    monkeypatch.setitem(hopper.CLUSTERS, c.ctas, 4 // c.ctas or 1)
    kernel = product_kernel.__wrapped__(c, bf16, *majors)
    a, b = torch.randn(152, 200).bfloat16(), torch.randn(200, 216).bfloat16()
    stored = a if majors[0] else a.mT.contiguous(), b.mT.contiguous() if majors[1] else b
    with pyptx.simulator(check="all"):
        assert distance(kernel(*stored), a.double() @ b.double()) < 5e-3


@pytest.mark.parametrize("k", [72, 96, 112, 264])
@pytest.mark.parametrize("majors", [(False, False), (False, True), (True, True)])
def test_the_last_step_is_as_short_as_k(k, majors):
    """What its stage has of the step before is not multiplied twice."""
    a, b = (operand(*each, torch.bfloat16, "cpu") for each in zip(((264, k), (k, 200)), majors, strict=True))
    p = Problem(264, 200, k, None, bf16, bf16, on_gpu=False)
    for c in (Config(128, 96, 3), Config(192, 64, 3, 3, inside=True), Config(64, 64, 3, 1, cn=2, turned=True)):
        c = with_tail(c, p)
        assert c.tail == -(-(k % 64) // 16) and not c.swing
        kernel = product_kernel(c, bf16, not majors[0], majors[1])
        with pyptx.simulator(check="all"):
            made = kernel(*(each.mT if turned else each for each, turned in zip((a, b), majors, strict=True)))
        assert distance(made, a.double() @ b.double()) < 3e-3


def test_a_tail_is_of_plain_products():
    with pytest.raises(ValueError, match="a tail of K wants no swing, groups of lines or scales of blocks"):
        product_kernel(Config(64, 64, 4, 1, tail=2), bf16)
    for k, more in ((64, {}), (48, {}), (128, {}), (4128, {}), (96, {"epilogue": Epilogue(scales="block")})):
        assert with_tail(Config(), Problem(64, 64, k, None, bf16, bf16, **more)).tail == 0


@pytest.mark.parametrize("config", [Config(128, 80, 2, cm=2, cn=2, **ALONE), Config(192, 64, 2, 3, turned=True, **ALONE)], ids=str)  # fmt: skip
def test_a_tile_is_staged_where_its_stages_were(config):
    """When all consumers have multiplied what lay there."""
    a, b = torch.randn(264, 200).bfloat16(), torch.randn(320, 200).bfloat16()
    with pyptx.simulator(check="all"):
        assert distance(product_kernel(config, bf16)(a, b), a.double() @ b.double().mT) < 5e-3


@pytest.mark.parametrize("bn", [64, 144, 160, 192])
def test_a_cta_of_many_tiles_stores_what_it_made(bn, monkeypatch):
    """Of one part a tile, three and two: its buffers are not written before the copy that reads them has."""
    monkeypatch.setitem(hopper.CLUSTERS, 1, 2)
    kernel = product_kernel.__wrapped__(Config(128, bn, 3), bf16)
    a, b = torch.randn(264, 72).bfloat16(), torch.randn(456, 72).bfloat16()
    assert distance(kernel(a, b), a.double() @ b.double().mT) < 5e-3


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("k", [64, 256, 384, 512, 640])
def test_scales_of_blocks_over_many_tiles(k, residual, monkeypatch):
    """Each tile's first two steps begin while the one before is stored; of a K of one step, the second adds zeros."""
    monkeypatch.setitem(hopper.CLUSTERS, BLOCKS.ctas, 1)
    kernel = product_kernel.__wrapped__(
        BLOCKS, e4m3, epilogue=Epilogue(None, None, bf16 if residual else None, "block")
    )
    a, b = (torch.randn(rows, k).to(torch.float8_e4m3fn) for rows in (264, 456))
    blocks = -(-k // 128)
    one, two, more = torch.rand(blocks, 264) + 0.5, torch.rand(blocks, 4) + 0.5, torch.randn(264, 456).bfloat16()
    of_a = one.mT.repeat_interleave(128, 1)[:, :k]
    of_b = two.mT.repeat_interleave(128, 0)[:456].repeat_interleave(128, 1)[:, :k]
    wanted = (a.double() * of_a) @ (b.double() * of_b).mT + (more.double() if residual else 0)
    with pyptx.simulator(check="all"):
        assert distance(kernel(a, b, one, two, *([more] if residual else [])), wanted) < 5e-3


@pytest.mark.parametrize(("m", "ahead"), [(1, 2), (64, 2), (128, 2)])
def test_weights_are_asked_for_before_the_kernel_ahead_has_ended(m, ahead):
    with kernels.simulated_target("sm_90a"):
        text = kernel_of(Problem(m, 4096, 4096, None, bf16, bf16, on_gpu=False)).ptx()
    before, behind = text.split("griddepcontrol.wait")
    assert before.count("prefetch.tensormap") >= 2 and before.count("cp.async.bulk.prefetch.tensor") == ahead
    assert "cp.async.bulk.tensor" not in before and "L2::evict_first" in behind and "prefetch" not in behind


def test_turned_has_no_epilogue():
    for more in ({"epilogue": Epilogue(activation="silu")}, {"out": f32}, {"grouped": True}):
        with pytest.raises(ValueError, match="turned, a product has values of 16 bits, and no groups or epilogue"):
            product_kernel(TURNED[0], bf16, **more)


@pytest.mark.parametrize("size", [(64, 64, 4, 1), (128, 192, 4), (256, 128, 3)], ids=str)
def test_groups_of_lines(size):
    """What lies outside of a group counts in no product, whatever it is."""
    kernel = product_kernel(Config(*size, overlap=False, swing=False), bf16, False, False, parted=True)
    for lines, ends in ((300, [64, 64, 130, 257]), (200, [0, 1, 200]), (260, [3, 2, 900])):
        a, b = torch.randn(lines, 136).bfloat16(), torch.randn(lines, 200).bfloat16()
        a[ends[-1] :], b[ends[-1] :] = math.nan, math.inf
        got, start = kernel(a, b, torch.tensor(ends, dtype=torch.int32)), 0
        for each, end in zip(got, ends, strict=True):
            wanted = a[start:end].double().mT @ b[start:end].double() if end > start else torch.zeros(136, 200)
            assert torch.allclose(each.double(), wanted.double(), atol=0.3, rtol=2e-2)
            start = end


@pytest.mark.parametrize("k", [64, 648])  # fewer steps than parts, and stages that are used again
@pytest.mark.parametrize(
    "config",
    [
        Config(64, 128, 3, 1, parts=2, turned=True, **ALONE),
        Config(64, 128, 3, 1, parts=2, inside=True, **ALONE),
        Config(64, 96, 3, 1, parts=2, cm=2, cn=2, **ALONE),
        Config(64, 64, 3, 1, parts=2, cm=4, turned=True, **ALONE),
        Config(128, 96, 3, parts=3, **ALONE),
        Config(256, 64, 3, parts=4, **ALONE),
    ],
    ids=str,
)
def test_parts_of_k_of_a_cluster(config, k):
    a, b = torch.randn(2, 264, k).bfloat16(), torch.randn(2, 328, k).bfloat16()
    with pyptx.simulator(check="all"):
        got = product_kernel(config, bf16, batched=1)(a, b)
    assert distance(got, a.double() @ b.double().mT) < 5e-3


@pytest.mark.parametrize(
    "more", [{"once": False}, {"tail": 1}, {"bn": 80}, {"parts": 3}], ids=lambda more: next(iter(more))
)
def test_what_parts_of_k_of_a_cluster_want(more):
    with pytest.raises(ValueError, match="parts of K want clusters that have one tile"):
        product_kernel(Config(**{"bm": 128, "bn": 128, "parts": 2, **ALONE, **more}), bf16)


@pytest.mark.parametrize("size", [(128, 160, 4), (128, 192, 4), (128, 256, 4)], ids=str)
def test_scales_of_blocks_for_wide_tiles(size):
    for more in ({}, {"cn": 2}, {"swing": False}):
        kernel = product_kernel(Config(*size, **more), e4m3, epilogue=Epilogue(scales="block"))
        a, b = (torch.randn(rows, 384).to(torch.float8_e4m3fn) for rows in (300, 456))
        one, two = torch.rand(3, 300) + 0.5, torch.rand(3, 4) + 0.5
        wide = (
            a.double() * one.mT.repeat_interleave(128, 1),
            b.double() * two.mT.repeat_interleave(128, 0)[:456].repeat_interleave(128, 1),
        )
        assert distance(kernel(a, b, one, two), wide[0] @ wide[1].mT) < 5e-3


def test_a_stream_has_two_stages():
    with pytest.raises(ValueError, match="room for 1 stages"):
        StreamConfig.of(256, 1, 128)


@pytest.mark.parametrize(
    "config",
    [StreamConfig(100, 2, 64, tall=True), StreamConfig(64, 2, 60, tall=True), StreamConfig(64, 2, 72)],
    ids=str,
)
def test_what_wgmma_multiplies_in_a_stream(config):
    with pytest.raises(ValueError, match="rows are a multiple of 8, columns of 8 where it is tall, else of 64"):
        stream_kernel(config, bf16)


def test_a_warpgroup_has_64_rows_with_scales_of_blocks():
    for config in (
        Config(256, 128, 4), Config(128, 128, 6, overlap=False), Config(128, 128, 6), Config(128, 192, 4, overlap=False), Config(64, 192, 4, 1),
    ):  # fmt: skip
        with pytest.raises(
            ValueError, match="a warpgroup has 64 rows, tiles overlap, those of up to 128 columns do not"
        ):
            product_kernel(config, e4m3, epilogue=Epilogue(scales="block"))
    with pytest.raises(ValueError, match="wider ones have two warpgroups and no gates"):
        product_kernel(Config(128, 256, 4), e4m3, epilogue=Epilogue(activation="swiglu", scales="block"))


@settings(deadline=None, max_examples=12)
@given(
    config=st.sampled_from(STREAMS),
    m=st.integers(1, 64),
    n=st.integers(1, 300),
    k=eights,
    k_major=st.booleans(),
    biased=st.booleans(),
)
def test_streams(config, m, n, k, k_major, biased):
    m = min(m, config.rows)
    n = n if k_major else -(-n // 8) * 8
    a, b, bias = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16(), torch.randn(n).bfloat16()
    kernel = stream_kernel(config, bf16, k_major, bf16, Epilogue(bf16 if biased else None), n % 4 == 0)
    got = kernel(a, b.mT.contiguous() if k_major else b, *((bias,) if biased else ()))
    assert distance(got, a.double() @ b.double() + (bias.double() if biased else 0)) < 5e-3


def test_wgmma_of_groups_and_of_other_types():
    a, b, ends = torch.randn(300, 72).bfloat16(), torch.randn(4, 72, 136).bfloat16(), [130, 130, 140, 300]
    got = product_kernel(Config(128, 128, 3), bf16, True, False, grouped=True)(
        a, b, torch.tensor(ends, dtype=torch.int32)
    )
    for e, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        assert distance(got[start:end], a[start:end].double() @ b[e].double()) < 5e-3
    for dtype, framework, out in ((f32, torch.float32, f32), (s8, torch.int8, s32), (f16, torch.float16, f32)):
        x, y = ((9 * torch.randn(shape)).to(framework) for shape in ((150, 80), (136, 80)))
        got = product_kernel(Config(128, 128, 3, overlap=False), dtype, out=out)(x, y)
        assert distance(got, x.double() @ y.double().mT) < (1e-3 if dtype is f32 else 1e-6)
    x, y = (torch.randn(shape).to(torch.float8_e4m3fn) for shape in ((150, 400), (264, 400)))
    of_x, of_y = torch.rand(4, 150) + 0.5, torch.rand(4, 3) + 0.5
    wide_y = of_y.mT.repeat_interleave(128, 0)[:264].repeat_interleave(128, 1)[:, :400]
    wanted = (x.double() * of_x.mT.repeat_interleave(128, 1)[:, :400]) @ (y.double() * wide_y).mT
    assert distance(product_kernel(BLOCKS, e4m3, epilogue=Epilogue(scales="block"))(x, y, of_x, of_y), wanted) < 5e-3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")
@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(1, 80), n=st.integers(1, 80), k=st.integers(1, 150), majors=st.tuples(st.booleans(), st.booleans()),
    dtype=st.sampled_from([torch.bfloat16, torch.float16]), activation=st.sampled_from(list(ACTIVATIONS)), biased=st.booleans(),
    residual=st.booleans(), batch=st.sampled_from([(), (3,)]),
)  # fmt: skip
def test_shapes_of_tensor_copies(m, n, k, majors, dtype, activation, biased, residual, batch):
    check((*batch, 8 * m, 8 * k), (*batch, 8 * k, 8 * n), majors, dtype, "cuda", activation, biased, residual)


@devices
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 40, 50), (50, 60)),
        ((2, 1, 9, 16), (3, 16, 24)),
        ((1, 7), (7, 1)),
        ((5, 16), (1, 16, 8)),
        ((2, 5, 16), (2, 16, 8)),
    ],
)
def test_leading_dimensions_broadcast(a, b, device):
    check(a, b, (False, False), torch.bfloat16, device)
    check(a, b, (True, True), torch.bfloat16, device)


@devices
def test_strides_and_outputs(device):
    wide = torch.randn(64, 96).to(device, torch.bfloat16)
    a, b = wide[:40, 8:72], wide[:64, :24]
    wanted = a.double() @ b.double()
    assert distance(kernels.matmul(a, b), wanted) < 5e-3
    assert distance(kernels.matmul(a[:, ::2], b[::2]), a[:, ::2].double() @ b[::2].double()) < 5e-3
    assert distance(kernels.matmul(a[:, 1:], b[1:]), a[:, 1:].double() @ b[1:].double()) < 5e-3
    exact = torch.empty(40, 24, device=device)
    assert kernels.matmul(a, b, out=exact) is exact
    assert distance(exact, wanted) < 1e-6
    apart = torch.zeros(40, 48, device=device, dtype=torch.bfloat16)
    kernels.matmul(a, b, out=apart[:, ::2])
    assert distance(apart[:, ::2], wanted) < 5e-3
    assert not apart[:, 1::2].any()


@devices
def test_nothing(device):
    assert kernels.matmul(torch.ones(0, 3, device=device), torch.ones(3, 4, device=device)).shape == (0, 4)
    bias = torch.arange(4.0, device=device)
    assert (kernels.matmul(torch.ones(2, 0, device=device), torch.ones(0, 4, device=device), bias=bias) == bias).all()


@devices
@pytest.mark.parametrize(("m", "n", "k"), [(9, 7, 33), (48, 64, 96)])
def test_bytes(m, n, k, device):
    i, j = torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-128, 128, (k, n), dtype=torch.int8)
    got = kernels.matmul(i.to(device), j.to(device))
    assert got.dtype == torch.int32
    assert (got.cpu() == i.int() @ j.int()).all()
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 9):
        return
    x, y = (torch.randn(shape).to(device, torch.float8_e4m3fn) for shape in ((m, k), (k, n)))
    of_a, of_b = torch.rand(m, 1, device=device) + 0.5, torch.rand(n, device=device) + 0.5
    wanted = x.double() @ y.double()
    # Hopper's tensor cores add up products of fp8 with about 14 bits.
    assert distance(kernels.matmul(x, y, scale_a=of_a, scale_b=of_b), wanted * of_a * of_b) < 5e-3
    assert distance(kernels.matmul(x, y, scale_a=of_a[:1], scale_b=of_b[:1]), wanted * of_a[0] * of_b[0]) < 5e-3


@devices
@pytest.mark.parametrize(("m", "n", "k"), [(9, 128, 128), (130, 260, 300), (136, 272, 384)])
def test_scales_of_blocks(m, n, k, device):
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("skipped: fp8 needs sm_89")
    a, b = (torch.randn(shape).to(device, torch.float8_e4m3fn) for shape in ((m, k), (k, n)))
    blocks, columns = -(-k // 128), -(-n // 128)
    of_a, of_b = torch.rand(m, blocks, device=device) + 0.5, torch.rand(blocks, columns, device=device) + 0.5
    wide_a = of_a.repeat_interleave(128, 1)[:, :k]
    wide_b = of_b.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n]
    wanted = (a.double() * wide_a) @ (b.double() * wide_b)
    assert distance(kernels.matmul(a, b, scale_a=of_a, scale_b=of_b), wanted) < 5e-3


@devices
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("k", "n", "ends"), [(64, 48, [130, 130, 140, 300]), (50, 37, [0, 7, 200, 290]), (264, 520, [1, 129, 300, 300])]
)
def test_groups(k, n, ends, transposed, device):
    a, b = operand((300, k), False, torch.bfloat16, device), operand((4, k, n), transposed, torch.bfloat16, device)
    offs = torch.tensor(ends, dtype=torch.int32, device=device)
    out = torch.full((300, n), 7.0, device=device, dtype=torch.bfloat16)
    wanted, starts = out.double(), [0, *ends]
    for e, end in enumerate(ends):
        wanted[starts[e] : end] = a[starts[e] : end].double() @ b[e].double()
    assert distance(kernels.grouped_matmul(a, b, offs, out=out), wanted) < 5e-3


def scaled_groups(ends, t, k, n, device):
    """(a, w, scales of both, offs, the product in float64)."""
    a, w = (torch.randn(shape).to(device, torch.float8_e4m3fn) for shape in ((t, k), (len(ends), n, k)))
    blocks, columns = -(-k // 128), -(-n // 128)
    of_a = torch.rand(t, blocks, device=device) + 0.5
    of_w = torch.rand(len(ends), blocks, columns, device=device) + 0.5
    wide_a = a.double() * of_a.repeat_interleave(128, 1)[:, :k]
    wide_w = w.double().mT * of_w.repeat_interleave(128, 1)[:, :k].repeat_interleave(128, 2)[:, :, :n]
    wanted, starts = torch.zeros(t, n, dtype=torch.double, device=device), [0, *ends]
    for e, end in enumerate(ends):
        wanted[starts[e] : end] = wide_a[starts[e] : end] @ wide_w[e]
    return a, w, of_a, of_w, torch.tensor(ends, dtype=torch.int32, device=device), wanted


@devices
@pytest.mark.parametrize(
    ("k", "n", "ends"), [(400, 264, [130, 130, 140, 300]), (128, 48, [0, 7, 200, 290]), (272, 136, [300])]
)
def test_groups_of_fp8(k, n, ends, device):
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("skipped: fp8 needs sm_89")
    a, w, of_a, of_w, offs, wanted = scaled_groups(ends, 300, k, n, device)
    out = torch.zeros(300, n, device=device, dtype=torch.bfloat16)
    got = kernels.grouped_matmul(a, w.mT, offs, scale_a=of_a, scale_b=of_w, out=out)
    assert got is out and distance(got, wanted) < 5e-3
    compiled = torch.compile(kernels.grouped_matmul, fullgraph=True, backend="aot_eager")
    assert distance(compiled(a, w.mT, offs, scale_a=of_a, scale_b=of_w)[: ends[-1]], wanted[: ends[-1]]) < 5e-3


def test_groups_of_fp8_by_wgmma():
    a, w, of_a, of_w, offs, wanted = scaled_groups([130, 130, 140, 300], 300, 400, 264, "cpu")
    kernel = product_kernel(BLOCKS, e4m3, epilogue=Epilogue(scales="block"), grouped=True)
    got = kernel(a, w, of_a.mT.contiguous(), of_w, offs, out=torch.zeros(300, 264, dtype=torch.bfloat16))
    assert distance(got, wanted) < 5e-3


def test_groups_of_fp8_of_jax():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    a, w, of_a, of_w, offs, wanted = scaled_groups([130, 300], 300, 256, 128, "cpu")
    given = [jax.numpy.asarray(each.float().numpy()).astype(jax.numpy.float8_e4m3fn) for each in (a, w.mT.contiguous())]
    got = kernels.grouped_matmul(
        *given, jax.numpy.asarray(offs.numpy()), scale_a=jax.numpy.asarray(of_a.numpy()), scale_b=jax.numpy.asarray(of_w.numpy())
    )  # fmt: skip
    assert distance(torch.from_numpy(np.array(got.astype("float32"))), wanted) < 5e-3


def test_refusals_of_groups_of_fp8():
    a, w, of_a, of_w, offs, _ = scaled_groups([130, 300], 300, 256, 128, "cpu")
    for options, error, message in (
        ({}, LaunchTypeError, "with scale_a and scale_b of float8_e4m3fn"),
        ({"scale_a": of_a}, LaunchTypeError, "give both scale_a and scale_b, or neither"),
        ({"scale_a": of_a.mT, "scale_b": of_w}, LaunchValueError, r"scale_a is float32 \(2, 300\); legal is float32 \(300, 2\)"),
        ({"scale_a": of_a, "scale_b": of_w.double()}, LaunchValueError, "scale_b is float64"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            kernels.grouped_matmul(a, w.mT, offs, **options)


@pytest.mark.parametrize("ends", [[130, 200, 999], [130, -5, 100]])
def test_ends_that_lie_outside(ends):
    a, b, offs = (
        torch.randn(300, 72).bfloat16(),
        torch.randn(3, 72, 136).bfloat16(),
        torch.tensor(ends, dtype=torch.int32),
    )
    got = product_kernel(Config(128, 128, 3), bf16, True, False, grouped=True)(
        a, b, offs, out=torch.zeros(300, 136).bfloat16()
    )
    by_mma = mma_kernel(bf16, bf16, True, False, 16, 16, epilogue=Epilogue(), grouped=True)
    assert distance(got, by_mma(a, b, offs, out=torch.zeros(300, 136).bfloat16()).double()) < 5e-3


@pytest.mark.parametrize(
    ("t", "k", "n", "ends"),
    [(300, 64, 48, [130, 130, 290]), (7, 33, 17, [2, 2, 5, 7]), (0, 8, 8, [0, 0]), (5, 8, 8, [9])],
)
def test_products_of_groups_of_k(t, k, n, ends):
    """A launch for the gradients of all matrices; rows of no group are not read."""
    a, g = torch.randn(t, k).bfloat16(), torch.randn(t, n).bfloat16()
    a[ends[-1] :] = g[ends[-1] :] = torch.nan
    offsets, starts = torch.tensor(ends, dtype=torch.int32), [0, *ends]
    a, g = a.requires_grad_(), g.requires_grad_()
    with pyptx.simulator(check="all"):
        got = grouped_in_torch.parted_product(a, g, offsets)
    parts = [a[start:end].double().mT @ g[start:end].double() for start, end in itertools.pairwise(starts)]
    wanted = torch.stack(parts)
    assert (got.detach().double() - wanted.detach()).norm() <= 5e-3 * wanted.detach().norm()
    if t == 300:
        pull = torch.randn(got.shape).bfloat16()
        exact = torch.autograd.grad(wanted, (a, g), pull.double())
        for ours, theirs in zip(torch.autograd.grad(got, (a, g), pull), exact, strict=True):
            assert (ours.double() - theirs.double()).norm() <= 1e-2 * theirs.double().norm()
    if t == 7:
        torch.library.opcheck(torch.ops.pyptx.parted_matmul.default, (a, g, offsets))


def test_gradients_of_groups():
    given = [torch.randn(shape, dtype=torch.bfloat16, requires_grad=True) for shape in ((40, 16), (3, 16, 8))]
    ends = [10, 10, 33]
    y = kernels.grouped_matmul(*given, torch.tensor(ends, dtype=torch.int32))
    pull = torch.randn_like(y)
    da, db = torch.autograd.grad(y, given, pull)
    wanted_a, starts = torch.zeros(40, 16, dtype=torch.double), [0, *ends]
    a, b = (each.detach().double() for each in given)
    for e, end in enumerate(ends):
        rows = slice(starts[e], end)
        wanted_a[rows] = pull[rows].double() @ b[e].mT
        assert distance(db[e], a[rows].mT @ pull[rows].double()) < 5e-3
    assert distance(da, wanted_a) < 5e-3
    torch.library.opcheck(torch.ops.pyptx.grouped_matmul, (*given, torch.tensor(ends, dtype=torch.int32)))


@pytest.mark.parametrize(
    ("error", "message", "change"),
    [
        (LaunchTypeError, "legal are two of bfloat16", {"a": torch.ones(4, 8)}),
        (LaunchTypeError, "offs is of int64; legal is int32", {"offs": torch.ones(2, dtype=torch.int64)}),
        (
            LaunchTypeError,
            "offs is of uint32; legal is int32",
            {"offs": torch.ones(2, dtype=torch.int32).view(torch.uint32)},
        ),
        (LaunchValueError, "are not (T, K), (E, K, N) and (E,)", {"a": torch.ones(4, 9, dtype=torch.bfloat16)}),
    ],
)
def test_groups_that_do_not_fit(error, message, change):
    given = {
        "a": torch.ones(4, 8, dtype=torch.bfloat16),
        "b": torch.ones(2, 8, 8, dtype=torch.bfloat16),
        "offs": torch.ones(2, dtype=torch.int32),
    }
    with pytest.raises(error) as raised:
        kernels.grouped_matmul(**(given | change))
    assert message in str(raised.value)


@devices
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients(activation, device):
    shapes = ((3, 20, 32), (32, 16), (16,), (3, 20, 16))
    given = [torch.randn(shape).to(device, torch.bfloat16).requires_grad_() for shape in shapes]
    exact = [each.detach().double().requires_grad_() for each in given]
    y = kernels.matmul(*given[:2], bias=given[2], activation=activation, residual=given[3])
    wanted = ACTIVATIONS[activation](exact[0] @ exact[1] + exact[2]) + exact[3]
    pull = torch.randn_like(y)
    mine, theirs = torch.autograd.grad(y, given, pull), torch.autograd.grad(wanted, exact, pull.double())
    for ours, expected in zip(mine, theirs, strict=True):
        assert distance(ours, expected) < 1e-2


def test_second_derivatives():
    x, w = (torch.randn(shape, requires_grad=True) for shape in ((4, 8), (8, 4)))
    (first,) = torch.autograd.grad((kernels.matmul(x, w) ** 3).sum(), x, create_graph=True)
    exact = [each.detach().double().requires_grad_() for each in (x, w)]
    (expected,) = torch.autograd.grad(((exact[0] @ exact[1]) ** 3).sum(), exact[0], create_graph=True)
    mine = torch.autograd.grad(first.sum(), (x, w))
    for ours, wanted in zip(mine, torch.autograd.grad(expected.sum(), exact), strict=True):
        assert distance(ours, wanted) < 3e-3


@devices
def test_torch_traces_it(device):
    x, w = torch.randn(4, 8, 16, device=device), torch.randn(16, 8, device=device)
    compiled = torch.compile(
        lambda x, w: kernels.matmul(x, w, activation="relu") + 1, dynamic=True, backend="aot_eager"
    )
    for count in (4, 5):
        assert distance(compiled(x[:count], w), torch.relu(x[:count].double() @ w.double()) + 1) < 1e-3
    assert distance(torch.vmap(lambda x: kernels.matmul(x, w))(x), x.double() @ w.double()) < 1e-3
    assert (
        distance(
            torch.vmap(kernels.matmul, (None, 0))(x, torch.stack([w, -w])), torch.stack([x @ w, -(x @ w)]).double()
        )
        < 1e-3
    )
    bias = torch.randn(4, 8, device=device)
    got = torch.vmap(lambda x, bias: kernels.matmul(x, w, bias=bias))(x, bias)
    assert distance(got, x.double() @ w.double() + bias[:, None].double()) < 1e-3
    with torch.autocast(device, torch.bfloat16):
        assert kernels.matmul(x, w).dtype == torch.bfloat16
    torch.library.opcheck(torch.ops.pyptx.matmul, (x[0].requires_grad_(), w, None, None, None, None, "gelu"))


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (LaunchValueError, "has 16 columns, but b (8, 16) has 8 rows", lambda x, w: kernels.matmul(x, w.mT)),
        (LaunchTypeError, "both need the same type", lambda x, w: kernels.matmul(x, w.half())),
        (LaunchTypeError, "`a` is of float64; legal are bfloat16", lambda x, w: kernels.matmul(x.double(), w.double())),
        (LaunchValueError, r"bias has shape (3,), not (8,)", lambda x, w: kernels.matmul(x, w, bias=torch.ones(3))),
        (LaunchValueError, "residual has shape (8,), not (4, 8)", lambda x, w: kernels.matmul(x, w, residual=torch.ones(8))),
        (LaunchValueError, "not 'tanh'", lambda x, w: kernels.matmul(x, w, activation="tanh")),
        (LaunchValueError, "at least two dimensions", lambda x, w: kernels.matmul(x[0, 0], w)),
        (LaunchValueError, "do not broadcast", lambda x, w: kernels.matmul(x.expand(2, 4, 16), w.expand(3, 16, 8))),
        (LaunchTypeError, "`out` is of float16", lambda x, w: kernels.matmul(x, w, out=torch.empty(4, 8).half())),
        (LaunchTypeError, "give both scale_a and scale_b", lambda x, w: kernels.matmul(x, w, scale_a=torch.ones(1))),
        (LaunchValueError, "legal are 1 and 1, or 4 and 8", lambda x, w: kernels.matmul(x, w, scale_a=torch.ones(3), scale_b=torch.ones(8))),
        (LaunchTypeError, "a product of int8 is int32", lambda x, w: kernels.matmul(x.char(), w.char(), activation="relu")),
        (LaunchTypeError, "out= has no gradient", lambda x, w: kernels.matmul(x.requires_grad_(), w, out=torch.empty(4, 8))),
    ],
)  # fmt: skip
def test_what_does_not_fit(error, message, call):
    with pytest.raises(error) as raised:
        call(torch.ones(4, 16), torch.ones(16, 8))
    assert message in str(raised.value)


def test_numpy():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((20, 24)).astype(np.float16), rng.standard_normal((24, 16)).astype(np.float16)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    out = np.empty((20, 16), np.float32)
    assert kernels.matmul(a, b, out=out) is out
    assert np.allclose(out, wanted, atol=1e-5)
    assert np.allclose(kernels.matmul(a.T.copy().T, b.T.copy().T), wanted, rtol=2e-3, atol=2e-3)


def test_jax():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    jnp = jax.numpy
    rng = np.random.default_rng(0)
    for shape_a, shape_b in (((20, 24), (24, 16)), ((3, 20, 24), (24, 16)), ((3, 20, 24), (3, 24, 16))):
        for dtype in (jnp.bfloat16, jnp.float32):
            a, b, bias = (jnp.asarray(rng.standard_normal(shape), dtype) for shape in (shape_a, shape_b, (16,)))

            def ours(a, b, bias):
                return (kernels.matmul(a, b, bias=bias, activation="gelu").astype(jnp.float32) ** 2).sum()

            def theirs(a, b, bias):
                a, b, bias = (each.astype(jnp.float32) for each in (a, b, bias))
                return (jax.nn.gelu(jnp.matmul(a, b, precision="highest") + bias, approximate=False) ** 2).sum()

            value, gradients = jax.jit(jax.value_and_grad(ours, (0, 1, 2)))(a, b, bias)
            wanted, expected = jax.value_and_grad(theirs, (0, 1, 2))(a, b, bias)
            assert np.allclose(value, wanted, rtol=1e-2)
            for one, two in zip(gradients, expected, strict=True):
                one, two = (np.asarray(each, np.float64) for each in (one, two))
                assert np.linalg.norm(one - two) < 1e-2 * np.linalg.norm(two)


OTHERS = [(f16, f16, Epilogue(f16, "gelu", f16)), (bf16, f32, Epilogue(f32)), (f32, f32, Epilogue()), (e4m3, bf16, Epilogue(scales="row")), (s8, s32, Epilogue())]  # fmt: skip


@needs_ptxas
@pytest.mark.parametrize(
    ("config", "dtype", "out", "epilogue"),
    [(config, bf16, bf16, Epilogue(bf16)) for config in (*ONCE[0], *ONCE[1])]
    + [(WIDEST, *other) for other in OTHERS if other[1].bits == 16],
    ids=str,
)
def test_configurations_assemble(config, dtype, out, epilogue):
    found = product_kernel(config, dtype, out=out, epilogue=epilogue).resources(M=4096, N=4096, K=4096)
    assert found.spill_stores == 0
    assert found.dynamic_shared <= 232448


MEASURED = [  # M, N, K, whether B is stored (N, K): the tile that docs/performance/products.md has as the quickest, and whether it is turned
    (1536, 1536, 1536, False, (128, 144, True)), (1024, 2112, 7168, False, (64, 256, True)), (2560, 2560, 2560, False, (128, 208, True)),
    (256, 7168, 2048, True, (128, 112, False)), (4096, 4096, 14336, False, (128, 256, False)), (4096, 4096, 4096, True, (128, 256, False)),
    (256, 28672, 4096, False, (128, 256, False)), (2048, 2048, 2048, True, (128, 256, False)),
    (1280, 1280, 1280, True, (128, 112, False)),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k", "b_k_major", "tile"), MEASURED, ids=str)
def test_what_measured_best_is_chosen(m, n, k, b_k_major, tile):
    c = chosen(m, n, k, b_k_major)
    assert (c.bm, c.bn, c.turned) == tile


def chosen(m, n, k, b_k_major, **more):
    """The tile of a product of 16-bit values."""
    return tile_of(sizes_of(Problem(m, n, k, None, bf16, bf16, b_k_major=b_k_major, **more)))


def test_of_what_memory_bounds_l2_reads_less_ahead():
    """As much as a copy asks for."""
    assert [chosen(*size, True).l2 for size in ((50176, 96, 288), (65536, 64, 256), (8192, 768, 768))] == [
        "128B",
        "128B",
        "256B",
    ]


@pytest.mark.parametrize("m", [1400, 1800, 2200, 3000])
@pytest.mark.parametrize("b_k_major", [True, False])
def test_rows_that_begin_within_a_sector_are_shared(m, b_k_major):
    """Of a tensor's own strides: 3000 bf16 are 16 bytes modulo 32."""
    a, b = torch.empty(m, m, dtype=torch.bfloat16), torch.empty(m, m, dtype=torch.bfloat16)
    widths = [calls_in_torch.Seen(each).width for each in (a, b)]
    p = Problem(m, m, m, None, bf16, bf16, True, b_k_major, *widths, on_gpu=False)
    c = tile_of(sizes_of(p))
    assert widths == [16, 16] and c.ctas > 1 and c.l2 == "128B"
    assert chosen(m, m, m, b_k_major).l2 == "256B"
    with kernels.simulated_target("sm_90a"):
        assert kernel_of(p) is product_kernel(inside(c, p), bf16, True, b_k_major, bf16, False, Epilogue())


SHARED = [
    Config(128, 256, 4, cm=2, cn=2), Config(192, 192, 3, 3, cm=2), Config(128, 160, 4, cm=2), Config(64, 128, 8, 1, cm=2), Config(64, 64, 12, 1, cm=2, cn=2),
]  # fmt: skip


@pytest.mark.parametrize("config", SHARED, ids=str)
@pytest.mark.parametrize("k_major", [True, False])
def test_ctas_that_share_ragged_rows(config, k_major):
    """Three tiles along M, so that one of a pair has none, and rows that are 16 bytes modulo 32."""
    m, n, k = 2 * config.bm + 8, config.bn + 8, 136
    b = torch.randn(n, k).bfloat16() if k_major else torch.randn(k, n).bfloat16()
    a, wanted = torch.randn(m, k).bfloat16(), b.double().mT if k_major else b.double()
    made = product_kernel(replace(config, l2="128B"), bf16, True, k_major)
    with pyptx.simulator(check="all"):
        assert distance(made(a, b), a.double() @ wanted) < 5e-3


def test_what_measured_best_is_chosen_of_few_rows_and_of_blocks():
    assert [stream_of(m, n, k).parts for m, n, k in ((128, 2112, 7168), (128, 4096, 4096), (256, 1536, 7168), (256, 4096, 14336), (32, 6144, 4096), (32, 4096, 4096))] == [3, 2, 4, 2, 2, 2]  # fmt: skip
    assert [(c.tall, c.bn) for c in (stream_of(m, n, 7168, k_major) for m, n, k_major in ((128, 2112, True), (64, 6144, True), (128, 4096, True), (100, 2112, True), (100, 1536, True), (32, 2112, True), (128, 2112, False)))] == [(True, 56), (True, 96), (False, 64), (True, 56), (True, 56), (False, 64), (False, 64)]  # fmt: skip
    of_groups = Sizes(2048, 4096, 64, 8, grouped=True)
    assert [tile_of(replace(of_groups, gated=gated)).cn for gated in (True, False)] == [2, 1]


@pytest.mark.parametrize(("m", "n", "k", "rows"), [
    (256, 4096, 14336, 256), (192, 4096, 14336, 192), (200, 3328, 8192, 208), (157, 4096, 4096, 160), (192, 2112, 7168, 192),
    (256, 2112, 7168, None), (240, 4096, 4096, None), (192, 2560, 7168, None), (192, 6144, 4096, None), (512, 2112, 7168, None),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("b_k_major", [True, False])
def test_a_long_k_is_a_stream_of_up_to_256_rows(m, n, k, rows, b_k_major):
    """Of which wgmma has a multiple of 16."""
    made = of_hopper(m, n, k, b_k_major)
    assert (made.__name__ == "stream_matmul") == (rows is not None)
    if rows is not None:
        assert stream_of(m, n, k).rows == rows


def test_tiles_lie_inside_of_the_matrix():
    def moved(c, *size, **more):
        found = inside(c, Problem(*size, None, bf16, bf16, **({"epilogue": Epilogue(**more)} if more else {})))
        return found.inside

    tile = Config(128, 96, 7)
    assert (
        moved(tile, 200, 6144, 4096)
        and moved(tile, 256, 2560, 4096)
        and moved(replace(tile, turned=True), 96, 200, 4096)
    )
    assert not moved(tile, 256, 6144, 4096)  # nothing lies outside
    assert moved(tile, 250, 6144, 4096)  # however few rows
    assert moved(replace(tile, cm=2), 384, 6144, 4096)  # all of a tile of a pair
    assert not moved(tile, 100, 6144, 4096)  # the matrix is smaller
    assert not moved(tile, 200, 6144, 4096, activation="swiglu")


ONE_WAVE = [  # M, N, K, whether B is stored (N, K): a tile, whether it is turned, CTAs along M and N of a cluster
    (256, 4096, 4096, False, (64, 128, True, 1, 2)), (192, 4096, 4096, True, (64, 96, True, 1, 2)), (300, 4096, 4096, True, (64, 160, True, 1, 2)),
    (256, 6144, 4096, True, (128, 96, False, 2, 1)), (256, 6144, 4096, False, (128, 96, False, 2, 1)), (192, 6144, 4096, False, (128, 96, True, 1, 2)),
    (100, 7168, 4096, True, (64, 112, True, 4, 1)), (128, 7168, 2048, True, (64, 112, False, 2, 1)), (2048, 512, 4096, True, (64, 128, False, 1, 2)),
    (256, 2560, 7168, False, (64, 192, False, 4, 1)), (256, 2560, 7168, True, (64, 192, False, 4, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k", "b_k_major", "cut"), ONE_WAVE, ids=str)
def test_clusters_that_share_fill_the_gpu_once(m, n, k, b_k_major, cut):
    p = Problem(m, n, k, None, bf16, bf16, b_k_major=b_k_major)
    c = fills_once(p) or tile_of(sizes_of(p))
    assert (c.bm, c.bn, c.turned, c.cm, c.cn) == cut
    assert of_hopper(m, n, k, b_k_major) is product_kernel(inside(c, p), bf16, True, b_k_major, bf16, False, Epilogue())


def test_pairs_that_share_columns_may_have_an_epilogue():
    assert fills_once(Problem(256, 4096, 4096, None, bf16, bf16, b_k_major=False, epilogue=Epilogue(bf16))) == PAIR
    assert fills_once(Problem(256, 6144, 4096, None, bf16, bf16)).once
    assert not fills_once(Problem(256, 6144, 4096, None, bf16, bf16, epilogue=Epilogue(bf16))).once
    assert of_hopper(512, 2112, 7168, False) is not product_kernel(PAIR, bf16, True, False, bf16, False, Epilogue())
    assert fills_once(Problem(192, 4096, 14336, None, bf16, bf16)) is None  # a stream


def of_hopper(m, n, k, b_k_major):
    with kernels.simulated_target("sm_90a"):
        return kernel_of(Problem(m, n, k, None, bf16, bf16, b_k_major=b_k_major, on_gpu=False))


def test_many_columns_have_a_stream():
    """Rings of all numbers of rows have two stages at least."""
    for m in (1, 8, 16, 32, 64, 65, 128):
        assert all(stream_of(m, n, k).stages >= 2 for n in (16896, 16904, 28672, 151936) for k in (64, 8192))


@pytest.mark.parametrize(
    "shape",
    [
        (200, 136, 4096),
        (200, 3400, 72),
        (200, 3848, 8200),
        (128, 4800, 64),
        (5, 4616, 64),
        (100, 2112, 4104),
        (1024, 2112, 64),
    ],
    ids=str,
)
def test_products_for_hopper(shape):
    """As a user's call is multiplied on Hopper: C^T, parts of K, tiles of 48 columns."""
    m, n, k = shape
    a, b = torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16()
    with kernels.simulated_target("sm_90a"):
        for given in (b.mT, b.mT.contiguous()):
            assert distance(kernels.matmul(a, given), a.double() @ b.double().mT) < 5e-3


def test_gradient_of_groups_for_hopper():
    a, b = torch.randn(300, 72).bfloat16().requires_grad_(), torch.randn(4, 72, 136).bfloat16().requires_grad_()
    ends, g, start = [100, 100, 230, 290], torch.randn(300, 136).bfloat16(), 0
    with kernels.simulated_target("sm_90a"):
        y = kernels.grouped_matmul(a, b, torch.tensor(ends, dtype=torch.int32))
        (got,) = torch.autograd.grad(y, b, g)
    for each, end in zip(got, ends, strict=True):
        wanted = a.detach()[start:end].double().mT @ g[start:end].double()
        assert (each.double() - wanted).abs().max() <= 5e-3 * max(1, wanted.abs().max())
        start = end


@needs_ptxas
def test_groups_and_blocks_assemble():
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    grouped = product_kernel(WIDEST, bf16, grouped=True).resources(**sizes, E=8)
    blocks = product_kernel(BLOCKS, e4m3, epilogue=Epilogue(scales="block")).resources(**sizes, KB=32, NB=32)
    epilogue = Epilogue(bf16, "gelu", bf16, scales="block")
    assert product_kernel(BLOCKS, e4m3, epilogue=epilogue).resources(**sizes, KB=32, NB=32).spill_stores == 0
    for config in (WIDE_BLOCKS, replace(WIDE_BLOCKS, cm=2), WIDEST):
        wide = product_kernel(config, e4m3, epilogue=Epilogue(scales="block"), grouped=config == WIDE_BLOCKS)
        wide = wide.resources(**sizes, KB=32, NB=32, **({"E": 8} if config == WIDE_BLOCKS else {}))
        assert wide.spill_stores == 0 and wide.dynamic_shared <= 232448
    lines = product_kernel(PARTED, bf16, False, False, parted=True).resources(**sizes, L=8)
    assert lines.spill_stores == 0 and lines.dynamic_shared <= 232448
    both = product_kernel(BLOCKS, e4m3, epilogue=Epilogue(scales="block"), grouped=True)
    both = both.resources(**sizes, KB=32, NB=32, E=8)
    assert grouped.spill_stores == blocks.spill_stores == both.spill_stores == 0
    assert grouped.dynamic_shared <= 232448


@needs_ptxas
@pytest.mark.parametrize("width", [16, 8, 4, 2])
@pytest.mark.parametrize("majors", [(True, True), (True, False), (False, True)], ids=str)
def test_mma_has_registers_for_all(width, majors):
    """For two CTAs of a multiprocessor, where they were measured."""
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    found = mma_kernel(bf16, bf16, *majors, width, width).resources(**sizes)
    assert found.spill_stores == 0
    assert found.registers * found.threads <= 1 << 15 or width < 8 or not majors[0]
    finished = mma_kernel(bf16, bf16, *majors, width, width, False, Epilogue(bf16, "silu", bf16)).resources(**sizes)
    assert finished.spill_stores <= 116  # once a tile, where biases and coefficients meet the accumulators


@needs_ptxas
@pytest.mark.parametrize("config", streams()[::7], ids=str)
def test_streams_assemble(config):
    found = stream_kernel(config, bf16, epilogue=Epilogue(bf16)).resources(M=config.rows, N=4096, K=4096)
    assert found.spill_stores == 0
    assert found.dynamic_shared <= 232448
