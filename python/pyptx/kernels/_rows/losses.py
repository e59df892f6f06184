"""The mean, or the sum, of losses of rows: what follows cross_entropy's forward in one launch, or in two.

One CTA adds up the losses and the weights of the rows that count; of many rows, a cluster where there are some; of very many, first as many CTAs as fill
a GPU make partial sums.  The order is fixed.  The logits are an input because the gradient is theirs; these kernels do not read them.
"""

import functools
import inspect

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    apply,
    apply_to,
    beyond,
    constant,
    move,
    reciprocal,
    registers,
    to_u64,
    tree,
    widened,
)
from pyptx.kernels._rows.agreement import Agreement
from pyptx.kernels._rows.apart import apart_kernels, whole
from pyptx.kernels._rows.split import MOST_CTAS, MULTIPROCESSORS, Split, begin_early
from pyptx.kernels._rows.tiles import columns, matrix
from pyptx.types import b16, b32, f32, pred, s64, u32

__all__ = [
    "LOSSES", "MANY", "ONE", "PARTS", "RESULTS", "Parts", "finish", "finite", "index_at", "of_weights", "partial_kernel", "parts_of", "reduction_kernel",
    "sum_of_parts",
]  # fmt: skip

LOSSES, RESULTS, ONE, PARTS = Tile("M", f32), Tile("M", f32, align=16), Tile(1, f32), Tile("P", 2, f32)
THREADS, UNROLL = 512, 8
FEW, MANY = 8192, 1 << 17  # rows, up to which one CTA is faster than a cluster, and a cluster than two launches
MOST_PARTS = 2 * MULTIPROCESSORS


def parts_of(rows: int) -> int:
    return min(MOST_PARTS, -(-rows // (THREADS * UNROLL)))


def index_at(dtype, address, **guard):
    """The index at an address, as s64."""
    index = reg.scalar(dtype, **({"init": 0} if guard else {}))
    (LOAD.b64 if dtype == s64 else LOAD.b32)(index, address, **guard)
    return index if dtype == s64 else apply_to(reg.scalar(s64), ptx.inst.cvt.s64.s32, index)


def finite(value):
    """The value, or 0 in place of one that differences are not to be taken from."""
    is_finite = reg.scalar(pred)
    ptx.inst.testp.finite.f32(is_finite, value)
    return apply(ptx.inst.selp.f32, value, 0.0, is_finite)


def reduction_kernel(x_type, target_type, w_type=None, *, hopper: bool):
    """The kernel that makes, of the losses, their sum divided by that of the weights, and 1 / that; without `mean`, the sum, and 1."""
    ctas = MOST_CTAS if hopper else 1

    def reduced_losses(X, T, WEIGHT, L, Y, SCALE, *, mean=True, ignore_index=-100, label_smoothing=0.0):
        reduce(Losses(T, WEIGHT, L, mean, ignore_index), Y, SCALE, hopper)

    told = {"grid": lambda: (ctas, 1, 1), "cluster": (ctas, 1, 1)}
    return kernel_of(reduced_losses, (x_type, target_type, w_type), (ONE, ONE), hopper, **told)


def partial_kernel(x_type, target_type, w_type=None, *, hopper: bool):
    """The kernel that makes, of the losses, the sums of P parts, and those of their weights."""

    def partial_losses(X, T, WEIGHT, L, S, *, mean=True, ignore_index=-100, label_smoothing=0.0):
        begin_early(hopper)
        thread, cta = (reg.from_(each, u32) for each in (ptx.special.tid.x(), ptx.special.ctaid.x()))
        agree = Agreement(Split(1, 1, THREADS), thread, thread & 31, thread >> 5, None, None)
        losses = Losses(T, WEIGHT, L, mean, ignore_index)
        sums = agree.sums(losses.sums(cta * THREADS + thread, ptx.param(u32, "P") * THREADS))
        with ptx.if_(thread == 0):
            (pointer,) = ptx.global_ptrs(S)
            move(STORE, beyond(pointer, cta, 8), 0, sums, 8)
        ptx.ret()

    told = {"grid": lambda P: (P, 1, 1), "more": [("u32", "P")]}
    return kernel_of(partial_losses, (x_type, target_type, w_type), (PARTS,), hopper, **told)


def sum_of_parts(x_type, target_type, w_type=None, *, hopper: bool):
    """What `reduction_kernel` makes, of the sums of parts."""

    def sum_of_losses(X, T, WEIGHT, S, Y, SCALE, *, mean=True, ignore_index=-100, label_smoothing=0.0):
        begin_early(hopper)
        finish(Parts(S, mean), 1, None, reg.from_(ptx.special.tid.x(), u32), Y, SCALE)
        ptx.ret()

    types = x_type, target_type, w_type
    return kernel_of(sum_of_losses, types, (ONE, ONE), hopper, more=[("u32", "P")], last=PARTS)


def kernel_of(function, types, outputs, hopper: bool, *, more=(), last=LOSSES, **told):
    """The kernel of logits, targets, weights if there are any, and `last`."""
    x_type, target_type, w_type = types
    inputs = (matrix(x_type), Tile("M", target_type), *([columns(w_type)] if w_type else []), last)
    told = {
        "grid": lambda: (1, 1, 1),
        "raw_params": [("u32", "M"), ("u32", "N"), *more],
        "block": (THREADS, 1, 1),
        "reqntid": True,
        "dependent_launch": hopper,
        "arch": "sm_90" if hopper else "sm_80",
    } | told
    function = of_weights(function, w_type)
    made = kernel(in_specs=inputs, out_specs=outputs, **told)(function)
    made.apart, made.pieces = apart_kernels(function, inputs, outputs, **told), whole
    return made


def of_weights(function, w_type):
    """The body, without WEIGHT if there are no weights."""
    if w_type:
        return function
    parameters = [each for name, each in inspect.signature(function).parameters.items() if name != "WEIGHT"]

    @functools.wraps(function)
    def body(X, T, *more, **told):
        return function(X, T, None, *more, **told)

    body.__signature__ = inspect.Signature(parameters)
    return body


class Parts:
    """The sums of the losses of CTAs and of their weights, as `finish` asks for them."""

    def __init__(self, parts, mean: bool):
        self.parts, self.mean, self.rows = parts, mean, ptx.param(u32, "P")

    def sums(self, first, step) -> list:
        totals = [constant(0.0), constant(0.0)]
        (pointer,) = ptx.global_ptrs(self.parts)
        for at in ptx.range_(first, self.rows, step):
            found = registers(f32, 2)
            move(LOAD, beyond(pointer, at, 8), 0, found, 8)
            for total, value in zip(totals, found, strict=True):
                ptx.inst.add.f32(total, total, value)
        return totals


class Losses:
    """The losses of rows and what each row weighs; `mean`: whether the weights matter."""

    def __init__(self, T, W, L, mean: bool, ignore_index: int):
        self.target, self.weight, self.losses = T, W, L
        self.mean, self.ignore_index = mean, ignore_index
        self.rows = ptx.param(u32, "M")

    def sums(self, first, step) -> list:
        """The sums of the losses and of the weights of every `step`-th row, from row `first` on."""
        chains = [[constant(0.0), constant(0.0)] for _ in range(UNROLL)]
        for at in ptx.range_(first, self.rows, step * UNROLL):
            found = [self.of_row(at + step * k) for k in range(UNROLL)]  # all loads are in flight
            for sums, values in zip(chains, found, strict=True):
                for total, value in zip(sums, values, strict=False):
                    ptx.inst.add.f32(total, total, value)
        return [tree(each, ptx.inst.add.f32) for each in zip(*chains, strict=True)]

    def of_row(self, row) -> list:
        """[the loss, what it weighs] of a row, or zeros."""
        there, loss = row < self.rows, constant(0.0)
        LOAD.f32(loss, ptx.addr(self.place(self.losses, row)), pred=there)
        if not self.mean:
            return [loss]
        index = index_at(self.target.dtype, ptx.addr(self.place(self.target, row)), pred=there)
        counts = reg.scalar(pred)
        ptx.inst.setp.ne.and_.s64(counts, index, self.ignore_index, there)
        if self.weight is None:
            return [loss, apply(ptx.inst.selp.f32, 1.0, 0.0, counts)]
        classes = to_u64(ptx.param(u32, "N"))
        ptx.inst.setp.lt.and_.u64(counts, index, classes, counts)
        dtype = self.weight.dtype
        bits = reg.scalar(b32 if dtype == f32 else b16, init=0)
        at = self.place(self.weight, apply_to(reg.scalar(u32), ptx.inst.cvt.u32.u64, index))
        (LOAD.b32 if dtype == f32 else LOAD.b16)(bits, ptx.addr(at), pred=counts)
        return [loss, widened(bits, dtype)[0]]

    def place(self, tensor, index):
        (pointer,) = ptx.global_ptrs(tensor)
        return beyond(pointer, index, tensor.dtype.bits // 8)


def reduce(losses: Losses, Y, SCALE, hopper: bool):
    thread = reg.from_(ptx.special.tid.x(), u32)
    begin_early(hopper)
    if hopper:
        rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
        with ptx.if_(losses.rows > FEW):
            finish(losses, MOST_CTAS, rank, thread, Y, SCALE)
            ptx.ret()
        with ptx.if_(rank > 0):
            ptx.ret()
    finish(losses, 1, None, thread, Y, SCALE)
    ptx.ret()


def finish(losses: Losses, ctas: int, rank, thread, Y, SCALE):
    """Adds up all rows by so many CTAs and stores the results."""
    agree = Agreement(Split(1, 1, THREADS, ctas=ctas), thread, thread & 31, thread >> 5, rank, None)
    agree.announce()
    first = thread if rank is None else rank * THREADS + thread
    total, weights = agree.sums(losses.sums(first, ctas * THREADS))
    with ptx.if_(first == 0):
        places = ptx.global_ptrs(Y, SCALE)
        results = [total, constant(1.0)]
        if losses.mean:
            results = [apply(ptx.inst.div.rn.f32, total, weights), reciprocal(weights)]
        for place, result in zip(places, results, strict=True):
            ptx.inst.st.global_.f32(ptx.addr(place), result)
