"""Attention by tcgen05: two tiles of queries, warps for softmax, for correction, for products and for copies:
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import pytest
import unseen
from unseen import NONE, WRONG, integers, kernel_with, torch

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, f16, f32, u32

# FA4-like: two tiles of 128 queries, warps 0-3 and 4-7 softmax, 8-11 correction (+ epilogue), 12 mma, 13 loads.
# S and P in tensor memory (P overlays S), O in tensor memory, corrected where the maximum moved.
# Numbers are small integers, exponents of 2: exact in f32.
D, BKV, NKV = 64, 64, 4


@kernel_with(
    {
        "p not waited st": "PTX5054",
        "p no fence before": "PTX5058",
        "p no fence after": "PTX5058",
        "s no fence after": "PTX5058",
        "o correct no wait": "PTX5058",
        "mma before correction": "PTX5054",
        "no wait st correction": "PTX5054",
        "corr no fence before": "PTX5058",
        "stats no wait": "PTX5012",
        "stats overwritten": NONE,
        "p overlaps next s": "PTX5054",
        "p columns": WRONG,
        "k released early": "PTX5054",
        "v major": "PTX5053",
        "q expect": "PTX5020",
        "kv parity": "PTX5054",
        "p count": "PTX5054",
        "final early": "PTX5054",
        "idesc tmem a type": WRONG,
        "relinquish early": "PTX5010",
        "dealloc before ld": "PTX5010",
        "o lane quarter": "PTX5010",
        "softmax lane quarter": "PTX5010",
        "p half arrive": NONE,
    }
)
def fa4(mistake):
    QT = 2
    M, N = QT * 128, NKV * BKV

    # columns: S0 at 0, S1 at 64, O0 at 128, O1 at 192; P over S (32 columns of bf16x2)
    @kernel(
        in_specs=(
            Tile(M, D, bf16, Layout.TMA_128B, tma_box=(128, D)),
            Tile(N, D, bf16, Layout.TMA_128B, tma_box=(BKV, D)),
            Tile(N, D, bf16, Layout.TMA_128B, tma_box=(BKV, D)),
        ),
        out_specs=(Tile(M, D, f32), Tile(M, f32), Tile(M, f32)),
        grid=(1, 1, 1),
        block=(448, 1, 1),
        arch="sm_100a",
    )
    def attention(Q, K, V, OUT, SUM, MAX):
        mq, mk, mv = Q.tma_desc(), K.tma_desc(), V.tma_desc()
        po, psum, pmax = ptx.global_ptrs(OUT, SUM, MAX)
        smem.alloc(bf16, (QT, 128, D), align=1024, name="q")
        smem.alloc(bf16, (3, BKV, D), align=1024, name="kv")
        smem.alloc(f32, (QT, 128), name="scale")
        smem.alloc(u32, (1,), name="slot")
        qf = smem.mbarrier(QT, name="q_full")
        kvf, kve = smem.mbarrier(3, name="kv_full"), smem.mbarrier(3, name="kv_empty")
        sf = smem.mbarrier(QT, name="s_full")  # mma -> softmax
        pf = smem.mbarrier(QT, name="p_full")  # softmax (128) -> mma: P is there
        of = smem.mbarrier(QT, name="o_full")  # mma -> correction
        oc = smem.mbarrier(QT, name="o_corrected")  # correction (128) -> mma
        cf, ce = smem.mbarrier(QT, name="scale_full"), smem.mbarrier(QT, name="scale_empty")
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp, lane = tid >> 5, tid & 31
        with ptx.if_(tid == 416):
            for t in range(QT):
                ptx.mbarrier.init(qf[t], 1)
                ptx.mbarrier.init(sf[t], 1)
                ptx.mbarrier.init(pf[t], 128 if not mistake("p count") else 96)
                ptx.mbarrier.init(of[t], 1)
                ptx.mbarrier.init(oc[t], 64 if mistake("p half arrive") else 128)
                ptx.mbarrier.init(cf[t], 128)
                ptx.mbarrier.init(ce[t], 128)
            for s in range(3):
                ptx.mbarrier.init(kvf[s], 1)
                ptx.mbarrier.init(kve[s], 1)
            ptx.fence.mbarrier_init()
        with ptx.if_(warp == 12):
            if mistake("relinquish early"):
                ptx.tcgen05.relinquish_alloc_permit()
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), 256)
            if not mistake("relinquish early"):
                ptx.tcgen05.relinquish_alloc_permit()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tensor = reg.scalar(b32)
        ptx.inst.ld.shared.b32(tensor, ptx.addr(smem.base("slot")))

        with ptx.if_(tid == 416):  # loads: q0, k0, q1, v0, k1, v1 ...
            ring = ptx.pipeline(3)

            def load(m, row):
                stage, phase = ring.advance()
                ptx.mbarrier.wait(kve[stage], phase ^ 1)
                ptx.mbarrier.arrive_expect_tx(kvf[stage], BKV * D * 2)
                ptx.tensor_copy.load(ptx.addr(smem.base("kv") + stage * (BKV * D * 2)), m, (0, row), kvf[stage])

            for t in range(QT):
                ptx.mbarrier.arrive_expect_tx(qf[t], 128 * D * 2 - (1024 if mistake("q expect") else 0))
                ptx.tensor_copy.load(ptx.addr(smem.base("q"), t * 128 * D * 2), mq, (0, t * 128), qf[t])
            for j in ptx.range_(0, NKV, 1):
                load(mk, j * BKV)
                load(mv, j * BKV)

        with ptx.if_(tid == 384):  # mma
            ring = ptx.pipeline(3)
            qk = ptx.tcgen05.instruction_descriptor(m=128, n=BKV, a_dtype=bf16, b_dtype=bf16, d_dtype=f32)
            pv = ptx.tcgen05.instruction_descriptor(
                m=128,
                n=D,
                a_dtype=f16 if mistake("idesc tmem a type") else bf16,
                b_dtype=bf16,
                d_dtype=f32,
                b_major="K" if mistake("v major") else "MN",
            )
            turn = reg.scalar(u32, init=0)  # parity of the round

            def desc(name, off, step, mn=False):
                return ptx.tcgen05.descriptor(
                    smem.base(name) + off, byte_offset=(2048 if mn else 32) * step, stride_bytes=1024, swizzle="128B"
                )

            def scores(t, stage):
                for step in range(D // 16):
                    ptx.tcgen05.mma(
                        tensor + t * 64,
                        desc("q", t * 128 * D * 2, step),
                        desc("kv", stage * (BKV * D * 2), step),
                        reg.from_(qk, u32),
                        kind="kind::f16",
                        enable_input_d=step > 0,
                    )
                ptx.tcgen05.commit(sf[t])

            k_stage, k_phase = ring.advance()
            ptx.mbarrier.wait(kvf[k_stage], k_phase ^ 1 if mistake("kv parity") else k_phase)
            for t in range(QT):
                ptx.mbarrier.wait(qf[t], 0)
                scores(t, k_stage)
            ptx.tcgen05.commit(kve[k_stage])
            for j in ptx.range_(0, NKV, 1):
                v_stage, v_phase = ring.advance()
                ptx.mbarrier.wait(kvf[v_stage], v_phase)
                more = j + 1 < NKV
                k_stage, k_phase = reg.scalar(u32), reg.scalar(u32)
                with ptx.if_(more):
                    s, p = ring.advance()
                    ptx.inst.mov.u32(k_stage, s)
                    ptx.inst.mov.u32(k_phase, p)
                    ptx.mbarrier.wait(kvf[k_stage], k_phase)
                for t in range(QT):
                    ptx.mbarrier.wait(pf[t], turn)
                    if not mistake("mma before correction"):
                        ptx.mbarrier.wait(oc[t], turn)
                    if not mistake("p no fence after"):
                        ptx.tcgen05.fence_after_thread_sync()
                    for step in range(BKV // 16):
                        at = tensor + t * 64 + 8 * step + (32 if mistake("p columns") else 0)
                        add = {"pred_operand": j != 0} if step == 0 else {"enable_input_d": True}
                        ptx.tcgen05.mma(
                            tensor + 128 + t * 64,
                            at,
                            desc("kv", v_stage * (BKV * D * 2), step, True),
                            reg.from_(pv, u32),
                            kind="kind::f16",
                            a_is_tmem=True,
                            **add,
                        )
                    ptx.tcgen05.commit(of[t])
                    if mistake("k released early") and t == 0:
                        ptx.mbarrier.arrive(kve[v_stage])
                    with ptx.if_(more):
                        scores(t, k_stage)
                if not mistake("k released early"):
                    ptx.tcgen05.commit(kve[v_stage])
                ptx.tcgen05.commit(kve[k_stage], pred=more)
                turn ^= 1

        with ptx.if_(warp < 8):  # softmax
            t = warp >> 2
            quarter = (warp & 3) ^ (1 if mistake("softmax lane quarter") else 0)
            own = tensor + t * 64 + (quarter << 21)
            row = tid & 127
            top, total = reg.scalar(f32, init=-64.0), reg.scalar(f32, init=0.0)
            turn = reg.scalar(u32, init=0)
            x = reg.array(b32, BKV)
            packed = reg.array(b32, BKV // 2)
            new, scale, e, p = reg.scalar(f32), reg.scalar(f32), reg.scalar(f32), reg.scalar(f32)
            {k: smem_at for k, smem_at in (("sf", sf), ("pf", pf), ("cf", cf), ("ce", ce))}
            for _ in ptx.range_(0, NKV, 1):
                ptx.mbarrier.wait(sf[t], turn)
                if not mistake("s no fence after"):
                    ptx.tcgen05.fence_after_thread_sync()
                ptx.tcgen05.ld(list(x), own, shape="32x32b", count=64)
                ptx.tcgen05.wait_ld()
                ptx.inst.mov.f32(new, top)
                for i in range(BKV):
                    ptx.inst.mov.b32(e, x[i])
                    ptx.inst.max.f32(new, new, e)
                ptx.inst.sub.f32(scale, top, new)
                ptx.inst.ex2.approx.ftz.f32(scale, scale)
                ptx.inst.mov.f32(top, new)
                if not mistake("stats overwritten"):
                    ptx.mbarrier.wait(ce[t], turn ^ 1)
                ptx.inst.st.shared.f32(ptx.addr(smem.base("scale") + (t * 128 + row) * 4), scale)
                ptx.mbarrier.arrive(cf[t])
                ptx.inst.mul.f32(total, total, scale)
                for i in range(0, BKV, 2):
                    lo, hi = reg.scalar(f32), reg.scalar(f32)
                    for to, src in ((lo, x[i]), (hi, x[i + 1])):
                        ptx.inst.mov.b32(e, src)
                        ptx.inst.sub.f32(e, e, new)
                        ptx.inst.ex2.approx.ftz.f32(to, e)
                        ptx.inst.add.f32(total, total, to)
                    ptx.inst.cvt.rn.bf16x2.f32(packed[i // 2], hi, lo)
                to = own + (64 if mistake("p overlaps next s") else 0)
                ptx.tcgen05.st(own, list(packed), shape="32x32b", count=32) if not mistake(
                    "p overlaps next s"
                ) else ptx.tcgen05.st(tensor + (t ^ 1) * 64 + (quarter << 21), list(packed), shape="32x32b", count=32)
                if not mistake("p not waited st"):
                    ptx.tcgen05.wait_st()
                if not mistake("p no fence before"):
                    ptx.tcgen05.fence_before_thread_sync()
                ptx.mbarrier.arrive(pf[t])
                turn ^= 1
            out = (t * 128 + row) * 4
            ptx.inst.st.global_.f32(ptx.addr(psum + out), total)
            ptx.inst.st.global_.f32(ptx.addr(pmax + out), top)

        with ptx.if_((warp >= 8) & (warp < 12)):  # correction
            quarter = (warp & 3) ^ (1 if mistake("o lane quarter") else 0)
            row = tid & 127
            turn = reg.scalar(u32, init=0)
            y = reg.array(b32, D)
            scale = reg.scalar(f32)
            e = reg.scalar(f32)
            for j in ptx.range_(0, NKV, 1):
                for t in range(QT):
                    own = tensor + 128 + t * 64 + (quarter << 21)
                    if not mistake("stats no wait"):
                        ptx.mbarrier.wait(cf[t], turn)
                    ptx.inst.ld.shared.f32(scale, ptx.addr(smem.base("scale") + row * 4, t * 512))
                    ptx.mbarrier.arrive(ce[t])
                    with ptx.if_(j != 0):
                        if not mistake("o correct no wait"):
                            ptx.mbarrier.wait(of[t], turn ^ 1)
                        if not mistake("o correct no wait"):
                            ptx.tcgen05.fence_after_thread_sync()
                        ptx.tcgen05.ld(list(y), own, shape="32x32b", count=64)
                        ptx.tcgen05.wait_ld()
                        for i in range(D):
                            ptx.inst.mov.b32(e, y[i])
                            ptx.inst.mul.f32(e, e, scale)
                            ptx.inst.mov.b32(y[i], e)
                        ptx.tcgen05.st(own, list(y), shape="32x32b", count=64)
                        if not mistake("no wait st correction"):
                            ptx.tcgen05.wait_st()
                    if not mistake("corr no fence before"):
                        ptx.tcgen05.fence_before_thread_sync()
                    if mistake("p half arrive"):
                        ptx.mbarrier.arrive(oc[t], pred=lane < 16)
                    else:
                        ptx.mbarrier.arrive(oc[t])
                turn ^= 1
            for t in range(QT):
                if not mistake("final early"):
                    ptx.mbarrier.wait(of[t], turn ^ 1)
                if not mistake("final early"):
                    ptx.tcgen05.fence_after_thread_sync()
                ptx.tcgen05.ld(list(y), tensor + 128 + t * 64 + (quarter << 21), shape="32x32b", count=64)
                ptx.tcgen05.wait_ld()
                at = po + (t * 128 + row) * (D * 4)
                for i in range(0, D, 4):
                    ptx.inst.st.global_.v4.b32(ptx.addr(at, 4 * i), [y[i + k] for k in range(4)])
        if mistake("dealloc before ld"):
            with ptx.if_(warp == 12):
                ptx.tcgen05.dealloc(tensor, 256)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        if not mistake("dealloc before ld"):
            with ptx.if_(warp == 12):
                ptx.tcgen05.dealloc(tensor, 256)
        ptx.ret()

    g = torch.Generator().manual_seed(5)

    def sparse(*s):
        return (torch.randint(-1, 2, s, generator=g) * (torch.rand(s, generator=g) < 0.15)).bfloat16()

    q, k, v = sparse(M, D), sparse(N, D), integers(N, D)
    o, total, top = attention(q, k, v)
    s = q.double() @ k.double().T
    m = s.max(1).values
    p = torch.exp2(s - m[:, None])
    yield top, m
    yield total, p.sum(1)
    yield o, p @ v.double()


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)
