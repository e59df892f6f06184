"""Sums over the rows of a matrix, or of two matrices in one launch: gradients of weights and biases.

A CTA takes some columns.  Its groups of threads take the rows in turn, some rows each at a time, whose loads are in flight together;
then threads add up the sums of all groups.  The order is fixed, so the same inputs give the same bits.
"""

import functools

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx._core import PtxType
from pyptx.kernel import Kernel
from pyptx.kernels._registers import apply, beyond, narrowed, smem_address, tree
from pyptx.kernels._rows.split import begin_early
from pyptx.types import b64, f32, pred, u32

__all__ = ["column_sums"]


class Cut:
    """How a CTA's threads share its columns: each has `vector` neighbours, `lanes` threads lie side by side, and there are `groups` of those.  All
    threads of `count` matrices are resident at one time, and each has some four rows: of long ones there are few, one for each cluster of an H200.
    Of `small` matrices there are few rows to add up, and CTAs of few threads find room beside the kernel before."""

    def __init__(self, n: int, count: int, small: bool):
        self.unroll = 4 if n >= 65536 and n % 4 == 0 else 8  # rows that a group loads together
        self.vector = 4 if n % 4 == 0 and not small else 1
        if self.vector == 4:
            self.lanes = 8 if n < 16384 else 32 if n < 65536 else 64  # they load a line of memory or more
            self.threads = 256 if 32768 <= n < 65536 else 1024 if n * count <= 4096 else 512
        else:
            self.lanes = 32 if n >= 4096 else 8  # or a sector, if there are few columns
            self.threads = 1024 if not small else 256 if n < 4096 else 512
        self.groups, self.columns = self.threads // self.lanes, self.lanes * self.vector


def both(p, q):
    result = reg.scalar(pred)
    ptx.inst.and_.pred(result, p, q)
    return result


@functools.cache
def column_sums(*dtypes: PtxType, hopper: bool = False, small: bool = False) -> Kernel:
    """The kernel that sums matrices ("P", "N") of f32 to vectors, one matrix for each of `dtypes`, which are the types of the vectors.  `hopper`: it
    runs on GPUs since Hopper, and may begin while the kernel before it ends.  `small`: as `Cut` says."""

    def body(*tensors):
        begin_early(hopper)
        count = len(tensors) // 2
        cut = Cut(tensors[0].shape[1], count, small)
        memory = smem.alloc(f32, (cut.threads * cut.vector,), align=16)
        for which, (x, y) in enumerate(zip(tensors[:count], tensors[count:], strict=True)):
            with ptx.if_(reg.from_(ptx.special.ctaid.y(), u32) == which):
                add_up(x, y, cut, smem_address(memory))
        ptx.ret()

    if len(dtypes) == 1:

        def column_sums(X, Y):
            body(X, Y)
    else:

        def column_sums(X, X2, Y, Y2):
            body(X, X2, Y, Y2)

    return kernel(
        in_specs=tuple(Tile("P", "N", f32, align=16) for _ in dtypes),
        out_specs=tuple(Tile("N", dtype) for dtype in dtypes),
        raw_params=[("u32", "P"), ("u32", "N")],
        grid=lambda N: (-(-N // Cut(N, len(dtypes), small).columns), len(dtypes), 1),
        block=lambda N: (Cut(N, len(dtypes), small).threads, 1, 1),
        dependent_launch=hopper,
        arch="sm_90" if hopper else "sm_80",
    )(column_sums)


def add_up(X, Y, cut: Cut, base):
    """Writes the instructions that sum one matrix X to the vector Y, with shared memory at `base`."""
    rows, n = ptx.param(u32, "P"), ptx.param(u32, "N")
    px, py = ptx.global_ptrs(X, Y)
    thread = reg.from_(ptx.special.tid.x(), u32)
    lane, group = thread & (cut.lanes - 1), thread >> (cut.lanes.bit_length() - 1)
    start = reg.from_(ptx.special.ctaid.x(), u32) * cut.columns
    column = start + lane * cut.vector
    inside = column < n
    px += column * 4
    sums = [reg.scalar(f32, init=0.0) for _ in range(cut.vector)]
    policy = reg.scalar(b64)  # of what stays in L2 so far: nobody reads it again
    ptx.inst.createpolicy.fractional.L2__evict_first.b64(policy)
    for row in ptx.range_(group, rows, cut.groups * cut.unroll):
        values = []
        for k in range(cut.unroll):
            here = row + k * cut.groups
            values.append([reg.scalar(f32, init=0.0) for _ in range(cut.vector)])
            at = ptx.addr(beyond(px, here, n * 4))
            there = both(inside, here < rows)
            load = ptx.inst.ld.global_.nc.L2__cache_hint
            if cut.vector == 4:
                load.v4.f32(values[-1], at, policy, pred=there)
            else:
                load.f32(values[-1][0], at, policy, pred=there)
        for total, column_values in zip(sums, zip(*values, strict=True), strict=True):
            ptx.inst.add.f32(total, total, tree(column_values, ptx.inst.add.f32))
    slot = base + thread * (4 * cut.vector)
    if cut.vector == 4:
        ptx.inst.st.shared.v4.f32(ptx.addr(slot), sums)
    else:
        ptx.inst.st.shared.f32(ptx.addr(slot), sums[0])
    ptx.bar.sync(0)
    pitch, groups, mine = cut.columns * 4, cut.groups, base + thread * 4
    some = min(32, cut.threads // cut.columns)
    if groups > some:  # first to the sums of as many groups as there are threads for
        with ptx.if_(thread < some * cut.columns):
            parts = [apply(ptx.inst.ld.shared.f32, ptx.addr(mine, k * some * pitch)) for k in range(groups // some)]
            ptx.inst.st.shared.f32(ptx.addr(mine), tree(parts, ptx.inst.add.f32))
        ptx.bar.sync(0)
        groups = some
    column = start + thread
    with ptx.if_(both(thread < cut.columns, column < n)):
        parts = [apply(ptx.inst.ld.shared.f32, ptx.addr(mine, g * pitch)) for g in range(groups)]
        (result,) = narrowed([tree(parts, ptx.inst.add.f32)], Y.dtype)
        store = ptx.inst.st.global_.b32 if Y.dtype == f32 else ptx.inst.st.global_.b16
        store(ptx.addr(py + column * (Y.dtype.bits // 8)), result)
