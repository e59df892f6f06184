"""Cross entropy where the classes are not the last dimension, against indices: X (L, N, W) over N, T (L, W), as it lies.

A thread has some neighbouring columns of W, 16 bytes of each class, and goes over all classes; where there are few columns, groups of threads share the
classes, and each takes every G-th of them.  The forward reads X once: for each column a thread keeps the largest value so far and a sum relative to it,
which the backward takes from memory.  The formulas are those of cross_entropy.py.
"""

import math

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._registers import (
    STORE,
    add,
    apply,
    beyond,
    constant,
    copied,
    element,
    exp,
    fetched,
    fma,
    log,
    move,
    mul,
    narrowed,
    neg,
    reciprocal,
    sub,
    tree,
)
from pyptx.kernels._rows.agreement import Agreement
from pyptx.kernels._rows.columns import Columns, ctas_of, share_of_groups
from pyptx.kernels._rows.losses import ONE, PARTS, Parts, finish, finite, index_at, of_weights
from pyptx.kernels._rows.losses import THREADS as ADDING
from pyptx.kernels._rows.shares import agreed, among
from pyptx.kernels._rows.split import WARP, Split, begin_early
from pyptx.kernels._rows.totals import LOWEST, below
from pyptx.types import f32, pred, u32

__all__ = ["make_column_losses", "make_column_parts", "make_reduced_columns"]

COLUMNS = Tile("L", "W", f32, align=16)


class Targets:
    """The true class of each column: whether it is `ignored`, whether it is one of the classes, and its number, 2^32 - 1 for no class."""

    def __init__(self, columns: Columns, T, ignore_index: int):
        place, size = columns.of_columns(T), T.dtype.bits // 8
        indices = [index_at(T.dtype, ptx.addr(place, j * size)) for j in range(columns.vector)]
        self.ignored, self.inside, self.numbers = [], [], []
        for index in indices:
            ignored, inside, number = reg.scalar(pred), reg.scalar(pred), reg.scalar(u32)
            ptx.inst.setp.eq.s64(ignored, index, ignore_index)
            ptx.inst.setp.lt.u64(inside, index, columns.n)
            ptx.inst.cvt.u32.u64(number, index)
            ptx.inst.selp.b32(number, number, 0xFFFFFFFF, inside)
            for into, each in ((self.ignored, ignored), (self.inside, inside), (self.numbers, number)):
                into.append(each)

    def weights(self, WEIGHT) -> list:
        """The weights of the true classes; 0 for no class."""
        return [
            element(fetched(WEIGHT.dtype, ptx.addr(place_of(WEIGHT, number)), pred=inside), WEIGHT.dtype)
            for number, inside in zip(self.numbers, self.inside, strict=True)
        ]


def place_of(WEIGHT, number):
    (pointer,) = ptx.global_ptrs(WEIGHT)
    return beyond(pointer, number, WEIGHT.dtype.bits // 8)


def of_groups(columns: Columns, largest: list, total: list, *sums: list) -> list:
    """What all groups have together: the largest elements, the sums of exponentials relative to them, and other sums."""
    lanes, tops = columns.share.lanes, [copied(each) for each in largest]
    for each in tops:
        among(each, ptx.inst.max.NaN.f32, lanes, WARP)
    total = [mul(each, below(own, top)) for each, own, top in zip(total, largest, tops, strict=True)]
    sums = [total, *([copied(each) for each in some] for some in sums)]
    for each in (value for some in sums for value in some):
        among(each, ptx.inst.add.f32, lanes, WARP)
    return agreed(columns.share, columns.thread, tops, sums, weighted=1)


def weight_of(WEIGHT, number, **guard):
    """The weight of a class, a register or an integer."""
    if isinstance(number, int):
        (pointer,) = ptx.global_ptrs(WEIGHT)
        where = ptx.addr(pointer, number * WEIGHT.dtype.bits // 8)
    else:
        where = ptx.addr(place_of(WEIGHT, number))
    return element(fetched(WEIGHT.dtype, where, **guard), WEIGHT.dtype)


def losses_of(columns: Columns, T, WEIGHT, ignore_index: int, smoothing: float):
    """(the losses of the thread's columns, what each weighs in the mean, their largest elements, their sums of exponentials)."""
    X, vector = columns.X, columns.vector
    largest, total = ([constant(value) for _ in range(vector)] for value in (LOWEST, 0.0))
    pulled, weights = [constant(0.0) for _ in range(vector)], constant(0.0)
    middle = [finite(each) for each in columns.row_of_all()] if smoothing else []

    def batch(number, count):
        x = columns.loaded(number, count)
        for j in range(vector):
            before = copied(largest[j])
            for each in x:
                ptx.inst.max.NaN.f32(largest[j], largest[j], each[j])
            ptx.inst.mul.rn.f32(total[j], total[j], exp(sub(before, largest[j])))
            ptx.inst.add.f32(total[j], total[j], tree([below(each[j], largest[j]) for each in x], ptx.inst.add.f32))
        for i, each in enumerate(x) if smoothing else ():
            guard = columns.guard(number, i)
            w = weight_of(WEIGHT, columns.row(number, i), **guard) if WEIGHT else constant(1.0)
            ptx.inst.add.f32(weights, weights, w, **guard)
            for j in range(vector):
                ptx.inst.fma.rn.f32(pulled[j], w, sub(each[j], middle[j]), pulled[j], **guard)

    columns.batches(batch)
    if columns.groups > 1:
        largest, total, *more = of_groups(columns, largest, total, *([pulled, [weights] * vector] if smoothing else []))
        if smoothing:
            pulled, (weights, *_) = more
    targets, losses, counted = Targets(columns, T, ignore_index), [], []
    own = targets.weights(WEIGHT) if WEIGHT else [constant(1.0) for _ in range(vector)]
    base, size = columns.address(X), X.dtype.bits // 8
    found = []
    for j, (number, inside) in enumerate(zip(targets.numbers, targets.inside, strict=True)):
        place = columns.below(X, base, number)
        found.append(fetched(X.dtype, ptx.addr(place, j * size), pred=inside))
    for j, bits in enumerate(found):
        lines = log(total[j])
        loss = sub(lines, sub(element(bits, X.dtype), largest[j]))
        ptx.inst.selp.f32(loss, loss, math.nan, targets.inside[j])
        loss = mul(loss, own[j]) if WEIGHT else loss
        if smoothing:
            share = smoothing / columns.n
            pull = fma(neg(weights), sub(largest[j], middle[j]), pulled[j])
            loss = add(mul(loss, 1 - smoothing), mul(sub(mul(weights, lines), pull), share))
        weight = copied(own[j])
        for value in (loss, weight):
            ptx.inst.mov.f32(value, 0.0, pred=targets.ignored[j])
        losses.append(loss)
        counted.append(weight)
    return losses, counted, largest, total


def gradients_of(columns: Columns, T, WEIGHT, g: list, TOP, TOTAL, DX, ignore_index: int, smoothing: float):
    """Writes the gradient of X, for the gradients `g` of the losses of the thread's columns."""
    vector, targets = columns.vector, Targets(columns, T, ignore_index)
    top, total = columns.load(TOP), columns.load(TOTAL)
    weights = (
        tree([weight_of(WEIGHT, i) for i in range(columns.n)], ptx.inst.add.f32)
        if WEIGHT and smoothing
        else float(columns.n)
    )
    true, everywhere, scales = [], [], []
    own = targets.weights(WEIGHT) if WEIGHT else None
    for j in range(vector):
        ptx.inst.selp.f32(g[j], g[j], math.nan, targets.inside[j])
        ptx.inst.mov.f32(g[j], 0.0, pred=targets.ignored[j])
        amount = mul(g[j], 1 - smoothing) if smoothing else g[j]
        true.append(mul(amount, own[j]) if WEIGHT else amount)
        sums = true[j]
        if smoothing:
            everywhere.append(mul(g[j], -smoothing / columns.n))
            sums = sub(sums, mul(everywhere[j], weights))
        scales.append(mul(sums, reciprocal(total[j])))
    size = columns.vector * DX.dtype.bits // 8

    def batch(number, count):
        x = columns.loaded(number, count)
        for i, (place, each) in enumerate(zip(columns.places(DX, number, count), x, strict=True)):
            row, guard = columns.row(number, i), columns.guard(number, i)
            w = weight_of(WEIGHT, row, **guard) if WEIGHT and smoothing else None
            values = []
            for j in range(vector):
                value = mul(below(each[j], top[j]), scales[j])
                if smoothing:
                    value = add(value, mul(everywhere[j], w) if WEIGHT else everywhere[j])
                ptx.inst.sub.f32(value, value, true[j], pred=targets.numbers[j] == row)
                values.append(value)
            inside = columns.inside & guard["pred"] if guard else columns.inside
            move(STORE, place, 0, narrowed(values, DX.dtype), size, pred=inside)

    columns.batches(batch)


class Launch:
    """What kernels of columns have in common."""

    def __init__(self, split, x_type, target_type, w_type):
        self.wide, self.w_type = split.func == Split.wide, w_type
        weight = [Tile("N", w_type, align=16)] if w_type else []
        self.inputs = Tile("L", "N", "W", x_type, align=16), Tile("L", "W", target_type, align=16), *weight

    def begin(self, X, vector: int, groups: int) -> Columns:
        begin_early(self.wide)
        return Columns(X, vector, groups)

    def kernel(self, function, more, outputs, **told):
        return kernel(
            in_specs=(*self.inputs, *more),
            out_specs=outputs,
            raw_params=[("u32", "W")],
            grid=lambda L, W, vector, groups: (ctas_of(L, W, vector, groups), 1, 1),
            block=lambda vector, groups: (share_of_groups(groups, vector).threads, 1, 1),
            reqntid=True,
            dependent_launch=self.wide,
            arch="sm_90" if self.wide else "sm_80",
            **told,
        )(of_weights(function, self.w_type))


def make_column_losses(split, x_type, target_type, w_type=None):
    """The kernel of the losses of columns, with their largest elements and sums of exponentials, and its backward."""
    launch = Launch(split, x_type, target_type, w_type)

    def column_losses(X, T, WEIGHT, L, TOP, TOTAL, *, vector=1, groups=1, ignore_index=-100, label_smoothing=0.0):
        columns = launch.begin(X, vector, groups)
        losses, _, *found = losses_of(columns, T, WEIGHT, ignore_index, label_smoothing)
        for tensor, values in zip((L, TOP, TOTAL), (losses, *found), strict=True):
            columns.store(tensor, values)
        ptx.ret()

    def column_losses_backward(
        X, T, WEIGHT, TOP, TOTAL, G, DX, *, vector=1, groups=1, ignore_index=-100, label_smoothing=0.0
    ):
        columns = launch.begin(X, vector, groups)
        gradients_of(columns, T, WEIGHT, columns.load(G), TOP, TOTAL, DX, ignore_index, label_smoothing)
        ptx.ret()

    return (
        launch.kernel(column_losses, (), (COLUMNS,) * 3, batch="L"),
        launch.kernel(column_losses_backward, (COLUMNS,) * 3, launch.inputs[:1], batch="L"),
    )


def make_column_parts(split, x_type, target_type, w_type=None):
    """The same with the sums of each CTA in place of the losses.  What follows it has the gradient."""
    launch = Launch(split, x_type, target_type, w_type)

    def column_parts(X, T, WEIGHT, S, TOP, TOTAL, *, vector=1, groups=1, ignore_index=-100, label_smoothing=0.0):
        columns = launch.begin(X, vector, groups)
        *sums, largest, total = losses_of(columns, T, WEIGHT, ignore_index, label_smoothing)
        columns.store(TOP, largest)
        columns.store(TOTAL, total)
        sums = [tree(each, ptx.inst.add.f32) for each in sums]
        for each in sums:
            ptx.inst.selp.f32(each, each, 0.0, columns.owns)
        thread = columns.thread
        agree = Agreement(Split(1, 1, columns.share.threads), thread, thread & 31, thread >> 5, None, None)
        sums = agree.sums(sums)
        with ptx.if_(thread == 0):
            (pointer,) = ptx.global_ptrs(S)
            move(STORE, beyond(pointer, columns.cta, 8), 0, sums, 8)
        ptx.ret()

    return launch.kernel(column_parts, (), (PARTS, COLUMNS, COLUMNS)), None


def make_reduced_columns(split, x_type, target_type, w_type, *_):
    """The kernel from the sums of CTAs to the mean or the sum of all losses, and its backward."""
    launch = Launch(split, x_type, target_type, w_type)

    def reduced_columns(
        X, T, WEIGHT, S, TOP, TOTAL, Y, SCALE, *, mean=True, vector=1, groups=1, ignore_index=-100, label_smoothing=0.0
    ):
        finish(Parts(S, mean), 1, None, reg.from_(ptx.special.tid.x(), u32), Y, SCALE)
        ptx.ret()

    def reduced_columns_backward(
        X, T, WEIGHT, TOP, TOTAL, SCALE, G, DX, *, vector=1, groups=1, ignore_index=-100, label_smoothing=0.0
    ):
        columns = launch.begin(X, vector, groups)
        g = mul(*(apply(ptx.inst.ld.global_.nc.f32, ptx.addr(place)) for place in ptx.global_ptrs(G, SCALE)))
        of_columns = [copied(g) for _ in range(vector)]
        gradients_of(columns, T, WEIGHT, of_columns, TOP, TOTAL, DX, ignore_index, label_smoothing)
        ptx.ret()

    forward = kernel(
        in_specs=(*launch.inputs, PARTS, COLUMNS, COLUMNS),
        out_specs=(ONE, ONE),
        raw_params=[("u32", "P")],
        block=(ADDING, 1, 1),
        reqntid=True,
        arch="sm_80",
    )(of_weights(reduced_columns, w_type))
    return forward, launch.kernel(reduced_columns_backward, (COLUMNS, COLUMNS, ONE, ONE), launch.inputs[:1])
