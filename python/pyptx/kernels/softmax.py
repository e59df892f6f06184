"""Softmax over the rows of a matrix, one warp a row: exp(x - max) / sum(exp(x - max)).

A row whose largest element is infinite has no softmax: it becomes NaN, as in torch.
"""

import math

from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32

__all__ = ["softmax"]

WARP = 32
LOG2_E = math.log2(math.e)


@kernel(
    in_specs=(Tile("M", "N", f32),), out_specs=(Tile("M", "N", f32),), raw_params=[("u32", "N")],
    grid=lambda M: (M, 1, 1), block=(WARP, 1, 1), arch="sm_75", batch="M",
)  # fmt: skip
def softmax(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    n = ptx.param(u32, "N")
    lane = reg.from_(ptx.special.tid.x(), u32)
    row = reg.from_(ptx.special.ctaid.x(), u32) * (n * 4)
    px += row
    py += row

    x = reg.scalar(f32)
    largest = reg.scalar(f32, init=-math.inf)
    for i in ptx.range_(lane, n, WARP):
        ptx.inst.ld.global_.f32(x, ptx.addr(px + i * 4))
        ptx.inst.max.f32(largest, largest, x)
    ptx.warp.reduce_max(largest)

    def exponential():
        ptx.inst.sub.f32(x, x, largest)
        ptx.inst.mul.f32(x, x, LOG2_E)
        ptx.inst.ex2.approx.f32(x, x)

    total = reg.scalar(f32, init=0.0)
    for i in ptx.range_(lane, n, WARP):
        ptx.inst.ld.global_.f32(x, ptx.addr(px + i * 4))
        exponential()
        ptx.inst.add.f32(total, total, x)
    ptx.warp.reduce_sum(total)

    for i in ptx.range_(lane, n, WARP):
        ptx.inst.ld.global_.f32(x, ptx.addr(px + i * 4))
        exponential()
        ptx.inst.div.rn.f32(x, x, total)
        ptx.inst.st.global_.f32(ptx.addr(py + i * 4), x)
    ptx.ret()
