"""Kernels of the shapes that Hopper's tensor cores have: on the simulator, and on an sm_90 GPU where there is one."""

from __future__ import annotations

import math
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import Layout, Tile, kernel, ptx, reg, simulator, smem  # noqa: E402
from pyptx.errors import SimulationError  # noqa: E402
from pyptx.types import b32, bf16, f32, u32  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

GPU = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(params=["cpu", GPU])
def device(request):
    if request.param == "cuda" and (not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9):
        pytest.skip("skipped: no sm_90 GPU")
    return request.param


def close(got, want, bound):
    assert ((got.double() - want).norm() / want.norm()).item() < bound


@pytest.mark.parametrize("m, n, k", [(256, 256, 64), (512, 768, 320)])
def test_warp_specialised_product_of_a_cluster(device, m, n, k):
    from hopper_gemm import gemm, tile_schedule

    a, b = (torch.randn(rows, k, device=device, dtype=torch.bfloat16) for rows in (m, n))
    got = gemm(a, b, torch.from_numpy(tile_schedule(m, n)).to(device), M=m, N=n, K=k)
    close(got, (a.double() @ b.double().T).T, 4e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ring_of_stages(seed):
    from hopper_tile import M, N, build_hopper_tile

    a, b = torch.randn(M, 320, dtype=torch.bfloat16), torch.randn(320, N, dtype=torch.bfloat16)
    with simulator.options(seed=seed):
        torch.testing.assert_close(build_hopper_tile(320)(a, b), a.float() @ b.float(), rtol=1e-4, atol=1e-2)


def copies(ptr, acc, tid, columns):
    """The accumulator to rows of f32: registers 4j and 4j + 1 are of row r, 4j + 2 and 4j + 3 of row r + 8."""
    row = (tid >> 5) * 16 + ((tid & 31) >> 2)
    p = ptr + row * (columns * 4)
    p += (tid & 3) * 8
    for j in range(len(acc) // 4):
        ptx.inst.st.global_.v2.f32(ptx.addr(p, 32 * j), [acc[4 * j], acc[4 * j + 1]])
        ptx.inst.st.global_.v2.f32(ptx.addr(p, 32 * j + 8 * columns * 4), [acc[4 * j + 2], acc[4 * j + 3]])


def build_grouped(groups: int, m: int, n: int, k: int):
    """C[g] = A[g] @ B[g] for matrices behind each other: a block a tile of 64 x 64, one buffer of 64 along K."""

    @kernel(
        in_specs=(
            Tile(groups * m, k, bf16, Layout.TMA_128B, tma_box=(64, 64)),
            Tile(groups * k, n, bf16, Layout.TMA_128B, tma_box=(64, 64)),
        ),
        out_specs=(Tile(groups * m, n, f32),),
        grid=(n // 64, m // 64, groups),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def grouped(A, B, C):
        map_a, map_b = A.tma_desc(), B.tma_desc()
        (pc,) = ptx.global_ptrs(C)
        a = smem.wgmma_tile(bf16, (64, 64), major="K")
        b = smem.wgmma_tile(bf16, (64, 64), major="MN")
        full = smem.mbarrier(1)[0]
        tid = reg.from_(ptx.special.tid.x(), u32)
        column = reg.from_(ptx.special.ctaid.x(), u32) * 64
        group = reg.from_(ptx.special.ctaid.z(), u32)
        row = group * m + reg.from_(ptx.special.ctaid.y(), u32) * 64
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(full, 1)
            ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(0)
        acc = reg.array(f32, 32)
        phase = reg.scalar(u32, init=0)
        for at in ptx.range_(0, k, 64):
            with ptx.if_(tid == 0):
                ptx.mbarrier.arrive_expect_tx(full, 2 * 64 * 64 * 2)
                ptx.tensor_copy.load(ptx.addr(a), map_a, (at, row), full)
                ptx.tensor_copy.load(ptx.addr(b), map_b, (column, group * k + at), full)
            ptx.mbarrier.wait(full, phase)
            phase ^= 1
            ptx.wgmma.fence()
            later = at != 0
            for step in range(4):
                ptx.wgmma.mma_async(
                    shape=(64, 64, 16),
                    dtype_d=f32,
                    dtype_a=bf16,
                    dtype_b=bf16,
                    d=acc,
                    a=a,
                    b=b,
                    scale_d=later if step == 0 else True,
                    trans_b=1,
                    a_k_offset=32 * step,
                    b_k_offset=16 * 128 * step,
                )
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            ptx.bar.sync(0)
        copies(pc + (row * n + column) * 4, acc, tid, n)
        ptx.ret()

    return grouped


def test_grouped_product(device):
    groups, m, n, k = 3, 128, 128, 192
    a = torch.randn(groups * m, k, device=device, dtype=torch.bfloat16)
    b = torch.randn(groups * k, n, device=device, dtype=torch.bfloat16)
    want = a.double().view(groups, m, k) @ b.double().view(groups, k, n)
    close(build_grouped(groups, m, n, k)(a, b).view(groups, m, n), want, 1e-5)


def build_attention(queries: int, keys: int, waits: bool = True):
    """softmax(Q K^T / 8) V with heads of 64: a warpgroup a block of 64 queries; P goes from registers into the second product."""

    @kernel(
        in_specs=tuple(Tile(rows, 64, bf16, Layout.TMA_128B, tma_box=(64, 64)) for rows in (queries, keys, keys)),
        out_specs=(Tile(queries, 64, f32),),
        grid=(queries // 64, 1, 1),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def attention(Q, K, V, Out):
        maps = [tensor.tma_desc() for tensor in (Q, K, V)]
        (po,) = ptx.global_ptrs(Out)
        q, k = (smem.wgmma_tile(bf16, (64, 64), major="K") for _ in "qk")
        v = smem.wgmma_tile(bf16, (64, 64), major="MN")
        bars = smem.mbarrier(2)
        tid = reg.from_(ptx.special.tid.x(), u32)
        first = reg.from_(ptx.special.ctaid.x(), u32) * 64
        with ptx.if_(tid == 0):
            for i in range(2):
                ptx.mbarrier.init(bars[i], 1)
            ptx.fence.proxy_async_shared_cta()
            ptx.mbarrier.arrive_expect_tx(bars[0], 8192)
            ptx.tensor_copy.load(ptx.addr(q), maps[0], (0, first), bars[0])
        ptx.bar.sync(0)
        ptx.mbarrier.wait(bars[0], 0)
        out, s = reg.array(f32, 32), reg.array(f32, 32)
        p = [reg.array(b32, 4) for _ in range(4)]
        top, total = [reg.scalar(f32, init=-math.inf) for _ in "ab"], [reg.scalar(f32, init=0.0) for _ in "ab"]
        for each in out:
            ptx.inst.mov.f32(each, 0.0)
        scale = math.log2(math.e) / 8
        phase = reg.scalar(u32, init=0)

        def over_quad(op, x):
            other = reg.scalar(f32)
            for lanes in (1, 2):
                ptx.inst.shfl.sync.bfly.b32(other, x, lanes, 31, -1)
                op(x, x, other)

        def product(d, a, b, **more):
            ptx.wgmma.mma_async(shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=d, a=a, b=b, **more)

        for at in ptx.range_(0, keys, 64):
            with ptx.if_(tid == 0):
                ptx.mbarrier.arrive_expect_tx(bars[1], 2 * 8192)
                ptx.tensor_copy.load(ptx.addr(k), maps[1], (0, at), bars[1])
                ptx.tensor_copy.load(ptx.addr(v), maps[2], (0, at), bars[1])
            ptx.mbarrier.wait(bars[1], phase)
            phase ^= 1
            ptx.wgmma.fence()
            for step in range(4):
                product(s, q, k, scale_d=step != 0, a_k_offset=32 * step, b_k_offset=32 * step)
            ptx.wgmma.commit_group()
            if waits:
                ptx.wgmma.wait_group(0)
            for half in range(2):  # rows r and r + 8
                mine = [i for i in range(32) if i // 2 % 2 == half]
                new, factor, part = (reg.scalar(f32) for _ in range(3))
                ptx.inst.mov.f32(new, top[half])
                for i in mine:
                    ptx.inst.max.f32(new, new, s[i])
                over_quad(ptx.inst.max.f32, new)
                ptx.inst.sub.f32(factor, top[half], new)
                ptx.inst.mul.f32(factor, factor, scale)
                ptx.inst.ex2.approx.f32(factor, factor)
                ptx.inst.mov.f32(top[half], new)
                ptx.inst.mov.f32(part, 0.0)
                for i in mine:
                    ptx.inst.sub.f32(s[i], s[i], new)
                    ptx.inst.mul.f32(s[i], s[i], scale)
                    ptx.inst.ex2.approx.f32(s[i], s[i])
                    ptx.inst.add.f32(part, part, s[i])
                    ptx.inst.mul.f32(out[i], out[i], factor)
                over_quad(ptx.inst.add.f32, part)
                ptx.inst.fma.rn.f32(total[half], total[half], factor, part)
            for step in range(4):
                for i in range(4):
                    ptx.inst.cvt.rn.bf16x2.f32(p[step][i], s[8 * step + 2 * i + 1], s[8 * step + 2 * i])
            ptx.wgmma.fence()
            for step in range(4):
                product(out, list(p[step]), v, scale_d=True, trans_b=1, b_k_offset=16 * 128 * step)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            ptx.bar.sync(0)  # K and V were read
        for i in range(32):
            ptx.inst.div.rn.f32(out[i], out[i], total[i // 2 % 2])
        copies(po + first * (64 * 4), out, tid, 64)
        ptx.ret()

    return attention


def test_attention(device):
    q, k, v = (torch.randn(rows, 64, device=device, dtype=torch.bfloat16) for rows in (128, 192, 192))
    want = torch.softmax(q.double() @ k.double().T / 8, dim=1) @ v.double()
    close(build_attention(128, 192)(q, k, v), want, 5e-3)


def test_a_missing_wait_is_reported():
    q, k, v = (torch.randn(64, 64, dtype=torch.bfloat16) for _ in "qkv")
    with pytest.raises(SimulationError, match=r"without wgmma\.wait_group in between"):
        build_attention(64, 64, waits=False)(q, k, v)
