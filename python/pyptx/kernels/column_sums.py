"""Sums over the rows of a matrix, for gradients of what all rows share.

A CTA takes some columns, and its groups of threads every so many rows, all of whose loads are in flight at once; one group adds their
sums.  The order is fixed.
"""

import functools

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx._core import PtxType
from pyptx.kernel import Kernel
from pyptx.kernels._registers import apply, apply_to, narrowed, tree
from pyptx.types import f32, pred, u32, u64

__all__ = ["column_sums"]

THREADS, UNROLL = 1024, 8


def lanes(n: int) -> int:
    """Columns of a CTA: a line of memory, or a sector where there are few."""
    return 32 if n >= 4096 else 8


def both(p, q):
    result = reg.scalar(pred)
    ptx.inst.and_.pred(result, p, q)
    return result


@functools.cache
def column_sums(dtype: PtxType, hopper: bool = False) -> Kernel:
    """The kernel that makes a vector of `dtype` of a matrix ("P", "N") of f32; `hopper`: that may begin while the one before ends."""

    @kernel(
        in_specs=(Tile("P", "N", f32),), out_specs=(Tile("N", dtype),), raw_params=[("u32", "P"), ("u32", "N")],
        grid=lambda N: (-(-N // lanes(N)), 1, 1), block=(THREADS, 1, 1), dependent_launch=hopper, arch="sm_90" if hopper else "sm_80",
    )  # fmt: skip
    def column_sums(X, Y):
        if hopper:
            ptx.griddepcontrol.wait()
            ptx.griddepcontrol.launch_dependents()
        wide = lanes(X.shape[1])
        groups = THREADS // wide
        px, py = ptx.global_ptrs(X, Y)
        rows, n = ptx.param(u32, "P"), ptx.param(u32, "N")
        thread = reg.from_(ptx.special.tid.x(), u32)
        lane, group = thread & (wide - 1), thread >> (wide.bit_length() - 1)
        column = reg.from_(ptx.special.ctaid.x(), u32) * wide + lane
        inside = column < n
        px += column * 4
        chains = [reg.scalar(f32, init=0.0) for _ in range(UNROLL)]
        for row in ptx.range_(group, rows, groups * UNROLL):
            values = []
            for k in range(UNROLL):
                here = row + k * groups
                values.append(reg.scalar(f32, init=0.0))
                at = apply_to(reg.scalar(u64), ptx.inst.mad.wide.u32, here, n * 4, px)
                ptx.inst.ld.global_.nc.f32(values[-1], ptx.addr(at), pred=both(inside, here < rows))
            for chain, value in zip(chains, values, strict=True):
                ptx.inst.add.f32(chain, chain, value)
        sums = smem.alloc(f32, (THREADS,))
        base = reg.scalar(u32)
        ptx.inst.mov.u32(base, sums.name)
        slot = base + thread * 4
        ptx.inst.st.shared.f32(ptx.addr(slot), tree(chains, ptx.inst.add.f32))
        ptx.bar.sync(0)
        with ptx.if_(thread < 32 * wide):  # of 32 groups
            parts = [apply(ptx.inst.ld.shared.f32, ptx.addr(slot, k * 32 * wide * 4)) for k in range(groups // 32)]
            ptx.inst.st.shared.f32(ptx.addr(slot), tree(parts, ptx.inst.add.f32))
        ptx.bar.sync(0)
        with ptx.if_(both(inside, group == 0)):
            parts = [apply(ptx.inst.ld.shared.f32, ptx.addr(slot, g * wide * 4)) for g in range(32)]
            (result,) = narrowed([tree(parts, ptx.inst.add.f32)], dtype)
            store = ptx.inst.st.global_.b32 if dtype == f32 else ptx.inst.st.global_.b16
            store(ptx.addr(py + column * (dtype.bits // 8)), result)
        ptx.ret()

    return column_sums
