"""Rows copied to rows of another pitch: of a matrix that TMA cannot address to one that it can, and of a result back."""

import functools

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._registers import LOAD, STORE, move, registers, wide_product
from pyptx.types import PtxType, u32

__all__ = ["pitched_kernel"]

WARPS, AT_ONCE = 8, 8  # of a CTA, a row each; elements of a lane that are loaded before the first is stored
CHUNK = 32 * AT_ONCE * 4  # columns of a warp


@functools.cache
def pitched_kernel(dtype: PtxType):
    """The kernel X (R, C) -> Y (R, P), which copies the columns that both have and leaves others of Y as they are."""
    size = dtype.bits // 8

    def pitched(X, Y):
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
        rows, columns, pitch = (ptx.param(u32, name) for name in "RCP")
        source, to = ptx.global_ptrs(X, Y)
        thread = reg.from_(ptx.special.tid.x(), u32)
        row = reg.from_(ptx.special.ctaid.x(), u32) * WARPS + (thread >> 5)
        first = reg.from_(ptx.special.ctaid.y(), u32) * CHUNK
        behind = reg.scalar(u32)
        ptx.inst.min.u32(behind, columns, pitch)
        ptx.inst.min.u32(behind, behind, first + CHUNK)
        ptx.ret(pred=row >= rows)
        source, to = line(source, row, columns, size), line(to, row, pitch, size)
        for column in ptx.range_(first + (thread & 31), behind, 32 * AT_ONCE):
            loaded = [registers(dtype, 1) for _ in range(AT_ONCE)]
            at = wide_product(column, size)
            for i, value in enumerate(loaded):
                move(LOAD, source + at, 32 * i * size, value, size, pred=column + 32 * i < behind)
            for i, value in enumerate(loaded):
                move(STORE, to + at, 32 * i * size, value, size, pred=column + 32 * i < behind)
        ptx.ret()

    return kernel(
        in_specs=(Tile("R", "C", dtype),),
        out_specs=(Tile("R", "P", dtype, whole=False),),
        raw_params=[("u32", name) for name in "RCP"],
        grid=lambda R, C, P: (-(-R // WARPS), -(-min(C, P) // CHUNK), 1),
        block=(32 * WARPS, 1, 1),
        dependent_launch=True,
        arch="sm_90",
    )(pitched)


def line(pointer, row, pitch, size: int):
    return pointer + wide_product(row, pitch) * size
