"""A call of every family, for type checkers: test_stubs.py runs them on this file, and traces it."""

from __future__ import annotations

from typing import Annotated, Any

from pyptx import kernel, ptx, reg, smem
from pyptx.reg import Reg
from pyptx.types import b32, b64, bf16, f32, pred, s32, u32, u64


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


def lanes() -> None:
    p, x = reg.scalar(pred), reg.scalar(u32, init=0)
    address, f = reg.scalar(u64), reg.array(f32, 4)
    ptx.add(s32, x, x, 1, pred=~p)
    ptx.ld(f32, f, address, vec="v4", cache="nc")
    ptx.st(f32, ptx.addr(address, 16), [f[0], f[1]], vec="v2")
    ptx.cvt(f32, u32, f[0], x, rounding="rn")
    ptx.mul(u32, x, x, 3, mode="lo")
    ptx.setp("lt", u32, p, x, 16)
    y = ptx.mad(x, x, 1)
    ptx.selp(u32, y, 1, 0, p)
    ptx.cvta.to("shared", address)
    ptx.warp.reduce_sum(x, width=16)
    other = ptx.warp.shfl("bfly", x, 1)
    total = ptx.warp.redux("add", s32, other)
    _, same = ptx.warp.match_all(b32, total)
    ptx.warp.ballot(same)
    ptx.bar.sync(1, 128, pred=p)
    ptx.barrier.sync(aligned=True)
    ptx.named_barrier(2, count=64).arrive()
    ptx.cluster.sync()
    ptx.cluster.map_shared_u32(x, 1)
    ptx.griddepcontrol.wait()
    ptx.setmaxnreg(64)
    ptx.ret()


def blackwell() -> None:
    bar, response = smem.mbarrier(1)[0], smem.alloc(u32, (4,))
    address, g = reg.scalar(u32), reg.scalar(u64)
    ptx.clusterlaunchcontrol.try_cancel(response, bar)
    ptx.st_async(u32, address, 1, address)
    ptx.red_async("add", u32, address, 1, address)
    ptx.multimem.red("add", u32, g, 1, sem="release", scope="sys")
    ptx.ret()


@kernel(arch="sm_90a", block=(32, 1, 1))
def decorated() -> None:
    x = reg.from_(ptx.special.tid.x(), u32)
    ptx.raw("membar.cta;")
    ptx.pragma("nounroll")
    ptx.pipe(x).add.u32(x, 1)
    ptx.ret()


TABLE = ptx.const(f32, init=[[1.0, 2.0], [3.0, 4.0]])


@ptx.func
def horner(x: Annotated[Reg, f32], c: tuple[Annotated[Reg, f32], Annotated[Reg, f32]]) -> Annotated[Reg, f32]:
    y = reg.scalar(f32)
    ptx.inst.fma.rn.f32(y, c[0], x, c[1])
    return y


@ptx.func(params=(u32,), returns=(u32, u32))
def halves(x: Reg) -> tuple[Reg, Reg]:
    return x & 0xFFFF, x >> 16


def functions() -> None:
    x = reg.scalar(f32, init=1.0)
    y: Reg = horner(x, (x, x))
    low, high = halves(reg.scalar(u32, init=3))
    ptx.ld(f32, y, TABLE[1][low & 1], space="const")
    ptx.ld(f32, y, TABLE[0, 1], space="const")
    ptx.mov(u64, reg.scalar(u64), TABLE)
    z: Reg = ptx.call_targets(horner)(reg.from_(horner, u64), y, (y, y))
    ptx.add(f32, y, y, z)
    ptx.add(u32, low, low, high)
    ptx.ret()


PAIR = ptx.module([kernel(functions), TABLE, horner])
KERNELS: list[Any] = [
    kernel(barriers, arch="sm_90a", extern_smem="smem"),
    kernel(copies, arch="sm_90a"),
    decorated,
    kernel(lanes),
    kernel(blackwell, arch="sm_100a"),
    *PAIR,
]
