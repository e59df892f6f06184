"""The kernel that the tests of exported kernels launch."""

from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32


@kernel(
    in_specs=(Tile("B", "N", f32),),
    out_specs=(Tile("B", "N", f32, align=16),),
    raw_params=[("u32", "N"), ("f32", "alpha"), ("u32", "times")],
    grid=lambda B, N: (min(B, 132), -(-N // 64)),
    block=(64, 1, 1),
    arch="sm_80",
)
def scales(X, Y, *, factor=1):
    """Y = X * alpha * times * factor, of the first 132 rows."""
    px, py = ptx.global_ptrs(X, Y)
    column = reg.from_(ptx.special.ctaid.y(), u32) * 64 + reg.from_(ptx.special.tid.x(), u32)
    width = ptx.param(u32, "N")
    at = (reg.from_(ptx.special.ctaid.x(), u32) * width + column) * 4
    value, count = reg.scalar(f32), reg.scalar(f32)
    with ptx.if_(column < width):
        ptx.inst.ld.global_.f32(value, ptx.addr(px + at))
        ptx.inst.mul.f32(value, value, ptx.param(f32, "alpha"))
        ptx.inst.cvt.rn.f32.u32(count, ptx.param(u32, "times"))
        ptx.inst.mul.f32(value, value, count)
        ptx.inst.mul.f32(value, value, float(factor))
        ptx.inst.st.global_.f32(ptx.addr(py + at), value)
    ptx.ret()
