"""Products by wgmma in clusters of 2 x 2 with multicast, and by two warpgroups in turns, that store their tiles by tensor copies:
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import pytest
import unseen
from unseen import NONE, WRONG, integers, kernel_with

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, f32, u16, u32

BM, BN, BK, STAGES = 64, 64, 64, 3


@kernel_with(
    {
        "mask a column": "PTX5054",
        "mask b self": "PTX5020",
        "expect half": "PTX5054",
        "empty count 1": "PTX5054",
        "empty count 4": "PTX5020",
        "release own only": "PTX5054",
        "release early": "PTX5054",
        "no init cluster sync": "PTX5050",
        "init bar only": "PTX5056",
        "no mbarrier init fence": NONE,
        "no exit cluster sync": "PTX5056",
        "no proxy fence": "PTX5053",
        "proxy fence before stores": "PTX5053",
        "no bar before store": "PTX5050",
        "no wait read": "PTX5054",
        "wait read too many": "PTX5054",
        "wait before exit none": "PTX5054",
        "wait read no bar": "PTX5054",
        "parity not flipped": "PTX5054",
        "no wgmma fence": "PTX5059",
        "wait group 1": "PTX5054",
        "wrong stage release": "PTX5010",
        "no empty wait": "PTX5022",
        "store swizzle": WRONG,
        "desc swizzle b": "PTX5061",
        "half offset": "PTX5054",
    }
)
def multicast(mistake):
    M, N, K, TILES = 2 * BM, 2 * BN, 4 * BK, 3

    @kernel(
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(32, BK)),
            Tile(TILES * N, K, bf16, Layout.TMA_128B, tma_box=(32, BK)),
        ),
        out_specs=(Tile(M, TILES * N, bf16, Layout.TMA_128B, tma_box=(BM, BN)),),
        grid=(2, 2, 1),
        cluster=(2, 2, 1),
        block=(256, 1, 1),
        arch="sm_90a",
    )
    def gemm(A, B, C):
        ma, mb, mc = A.tma_desc(), B.tma_desc(), C.tma_desc()
        smem.alloc(bf16, (STAGES, BM, BK), align=1024, name="a")
        smem.alloc(bf16, (STAGES, BN, BK), align=1024, name="b")
        smem.alloc(bf16, (2, BM, BN), align=1024, name="c")
        full, empty = smem.mbarrier(STAGES, name="full"), smem.mbarrier(STAGES, name="empty")
        tid = reg.from_(ptx.special.tid.x(), u32)
        x = reg.from_(ptx.special.ctaid.x(), u32)
        y = reg.from_(ptx.special.ctaid.y(), u32)
        rank = reg.from_(ptx.special.cluster_ctarank(), u32)  # x + 2 y
        with ptx.if_(tid == 0):
            for s in range(STAGES):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], 1 if mistake("empty count 1") else 4 if mistake("empty count 4") else 3)
            if not mistake("no mbarrier init fence"):
                ptx.fence.mbarrier_init()
        if mistake("init bar only"):
            ptx.bar.sync(0)
        elif not mistake("no init cluster sync"):
            ptx.cluster.sync()
        # row x of the cluster: CTAs (x, 0), (x, 1) share A; column y: (0, y), (1, y) share B
        with ptx.if_(tid == 128):
            ring = ptx.pipeline(STAGES)
            # A's rows of x: ranks x and x + 2
            mask_a = reg.scalar(u16)
            mask_b = reg.scalar(u16)
            t = reg.scalar(u32)
            ptx.inst.shl.b32(t, 5 if not mistake("mask a column") else 3, x)
            ptx.inst.cvt.u16.u32(mask_a, t)
            ptx.inst.shl.b32(t, 3 if not mistake("mask b self") else 1, y * 2)
            ptx.inst.cvt.u16.u32(mask_b, t)
            for tile in ptx.range_(0, TILES, 1):
                for k in ptx.range_(0, K, BK):
                    stage, phase = ring.advance()
                    if not mistake("no empty wait"):
                        ptx.mbarrier.wait(empty[stage], phase ^ 1)
                    ptx.mbarrier.arrive_expect_tx(
                        full[stage], (BM + BN) * BK * 2 // (2 if mistake("expect half") else 1)
                    )
                    ptx.tensor_copy.load(
                        ptx.addr(smem.base("a") + stage * (BM * BK * 2) + y * (32 * BK * 2)),
                        ma,
                        (k, x * BM + y * 32),
                        full[stage],
                        multicast_mask=mask_a,
                    )
                    ptx.tensor_copy.load(
                        ptx.addr(smem.base("b") + stage * (BN * BK * 2) + x * (32 * BK * 2)),
                        mb,
                        (k, (tile * 2 + y) * BN + x * 32),
                        full[stage],
                        multicast_mask=mask_b,
                    )
        with ptx.if_(tid < 128):
            ring = ptx.pipeline(STAGES)
            acc = reg.array(f32, BN // 2)
            lane = tid & 31
            warp = tid >> 5
            for tile in ptx.range_(0, TILES, 1):
                for k in ptx.range_(0, K, BK):
                    stage, phase = ring.advance()
                    ptx.mbarrier.wait(full[stage], phase if not mistake("parity not flipped") else 0)

                    def release(stage=stage):
                        at = stage if not mistake("wrong stage release") else (stage ^ 1)
                        bar = empty[at]
                        # thread r of the warpgroup tells CTA r of those which send to this one
                        relevant = (tid ^ rank) & 3  # 0 self, 1 differs in x, 2 in y, 3 in both
                        with ptx.if_(tid < 4):
                            with ptx.if_(relevant != 3):
                                if mistake("release own only"):
                                    ptx.mbarrier.arrive(bar)
                                else:
                                    ptx.cluster.arrive_remote(bar, tid, 1)

                    if mistake("release early"):
                        release()
                    if not mistake("no wgmma fence"):
                        ptx.wgmma.fence()
                    for step in range(4):
                        da = ptx.wgmma.make_descriptor(
                            smem.base("a") + stage * (BM * BK * 2) + 32 * step,
                            leading_byte_offset=16,
                            stride_byte_offset=1024,
                            swizzle=1,
                        )
                        db = ptx.wgmma.make_descriptor(
                            smem.base("b") + stage * (BN * BK * 2) + 32 * step + (64 if mistake("half offset") else 0),
                            leading_byte_offset=16,
                            stride_byte_offset=1024,
                            swizzle=2 if mistake("desc swizzle b") else 1,
                        )
                        ptx.wgmma.mma_async(
                            shape=(64, BN, 16),
                            dtype_d=f32,
                            dtype_a=bf16,
                            dtype_b=bf16,
                            d=acc,
                            a=da,
                            b=db,
                            scale_d=(k != 0) if step == 0 else True,
                        )
                    ptx.wgmma.commit_group()
                    ptx.wgmma.wait_group(1 if mistake("wait group 1") else 0)
                    if not mistake("release early"):
                        release()
                # epilogue: stmatrix into swizzled staging, then a TMA store
                buf = smem.base("c") + (tile & 1) * (BM * BN * 2)
                n = 1
                if mistake("wait read too many"):
                    n = 2
                if not mistake("no wait read"):
                    ptx.cp_async_bulk.wait_group(n, read=True, pred=tid == 0)
                if not mistake("wait read no bar"):
                    ptx.bar.sync(1, 128)
                packed = reg.array(b32, BN // 4)
                for i in range(BN // 4):
                    ptx.inst.cvt.rn.bf16x2.f32(packed[i], acc[2 * i + 1], acc[2 * i])
                if mistake("proxy fence before stores"):
                    ptx.fence.proxy_async_shared_cta()
                row = warp * 16 + (lane & 15)
                for j in range(BN // 16):
                    chunk = (lane >> 4) + 2 * j
                    off = row * 128 + ((chunk ^ (row & 7)) if not mistake("store swizzle") else chunk) * 16
                    ptx.matrix.stmatrix(
                        smem=ptx.addr(buf + off), regs=[packed[4 * j + i] for i in range(4)], layout="x4"
                    )
                if not (mistake("no proxy fence") or mistake("proxy fence before stores")):
                    ptx.fence.proxy_async_shared_cta()
                if not mistake("no bar before store"):
                    ptx.bar.sync(1, 128)
                with ptx.if_(tid == 0):
                    ptx.tensor_copy.store(mc, ((tile * 2 + y) * BN, x * BM), ptx.addr(buf))
                    ptx.cp_async_bulk.commit_group()
            if not mistake("wait before exit none"):
                ptx.cp_async_bulk.wait_group(0, pred=tid == 0)
        if not mistake("no exit cluster sync"):
            ptx.cluster.sync()
        ptx.ret()

    a, b = integers(M, K), integers(TILES * N, K, seed=1)
    yield gemm(a, b), (a.double() @ b.double().T).bfloat16()


@kernel_with(
    {
        "no order mma": "PTX5054",
        "order swapped": "PTX5022",
        "first not primed": "PTX5020",
        "advance short": "PTX5054",
        "no wait read": "PTX5054",
        "release one thread before wait": "PTX5054",
        "same barrier id": "PTX5022",
        "wrong count": "PTX5022",
        "shared staging": "PTX5050",
        "producer tiles short": "PTX5020",
        "no setmaxnreg partner": "PTX5020",
        "last bulk wait read only": NONE,
    }
)
def pingpong(mistake):
    TILES, K = 5, 3 * BK
    N = TILES * BN

    @kernel(
        in_specs=(
            Tile(BM, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(BN, BK)),
        ),
        out_specs=(Tile(BM, N, f32, tma_box=(BM, 16)),),
        grid=(1, 1, 1),
        block=(384, 1, 1),
        arch="sm_90a",
        raw_directives=[("maxnreg", (168,))],
    )
    def gemm(A, B, C):
        ma, mb, mc = A.tma_desc(), B.tma_desc(), C.tma_desc()
        smem.alloc(bf16, (STAGES, BM, BK), align=1024, name="a")
        smem.alloc(bf16, (STAGES, BN, BK), align=1024, name="b")
        smem.alloc(f32, (2, BN // 16, BM, 16), align=1024, name="c")
        full, empty = smem.mbarrier(STAGES, name="full"), smem.mbarrier(STAGES, name="empty")
        tid = reg.from_(ptx.special.tid.x(), u32)
        wg = tid >> 7
        with ptx.if_(tid == 0):
            for s in range(STAGES):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(wg == 2):
            if not mistake("no setmaxnreg partner"):
                ptx.setmaxnreg_dec(40)
            with ptx.if_(tid == 256):
                ring = ptx.pipeline(STAGES)
                for tile in ptx.range_(0, TILES - (1 if mistake("producer tiles short") else 0), 1):
                    for k in ptx.range_(0, K, BK):
                        stage, phase = ring.advance()
                        ptx.mbarrier.wait(empty[stage], phase ^ 1)
                        ptx.mbarrier.arrive_expect_tx(full[stage], (BM + BN) * BK * 2)
                        ptx.tensor_copy.load(ptx.addr(smem.base("a") + stage * (BM * BK * 2)), ma, (k, 0), full[stage])
                        ptx.tensor_copy.load(
                            ptx.addr(smem.base("b") + stage * (BN * BK * 2)), mb, (k, tile * BN), full[stage]
                        )
        with ptx.if_(wg != 2):
            ptx.setmaxnreg_inc(232)
            t = tid & 127
            acc = reg.array(f32, BN // 2)
            # it: which k block of all is next for this warpgroup
            it = reg.scalar(u32, init=0)
            ptx.inst.mov.u32(it, wg * (K // BK))
            own, other = wg + 2, (wg ^ 1) + 2
            count = 128 if mistake("wrong count") else 256
            if not mistake("first not primed"):
                with ptx.if_(wg == 1):
                    ptx.inst.bar.arrive(2, count)  # warpgroup 0 begins
            for tile in ptx.range_(wg, TILES, 2):
                # my turn to multiply
                if not mistake("no order mma"):
                    ptx.inst.bar.sync(other if mistake("order swapped") else own, count)
                for k in range(K // BK):
                    stage = reg.scalar(u32)
                    phase = reg.scalar(u32)
                    ptx.inst.rem.u32(stage, it, STAGES)
                    ptx.inst.div.u32(phase, it, STAGES)
                    phase &= 1
                    ptx.mbarrier.wait(full[stage], phase)
                    if mistake("release one thread before wait"):
                        ptx.mbarrier.arrive(empty[stage], pred=t == 0)
                    ptx.wgmma.fence()
                    for step in range(4):
                        da = ptx.wgmma.make_descriptor(
                            smem.base("a") + stage * (BM * BK * 2) + 32 * step,
                            leading_byte_offset=16,
                            stride_byte_offset=1024,
                            swizzle=1,
                        )
                        db = ptx.wgmma.make_descriptor(
                            smem.base("b") + stage * (BN * BK * 2) + 32 * step,
                            leading_byte_offset=16,
                            stride_byte_offset=1024,
                            swizzle=1,
                        )
                        ptx.wgmma.mma_async(
                            shape=(64, BN, 16),
                            dtype_d=f32,
                            dtype_a=bf16,
                            dtype_b=bf16,
                            d=acc,
                            a=da,
                            b=db,
                            scale_d=(k > 0) or step > 0,
                        )
                    ptx.wgmma.commit_group()
                    ptx.wgmma.wait_group(0)
                    if not mistake("release one thread before wait"):
                        ptx.mbarrier.arrive(empty[stage], pred=t == 0)
                    it += 1
                if not mistake("no order mma"):
                    with ptx.if_(tile + 1 < TILES):
                        ptx.inst.bar.arrive(2 if mistake("same barrier id") else other, count)
                it += K // BK if not mistake("advance short") else K // BK - 1
                buf = smem.base("c") + (0 if mistake("shared staging") else wg * (BM * BN * 4))
                with ptx.if_(t == 0):
                    if not mistake("no wait read"):
                        ptx.cp_async_bulk.wait_group(0, read=True)
                ptx.inst.bar.sync(wg + 4, 128)
                r = (t >> 5) * 16 + ((t & 31) >> 2)
                for j in range(BN // 8):
                    o = (j // 2) * (BM * 64) + (j % 2) * 32
                    ptx.inst.st.shared.v2.f32(ptx.addr(buf + r * 64 + (t & 3) * 8, o), [acc[4 * j], acc[4 * j + 1]])
                    ptx.inst.st.shared.v2.f32(
                        ptx.addr(buf + r * 64 + (t & 3) * 8, o + 8 * 64), [acc[4 * j + 2], acc[4 * j + 3]]
                    )
                ptx.fence.proxy_async_shared_cta()
                ptx.inst.bar.sync(wg + 4, 128)
                with ptx.if_(t == 0):
                    for j in range(BN // 16):
                        ptx.tensor_copy.store(mc, (tile * BN + j * 16, 0), ptx.addr(buf, j * BM * 64))
                    ptx.cp_async_bulk.commit_group()
            ptx.cp_async_bulk.wait_group(0, read=mistake("last bulk wait read only"), pred=t == 0)
        ptx.ret()

    a, b = integers(BM, K), integers(N, K, seed=1)
    yield gemm(a, b), a.double() @ b.double().T


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)
