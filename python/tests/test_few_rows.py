"""Products of few rows: `kernels.matmul` and `kernels.grouped_matmul` where weights are read once, on the simulator, and what is chosen."""

from __future__ import annotations

import itertools
import linecache
import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402
from pyptx import assembler, kernels  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul.calls_in_torch import Call, contiguous  # noqa: E402
from pyptx.kernels._matmul.choice import (  # noqa: E402
    BLOCKS,
    OF_LINES,
    Problem,
    grouped_kernel,
    kernel_of,
    lies_by_columns,
    stream_of,
)
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.launches import launches_of  # noqa: E402
from pyptx.kernels._matmul.stream import StreamConfig, stream_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import CLUSTERS, Config  # noqa: E402
from pyptx.types import bf16, e4m3, f32, s8, s32  # noqa: E402

needs_ptxas = pytest.mark.skipif(
    not any(row.name.startswith("ptxas") and "PTX up to" in row.name for row in assembler.found()),
    reason="skipped: no ptxas",
)

OF_BYTES = (
    (StreamConfig.of(8, 1, 64), (3, 100, 288)),
    (StreamConfig.of(32, 2, 64, 1, 2), (20, 130, 256)),
    (StreamConfig.of(40, 3, 48, tall=True), (37, 100, 640)),
    (StreamConfig.of(64, 1, 128, 4), (60, 258, 128)),
)


@pytest.mark.parametrize(("config", "sizes"), OF_BYTES, ids=str)
def test_streams_of_int8(config, sizes):
    m, n, k = sizes
    a, b = (torch.randint(-128, 128, (rows, k), dtype=torch.int8) for rows in (m, n))
    got = stream_kernel(config, s8, True, s32, whole=n % 4 == 0)(a, b)
    assert torch.equal(got.long(), a.long() @ b.long().mT)


def test_few_rows_of_int8_are_a_stream_that_wgmma_takes():
    """Many columns of wgmma are a multiple of 16 where elements are int8."""
    for m, n, k in itertools.product(range(1, 129), (1000, 1024, 1536, 2112, 4096, 5120, 6144, 16400), (512, 4096)):
        c = stream_of(m, n, k, unit=16)
        columns = c.bn if c.tall else c.rows
        assert columns % 16 == 0 or columns in (8, 24), (m, n, k)
    with kernels.simulated_target("sm_90a"):
        for m in (1, 32, 37, 128):
            made = kernel_of(Problem(m, 1536, 4096, None, s8, s32, on_gpu=False))
            assert (
                "wgmma.mma_async.sync.aligned.m64n" in made.ptx(M=m, N=1536, K=4096)
                and made.__name__ == "stream_matmul"
            )


OF_COLUMNS = (
    (StreamConfig.of(8, 1, 64), (3, 100, 96)),
    (StreamConfig.of(16, 2, 64, 1, 2, deep=2), (11, 128, 200)),
    (StreamConfig.of(64, 1, 128, 4), (60, 260, 68)),
)


@pytest.mark.parametrize(("config", "sizes"), OF_COLUMNS, ids=str)
def test_streams_of_f32_whose_columns_lie_side_by_side(config, sizes):
    m, n, k = sizes
    a, b = torch.randn(m, k), torch.randn(k, n)
    wanted = a.double() @ b.double()
    assert (stream_kernel(config, f32, False, f32)(a, b) - wanted).norm() < 1e-3 * wanted.norm()


def test_few_rows_of_f32_take_b_as_it_lies():
    a, b, bias = torch.randn(5, 64), torch.randn(64, 516), torch.randn(516)
    with kernels.simulated_target("sm_90a"):
        assert lies_by_columns(Problem(5, 516, 64, None, f32, f32, b_k_major=False, on_gpu=False))
        assert not lies_by_columns(Problem(5, 508, 1032, None, f32, f32, b_k_major=False, on_gpu=False))  # few CTAs
        assert not lies_by_columns(Problem(129, 516, 64, None, f32, f32, b_k_major=False, on_gpu=False))
        call = Call((a, b, bias, None, None, None), "relu", None)
        assert call.kernel.__name__ == "stream_matmul" and not call.seen[1].steps
        found = {"torch": kernels.matmul(a, b, bias=bias, activation="relu")}
        found["numpy"] = torch.from_numpy(kernels.matmul(a.numpy(), b.numpy(), bias=bias.numpy(), activation="relu"))
    wanted = (a.double() @ b.double() + bias).relu()
    for name, made in found.items():
        assert (made - wanted).norm() < 1e-3 * wanted.norm(), name


@needs_ptxas
@pytest.mark.parametrize("m", [1, 16, 32, 64, 128])
@pytest.mark.parametrize(("dtype", "out", "b_k_major", "unit"), [(f32, f32, False, 8), (s8, s32, True, 16)], ids=str)
def test_streams_of_other_types_assemble(m, dtype, out, b_k_major, unit):
    for n in (1536, 4096, 6144, 32768):
        c = stream_of(m, n, 4096, b_k_major, unit)
        found = stream_kernel(c, dtype, b_k_major, out).resources(M=c.rows, N=n, K=4096)
        assert found.spill_stores == 0 and found.dynamic_shared <= 232448


def test_a_product_with_an_odd_number_of_columns_has_no_copies():
    with kernels.simulated_target("sm_90a"):
        p = Problem(16, 4095, 4096, None, bf16, bf16, out_width=2, on_gpu=False)
        assert launches_of(p).__name__ == "stream_matmul"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("filled", [[], [0], [99], [31, 32], [5, 63, 64, 98], list(range(100))], ids=str)
def test_groups_without_rows_are_passed_over(filled, masked):
    """Of 100 groups some have rows: none, the first, the last, at the borders of words of bits."""
    counts = torch.zeros(100, dtype=torch.int32)
    counts[filled] = torch.randint(1, 9, (len(filled),), dtype=torch.int32)
    b, rows = torch.randn(100, 64, 72).bfloat16(), 8 if masked else int(counts.sum()) + 3
    shape = (100, rows, 72) if masked else (rows, 72)
    a = torch.randn(*shape[:-1], 64).bfloat16()
    ends = counts if masked else counts.cumsum(0).int()
    before = torch.randn(shape).bfloat16()
    with kernels.simulated_target("sm_90a"):
        out = kernels.grouped_matmul(a, b, **{"counts" if masked else "offs": ends}, out=before.clone())
    wanted = before.clone()
    for e in filled:
        there = (e, slice(0, counts[e])) if masked else slice(ends[e] - counts[e], ends[e])
        wanted[there] = (a[there].float() @ b[e].float()).bfloat16()
    torch.testing.assert_close(out, wanted, rtol=2e-2, atol=2e-1)


def test_groups_are_cut_for_no_more_than_have_rows():
    """Eight rows of 128 experts leave most multiprocessors without a tile if these are wide."""
    with kernels.simulated_target("sm_90a"):
        made = grouped_kernel((8, 2048), 128, 1536, "bfloat16", True, 32, 32, False)
        assert made is grouped_kernel((8, 2048), 8, 1536, "bfloat16", True, 32, 32, False)


def warps_that_multiply(kernel, *given) -> int:
    """How often a warp executed wgmma."""
    with pyptx.simulator(lines=True) as run:
        kernel(*given)
    return sum(
        each.instructions for each in run.lines() if "wgmma.mma_async" in linecache.getline(each.file, each.line)
    )


@pytest.mark.parametrize("cn", [1, 2])
def test_the_lower_half_of_a_tile_is_passed_over(cn):
    """Of four tiles of three steps of four wgmma: the second warpgroup multiplies in the first step, whose place is not yet known."""
    kernel = product_kernel(Config(128, 64, 2, cn=cn), bf16, grouped=True, masked=True)
    a, b = torch.randn(256, 136).bfloat16(), torch.randn(2, 128, 136).bfloat16()
    for rows, steps in ((64, 4), (65, 6)):
        given = a, b, torch.tensor([rows, rows], dtype=torch.int32)
        assert warps_that_multiply(kernel, *given) == 2 * 2 * steps * 4 * 4
        made = kernel(*given)
        for e, first in enumerate((0, 128)):
            wanted = a[first : first + rows].double() @ b[e].double().mT
            assert (made[first : first + rows] - wanted).norm() < 5e-3 * wanted.norm()


def test_the_lower_half_of_a_tile_with_scales_of_blocks_is_passed_over():
    kernel = product_kernel(BLOCKS, e4m3, epilogue=Epilogue(scales="block", by_rows=True), grouped=True, masked=True)
    a, b = (torch.randn(shape).to(torch.float8_e4m3fn) for shape in ((256, 640), (2, 256, 640)))
    one, two = torch.rand(256, 5) + 0.5, torch.rand(2, 5, 2) + 0.5
    found = []
    for counts in ([64, 3], [70, 128]):
        given = a, b, one, two, torch.tensor(counts, dtype=torch.int32)
        found.append(warps_that_multiply(kernel, *given))
        made = kernel(*given)
        for e, (first, end) in enumerate(((0, counts[0]), (128, 128 + counts[1]))):
            wide = a[first:end].double() * one[first:end].repeat_interleave(128, 1)
            scales = two[e].repeat_interleave(128, 0).repeat_interleave(128, 1)
            wanted = wide @ (b[e].double().mT * scales)
            assert (made[first:end] - wanted).norm() < 5e-3 * wanted.norm()
    assert found == [2 * 2 * 4 * 4 * (5 + 2), 2 * 2 * 4 * 4 * (5 + 5)]


def test_parts_of_few_columns():
    """As many parts of K as were measured to take least, up to eight; no part has less than 512 of K."""
    wanted = {256: 8, 512: 6, 1024: 6, 1408: 5, 1664: 5, 1728: 4}
    assert {n: stream_of(16, n, 8192).parts for n in wanted} == wanted
    assert stream_of(16, 1024, 2048).parts == 4 and stream_of(16, 256, 4095).parts < 8


@pytest.mark.parametrize("parts", [5, 6, 7, 8])
@pytest.mark.parametrize("k", [64, 1000])
def test_more_than_four_parts(parts, k):
    """Some have nothing to add up."""
    a, b = torch.randn(13, k).bfloat16(), torch.randn(140, k).bfloat16()
    made = stream_kernel(StreamConfig.of(16, parts, 64, late=True, deep=2, ahead=1), bf16)(a, b)
    wanted = a.double() @ b.double().mT
    assert (made - wanted).norm() < 5e-3 * wanted.norm()


@pytest.mark.parametrize("n", [17000, 28672, 32000, 50256, 128256, 151936])
def test_ctas_that_share_rows_leave_no_wave_nearly_empty(n):
    for m, shares in ((64, (1, 2, 4)), (100, (1, 2))):
        waves = [-(-n // (128 * share)) / CLUSTERS[share] for share in shares]
        filled = {share: each / math.ceil(each) for share, each in zip(shares, waves, strict=True)}
        assert filled[stream_of(m, n, 4096).share] == max(filled.values())


def test_clusters_that_share_rows_run_at_once():
    kernel = stream_kernel(StreamConfig.of(64, 1, 128, 4), bf16)
    assert kernel.grid(N=128256) == (30 * 4, 1, 1)


def test_many_columns_of_nearly_128_rows_are_wide_tiles():
    def made(m, n, dtype=bf16):
        with kernels.simulated_target("sm_90a"):
            return kernel_of(Problem(m, n, 4096, None, dtype, bf16, on_gpu=False)).__name__

    assert [made(112, 32000), made(128, 16384), made(128, 32000, e4m3)] == ["stream_matmul"] * 3
    assert [made(113, 32000), made(128, 128256)] == ["matmul"] * 2


@pytest.mark.parametrize("b_k_major", [False, True])
def test_lines_of_a_batch(b_k_major):
    a, b = torch.randn(3, 7, 520).bfloat16(), torch.randn(3, 136, 520).bfloat16()
    wanted = a.double() @ b.double().mT
    for config in OF_LINES:
        made = product_kernel(config, bf16, True, b_k_major, bf16, 1)(a, b if b_k_major else b.mT.contiguous())
        assert (made - wanted).norm() < 5e-3 * wanted.norm()
    with kernels.simulated_target("sm_90a"):
        p = Problem(7, 4096, 4096, 8, bf16, bf16, b_k_major=b_k_major, on_gpu=False)
        for m, config in ((16, OF_LINES[0]), (17, OF_LINES[1])):
            assert kernel_of(replace(p, m=m)) is product_kernel(config, bf16, True, b_k_major, bf16, True)
        for other in (replace(p, m=33), replace(p, batch=2), replace(p, epilogue=Epilogue(bf16))):
            assert kernel_of(other) is not kernel_of(p)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("rows", [3, 11, 17, 40, 56])
def test_few_rows_of_all_groups_are_copied_alone(rows, scaled):
    """So that no copy fills others with zeros, of which there would be 53 with eleven rows."""
    ends, k = torch.tensor([2, 2, rows - 1, rows], dtype=torch.int32), 384
    a, b = torch.randn(rows, k), torch.randn(4, k, 256)
    with kernels.simulated_target("sm_90a"):
        if scaled:
            a, b = a.to(torch.float8_e4m3fn), b.mT.to(torch.float8_e4m3fn).mT
            one, two = torch.rand(rows, 3) + 0.5, torch.rand(4, 3, 2) + 0.5
            made = kernels.grouped_matmul(a, b, ends, scale_a=one, scale_b=two)
            a, b = (
                a.float() * one.repeat_interleave(128, 1),
                b.float() * two.repeat_interleave(128, 1).repeat_interleave(128, 2),
            )
        else:
            a, b = a.bfloat16(), b.bfloat16()
            made = kernels.grouped_matmul(a, b, ends)
        kernel = grouped_kernel((rows, k), 4, 256, "float8_e4m3fn" if scaled else "bfloat16", True, 32, 32, False)
        assert kernel.in_specs[0].tma_box[-2] == "M"
    for e, (first, end) in enumerate(zip([0, *ends], ends, strict=False)):
        wanted = a[first:end].double() @ b[e].double()
        assert (made[first:end] - wanted).norm() <= 5e-3 * wanted.norm()


def test_where_a_part_of_a_tile_is_copied():
    for config, grouped in (
        (Config(128, 64, 4, few=True), True),
        (Config(64, 64, 4, consumers=1, few=True), False),
        (Config(64, 64, 4, consumers=1, cn=2, few=True), True),
    ):
        with pytest.raises(ValueError, match="a part of a tile's rows is copied of groups"):
            product_kernel(config, bf16, grouped=grouped)


def test_few_rows_of_a_batch_of_f32_take_b_as_it_lies():
    a, b, residual = torch.randn(11, 6, 2, 30), torch.randn(11, 6, 30, 132), torch.randn(11, 6, 2, 132)
    with kernels.simulated_target("sm_90a"):
        call = Call((a, b, None, residual, None, None), "silu", None)
        assert call.kernel.__name__ == "vector_matmul" and not any(step is contiguous for step in call.seen[1].steps)
        made = kernels.matmul(a, b, residual=residual, activation="silu")
        gaps = kernels.matmul(a, b.mT.contiguous().mT)
        few_ctas = Call((a[:2], b[:2], None, None, None, None), None, None)
        assert few_ctas.kernel.__name__ != "vector_matmul"
    wanted = a.double() @ b.double()
    assert (gaps - wanted).norm() < 1e-3 * wanted.norm()
    wanted = torch.nn.functional.silu(wanted) + residual
    assert (made - wanted).norm() < 1e-4 * wanted.norm()


@pytest.mark.parametrize(
    ("m", "c"),
    [
        (5, StreamConfig.of(8, 2, 64, 1, 2)),
        (33, StreamConfig.of(64, 2, 64, deep=2, late=True, ahead=1)),
        (40, StreamConfig.of(64, 3, 48, tall=True, deep=2)),
        (70, StreamConfig.of(128, 2, 48, tall=True)),
        (129, StreamConfig.of(144, 2, 64, late=True, ahead=2)),
    ],
    ids=str,
)
def test_a_stream_copies_the_rows_that_there_are(m, c):
    """Of CTAs that share A, each copies as many as the others."""
    a, b = torch.randn(m, 264).bfloat16(), torch.randn(200, 264).bfloat16()
    kernel = stream_kernel(c, bf16)
    with pyptx.simulator(check="all"):
        made = kernel(a, b)
    wanted = a.double() @ b.double().mT
    assert (made - wanted).norm() < 5e-3 * wanted.norm()
    assert kernel.in_specs[0].tma_box[0] == "M"
    assert stream_kernel(StreamConfig.of(64, 1, 128, 4), bf16).in_specs[0].tma_box[0] == 16


def test_l2_reads_no_more_of_weights_than_is_copied():
    """That of more rows may stay there; of B (E, K, N) a tile has few bytes of a line."""
    assert stream_kernel(stream_of(16, 4096, 4096), bf16).in_specs[1].tma_l2 == "64B"
    assert stream_kernel(stream_of(128, 6144, 4096), bf16).in_specs[1].tma_l2 == "64B"
    assert stream_kernel(stream_of(128, 4096, 14336), bf16).in_specs[1].tma_l2 == "256B"
    assert stream_kernel(stream_of(128, 4096, 14336, False), bf16, False).in_specs[1].tma_l2 == "64B"
    assert stream_kernel(stream_of(256, 4096, 14336), bf16).in_specs[1].tma_l2 == "256B"
    with kernels.simulated_target("sm_90a"):
        made = [grouped_kernel((64, 512), 8, 256, "bfloat16", k_major, 32, 32, False) for k_major in (True, False)]
    assert [each.in_specs[1].tma_l2 for each in made] == ["256B", "128B"]
