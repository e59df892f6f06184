"""Block-scaled products of Blackwell (nvfp4, mxfp8) by one CTA, by a pair, and by two pairs that share B by multicast, scale factors by tcgen05.cp:
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import numpy as np
import pytest
import unseen
from unseen import NONE, WRONG, kernel_with, torch

from pyptx import Layout, Tile, kernel, ptx, reg, smem, types
from pyptx.types import b32, f32, u8, u16, u32

inst = ptx.inst
ROW, STEPS, N, M = 128, 4, 128, 128  # bytes of a row in a stage, products of a stage, columns, rows of a CTA
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def scale_lines(codes):
    """Factors of 128 rows, four a row, as tcgen05.cp.32x128b.warpx4 wants them: row r in line r % 32, word r / 32."""
    return codes.reshape(-1, 4, 32, 4).transpose(0, 2, 1, 3).reshape(-1, 512)


def numbers(kind, rows, k, seed):
    """Bits of a matrix, its scale factors as lines (by 128 rows and 4 factors), and its values."""
    draw = np.random.default_rng(seed)
    if kind == "mxf4nvf4":
        codes = draw.integers(0, 16, (rows, k))
        bits = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
        values = np.where(codes & 8, -1, 1) * E2M1[codes & 7]
        factors = draw.choice(np.array([0x30, 0x38, 0x3C, 0x40], np.uint8), (rows, k // 16))  # 0.5, 1, 1.5, 2 of e4m3
        sizes = np.select([factors == 0x30, factors == 0x38, factors == 0x3C], [0.5, 1, 1.5], 2.0)
        block = 16
    else:
        values = draw.integers(-3, 4, (rows, k)).astype(np.float64)
        bits = torch.from_numpy(values).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        factors = draw.integers(126, 129, (rows, k // 32)).astype(np.uint8)
        sizes, block = 2.0 ** (factors.astype(np.float64) - 127), 32
    words = factors.reshape(rows // 128, 128, -1, 4).transpose(0, 2, 1, 3)  # 128 rows, word, row, byte
    lines = np.stack([scale_lines(each) for each in words.reshape(-1, 128, 4)])
    lines = lines.reshape(rows // 128, -1, 512)
    return torch.from_numpy(bits), torch.from_numpy(lines.copy()), torch.from_numpy(values * sizes.repeat(block, 1))


def product(mistake, kind, group, pairs):
    """C = A B^T.  Warp 0 copies, warp 1 multiplies, warps 4 to 7 store.  Cluster: `pairs` of `group` CTAs; all share B."""
    CTAS, ST, STAGES = group * pairs, 2, 4
    four = kind == "mxf4nvf4"
    k_of_stage = 256 if four else 128
    K = STAGES * k_of_stage
    words = STEPS if four else 1  # words of scale factors of a row in a stage
    A, OWN, SF = M * ROW, N // group, words * 512
    B = OWN * ROW
    part = OWN // pairs  # rows of B that a CTA copies, for all pairs
    COLUMNS = 4 * words

    @kernel(
        in_specs=(
            Tile(CTAS * M, STAGES * ROW, u8, Layout.TMA_128B, tma_box=(M, ROW)),
            Tile(N, STAGES * ROW, u8, Layout.TMA_128B, tma_box=(part, ROW)),
            Tile(CTAS * STAGES * words * 4, 128, u8, tma_box=(words * 4, 128)),
            Tile(STAGES * words * 4, 128, u8, tma_box=(words * 4, 128)),
        ),
        out_specs=(Tile(CTAS * M, N, f32),),
        grid=(CTAS, 1, 1),
        cluster=(CTAS, 1, 1),
        block=(256, 1, 1),
        arch="sm_100a",
    )
    def gemm(SA, SB, FA, FB, C):
        ma, mb, mfa, mfb = SA.tma_desc(), SB.tma_desc(), FA.tma_desc(), FB.tma_desc()
        (pc,) = ptx.global_ptrs(C)
        smem.alloc(u8, (ST, A), align=1024, name="a")
        smem.alloc(u8, (ST, B), align=1024, name="b")
        smem.alloc(u8, (ST, SF), align=128, name="sfa")
        smem.alloc(u8, (ST, SF), align=128, name="sfb")
        smem.alloc(u32, (1,), name="slot")
        full, empty = smem.mbarrier(ST, name="full"), smem.mbarrier(ST, name="empty")
        done = smem.mbarrier(1, name="done")
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp = tid >> 5
        rank = reg.from_(ptx.special.cluster_ctarank(), u32)
        half = rank & (group - 1)
        with ptx.if_(warp == 2):
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), 128 if mistake("too few columns") else 256, cta_group=group)
            ptx.tcgen05.relinquish_alloc_permit(cta_group=group)
        with ptx.if_(tid == 0):
            for s in range(ST):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], 1 if (pairs == 2 and mistake("empty counts one pair")) else pairs)
            ptx.mbarrier.init(done[0], 1)
            ptx.fence.mbarrier_init()
        ptx.tcgen05.fence_before_thread_sync()
        if group == 2 and mistake("no cluster barrier before"):
            ptx.bar.sync(0)
        else:
            ptx.cluster.sync()
        ptx.tcgen05.fence_after_thread_sync()
        tensor = reg.scalar(b32)
        inst.ld.shared.b32(tensor, ptx.addr(smem.base("slot")))

        def leader(bar):  # of the pair
            if group == 1 or mistake("full of its own"):
                return bar
            return ptx.cluster.map_shared_u32(bar, rank - half)

        with ptx.if_(tid == 0):
            ring = ptx.pipeline(ST)
            for i in ptx.range_(0, STAGES, 1):
                st, ph = ring.advance()
                if not mistake("no wait for empty"):
                    ptx.mbarrier.wait(empty[st], ph ^ 1)
                size = group * (A + B + 2 * SF)
                if mistake("expects no factors"):
                    size -= 2 * SF * group
                if group == 2 and mistake("expects one CTA"):
                    size //= 2
                if mistake("expects a row more"):
                    size += ROW
                with ptx.if_(half == 0):
                    ptx.mbarrier.arrive_expect_tx(full[st], size)
                bar = leader(full[st])
                more = {"cta_group": group} if group == 2 else {}
                ptx.tensor_copy.load(ptx.addr(smem.base("a") + st * A), ma, (i * ROW, rank * M), bar, **more)
                pair = rank >> 1 if group == 2 else rank
                if pairs > 1:
                    everyone = sum(1 << (group * p) for p in range(1 if mistake("multicast to itself") else pairs))
                    mask = reg.scalar(u16)
                    bits = reg.scalar(u32)
                    inst.shl.b32(bits, everyone, half)
                    inst.cvt.u16.u32(mask, bits)
                    more_b = more | {"multicast_mask": mask}
                else:
                    more_b = more
                row = half * OWN + pair * part
                ptx.tensor_copy.load(
                    ptx.addr(smem.base("b") + st * B + pair * (part * ROW)),
                    mb,
                    (i * ROW, 0 if (group == 2 and mistake("rows of B of the other CTA")) else row),
                    bar,
                    **more_b,
                )
                lines = (rank * STAGES + i) * (words * 4)
                ptx.tensor_copy.load(ptx.addr(smem.base("sfa") + st * SF), mfa, (0, lines), bar, **more)
                ptx.tensor_copy.load(ptx.addr(smem.base("sfb") + st * SF), mfb, (0, i * (words * 4)), bar, **more)
        with ptx.if_((tid == 32) & (half == 0)):
            ring = ptx.pipeline(ST)

            def commit(bar, mask=None):
                if group * pairs == 1:
                    ptx.tcgen05.commit(bar)
                else:
                    given = {"multicast": True, "multicast_mask": mask} if mask is not None else {}
                    ptx.tcgen05.commit(bar, cta_group=group, **given)

            if CTAS > 1:
                whole = reg.from_(1 if mistake("commits to the leader") else (1 << CTAS) - 1, u16)
                bits, own = reg.scalar(u32), reg.scalar(u16)
                inst.shl.b32(bits, (1 << group) - 1, rank)
                inst.cvt.u16.u32(own, bits)
            else:
                whole = own = None
            for i in ptx.range_(0, STAGES, 1):
                st, ph = ring.advance()
                if not mistake("no wait for full"):
                    ptx.mbarrier.wait(full[st], ph ^ 1 if mistake("parity of full") else ph)
                ptx.tcgen05.fence_after_thread_sync()
                set_ = 0 if mistake("one set of columns") else st * (2 * COLUMNS)
                sf = tensor + 128 + set_
                if mistake("factors over D"):
                    sf = tensor + 124
                for w in range(words):
                    for which, name in enumerate(("sfa", "sfb")):
                        if mistake("no copy of B's") and which:
                            continue
                        lines = ptx.tcgen05.descriptor(
                            smem.base(name) + st * SF,
                            byte_offset=512 * (0 if four and mistake("first word again") else w),
                            stride_bytes=128,
                            swizzle="32B" if mistake("lines with a swizzle") else "NONE",
                        )
                        ptx.tcgen05.cp(
                            sf + which * COLUMNS + 4 * w, lines, size="32x128b", multicast="warpx4", cta_group=group
                        )
                if mistake("commits before the products"):
                    commit(empty[st], whole)
                for step in range(STEPS):
                    id_ = 0 if four else step
                    if mistake("other factor"):
                        id_ = 2 if four else step ^ 1
                    element = types.e2m1 if four else types.e4m3
                    kinds = {"mxf8f6f4": not four}
                    bits = ptx.tcgen05.instruction_descriptor(
                        m=M if (group == 2 and mistake("M of one CTA")) else M * group,
                        n=N // 2 if mistake("half of N") else N,
                        a_dtype=element,
                        b_dtype=element,
                        d_dtype=f32,
                        scale_dtype=types.ue8m0 if not four or mistake("type of the factors") else types.ue4m3,
                        scale_a_id=id_,
                        scale_b_id=id_,
                        **kinds,
                    )
                    da, db = (
                        ptx.tcgen05.descriptor(
                            smem.base(name) + st * size,
                            byte_offset=32 * step,
                            stride_bytes=512 if mistake("stride of A") and name == "a" else 1024,
                            swizzle="64B" if mistake("swizzle of B") and name == "b" else "128B",
                        )
                        for name, size in (("a", A), ("b", B))
                    )
                    at = sf + (4 * step if four else 0)
                    add = {"pred_operand": i != 0} if step == 0 else {"enable_input_d": True}
                    ptx.tcgen05.mma(
                        tensor,
                        da,
                        db,
                        reg.from_(bits, u32),
                        kind=f"kind::{kind}",
                        cta_group=group,
                        scale_vec_a=at,
                        scale_vec_b=at if mistake("factors of A for B") else at + COLUMNS,
                        scale_vectorsize="scale_vec::4X" if four else "scale_vec::1X",
                        **add,
                    )
                if mistake("releases by an arrival"):
                    ptx.mbarrier.arrive(empty[st])
                elif not mistake("commits before the products"):
                    commit(empty[st], whole)
            commit(full[0] if mistake("done goes to full") else done[0], own)
        with ptx.if_(warp >= 4):
            if not mistake("no wait for done"):
                ptx.mbarrier.wait(done[0], 0)
            if not mistake("no fence behind done"):
                ptx.tcgen05.fence_after_thread_sync()
            v = reg.array(b32, 64)
            own = tensor + ((warp & 3) << 21)
            out = pc + (rank * M + (tid & 127)) * (N * 4)
            for h in range(2):
                ptx.tcgen05.ld(list(v), own + 64 * h, shape="32x32b", count=64)
                if mistake("columns freed early") and h:
                    with ptx.if_(warp == 4):
                        ptx.tcgen05.dealloc(tensor, 256, cta_group=group)
                ptx.tcgen05.wait_ld()
                for i in range(0, 64, 4):
                    inst.st.global_.v4.b32(ptx.addr(out, 256 * h + 4 * i), [v[i + j] for j in range(4)])
        ptx.tcgen05.fence_before_thread_sync()
        if group == 2 and mistake("no cluster barrier at the end"):
            ptx.bar.sync(0)
        else:
            ptx.cluster.sync()
        ptx.tcgen05.fence_after_thread_sync()
        if not mistake("columns freed early"):
            with ptx.if_((warp == 2) & (rank == 0) if (group == 2 and mistake("freed by one CTA")) else warp == 2):
                ptx.tcgen05.dealloc(tensor, 128 if mistake("too few columns") else 256, cta_group=group)
        ptx.ret()

    bits_a, lines_a, a = numbers(kind, CTAS * M, K, 1)
    bits_b, lines_b, b = numbers(kind, N, K, 2)
    if mistake("factor is NaN"):
        lines_a[0, 0, 0] = 0x7F if four else 0xFF
    got = gemm(
        bits_a,
        bits_b,
        lines_a.reshape(CTAS * STAGES * words * 4, 128),
        lines_b.reshape(STAGES * words * 4, 128),
    )
    yield got, a @ b.T


ANY = {
    "too few columns": "PTX5010",
    "no wait for empty": "PTX5022 PTX5054",
    "expects no factors": "PTX5054 PTX5020",
    "expects a row more": "PTX5020",
    "no wait for full": "PTX5054",
    "parity of full": "PTX5054",
    "one set of columns": NONE,
    "factors over D": "PTX3003",
    "no copy of B's": "PTX5012",
    "lines with a swizzle": "PTX5054",
    "commits before the products": "PTX5054",
    "half of N": "PTX5012",
    "stride of A": "PTX5061",
    "swizzle of B": "PTX5061",
    "factors of A for B": WRONG,
    "releases by an arrival": "PTX5054",
    "done goes to full": "PTX5020",
    "no wait for done": "PTX5054",
    "no fence behind done": "PTX5058",
    "columns freed early": "PTX5054",
    "factor is NaN": WRONG,
}
PAIR = {
    "no cluster barrier before": "PTX5050",
    "full of its own": "PTX5020",
    "expects one CTA": "PTX5054",
    "rows of B of the other CTA": WRONG,
    "commits to the leader": "PTX5020",
    "M of one CTA": "PTX5012",
    "no cluster barrier at the end": NONE,
    "freed by one CTA": "PTX5010",
}
FOUR = {"first word again": WRONG, "other factor": "PTX3003", "type of the factors": WRONG}
PAIRS = {"empty counts one pair": "PTX5054", "multicast to itself": "PTX5020"}


@kernel_with(ANY | FOUR)
def nvfp4(mistake):
    yield from product(mistake, "mxf4nvf4", 1, 1)


@kernel_with(ANY | PAIR | FOUR)
def nvfp4_pair(mistake):
    yield from product(mistake, "mxf4nvf4", 2, 1)


@kernel_with(ANY | PAIR | PAIRS | {"other factor": WRONG, "releases by an arrival": "PTX5020"})
def mxfp8_pairs(mistake):
    yield from product(mistake, "mxf8f6f4", 2, 2)


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)
