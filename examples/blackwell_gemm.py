"""Blackwell matrix products: C(M, N) = A(M, K) @ B(N, K)^T, bf16 in, f32 out.  A tile is computed by one CTA, or by a pair of CTAs.

The kernel is warp-specialised: one thread of a CTA copies tiles of A and B into a ring of stages, one thread multiplies them into
tensor memory, and four warps read the result.  A pair (cta_group::2) shares a tile of 256 rows: each CTA copies half the rows of A
and half the columns of B, and the even one multiplies for both.

    python examples/blackwell_gemm.py          run both kernels on the simulator, and compare with float64
    python examples/blackwell_gemm.py --ptx    print the PTX of the kernel for pairs
"""

import sys

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, f32, u16, u32

BM, BN = 128, 128  # rows of a CTA, columns of a tile
BK, STAGES = 64, 3  # elements of a stage: 128 bytes, a row of the swizzle
A_BYTES = BM * BK * 2


def build_gemm(M: int, N: int, K: int, pair: bool = False):
    """M is a multiple of 128, or of 256 for pairs, N of 128, K of 64."""
    ctas = 2 if pair else 1
    own_columns = BN // ctas  # of B, in the shared memory of a CTA
    b_bytes = own_columns * BK * 2

    @kernel(
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(own_columns, BK)),
        ),
        out_specs=(Tile(M, N, f32),),
        grid=(M // BM, N // BN, 1),
        cluster=(ctas, 1, 1),
        block=(128, 1, 1),
        arch="sm_100a",
    )
    def gemm(A, B, C):
        map_a, map_b = A.tma_desc(), B.tma_desc()
        (pc,) = ptx.global_ptrs(C)
        smem.alloc(bf16, (STAGES, BM, BK), align=1024, name="a")
        smem.alloc(bf16, (STAGES, own_columns, BK), align=1024, name="b")
        smem.alloc(u32, (1,), name="slot")  # the address in tensor memory, as alloc writes it
        full, empty, done = smem.mbarrier(STAGES), smem.mbarrier(STAGES), smem.mbarrier(1)

        tid = reg.from_(ptx.special.tid.x(), u32)
        row_tile = reg.from_(ptx.special.ctaid.x(), u32)
        column_tile = reg.from_(ptx.special.ctaid.y(), u32)
        rank = row_tile & (ctas - 1)
        warp = tid >> 5

        def sync():
            ptx.tcgen05.fence_before_thread_sync()
            if pair:
                ptx.cluster.sync()
            else:
                ptx.bar.sync(0)
            ptx.tcgen05.fence_after_thread_sync()

        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), BN, cta_group=ctas)
            ptx.tcgen05.relinquish_alloc_permit(cta_group=ctas)
        with ptx.if_(tid == 0):
            for stage in range(STAGES):
                ptx.mbarrier.init(full[stage], 1)
                ptx.mbarrier.init(empty[stage], 1)
            ptx.mbarrier.init(done[0], 1)
            ptx.fence.mbarrier_init()
        sync()
        accumulator = reg.scalar(b32)
        ptx.inst.ld.shared.b32(accumulator, ptx.addr(smem.base("slot")))

        with ptx.if_(tid == 0):  # the producer
            ring = ptx.pipeline(STAGES)
            row, column = row_tile * BM, column_tile * BN + rank * own_columns
            for at in ptx.range_(0, K, BK):
                stage, phase = ring.advance()
                ptx.mbarrier.wait(empty[stage], phase ^ 1)
                with ptx.if_(rank == 0):  # its mbarrier counts the copies of both CTAs
                    ptx.mbarrier.arrive_expect_tx(full[stage], ctas * (A_BYTES + b_bytes))
                bar = ptx.cluster.map_shared_u32(full[stage], 0) if pair else full[stage]
                how = {"cta_group": 2} if pair else {}
                ptx.tensor_copy.load(ptx.addr(smem.base("a") + stage * A_BYTES), map_a, (at, row), bar, **how)
                ptx.tensor_copy.load(ptx.addr(smem.base("b") + stage * b_bytes), map_b, (at, column), bar, **how)

        def commit(bar):
            if pair:
                ptx.tcgen05.commit(bar, cta_group=2, multicast=True, multicast_mask=reg.from_(3, u16))
            else:
                ptx.tcgen05.commit(bar)

        with ptx.if_((tid ^ 32 | rank) == 0):  # the thread that multiplies
            ring = ptx.pipeline(STAGES)
            kind = ptx.tcgen05.instruction_descriptor(m=ctas * BM, n=BN, a_dtype=bf16, b_dtype=bf16, d_dtype=f32)
            for at in ptx.range_(0, K, BK):
                stage, phase = ring.advance()
                ptx.mbarrier.wait(full[stage], phase)
                ptx.tcgen05.fence_after_thread_sync()
                for step in range(BK // 16):
                    from_a = ptx.tcgen05.descriptor(
                        smem.base("a") + stage * A_BYTES, byte_offset=32 * step, stride_bytes=1024, swizzle="128B"
                    )
                    from_b = ptx.tcgen05.descriptor(
                        smem.base("b") + stage * b_bytes, byte_offset=32 * step, stride_bytes=1024, swizzle="128B"
                    )
                    add = {"pred_operand": at != 0} if step == 0 else {"enable_input_d": True}
                    ptx.tcgen05.mma(
                        accumulator, from_a, from_b, reg.from_(kind, u32), kind="kind::f16", cta_group=ctas, **add
                    )
                commit(empty[stage])
            commit(done[0])

        ptx.mbarrier.wait(done[0], 0)
        ptx.tcgen05.fence_after_thread_sync()
        # Thread t has row t: its warp reads 32 lanes of tensor memory, 32 columns at a time.
        lanes = accumulator + (warp << 21)
        out = pc + (row_tile * BM + tid) * (N * 4)
        out += column_tile * (BN * 4)
        values = reg.array(b32, 32)
        for at in range(0, BN, 32):
            ptx.tcgen05.ld([values[i] for i in range(32)], lanes + at, shape="32x32b", count=32)
            ptx.tcgen05.wait_ld()
            for i in range(0, 32, 4):
                ptx.inst.st.global_.v4.b32(ptx.addr(out, 4 * (at + i)), [values[i + j] for j in range(4)])
        sync()
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(accumulator, BN, cta_group=ctas)
        ptx.ret()

    return gemm


def main() -> int:
    if "--ptx" in sys.argv:
        print(build_gemm(512, 256, 256, pair=True).ptx(), end="")
        return 0
    import torch

    device = "cuda" if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 10 else "cpu"
    good = True
    for pair in (False, True):
        for m, n, k in ((256, 128, 64), (256, 256, 512)):
            a = torch.randn(m, k, device=device).bfloat16()
            b = torch.randn(n, k, device=device).bfloat16()
            c = build_gemm(m, n, k, pair)(a, b)
            error = ((c.double() - a.double() @ b.double().T).norm() / c.double().norm()).item()
            print(f"{'a pair of CTAs' if pair else 'one CTA'}, {m} x {n} x {k}: relative error {error:.1e}")
            good = good and error < 1e-6
    return not good


if __name__ == "__main__":
    sys.exit(main())
