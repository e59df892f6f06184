"""Kernels that a program without Python launches: see CMakeLists.txt and main.c beside it, and docs/export.md."""

from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32


@kernel(
    in_specs=(Tile("N", f32),),
    out_specs=(Tile("N", f32),),
    raw_params=[("u32", "N"), ("f32", "alpha")],
    grid=lambda N: ((N + 127) // 128, 1, 1),
    block=(128, 1, 1),
    arch="sm_80",
)
def scale(X, Y):
    """Y = alpha * X."""
    px, py = ptx.global_ptrs(X, Y)
    i = reg.from_(ptx.special.ctaid.x(), u32) * 128 + reg.from_(ptx.special.tid.x(), u32)
    with ptx.if_(i < ptx.param(u32, "N")):
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + i * 4))
        ptx.inst.mul.f32(value, value, ptx.param(f32, "alpha"))
        ptx.inst.st.global_.f32(ptx.addr(py + i * 4), value)
    ptx.ret()
