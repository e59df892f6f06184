"""One tile of a Hopper matrix product: C(64, 128) = A(64, K) @ B(K, 128), bf16 in, f32 out.

One warpgroup computes it.  Tensor copies fill a ring of stages in shared memory with a swizzle of 128 bytes; each stage has an
mbarrier that counts its bytes; wgmma reads the stages.  examples/hopper_tile.cpp prints the same PTX.

    python examples/hopper_tile.py             run it for several K, on an sm_90a GPU or on the simulator, and compare with torch
    python examples/hopper_tile.py --ptx [K]   print the text
"""

import sys

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import bf16, f32, u32

M, N, TILE_K, STAGES = 64, 128, 64, 3
STAGE_BYTES = (M + N) * TILE_K * 2


def build_hopper_tile(K: int):
    @kernel(
        # B's box is 64 x 128, as two blocks of 64 columns (128 bytes) behind each other: a map of rank 3.
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(M, TILE_K)),
            Tile(K, N, bf16, Layout.TMA_128B, tma_box=(TILE_K, N), tma_rank=3),
        ),
        out_specs=(Tile(M, N, f32),),
        grid=(1, 1, 1),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def hopper_tile(A, B, C):
        map_a, map_b = A.tma_desc(), B.tma_desc()
        (pc,) = ptx.global_ptrs(C)
        sa = smem.wgmma_tile(bf16, (STAGES, M, TILE_K), major="K")
        sb = smem.wgmma_tile(bf16, (STAGES, TILE_K, N), major="MN")
        full = smem.mbarrier(STAGES)

        tid = reg.from_(ptx.special.tid.x(), u32)
        leader = tid == 0
        with ptx.if_(leader):
            for stage in range(STAGES):
                ptx.mbarrier.init(full[stage], 1)
            ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(0)

        def fetch(a, b, bar, at):
            bulk = ptx.cp.async_.bulk
            ptx.mbarrier.arrive_expect_tx(bar, STAGE_BYTES)
            bulk.tensor_2d(dst=a, src=map_a, coord=(at, 0), mbar=bar)
            bulk.tensor_3d(dst=b, src=map_b, coord=(0, at, 0), mbar=bar)

        with ptx.if_(leader):
            for stage in range(min(STAGES, K // TILE_K)):
                fetch(sa[stage], sb[stage], full[stage], stage * TILE_K)

        acc = reg.array(f32, M * N // 128)
        ring = ptx.pipeline(STAGES)
        for at in ptx.range_(0, K, TILE_K):
            stage, phase = ring.advance()
            a, b, bar = sa[stage], sb[stage], full[stage]
            ptx.mbarrier.wait(bar, phase)
            ptx.wgmma.fence()
            later = at != 0
            for step in range(TILE_K // 16):
                ptx.wgmma.mma_async(
                    shape=(M, N, 16),
                    dtype_d=f32,
                    dtype_a=bf16,
                    dtype_b=bf16,
                    d=acc,
                    a=a,
                    b=b,
                    scale_d=later if step == 0 else True,
                    trans_b=1,
                    a_k_offset=step * 16 * 2,  # 16 elements along a row of A
                    b_k_offset=step * 16 * 128,  # 16 rows of B
                )
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            ptx.bar.sync(0)  # every warp has read the stage
            following = at + STAGES * TILE_K
            with ptx.if_(leader), ptx.if_(following < K):
                fetch(a, b, bar, following)

        # The accumulator: registers 4j, 4j+1 are row r, columns c + 8j and the next; 4j+2, 4j+3 are row r + 8.
        row = (tid >> 5) * 16 + ((tid & 31) >> 2)
        p = pc + row * (N * 4)
        p += (tid & 3) * 8
        for j in range(N // 8):
            ptx.inst.st.global_.v2.f32(ptx.addr(p, 32 * j), [acc[4 * j], acc[4 * j + 1]])
            ptx.inst.st.global_.v2.f32(ptx.addr(p, 32 * j + 8 * N * 4), [acc[4 * j + 2], acc[4 * j + 3]])
        ptx.ret()

    return hopper_tile


def main() -> int:
    if "--ptx" in sys.argv:
        K = int(sys.argv[-1]) if sys.argv[-1].isdigit() else 256
        print(build_hopper_tile(K).ptx(), end="")
        return 0
    import torch

    gpu = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
    device = "cuda" if gpu else "cpu"  # the simulator runs calls with CPU tensors
    good = True
    for K in (64, 128, 192, 256, 1024, 4096):
        a = torch.randn(M, K, device=device, dtype=torch.bfloat16)
        b = torch.randn(K, N, device=device, dtype=torch.bfloat16)
        c = build_hopper_tile(K)(a, b)
        equal = torch.allclose(c, a.float() @ b.float(), rtol=1e-4, atol=1e-3 * K**0.5)
        print(f"K = {K}: {'equal to' if equal else 'not equal to'} torch")
        good = good and equal
    return not good


if __name__ == "__main__":
    sys.exit(main())
