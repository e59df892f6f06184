"""A convolution by im2col, groups whose tensor maps the kernel makes, launches that depend on each other:
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import pytest
import unseen
from unseen import NONE, WRONG, integers, kernel_with, torch

from pyptx import Im2col, Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import bf16, f32, s32, u8, u32, u64


@kernel_with(
    {
        "pad corner": WRONG,
        "expect tile": "PTX5020",
        "offsets swapped": WRONG,
        "stage count": "PTX5022",
        "coords off": WRONG,
        "pixels 64 expect 128": "PTX5020",
        "no wait": "PTX5054",
    }
)
def conv(mistake):
    # y[n, p, q, k] = sum over r, s, c of x[n, p + r - 1, q + s - 1, c] w[r, s, k, c]: 3 x 3, pad 1, 64 channels to 64
    N, H, W, C, KO = 2, 8, 8, 64, 64
    lo, up = ((-1, -1), (-1, -1))
    if mistake("pad corner"):
        up = (0, 0)
    window = Im2col(lower=lo, upper=up, channels=C, pixels=64)

    @kernel(
        in_specs=(
            Tile(N, H, W, C, bf16, tma_swizzle="128B", tma_im2col=window),
            Tile(9 * KO, C, bf16, Layout.TMA_128B, tma_box=(KO, C)),
        ),
        out_specs=(Tile(N * H * W, KO, f32),),
        grid=(N * H * W // 64, 1, 1),
        block=(160, 1, 1),
        arch="sm_90a",
    )
    def k(X, Wt, Y):
        mx, mw = X.tma_desc(), Wt.tma_desc()
        (py,) = ptx.global_ptrs(Y)
        ST = 3
        smem.alloc(bf16, (ST, 64, C), align=1024, name="x")
        smem.alloc(bf16, (ST, KO, C), align=1024, name="w")
        full, empty = smem.mbarrier(ST, name="full"), smem.mbarrier(ST, name="empty")
        tid = reg.from_(ptx.special.tid.x(), u32)
        image = reg.from_(ptx.special.ctaid.x(), u32)
        with ptx.if_(tid == 0):
            for s in range(ST):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], 128)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(tid == 128):
            ring = ptx.pipeline(ST)
            for r in range(3):
                for s in range(3):
                    st, ph = ring.advance()
                    if not mistake("stage count"):
                        ptx.mbarrier.wait(empty[st], ph ^ 1)
                    ptx.mbarrier.arrive_expect_tx(
                        full[st],
                        (64 + KO) * C * 2 * (2 if mistake("pixels 64 expect 128") else 1)
                        - (1024 if mistake("expect tile") else 0),
                    )
                    o = (r, s) if mistake("offsets swapped") else (s, r)
                    base = 0 if mistake("coords off") else -1
                    ptx.tensor_copy.load(
                        ptx.addr(smem.base("x") + st * 8192),
                        mx,
                        (0, base, base, image),
                        full[st],
                        mode="im2col",
                        offsets=o,
                    )
                    ptx.tensor_copy.load(ptx.addr(smem.base("w") + st * 8192), mw, (0, (r * 3 + s) * KO), full[st])
        with ptx.if_(tid < 128):
            ring = ptx.pipeline(ST)
            acc = reg.array(f32, 32)
            for i in range(9):
                st, ph = ring.advance()
                if not mistake("no wait"):
                    ptx.mbarrier.wait(full[st], ph)
                ptx.wgmma.fence()
                for step in range(4):
                    da, db = (
                        ptx.wgmma.make_descriptor(
                            smem.base(n) + st * 8192 + 32 * step,
                            leading_byte_offset=16,
                            stride_byte_offset=1024,
                            swizzle=1,
                        )
                        for n in "xw"
                    )
                    ptx.wgmma.mma_async(
                        shape=(64, 64, 16),
                        dtype_d=f32,
                        dtype_a=bf16,
                        dtype_b=bf16,
                        d=acc,
                        a=da,
                        b=db,
                        scale_d=i + step > 0,
                    )
                ptx.wgmma.commit_group()
                ptx.wgmma.wait_group(0)
                ptx.mbarrier.arrive(empty[st])
            r = (tid >> 5) * 16 + ((tid & 31) >> 2)
            out = py + (image * 64 + r) * (KO * 4) + (tid & 3) * 8
            for j in range(8):
                ptx.inst.st.global_.v2.f32(ptx.addr(out, j * 32), [acc[4 * j], acc[4 * j + 1]])
                ptx.inst.st.global_.v2.f32(ptx.addr(out, j * 32 + 8 * KO * 4), [acc[4 * j + 2], acc[4 * j + 3]])
        ptx.ret()

    x, w = integers(N, H, W, C), integers(3, 3, KO, C, seed=1)
    want = torch.nn.functional.conv2d(
        x.double().permute(0, 3, 1, 2), w.double().permute(2, 3, 0, 1), padding=1
    ).permute(0, 2, 3, 1)
    yield k(x, w.reshape(9 * KO, C)), want.reshape(N * H * W, KO)


@kernel_with(
    {
        "no release": "PTX5053",
        "no acquire": "PTX5053",
        "acquire cta": NONE,
        "replace no wait": "PTX5054",
        "smem map no sync": "PTX5050",
        "one lane copies": "PTX5020",
        "wrong dim": "PTX5010",
        "stride bad": WRONG,
        "one map slot two ctas": "PTX5050",
    },
)
def grouped(mistake):
    # groups of rows of different count; each CTA walks groups and rewrites its map (in a workspace) for the group's A
    ROWS = [64, 32, 48]
    G = len(ROWS)
    K, N = 64, 64

    @kernel(
        in_specs=(
            Tile(sum(ROWS), K, bf16, Layout.TMA_128B, tma_box=(64, K)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(N, K)),
            Tile(2 * 128, u8, align=128),
            Tile(G, 2, s32),
        ),
        out_specs=(Tile(G * 64, N, f32),),
        mutates=("MAPS",),
        grid=(2, 1, 1),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def k(A, B, MAPS, GROUPS, C):
        ma, mb = A.tma_desc(), B.tma_desc()
        pa, pm, pg, pc = ptx.global_ptrs(A, MAPS, GROUPS, C)
        smem.alloc(bf16, (64, K), align=1024, name="a")
        smem.alloc(bf16, (64, K), align=1024, name="b")
        smem.alloc(u8, (128,), align=128, name="map")
        full = smem.mbarrier(1, name="full")
        tid = reg.from_(ptx.special.tid.x(), u32)
        cta = reg.from_(ptx.special.ctaid.x(), u32)
        mine = pm + (0 if mistake("one map slot two ctas") else cta * 128)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
        with ptx.if_(tid < 32):
            word = reg.scalar(u32)
            src = reg.scalar(u64)
            ptx.inst.mov.u64(src, ma)
            ptx.inst.ld.u32(word, ptx.addr(src + tid * 4))
            ptx.inst.st.shared.u32(ptx.addr(smem.base("map") + tid * 4), word)
        ptx.bar.sync(0)
        acc = reg.array(f32, 32)
        phase = reg.scalar(u32, init=0)
        begin, rows = reg.scalar(s32), reg.scalar(s32)
        for g in ptx.range_(cta, G, 2):
            ptx.inst.ld.global_.v2.s32([begin, rows], ptx.addr(pg + g * 8))
            with ptx.if_(tid < 32):
                with ptx.if_(tid == 0):
                    address = reg.scalar(u64)
                    ptx.inst.mad.wide.s32(address, begin, K * 2, pa)
                    ptx.tensormap.replace_global_address(ptx.addr(smem.base("map")), address, space="shared::cta")
                    ptx.tensormap.replace_global_dim(
                        ptx.addr(smem.base("map")), 0 if mistake("wrong dim") else 1, rows, space="shared::cta"
                    )
                    if mistake("stride bad"):
                        ptx.tensormap.replace_global_stride(
                            ptx.addr(smem.base("map")), 0, reg.from_(K, u64), space="shared::cta"
                        )
                if not mistake("smem map no sync"):
                    ptx.inst.bar.warp.sync(0xFFFFFFFF)
                if mistake("no release"):
                    w = reg.scalar(u32)
                    ptx.inst.ld.shared.u32(w, ptx.addr(smem.base("map") + tid * 4))
                    ptx.inst.st.global_.u32(ptx.addr(mine + tid * 4), w)
                elif mistake("one lane copies"):
                    with ptx.if_(tid == 0):
                        ptx.tensormap.cp_fenceproxy("gpu", ptx.addr(mine), ptx.addr(smem.base("map")))
                else:
                    ptx.tensormap.cp_fenceproxy("gpu", ptx.addr(mine), ptx.addr(smem.base("map")))
                if mistake("no release"):
                    ptx.inst.bar.warp.sync(0xFFFFFFFF)
                with ptx.if_(tid == 0):
                    if not mistake("no acquire"):
                        ptx.fence.proxy_tensormap_acquire("cta" if mistake("acquire cta") else "gpu", ptx.addr(mine))
                    ptx.mbarrier.arrive_expect_tx(full[0], 2 * 64 * K * 2)
                    ptx.tensor_copy.load(ptx.addr(smem.base("a")), mine, (0, 0), full[0])
                    ptx.tensor_copy.load(ptx.addr(smem.base("b")), mb, (0, 0), full[0])
                    if mistake("replace no wait"):
                        ptx.tensormap.replace_global_dim(ptx.addr(mine), 1, rows, space="global")
            ptx.mbarrier.wait(full[0], phase)
            phase ^= 1
            ptx.wgmma.fence()
            for step in range(4):
                da, db = (
                    ptx.wgmma.make_descriptor(
                        smem.base(n) + 32 * step, leading_byte_offset=16, stride_byte_offset=1024, swizzle=1
                    )
                    for n in "ab"
                )
                ptx.wgmma.mma_async(
                    shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=acc, a=da, b=db, scale_d=step > 0
                )
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            r = (tid >> 5) * 16 + ((tid & 31) >> 2)
            out = pc + (g * 64 + r) * (N * 4) + (tid & 3) * 8
            for j in range(8):
                ptx.inst.st.global_.v2.f32(ptx.addr(out, j * 32), [acc[4 * j], acc[4 * j + 1]])
                ptx.inst.st.global_.v2.f32(ptx.addr(out, j * 32 + 8 * N * 4), [acc[4 * j + 2], acc[4 * j + 3]])
            ptx.bar.sync(0)
        ptx.ret()

    a, b = integers(sum(ROWS), K), integers(N, K, seed=1)
    begins = [0, 64, 96]
    maps = torch.zeros(2 * 128 + 128, dtype=torch.uint8)
    off = (-maps.data_ptr()) % 128
    maps = maps[off : off + 256]
    got = k(a, b, maps, torch.tensor(list(zip(begins, ROWS, strict=False)), dtype=torch.int32))
    want = torch.zeros(G * 64, N, dtype=torch.float64)
    for g, (s, r) in enumerate(zip(begins, ROWS, strict=False)):
        want[g * 64 : g * 64 + r] = a[s : s + r].double() @ b.double().T
    yield got, want


@kernel_with(
    {
        "no wait": "PTX5054",
        "wait after load": "PTX5054",
        "wait by one": "PTX5054",
        "launch not asked": NONE,
    }
)
def pdl(mistake):
    def make(i, dependent):
        @kernel(
            in_specs=(Tile(256, f32),),
            out_specs=(Tile(256, f32),),
            grid=(2, 1, 1),
            block=(128, 1, 1),
            arch="sm_90a",
            dependent_launch=dependent,
        )
        def step(X, Y):
            px, py = ptx.global_ptrs(X, Y)
            at = (reg.from_(ptx.special.ctaid.x(), u32) * 128 + reg.from_(ptx.special.tid.x(), u32)) * 4
            tid = reg.from_(ptx.special.tid.x(), u32)
            v = reg.scalar(f32)
            if not mistake("launch not asked"):
                ptx.griddepcontrol.launch_dependents()
            if dependent and not mistake("no wait") and not mistake("wait after load"):
                if mistake("wait by one"):
                    with ptx.if_(tid == 0):
                        ptx.griddepcontrol.wait()
                else:
                    ptx.griddepcontrol.wait()
            ptx.inst.ld.global_.f32(v, ptx.addr(px + at))
            if dependent and mistake("wait after load"):
                ptx.griddepcontrol.wait()
            ptx.inst.st.global_.f32(ptx.addr(py + at), v + float(i))
            ptx.ret()

        return step

    x = integers(256, dtype=torch.float32)
    y = x
    for i in range(3):
        y = make(i + 1, i > 0)(y)
    yield y, x.double() + 6


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)
