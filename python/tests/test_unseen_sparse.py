"""Products of a sparse A (2:4) by wgmma and by tcgen05, warp-specialised, metadata in the ring:
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import numpy as np
import pytest
import unseen
from unseen import NONE, REFUSED, WRONG, integers, kernel_with, torch

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, e4m3, f16, f32, u8, u32

inst = ptx.inst
KEPT = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]  # which two of four are stored
ROW = 128  # bytes of a row of stored A in a stage: 4 products


def sparse(m: int, k: int, seed: int = 0):
    """A of m x k, its stored half, and the four bits of each chunk."""
    draw = np.random.default_rng(seed)
    kept = draw.choice(KEPT, (m, k // 4))
    stored = draw.integers(-3, 4, (m, k // 2))
    a = np.zeros((m, k))
    for i in range(2):
        np.put_along_axis(
            a.reshape(m, k // 4, 4), (kept >> 2 * i & 3)[:, :, None], stored.reshape(m, -1, 2)[:, :, i : i + 1], 2
        )
    return torch.from_numpy(a), torch.from_numpy(stored), kept


def metadata_of_warps(kept, bits: int, selectors: bool = True):
    """Words by stage, warp, register and lane (manual 9.7.14.6.2): of 16 bits two products share a register."""
    m, chunks = kept.shape
    per = 8 if bits == 16 else 16  # chunks of a product
    stages, words = chunks // (4 * per), 2 if bits == 16 else 4
    out = np.zeros((stages, m // 16, words, 32), np.uint32)
    for stage, row, step, c in np.ndindex(stages, m, 4, per):
        value = int(kept[row, (stage * 4 + step) * per + c])
        r = row % 16
        if bits == 16:
            lane, bit = r % 8 * 4 + 2 * (step % 2) + c // 4, 16 * (r // 8) + c % 4 * 4
            out[stage, row // 16, step // 2, lane] |= value << bit
        else:
            lane, bit = r % 8 * 4 + c // 8 * 2 + r // 8, c % 8 * 4
            out[stage, row // 16, step, lane] |= value << bit
    return torch.from_numpy(out.view(np.int32))


def by_wgmma(mistake, element, k_step):
    """C = A B^T: warpgroup 0 copies, 1 and 2 multiply 64 rows each."""
    M, N, BK, ST, STAGES = 128, 64, 4 * k_step, 2, 5
    bits = 16 if k_step == 32 else 8
    width = ROW * 8 // bits  # numbers of a row of 128 bytes
    words = 2 if bits == 16 else 4
    META = M // 16 * words * 128
    A, B = M * ROW, N * ROW * 2

    @kernel(
        in_specs=(
            Tile(M, STAGES * BK // 2, element, Layout.TMA_128B, tma_box=(M, width)),
            Tile(N, STAGES * BK, element, Layout.TMA_128B, tma_box=(N, width)),
            Tile(STAGES, META, u8),
        ),
        out_specs=(Tile(M, N, f32),),
        block=(384, 1, 1),
        arch="sm_90a",
        raw_directives=(("maxnreg", (128,)),),
    )
    def product(SA, SB, E, C):
        ma, mb = SA.tma_desc(), SB.tma_desc()
        pe, pc = ptx.global_ptrs(E, C)
        smem.alloc(u8, (ST, A), align=1024, name="a")
        smem.alloc(u8, (ST, B), align=1024, name="b")
        smem.alloc(u8, (ST, META), align=128, name="meta")
        full, empty = smem.mbarrier(ST, name="full"), smem.mbarrier(ST, name="empty")
        tid = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(tid == 0):
            for s in range(ST):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], 1 if mistake("empty counts one") else 2)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(tid < 128):
            ptx.setmaxnreg_dec(40)
            with ptx.if_(tid == 0):
                ring = ptx.pipeline(ST)
                for i in ptx.range_(0, STAGES, 1):
                    st, ph = ring.advance()
                    ptx.mbarrier.wait(empty[st], ph ^ 1)
                    ptx.mbarrier.arrive_expect_tx(full[st], A + B + (0 if mistake("expects no metadata") else META))
                    ptx.tensor_copy.load(ptx.addr(smem.base("a") + st * A), ma, (i * width, 0), full[st])
                    for half in range(2):
                        column = i * (2 * width) + (0 if mistake("first half twice") else half * width)
                        ptx.tensor_copy.load(
                            ptx.addr(smem.base("b") + st * B, half * N * ROW), mb, (column, 0), full[st]
                        )
                    ptx.cp_async_bulk.load(
                        ptx.addr(smem.base("meta") + (0 if mistake("metadata of one stage") else st * META)),
                        ptx.addr(pe + i * META),
                        META,
                        full[1] if mistake("metadata signals another") else full[st],
                    )
        with ptx.else_():
            ptx.setmaxnreg_inc(168)
            me = tid - 128
            group, warp, lane = me >> 7, me >> 5, me & 31
            acc = reg.array(f32, N // 2)
            e = reg.array(b32, words)
            ring = ptx.pipeline(ST)
            for i in ptx.range_(0, STAGES, 1):
                st, ph = ring.advance()
                ptx.mbarrier.wait(full[st], ph)
                at = smem.base("meta") + (0 if mistake("metadata of one stage") else st * META)
                for w in range(words):
                    which = warp ^ 1 if mistake("metadata of another warp") else warp
                    inst.ld.shared.b32(e[w], ptx.addr(at + which * (words * 128) + lane * 4, w * 128))
                if not mistake("no wgmma fence"):
                    ptx.wgmma.fence()
                for step in range(4):
                    rows = 0 if mistake("rows of the other group") else group * (64 * ROW)
                    da = ptx.wgmma.make_descriptor(
                        smem.base("a") + st * A + rows + 32 * step,
                        leading_byte_offset=16,
                        stride_byte_offset=1024,
                        swizzle=2 if mistake("swizzle of A") else 1,
                    )
                    db = ptx.wgmma.make_descriptor(
                        smem.base("b") + st * B + (step // 2) * (N * ROW) + (step % 2) * 64,
                        leading_byte_offset=16,
                        stride_byte_offset=1024,
                        swizzle=1,
                    )
                    selector = step % 2 if bits == 16 else 0
                    ptx.wgmma.mma_async(
                        shape=(64, N, k_step),
                        dtype_d=f32,
                        dtype_a=element,
                        dtype_b=element,
                        d=acc,
                        a=da,
                        b=db,
                        scale_d=i != 0 if step == 0 else True,
                        metadata=e[step // 2 if bits == 16 else step],
                        selector=selector ^ 1 if mistake("other selector") else selector,
                    )
                if not mistake("no commit"):
                    ptx.wgmma.commit_group()
                one = (me & 127) == 0
                if mistake("released at once"):
                    ptx.wgmma.wait_group(1)
                    ptx.mbarrier.arrive(empty[st], pred=one)
                else:
                    ptx.wgmma.wait_group(0)
                    ptx.mbarrier.arrive(empty[st], pred=one & (group == 0) if mistake("one group releases") else one)
            ptx.wgmma.wait_group(0)
            r = (me >> 5) * 16 + (lane >> 2)
            out = pc + r * (N * 4) + (lane & 3) * 8
            for j in range(N // 8):
                inst.st.global_.v2.f32(ptx.addr(out, j * 32), [acc[4 * j], acc[4 * j + 1]])
                inst.st.global_.v2.f32(ptx.addr(out, j * 32 + 8 * N * 4), [acc[4 * j + 2], acc[4 * j + 3]])
        ptx.ret()

    a, stored, kept = sparse(M, STAGES * BK)
    words_of = metadata_of_warps(kept, bits)
    if mistake("illegal metadata"):
        words_of[0, 0, 0, 0] = 0
    to = {bf16: torch.bfloat16, f16: torch.float16, e4m3: torch.float8_e4m3fn}[element]
    b = integers(N, STAGES * BK, dtype=torch.float32, seed=1)
    got = product(stored.float().to(to), b.to(to), words_of.view(torch.uint8).reshape(STAGES, META))
    yield got, a @ b.double().T


MISTAKES = {
    "empty counts one": "PTX5054",
    "expects no metadata": "PTX5054",
    "first half twice": WRONG,
    "metadata of one stage": "PTX5055",
    "metadata signals another": "PTX5020 PTX5054",
    "metadata of another warp": WRONG,
    "no wgmma fence": "PTX5059",
    "rows of the other group": WRONG,
    "swizzle of A": "PTX5061",
    "no commit": "PTX5055",
    "released at once": "PTX5054",
    "one group releases": "PTX5020",
    "illegal metadata": "PTX3003",
}


@kernel_with(MISTAKES | {"other selector": WRONG})
def wgmma_bf16(mistake):
    yield from by_wgmma(mistake, bf16, 32)


@kernel_with(MISTAKES | {"other selector": WRONG})
def wgmma_f16(mistake):
    yield from by_wgmma(mistake, f16, 32)


@kernel_with(MISTAKES | {"other selector": REFUSED})
def wgmma_e4m3(mistake):
    yield from by_wgmma(mistake, e4m3, 64)


def metadata_of_lanes(kept, bits: int):
    """Rows of 16 or 32 bytes, by stage, for tensor memory (9.7.16.10.8): of 16 bits eight rows share a word with the next eight."""
    m, chunks = kept.shape
    per = 8 if bits == 16 else 16
    stages, columns = chunks // (4 * per), 4 if bits == 16 else 8
    out = np.zeros((stages, m, columns), np.uint32)
    for stage, row, step, c in np.ndindex(stages, m, 4, per):
        value = int(kept[row, (stage * 4 + step) * per + c])
        if bits == 16:
            out[stage, row - row % 16 + row % 8 + c // 4 * 8, step] |= value << (row // 8 % 2 * 16 + c % 4 * 4)
        else:
            out[stage, row, 2 * step + c // 8] |= value << c % 8 * 4
    return out


def by_tcgen05(mistake, element, k_step):
    """Warp 0 copies, warp 1 multiplies, all four store; metadata goes to tensor memory by tcgen05.cp, two sets of columns."""
    M, N, ST, STAGES = 128, 64, 2, 5
    bits = 16 if k_step == 32 else 8
    width, columns = ROW * 8 // bits, 4 if bits == 16 else 8
    META = M * columns * 4
    A, B = M * ROW, N * ROW * 2

    @kernel(
        in_specs=(
            Tile(M, STAGES * width, element, Layout.TMA_128B, tma_box=(M, width)),
            Tile(N, STAGES * 2 * width, element, Layout.TMA_128B, tma_box=(N, width)),
            Tile(STAGES, META, u8),
        ),
        out_specs=(Tile(M, N, f32),),
        block=(128, 1, 1),
        arch="sm_100a",
    )
    def product(SA, SB, E, C):
        ma, mb = SA.tma_desc(), SB.tma_desc()
        pe, pc = ptx.global_ptrs(E, C)
        smem.alloc(u8, (ST, A), align=1024, name="a")
        smem.alloc(u8, (ST, B), align=1024, name="b")
        smem.alloc(u8, (ST, META), align=128, name="meta")
        smem.alloc(u32, (1,), name="slot")
        full, empty = smem.mbarrier(ST, name="full"), smem.mbarrier(ST, name="empty")
        done = smem.mbarrier(1, name="done")
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp = tid >> 5
        with ptx.if_(warp == 2):
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), 128)
            if not mistake("permit kept"):
                ptx.tcgen05.relinquish_alloc_permit()
        with ptx.if_(tid == 0):
            for s in range(ST):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], 1)
            ptx.mbarrier.init(done[0], 1)
            ptx.fence.mbarrier_init()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tensor = reg.scalar(b32)
        inst.ld.shared.b32(tensor, ptx.addr(smem.base("slot")))
        with ptx.if_(tid == 0):
            ring = ptx.pipeline(ST)
            for i in ptx.range_(0, STAGES, 1):
                st, ph = ring.advance()
                if not mistake("no wait for empty"):
                    ptx.mbarrier.wait(empty[st], ph ^ 1)
                ptx.mbarrier.arrive_expect_tx(full[st], A + B + (0 if mistake("expects no metadata") else META))
                ptx.tensor_copy.load(ptx.addr(smem.base("a") + st * A), ma, (i * width, 0), full[st])
                for half in range(2):
                    ptx.tensor_copy.load(
                        ptx.addr(smem.base("b") + st * B, half * N * ROW),
                        mb,
                        (i * (2 * width) + half * width, 0),
                        full[st],
                    )
                ptx.cp_async_bulk.load(ptx.addr(smem.base("meta") + st * META), ptx.addr(pe + i * META), META, full[st])
        with ptx.if_(tid == 32):
            ring = ptx.pipeline(ST)
            for i in ptx.range_(0, STAGES, 1):
                st, ph = ring.advance()
                if not mistake("no wait for full"):
                    ptx.mbarrier.wait(full[st], ph)
                ptx.tcgen05.fence_after_thread_sync()
                at = tensor + 64 + st * columns
                if mistake("metadata over D"):
                    at = tensor + 60 + st * 0
                lines = ptx.tcgen05.descriptor(
                    smem.base("meta") + st * META,
                    stride_bytes=128 * columns // 4,
                    leading_bytes=128,
                    swizzle="NONE",
                )
                if not mistake("no metadata copy"):
                    ptx.tcgen05.cp(at, lines, size="128x128b" if bits == 16 else "128x256b")
                for step in range(4):
                    kind = ptx.tcgen05.instruction_descriptor(
                        m=M,
                        n=N,
                        a_dtype=element,
                        b_dtype=element,
                        d_dtype=f32,
                        sparse=not mistake("descriptor not sparse"),
                        selector=(step % 2 if bits == 16 else 0) ^ (1 if mistake("other selector") else 0),
                    )
                    da = ptx.tcgen05.descriptor(
                        smem.base("a") + st * A, byte_offset=32 * step, stride_bytes=1024, swizzle="128B"
                    )
                    db = ptx.tcgen05.descriptor(
                        smem.base("b") + st * B,
                        byte_offset=step // 2 * (N * ROW) + step % 2 * 64,
                        stride_bytes=1024,
                        swizzle="64B" if mistake("swizzle of B") else "128B",
                    )
                    add = {"pred_operand": i != 0} if step == 0 else {"enable_input_d": True}
                    ptx.tcgen05.mma(
                        tensor,
                        da,
                        db,
                        reg.from_(kind, u32),
                        kind="kind::f16" if bits == 16 else "kind::f8f6f4",
                        sparse=True,
                        sparse_metadata=at + (step // 2 * 2 if bits == 16 else step * 2),
                        **add,
                    )
                if mistake("commits to full"):
                    ptx.tcgen05.commit(full[st])
                elif mistake("arrives instead"):
                    ptx.mbarrier.arrive(empty[st])
                else:
                    ptx.tcgen05.commit(empty[st])
            if not mistake("done by an arrival"):
                ptx.tcgen05.commit(done[0])
            else:
                ptx.mbarrier.arrive(done[0])
        if not mistake("no wait for done"):
            ptx.mbarrier.wait(done[0], 0)
        if not mistake("no fence behind done"):
            ptx.tcgen05.fence_after_thread_sync()
        v = reg.array(b32, N)
        own = tensor + (((warp ^ 1) if mistake("lanes of another warp") else warp) << 21)
        ptx.tcgen05.ld(list(v), own, shape="32x32b", count=N)
        ptx.tcgen05.wait_ld()
        for i in range(0, N, 4):
            inst.st.global_.v4.b32(ptx.addr(pc + tid * (N * 4), 4 * i), [v[i + j] for j in range(4)])
        ptx.tcgen05.fence_before_thread_sync()
        if not mistake("no bar before dealloc"):
            ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        with ptx.if_(warp == 2):
            if not mistake("not freed"):
                ptx.tcgen05.dealloc(tensor, 64 if mistake("half freed") else 128)
        ptx.ret()

    a, stored, kept = sparse(M, STAGES * 2 * width)
    lines = metadata_of_lanes(kept, bits)
    if bits == 8:  # cores of 8 rows of 16 bytes
        lines = np.ascontiguousarray(lines.reshape(STAGES, 16, 8, 2, 4).transpose(0, 1, 3, 2, 4))
    to = {bf16: torch.bfloat16, e4m3: torch.float8_e4m3fn}[element]
    b = integers(N, STAGES * 2 * width, dtype=torch.float32, seed=1)
    given = torch.from_numpy(lines.view(np.uint8)).reshape(STAGES, META)
    yield product(stored.float().to(to), b.to(to), given), a @ b.double().T


TENSOR = {
    "permit kept": NONE,
    "no wait for empty": "PTX5022",
    "expects no metadata": "PTX5054",
    "no wait for full": "PTX5054",
    "metadata over D": "PTX3003",
    "no metadata copy": "PTX5012",
    "descriptor not sparse": REFUSED,
    "swizzle of B": "PTX5061",
    "commits to full": "PTX5022 PTX5020",
    "arrives instead": "PTX5054",
    "done by an arrival": "PTX5054",
    "no wait for done": "PTX5054 PTX5012",
    "no fence behind done": "PTX5058",
    "lanes of another warp": "PTX5010",
    "no bar before dealloc": "PTX5054 PTX5050",
    "not freed": "PTX5010",
    "half freed": "PTX5010",
}


@kernel_with(TENSOR | {"other selector": WRONG})
def tcgen05_bf16(mistake):
    yield from by_tcgen05(mistake, bf16, 32)


@kernel_with(TENSOR | {"other selector": "PTX3003", "descriptor not sparse": "PTX3003"})
def tcgen05_e4m3(mistake):
    yield from by_tcgen05(mistake, e4m3, 64)


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)
