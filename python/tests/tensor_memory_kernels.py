"""Kernels of test_tcgen05.py: one shows what tcgen05 instructions do to tensor memory, given what it and shared memory hold."""

from __future__ import annotations

import numpy as np

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.types import b32, u16, u32

LANES = 128


class Place:
    """What the body of a probe sees: registers and addresses."""

    def __init__(self, tid, tensor, shared, bar):
        self.tid, self.tensor, self.shared, self.bar = tid, tensor, shared, bar


def make_probe(columns: int, shared: int, issue=None, everyone=None, pair: bool = False, arch: str = "sm_100a"):
    """Y = tensor memory, `columns` of 128 lanes a CTA, after it held T, shared memory X (`shared` bytes a CTA), and one thread
    has executed `issue(place)` and every thread `everyone(place)`.  With `pair` there are two CTAs, and the even one issues.
    """
    ctas, group, words = 2 if pair else 1, 2 if pair else 1, shared // 4
    step = 32

    @kernel(
        in_specs=(Tile(ctas * words, u32), Tile(ctas * LANES, columns, u32)),
        out_specs=(Tile(ctas * LANES, columns, u32),),
        grid=(ctas, 1, 1),
        cluster=(ctas, 1, 1),
        block=(128, 1, 1),
        arch=arch,
    )
    def probe(X, T, Y):
        px, pt, py = ptx.global_ptrs(X, T, Y)
        _data, _slot, bars = (
            smem.alloc(u32, (words,), align=1024, name="data"),
            smem.alloc(u32, (1,), name="slot"),
            smem.mbarrier(1),
        )
        tid = reg.from_(ptx.special.tid.x(), u32)
        cta = reg.from_(ptx.special.ctaid.x(), u32)
        warp = tid >> 5
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), columns, cta_group=group)
            ptx.tcgen05.relinquish_alloc_permit(cta_group=group)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(bars[0], 1)
        value = reg.scalar(u32)
        for at in ptx.range_(tid, words, 128):
            ptx.inst.ld.global_.u32(value, ptx.addr(px + (at + cta * words) * 4))
            ptx.inst.st.shared.u32(ptx.addr(smem.base("data") + at * 4), value)
        ptx.fence.proxy_async_shared_cta()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tensor = reg.scalar(b32)
        ptx.inst.ld.shared.b32(tensor, ptx.addr(smem.base("slot")))
        own = tensor + (warp << 21)
        line = (tid + cta * LANES) * (columns * 4)
        values = reg.array(b32, step)
        for at in range(0, columns, step):
            for i in range(step):
                ptx.inst.ld.global_.b32(values[i], ptx.addr(pt + line, 4 * (at + i)))
            ptx.tcgen05.st(own + at, [values[i] for i in range(step)], shape="32x32b", count=step)
        ptx.tcgen05.wait_st()
        ptx.tcgen05.fence_before_thread_sync()
        if pair:
            ptx.cluster.sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        place = Place(tid, tensor, smem.base("data"), bars[0])
        if everyone is not None:
            everyone(place)
        if issue is not None:
            with ptx.if_((tid | (cta & 1)) == 0):
                issue(place)
                if pair:
                    ptx.tcgen05.commit(bars[0], cta_group=2, multicast=True, multicast_mask=reg.from_(3, u16))
                else:
                    ptx.tcgen05.commit(bars[0])
            ptx.mbarrier.wait(bars[0], 0)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        for at in range(0, columns, step):
            ptx.tcgen05.ld([values[i] for i in range(step)], own + at, shape="32x32b", count=step)
            ptx.tcgen05.wait_ld()
            for i in range(step):
                ptx.inst.st.global_.b32(ptx.addr(py + line, 4 * (at + i)), values[i])
        ptx.tcgen05.fence_before_thread_sync()
        if pair:
            ptx.cluster.sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(tensor, columns, cta_group=group)
        ptx.ret()

    return probe


def run_probe(probe, tensor: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Tensor memory afterwards, as (CTAs * 128, columns) of uint32."""
    return np.asarray(probe(np.ascontiguousarray(shared).view(np.uint32).reshape(-1), np.ascontiguousarray(tensor)))


def make_load(columns: int, registers: int, first: int, load: dict, red: bool = False, arch: str = "sm_100a"):
    """Y = the registers of each thread that one tcgen05.ld of each warp fills from T, from lane `first` of its quarter on."""

    @kernel(
        in_specs=(Tile(LANES, columns, u32),), out_specs=(Tile(LANES, registers, u32),), block=(128, 1, 1), arch=arch
    )
    def loads(T, Y):
        pt, py = ptx.global_ptrs(T, Y)
        smem.alloc(u32, (1,), name="slot")
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp = tid >> 5
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), columns)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tensor = reg.scalar(b32)
        ptx.inst.ld.shared.b32(tensor, ptx.addr(smem.base("slot")))
        own = tensor + (warp << 21)
        values = reg.array(b32, max(32, registers))
        for at in range(0, columns, 32):
            for i in range(32):
                ptx.inst.ld.global_.b32(values[i], ptx.addr(pt + tid * (columns * 4), 4 * (at + i)))
            ptx.tcgen05.st(own + at, [values[i] for i in range(32)], shape="32x32b", count=32)
        ptx.tcgen05.wait_st()
        loaded = [values[i] for i in range(registers)]
        if red:
            ptx.tcgen05.ld_red(dst_regs=loaded[:-1], redval=loaded[-1], taddr=own + (first << 16), **load)
        else:
            ptx.tcgen05.ld(loaded, own + (first << 16), **load)
        ptx.tcgen05.wait_ld()
        for i in range(registers):
            ptx.inst.st.global_.b32(ptx.addr(py + tid * (registers * 4), 4 * i), values[i])
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(tensor, columns)
        ptx.ret()

    return loads
