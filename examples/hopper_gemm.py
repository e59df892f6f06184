"""A warp-specialised Hopper matrix product, C(N, M) = (A(M, K) @ B(N, K)^T)^T, bf16, with the functions that pyptx 0.1.1 has: one
producer warpgroup, two consumers, a cluster of two CTAs that share B, rank-3 maps, a schedule of tiles in memory.

Sizes are symbols, which the body does not read, so one text serves all sizes.  M and N must be multiples of 256, K of 64; 64
clusters share the tiles.

    python examples/hopper_gemm.py         run it for several sizes, on an sm_90a GPU or on the simulator, and compare with torch
    python examples/hopper_gemm.py --ptx   print the text
"""

import sys

import numpy as np

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b16, bf16, f32, pred, u32

BM, BN, BK, STAGES = 128, 256, 64, 3
CLUSTERS, ENTRIES = 64, 128
A_BYTES, B_BYTES = BM * BK * 2, BN * BK * 2
ROW = 72  # elements of a row of the staged result: 64 and a pad against bank conflicts
C_BYTES = BN * ROW * 2  # of one consumer
AT_A, AT_B = 0, STAGES * A_BYTES
AT_C = AT_B + STAGES * B_BYTES
AT_FULL = AT_C + 2 * C_BYTES
AT_EMPTY = AT_FULL + 8 * STAGES
AT_TILES = AT_EMPTY + 8 * STAGES
SMEM = AT_TILES + 4 * ENTRIES
END = 0xFFFFFFFF


def tile_schedule(m: int, n: int) -> np.ndarray:
    """The tiles of each cluster, m << 16 | n in units of 2 BM and BN, closed by -1; neighbours share rows of A or of B."""
    pairs = [(i, j if i % 2 == 0 else n // BN - 1 - j) for i in range(m // (2 * BM)) for j in range(n // BN)]
    table = np.full((CLUSTERS, ENTRIES), -1, dtype=np.int32)
    for cluster in range(CLUSTERS):
        mine = pairs[cluster::CLUSTERS]
        if len(mine) >= ENTRIES:
            raise RuntimeError(f"{len(mine)} tiles for a cluster; the table has room for {ENTRIES - 1}")
        table[cluster, : len(mine)] = [i << 16 | j for i, j in mine]
    return table.reshape(-1)


@kernel(
    in_specs=(
        Tile("M", "K", bf16, Layout.TMA_128B, tma_box=(BM, BK), tma_rank=3),
        Tile("N", "K", bf16, Layout.TMA_128B, tma_box=(BN, BK), tma_rank=3),
        Tile("S", u32),
    ),
    out_specs=(Tile("N", "M", bf16, tma_box=(BN, 64), tma_rank=3, tma_padding=True),),
    grid=(2 * CLUSTERS, 1, 1),
    block=(384, 1, 1),
    cluster=(2, 1, 1),
    smem=SMEM,
    extern_smem="smem",
    raw_params=(("u32", "M"), ("u32", "N"), ("u32", "K")),
    raw_directives=(("maxntid", (384, 1, 1)), ("explicitcluster", ()), ("reqnctapercluster", (2, 1, 1))),
    arch="sm_90a",
    version=(8, 7),
)
def gemm(A, B, schedule, C):
    (tiles,) = ptx.global_ptrs(schedule)
    map_a, map_b, map_c = A.tma_desc(), B.tma_desc(), C.tma_desc()
    k_size = ptx.param(u32, "K")
    base = smem.base("smem")
    full = ptx.mbarrier.array(base, AT_FULL, STAGES)
    empty = ptx.mbarrier.array(base, AT_EMPTY, STAGES)
    tid = reg.from_(ptx.special.tid.x(), u32)
    rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
    group = tid >> 7
    steps = k_size >> 6

    with ptx.if_(tid == 0):
        full.init_all(1)
        empty.init_all(4)  # two consumers of two CTAs
        ptx.fence.mbarrier_init()
    with ptx.if_(tid < ENTRIES):
        cluster = reg.from_(ptx.special.ctaid.x(), u32) >> 1
        entry = reg.scalar(u32)
        ptx.inst.ld.global_.u32(entry, ptx.addr(tiles + (cluster * ENTRIES + tid) * 4))
        ptx.inst.st.shared.u32(ptx.addr(base + tid * 4, AT_TILES), entry)
    ptx.bar.sync(0)
    ptx.cluster.sync()

    ring = ptx.pipeline(STAGES)
    cursor = reg.from_(base, u32)
    tile = reg.scalar(u32)

    def next_tile(done):
        smem_tile = smem.load(u32, ptx.addr(cursor, AT_TILES))
        ptx.inst.mov.u32(tile, smem_tile)
        ptx.bra(done, pred=tile == END)
        cursor.__iadd__(4)
        m = (tile >> 16) * (2 * BM) + rank * BM
        return m, (tile & 0xFFFF) * BN

    def produce(stage, phase, m, n, k):
        empty.at(stage).wait(phase ^ 1)
        bar = full.at(stage)
        bar.arrive_expect_tx(A_BYTES + B_BYTES)
        to_a = base + stage * A_BYTES
        to_b = base + stage * B_BYTES
        to_b += AT_B
        ptx.tma.load_3d(to_a, map_a, row=m, col=k, mbar=bar.addr_reg())
        mask = reg.from_(3, b16)
        ptx.tma.load_3d_multicast(to_b, map_b, row=n, col=k, mbar=bar.addr_reg(), mask=mask, issuer=0)

    with ptx.if_(group == 0):
        ptx.setmaxnreg(24, inc=False)
        with ptx.if_(tid == 0):
            ptx.label("produce_tiles")
            m, n = next_tile("produced")
            k = reg.scalar(u32, init=0)

            def step():
                stage, phase = ring.advance()
                produce(stage, phase, m, n, k)
                k.__iadd__(BK)

            ptx.kloop(steps, unroll=4, body=step, loop_label="produce_k")
            ptx.bra("produce_tiles")
            ptx.label("produced")
    with ptx.else_():
        ptx.setmaxnreg(240, inc=True)
        lane = tid & 127
        consumer = group - 1
        acc = reg.array(f32, 128)
        staged = base + consumer * C_BYTES
        staged += AT_C
        barrier = consumer + 2
        ptx.label("consume_tiles")
        m, n = next_tile("consumed")
        first = reg.scalar(pred)
        later = reg.scalar(u32, init=0)

        def step():
            stage, phase = ring.advance()
            full.at(stage).wait(phase)
            at_a = base + stage * A_BYTES
            at_a += consumer * (64 * BK * 2)
            at_b = base + stage * B_BYTES
            at_b += AT_B
            ptx.wgmma.fence()
            ptx.inst.setp.ne.u32(first, later, 0)
            for quarter in range(4):
                ptx.wgmma.mma_async(
                    shape=(64, BN, 16),
                    dtype_d=f32,
                    dtype_a=bf16,
                    dtype_b=bf16,
                    d=acc,
                    a=ptx.wgmma.masked_descriptor(at_a, byte_offset=32 * quarter, mask=0x3FFF0),
                    b=ptx.wgmma.masked_descriptor(at_b, byte_offset=32 * quarter, mask=0x3FFF0),
                    scale_d=first if quarter == 0 else True,
                )
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            ptx.inst.mov.u32(later, 1)
            slot = empty.at(stage)
            slot.arrive_remote(lane, pred=lane < 2)

        ptx.kloop(steps, unroll=2, body=step, loop_label="consume_k")

        # Wait until the store of the last tile has read the staged rows, which are then overwritten.
        with ptx.if_(lane == 0):
            ptx.cp.async_.bulk.wait_group(0, read=True)
        ptx.bar.sync(barrier, 128)
        ptx.stmatrix_x4_trans_f32_bf16(frag=acc.hw_order(), smem_base=staged, lane=lane, row_stride=ROW)
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(barrier, 128)
        with ptx.if_(lane == 0):
            ptx.tma.store_3d(map_c, staged, row=n, col=m + consumer * 64)
            ptx.cp.async_.bulk.commit_group()
        ptx.bra("consume_tiles")
        ptx.label("consumed")
        with ptx.if_(lane == 0):
            ptx.cp.async_.bulk.wait_group(0)
    ptx.cluster.sync()
    ptx.ret()


def main() -> int:
    if "--ptx" in sys.argv:
        print(gemm.ptx(M=512, N=512, K=256, S=CLUSTERS * ENTRIES), end="")
        return 0
    import torch

    gpu = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
    device = "cuda" if gpu else "cpu"  # the simulator runs calls with CPU tensors
    good = True
    for m, n, k in ((512, 512, 64), (512, 768, 320), (2048, 2048, 2048))[: 3 if gpu else 2]:
        a = torch.randn(m, k, device=device, dtype=torch.bfloat16)
        b = torch.randn(n, k, device=device, dtype=torch.bfloat16)
        got = gemm(a, b, torch.from_numpy(tile_schedule(m, n)).to(device), M=m, N=n, K=k).double()
        want = (a.double() @ b.double().T).T
        error = ((got - want).norm() / want.norm()).item()
        print(f"{m} x {n} x {k}: relative error {error:.1e}")
        good = good and error < 4e-3
    return not good


if __name__ == "__main__":
    sys.exit(main())
