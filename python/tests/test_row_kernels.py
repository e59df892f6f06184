"""The kernels over rows against float64: on the simulator, and on a GPU where there is one."""

from __future__ import annotations

import functools
import itertools
import shutil
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")


import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.kernels import _row_function, norm  # noqa: E402
from pyptx.kernels._rows import loops  # noqa: E402
from pyptx.kernels._rows.loops import FEW_WAVES, WAVES, is_small, small_looping, wide_looping  # noqa: E402
from pyptx.kernels._rows.ring import places_of_median  # noqa: E402
from pyptx.kernels._rows.split import LAST_WAVE, Split  # noqa: E402
from pyptx.kernels.column_sums import column_sums  # noqa: E402
from pyptx.kernels.cross_entropy import CROSS_ENTROPY, REDUCED  # noqa: E402
from pyptx.specialise.specialisation import Specialisation  # noqa: E402
from pyptx.types import bf16, f32, s64  # noqa: E402

F = torch.nn.functional
TYPES = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")])  # fmt: skip
devices = pytest.mark.parametrize("device", ["cpu", GPU])
types = pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))


def add_rms_norm(x, residual, w):
    s = x + residual
    return F.rms_norm(s, w.shape, w, 1e-6), s


# Name: (ours, torch's, matrices, vectors)
FUNCTIONS = {
    "rms_norm": (kernels.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), 1, 1),
    "rms_norm_alone": (kernels.rms_norm, lambda x: F.rms_norm(x, x.shape[-1:], None, 1e-6), 1, 0),
    "layer_norm": (kernels.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), 1, 2),
    "layer_norm_without_bias": (kernels.layer_norm, lambda x, w: F.layer_norm(x, w.shape, w), 1, 1),
    "layer_norm_alone": (kernels.layer_norm, lambda x: F.layer_norm(x, x.shape[-1:]), 1, 0),
    "add_rms_norm": (kernels.add_rms_norm, add_rms_norm, 2, 1),
    "softmax": (kernels.softmax, lambda x: x.softmax(-1), 1, 0),
    "log_softmax": (kernels.log_softmax, lambda x: x.log_softmax(-1), 1, 0),
    "swiglu": (kernels.swiglu, lambda gate, up: F.silu(gate) * up, 2, 0),
    "geglu": (kernels.geglu, lambda gate, up: F.gelu(gate) * up, 2, 0),
    "geglu_by_tanh": (
        functools.partial(kernels.geglu, approximate="tanh"),
        lambda gate, up: F.gelu(gate, approximate="tanh") * up,
        2,
        0,
    ),
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


def tensors(name, shape, dtype, device, seed=0):
    _, _, matrices, vectors = FUNCTIONS[name]
    generator = torch.Generator().manual_seed(seed + sum(shape))
    sizes = [shape] * matrices + [shape[-1:]] * vectors
    return [torch.randn(size, generator=generator).to(device, dtype).requires_grad_() for size in sizes]


def distance(got, wanted) -> float:
    return float((got.detach().double() - wanted).norm() / wanted.norm().clamp_min(1e-9))


def compare(name, given, tolerance):
    ours, theirs, *_ = FUNCTIONS[name]
    exact = [each.detach().double().requires_grad_() for each in given]
    got, wanted = ours(*given), theirs(*exact)
    got, wanted = (each if isinstance(each, tuple) else (each,) for each in (got, wanted))
    torch.manual_seed(len(given))
    pulls = [torch.randn_like(each) for each in got]
    gradients = torch.autograd.grad(got, given, pulls)
    expected = torch.autograd.grad(wanted, exact, [pull.double() for pull in pulls])
    for a, b in zip((*got, *gradients), (*wanted, *expected), strict=True):
        assert distance(a, b.detach()) < tolerance
        assert a.shape == b.shape


@devices
@types
@functions
@pytest.mark.parametrize("n", [31, 64, 1000, 2056])
def test_against_float64(name, n, dtype, device):
    compare(name, tensors(name, (5, n), dtype, device), TYPES[dtype])


@devices
@functions
def test_rows_that_do_not_fit_in_registers(name, device):
    compare(name, tensors(name, (2, 40008), torch.bfloat16, device), TYPES[torch.bfloat16])


@functions
@pytest.mark.parametrize("clusters", [False, True])
@pytest.mark.parametrize("n", [32769, 100003, 262144])
def test_rows_above_32_k(name, n, clusters, monkeypatch):
    """Odd and even, by one CTA a row and by clusters, which CPU tensors do not choose."""
    for module in (_row_function, sys.modules["pyptx.kernels.norm"]):
        monkeypatch.setattr(module, "has_clusters", lambda tensor: clusters)
    compare(name, tensors(name, (2, n), torch.bfloat16, "cpu"), TYPES[torch.bfloat16])


@pytest.fixture
def split(monkeypatch):
    """The module that says how threads share a row, as on a GPU with clusters; what a test changes there, kernels made in it know."""
    for module in (_row_function, sys.modules["pyptx.kernels.norm"]):
        monkeypatch.setattr(module, "has_clusters", lambda tensor: True)
    for function in _row_function.FUNCTIONS.values():
        monkeypatch.setattr(function, "made", functools.cache(function.made.__wrapped__))
        monkeypatch.setattr(function, "run_for", functools.cache(function.run_for.__wrapped__))
    return sys.modules["pyptx.kernels._rows.split"]


def few_clusters(monkeypatch, split, count: int):
    monkeypatch.setattr(split, "clusters_of", lambda row, rows, types: count)
    monkeypatch.setattr(split.Split, "workers", lambda row, *_, **told: count)


@pytest.mark.parametrize("name", ["layer_norm", "softmax"])
def test_clusters_that_go_over_rows(name, split, monkeypatch):
    """Rows that two CTAs share, the next ones on their way, what they exchange an odd and an even number of times a row."""
    few_clusters(monkeypatch, split, 1)
    monkeypatch.setattr(split, "SHARE", 24 * 1024)
    for way in ("_packed", "_through_ring"):
        monkeypatch.setattr(split.Split, way, lambda *_: None)
    row = split.Split.wide(20480, 16)
    assert row.ctas == 2 and row.ring and row.loops((bf16,))
    with pyptx.simulator(check="all"):
        compare(name, tensors(name, (4, 20480), torch.bfloat16, "cpu"), TYPES[torch.bfloat16])


@pytest.mark.parametrize("rows", [1, 2, 11])
@pytest.mark.parametrize(
    "name", ["rms_norm", "rms_norm_alone", "layer_norm", "layer_norm_without_bias", "softmax", "log_softmax"]
)
@pytest.mark.parametrize("n, dtype", [(20488, torch.bfloat16), (16388, torch.float32)])
def test_rows_that_are_summed_a_row_ahead(name, n, dtype, rows, split, monkeypatch):
    """By two clusters, of which one has no row, one, or up to six; the last vectors are not those of all threads."""
    few_clusters(monkeypatch, split, 2)
    monkeypatch.setattr(split.Split, "_packed", lambda *_: None)
    bits = torch.finfo(dtype).bits
    for row in (
        split.Split.wide(n, bits),
        split.Split.wide(n, bits, arrays=2),
        wide_looping(n, bits, norm=2),
    ):
        assert row.pipelined and row.ctas > 1 and not row.full(row.each - 1)
    with pyptx.simulator(check="all"):
        compare(name, tensors(name, (rows, n), dtype, "cpu"), TYPES[dtype])


NORMS = pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "layer_norm_without_bias", "add_rms_norm"])


@NORMS
@pytest.mark.parametrize("rows, workers", [(1, 1), (1, 2), (3, 3), (3, 2), (70, 2)])
@pytest.mark.parametrize(
    "n, dtype",
    [
        *((n, torch.bfloat16) for n in (8, 72, 96, 128, 192, 512, 1024, 2568)),
        *((n, torch.float32) for n in (4, 100, 128, 516)),
    ],
)
def test_rows_that_threads_of_a_cta_share(name, n, dtype, rows, workers, split, monkeypatch):
    """Groups of threads have no row, one, or several; with their sums over rows those of the CTA's other groups are added up."""
    few_clusters(monkeypatch, split, workers)
    monkeypatch.setattr(norm, "is_small", lambda *_: False)
    bits = torch.finfo(dtype).bits
    assert wide_looping(n, bits).rows > 1
    with pyptx.simulator(check="all"):
        compare(name, tensors(name, (rows, n), dtype, "cpu"), TYPES[dtype])


@NORMS
@pytest.mark.parametrize("rows", [3, 70])
@pytest.mark.parametrize(
    "n, dtype",
    [(72, torch.bfloat16), (128, torch.float32), (516, torch.float32), (1000, torch.float16), (33, torch.float16)],
)
def test_small_matrices(name, n, dtype, rows, split, monkeypatch):
    """By small CTAs, of which each has a turn, or several."""
    monkeypatch.setattr(split, "MULTIPROCESSORS", 2)
    monkeypatch.setattr(split, "CLUSTERS", {1: 2})
    monkeypatch.setattr(loops, "over_aligned", lambda *_: pytest.fail("not of a small matrix"))
    with pyptx.simulator(check="all"):
        compare(name, tensors(name, (rows, n), dtype, "cpu"), TYPES[dtype])


@NORMS
@pytest.mark.parametrize("turns, more", [(3, 1), (16, 0), (19, 5)])
@pytest.mark.parametrize(
    "n, dtype",
    [(72, torch.bfloat16), (520, torch.bfloat16), (5128, torch.bfloat16), (1028, torch.float32), (2052, torch.float32)],
)
def test_backward_by_waves_of_workers(name, n, dtype, turns, more, split, monkeypatch):
    """Two workers a wave, of so many turns, of few of which there is one wave; each row is met once, and sums have the same bits whichever worker is first."""
    crowd, bits = split.Split.crowd, torch.finfo(dtype).bits
    monkeypatch.setattr(split.Split, "crowd", lambda row, types: 2 if row.waves else crowd(row, types))
    monkeypatch.setattr(split, "MOST_SUMS", 1)
    monkeypatch.setattr(norm, "is_small", lambda *_: False)
    matrices = 4 if name.startswith("add") else 2
    row = wide_looping(n, bits, norm=1 + name.startswith("layer"), matrices=matrices)
    rows, waves = 2 * row.rows * turns + more, len(row.waves) if turns >= 16 else 1
    monkeypatch.setattr(split, "MANY", 2 * row.rows * 16 * n * bits // 8)
    assert not row.waves or row.workers(rows, (bf16 if bits == 16 else f32,) * matrices) == 2 * waves
    given = tensors(name, (rows, n), dtype, "cpu")
    with pyptx.simulator(check="all"):
        compare(name, given, TYPES[dtype])
    found = []
    for seed in (0, 1):
        with pyptx.simulator(seed=seed, schedule="synchronisation"):
            results = FUNCTIONS[name][0](*given)
            results = results if isinstance(results, tuple) else (results,)
            found.append(torch.autograd.grad([each.float().square().sum() for each in results], given))
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("name", ["rms_norm", "add_rms_norm"])
@pytest.mark.parametrize("turns", [3, 19])
def test_backward_by_two_waves_of_three(name, turns, split, monkeypatch):
    """Where a third wave would have too many sums."""
    monkeypatch.setattr(split.Split, "crowd", lambda row, types: 2)
    monkeypatch.setattr(split.Split, "workers", lambda row, *_, **told: 4)
    monkeypatch.setattr(norm, "is_small", lambda *_: False)
    row = wide_looping(520, 16, matrices=4 if name.startswith("add") else 2)
    assert row.waves == WAVES
    with pyptx.simulator(check="all"):
        compare(name, tensors(name, (2 * row.rows * turns + 1, 520), torch.bfloat16, "cpu"), TYPES[torch.bfloat16])


@pytest.mark.parametrize("rows", [1, 2, 20])
def test_forward_by_waves_of_clusters(rows, split, monkeypatch):
    """One cluster a wave; of 20 rows the second has one."""
    monkeypatch.setattr(split, "CLUSTERS", {4: 1})
    monkeypatch.setattr(split, "MANY", 2 * 49160 * 2)
    made = split.Split.wide(49160, 16, norm=2)
    assert (made.ctas, made.waves) == (4, LAST_WAVE) and split.clusters_of(made, rows, (bf16,)) == min(rows, 2)
    x, w, b = tensors("layer_norm", (rows, 49160), torch.bfloat16, "cpu")
    with pyptx.simulator(check="all"):
        y = kernels.layer_norm(x.detach(), w.detach(), b.detach())
    wanted = torch.nn.functional.layer_norm(x.double(), (49160,), w.double(), b.double()).detach()
    assert distance(y, wanted) < TYPES[torch.bfloat16]


@pytest.mark.parametrize("rows", [3, 8, 21])
@pytest.mark.parametrize("n", [129, 1001, 1501, 2047, 5003, 10_001, 20_001])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "layer_norm_without_bias"])
def test_odd_rows_of_workers(name, n, rows, split, monkeypatch):
    """Each worker has rows that begin at the same element of a vector, or none; so do two rows that a cluster keeps together."""
    monkeypatch.setattr(split.Split, "crowd", lambda row, types: 8)
    monkeypatch.setattr(norm, "is_small", lambda *_: False)
    assert wide_looping(n, 16, norm=1 + name.startswith("layer")).edges
    assert Split.wide(n, 16, norm=1).batch == (2 if n == 20_001 else 1)
    with pyptx.simulator(check="all"):
        compare(name, tensors(name, (rows, n), torch.bfloat16, "cpu"), TYPES[torch.bfloat16])


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_odd_rows_of_waves_of_workers(name, split, monkeypatch):
    monkeypatch.setattr(split.Split, "crowd", lambda row, types: 8)
    monkeypatch.setattr(split, "MANY", 0)
    monkeypatch.setattr(split, "MOST_SUMS", 1)
    monkeypatch.setattr(norm, "is_small", lambda *_: False)
    row = wide_looping(1001, 16, norm=1 + name.startswith("layer"))
    assert row.workers(500, (bf16, bf16)) == 16
    with pyptx.simulator(check="all"):
        compare(name, tensors(name, (500, 1001), torch.float16, "cpu"), TYPES[torch.float16])


def test_workers_of_odd_rows():
    """As many begin at each element of a vector."""
    types = bf16, bf16
    for n, which in itertools.product((129, 1001, 2047, 5003, 10_001, 32_003, 65_537, 100_001), (1, 2)):
        for row in (wide_looping(n, 16, norm=which), Split.wide(n, 16, norm=which)):
            if row.pipelined:
                assert row.edges and row.crowd(types) > 0
                assert {row.workers(rows, types) % 8 for rows in (1, 9, 100, 3000, 10**5)} == {0}


def test_which_matrices_are_small():
    """Few columns up to 16 MB, long rows of rms_norm to 8 MB, others to 4 MB; a small CTA of few columns has no worker without rows."""
    for rows, n, bits, of_one, of_two in (
        (65536, 128, 16, True, True),
        (65537, 128, 16, False, False),
        (1024, 4096, 16, True, False),
        (512, 4096, 16, True, True),
        (4097, 512, 16, False, False),
        (64, 8192, 16, True, False),
        (1, 8193, 16, False, False),
        (1024, 1024, 32, True, True),
    ):
        assert [is_small(rows, n, bits, norm) for norm in (1, 2)] == [of_one, of_two]
    few, long = small_looping(128, 16), small_looping(4096, 16)
    assert few.rows == 32 and [few.workers(rows, (bf16, bf16)) for rows in (0, 1, 33, 65536)] == [1, 1, 2, 128]
    assert long.rows == 1 and [long.workers(rows, (bf16, bf16)) for rows in (1, 132, 133, 512)] == [1, 132, 67, 128]


def test_who_comes_in_waves():
    """One CTA a multiprocessor, of enough rows for each; layer_norm of rows that lanes of a warp share does not."""
    waves = {n: wide_looping(n, 16).waves for n in (1024, 8192, 16384, 1001)}
    assert waves == {1024: WAVES, 8192: FEW_WAVES, 16384: (), 1001: LAST_WAVE}
    assert [wide_looping(n, 16, norm=2).waves for n in (256, 264, 4096, 8192)] == [(), *2 * [LAST_WAVE], ()]
    assert [wide_looping(n, 32, norm=2).waves for n in (256, 1024, 2048, 8192)] == [(), *2 * [LAST_WAVE], ()]
    assert [Split.wide(n, 16, norm=2).waves for n in (4096, 32768, 65536, 151936)] == [(), (), *2 * [LAST_WAVE]]
    short, types = wide_looping(1024, 16), (bf16, bf16)
    assert [short.workers(rows, types) for rows in (1, 132, 15 * 2112, 16 * 2112)] == [1, 132, 132, 3 * 132]
    longer = wide_looping(5120, 16)  # of fewer rows the sums would be too many
    assert [longer.workers(rows, types) for rows in (4096, 8192, 16384)] == [128, 2 * 132, 3 * 132]
    forward = Split.wide(65536, 16, norm=2)  # has no sums
    assert [forward.workers(rows, (bf16,), summed=False) for rows in (511, 512)] == [29, 2 * 30]


@NORMS
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize(
    "n, dtype, ctas, threads",
    [
        (392, torch.bfloat16, 1, 32),
        (1000, torch.bfloat16, 1, 64),
        (2568, torch.bfloat16, 1, 192),
        (4104, torch.bfloat16, 2, 160),
        (8200, torch.bfloat16, 2, 128),
        (18432, torch.bfloat16, 2, 384),
        (20480, torch.bfloat16, 2, 256),
        (1028, torch.float32, 1, 256),
        (8192, torch.float32, 2, 512),
    ],
)
def test_backward_a_row_ahead_by_one_cta_and_by_two(name, n, dtype, ctas, threads, rows, split, monkeypatch):
    few_clusters(monkeypatch, split, 2)
    monkeypatch.setattr(norm, "is_small", lambda *_: False)
    row = wide_looping(n, torch.finfo(dtype).bits, norm=2)
    assert row.pipelined and (row.ctas, row.threads) == (ctas, threads)
    assert row.stay == (dtype == torch.bfloat16 and row.values <= 24) and wide_looping(8200, 16, matrices=4).pipelined
    with pyptx.simulator(check="all"):
        compare(name, tensors(name, (rows, n), dtype, "cpu"), TYPES[dtype])


@pytest.mark.parametrize(
    "make, types, norms, values",
    [(norm.rms_norm_backward_kernel, 2, 1, 40), (norm.layer_norm_backward_kernel, 3, 2, 72)],
)
def test_backward_of_norms_with_many_sums_a_thread(make, types, norms, values):
    n, share = 135176, functools.partial(wide_looping, bits=16, norm=norms)
    assert share(n).pipelined and share(n).fits and share(n).values == values
    x, g, w = torch.randn(3, n).bfloat16(), torch.randn(3, n).bfloat16(), torch.randn(n).bfloat16()
    xd, wd, bd = x.double().requires_grad_(), w.double().requires_grad_(), torch.zeros(n).double().requires_grad_()
    y = F.rms_norm(xd, (n,), wd, 1e-6) if norms == 1 else F.layer_norm(xd, (n,), wd, bd)
    wanted = torch.autograd.grad(y, (xd, wd) if norms == 1 else (xd, wd, bd), g.double())
    dx, *sums = make(share, *(bf16,) * types)(x, w, g, P=1)
    for got, want in zip((dx, *(each.sum(0) for each in sums)), wanted, strict=True):
        assert distance(got, want) < TYPES[torch.bfloat16]


@pytest.mark.parametrize(("n", "dtype"), [(66568, torch.bfloat16), (135176, torch.bfloat16), (50180, torch.float32)])
def test_clusters_of_sixteen(n, dtype, split, monkeypatch):
    """Of sums' rows that eight CTAs have no room for: one cluster goes over three, the last vectors of which not all threads have."""
    few_clusters(monkeypatch, split, 1)
    backward = wide_looping(n, torch.finfo(dtype).bits, matrices=4)
    forward = split.Split.wide(n, torch.finfo(dtype).bits, arrays=0)
    assert backward.ctas == 16 and backward.pipelined and forward.fits and (forward.ctas == 16) == (n > 131072)
    with pyptx.simulator(check="all"):
        compare("add_rms_norm", tensors("add_rms_norm", (3, n), dtype, "cpu"), TYPES[dtype])


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="skipped: no ptxas")
@pytest.mark.filterwarnings("ignore:PTX4014")
@pytest.mark.parametrize(
    "n", [64, 96, 256, 1024, 2048, 4096, 5120, 8192, 16384, 65536, 151936, 129, 1001, 2047, 5003, 10001, 32003, 50257]
)
def test_backward_of_norms_is_resident_as_planned(n):
    """As many CTAs as `workers` counts with: no more registers than that leaves, and few spills."""
    ways = wide_looping, *([small_looping] if n <= 8192 else [])
    for way, (make, types, told) in itertools.product(
        ways,
        (
            (norm.rms_norm_backward_kernel, 2, {}),
            (norm.layer_norm_backward_kernel, 3, {"norm": 2}),
            (norm.add_rms_norm_backward_kernel, 3, {"matrices": 4}),
        ),
    ):
        share = functools.partial(way, bits=16, **told)
        found, row = make(share, *(bf16,) * types).resources(N=n, P=60), share(n)
        assert max(1, row.resident) * row.threads * row.rows * found.registers <= 65536
        assert found.spill_stores <= (32 if n < 100_000 else 96)


@pytest.mark.parametrize("name", ["rms_norm_alone", "layer_norm_alone", "softmax", "log_softmax"])
def test_rows_so_long_that_two_barely_have_room(name, split, monkeypatch):
    """One cluster goes over three rows of nine vectors a thread: the row ahead is there as a whole when it is summed."""
    few_clusters(monkeypatch, split, 1)
    n = 135168
    assert split.Split.wide(n, 32).each == 9
    x = torch.randn(3, n)
    with pyptx.simulator(check="all"):
        assert distance(FUNCTIONS[name][0](x), FUNCTIONS[name][1](x.double())) < 3e-6


@pytest.mark.parametrize("bits", [16, 32])
def test_rings_have_room_for_the_row_ahead(bits):
    types = (bf16 if bits == 16 else f32,)
    found = set()
    for n in (*range(64, 500_000, 1000), 131_072, 151_936, 202_048, 262_144):
        for arrays, split in (
            *((arrays, Split.wide(n, bits, arrays=arrays, norm=which)) for arrays in (1, 2) for which in (0, 1, 2)),
            *((2, wide_looping(n, bits, norm=which)) for which in (1, 2)),
        ):
            if split.pipelined:
                found.add(split.each)
                assert split.places(types * arrays) > 2 * split.each
    assert len(found) > 5


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    "n, dtype",
    [
        (12296, torch.bfloat16),
        (20488, torch.bfloat16),
        (49144, torch.bfloat16),
        (12292, torch.float32),
        (20484, torch.float32),
    ],
)
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "softmax", "log_softmax"])
def test_rows_that_stay_packed(name, n, dtype, rows, split):
    """In registers as they lie in memory, of a CTA or of a cluster; of norms also two rows together, of which the last may be missing."""
    row = split.Split.wide(
        n, torch.finfo(dtype).bits, norm=["softmax", "rms_norm", "layer_norm"].index(name.removeprefix("log_"))
    )
    half = dtype is torch.bfloat16
    long = name != "rms_norm" or n > 16384 or not half
    pairs = {"rms_norm": n > 16384 if half else n < 65536, "layer_norm": not half and n <= 16384}
    assert row.packed == long and row.batch == (2 if pairs.get(name) and n < 32768 else 1)
    assert row.ctas > 1 or not long or (half and (n < 16384 or (name == "layer_norm" and n == 20488)))
    with pyptx.simulator(check="all"):
        compare(name, tensors(name, (rows, n), dtype, "cpu"), TYPES[dtype])


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "softmax"])
def test_long_rows_have_the_same_bits_under_every_schedule(name, ahead, split, monkeypatch):
    """Also the sums over rows, of two workers."""
    few_clusters(monkeypatch, split, 2)
    if ahead:
        monkeypatch.setattr(split.Split, "_packed", lambda *_: None)
    given = tensors(name, (5, 20480), torch.bfloat16, "cpu")
    found = []
    for seed in (0, 1, 2):
        with pyptx.simulator(seed=seed, schedule="synchronisation"):
            result = FUNCTIONS[name][0](*given)
            found.append((result, *torch.autograd.grad(result.float().square().sum(), given)))
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@pytest.mark.parametrize(
    "n, dtype",
    [
        (8192, torch.bfloat16),
        (20480, torch.bfloat16),
        (20484, torch.float32),
        (30001, torch.bfloat16),
        (40012, torch.bfloat16),
        (40020, torch.float32),
    ],
)
def test_cross_entropy_of_long_rows(n, dtype, split):
    """The thread that has the true column writes it twice; probabilities of f32 beside logits of 16 bits; rows that are read once, of a number of vectors
    that neither the threads nor what is on its way divides."""
    x = torch.randn(5, n, generator=torch.Generator().manual_seed(n)).to(dtype).requires_grad_()
    exact = x.detach().double().requires_grad_()
    indices = torch.tensor([0, n - 1, n // 2, -100, 12345 % n])
    with pyptx.simulator(check="all"):
        for target, weight in ((indices, None), (indices, torch.rand(n) + 0.5), (torch.rand(5, n).softmax(-1), None)):
            smoothing = 0.1 if weight is not None else 0.0
            got = kernels.cross_entropy(x, target, weight, reduction="none", label_smoothing=smoothing)
            doubles = [
                each.double() if each is not None and each.is_floating_point() else each for each in (target, weight)
            ]
            wanted = F.cross_entropy(exact, *doubles, reduction="none", label_smoothing=smoothing)
            ours, theirs = torch.autograd.grad(got.sum(), x)[0], torch.autograd.grad(wanted.sum(), exact)[0]
            assert distance(got, wanted.detach()) < 1e-5 and distance(ours, theirs) < TYPES[dtype]


@pytest.mark.parametrize(("n", "late"), [(1024, False), (5120, False), (8192, False), (32768, True), (151936, True)])
def test_the_kernel_behind_long_losses_begins_late(n, late):
    """Where a multiprocessor has all rows at one time, what begins before they have been read is not spread evenly."""
    text = CROSS_ENTROPY.kernel(bf16, s64, wide=True).ptx(N=n)
    begins = text.index("griddepcontrol.launch_dependents")
    assert (begins > text.rindex("cp.async.wait_group")) if late else (begins < text.index("ld.global"))
    assert ("cp.async" in text) == (n > 5120)


@pytest.mark.parametrize(("n", "most"), [(4096, None), (8192, 1024), (16384, 512), (151936, 55)])
def test_the_gradient_of_few_long_losses_ends_before_the_kernel_behind_begins(n, most):
    backward = REDUCED.made((bf16, s64, None, f32), True, False)[1].ptx(N=n)
    (begins,) = [line.strip() for line in backward.splitlines() if "launch_dependents" in line]
    assert begins.startswith("@") == (most is not None)
    assert most is None or f", {most};" in next(line for line in backward.splitlines() if "setp.gt.u32" in line)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="skipped: no ptxas")
@pytest.mark.parametrize(
    "make, types, told",
    [
        (norm.rms_norm_backward_kernel, 2, {}),
        (norm.layer_norm_backward_kernel, 3, {"norm": 2}),
        (norm.add_rms_norm_backward_kernel, 3, {"matrices": 4, "kept_f32": 24}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_longest_rows_stay_in_registers(make, types, told):
    """Where sums are in memory: loops over a row that the assembler writes out hold more than it has registers for, 2 KB of a thread."""
    kernel = make(functools.partial(wide_looping, bits=32, **told), *(f32,) * types)
    for n in (202048, 262144):
        assert not wide_looping(n, 32, **told).fits
        found = kernel.resources(N=n, P=60)
        assert found.spill_stores + found.spill_loads <= 32


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="skipped: no ptxas")
@pytest.mark.filterwarnings("ignore:PTX4014")
def test_weights_of_float32_beside_rows_of_16_bits_stay_in_registers():
    kernel = norm.LAYER_NORM.kernel(bf16, f32, f32, wide=True)
    for n in (40960, 65536):
        found = kernel.resources(N=n)
        assert found.spill_stores + found.spill_loads <= 64


@pytest.mark.parametrize("function", [kernels.softmax, kernels.log_softmax])
@pytest.mark.parametrize("n", [16384, 40000])
def test_long_rows_to_float32(function, n, split):
    """The gradient has twice the bits of x."""
    x = torch.randn(2, n, generator=torch.Generator().manual_seed(n)).bfloat16().requires_grad_()
    exact, pull = x.detach().double().requires_grad_(), torch.randn(2, n)
    with pyptx.simulator(check="all"):
        got = function(x, dtype=torch.float32)
        wanted = getattr(torch, function.__name__)(exact, -1)
        ours, theirs = torch.autograd.grad(got, x, pull)[0], torch.autograd.grad(wanted, exact, pull.double())[0]
    assert distance(got, wanted.detach()) < 3e-6 and distance(ours, theirs) < TYPES[torch.bfloat16]


@pytest.mark.parametrize("n", [5, 4096, 16384, 16390, 65540])
@pytest.mark.parametrize("rows", [1, 40, 150])
@pytest.mark.parametrize("told", [{}, {"hopper": True, "small": True}], ids=str)
def test_column_sums(n, rows, told):
    """Of two matrices at one time: each as by itself."""
    x, y = torch.randn(rows, n), torch.randn(rows, n)
    with pyptx.simulator(check="all"):
        first, second = column_sums(f32, bf16, **told)(x, y)
        assert torch.equal(first, column_sums(f32, **told)(x))
    assert distance(first, x.double().sum(0)) < 1e-6 and distance(second, y.double().sum(0)) < TYPES[torch.bfloat16]


def test_column_sums_of_memory_that_no_vector_begins_at():
    with (
        pyptx.simulator(),
        pytest.raises(LaunchValueError, match="`X`: its data is aligned to only 4 bytes, the kernel needs 16"),
    ):
        column_sums(f32)(torch.zeros(33)[1:].view(4, 8))


@functions
@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (0, 0), (1, 8), (70_000, 4)])
def test_any_number_of_rows(name, shape):
    given = tensors(name, shape, torch.float32, "cpu")
    if 0 in shape:
        got = FUNCTIONS[name][0](*given)
        got = got if isinstance(got, tuple) else (got,)
        assert all(each.shape == shape for each in got)
        gradients = torch.autograd.grad(got, given, [torch.ones(shape) for _ in got])
        assert all(each.shape == one.shape and not each.any() for each, one in zip(gradients, given, strict=True))
    else:
        compare(name, given, 3e-5)


@devices
@functions
@pytest.mark.parametrize("n", [3, 7, 24, 64, 72, 200])
def test_rows_that_share_a_warp(name, n, device):
    for rows in (1, 37):
        compare(name, tensors(name, (rows, n), torch.bfloat16, device), 2 * TYPES[torch.bfloat16])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")
@types
@functions
@pytest.mark.parametrize(
    "shape", [(300, 8192), (400, 16384), (300, 65536), (200, 128256), (3, 262144), (20, 50257), (3, 8), (1, 20000)]
)
def test_long_rows(name, shape, dtype):
    subnormal = name == "softmax" and dtype is torch.float16 and shape[1] > 16384
    compare(name, tensors(name, shape, dtype, "cuda"), 0.1 if subnormal else 2 * TYPES[dtype])


@devices
def test_far_from_zero_and_with_an_outlier(device):
    x = torch.randn(4, 4096, device=device) + 1000
    assert distance(kernels.layer_norm(x), F.layer_norm(x.double(), (4096,))) < 3e-5
    x = torch.randn(4, 4096, device=device)
    x[:, places_of_median(4096)[0]] = 1e4
    assert distance(kernels.layer_norm(x), F.layer_norm(x.double(), (4096,))) < 3e-6


@devices
@pytest.mark.parametrize("n", [90, 768, 4096, 65536])
def test_layer_norm_of_what_has_a_border(n, device):
    """The first, the middle and the last element of an image of two channels lie on its border."""
    x = torch.randn(2, n, device=device) + 1000
    x[:, [0, n // 2, n - 1]] = 0
    x.requires_grad_()
    exact, g = x.detach().double().requires_grad_(), torch.randn(2, n, device=device)
    got, wanted = kernels.layer_norm(x), F.layer_norm(exact, (n,))
    assert distance(got.detach(), wanted.detach()) < 1e-6
    assert distance(*(torch.autograd.grad(y, at, g)[0] for y, at in ((got, x), (wanted, exact)))) < 1e-6


@devices
def test_softmax_of_infinities(device):
    inf = torch.inf
    x = torch.tensor([[1.0, -inf, 1.0], [-inf, -inf, -inf], [inf, 0.0, 1.0], [torch.nan, 0.0, 1.0]], device=device)
    torch.testing.assert_close(kernels.softmax(x), x.softmax(-1), equal_nan=True)
    torch.testing.assert_close(kernels.log_softmax(x), x.log_softmax(-1), equal_nan=True)


@devices
@types
@pytest.mark.parametrize("n", [10, 64, 1000, 40008])
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
def test_cross_entropy(n, dtype, index, device):
    x = torch.randn(3, 2, n, generator=torch.Generator().manual_seed(n)).to(device, dtype).requires_grad_()
    target = torch.tensor([[0, n - 1], [-100, 5], [3, 7]], device=device)
    for reduction in ("mean", "sum", "none"):
        exact = x.detach().double().requires_grad_()
        got = kernels.cross_entropy(x, target.to(index), reduction=reduction)
        wanted = F.cross_entropy(exact.view(-1, n), target.view(-1), reduction=reduction)
        assert got.dtype is torch.float32 and distance(got.flatten(), wanted.detach().flatten()) < 1e-5
        ours, theirs = torch.autograd.grad(got.sum(), x)[0], torch.autograd.grad(wanted.sum(), exact)[0]
        assert distance(ours, theirs) < TYPES[dtype]
    with pytest.raises(ValueError, match="reduction is 'mean', 'sum' or 'none', not 'max'"):
        kernels.cross_entropy(x, target, reduction="max")


@devices
def test_masked_logits(device):
    x = torch.randn(2, 40008, device=device)
    x[0, :39000] = -torch.inf  # whole threads see nothing else at first
    target = torch.tensor([39500, 1], device=device)
    torch.testing.assert_close(kernels.cross_entropy(x, target), F.cross_entropy(x, target))


@devices
def test_weights_of_another_type(device):
    x, w = torch.randn(4, 256, device=device).bfloat16(), torch.randn(256, device=device)
    assert distance(kernels.rms_norm(x, w), F.rms_norm(x.double(), (256,), w.double(), 1e-6)) < 5e-3


@devices
def test_any_strides_and_out(device):
    x, w = torch.randn(6, 10, 64, device=device), torch.randn(64, device=device)
    wanted = F.rms_norm(x, (64,), w, 1e-6)
    torch.testing.assert_close(kernels.rms_norm(x.transpose(0, 1), w), wanted.transpose(0, 1))
    torch.testing.assert_close(kernels.rms_norm(x[:, ::2], w), wanted[:, ::2])
    flat = torch.randn(1 + 640, device=device)[1:].view(10, 64)  # 4 bytes off
    torch.testing.assert_close(kernels.rms_norm(flat, w), F.rms_norm(flat, (64,), w, 1e-6))
    out = torch.empty_like(x)
    assert kernels.rms_norm(x, w, out=out) is out
    torch.testing.assert_close(out, wanted)


@pytest.mark.parametrize("n", [100, 1000], ids=["a_warp_a_row", "a_cta_a_row"])
@pytest.mark.parametrize("function", [kernels.rms_norm, kernels.layer_norm, kernels.softmax])
def test_the_result_in_the_place_of_the_rows(function, n):
    """All threads of a row read some elements of layer_norm's, which one of them overwrites."""
    x = torch.randn(6, n)
    wanted = function(x)
    with pyptx.simulator(check="all"):
        function(x, out=x)
    assert torch.equal(x, wanted)


@devices
@functions
def test_compiled(name, device):
    torch.compiler.reset()
    ours, _, *_ = FUNCTIONS[name]
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    for rows in (3, 4, 5):
        given = tensors(name, (rows, 64), torch.float32, device)
        torch.testing.assert_close(compiled(*given), ours(*given))
    given = tensors(name, (2, 3, 64), torch.float32, device)
    result = compiled(*given)
    pulls = torch.autograd.grad(sum(each.sum() for each in (result if isinstance(result, tuple) else (result,))), given)
    assert all(pull.shape == each.shape for pull, each in zip(pulls, given, strict=True))


@devices
def test_vmap(device):
    x, w = torch.randn(3, 4, 64, device=device), torch.randn(64, device=device)
    torch.testing.assert_close(torch.vmap(kernels.rms_norm, (0, None))(x, w), kernels.rms_norm(x, w))
    torch.testing.assert_close(torch.vmap(kernels.softmax)(x), kernels.softmax(x))


def test_of_jax():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    x = jax.random.normal(jax.random.key(0), (2, 3, 100))
    np.testing.assert_allclose(kernels.softmax(x), jax.nn.softmax(x), rtol=1e-5, atol=1e-6)
    ours, theirs = (
        jax.jit(jax.grad(lambda x, f=f: (f(x) ** 2).sum()))(x) for f in (kernels.log_softmax, jax.nn.log_softmax)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_of_numpy():
    x = np.random.default_rng(0).standard_normal((4, 6, 64), dtype=np.float32)
    np.testing.assert_allclose(
        kernels.softmax(x[:, ::2]), torch.from_numpy(x[:, ::2].copy()).softmax(-1), rtol=1e-5, atol=1e-6
    )


def test_callers_are_not_warned():
    """Of what the assembler says of the speed of the library's kernels; of others they are."""
    from types import SimpleNamespace

    from pyptx.launch import resources

    def remark(file):
        return SimpleNamespace(severity="note", code=4014, message="spills", file=file, line=1, notes=["fewer stages"])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resources.warn([remark(sys.modules["pyptx.kernels.norm"].__file__)])
    with pytest.warns(pyptx.errors.PerformanceWarning, match="PTX4014 spills; fewer stages"):
        resources.warn([remark("/home/me/kernels/norm.py")])


def test_refusals():
    x = torch.randn(4, 8)
    with pytest.raises(LaunchTypeError, match="rms_norm: `x` is of float64; legal are float32, float16, bfloat16"):
        kernels.rms_norm(x.double())
    with pytest.raises(LaunchValueError, match=r"rms_norm: `weight` has shape \(4,\), not \(8,\)"):
        kernels.rms_norm(x, torch.ones(4))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")
@functions
@pytest.mark.parametrize("shape", [(2000, 4096), (300, 65536), (20000, 96)])
def test_the_same_bits_every_time(name, shape):
    given = tensors(name, shape, torch.bfloat16, "cuda")
    first = None
    for _ in range(100):
        results = FUNCTIONS[name][0](*given)
        results = results if isinstance(results, tuple) else (results,)
        now = (*results, *torch.autograd.grad([each.float().sum() for each in results], given))
        first = first or now
        assert all(torch.equal(a, b) for a, b in zip(first, now, strict=True))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")
@functions
@pytest.mark.parametrize("shape", [(500, 2048), (60, 65536), (70000, 128)])
def test_eight_streams_at_once(name, shape):
    """Forward and backward of eight inputs, each on a stream of its own, all in flight: the bits of one alone."""

    def run(given):
        results = FUNCTIONS[name][0](*given)
        results = results if isinstance(results, tuple) else (results,)
        return *results, *torch.autograd.grad([each.float().sum() for each in results], given)

    inputs = [tensors(name, shape, torch.bfloat16, "cuda", seed) for seed in range(8)]
    wanted = [run(each) for each in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    found = [[] for _ in inputs]
    for _ in range(10):
        for stream, tensors_of, kept in zip(streams, inputs, found, strict=True):
            with torch.cuda.stream(stream):
                kept.append(run(tensors_of))
    torch.cuda.synchronize()
    for kept, alone in zip(found, wanted, strict=True):
        assert all(torch.equal(a, b) for once in kept for a, b in zip(once, alone, strict=True))


@pytest.mark.parametrize("n", [8190, 12294, 16382])
def test_backward_of_norms_with_32_elements_a_thread(n):
    share = functools.partial(wide_looping, bits=16, matrices=4)  # as of add_rms_norm
    assert share(n).ctas == 1 and share(n).threads * 32 >= n
    x, g, w = torch.randn(5, n).bfloat16(), torch.randn(5, n).bfloat16(), torch.randn(n).bfloat16()
    xd, wd, bd = x.double().requires_grad_(), w.double().requires_grad_(), torch.zeros(n).double().requires_grad_()
    rms = torch.autograd.grad(F.rms_norm(xd, (n,), wd, 1e-6), (xd, wd), g.double())
    layer = torch.autograd.grad(F.layer_norm(xd, (n,), wd, bd), (xd, wd, bd), g.double())
    for make, types, wanted in (
        (norm.rms_norm_backward_kernel, (bf16,) * 2, rms),
        (norm.layer_norm_backward_kernel, (bf16,) * 3, layer),
    ):
        dx, *sums = make(share, *types)(x, w, g, P=2)
        for got, want in zip((dx, *(each.sum(0) for each in sums)), wanted, strict=True):
            torch.testing.assert_close(got.double(), want, atol=0.03, rtol=0.02)


@pytest.mark.parametrize("columns", [64, 40000])
def test_softmax_of_rows_that_are_masked_whole(columns):
    lowest = torch.full((2, columns), torch.finfo(torch.float32).min)
    assert torch.allclose(kernels.softmax(lowest), torch.full_like(lowest, 1 / columns))
    assert kernels.softmax(torch.full_like(lowest, -torch.inf)).isnan().all()
    losses = kernels.cross_entropy(lowest, torch.zeros(2, dtype=torch.long), reduction="none")
    assert torch.allclose(losses, torch.log(torch.tensor(float(columns))))


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "add_rms_norm", "softmax", "swiglu"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_one_text_for_all_numbers_of_rows(name, target, monkeypatch):
    """Steps of training differ in their rows; to assemble again would take longer than the step."""
    texts, plan = set(), Specialisation.plan
    monkeypatch.setattr(Specialisation, "plan", lambda self, *given: texts.add(self.text()) or plan(self, *given))
    ours, _, matrices, vectors = FUNCTIONS[name]
    with kernels.simulated_target(target):
        for rows in (3, 4, 21, 130, 134):
            given = [torch.randn(rows, 264, requires_grad=True) for _ in range(matrices)]
            given += [torch.randn(264, requires_grad=True) for _ in range(vectors)]
            made = ours(*given)
            made = made if isinstance(made, tuple) else (made,)
            torch.autograd.grad(sum(each.square().sum() for each in made), given)
    assert 0 < len(texts) <= 3  # forward, backward, sums of its workers
