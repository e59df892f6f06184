"""A product by pairs of CTAs (tcgen05) with two accumulators, whose tiles come from clusterlaunchcontrol:
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import pytest
import unseen
from unseen import NONE, REFUSED, integers, kernel_with

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b32, b128, bf16, f32, pred, u16, u32, u64

BM, BN, BK, STAGES, SLOTS = 128, 64, 64, 3, 2
EPI = 4  # epilogue warps


@kernel_with(
    {
        "no acc empty wait": NONE,
        "acc empty before ld wait": "PTX5058",
        "acc empty own cta": "PTX5020",
        "no fence before": "PTX5058",
        "no fence after full": "PTX5058",
        "no fence after empty": "PTX5058",
        "epi reads before commit": "PTX5012",
        "commit no multicast": "PTX5020",
        "commit mask 1": "PTX5020",
        "commit cg1": REFUSED,
        "dealloc early": "PTX5010",
        "dealloc no cluster sync": "PTX5056",
        "no dealloc": "PTX5010",
        "alloc cg1": REFUSED,
        "relinquish first": "PTX5010",
        "slot read early": "PTX5050",
        "idesc m128": "PTX5012",
        "idesc n": "PTX5054",
        "b stride": "PTX5054",
        "tx one cta": "PTX5054",
        "full own bar": "PTX5020",
        "arrive both": "PTX5020",
        "clc no wait": "PTX5054",
        "clc expect missing peer": "PTX5020",
        "clc expect 8": "PTX5020",
        "clc no multicast": "PTX5020",
        "clc no proxy fence": NONE,
        "clc no empty wait": "PTX5055",
        "clc release early": "PTX5055",
        "clc empty count": "PTX5055",
        "clc epi no release": "PTX5020",
        "clc ignores cancel": "PTX5022",
        "no exit sync": "PTX5010",
        "store wait read late": "PTX5054",
        "bad lane": "PTX5010",
    }
)
def clc_pair(mistake):
    TM, TN, K = 1, 5, 2 * BK  # cluster tiles: rows of 256, columns of BN
    M, N = TM * 2 * BM, TN * BN
    OWN = BN // 2

    @kernel(
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(OWN, BK)),
        ),
        out_specs=(Tile(M, N, f32, Layout.TMA_128B, tma_box=(32, 32)),),
        grid=(2 * TM, TN, 1),
        cluster=(2, 1, 1),
        block=(256, 1, 1),
        arch="sm_100a",
    )
    def gemm(A, B, C):
        ma, mb, mc = A.tma_desc(), B.tma_desc(), C.tma_desc()
        smem.alloc(bf16, (STAGES, BM, BK), align=1024, name="a")
        smem.alloc(bf16, (STAGES, OWN, BK), align=1024, name="b")
        smem.alloc(f32, (EPI, 2, 32, 32), align=1024, name="c")
        smem.alloc(u64, (2,), align=16, name="response")
        smem.alloc(u32, (1,), name="slot")
        full, empty = smem.mbarrier(STAGES, name="full"), smem.mbarrier(STAGES, name="empty")
        accf, acce = smem.mbarrier(SLOTS, name="acc_full"), smem.mbarrier(SLOTS, name="acc_empty")
        clcf, clce = smem.mbarrier(1, name="clc_full"), smem.mbarrier(1, name="clc_empty")
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp, lane = tid >> 5, tid & 31
        rank = reg.from_(ptx.special.cluster_ctarank(), u32)
        cg = 1 if mistake("alloc cg1") else 2
        with ptx.if_(warp == 3):
            if mistake("relinquish first"):
                ptx.tcgen05.relinquish_alloc_permit(cta_group=cg)
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), SLOTS * BN, cta_group=cg)
            if not mistake("relinquish first"):
                ptx.tcgen05.relinquish_alloc_permit(cta_group=cg)
        with ptx.if_(tid == 0):
            for s in range(STAGES):
                ptx.mbarrier.init(full[s], 2 if mistake("arrive both") else 1)
                ptx.mbarrier.init(empty[s], 1)
            for s in range(SLOTS):
                ptx.mbarrier.init(accf[s], 1)
                ptx.mbarrier.init(acce[s], 2 * EPI)
            ptx.mbarrier.init(clcf[0], 1)
            # who reads an answer, a cluster: 2 producers, 1 mma thread, 2 x EPI warps, 1 scheduler
            ptx.mbarrier.init(clce[0], 2 + 1 + 2 * EPI + 1 - (1 if mistake("clc empty count") else 0))
            ptx.fence.mbarrier_init()
        tensor = reg.scalar(b32)
        if mistake("slot read early"):
            ptx.inst.ld.shared.b32(tensor, ptx.addr(smem.base("slot")))
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync()
        ptx.tcgen05.fence_after_thread_sync()
        if not mistake("slot read early"):
            ptx.inst.ld.shared.b32(tensor, ptx.addr(smem.base("slot")))
        column = reg.scalar(u32)
        ptx.inst.mov.u32(column, ptx.special.ctaid.y())

        class Next:
            """What each role does to learn of its next tile: waits for the answer, reads it, says that it has."""

            def __init__(self):
                self.phase, self.more, self.answer = reg.scalar(u32, init=0), reg.scalar(pred), reg.scalar(b128)
                self.column = reg.scalar(u32)
                self.work = reg.scalar(u32, init=1)
                ptx.inst.mov.u32(self.column, column)

            def fetch(self, role, guard=None):
                def release():
                    if role == "epi" and mistake("clc epi no release"):
                        return
                    with ptx.if_(lane == 0):
                        ptx.cluster.arrive_remote(clce[0], 0, 1)

                if not (role == "epi" and mistake("clc no wait")):
                    ptx.mbarrier.wait(clcf[0], self.phase)
                if role == "epi" and mistake("clc release early"):
                    release()
                ptx.inst.ld.shared.b128(self.answer, ptx.addr(smem.base("response")))
                p = ptx.clusterlaunchcontrol.is_canceled(self.answer)
                ptx.inst.selp.u32(self.work, 1, 0, p)
                if mistake("clc ignores cancel") and role == "producer":
                    ptx.clusterlaunchcontrol.first_ctaid_of("get_first_ctaid::y", self.answer, dst=self.column)
                else:
                    ptx.clusterlaunchcontrol.first_ctaid_of("get_first_ctaid::y", self.answer, dst=self.column, pred=p)
                if not mistake("clc no proxy fence"):
                    ptx.fence.proxy_async_shared_cta()
                if role == "epi":
                    ptx.bar.warp_sync(0xFFFFFFFF) if hasattr(ptx.bar, "warp_sync") else ptx.inst.bar.warp.sync(
                        0xFFFFFFFF
                    )
                if not (role == "epi" and mistake("clc release early")):
                    release()
                self.phase ^= 1

        with ptx.if_(tid == 0):  # producer of each CTA
            at = Next()
            ring = ptx.pipeline(STAGES)
            with ptx.loop("produce"):
                for k in ptx.range_(0, K, BK):
                    stage, phase = ring.advance()
                    ptx.mbarrier.wait(empty[stage], phase ^ 1)
                    size = 2 * (BM + OWN) * BK * 2
                    if mistake("tx one cta"):
                        size //= 2
                    if mistake("arrive both"):
                        ptx.mbarrier.arrive_expect_tx(full[stage], size // 2)
                    else:
                        with ptx.if_(rank == 0):
                            ptx.mbarrier.arrive_expect_tx(full[stage], size)
                    bar = full[stage] if mistake("full own bar") else ptx.cluster.map_shared_u32(full[stage], 0)
                    ptx.tensor_copy.load(
                        ptx.addr(smem.base("a") + stage * (BM * BK * 2)), ma, (k, rank * BM), bar, cta_group=2
                    )
                    ptx.tensor_copy.load(
                        ptx.addr(smem.base("b") + stage * (OWN * BK * 2)),
                        mb,
                        (k, at.column * BN + rank * OWN),
                        bar,
                        cta_group=2,
                    )
                at.fetch("producer")
                ptx.loop_while(at.work != 0)

        with ptx.if_((tid ^ 32 | rank) == 0):  # mma
            at = Next()
            ring = ptx.pipeline(STAGES)
            slots = ptx.pipeline(SLOTS)
            kind = ptx.tcgen05.instruction_descriptor(
                m=128 if mistake("idesc m128") else 256,
                n=BN * 2 if mistake("idesc n") else BN,
                a_dtype=bf16,
                b_dtype=bf16,
                d_dtype=f32,
            )
            three = reg.from_(1 if mistake("commit mask 1") else 3, u16)

            def commit(bar, acc=False):
                if acc and mistake("commit no multicast"):
                    ptx.tcgen05.commit(bar, cta_group=2)
                elif acc and mistake("commit cg1"):
                    ptx.tcgen05.commit(bar, multicast=True, multicast_mask=three)
                else:
                    ptx.tcgen05.commit(bar, cta_group=2, multicast=True, multicast_mask=three)

            with ptx.loop("multiply"):
                slot, sp = slots.advance()
                if not mistake("no acc empty wait"):
                    ptx.mbarrier.wait(acce[slot], sp ^ 1, sem="acquire", scope="cluster")
                if not mistake("no fence after empty"):
                    ptx.tcgen05.fence_after_thread_sync()
                for k in ptx.range_(0, K, BK):
                    stage, phase = ring.advance()
                    ptx.mbarrier.wait(full[stage], phase)
                    if not mistake("no fence after empty"):
                        ptx.tcgen05.fence_after_thread_sync()
                    for step in range(BK // 16):
                        da = ptx.tcgen05.descriptor(
                            smem.base("a") + stage * (BM * BK * 2),
                            byte_offset=32 * step,
                            stride_bytes=1024,
                            swizzle="128B",
                        )
                        db = ptx.tcgen05.descriptor(
                            smem.base("b") + stage * (OWN * BK * 2),
                            byte_offset=32 * step,
                            stride_bytes=2048 if mistake("b stride") else 1024,
                            swizzle="128B",
                        )
                        add = {"pred_operand": k != 0} if step == 0 else {"enable_input_d": True}
                        ptx.tcgen05.mma(
                            tensor + slot * BN, da, db, reg.from_(kind, u32), kind="kind::f16", cta_group=2, **add
                        )
                    commit(empty[stage])
                commit(accf[slot], True)
                at.fetch("mma")
                ptx.loop_while(at.work != 0)

        with ptx.if_(tid == 64):  # scheduler: both CTAs expect, the first asks for both
            phase = reg.scalar(u32, init=0)
            asked = reg.scalar(u32, init=1)
            answer = reg.scalar(b128)
            with ptx.loop("schedule"):
                with ptx.if_(rank == 0):
                    if not mistake("clc no empty wait"):
                        ptx.mbarrier.wait(clce[0], phase ^ 1, sem="acquire", scope="cluster")
                    n = 8 if mistake("clc expect 8") else 16
                    ptx.mbarrier.arrive_expect_tx(clcf[0], n)
                    if not mistake("clc expect missing peer"):
                        peer = ptx.cluster.map_shared_u32(clcf[0], 1)
                        ptx.mbarrier.arrive_expect_tx_cluster(ptx.addr(peer), n)
                    if mistake("clc no multicast"):
                        ptx.clusterlaunchcontrol.try_cancel(
                            ptx.addr(smem.base("response")), clcf[0], space="shared::cta"
                        )
                    else:
                        ptx.clusterlaunchcontrol.try_cancel(
                            ptx.addr(smem.base("response")), clcf[0], space="shared::cta", multicast=True
                        )
                    ptx.mbarrier.wait(clcf[0], phase)
                    ptx.inst.ld.shared.b128(answer, ptx.addr(smem.base("response")))
                    p = ptx.clusterlaunchcontrol.is_canceled(answer)
                    ptx.inst.selp.u32(asked, 1, 0, p)
                    if not mistake("clc no proxy fence"):
                        ptx.fence.proxy_async_shared_cta()
                    ptx.mbarrier.arrive(clce[0])
                    phase ^= 1
                with ptx.if_(rank != 0):
                    ptx.inst.mov.u32(asked, 0)
                ptx.loop_while(asked != 0)

        with ptx.if_(warp >= 4):
            at = Next()
            slots = ptx.pipeline(SLOTS)
            quarter = warp & 3
            values = reg.array(b32, 32)
            reg.scalar(u32, init=0)
            with ptx.loop("store"):
                slot, sp = slots.advance()
                tile = reg.scalar(u32)
                ptx.inst.mov.u32(tile, at.column)
                if not mistake("epi reads before commit"):
                    ptx.mbarrier.wait(accf[slot], sp)
                if not mistake("no fence after full"):
                    ptx.tcgen05.fence_after_thread_sync()

                def release():
                    if not mistake("no fence before"):
                        ptx.tcgen05.fence_before_thread_sync()
                    ptx.inst.bar.warp.sync(0xFFFFFFFF)
                    with ptx.if_(lane == 0):
                        if mistake("acc empty own cta"):
                            ptx.mbarrier.arrive(acce[slot])
                        else:
                            ptx.cluster.arrive_remote(acce[slot], 0, 1)

                for half in range(BN // 32):
                    q = quarter ^ 1 if mistake("bad lane") else quarter
                    ptx.tcgen05.ld(list(values), tensor + slot * BN + (q << 21) + 32 * half, shape="32x32b", count=32)
                    last = half == BN // 32 - 1
                    if last and mistake("acc empty before ld wait"):
                        release()
                    ptx.tcgen05.wait_ld()
                    if last and not mistake("acc empty before ld wait"):
                        release()
                    buf = smem.base("c") + quarter * 8192 + half * 4096
                    ptx.cp_async_bulk.wait_group(2 if mistake("store wait read late") else 1, read=True, pred=lane == 0)
                    ptx.inst.bar.warp.sync(0xFFFFFFFF)
                    for c in range(8):
                        o = buf + lane * 128 + ((lane & 7) ^ c) * 16
                        ptx.inst.st.shared.v4.b32(ptx.addr(o), [values[4 * c + i] for i in range(4)])
                    ptx.fence.proxy_async_shared_cta()
                    ptx.inst.bar.warp.sync(0xFFFFFFFF)
                    with ptx.if_(lane == 0):
                        ptx.tensor_copy.store(mc, (tile * BN + 32 * half, rank * BM + quarter * 32), ptx.addr(buf))
                        ptx.cp_async_bulk.commit_group()
                at.fetch("epi")
                ptx.loop_while(at.work != 0)
            ptx.cp_async_bulk.wait_group(0, pred=lane == 0)
        if mistake("dealloc early"):
            with ptx.if_(warp == 3):
                ptx.tcgen05.dealloc(tensor, SLOTS * BN, cta_group=cg)
        ptx.tcgen05.fence_before_thread_sync()
        if mistake("dealloc no cluster sync"):
            ptx.bar.sync(0)
        elif not mistake("no exit sync"):
            ptx.cluster.sync()
        ptx.tcgen05.fence_after_thread_sync()
        if not (mistake("dealloc early") or mistake("no dealloc")):
            with ptx.if_(warp == 3):
                ptx.tcgen05.dealloc(tensor, SLOTS * BN, cta_group=cg)
        ptx.ret()

    a, b = integers(M, K), integers(N, K, seed=1)
    yield gemm(a, b), a.double() @ b.double().T


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)
