"""What the threads of a row compute together: sums over the row, and sums of exponentials.

`now()` returns the results in all threads.  In a loop over `pipelined` rows the two halves are apart: `of_warp()` returns what a warp sends to
the others, and `combined` makes the results of what all warps have sent.
"""

import math
from collections.abc import Sequence

from pyptx import ptx
from pyptx.kernels._registers import constant, copied, exp, mul, sub, tree
from pyptx.kernels._rows.agreement import over_warps, warp_max
from pyptx.kernels._rows.messages import FEW
from pyptx.kernels._rows.ring import Stream
from pyptx.kernels._rows.values import Values

__all__ = ["LOWEST", "Exponentials", "Totals", "below", "max_of_row"]

CHAINS = 4  # sums that a thread adds up side by side
LOWEST = -(2 - 2**-23) * 2.0**127  # of f32


class Totals:
    """The sums over the row of values, and of the products of pairs of values: up to four."""

    def __init__(self, row, *inputs):
        self.row, self.inputs = row, inputs
        self.empty = [0.0] * len(inputs)  # stands in for a warp that does not exist

    def now(self) -> list:
        results = self.row.agree.sums(self.of_thread())
        self.row.passes += 1
        return results

    @staticmethod
    def of_several(found: Sequence["Totals"]) -> list[list]:
        """`now()` for several rows, whose values are combined together."""
        results = iter(found[0].row.agree.sums([each for one in found for each in one.of_thread()]))
        for one in found:
            one.row.passes += 1
        return [[next(results) for _ in one.inputs] for one in found]

    def of_thread(self) -> list:
        row, inputs = self.row, [each if isinstance(each, tuple) else (each,) for each in self.inputs]
        count = CHAINS if len(inputs) < 4 else CHAINS // 2  # layer_norm's backward has no more registers
        totals = [[constant(0.0) for _ in range(count)] for _ in inputs]
        for k, at in row.steps():
            if row.branches(k):  # the values are made in front of them
                for values in (values for each in inputs for values in each):
                    values.vector(k, at)
            for guard in row.guards(k):
                for chains, each in zip(totals, inputs, strict=True):
                    factors = [values.vector(k, at) for values in each]
                    for i, operands in enumerate(zip(*factors, strict=True)):
                        into = chains[i % count]
                        combine = ptx.inst.fma.rn.f32 if len(operands) == 2 else ptx.inst.add.f32
                        combine(into, *operands, into, **guard(i))
        return [tree(each, ptx.inst.add.f32) for each in totals]

    def of_warp(self) -> list:
        results = self.of_thread()
        for each in results:
            ptx.warp.reduce_sum(each)
        self.row.passes += 1
        return results

    def combined(self, parts: Sequence) -> list:
        messages = self.row.agree.messages
        return over_warps(parts, ptx.inst.add.f32, None if messages.everywhere else ptx.warp.reduce_sum)


class Exponentials:
    """[the largest x, the sum of e = exp(x - largest)] of a row; with `weights`, also the sum of weights e; with `beside`, the sum of those."""

    def __init__(self, row, x: Values, weights: Values | None = None, beside: Values | None = None):
        self.row, self.x, self.weights, self.beside = row, x, weights, beside
        self.once = not row.whole and weights is beside
        self.around: tuple | None = None  # (k, w or None): in one pass also the sums of w (x - k), and of w
        self.stream = Stream(row, x.tensor) if self.once and Stream.takes(row.split, x.tensor) else None
        self.empty = [LOWEST] + [0.0] * (1 if weights is beside else 2)

    def now(self) -> list:
        row = self.row
        if self.once:
            return self.in_one_pass()
        if row.whole and row.agree.messages:
            return self.combined(row.agree.exchange(self.of_warp(), self.empty))
        # Not beside another matrix, for which there are no registers.
        if row.whole and row.agree.partials and row.agree.warps <= FEW and self.weights is self.beside:
            largest, parts = self.relative(row.agree.all_of(self.of_warp()))
            return [largest, *(tree(column, ptx.inst.add.f32) for column in zip(*parts, strict=True))]
        largest = max_of_row(row, self.x)
        return [largest, *self.sums(largest).now()]

    def sums(self, largest) -> Totals:
        """The sums, with exponentials relative to `largest`."""
        e = self.row.map_with(below, self.x, largest)
        return Totals(self.row, e, *([(self.weights, e)] if self.weights else [self.beside] if self.beside else []))

    def of_warp(self) -> list:
        """The results of the warp, relative to its own largest, so that the warps of a cluster exchange values only once."""
        largest = max_of_thread(self.row, self.x, LOWEST)
        warp_max(largest)
        self.row.passes += 1
        return [largest, *self.sums(largest).of_warp()]

    def combined(self, parts: Sequence) -> list:
        if self.row.agree.messages.everywhere:
            largest, parts = self.relative(parts)
            return [largest, *over_warps(parts, ptx.inst.add.f32, None)]
        largest, parts = self.relative(parts, warp_max)
        return [largest, *over_warps(parts, ptx.inst.add.f32, ptx.warp.reduce_sum)]

    def relative(self, parts: Sequence, largest_of=lambda value: None) -> tuple:
        """(the largest of all warps, their sums scaled to be relative to it)."""
        largest = tree([copied(part[0]) for part in parts], ptx.inst.max.NaN.f32)
        largest_of(largest)
        scaled = 2 if self.weights else 1  # sums of exponentials, which come first
        found = []
        for own, *sums in parts:
            scale = exp(sub(own, largest))
            found.append([mul(each, scale) if i < scaled else each for i, each in enumerate(sums)])
        return largest, found

    def in_one_pass(self) -> list:
        """The totals of a row that is not kept: each thread has the largest element that it met, and a sum relative to it."""
        row, mine, total = self.row, constant(LOWEST), constant(0.0)
        more = [constant(0.0) for each in self.around or () if each is not None]
        for k, at, values in self.stream.vectors() if self.stream else self.vectors():
            if more:
                self.add_around(more, k, at, values)
            largest = [copied(mine) for _ in range(CHAINS)]
            for guard in row.guards(k):
                for i, value in enumerate(values):
                    ptx.inst.max.NaN.f32(largest[i % CHAINS], largest[i % CHAINS], value, **guard(i))
            before = copied(mine)
            ptx.inst.mov.f32(mine, tree(largest, ptx.inst.max.NaN.f32))
            sums = [mul(total, exp(sub(before, mine))), *(constant(0.0) for _ in range(CHAINS - 1))]
            for guard in row.guards(k):
                for i, value in enumerate(values):
                    ptx.inst.add.f32(sums[i % CHAINS], sums[i % CHAINS], exp(sub(value, mine)), **guard(i))
            ptx.inst.mov.f32(total, tree(sums, ptx.inst.add.f32))
        if row.split.late:
            ptx.griddepcontrol.launch_dependents()
        largest = row.agree.largest(copied(mine))
        ptx.inst.mul.rn.f32(total, total, exp(sub(mine, largest)))
        return [largest, *row.agree.sums([total, *more])]

    def add_around(self, sums: Sequence, k: int, at, values: Sequence):
        """The values of a vector to those `around`."""
        middle, weight = self.around
        for i, value in enumerate(values):
            c, guard = sub(value, middle), self.row.guard(k, i)
            if weight is None:
                ptx.inst.add.f32(sums[0], sums[0], c, **guard)
                continue
            w = weight.vector(k, at)[i]
            ptx.inst.fma.rn.f32(sums[0], w, c, sums[0], **guard)
            ptx.inst.add.f32(sums[1], sums[1], w, **guard)

    def vectors(self):
        """Yields what a stream yields, for rows that no copy to shared memory takes."""
        for k, at in self.row.steps():
            yield k, at, self.x.vector(k, at)


def below(x, largest):
    return exp(sub(x, largest))


def max_of_thread(row, values: Values, least: float):
    chains = [constant(least) for _ in range(CHAINS)]
    for k, at in row.steps():
        found = values.vector(k, at)
        for guard in row.guards(k):
            for i, value in enumerate(found):
                into = chains[i % CHAINS]
                ptx.inst.max.NaN.f32(into, into, value, **guard(i))
    return tree(chains, ptx.inst.max.NaN.f32)


def max_of_row(row, values: Values):
    """The largest value of the row, in every thread; NaN if one is NaN."""
    largest = row.agree.largest(max_of_thread(row, values, -math.inf))
    row.passes += 1
    return largest
