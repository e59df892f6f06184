"""Softmax and its logarithm over a dimension that is not the last one, and their backward: X (L, N, W) over N, of columns that fit in the registers of a
CTA or of a cluster, which reads them once.

Lanes take neighbouring columns, and threads some elements of them, which stay in registers as they lie in memory.  A warp takes exponentials relative
to its largest elements; then the warps of a CTA agree on the largest ones, and add up their sums, and so do the CTAs of a cluster.
"""

import functools

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    apply,
    apply_to,
    beyond,
    constant,
    fma,
    log,
    move,
    mul,
    narrowed,
    neg,
    reciprocal,
    registers,
    sub,
    to_u64,
    wide_product,
    widened,
)
from pyptx.kernels._rows.shares import Share, agreed, among
from pyptx.kernels._rows.split import MULTIPROCESSORS, WARP, begin_early
from pyptx.kernels._rows.totals import LOWEST, below
from pyptx.kernels._rows.values import Identity
from pyptx.types import PtxType, f32, u32, u64

__all__ = ["share_of", "tile_softmax"]

VECTOR = 4  # columns of a thread at most
PACKED, PACKED_PAIRS = 40, 32  # registers of a thread that hold elements, and those of two tensors of 16 bits
MOST = 1024  # threads of a multiprocessor
# Bytes of a line of columns, below which memory is slower, and of tensors that L2 has for more and narrower CTAs.
NARROW, SMALL = 64, 2**22
# (threads of a CTA, CTAs of a cluster, lanes at least), the best first of those that fit
CUTS = (
    (128, 1, 1), (256, 1, 16), (512, 1, 16), (256, 1, 1), (512, 1, 1), (512, 2, 1), (512, 4, 1), (512, 8, 1), (1024, 8, 1), (1024, 1, 1),
)  # fmt: skip
FEW = 32  # elements, for which the smallest CTAs have threads
FULL = MULTIPROCESSORS * MOST * 3 // 4  # threads that fill a GPU


def share_of(matrices: int, n: int, columns: int, size: int, tensors: int, clusters: bool) -> tuple | None:
    """What makes a Share, for elements of `size` bytes of so many tensors that are read together: of the widest tiles that fill the GPU, or of the
    narrowest; None if none fits.  torch.compile traces this."""
    vector, lanes = VECTOR, WARP
    while columns % vector:
        vector //= 2
    while lanes > 1 and lanes // 2 * vector >= columns:
        lanes //= 2
    packed = PACKED_PAIRS if tensors > 1 and size == 2 else PACKED
    room = packed // (max(1, vector * size // 4) * tensors)  # elements of a thread
    narrow = NARROW if clusters and matrices * n * columns * size > SMALL else NARROW // 2
    narrow = min(lanes, max(1, narrow // (vector * size)))
    for threads, ctas, least in CUTS:
        if threads < 256 and n > FEW:
            continue
        found, wide = None, lanes
        while wide >= max(narrow, min(least, lanes)) and (clusters or ctas == 1):
            if threads // wide * ctas * room >= n:
                found = threads, wide, vector, ctas
                if matrices * ((columns + wide * vector - 1) // (wide * vector)) * threads * ctas >= FULL:
                    return found
            wide //= 2
        if found is not None and least == 1:
            return found
    return None


class Columns:
    """The columns of a thread and its elements of them."""

    def __init__(self, share: Share, n: int):
        self.share, self.n = share, n
        self.thread = reg.from_(ptx.special.tid.x(), u32)
        self.lane, self.group = self.thread & (share.lanes - 1), self.thread >> (share.lanes.bit_length() - 1)
        self.passes = 0  # over the elements, as `Identity` counts them
        cta, pitch = reg.from_(ptx.special.ctaid.x(), u32), ptx.param(u32, "W")
        if share.ctas > 1:
            rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
            self.group = self.group + rank * (share.threads // share.lanes)
            cta = cta >> (share.ctas.bit_length() - 1)
        outer, column, self.inside = share.place(cta, self.lane, pitch)
        above = beyond(to_u64(self.group), outer, n)
        self.first = apply_to(reg.scalar(u64), ptx.inst.mad.lo.u64, above, to_u64(pitch), to_u64(column))
        self.step = wide_product(pitch, share.groups)  # elements from one of the thread's to its next
        self.last = self.group < n - (share.each(n) - 1) * share.groups  # whether the thread has as many as others

    def guard(self, k: int, store: bool = False) -> dict:
        full = (k + 1) * self.share.groups <= self.n
        if store:
            return {"pred": self.inside if full else self.inside & self.last}
        return {} if full else {"pred": self.last}

    def places(self, tensor):
        """The addresses of the thread's elements."""
        (pointer,) = ptx.global_ptrs(tensor)
        size = tensor.dtype.bits // 8
        place, step = pointer + self.first * size, self.step * size
        for k in range(self.share.each(self.n)):
            yield k, place
            place = place + step

    def load(self, tensor) -> list:
        loaded, size = [], self.share.vector * tensor.dtype.bits // 8
        for k, place in self.places(tensor):
            guard = self.guard(k)
            loaded.append(registers(tensor.dtype, self.share.vector, **({"init": 0} if guard else {})))
            move(LOAD, place, 0, loaded[-1], size, **guard)
        return loaded

    def store(self, tensor, of_element):
        """Writes `of_element(k)`, the values of the k-th elements."""
        size = self.share.vector * tensor.dtype.bits // 8
        for k, place in self.places(tensor):
            move(STORE, place, 0, narrowed(of_element(k), tensor.dtype), size, **self.guard(k, store=True))


class Elements:
    """What a thread has of a tensor; `of(k)` widens its k-th elements, in each pass again."""

    def __init__(self, columns: Columns, tensor, again: Identity):
        self.columns, self.dtype, self.again = columns, tensor.dtype, again
        self.bits = columns.load(tensor)

    def of(self, k: int) -> list:
        bits = self.bits[k] if self.dtype == f32 else self.again(self.bits[k])
        return [value for each in bits for value in widened(each, self.dtype)]


def totals_of(columns: Columns, x: Elements, g: Elements | None = None, weighted: bool = True) -> list:
    """For each column of the thread: the largest x, the sum of e = exp(x - largest) and, if there is a gradient, the sum of g e, or of g if not `weighted`."""
    share, n = columns.share, columns.n
    largest = [constant(LOWEST) for _ in range(share.vector)]
    for k in range(share.each(n)):
        for top, value in zip(largest, x.of(k), strict=True):
            ptx.inst.max.NaN.f32(top, top, value, **columns.guard(k))
    for top in largest:
        among(top, ptx.inst.max.NaN.f32, share.lanes, WARP)
    columns.passes += 1
    sums = [[constant(0.0) for _ in range(share.vector)] for _ in range(2 if g else 1)]
    for k in range(share.each(n)):
        guard = columns.guard(k)
        e = [below(*each) for each in zip(x.of(k), largest, strict=True)]
        for total, each in zip(sums[0], e, strict=True):
            ptx.inst.add.f32(total, total, each, **guard)
        for total, each, pull in zip(sums[1], e, g.of(k), strict=True) if g else ():
            if weighted:
                ptx.inst.fma.rn.f32(total, each, pull, total, **guard)
            else:
                ptx.inst.add.f32(total, total, pull, **guard)
    for each in (value for some in sums for value in some):
        among(each, ptx.inst.add.f32, share.lanes, WARP)
    found = agreed(share, columns.thread, largest, sums, weighted=2 if weighted else 1)
    columns.passes += 1
    return found


@functools.cache
def tile_softmax(dtype: PtxType, share: Share, logarithm: bool, hopper: bool, backward: bool):
    """The kernel X -> Y, or X, G -> DX, for N of which the share has all elements."""
    tile = Tile("L", "N", "W", dtype, align=16)
    told = {
        "out_specs": (tile,),
        "raw_params": [("u32", "W")],
        "grid": lambda L, W: (L * -(-W // share.columns) * share.ctas, 1, 1),
        "block": (share.threads, 1, 1),
        "cluster": (share.ctas, 1, 1),
        "raw_directives": (("minnctapersm", (MOST // share.threads,)),),
        "batch": "L",
        "reqntid": True,
        "dependent_launch": hopper,
        "arch": "sm_90" if hopper else "sm_80",
    }

    def begin(*tensors):
        begin_early(hopper)
        columns = Columns(share, tensors[0].shape[1])
        again = Identity(columns, columns.thread)
        return columns, *(Elements(columns, tensor, again) for tensor in tensors)

    def of_columns(function, *lists):
        return [function(*each) for each in zip(*lists, strict=True)]

    def end():
        if share.ctas > 1:
            ptx.cluster.wait()  # others may still read this CTA's memory
        ptx.ret()

    @kernel(in_specs=(tile,), **told)
    def tile_softmax(X, Y):
        columns, x = begin(X)
        largest, total = totals_of(columns, x)
        if logarithm:
            factors = of_columns(log, total)
            value = lambda x, top, factor: sub(sub(x, top), factor)  # noqa: E731
        else:
            factors = of_columns(reciprocal, total)
            value = lambda x, top, factor: mul(below(x, top), factor)  # noqa: E731
        columns.store(Y, lambda k: of_columns(value, x.of(k), largest, factors))
        end()

    @kernel(in_specs=(tile, tile), **told)
    def tile_softmax_backward(X, G, DX):
        columns, x, g = begin(X, G)
        largest, total, sums = totals_of(columns, x, g, weighted=not logarithm)
        factors = of_columns(reciprocal, total)
        pulls = of_columns(lambda each, r: neg(mul(each, r)), sums, factors)

        def value(x, g, top, factor, pull):
            e = below(x, top)
            if logarithm:
                return fma(e, pull, g)
            e = mul(e, factor)
            return mul(e, apply(ptx.inst.add.f32, g, pull))

        columns.store(DX, lambda k: of_columns(value, x.of(k), g.of(k), largest, factors, pulls))
        end()

    return tile_softmax_backward if backward else tile_softmax
