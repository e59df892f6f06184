"""A call of every family, for type checkers: test_stubs.py runs them on this file, and traces it."""

from __future__ import annotations

from typing import Any

from pyptx import kernel, ptx, reg, smem
from pyptx.types import pred, u32


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


KERNELS: list[Any] = [kernel(barriers, arch="sm_90a", extern_smem="smem")]
