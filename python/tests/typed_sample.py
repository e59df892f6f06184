"""A call of every family, for type checkers: test_stubs.py runs them on this file, and traces it."""

from __future__ import annotations

from typing import Annotated, Any

import pyptx
from pyptx import Tile, ir, kernel, kernels, parse, ptx, reg, smem
from pyptx.kernel import Kernel, TensorSpec
from pyptx.reg import Reg
from pyptx.types import b32, b64, bf16, bf16x2, f32, pred, s32, u32, u64


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


def products() -> None:
    tile, d, a = smem.wgmma_tile(bf16, (64, 64), "K"), reg.array(f32, 32), reg.array(b32, 4)
    c, address = reg.array(f32, 4), reg.scalar(u64)
    ptx.wgmma.fence()
    ptx.wgmma.mma_async((64, 64, 16), f32, bf16, bf16, d, tile, tile, scale_d=True, a_k_offset=32)
    ptx.wgmma.mma_async((64, 64, 16), f32, bf16, bf16, d, a, tile, trans_b=0, pred=reg.scalar(pred))
    ptx.wgmma.commit_group()
    ptx.wgmma.wait_group(0)
    ptx.matrix.ldmatrix(list(a), ptx.addr(tile), trans=True)
    ptx.mma.sync((16, 8, 16), f32, bf16, bf16, f32, c, a, [a[0], a[1]], c)
    ptx.matrix.stmatrix(ptx.addr(tile), [a[0], a[1]])
    fragment = reg.array(f32, 8)
    ptx.wmma.load("c", "row", "m16n16k16", f32, fragment, ptx.addr(address), space="global", stride=16)
    ptx.wmma.store("col", "m16n16k16", f32, ptx.addr(address), fragment, space="global")
    ptx.ret()


def tensor_memory() -> None:
    columns, bar = smem.alloc(u32, 1), smem.mbarrier(1)[0]
    tile = smem.wgmma_tile(bf16, (128, 64), "K")
    ptx.tcgen05.alloc(columns, 128)
    address = reg.scalar(b32)
    ptx.ld(b32, address, ptx.addr(columns), space="shared")
    described: Reg = ptx.tcgen05.descriptor(reg.from_(tile, u32), swizzle="128B")
    bits: int = ptx.tcgen05.instruction_descriptor(m=128, n=128, a_dtype=bf16)
    ptx.tcgen05.mma(address, described, described, bits, kind="f16", enable_input_d=False)
    ptx.tcgen05.commit(bar, multicast_mask=3)
    ptx.tcgen05.fence_after_thread_sync()
    ptx.tcgen05.ld(reg.array(b32, 4), address, shape="32x32b", count=4)
    ptx.tcgen05.wait_ld()
    ptx.tcgen05.dealloc(address, 128)
    ptx.ret()


@kernel(arch="sm_90a", block=(32, 1, 1))
def decorated() -> None:
    x = reg.from_(ptx.special.tid.x(), u32)
    ptx.raw("membar.cta;")
    ptx.pragma("nounroll")
    ptx.pipe(x).add.u32(x, 1)
    ptx.ret()


@kernel(
    in_specs=(Tile("N", f32, tma_box=(32,)), Tile.wgmma_a("M", "K", bf16, tile_m=64, tile_k=64)),
    out_specs=(Tile("N", f32, packed=False),),
    grid=lambda N: (N // 32, 1, 1),
    block=(32, 1, 1),
)
def tensors(X: TensorSpec, A: TensorSpec, Y: TensorSpec, *, factor: float = 2.0) -> None:
    px, _, py = ptx.global_ptrs(X, A, Y)
    tile = smem.wgmma_tile(bf16, (64, 64), "K")
    offset = reg.from_(ptx.special.tid.x(), u32) * 4
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(px + offset))
    with ptx.if_(offset < X.shape[0]):
        ptx.inst.st.global_.f32(ptx.addr(py + offset), value * factor)
    halves = reg.scalar(bf16x2, init=1.0)
    low, high = halves < halves * 2.0
    ptx.mov(u32, reg.scalar(u32), 1, pred=(value > 0.0) & low & ~high)
    ptx.mov(u64, reg.scalar(u64), A.tma_desc())
    ptx.mov(u32, reg.scalar(u32), tile.name)
    ptx.ret()


def called(x: Any) -> str:
    pyptx.compile([tensors, (tensors, {"N": 64})], threads=1)
    made = tensors.specialise(N=64)
    spilled: int = made.resources().spill_stores + tensors.resources(N=64).registers
    tensors.report(N=64).save("k.html")
    header, source = tensors.export("out", targets=["sm_80"])
    y = kernels.attention(x, x, x, causal=True, window=16)
    y = kernels.matmul(y, x.mT, bias=None, activation="gelu")
    y = kernels.rms_norm(kernels.softmax(y), None, eps=1e-5)
    return f"{tensors(x, out=y)} {spilled} {header.name} {source.name} {tensors.module(N=64)} {tensors.sass(N=64)}"


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


def talks() -> None:
    t = reg.from_(ptx.special.tid.x(), u32)
    ptx.print("t = {}, {:.3f}", t, reg.scalar(f32, init=1.0), pred=t == 0)
    ptx.check(t < 1024, "t = {}", t)
    ptx.ret()


def turns() -> None:
    ring = ptx.pipeline(4)
    stage, phase = ring.advance()
    full = smem.mbarrier(4)
    tile = smem.alloc(f32, (4, 32), swizzle=None, align=128)
    rows: tuple[int, ...] = tile.shape
    total = reg.named(reg.scalar(u32, init=rows[0]).name)
    ptx.kloop(total, unroll=2, body=lambda: ptx.add(u32, total, total, ring.cursor))
    with ptx.when(phase == 0), ptx.switch(stage, count=4, default=stage > 3):
        with ptx.case(0, 1):
            ptx.mbarrier.wait(full[0], ring.phase)
        with ptx.case(2, 3, default=True):
            ptx.add(u32, total, total, 1)
    v = smem.load(tile.dtype, ptx.addr(tile, stage * 4))
    smem.store(f32, ptx.addr(tile, 4), v)
    ptx.ret()


def looked_into(k: Kernel, x: Any) -> str:
    with pyptx.simulator(check="all", seed=3, schedule="synchronisation") as run:
        run.breakpoint("a.py:12", lambda stop: print(stop.registers["t"].values, stop.mbarriers))
        k(x)
    for report in run.reports:
        print(report.code, report.sites[0].thread)
    run.trace.save("x.json")
    failing = run.explore(20)
    differs = pyptx.diff(k, x)
    with pyptx.replay.keep(4) as kept:
        k(x)
    with pyptx.simulator.options(seed=3) as chosen:
        seeds: list[int] = [chosen.seed, failing.seed if failing else 0, run.statistics.warp_instructions]
    return f"{differs} {seeds} {[call.status for call in kept.replay()]} {run.lines()[0].conflicts}"


PAIR = ptx.module([kernel(functions), TABLE, horner])
KERNELS: list[Any] = [
    kernel(barriers, arch="sm_90a", extern_smem="smem"),
    kernel(turns, arch="sm_90a"),
    kernel(copies, arch="sm_90a"),
    decorated,
    kernel(lanes),
    kernel(talks),
    kernel(blackwell, arch="sm_100a"),
    kernel(products, arch="sm_90a"),
    kernel(tensor_memory, arch="sm_100a"),
    *PAIR,
]


def objects(text: str) -> list[str]:
    module: ir.Module = parse(text)
    for instruction in module.find("add"):
        instruction.operands = (ir.RegisterOperand("%r1"), *instruction.operands[1:])
        instruction.insert_after("bar.sync 0;")
    words: int = module.functions[0].flow.pressure.words
    return [f"{words} {edge.kind}" for block in module.functions[0].blocks for edge in block.edges]


def one_pass(module: ir.Module) -> None:
    module["k"].rename("%r1", "count")


REWRITTEN = decorated.rewritten(one_pass)
