"""Products by tcgen05 of gathered rows, of mxfp8 with scale factors in a ring, with B at rest (.ws):
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import pytest
import unseen
from unseen import NONE, REFUSED, WRONG, integers, kernel_with, torch

from pyptx import Layout, Tile, kernel, ptx, reg, smem, types
from pyptx.types import b32, bf16, f32, s32, u8, u32


def prologue(columns, bars, bug=lambda n: False):
    tid = reg.from_(ptx.special.tid.x(), u32)
    with ptx.if_((tid >> 5) == 0):
        ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), columns)
        ptx.tcgen05.relinquish_alloc_permit()
    with ptx.if_(tid == 0):
        for b, n in bars:
            ptx.mbarrier.init(b, n)
        ptx.fence.mbarrier_init()
    ptx.tcgen05.fence_before_thread_sync()
    ptx.bar.sync(0)
    ptx.tcgen05.fence_after_thread_sync()
    t = reg.scalar(b32)
    ptx.inst.ld.shared.b32(t, ptx.addr(smem.base("slot")))
    return tid, t


def epilogue(tid, tensor, columns):
    ptx.tcgen05.fence_before_thread_sync()
    ptx.bar.sync(0)
    ptx.tcgen05.fence_after_thread_sync()
    with ptx.if_((tid >> 5) == 0):
        ptx.tcgen05.dealloc(tensor, columns)
    ptx.ret()


@kernel_with(
    {
        "expect box of tile": "PTX5054",
        "box 4 rows": "PTX4006",
        "row stride wrong": "PTX5054",
        "swizzle none desc": "PTX5061",
        "index unsync": "PTX5050",
        "scatter no fence": "PTX5053",
        "scatter dup rows": "PTX5054",
        "scatter no wait": "PTX5054",
        "out of rows": WRONG,
        "no done wait": "PTX5054",
        "tile mode": "PTX5020",
        "stride into the next array": "PTX5010",
    }
)
def moe(mistake):
    T, K, N, M = 256, 128, 64, 128

    @kernel(
        in_specs=(
            Tile(T, K, bf16, tma_swizzle="128B", tma_box=(4 if mistake("box 4 rows") else 1, 64)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(N, 64)),
            Tile(M, s32),
            Tile(T, N, f32, tma_swizzle="128B", tma_box=(1, 32)),
        ),
        out_specs=(),
        mutates=("C",),
        block=(128, 1, 1),
        arch="sm_100a",
    )
    def k(A, B, IDX, C):
        ma, mb, mc = A.tma_desc(), B.tma_desc(), C.tma_desc()
        (pi,) = ptx.global_ptrs(IDX)
        smem.alloc(bf16, (2, M, 64), align=1024, name="a")
        smem.alloc(bf16, (2, N, 64), align=1024, name="b")
        smem.alloc(f32, (2, M, 32), align=1024, name="c")
        smem.alloc(s32, (M,), align=16, name="rows")
        smem.alloc(u32, (1,), name="slot")
        full, done = smem.mbarrier(2, name="full"), smem.mbarrier(1, name="done")
        t0 = reg.from_(ptx.special.tid.x(), u32)
        mine = reg.scalar(s32)
        ptx.inst.ld.global_.s32(mine, ptx.addr(pi + t0 * 4))
        if not mistake("index unsync"):
            ptx.inst.st.shared.s32(ptx.addr(smem.base("rows") + t0 * 4), mine)
        tid, tensor = prologue(64, [(full[0], 1), (full[1], 1), (done[0], 1)])
        if mistake("index unsync"):
            ptx.inst.st.shared.s32(ptx.addr(smem.base("rows") + t0 * 4), mine)
        with ptx.if_(tid == 0):
            r = reg.array(s32, 4)
            for s in range(2):
                ptx.mbarrier.arrive_expect_tx(
                    full[s], (M * 128 // (4 if mistake("expect box of tile") else 1)) + N * 128
                )
                ptx.tensor_copy.load(ptx.addr(smem.base("b"), s * N * 128), mb, (64 * s, 0), full[s])
                for g in ptx.range_(0, M, 4):
                    ptx.inst.ld.shared.v4.s32([r[i] for i in range(4)], ptx.addr(smem.base("rows") + g * 4))
                    to = smem.base("a") + g * (64 if mistake("row stride wrong") else 128)
                    if mistake("tile mode"):
                        ptx.tensor_copy.load(ptx.addr(to, s * M * 128), ma, (64 * s, r[0]), full[s])
                    else:
                        ptx.tensor_copy.load(
                            ptx.addr(to, s * M * 128),
                            ma,
                            (64 * s, *[r[i] for i in range(4)]),
                            full[s],
                            mode="tile::gather4",
                        )
            kind = ptx.tcgen05.instruction_descriptor(m=M, n=N, a_dtype=bf16, b_dtype=bf16, d_dtype=f32)
            for s in range(2):
                ptx.mbarrier.wait(full[s], 0)
                ptx.tcgen05.fence_after_thread_sync()
                for step in range(4):
                    da, db = (
                        ptx.tcgen05.descriptor(
                            smem.base(n),
                            byte_offset=s * rows * 128 + 32 * step,
                            stride_bytes=2048 if s and n == "a" and mistake("stride into the next array") else 1024,
                            swizzle="NONE" if n == "a" and mistake("swizzle none desc") else "128B",
                            leading_bytes=16,
                        )
                        for n, rows in (("a", M), ("b", N))
                    )
                    ptx.tcgen05.mma(
                        tensor, da, db, reg.from_(kind, u32), kind="kind::f16", enable_input_d=(s, step) != (0, 0)
                    )
            ptx.tcgen05.commit(done[0])
        if not mistake("no done wait"):
            ptx.mbarrier.wait(done[0], 0)
        ptx.tcgen05.fence_after_thread_sync()
        v = reg.array(b32, 64)
        warp = tid >> 5
        ptx.tcgen05.ld(list(v), tensor + (warp << 21), shape="32x32b", count=64)
        ptx.tcgen05.wait_ld()
        for h in range(2):
            for c in range(8):
                ptx.inst.st.shared.v4.b32(
                    ptx.addr(smem.base("c") + tid * 128 + ((tid & 7) ^ c) * 16, h * M * 128),
                    [v[32 * h + 4 * c + i] for i in range(4)],
                )
        if not mistake("scatter no fence"):
            ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(0)
        with ptx.if_(tid < 32):
            r = reg.array(s32, 4)
            ptx.inst.ld.shared.v4.s32([r[i] for i in range(4)], ptx.addr(smem.base("rows") + tid * 16))
            for h in range(2):
                ptx.tensor_copy.store(
                    mc,
                    (32 * h, r[0], r[0] if mistake("scatter dup rows") else r[1], r[2], r[3]),
                    ptx.addr(smem.base("c") + tid * 512, h * M * 128),
                    mode="tile::scatter4",
                )
            ptx.cp_async_bulk.commit_group()
            if not mistake("scatter no wait"):
                ptx.cp_async_bulk.wait_group(0)
        epilogue(tid, tensor, 64)

    a, b = integers(T, K), integers(N, K, seed=1)
    idx = torch.randperm(T, generator=torch.Generator().manual_seed(2))[:M].to(torch.int32)
    if mistake("out of rows"):
        idx[5] = T + 3
    c = torch.full((T, N), 7.0)
    k(a, b, idx, c)
    want = torch.full((T, N), 7.0, dtype=torch.float64)
    ix = idx.long().clamp(max=T - 1)
    want[ix] = a.double()[ix] @ b.double().T
    yield c, want


# block scaled, two stages, warps: 0 copies, 1 multiplies (tcgen05.cp of scales into two sets of columns), 2..5 store
@kernel_with(
    {
        "sfa columns": WRONG,
        "scale id wrong": WRONG,
        "scale id stuck": WRONG,
        "sf expect missing": "PTX5054",
        "sf overlaps d": "PTX3003",
        "sf one set": NONE,
        "idesc scale type": REFUSED,
        "desc sbo": "PTX5054",
        "no after full": NONE,
        "alloc small": "PTX5010",
        "wrong vec": REFUSED,
        "early release": "PTX5054",
    }
)
def mxfp8(mistake):
    M = N = 128
    KB, BLOCKS, STAGES = 128, 4, 2  # a stage has K = 128: 4 products, a word of scale factors a row
    K = KB * BLOCKS

    @kernel(
        in_specs=(
            Tile(M, K, u8, Layout.TMA_128B, tma_box=(M, KB)),
            Tile(N, K, u8, Layout.TMA_128B, tma_box=(N, KB)),
            Tile(BLOCKS * 512, u8),
            Tile(BLOCKS * 512, u8),
        ),
        out_specs=(Tile(M, N, f32),),
        block=(256, 1, 1),
        arch="sm_100a",
    )
    def k(A, B, SA, SB, C):
        ma, mb = A.tma_desc(), B.tma_desc()
        psa, psb, pc = ptx.global_ptrs(SA, SB, C)
        smem.alloc(u8, (STAGES, M, KB), align=1024, name="a")
        smem.alloc(u8, (STAGES, N, KB), align=1024, name="b")
        smem.alloc(u8, (STAGES, 2, 512), align=1024, name="s")
        smem.alloc(u32, (1,), name="slot")
        full, empty, done = (
            smem.mbarrier(STAGES, name="full"),
            smem.mbarrier(STAGES, name="empty"),
            smem.mbarrier(1, name="done"),
        )
        cols = 128 if mistake("alloc small") else 256
        tid, tensor = prologue(
            cols, [(b, 1) for b in (*[full[s] for s in range(STAGES)], *[empty[s] for s in range(STAGES)], done[0])]
        )
        warp = tid >> 5
        with ptx.if_(tid == 0):
            ring = ptx.pipeline(STAGES)
            for i in ptx.range_(0, BLOCKS, 1):
                st, ph = ring.advance()
                ptx.mbarrier.wait(empty[st], ph ^ 1)
                ptx.mbarrier.arrive_expect_tx(full[st], 2 * M * KB + (0 if mistake("sf expect missing") else 1024))
                ptx.tensor_copy.load(ptx.addr(smem.base("a") + st * (M * KB)), ma, (i * KB, 0), full[st])
                ptx.tensor_copy.load(ptx.addr(smem.base("b") + st * (N * KB)), mb, (i * KB, 0), full[st])
                ptx.cp_async_bulk.load(ptx.addr(smem.base("s") + st * 1024), ptx.addr(psa + i * 512), 512, full[st])
                ptx.cp_async_bulk.load(
                    ptx.addr(smem.base("s") + st * 1024 + 512), ptx.addr(psb + i * 512), 512, full[st]
                )
        with ptx.if_(tid == 32):
            ring = ptx.pipeline(STAGES)
            for i in ptx.range_(0, BLOCKS, 1):
                st, ph = ring.advance()
                ptx.mbarrier.wait(full[st], ph)
                if not mistake("no after full"):
                    ptx.tcgen05.fence_after_thread_sync()
                sf = tensor + 128 + (0 if mistake("sf one set") else st * 8) - (4 if mistake("sf overlaps d") else 0)
                for w in range(2):
                    lines = ptx.tcgen05.descriptor(
                        smem.base("s") + st * 1024 + w * 512,
                        stride_bytes=128 if not mistake("desc sbo") else 256,
                        swizzle="NONE",
                    )
                    ptx.tcgen05.cp(sf + 4 * w, lines, size="32x128b", multicast="warpx4")
                if mistake("early release"):
                    ptx.mbarrier.arrive(empty[st])
                for step in range(4):
                    b_ = 0 if mistake("scale id stuck") else step ^ 1 if mistake("scale id wrong") else step
                    kind = ptx.tcgen05.instruction_descriptor(
                        m=M,
                        n=N,
                        a_dtype=types.e4m3,
                        b_dtype=types.e4m3,
                        d_dtype=f32,
                        scale_dtype=types.ue4m3 if mistake("idesc scale type") else types.ue8m0,
                        scale_a_id=b_,
                        scale_b_id=b_,
                    )
                    da, db = (
                        ptx.tcgen05.descriptor(
                            smem.base(n) + st * (M * KB), byte_offset=32 * step, stride_bytes=1024, swizzle="128B"
                        )
                        for n in "ab"
                    )
                    add = {"pred_operand": i != 0} if step == 0 else {"enable_input_d": True}
                    ptx.tcgen05.mma(
                        tensor,
                        da,
                        db,
                        reg.from_(kind, u32),
                        kind="kind::mxf8f6f4",
                        scale_vec_a=sf + (2 if mistake("sfa columns") else 0),
                        scale_vec_b=sf + 4,
                        scale_vectorsize="scale_vec::2X" if mistake("wrong vec") else "scale_vec::1X",
                        **add,
                    )
                if not mistake("early release"):
                    ptx.tcgen05.commit(empty[st])
            ptx.tcgen05.commit(done[0])
        with ptx.if_(warp >= 4):
            ptx.mbarrier.wait(done[0], 0)
            ptx.tcgen05.fence_after_thread_sync()
            v = reg.array(b32, 64)
            q = warp & 3
            out = pc + (q * 32 + (tid & 31)) * (N * 4)
            for h in range(2):
                ptx.tcgen05.ld(list(v), tensor + (q << 21) + 64 * h, shape="32x32b", count=64)
                ptx.tcgen05.wait_ld()
                for i in range(0, 64, 4):
                    ptx.inst.st.global_.v4.b32(ptx.addr(out, 4 * (64 * h + i)), [v[i + j] for j in range(4)])
        epilogue(tid, tensor, cols)

    g = torch.Generator().manual_seed(3)
    a, b = (torch.randint(-2, 3, (r, K), generator=g).float() for r in (M, N))
    sa, sb = (torch.randint(126, 129, (r, K // 32), generator=g) for r in (M, N))

    def pack(s):  # (128, blocks*4) -> per block of 4 words
        x = s.to(torch.uint8).reshape(4, 32, BLOCKS, 4).permute(2, 1, 0, 3).contiguous().reshape(-1)
        return x

    def e(x):
        return x.to(torch.float8_e4m3fn).view(torch.uint8)

    def wide(x, s):
        return x.double() * torch.exp2(s.double() - 127).repeat_interleave(32, 1)

    yield k(e(a), e(b), pack(sa), pack(sb)), wide(a, sa) @ wide(b, sb).T


@kernel_with(
    {
        "no after": "PTX5058",
        "wrong n": "PTX5010",
    }
)
def ws(mistake):
    M, N, K = 32, 64, 64  # .ws: 32 rows

    @kernel(
        in_specs=(Tile(M, K, bf16, Layout.TMA_128B, tma_box=(M, K)), Tile(N, K, bf16, Layout.TMA_128B, tma_box=(N, K))),
        out_specs=(Tile(M, N, f32),),
        block=(128, 1, 1),
        arch="sm_100a",
    )
    def k(A, B, C):
        ma, mb = A.tma_desc(), B.tma_desc()
        (pc,) = ptx.global_ptrs(C)
        smem.alloc(bf16, (M, K), align=1024, name="a")
        smem.alloc(bf16, (N, K), align=1024, name="b")
        smem.alloc(u32, (1,), name="slot")
        full, done = smem.mbarrier(1, name="full"), smem.mbarrier(1, name="done")
        tid, tensor = prologue(32, [(full[0], 1), (done[0], 1)])
        with ptx.if_(tid == 0):
            ptx.mbarrier.arrive_expect_tx(full[0], (M + N) * K * 2)
            ptx.tensor_copy.load(ptx.addr(smem.base("a")), ma, (0, 0), full[0])
            ptx.tensor_copy.load(ptx.addr(smem.base("b")), mb, (0, 0), full[0])
            ptx.mbarrier.wait(full[0], 0)
            ptx.tcgen05.fence_after_thread_sync()
            kind = ptx.tcgen05.instruction_descriptor(
                m=M, n=128 if mistake("wrong n") else N, a_dtype=bf16, b_dtype=bf16, d_dtype=f32
            )
            for step in range(4):
                da, db = (
                    ptx.tcgen05.descriptor(smem.base(n), byte_offset=32 * step, stride_bytes=1024, swizzle="128B")
                    for n in "ab"
                )
                ptx.tcgen05.mma_ws(tensor, da, db, reg.from_(kind, u32), kind="kind::f16", scale_d=step > 0)
            ptx.tcgen05.commit(done[0])
        ptx.mbarrier.wait(done[0], 0)
        if not mistake("no after"):
            ptx.tcgen05.fence_after_thread_sync()
        # layout G: 32 rows: lane l of quarter w holds columns w * N/4 ...
        v = reg.array(b32, 16)
        warp = tid >> 5
        ptx.tcgen05.ld(list(v), tensor + (warp << 21), shape="32x32b", count=16)
        ptx.tcgen05.wait_ld()
        out = pc + (tid & 31) * (N * 4) + warp * 64
        for i in range(0, 16, 4):
            ptx.inst.st.global_.v4.b32(ptx.addr(out, 4 * i), [v[i + j] for j in range(4)])
        epilogue(tid, tensor, 32)

    a, b = integers(M, K), integers(N, K, seed=1)
    yield k(a, b), a.double() @ b.double().T


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)
