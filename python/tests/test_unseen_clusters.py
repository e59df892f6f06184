"""Sums over CTAs: by distributed shared memory, around a ring, by a workspace and flags (stream-K), by reducing tensor copies:
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import pytest
import unseen
from unseen import NONE, WRONG, integers, kernel_with, torch

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, f32, u32

BM, BN, BK = 64, 64, 64


def wg_product(acc, a, b, k=4, first=None, pred=None):
    ptx.wgmma.fence()
    for step in range(k):
        da = ptx.wgmma.make_descriptor(a + 32 * step, leading_byte_offset=16, stride_byte_offset=1024, swizzle=1)
        db = ptx.wgmma.make_descriptor(b + 32 * step, leading_byte_offset=16, stride_byte_offset=1024, swizzle=1)
        ptx.wgmma.mma_async(
            shape=(64, BN, 16),
            dtype_d=f32,
            dtype_a=bf16,
            dtype_b=bf16,
            d=acc,
            a=da,
            b=db,
            scale_d=(first if step == 0 and first is not None else True),
        )
    ptx.wgmma.commit_group()
    ptx.wgmma.wait_group(0)


def store_acc(acc, base, tid, stride):  # to shared, rows of f32
    r = (tid >> 5) * 16 + ((tid & 31) >> 2)
    for j in range(BN // 8):
        ptx.inst.st.shared.v2.f32(ptx.addr(base + r * stride + (tid & 3) * 8, j * 32), [acc[4 * j], acc[4 * j + 1]])
        ptx.inst.st.shared.v2.f32(
            ptx.addr(base + r * stride + (tid & 3) * 8, j * 32 + 8 * stride), [acc[4 * j + 2], acc[4 * j + 3]]
        )


@kernel_with(
    {
        "no cluster sync before read": "PTX5056",
        "no cluster sync exit": "PTX5056",
        "arrive relaxed": "PTX5052",
        "reads own": WRONG,
        "sync is bar": "PTX5056",
        "mapa rank out": "PTX5010",
        "stage aliases partial": NONE,
        "alias no bar": NONE,
    }
)
def splitk_dsmem(mistake):
    PARTS, K = 4, 4 * BK

    @kernel(
        in_specs=(
            Tile(BM, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(BN, K, bf16, Layout.TMA_128B, tma_box=(BN, BK)),
        ),
        out_specs=(Tile(BM, BN, f32),),
        grid=(PARTS, 1, 1),
        cluster=(PARTS, 1, 1),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def k(A, B, C):
        ma, mb = A.tma_desc(), B.tma_desc()
        (pc,) = ptx.global_ptrs(C)
        smem.alloc(bf16, (2, 64, BK), align=1024, name="ab")
        smem.alloc(f32, (BM, BN), align=1024, name="partial")
        full = smem.mbarrier(1, name="full")
        tid = reg.from_(ptx.special.tid.x(), u32)
        rank = reg.from_(ptx.special.cluster_ctarank(), u32)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(full[0], 2 * BM * BK * 2)
            ptx.tensor_copy.load(ptx.addr(smem.base("ab")), ma, (rank * BK, 0), full[0])
            ptx.tensor_copy.load(ptx.addr(smem.base("ab"), 8192), mb, (rank * BK, 0), full[0])
        ptx.bar.sync(0)
        ptx.mbarrier.wait(full[0], 0)
        acc = reg.array(f32, 32)
        wg_product(acc, smem.base("ab"), smem.base("ab") + 8192, first=False)
        base = smem.base("ab") if mistake("stage aliases partial") or mistake("alias no bar") else smem.base("partial")
        if mistake("stage aliases partial"):
            ptx.bar.sync(0)
        store_acc(acc, base, tid, 256)
        if mistake("sync is bar"):
            ptx.bar.sync(0)
        elif mistake("arrive relaxed"):
            ptx.cluster.arrive(sem="relaxed")
            ptx.cluster.wait()
        elif not mistake("no cluster sync before read"):
            ptx.cluster.sync()
        # my 16 rows of all four: thread t has row t / 8, columns (t % 8) * 8
        at = base + (rank * 16 + (tid >> 3)) * 256 + (tid & 7) * 32
        total, part = reg.array(f32, 8), reg.array(f32, 4)
        for r in range(PARTS):
            peer = ptx.cluster.map_shared_u32(
                at, rank if mistake("reads own") else r + 1 if mistake("mapa rank out") else r
            )
            for h in range(2):
                ptx.inst.ld.shared__cluster.v4.f32([part[i] for i in range(4)], ptx.addr(peer, 16 * h))
                for i in range(4):
                    if r == 0:
                        ptx.inst.mov.f32(total[4 * h + i], part[i])
                    else:
                        ptx.inst.add.f32(total[4 * h + i], total[4 * h + i], part[i])
        out = pc + (rank * 16 + (tid >> 3)) * 256 + (tid & 7) * 32
        for h in range(2):
            ptx.inst.st.global_.v4.f32(ptx.addr(out, 16 * h), [total[4 * h + i] for i in range(4)])
        if not mistake("no cluster sync exit"):
            ptx.cluster.sync()
        ptx.ret()

    a, b = integers(BM, K), integers(BN, K, seed=1)
    yield k(a, b), a.double() @ b.double().T


@kernel_with(
    {
        "no expect": "PTX5020",
        "expect short": "PTX5054",
        "remote bar is own": "PTX5022",
        "no wait": "PTX5054",
        "no start sync": "PTX5022",
        "no exit sync": "PTX5056",
        "parity stuck": "PTX5054",
        "one slot": "PTX5055",
        "no ack": "PTX5055",
        "ack cta scope": "PTX5051",
        "bulk no proxy fence": "PTX5053",
        "bulk source reused": NONE,
        "bulk no bar": "PTX5050",
        "arrive cta scope": "PTX5051",
    }
)
def ring_allreduce(mistake):
    CTAS, N, ROUNDS = 4, 256, 6  # floats a CTA; rounds: sums pass around

    @kernel(
        in_specs=(Tile(CTAS, N, f32),),
        out_specs=(Tile(CTAS, N, f32),),
        grid=(CTAS, 1, 1),
        cluster=(CTAS, 1, 1),
        block=(64, 1, 1),
        arch="sm_90a",
    )
    def k(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        smem.alloc(f32, (2, N), align=16, name="inbox")
        smem.alloc(f32, (2, N), align=16, name="outbox")
        full, empty = smem.mbarrier(2, name="full"), smem.mbarrier(2, name="empty")
        tid = reg.from_(ptx.special.tid.x(), u32)
        rank = reg.from_(ptx.special.cluster_ctarank(), u32)
        nxt, prev = (rank + 1) & 3, (rank + 3) & 3
        with ptx.if_(tid == 0):
            for s in range(2):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], 64)
            ptx.fence.mbarrier_init()
        if not mistake("no start sync"):
            ptx.cluster.sync()
        own, carry, got = reg.array(f32, 4), reg.array(f32, 4), reg.array(f32, 4)
        at = px + (rank * N + tid * 4) * 4
        ptx.inst.ld.global_.v4.f32([own[i] for i in range(4)], ptx.addr(at))
        for i in range(4):
            ptx.inst.mov.f32(carry[i], own[i])
        for r in range(ROUNDS):
            slot = 0 if mistake("one slot") else r % 2
            phase = 0 if mistake("parity stuck") else (r if mistake("one slot") else r // 2) % 2
            bulk = r % 2 == 1
            with ptx.if_(tid == 0):
                if not mistake("no expect"):
                    ptx.mbarrier.arrive_expect_tx(full[slot], N * 4 - (16 if mistake("expect short") else 0))
            # the next one's slot is free: it has said so to my `empty`
            if r >= 2 and not mistake("no ack"):
                ptx.mbarrier.wait(
                    empty[slot],
                    (r // 2 - 1) % 2,
                    **({} if mistake("ack cta scope") else {"sem": "acquire", "scope": "cluster"}),
                )
            bar = full[slot] if mistake("remote bar is own") else ptx.cluster.map_shared_u32(full[slot], nxt)
            to = ptx.cluster.map_shared_u32(smem.base("inbox") + slot * (N * 4), nxt)
            if not bulk:
                bits = reg.array(b32, 4)
                for i in range(4):
                    ptx.inst.mov.b32(bits[i], carry[i])
                ptx.st_async(
                    b32,
                    ptx.addr(to + tid * 16),
                    [bits[i] for i in range(4)],
                    ptx.addr(bar)
                    if not mistake("remote bar is own")
                    else ptx.addr(ptx.cluster.map_shared_u32(full[slot], rank)),
                    vec="v4",
                    space="shared::cluster",
                    sem="weak",
                )
            else:
                out = smem.base("outbox") + ((r >> 1) & 1 if not mistake("bulk source reused") else 0) * (N * 4)
                ptx.inst.st.shared.v4.f32(ptx.addr(out + tid * 16), [carry[i] for i in range(4)])
                if not mistake("bulk no proxy fence"):
                    ptx.fence.proxy_async_shared_cta()
                if not mistake("bulk no bar"):
                    ptx.bar.sync(0)
                with ptx.if_(tid == 0):
                    ptx.cp_async_bulk.to_cluster(
                        ptx.addr(to),
                        ptx.addr(out),
                        N * 4,
                        ptx.addr(bar)
                        if not mistake("remote bar is own")
                        else ptx.addr(ptx.cluster.map_shared_u32(full[slot], rank)),
                    )
            if not mistake("no wait"):
                ptx.mbarrier.wait(full[slot], phase, sem="acquire", scope="cluster")
            ptx.inst.ld.shared.v4.f32(
                [got[i] for i in range(4)], ptx.addr(smem.base("inbox") + slot * (N * 4) + tid * 16)
            )
            ptx.mbarrier.arrive_cluster(
                ptx.addr(ptx.cluster.map_shared_u32(empty[slot], prev)),
                1,
                **({} if mistake("arrive cta scope") else {"sem": "release", "scope": "cluster"}),
            )
            for i in range(4):
                ptx.inst.add.f32(carry[i], got[i], own[i])
        ptx.inst.st.global_.v4.f32(ptx.addr(py + (rank * N + tid * 4) * 4), [carry[i] for i in range(4)])
        if not mistake("no exit sync"):
            ptx.cluster.sync()
        ptx.ret()

    x = integers(CTAS, N, dtype=torch.float32)
    w = x.double().clone()
    carry = w.clone()
    for _ in range(ROUNDS):
        carry = torch.roll(carry, 1, 0) + w
    yield k(x), carry


@kernel_with(
    {
        "flag relaxed": "PTX5052",
        "flag weak load": "PTX5050",
        "flag cta scope": "PTX5051",
        "flag before bar": "PTX5050",
        "wait by one no bar": "PTX5050",
        "wrong flag": "PTX5050",
        "no flag wait": "PTX5050",
        "workspace overlap": "PTX5050",
    }
)
def streamk(mistake):
    # 3 tiles of K = 4 blocks over 4 CTAs: each has 3 blocks of the 12; a tile begun by another is finished by its owner
    TILES, KB, CTAS = 3, 4, 4
    K = KB * BK
    PER = TILES * KB // CTAS

    @kernel(
        in_specs=(
            Tile(BM, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(TILES * BN, K, bf16, Layout.TMA_128B, tma_box=(BN, BK)),
            Tile(CTAS, BM, BN, f32),
            Tile(CTAS, u32),
        ),
        out_specs=(Tile(BM, TILES * BN, f32),),
        mutates=("W", "FLAGS"),
        grid=(CTAS, 1, 1),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def k(A, B, W, FLAGS, C):
        ma, mb = A.tma_desc(), B.tma_desc()
        pw, pf, pc = ptx.global_ptrs(W, FLAGS, C)
        smem.alloc(bf16, (2, 64, BK), align=1024, name="ab")
        smem.alloc(f32, (BM, BN), align=128, name="out")
        full = smem.mbarrier(1, name="full")
        tid = reg.from_(ptx.special.tid.x(), u32)
        cta = reg.from_(ptx.special.ctaid.x(), u32)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        acc = reg.array(f32, 32)
        phase = reg.scalar(u32, init=0)
        first = cta * PER
        at = reg.scalar(u32)
        ptx.inst.mov.u32(at, first)
        end = first + PER
        with ptx.loop("tiles"):
            tile = at >> 2
            stop = reg.scalar(u32)
            ptx.inst.min.u32(stop, end, (tile + 1) * KB)
            begin = reg.scalar(u32)
            ptx.inst.mov.u32(begin, at)
            with ptx.loop("blocks"):
                ptx.bar.sync(0)
                with ptx.if_(tid == 0):
                    ptx.mbarrier.arrive_expect_tx(full[0], 2 * BM * BK * 2)
                    ptx.tensor_copy.load(ptx.addr(smem.base("ab")), ma, ((at & 3) * BK, 0), full[0])
                    ptx.tensor_copy.load(ptx.addr(smem.base("ab"), 8192), mb, ((at & 3) * BK, tile * BN), full[0])
                ptx.mbarrier.wait(full[0], phase)
                phase ^= 1
                wg_product(acc, smem.base("ab"), smem.base("ab") + 8192, first=at != begin)
                at += 1
                ptx.loop_while(at < stop)
            starts = (begin & 3) == 0
            ends = (at & 3) == 0
            r = (tid >> 5) * 16 + ((tid & 31) >> 2)
            off = r * 256 + (tid & 3) * 8
            flag_bits = reg.scalar(u32)

            def mine(c):
                return pw + c * (BM * BN * 4)

            with ptx.if_(~starts):  # not the owner: the partial sum to the workspace of this CTA, then the flag
                to = mine(cta if not mistake("workspace overlap") else cta & 1) + off
                for j in range(8):
                    ptx.inst.st.global_.v2.f32(ptx.addr(to, j * 32), [acc[4 * j], acc[4 * j + 1]])
                    ptx.inst.st.global_.v2.f32(ptx.addr(to, j * 32 + 2048), [acc[4 * j + 2], acc[4 * j + 3]])
                if not mistake("flag before bar"):
                    ptx.bar.sync(0)
                with ptx.if_(tid == 0):
                    fl = ptx.addr(pf + cta * 4)
                    if mistake("flag relaxed"):
                        ptx.inst.st.relaxed.gpu.global_.u32(fl, 1)
                    elif mistake("flag cta scope"):
                        ptx.inst.st.release.cta.global_.u32(fl, 1)
                    else:
                        ptx.inst.st.release.gpu.global_.u32(fl, 1)
                if mistake("flag before bar"):
                    ptx.bar.sync(0)
            with ptx.if_(starts):  # the owner: adds what the next CTAs have of this tile
                with ptx.if_(~ends):
                    peer = cta + 1

                    def wait():
                        with ptx.loop("flag"):
                            a = ptx.addr(pf + (cta if mistake("wrong flag") else peer) * 4)
                            if mistake("flag weak load"):
                                ptx.inst.ld.global_.u32(flag_bits, a)
                            else:
                                ptx.inst.ld.acquire.gpu.global_.u32(flag_bits, a)
                            ptx.loop_while(flag_bits == 0)

                    if not mistake("no flag wait"):
                        with ptx.if_(tid == 0):
                            wait()
                    if not mistake("wait by one no bar"):
                        ptx.bar.sync(0)
                    x = reg.array(f32, 4)
                    src = mine(peer if not mistake("workspace overlap") else peer & 1) + off
                    for j in range(8):
                        ptx.inst.ld.global_.v2.f32([x[0], x[1]], ptx.addr(src, j * 32))
                        ptx.inst.ld.global_.v2.f32([x[2], x[3]], ptx.addr(src, j * 32 + 2048))
                        for i in range(4):
                            ptx.inst.add.f32(acc[4 * j + i], acc[4 * j + i], x[i])
                to = pc + tile * 256 + r * (TILES * 256) + (tid & 3) * 8
                for j in range(8):
                    ptx.inst.st.global_.v2.f32(ptx.addr(to, j * 32), [acc[4 * j], acc[4 * j + 1]])
                    ptx.inst.st.global_.v2.f32(ptx.addr(to, j * 32 + 8 * TILES * 256), [acc[4 * j + 2], acc[4 * j + 3]])
            ptx.loop_while(at < end)
        ptx.ret()

    a, b = integers(BM, K), integers(TILES * BN, K, seed=1)
    # CTA 0: t0 0..2; CTA 1: t0 3, t1 0..1; CTA 2: t1 2..3, t2 0; CTA 3: t2 1..3
    w, flags = torch.zeros(CTAS, BM, BN), torch.zeros(CTAS, dtype=torch.int32)
    yield k(a, b, w, flags), a.double() @ b.double().T


@kernel_with(
    {
        "no proxy fence": "PTX5053",
        "no bar": "PTX5050",
        "no wait": "PTX5054",
        "read wait then load": "PTX5054",
        "is store": "PTX5054",
        "zero races": "PTX5053",
        "box too big": "PTX5010",
    }
)
def tma_reduce(mistake):
    PARTS, K = 4, 4 * BK

    @kernel(
        in_specs=(
            Tile(BM, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(BN, K, bf16, Layout.TMA_128B, tma_box=(BN, BK)),
            Tile(BM, BN, f32, tma_box=(BM * (2 if mistake("box too big") else 1), 32)),
        ),
        out_specs=(Tile(PARTS, 4, f32),),
        mutates=("C",),
        grid=(PARTS, 1, 1),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def k(A, B, C, Y):
        ma, mb, mc = A.tma_desc(), B.tma_desc(), C.tma_desc()
        pc, py = ptx.global_ptrs(C, Y)
        smem.alloc(bf16, (2, 64, BK), align=1024, name="ab")
        smem.alloc(f32, (2, BM, 32), align=1024, name="partial")
        full = smem.mbarrier(1, name="full")
        tid = reg.from_(ptx.special.tid.x(), u32)
        rank = reg.from_(ptx.special.ctaid.x(), u32)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(tid == 0):
            ptx.mbarrier.arrive_expect_tx(full[0], 2 * BM * BK * 2)
            ptx.tensor_copy.load(ptx.addr(smem.base("ab")), ma, (rank * BK, 0), full[0])
            ptx.tensor_copy.load(ptx.addr(smem.base("ab"), 8192), mb, (rank * BK, 0), full[0])
        ptx.mbarrier.wait(full[0], 0)
        acc = reg.array(f32, 32)
        wg_product(acc, smem.base("ab"), smem.base("ab") + 8192, first=False)
        r = (tid >> 5) * 16 + ((tid & 31) >> 2)
        for j in range(8):
            o = (j // 4) * (BM * 128) + (j % 4) * 32
            ptx.inst.st.shared.v2.f32(
                ptx.addr(smem.base("partial") + r * 128 + (tid & 3) * 8, o), [acc[4 * j], acc[4 * j + 1]]
            )
            ptx.inst.st.shared.v2.f32(
                ptx.addr(smem.base("partial") + r * 128 + (tid & 3) * 8, o + 1024), [acc[4 * j + 2], acc[4 * j + 3]]
            )
        if not mistake("no proxy fence"):
            ptx.fence.proxy_async_shared_cta()
        if not mistake("no bar"):
            ptx.bar.sync(0)
        with ptx.if_(tid == 0):
            if mistake("zero races"):
                ptx.inst.st.global_.f32(ptx.addr(pc), 0.0)
            for h in range(2):
                if mistake("is store"):
                    ptx.tensor_copy.store(mc, (32 * h, 0), ptx.addr(smem.base("partial"), h * BM * 128))
                else:
                    ptx.tensor_copy.reduce("add", mc, (32 * h, 0), ptx.addr(smem.base("partial"), h * BM * 128))
            ptx.cp_async_bulk.commit_group()
            if not mistake("no wait"):
                ptx.cp_async_bulk.wait_group(0, read=mistake("read wait then load"))
            v = reg.array(f32, 4)
            if mistake("read wait then load"):
                ptx.inst.ld.global_.v4.f32([v[i] for i in range(4)], ptx.addr(pc))
            else:
                for i in range(4):
                    ptx.inst.mov.f32(v[i], 1.0)
            ptx.inst.st.global_.v4.f32(ptx.addr(py + rank * 16), [v[i] for i in range(4)])
        ptx.ret()

    a, b = integers(BM, K), integers(BN, K, seed=1)
    c = torch.zeros(BM, BN)
    k(a, b, c)
    yield c, a.double() @ b.double().T


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)


def test_the_array_that_is_touched_too_early_is_named():
    found, _, _ = unseen.run(splitk_dsmem, unseen.Mistake("no cluster sync before read"))
    assert found.reports[0].code == 5056 and "reads `partial`" in str(found.reports[0])
