"""What tiles cost, and that a quicker one takes the place of the table's."""

import random
import shutil
import warnings

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul import costs  # noqa: E402
from pyptx.kernels._matmul.choice import Problem, estimate, estimate_of, inside  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import Config  # noqa: E402
from pyptx.types import bf16, f32  # noqa: E402

needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="skipped: no ptxas")
MAJORS = [(True, True, True), (True, False, True), (False, True, True), (False, False, True), (True, True, False)]
EACH = [(c, *how) for how in MAJORS for c in costs.tiles(*how)]


def ids(case):
    c, a_k_major, b_k_major, plain = case
    shape = f"{c.bm}x{c.bn}x{c.stages}-{c.cm}x{c.cn}" + "-turned" * c.turned + "-once" * c.once
    return f"{shape}-{'MK' if a_k_major else 'KM'}-{'NK' if b_k_major else 'KN'}" + "-epilogue" * (not plain)


@needs_ptxas
@pytest.mark.parametrize("case", random.Random(0).sample(EACH, 24), ids=ids)
def test_tiles_assemble(case):
    """In shared memory and registers, and with the registers that they ask for."""
    c, a_k_major, b_k_major, plain = case
    epilogue = Epilogue() if plain else Epilogue(bf16, "gelu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = product_kernel(c, bf16, a_k_major, b_k_major, epilogue=epilogue).resources(M=4096, N=4096, K=4096)
    assert found.spill_stores == 0 and found.dynamic_shared <= 232_448


@pytest.mark.parametrize("majors", [(True, True), (True, False), (False, False)], ids=str)
@pytest.mark.parametrize("rows", [64, 128, 192, 256])
def test_tiles_multiply(rows, majors):
    """The one of each height that is copied in the most parts."""
    all_ = [c for c in costs.tiles(*majors, True) if c.bm == rows and c.stages * (c.bm + c.bn) < 1700]
    c = max(all_, key=lambda c: (c.ctas, c.turned, c.bn % 64, c.once, -c.bn))
    a, b = torch.randn(328, 136).bfloat16(), torch.randn(328, 136).bfloat16()
    stored = [each if k_major else each.mT.contiguous() for each, k_major in zip((a, b), majors, strict=True)]
    with pyptx.simulator(check="all"):
        made = product_kernel(c, bf16, *majors)(*stored).double()
    wanted = a.double() @ b.double().mT
    assert float((made - wanted).norm() / wanted.norm()) < 3e-3


MEASURED = [  # M, N, K, whether A is stored (M, K), B (N, K): tiles that were quick, and the one that the table has
    (197, 28672, 4096, True, True, [(128, 208, True)], (128, 224)), (3072, 3584, 14336, True, False, [(128, 224, True), (128, 240, True)], (64, 224)),
    (2880, 4608, 3584, True, True, [(128, 160, True)], (128, 144)), (1750, 8192, 1024, True, False, [(128, 176, True)], (128, 256)),
    (896, 4864, 4000, False, False, [(192, 192, False), (192, 192, True)], (64, 192)), (2560, 2048, 4000, False, False, [(256, 160, False), (256, 160, True)], (128, 160)),
    (3072, 1024, 4096, False, False, [(128, 192, True)], (64, 128)),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k", "a_k_major", "b_k_major", "tiles", "before"), MEASURED, ids=str)
def test_a_quicker_tile_is_chosen(m, n, k, a_k_major, b_k_major, tiles, before):
    p = Problem(m, n, k, None, bf16, bf16, a_k_major, b_k_major)
    table, _ = estimate(m, n, k, 1, 16, b_k_major, plain=a_k_major)
    c, time = estimate_of(p)
    assert (table.bm, table.bn) == before and (c.bm, c.bn, c.turned) in tiles
    assert (
        time
        == costs.microseconds(c, m, n, k, a_k_major if c.turned else b_k_major)
        < costs.GAIN * costs.microseconds(table, m, n, k, b_k_major)
    )
    assert inside(c, p).bm == c.bm


def test_where_the_table_is_not_asked_whether_it_is_right():
    """Batches, other types, gates, rows that begin within a sector, and many waves."""
    for change in (
        {"batch": 2},
        {"out": f32},
        {"epilogue": Epilogue(activation="swiglu")},
        {"a_width": 16},
        {"m": 16384},
    ):
        p = Problem(**{**vars(Problem(3072, 3584, 14336, None, bf16, bf16, b_k_major=False)), **change})
        plain = p.epilogue == Epilogue() and p.out == bf16
        told = {"gated": p.epilogue.gated, "plain": plain, "ragged": (p.a_width == 16, False)}
        assert estimate_of(p) == estimate(p.m, p.n, p.k, p.batch or 1, p.out.bits, False, **told)
    biased = Problem(2880, 4608, 3584, None, bf16, bf16, epilogue=Epilogue(bf16))
    assert not estimate_of(biased)[0].turned and not estimate_of(biased)[0].once


def test_clusters_with_one_tile_run_at_once():
    for c in (Config(64, 96, 8, 1, cm=4, once=True), Config(192, 192, 4, 3, once=True)):
        assert costs.is_taken(c, 30 * c.bm * c.cm, c.bn, 4096)
        assert not costs.is_taken(c, 400 * c.bm * c.cm, c.bn, 4096) and not costs.is_taken(
            c, 30 * c.bm * c.cm, c.bn, 640
        )
    wide, high = Config(64, 128, 8, 1), Config(64, 128, 8, 1, turned=True)
    assert costs.is_taken(high, 300, 3000, 4096) and not costs.is_taken(wide, 300, 3000, 4096)
