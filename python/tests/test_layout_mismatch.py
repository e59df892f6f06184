"""Products that read a matrix by another swizzle, or as another type, than the tensor copy gave it: PTX5061, at both lines."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, f16, f32, u32

ml_dtypes = pytest.importorskip("ml_dtypes", reason="no ml_dtypes")


def loads(tiles, bar):
    """Barrier and copies of thread 0; returns %tid.x."""
    tid = reg.from_(ptx.special.tid.x(), u32)
    with ptx.if_(tid == 0):
        ptx.mbarrier.init(bar, 1)
        ptx.fence.mbarrier_init()
    ptx.bar.sync(0)
    with ptx.if_(tid == 0):
        ptx.mbarrier.arrive_expect_tx(bar, 2 * 64 * 64 * 2)
        for tile, tensor in tiles:
            ptx.cp.async_.bulk.tensor_2d(dst=tile, src=tensor.tma_desc(), coord=(0, 0), mbar=bar)
    ptx.mbarrier.wait(bar, 0)
    return tid


def wgmma(swizzle: int, written: bool, element=bf16):
    """The products of a 64x64 tile: with `written` a thread has stored into the tile since, so nothing is known of it."""

    @kernel(
        in_specs=(Tile(64, 64, bf16, Layout.TMA_128B, tma_box=(64, 64)),) * 2,
        out_specs=(),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def product(A, B):
        a, b = (smem.alloc(bf16, (64, 64), swizzle="128B", align=1024) for _ in range(2))
        tid = loads([(a, A), (b, B)], smem.mbarrier(1)[0])
        if written:
            for tile in (a, b):
                ptx.inst.st.shared.b32(ptx.addr(tile, tid * 4), reg.scalar(b32, init=0))
            ptx.fence.proxy_async()
            ptx.bar.sync(0)
        acc = reg.wgmma_frag(m=64, n=64, dtype=f32)
        of_a, of_b = (ptx.wgmma.make_descriptor(t, leading_byte_offset=16, stride_byte_offset=1024, swizzle=s)
                      for t, s in ((a, swizzle), (b, 1)))  # fmt: skip
        ptx.wgmma.fence()
        ptx.wgmma.mma_async(shape=(64, 64, 16), dtype_d=f32, dtype_a=element, dtype_b=element, d=acc, a=of_a, b=of_b)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        ptx.ret()

    return product


def tcgen05(swizzle: str, ab_dtype: str):
    @kernel(in_specs=(Tile(128, 64, bf16, Layout.TMA_128B, tma_box=(64, 64)), Tile(64, 64, bf16, Layout.TMA_128B, tma_box=(64, 64))),
            out_specs=(), block=(128, 1, 1), arch="sm_100a")  # fmt: skip
    def product(A, B):
        a, b = (smem.alloc(bf16, (64, 64), swizzle="128B", align=1024) for _ in range(2))
        at, bars = smem.alloc(b32, 1, align=16), smem.mbarrier(2)
        tid = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(tid < 32):
            ptx.tcgen05.alloc(at, 64)
            ptx.tcgen05.relinquish_alloc_permit()
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(bars[1], 1)
        ptx.tcgen05.fence_before_thread_sync()
        loads([(a, A), (b, B)], bars[0])
        ptx.tcgen05.fence_after_thread_sync()
        d = smem.load(b32, ptx.addr(at))
        with ptx.if_(tid == 0):
            start_a, start_b = reg.scalar(u32), reg.scalar(u32)
            ptx.inst.mov.u32(start_a, a.name)
            ptx.inst.mov.u32(start_b, b.name)
            idesc = reg.scalar(b32, init=ptx.tcgen05.make_instr_desc_f16bf16_f32(m=64, n=64, ab_dtype=ab_dtype))
            of_a = ptx.tcgen05.descriptor(start_a, stride_bytes=1024, swizzle=swizzle)
            of_b = ptx.tcgen05.descriptor(start_b, stride_bytes=1024, swizzle="128B")
            ptx.tcgen05.mma(d, of_a, of_b, idesc, kind="f16", pred_operand=False)
            ptx.tcgen05.commit(bars[1])
        ptx.mbarrier.wait(bars[1], 0)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(tid < 32):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(d, 64)
        ptx.ret()

    return product


def reports_of(made, rows):
    a, b = (np.ones((n, 64), ml_dtypes.bfloat16) for n in (rows, 64))
    with pyptx.simulator(check="all") as run:
        with contextlib.suppress(pyptx.errors.SimulationError):
            made(a, b)
    return run.reports


def lines(*calls: str) -> list[int]:
    """Where a body calls one of these."""
    text = Path(__file__).read_text().splitlines()
    return [number for number, each in enumerate(text, 1) if any(f"{call}(" in each for call in calls)]


@pytest.mark.parametrize(
    ("made", "rows", "said"),
    [
        (wgmma(2, False), 64, "reads A at `smem_0` with the swizzle 64B, and "),
        (wgmma(0, False), 64, "reads A at `smem_0` with the swizzle NONE, and "),
        (wgmma(1, False, f16), 64, " as f16, and "),
        (tcgen05("64B", "bf16"), 128, "reads A at `smem_0` with the swizzle 64B, and "),
        (tcgen05("128B", "f16"), 128, " as f16, and "),
    ],
)
def test_a_product_that_reads_otherwise_is_reported(made, rows, said):
    (report, *_) = [each for each in reports_of(made, rows) if each.code == 5061]
    assert said in report.message and report.message.endswith(("with 128B", "as bf16"))
    assert report.line in lines("ptx.wgmma.mma_async", "ptx.tcgen05.mma") and report.sites[1].line in lines(
        "bulk.tensor_2d"
    )


@pytest.mark.parametrize(
    ("made", "rows"),
    [(wgmma(1, False), 64), (wgmma(2, True), 64), (wgmma(1, True, f16), 64), (tcgen05("128B", "bf16"), 128)],
)
def test_a_product_of_the_same_layout_is_not(made, rows):
    assert reports_of(made, rows) == []
