"""A call of every family, for type checkers: test_stubs.py runs them on this file, and traces it."""

from __future__ import annotations

from typing import Any

from pyptx import kernel, ptx, reg, smem
from pyptx.types import b64, bf16, f32, pred, u32, u64


def barriers() -> None:
    p = reg.scalar(pred)
    bars = smem.mbarrier(2)
    ptx.mbarrier.init(bars[0], 1)
    ptx.fence.mbarrier_init()
    state = ptx.mbarrier.arrive_expect_tx(bars[0], 1024, sem="release", scope="cta")
    done = ptx.mbarrier.try_wait(bars[0], state, parity=False, suspend_time_hint=1000)
    ptx.mbarrier.wait(bars[1], 0, pred=~p)
    ring = ptx.mbarrier.array(smem.base(), 64, 4)
    ring.init_all(1, pred=p)
    slot = ring.at(reg.scalar(u32, init=0))
    slot.wait(1)
    slot.arrive(pred=done)
    ptx.fence.proxy_async(space="shared::cta")
    ptx.fence.thread("gpu", sem="acq_rel")
    ptx.ret()


def copies() -> None:
    data = smem.alloc(bf16, (64, 64), align=1024)
    bars = smem.mbarrier(1)
    source, policy = reg.scalar(u64), reg.scalar(b64)
    ptx.cp_async.cg(data, ptx.addr(source), 16, 8, cache_hint=policy)
    ptx.cp_async.commit_group()
    ptx.cp_async.wait_group(0)
    ptx.cp_async_bulk.load(data, source, 1024, bars[0], multicast_mask=3)
    ptx.cp_async_bulk.reduce("add", f32, source, data, 256)
    ptx.cp_async_bulk.commit_group()
    ptx.cp_async_bulk.wait_group(0, read=True)
    ptx.tensor_copy.load(data, source, (0, 64), bars[0], mode="tile", cache_hint=policy)
    ptx.tensor_copy.reduce("add", source, (0, 64), data)
    ptx.tensor_copy.prefetch(source, (0, 64))
    ptx.tensormap.replace_global_address(ptx.addr(source), policy, space="global")
    ptx.cp.async_.bulk.tensor_2d.store(dst=source, src=data, coord=(0, 0))
    ptx.tma.load_3d(data, source, row=0, col=64, mbar=bars[0])
    ptx.ret()


KERNELS: list[Any] = [kernel(barriers, arch="sm_90a", extern_smem="smem"), kernel(copies, arch="sm_90a")]
