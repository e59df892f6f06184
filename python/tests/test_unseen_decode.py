"""Memory-bound kernels of Hopper: one query split over a cluster, sums by reducing bulk copies, a ring in place with stores, a histogram by red.async:
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import pytest
import unseen
from unseen import NONE, WRONG, integers, kernel_with, torch

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.types import f32, s32, u32

inst = ptx.inst
CLUSTER = {"sem": "acquire", "scope": "cluster"}


@kernel_with(
    {
        "no wait for keys": "PTX5054",
        "parity at wrap-around": "PTX5054",
        "expects half": "PTX5054",
        "expects a row more": "PTX5020",
        "stage released before the values are read": "PTX5055",
        "stage released by one thread": "PTX5055",
        "producer does not wait": "PTX5022",
        "maxima read early": "PTX5050",
        "no bar behind the scores": "PTX5050",
        "scores overwritten": "PTX5050",
        "no cluster barrier before": "PTX5050",
        "arrives relaxed": "PTX5052",
        "bar instead of the cluster's": "PTX5056",
        "no cluster barrier at the end": "PTX5056",
        "waits before it reads the peers": "PTX5056",
        "maximum of its own": WRONG,
        "partial behind the arrival": "PTX5050",
    }
)
def decode(mistake):
    CTAS, D, KEYS, CHUNKS, ST = 4, 64, 64, 3, 2  # of a CTA: chunks of keys

    @kernel(
        in_specs=(Tile(D, f32), Tile(CTAS * CHUNKS * KEYS, D, f32), Tile(CTAS * CHUNKS * KEYS, D, f32)),
        out_specs=(Tile(D, f32), Tile(CTAS, f32)),
        grid=(CTAS, 1, 1),
        cluster=(CTAS, 1, 1),
        block=(96, 1, 1),
        arch="sm_90a",
    )
    def k(Q, K, V, OUT, SUM):
        pq, pk, pv, po, ps = ptx.global_ptrs(Q, K, V, OUT, SUM)
        smem.alloc(f32, (ST, 2, KEYS, D), align=128, name="kv")
        smem.alloc(f32, (KEYS,), align=16, name="scores")
        smem.alloc(f32, (2,), align=8, name="maxima")
        smem.alloc(f32, (D,), align=16, name="q")
        smem.alloc(f32, (D + 2,), align=16, name="partial")  # out, then maximum and sum
        full, empty = smem.mbarrier(ST, name="full"), smem.mbarrier(ST, name="empty")
        tid = reg.from_(ptx.special.tid.x(), u32)
        rank = reg.from_(ptx.special.cluster_ctarank(), u32)
        with ptx.if_(tid == 0):
            for s in range(ST):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], 1 if mistake("stage released by one thread") else 64)
            ptx.fence.mbarrier_init()
        x = reg.scalar(f32)
        with ptx.if_(tid < D):
            inst.ld.global_.f32(x, ptx.addr(pq + tid * 4))
            inst.st.shared.f32(ptx.addr(smem.base("q") + tid * 4), x)
        ptx.bar.sync(0)
        BYTES = KEYS * D * 4
        with ptx.if_(tid == 64):
            ring = ptx.pipeline(ST)
            for c in ptx.range_(0, CHUNKS, 1):
                st, ph = ring.advance()
                if not mistake("producer does not wait"):
                    ptx.mbarrier.wait(empty[st], ph ^ 1)
                expected = 2 * BYTES
                if mistake("expects half"):
                    expected = BYTES
                if mistake("expects a row more"):
                    expected += D * 4
                ptx.mbarrier.arrive_expect_tx(full[st], expected)
                for i, p in enumerate((pk, pv)):
                    ptx.cp_async_bulk.load(
                        ptx.addr(smem.base("kv") + st * (2 * BYTES), i * BYTES),
                        ptx.addr(p + (rank * CHUNKS + c) * BYTES),
                        BYTES,
                        full[st],
                    )
        top, total, out = reg.scalar(f32, init=-64.0), reg.scalar(f32, init=0.0), reg.scalar(f32, init=0.0)
        with ptx.if_(tid < 64):
            ring = ptx.pipeline(ST)
            q, s, other, new, scale = (reg.scalar(f32) for _ in range(5))
            for _ in ptx.range_(0, CHUNKS, 1):
                st, ph = ring.advance()
                if not mistake("no wait for keys"):
                    ptx.mbarrier.wait(full[st], 0 if mistake("parity at wrap-around") else ph)
                at = smem.base("kv") + st * (2 * BYTES)
                inst.mov.f32(s, 0.0)
                for d in range(D):
                    inst.ld.shared.f32(q, ptx.addr(smem.base("q"), d * 4))
                    inst.ld.shared.f32(x, ptx.addr(at + tid * (D * 4), d * 4))
                    inst.fma.rn.f32(s, q, x, s)
                inst.mov.f32(new, s)
                ptx.warp.reduce_max(new)
                with ptx.if_((tid & 31) == 0):
                    inst.st.shared.f32(ptx.addr(smem.base("maxima") + (tid >> 5) * 4), new)
                if not mistake("maxima read early"):
                    ptx.bar.sync(1, 64)
                inst.ld.shared.v2.f32([new, other], ptx.addr(smem.base("maxima")))
                inst.max.f32(new, new, other)
                inst.max.f32(new, new, top)
                inst.sub.f32(scale, top, new)
                inst.ex2.approx.ftz.f32(scale, scale)
                inst.mov.f32(top, new)
                inst.sub.f32(s, s, new)
                inst.ex2.approx.ftz.f32(s, s)
                inst.st.shared.f32(ptx.addr(smem.base("scores") + tid * 4), s)
                if not mistake("no bar behind the scores"):
                    ptx.bar.sync(1, 64)
                if mistake("stage released before the values are read"):
                    ptx.mbarrier.arrive(empty[st])
                inst.mul.f32(out, out, scale)
                inst.mul.f32(total, total, scale)
                for j in range(KEYS):
                    inst.ld.shared.f32(s, ptx.addr(smem.base("scores"), j * 4))
                    inst.ld.shared.f32(x, ptx.addr(at + tid * 4, BYTES + j * D * 4))
                    inst.fma.rn.f32(out, s, x, out)
                    inst.add.f32(total, total, s)
                if mistake("stage released by one thread"):
                    ptx.mbarrier.arrive(empty[st], pred=tid == 0)
                elif not mistake("stage released before the values are read"):
                    ptx.mbarrier.arrive(empty[st])
                if mistake("scores overwritten"):
                    inst.st.shared.f32(ptx.addr(smem.base("scores") + tid * 4), 0.0)
            if not mistake("partial behind the arrival"):
                inst.st.shared.f32(ptx.addr(smem.base("partial") + tid * 4), out)
                with ptx.if_(tid == 0):
                    inst.st.shared.v2.f32(ptx.addr(smem.base("partial"), D * 4), [top, total])
        if mistake("bar instead of the cluster's"):
            ptx.bar.sync(0)
        elif not mistake("no cluster barrier before"):
            if mistake("arrives relaxed"):
                inst.barrier.cluster.arrive.relaxed.aligned()
            else:
                inst.barrier.cluster.arrive.release.aligned()
            if mistake("partial behind the arrival"):
                with ptx.if_(tid < 64):
                    inst.st.shared.f32(ptx.addr(smem.base("partial") + tid * 4), out)
                    with ptx.if_(tid == 0):
                        inst.st.shared.v2.f32(ptx.addr(smem.base("partial"), D * 4), [top, total])
            inst.barrier.cluster.wait.acquire.aligned()
        if mistake("waits before it reads the peers"):
            ptx.cluster.sync()
        # 16 numbers of each CTA
        with ptx.if_(tid < D // CTAS):
            m, sums, all_m = reg.array(f32, CTAS), reg.array(f32, CTAS), reg.scalar(f32, init=-64.0)
            total, out = reg.scalar(f32, init=0.0), reg.scalar(f32, init=0.0)
            peers = [ptx.cluster.map_shared_u32(smem.base("partial"), c) for c in range(CTAS)]
            for c in range(CTAS):
                inst.ld.shared__cluster.v2.f32([m[c], sums[c]], ptx.addr(peers[c], D * 4))
                inst.max.f32(all_m, all_m, m[c])
            if mistake("maximum of its own"):
                inst.mov.f32(all_m, top)
            for c in range(CTAS):
                s = reg.scalar(f32)
                inst.sub.f32(s, m[c], all_m)
                inst.ex2.approx.ftz.f32(s, s)
                inst.ld.shared__cluster.f32(x, ptx.addr(peers[c] + (rank * (D // CTAS) + tid) * 4))
                inst.fma.rn.f32(out, x, s, out)
                inst.fma.rn.f32(total, sums[c], s, total)
            inst.st.global_.f32(ptx.addr(po + (rank * (D // CTAS) + tid) * 4), out)
            with ptx.if_(tid == 0):
                inst.st.global_.f32(ptx.addr(ps + rank * 4), total)
        if mistake("waits before it reads the peers") or mistake("no cluster barrier at the end"):
            ptx.ret()
        ptx.cluster.sync()
        ptx.ret()

    n = CTAS * CHUNKS * KEYS
    draw = torch.Generator().manual_seed(3)
    q = (torch.rand(D, generator=draw) < 0.06).float()
    key, v = integers(n, D, low=-1, high=2, dtype=torch.float32), integers(n, D, dtype=torch.float32, seed=1)
    out, total = k(q, key, v)
    s = key.double() @ q.double()
    p = torch.exp2(s - s.max())
    yield out, p @ v.double()
    yield total, p.sum().expand(CTAS)


@kernel_with(
    {
        "no proxy fence": "PTX5053",
        "fence behind the bar of one thread only": NONE,
        "fence in front of the stores": "PTX5053",
        "generic fence": "PTX5053",
        "no bar before the copy": "PTX5050",
        "buffer reused at once": "PTX5054",
        "waits for one group too few": "PTX5054",
        "wait by another thread": "PTX5054",
        "no bar behind the wait": "PTX5054",
        "no commit": "PTX5054",
        "not waited for before the ticket": "PTX5054",
        "read wait before the ticket": "PTX5054",
        "ticket relaxed": "PTX5052",
        "ticket for its CTA": "PTX5051",
        "no bar before the last sums": "PTX5050 PTX5054",
        "exits with copies": "PTX5054",
        "size of half a row": WRONG,
        "starts at the wrong row": WRONG,
        "zeroed here": "PTX5053",
    }
)
def gradient(mistake):
    # dQ[i] += dS[i, j] K[j] of every block j of keys, by the CTA of j; the last CTA scales dQ
    CTAS, ROWS, D, TILES = 3, 16, 32, 4

    @kernel(
        in_specs=(Tile(CTAS, TILES * ROWS, f32), Tile(CTAS, D, f32), Tile(TILES * ROWS, D, f32), Tile(1, u32)),
        out_specs=(Tile(TILES * ROWS, D, f32),),
        mutates=("DQ", "TICKET"),
        grid=(CTAS, 1, 1),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def k(DS, K, DQ, TICKET, OUT):
        pd, pk, pq, pt, po = ptx.global_ptrs(DS, K, DQ, TICKET, OUT)
        smem.alloc(f32, (2, ROWS, D), align=128, name="tile")
        smem.alloc(u32, (1,), name="last")
        tid = reg.from_(ptx.special.tid.x(), u32)
        cta = reg.from_(ptx.special.ctaid.x(), u32)
        ds, key, ticket = reg.scalar(f32), reg.array(f32, 4), reg.scalar(u32)
        row, col = tid >> 3, tid & 7
        inst.ld.global_.v4.f32(list(key), ptx.addr(pk + cta * (D * 4) + col * 16))
        BYTES = ROWS * D * 4
        if mistake("zeroed here"):
            inst.st.global_.v4.f32(ptx.addr(pq + tid * 16), [0.0] * 4)
        for t in ptx.range_(0, TILES, 1):
            buffer = 0 if mistake("buffer reused at once") else (t & 1) * BYTES
            keep = 2 if mistake("waits for one group too few") else 1
            with ptx.if_(tid == (32 if mistake("wait by another thread") else 0)):
                ptx.cp_async_bulk.wait_group(keep, read=True)
            if not mistake("no bar behind the wait"):
                ptx.bar.sync(0)
            inst.ld.global_.f32(ds, ptx.addr(pd + (cta * (TILES * ROWS) + t * ROWS + row) * 4))
            v = [ds * key[i] for i in range(4)]
            if mistake("fence in front of the stores"):
                ptx.fence.proxy_async_shared_cta()
            inst.st.shared.v4.f32(ptx.addr(smem.base("tile") + buffer + tid * 16), v)
            if mistake("generic fence"):
                inst.fence.acq_rel.gpu()
            elif not any(
                mistake(m)
                for m in ("no proxy fence", "fence in front of the stores", "fence behind the bar of one thread only")
            ):
                ptx.fence.proxy_async_shared_cta()
            if not mistake("no bar before the copy"):
                ptx.bar.sync(0)
            with ptx.if_(tid == 0):
                if mistake("fence behind the bar of one thread only"):
                    ptx.fence.proxy_async_shared_cta()
                to = pq + (t ^ 1 if mistake("starts at the wrong row") else t) * BYTES
                inst.cp.reduce.async_.bulk.global_.shared__cta.bulk_group.add.f32(
                    ptx.addr(to),
                    ptx.addr(smem.base("tile") + buffer),
                    BYTES // 2 if mistake("size of half a row") else BYTES,
                )
                if not mistake("no commit"):
                    ptx.cp_async_bulk.commit_group()
        with ptx.if_(tid == 0):
            if not (mistake("not waited for before the ticket") or mistake("exits with copies")):
                ptx.cp_async_bulk.wait_group(0, read=mistake("read wait before the ticket"))
            if mistake("ticket relaxed"):
                inst.atom.relaxed.gpu.global_.add.u32(ticket, ptx.addr(pt), 1)
            elif mistake("ticket for its CTA"):
                inst.atom.acq_rel.cta.global_.add.u32(ticket, ptx.addr(pt), 1)
            else:
                inst.atom.acq_rel.gpu.global_.add.u32(ticket, ptx.addr(pt), 1)
            inst.st.shared.u32(ptx.addr(smem.base("last")), ticket)
        if mistake("exits with copies"):
            ptx.ret()
        if not mistake("no bar before the last sums"):
            ptx.bar.sync(0)
        inst.ld.shared.u32(ticket, ptx.addr(smem.base("last")))
        with ptx.if_(ticket == CTAS - 1):
            for t in ptx.range_(0, TILES, 1):
                at = t * BYTES + tid * 16
                inst.ld.global_.v4.f32(list(key), ptx.addr(pq + at))
                inst.st.global_.v4.f32(ptx.addr(po + at), [key[i] * 0.5 for i in range(4)])
        ptx.ret()

    ds, key = integers(CTAS, TILES * ROWS, dtype=torch.float32), integers(CTAS, D, dtype=torch.float32, seed=1)
    out = k(ds, key, torch.zeros(TILES * ROWS, D), torch.zeros(1, dtype=torch.int32))
    yield out, 0.5 * ds.double().T @ key.double()


@kernel_with(
    {
        "no wait for full": "PTX5054",
        "full of the other stage": "PTX5054",
        "parity flips late": "PTX5054 PTX5020",
        "no wait for the store": "PTX5054",
        "store read wait leaves one": "PTX5054",
        "released before the store": "PTX5054",
        "no proxy fence": "PTX5053",
        "no bar before the store": "PTX5050",
        "bar of too few": "PTX5022 PTX5050 PTX5020",
        "empty not waited for": "PTX5022",
        "tail not released": NONE,
        "tail expects a whole tile": "PTX5020",
        "tail copies a whole tile": "PTX5010",
        "first phase waits": "PTX5020",
        "registers never given back": "PTX5020",
    }
)
def streaming(mistake):
    # y = 2 x, in place in a ring: warpgroup 0 loads, warpgroup 1 computes and stores
    N, TILE, ST, CTAS = 10 * 512 + 128, 512, 3, 2
    TILES = -(-N // TILE)

    @kernel(
        in_specs=(Tile(N, f32),),
        out_specs=(Tile(N, f32),),
        grid=(CTAS, 1, 1),
        block=(256, 1, 1),
        arch="sm_90a",
        raw_directives=(("maxnreg", (128,)),),
    )
    def k(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        smem.alloc(f32, (ST, TILE), align=128, name="ring")
        full, empty = smem.mbarrier(ST, name="full"), smem.mbarrier(ST, name="empty")
        tid = reg.from_(ptx.special.tid.x(), u32)
        cta = reg.from_(ptx.special.ctaid.x(), u32)
        with ptx.if_(tid == 0):
            for s in range(ST):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        def bytes_of(t):
            size = reg.scalar(u32, init=TILE * 4)
            inst.selp.u32(size, (N % TILE) * 4, TILE * 4, t == TILES - 1)
            return size

        with ptx.if_(tid < 128):
            if not mistake("registers never given back"):
                ptx.setmaxnreg_dec(24)
            with ptx.if_(tid == 0):
                ring = ptx.pipeline(ST)
                for t in ptx.range_(cta, TILES, CTAS):
                    st, ph = ring.advance()
                    if not mistake("empty not waited for"):
                        ptx.mbarrier.wait(empty[st], ph if mistake("first phase waits") else ph ^ 1)
                    size = bytes_of(t)
                    ptx.mbarrier.arrive_expect_tx(full[st], TILE * 4 if mistake("tail expects a whole tile") else size)
                    ptx.cp_async_bulk.load(
                        ptx.addr(smem.base("ring") + st * (TILE * 4)),
                        ptx.addr(px + t * (TILE * 4)),
                        TILE * 4 if mistake("tail copies a whole tile") else size,
                        full[st],
                    )
        with ptx.else_():
            ptx.setmaxnreg_inc(232)
            me = tid - 128
            ring = ptx.pipeline(ST)
            v = reg.array(f32, 4)
            before = reg.scalar(u32, init=0)
            i = reg.scalar(u32, init=0)
            for t in ptx.range_(cta, TILES, CTAS):
                st, ph = ring.advance()
                if not mistake("no wait for full"):
                    ptx.mbarrier.wait(
                        full[0] if mistake("full of the other stage") else full[st],
                        ph ^ 1 if mistake("parity flips late") else ph,
                    )
                at = smem.base("ring") + st * (TILE * 4)
                size = bytes_of(t)
                with ptx.if_(me * 16 < size):
                    inst.ld.shared.v4.f32(list(v), ptx.addr(at + me * 16))
                    inst.st.shared.v4.f32(ptx.addr(at + me * 16), [v[i_] * 2.0 for i_ in range(4)])
                if not mistake("no proxy fence"):
                    ptx.fence.proxy_async_shared_cta()
                if not mistake("no bar before the store"):
                    ptx.bar.sync(1, 96 if mistake("bar of too few") else 128)
                with ptx.if_(me == 0):
                    if mistake("released before the store"):
                        ptx.mbarrier.arrive(empty[st])
                    ptx.cp_async_bulk.store(ptx.addr(py + t * (TILE * 4)), ptx.addr(at), size)
                    ptx.cp_async_bulk.commit_group()
                    if not mistake("released before the store"):
                        # the stage of the tile before: its store has read it
                        with ptx.if_(i != 0):
                            if not mistake("no wait for the store"):
                                ptx.cp_async_bulk.wait_group(
                                    2 if mistake("store read wait leaves one") else 1, read=True
                                )
                            ptx.mbarrier.arrive(empty[before])
                inst.mov.u32(before, st)
                i += 1
            with ptx.if_(me == 0):
                ptx.cp_async_bulk.wait_group(0, read=True)
                if not mistake("tail not released"):
                    ptx.mbarrier.arrive(empty[before])
        ptx.ret()

    x = integers(N, dtype=torch.float32)
    yield k(x), 2 * x.double()


@kernel_with(
    {
        "counts not zeroed": "PTX5012",
        "no cluster barrier before": "PTX5050",
        "zeroed behind the barrier": "PTX5050",
        "expects too little": "PTX5055",
        "expects too much": "PTX5020",
        "mbarrier of its own": "PTX5020 PTX5022",
        "no wait": "PTX5054",
        "waits for the CTA alone": NONE,
        "stores instead": "PTX5054",
        "one thread waits": "PTX5054",
        "leaves early": NONE,
        "peer of the wrong rank": "PTX5055",
    }
)
def histogram(mistake):
    CTAS, N, BINS = 2, 128, 64  # bins of a CTA: 32

    @kernel(
        in_specs=(Tile(CTAS, N, s32),),
        out_specs=(Tile(BINS, s32),),
        grid=(CTAS, 1, 1),
        cluster=(CTAS, 1, 1),
        block=(64, 1, 1),
        arch="sm_90a",
    )
    def k(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        smem.alloc(s32, (BINS // CTAS,), align=16, name="counts")
        full = smem.mbarrier(1, name="full")
        tid = reg.from_(ptx.special.tid.x(), u32)
        rank = reg.from_(ptx.special.cluster_ctarank(), u32)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
            # each thread of the cluster gives two numbers, half of which fall into this CTA's bins
            ptx.mbarrier.arrive_expect_tx(
                full[0], N * 4 + (4 if mistake("expects too much") else -4 if mistake("expects too little") else 0)
            )

        def zero():
            with ptx.if_(tid < BINS // CTAS):
                inst.st.shared.s32(ptx.addr(smem.base("counts") + tid * 4), 0)

        if not (mistake("counts not zeroed") or mistake("zeroed behind the barrier")):
            zero()
        if not mistake("no cluster barrier before"):
            ptx.cluster.sync()
        if mistake("zeroed behind the barrier"):
            zero()
        for i in range(2):
            x = reg.scalar(s32)
            inst.ld.global_.s32(x, ptx.addr(px + (rank * N + tid + 64 * i) * 4))
            peer = reg.scalar(u32)
            inst.shr.u32(peer, x.as_(u32), 5)
            if mistake("peer of the wrong rank"):
                inst.mov.u32(peer, 0)
            to = ptx.cluster.map_shared_u32(smem.base("counts") + (x.as_(u32) & 31) * 4, peer)
            bar = ptx.cluster.map_shared_u32(full[0], rank if mistake("mbarrier of its own") else peer)
            if mistake("stores instead"):
                ptx.st_async(s32, ptx.addr(to), 1, ptx.addr(bar), space="shared::cluster", sem="weak")
            else:
                ptx.red_async("add", s32, ptx.addr(to), 1, ptx.addr(bar), space="shared::cluster")
        if mistake("one thread waits"):
            with ptx.if_(tid == 32):
                ptx.mbarrier.wait(full[0], 0, **CLUSTER)
        elif not mistake("no wait"):
            ptx.mbarrier.wait(full[0], 0, **({} if mistake("waits for the CTA alone") else CLUSTER))
        with ptx.if_(tid < BINS // CTAS):
            x = reg.scalar(s32)
            inst.ld.shared.s32(x, ptx.addr(smem.base("counts") + tid * 4))
            inst.st.global_.s32(ptx.addr(py + (rank * (BINS // CTAS) + tid) * 4), x)
        if not mistake("leaves early"):
            ptx.cluster.sync()
        ptx.ret()

    draw = torch.Generator().manual_seed(4)
    x = torch.randint(0, 32, (CTAS * N,), generator=draw) + 32 * torch.arange(CTAS * N).remainder(2)
    x = x.to(torch.int32)
    yield k(x.reshape(CTAS, N)), torch.bincount(x.long(), minlength=BINS).double()


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)
