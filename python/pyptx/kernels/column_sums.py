"""Sums over the rows of a matrix, for gradients of what all rows share.

32 columns a CTA; its eight warps take every eighth row, and the first warp adds their sums.  The order is fixed.
"""

import functools

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx._core import PtxType
from pyptx.kernel import Kernel
from pyptx.kernels._rows import apply, narrowed, tree
from pyptx.types import f32, pred, u32

__all__ = ["column_sums"]

LANES, WARPS, UNROLL = 32, 8, 4


def both(p, q):
    result = reg.scalar(pred)
    ptx.inst.and_.pred(result, p, q)
    return result


@functools.cache
def column_sums(dtype: PtxType) -> Kernel:
    """The kernel that makes a vector of `dtype` of a matrix ("P", "N") of f32."""

    @kernel(
        in_specs=(Tile("P", "N", f32),), out_specs=(Tile("N", dtype),), raw_params=[("u32", "P"), ("u32", "N")],
        grid=lambda N: (-(-N // LANES), 1, 1), block=(LANES * WARPS, 1, 1), arch="sm_80",
    )  # fmt: skip
    def column_sums(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        rows, n = ptx.param(u32, "P"), ptx.param(u32, "N")
        thread = reg.from_(ptx.special.tid.x(), u32)
        lane, warp = thread & (LANES - 1), thread >> 5
        column = reg.from_(ptx.special.ctaid.x(), u32) * LANES + lane
        inside = column < n
        px += column * 4
        chains = [reg.scalar(f32, init=0.0) for _ in range(UNROLL)]
        for row in ptx.range_(warp, rows, WARPS * UNROLL):
            for k, chain in enumerate(chains):
                here = row + k * WARPS
                there = both(inside, here < rows)
                value = reg.scalar(f32, init=0.0)
                ptx.inst.ld.global_.nc.f32(value, ptx.addr(px + here * (n * 4)), pred=there)
                ptx.inst.add.f32(chain, chain, value)
        sums = smem.alloc(f32, (WARPS, LANES))
        base = reg.scalar(u32)
        ptx.inst.mov.u32(base, sums.name)
        ptx.inst.st.shared.f32(ptx.addr(base + thread * 4), tree(chains, ptx.inst.add.f32))
        ptx.bar.sync(0)
        with ptx.if_(both(inside, warp == 0)):
            parts = [apply(ptx.inst.ld.shared.f32, ptx.addr(base + lane * 4, w * LANES * 4)) for w in range(WARPS)]
            (result,) = narrowed([tree(parts, ptx.inst.add.f32)], dtype)
            store = ptx.inst.st.global_.b32 if dtype == f32 else ptx.inst.st.global_.b16
            store(ptx.addr(py + column * (dtype.bits // 8)), result)
        ptx.ret()

    return column_sums
