"""A tile of a Blackwell product with block scales: C(128, 128) = (A * scale_A) @ (B * scale_B)^T, f32 out, in two formats:

    mxfp8   e4m3 numbers, a scale factor (ue8m0, a power of two) for 32 of them: kind::mxf8f6f4
    nvfp4   e2m1 numbers, two to a byte, a scale factor (ue4m3) for 16 of them: kind::mxf4nvf4

Tensor copies fetch 128 bytes of each row, and bulk copies the scale factors, which tcgen05.cp copies to tensor memory, once for
each 32 lanes.  There is one stage: the kernel is as short as possible, not fast.

    python examples/blackwell_scaled.py           run both formats on the simulator, and compare with float64
    python examples/blackwell_scaled.py --ptx     print the PTX for nvfp4
"""

import sys
from dataclasses import dataclass

import numpy as np

from pyptx import Layout, Tile, kernel, ptx, reg, smem, types
from pyptx.types import b32, f32, u8, u32

M = N = 128
ROW = 128  # bytes of a row in a stage: the width of the swizzle, and four products
ATOM = 512  # bytes of the scale factors of 128 rows, a word each


@dataclass(frozen=True)
class Format:
    kind: str
    element: object
    scale: object
    block: int  # numbers to a scale factor
    per_byte: int

    @property
    def words(self) -> int:  # of scale factors of a row in a stage
        return ROW * self.per_byte // self.block // 4


FORMATS = {
    "mxfp8": Format("kind::mxf8f6f4", types.e4m3, types.ue8m0, 32, 1),
    "nvfp4": Format("kind::mxf4nvf4", types.e2m1, types.ue4m3, 16, 2),
}


def pack_scales(factors: np.ndarray) -> np.ndarray:
    """Scale factors (128, blocks), as bytes, in the order of tcgen05.cp: of four blocks 32 lines of 16 bytes, in which rows
    r, r + 32, r + 64, r + 96 have a word each."""
    words = factors.reshape(4, 32, -1, 4)  # row / 32, row % 32, word, byte
    return np.ascontiguousarray(words.transpose(2, 1, 0, 3)).reshape(-1)


def build_scaled_tile(name: str, K: int):
    """K is a multiple of 128 (mxfp8) or 256 (nvfp4)."""
    form = FORMATS[name]
    row_bytes = K // form.per_byte
    scale_bytes = form.words * ATOM
    columns = 4 * form.words  # of tensor memory, for the scale factors of one matrix

    @kernel(
        in_specs=(
            Tile(M, row_bytes, u8, Layout.TMA_128B, tma_box=(M, ROW)),
            Tile(N, row_bytes, u8, Layout.TMA_128B, tma_box=(N, ROW)),
            Tile(row_bytes // ROW * scale_bytes, u8),
            Tile(row_bytes // ROW * scale_bytes, u8),
        ),
        out_specs=(Tile(M, N, f32),),
        block=(128, 1, 1),
        arch="sm_100a",
    )
    def scaled_tile(A, B, SA, SB, C):
        map_a, map_b = A.tma_desc(), B.tma_desc()
        psa, psb, pc = ptx.global_ptrs(SA, SB, C)
        for matrix, size in (("a", M * ROW), ("b", N * ROW), ("sa", scale_bytes), ("sb", scale_bytes)):
            smem.alloc(u8, (size,), align=1024, name=matrix)
        smem.alloc(u32, (1,), name="slot")
        full, done = smem.mbarrier(1), smem.mbarrier(1)
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp, leader = tid >> 5, tid == 0
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), 256)
            ptx.tcgen05.relinquish_alloc_permit()
        with ptx.if_(leader):
            ptx.mbarrier.init(full[0], 1)
            ptx.mbarrier.init(done[0], 1)
            ptx.fence.mbarrier_init()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        accumulator, phase = reg.scalar(b32), reg.scalar(u32, init=0)
        ptx.inst.ld.shared.b32(accumulator, ptx.addr(smem.base("slot")))
        scale_a, scale_b = accumulator + N, accumulator + (N + columns)

        vector = {"scale_vectorsize": "scale_vec::4X"} if form.block == 16 else {"scale_vectorsize": "scale_vec::1X"}
        for at in ptx.range_(0, row_bytes, ROW):
            with ptx.if_(leader):
                ptx.mbarrier.arrive_expect_tx(full[0], (M + N) * ROW + 2 * scale_bytes)
                ptx.tensor_copy.load(ptx.addr(smem.base("a")), map_a, (at, 0), full[0])
                ptx.tensor_copy.load(ptx.addr(smem.base("b")), map_b, (at, 0), full[0])
                for source, to in ((psa, "sa"), (psb, "sb")):
                    ptx.cp_async_bulk.load(
                        ptx.addr(smem.base(to)), ptx.addr(source + at * (scale_bytes // ROW)), scale_bytes, full[0]
                    )
                ptx.mbarrier.wait(full[0], phase)
                for word in range(form.words):
                    for to, source in ((scale_a, "sa"), (scale_b, "sb")):
                        lines = ptx.tcgen05.descriptor(
                            smem.base(source), byte_offset=word * ATOM, stride_bytes=128, swizzle="NONE"
                        )
                        ptx.tcgen05.cp(to + 4 * word, lines, size="32x128b", multicast="warpx4")
                for step in range(4):
                    word, byte = (step, 0) if form.words == 4 else (0, step)
                    kind = ptx.tcgen05.instruction_descriptor(
                        m=M, n=N, a_dtype=form.element, b_dtype=form.element, d_dtype=f32,
                        scale_dtype=form.scale, scale_a_id=byte, scale_b_id=byte,
                    )  # fmt: skip
                    from_a, from_b = (
                        ptx.tcgen05.descriptor(
                            smem.base(x), byte_offset=32 * step, stride_bytes=8 * ROW, swizzle="128B"
                        )
                        for x in "ab"
                    )
                    add = {"pred_operand": at != 0} if step == 0 else {"enable_input_d": True}
                    ptx.tcgen05.mma(
                        accumulator, from_a, from_b, reg.from_(kind, u32), kind=form.kind,
                        scale_vec_a=scale_a + 4 * word, scale_vec_b=scale_b + 4 * word, **vector, **add,
                    )  # fmt: skip
                ptx.tcgen05.commit(done[0])
            ptx.mbarrier.wait(done[0], phase)
            phase ^= 1
        ptx.tcgen05.fence_after_thread_sync()

        out = pc + tid * (N * 4)
        values = reg.array(b32, 32)
        for at in range(0, N, 32):
            ptx.tcgen05.ld([values[i] for i in range(32)], accumulator + (warp << 21) + at, shape="32x32b", count=32)
            ptx.tcgen05.wait_ld()
            for i in range(0, 32, 4):
                ptx.inst.st.global_.v4.b32(ptx.addr(out, 4 * (at + i)), [values[i + j] for j in range(4)])
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(accumulator, 256)
        ptx.ret()

    return scaled_tile


def numbers(codes: np.ndarray, exponent: int, mantissa: int, bias: int) -> np.ndarray:
    e, m = (codes >> mantissa & (1 << exponent) - 1).astype(int), codes & (1 << mantissa) - 1
    size = np.where(e == 0, m * 2.0 ** (1 - bias - mantissa), (1 + m * 2.0**-mantissa) * 2.0 ** (e - bias))
    return np.where(codes >> (exponent + mantissa) & 1, -size, size)


def random_operand(rng, name: str, K: int):
    """Bytes of a matrix, of its scale factors as the kernel takes them, and what the two are together."""
    form = FORMATS[name]
    if name == "mxfp8":
        data = rng.integers(0, 256, (M, K)).astype(np.uint8)
        data[data & 0x7F == 0x7F] = 0  # no NaN
        values, codes = numbers(data, 4, 3, 7), rng.integers(120, 135, (M, K // form.block)).astype(np.uint8)
        factors = 2.0 ** (codes.astype(int) - 127)
    else:
        data = rng.integers(0, 256, (M, K // 2)).astype(np.uint8)
        values = numbers(np.stack([data & 15, data >> 4], -1).reshape(M, K), 2, 1, 1)
        codes = rng.integers(0x20, 0x60, (M, K // form.block)).astype(np.uint8)
        factors = numbers(codes, 4, 3, 7)
    return data, pack_scales(codes), values * factors.repeat(form.block, axis=1)


def main() -> int:
    if "--ptx" in sys.argv:
        print(build_scaled_tile("nvfp4", 512).ptx(), end="")
        return 0
    rng, good = np.random.default_rng(0), True
    for name in FORMATS:
        for K in (256, 512):
            a, scale_a, left = random_operand(rng, name, K)
            b, scale_b, right = random_operand(rng, name, K)
            got, want = np.asarray(build_scaled_tile(name, K)(a, b, scale_a, scale_b)), left @ right.T
            error = np.linalg.norm(got - want) / np.linalg.norm(want)
            print(f"{name}, K = {K}: relative error {error:.1e}")
            good = good and error < 1e-6
    return not good


if __name__ == "__main__":
    sys.exit(main())
