"""Softmax and its logarithm over a dimension that is not the last one, and their backward: X (L, N, W) over N, without a copy.

A warp takes neighbouring columns of W, 16 bytes for each thread, and every WARPS-th element of N, so that its loads lie side by side.
Each thread keeps, for its columns, the largest value so far and a sum relative to it; then the warps of a CTA combine theirs, and X is
read once more.
"""

import functools

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    add,
    apply,
    apply_to,
    beyond,
    constant,
    exp,
    fma,
    log,
    move,
    mul,
    narrowed,
    neg,
    reciprocal,
    registers,
    smem_address,
    sub,
    to_u64,
    tree,
    wide_product,
    widened,
)  # fmt: skip
from pyptx.kernels._rows.split import begin_early
from pyptx.kernels._rows.totals import LOWEST
from pyptx.types import PtxType, bf16, f32, pred, u32, u64

__all__ = ["LANES", "column_softmax"]

WARPS, LANES, UNROLL = 8, 32, 4
NOTHING = {f32: 0xFF800000, bf16: 0xFF80FF80}  # the bits of minus infinity; those of f16 are the default


class Columns:
    """The columns of a thread: `vector` neighbours of W, in one of the L matrices."""

    def __init__(self, vector: int):
        self.vector, self.n, self.pitch = vector, ptx.param(u32, "N"), ptx.param(u32, "W")
        thread, cta = (reg.from_(each, u32) for each in (ptx.special.tid.x(), ptx.special.ctaid.x()))
        self.lane, self.warp = thread & (LANES - 1), thread >> 5
        tiles = apply_to(reg.scalar(u32), ptx.inst.div.u32, self.pitch + (LANES * vector - 1), LANES * vector)
        outer = apply_to(reg.scalar(u32), ptx.inst.div.u32, cta, tiles)
        column = ((cta - outer * tiles) * LANES + self.lane) * vector
        self.inside = column < self.pitch
        first = wide_product(outer, self.n)
        wide = to_u64(self.pitch)
        self.first = apply_to(reg.scalar(u64), ptx.inst.mad.lo.u64, first, wide, to_u64(column))

    def each(self, *tensors):
        """A loop over N, UNROLL elements at a time: yields (predicates, addresses in elements, values of each tensor)."""
        for n in ptx.range_(self.warp, self.n, WARPS * UNROLL):
            guards, places, values = [], [], [[] for _ in tensors]
            for i in range(UNROLL):
                here = n + WARPS * i if i else n
                guards.append(apply_to(reg.scalar(pred), ptx.inst.and_.pred, here < self.n, self.inside))
                places.append(beyond(self.first, here, self.pitch))
                for tensor, into in zip(tensors, values, strict=True):
                    into.append(self.load(tensor, places[-1], guards[-1]))
            yield (
                guards,
                places,
                *(
                    [[v for bits in each for v in widened(bits, tensor.dtype)] for each in into]
                    for tensor, into in zip(tensors, values, strict=True)
                ),
            )

    def load(self, tensor, place, guard) -> list:
        bits = registers(tensor.dtype, self.vector, init=0)
        for each in bits:
            whole = NOTHING.get(tensor.dtype, 0xFC00FC00)
            (ptx.inst.mov.b32 if each.dtype.bits == 32 else ptx.inst.mov.b16)(
                each, whole if each.dtype.bits == 32 else whole & 0xFFFF
            )
        self.move(LOAD, tensor, place, bits, guard)
        return bits

    def move(self, instruction, tensor, place, bits, guard):
        (pointer,) = ptx.global_ptrs(tensor)
        size = tensor.dtype.bits // 8
        move(instruction, pointer + place * size, 0, bits, self.vector * size, pred=guard)

    def agree(self, largest, *sums, weighted: bool):
        """The largest value of all warps, and their sums relative to it.  The first sum is always one of exponentials; the others are if
        `weighted`, otherwise they are just added up."""
        width = LANES * self.vector * 4
        memory = smem_address(smem.alloc(f32, (1 + len(sums), WARPS, LANES * self.vector), align=16))
        mine = memory + (self.warp * LANES + self.lane) * (self.vector * 4)
        for number, each in enumerate((largest, *sums)):
            for j, value in enumerate(each):
                ptx.inst.st.shared.f32(ptx.addr(mine, number * WARPS * width + 4 * j), value)
        ptx.bar.sync(0)
        column = memory + self.lane * (self.vector * 4)
        found = [[] for _ in range(1 + len(sums))]
        for j in range(self.vector):
            parts = [
                [
                    apply(ptx.inst.ld.shared.f32, ptx.addr(column, (number * WARPS + warp) * width + 4 * j))
                    for warp in range(WARPS)
                ]
                for number in range(1 + len(sums))
            ]
            top = tree([apply(ptx.inst.mov.f32, each) for each in parts[0]], ptx.inst.max.NaN.f32)
            factors = [exp(sub(each, top)) for each in parts[0]]
            found[0].append(top)
            for number, (into, part) in enumerate(zip(found[1:], parts[1:], strict=True)):
                if weighted or number == 0:
                    part = [mul(each, factor) for each, factor in zip(part, factors, strict=True)]
                into.append(tree(part, ptx.inst.add.f32))
        return found


def sums_of(columns: Columns, X, *G, weighted: bool = True):
    """For each column of the thread: the largest x, the sum of e = exp(x - largest) and, if there is a gradient G, the sum of g e, or of g
    if not `weighted`."""
    vector = columns.vector
    largest = [constant(LOWEST) for _ in range(vector)]
    sums = [[constant(0.0) for _ in range(vector)] for _ in range(1 + len(G))]
    for guards, _, x, *g in columns.each(X, *G):
        for j in range(vector):
            before = apply(ptx.inst.mov.f32, largest[j])
            for each in x:
                ptx.inst.max.NaN.f32(largest[j], largest[j], each[j])
            scale = exp(sub(before, largest[j]))
            for total in sums if weighted else sums[:1]:
                ptx.inst.mul.rn.f32(total[j], total[j], scale)
            for i, each in enumerate(x):
                e = exp(sub(each[j], largest[j]))
                ptx.inst.add.f32(sums[0][j], sums[0][j], e)
                if G and not weighted:
                    ptx.inst.add.f32(sums[1][j], sums[1][j], g[0][i][j], pred=guards[i])
                elif G:
                    ptx.inst.fma.rn.f32(sums[1][j], e, g[0][i][j], sums[1][j], pred=guards[i])
    return columns.agree(largest, *sums, weighted=weighted)


@functools.cache
def column_softmax(dtype: PtxType, vector: int, logarithm: bool = False, hopper: bool = False):
    """The kernel X (L, N, W) -> Y and its backward, for W that is a multiple of `vector`."""
    tile = Tile("L", "N", "W", dtype)
    told = {
        "raw_params": [("u32", "N"), ("u32", "W")],
        "grid": lambda L, W: (L * (-(-W // (LANES * vector))), 1, 1),
        "block": (LANES * WARPS, 1, 1),
        "batch": "L",
        "reqntid": True,
        "dependent_launch": hopper,
        "arch": "sm_90" if hopper else "sm_80",
    }

    def begin():
        begin_early(hopper)
        return Columns(vector)

    @kernel(in_specs=(tile,), out_specs=(tile,), **told)
    def column_softmax(X, Y):
        columns = begin()
        largest, total = sums_of(columns, X)
        factors = [log(each) if logarithm else reciprocal(each) for each in total]

        def value(x, largest, factor):
            c = sub(x, largest)
            return sub(c, factor) if logarithm else mul(exp(c), factor)

        for guards, places, x in columns.each(X):
            for guard, place, each in zip(guards, places, x, strict=True):
                values = [value(*of_one) for of_one in zip(each, largest, factors, strict=True)]
                columns.move(STORE, Y, place, narrowed(values, dtype), guard)
        ptx.ret()

    @kernel(in_specs=(tile, tile), out_specs=(tile,), **told)
    def column_softmax_backward(X, G, DX):
        columns = begin()
        largest, total, sums = sums_of(columns, X, G, weighted=not logarithm)
        factors = [reciprocal(each) for each in total]
        pulls = [neg(mul(each, r)) for each, r in zip(sums, factors, strict=True)]

        def value(x, g, largest, factor, pull):
            e = exp(sub(x, largest))
            return fma(e, pull, g) if logarithm else mul(mul(e, factor), add(g, pull))

        for guards, places, x, g in columns.each(X, G):
            for guard, place, *each in zip(guards, places, x, g, strict=True):
                values = [value(*of_one) for of_one in zip(*each, largest, factors, pulls, strict=True)]
                columns.move(STORE, DX, place, narrowed(values, dtype), guard)
        ptx.ret()

    return column_softmax, column_softmax_backward
