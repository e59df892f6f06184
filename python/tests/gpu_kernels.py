"""Kernels of the tests that launch on a GPU, and its architecture.  Importing this module needs torch and a CUDA device."""

from __future__ import annotations

import torch

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b64, bf16, f32, u32

ARCH = "sm_{}{}".format(*torch.cuda.get_device_capability())


def make_double(element=f32, **options):
    """Y = X + X of f32 or s32, one thread an element."""

    @kernel(
        in_specs=(Tile("N", element),), out_specs=(Tile("N", element),), grid=lambda N: (N // 32,), block=(32, 1, 1),
        arch=ARCH, **options,
    )  # fmt: skip
    def double(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        index = reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)
        value = reg.scalar(element)
        getattr(ptx.inst.ld.global_, element.name)(value, ptx.addr(px + index * 4))
        getattr(ptx.inst.add, element.name)(value, value, value)
        getattr(ptx.inst.st.global_, element.name)(ptx.addr(py + index * 4), value)
        ptx.ret()

    return double


def make_copy(rows=8, columns=64):
    """Y = X of bf16, box by box through a tensor map, on sm_90a."""

    @kernel(
        in_specs=(Tile("R", columns, bf16, layout=Layout.ROW, tma_box=(rows, columns)),),
        out_specs=(Tile("R", columns, bf16),), grid=lambda R: (R // rows,), block=(128, 1, 1), arch="sm_90a",
    )  # fmt: skip
    def copy(X, Y):
        tile = smem.alloc(bf16, (rows, columns))
        full = smem.mbarrier(1)
        lane = reg.from_(ptx.special.tid.x(), u32)
        block = reg.from_(ptx.special.ctaid.x(), u32)
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.proxy_async()
            ptx.mbarrier.arrive_expect_tx(full[0], rows * columns * 2)
            ptx.cp.async_.bulk.tensor_2d(dst=tile[0], src=X.tma_desc(), coord=(0, block * rows), mbar=full[0])
        ptx.inst.bar.sync(0)
        ptx.mbarrier.wait(full[0], 0)
        (py,) = ptx.global_ptrs(Y)
        value = reg.scalar(b64)
        ptx.inst.ld.shared.b64(value, ptx.addr(smem.base(tile.name) + lane * 8))
        ptx.inst.st.global_.b64(ptx.addr(py + (block * (rows * columns * 2) + lane * 8)), value)
        ptx.ret()

    return copy
