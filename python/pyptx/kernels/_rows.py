"""What the kernels over rows share: a row of a matrix in the registers of a CTA, of a warp, or of a cluster.

    row = Row(split(X.shape[1]))                  # this CTA's row
    x, w = row.load(X), row.load(W)               # 16 bytes a load, f32 from here on
    (squares,) = row.sum(row.map(square, x))      # the same value in all threads
    row.store(Y, row.map(scaled, x, w))

A row of n elements is cut into vectors of at most 16 bytes; thread t holds the vectors t, t + threads, ...  A row that does
not fit in registers is read again by every step that needs it, from memory or L2.  Sums are taken in a fixed order: the
same inputs give the same bits.

_rows_split.py has how threads share rows, _rows_agreement.py how they come to one sum, also within a cluster, _rows_ring.py the rows
that are on their way while one is worked on, _rows_sums.py what is summed over rows, for gradients.
"""

import math
from collections.abc import Callable

from pyptx import ptx, reg
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    apply,
    apply_to,
    constant,
    exp,
    move,
    narrowed,
    sub,
    tree,
    widened,
)
from pyptx.kernels._rows_agreement import Agreement, warp_max
from pyptx.kernels._rows_ring import Ahead, Early
from pyptx.kernels._rows_split import WARP, Split
from pyptx.kernels._rows_sums import Sums
from pyptx.kernels._rows_values import Columns, Identity, Loaded, Mapped, Rounded, Values
from pyptx.types import b16, b32, f32, u32, u64

__all__ = ["Row"]

UNROLL = 4  # vectors of a row that is not kept, loaded side by side
CHAINS = 4  # sums that a thread adds up side by side
HELD = 48  # registers of sums and of what is loaded before it is needed, of a thread that goes over rows
LOWEST = -(2 - 2**-23) * 2.0**127  # of f32


class Row:
    """The row of the calling CTA, warp or cluster.  `agrees`: whether its threads tell each other something."""

    def __init__(self, split: Split, agrees: bool = True):
        self.split = split
        thread = reg.from_(ptx.special.tid.x(), u32)
        self.index = reg.from_(ptx.special.ctaid.x(), u32)
        in_cta = thread
        warp, lane, rank = thread >> 5, thread & (WARP - 1), None
        if split.rows > 1:
            thread, self.index = lane, self.index * split.rows + warp
        if split.ctas > 1:
            rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
            thread = rank * split.threads + thread
            self.index = self.index >> (split.ctas.bit_length() - 1)
        self.thread = thread  # among those of the row
        self.agree = Agreement(split, in_cta, lane, warp, rank)
        self.same = Identity(self.agree, in_cta) if split.resident else None
        self.again = (
            split.resident > 0
        )  # whether values are formed again behind each agreement, of rows that stay in shared memory, or packed
        self.whole = split.fits  # whether each vector of a thread has instructions of its own
        self.early = self.ahead = None
        self.most_held = HELD if split.threads <= 512 else HELD // 4
        self.held = 0  # registers that hold sums, and what was loaded before it is needed
        last = split.each - 1
        self._tail = {} if split.full(last) else {"pred": thread < split.n // split.vector - last * split.together}
        if agrees:
            self.agree.announce()
        if split.hopper:
            ptx.griddepcontrol.wait()
            ptx.griddepcontrol.launch_dependents()

    @classmethod
    def own(cls, split: Split, agrees: bool = True) -> "Row":
        """In a kernel of one row a CTA: the last CTA's warps that have none end here."""
        row = cls(split, agrees)
        if split.rows > 1:
            with ptx.if_(row.index >= ptx.param(u32, "M")):
                ptx.ret()
        return row

    @classmethod
    def each(cls, split: Split, *tensors, medians=None):
        """(row, its values of each of the tensors): of the CTA's only row, or in a loop over those of a cluster."""
        if not split.loops([tensor.dtype for tensor in tensors]):
            row = cls.own(split)
            yield row, *map(row.load, tensors)
            return
        row = cls(split)
        step = reg.from_(ptx.sreg("%nclusterid.x"), u32)
        for values in row.over(ptx.param(u32, "M"), step, *tensors, medians=medians):
            yield row, *values

    def over(self, m, step, *tensors, medians=None):
        """A loop over the rows index, index + step, ... below m, with those of `tensors`: while one row is worked on the next is
        on its way, if there is room.  `index` is the row's in the body, and what it was behind.  `medians`: a tensor whose `median`
        the body asks for."""
        first = self.index
        ahead = Ahead(self, tensors) if tensors and self.split.places([tensor.dtype for tensor in tensors]) else None
        held = self.held + sum(self.registers_of(tensor) for tensor in tensors)
        self.again = ahead is not None or (self.whole and held > self.most_held)
        self.ahead = ahead
        if ahead:
            self.whole = True
            ahead.start(first, m, step)
        if medians is not None:
            self.early = Early(self, medians)
            self.early.load(first, first < m)
        self.agree.begin_loop()
        for self.index in ptx.range_(first, m, step):
            before = self.agree.turn
            if medians is not None:
                self.early.take()
                self.early.load(self.index + step, self.index + step < m)
            yield ahead.row_values(self.index, m, step) if ahead else [self.load(tensor) for tensor in tensors]
            if ahead:
                ahead.fetch()
            self.agree.end_round(before)
        self.index = first

    def median(self, tensor):
        """Of the first, the middle and the last element of the row of a matrix."""
        if self.early:
            return self.early.value
        early = Early(self, tensor)
        early.load(self.index)
        early.take()
        return early.value

    # What a row is made of.

    def load(self, tensor) -> "Values":
        """The row of a matrix, or all of a vector."""
        return Loaded(self, tensor)

    def map(self, function: Callable, *inputs: "Values") -> "Values":
        """`function` of the registers of one column."""
        return Mapped(self, function, inputs)

    def rounded(self, values: "Values", dtype) -> "Values":
        """As `dtype` holds them."""
        return values if dtype == f32 else Rounded(self, values, dtype)

    def columns(self) -> "Values":
        """The number of each column, in s32 registers."""
        return Columns(self)

    def sums(self, tensor) -> "Sums":
        """Sums over rows, one a column, for the worker's row of a matrix of f32."""
        return Sums(self, tensor)

    def sum(self, *inputs) -> list:
        """The sum over the row of each, in every thread; of a pair, of its products.  Up to four at a time."""
        count = CHAINS if len(inputs) < 4 else CHAINS // 2  # registers of layer_norm's backward
        totals = [[constant(0.0) for _ in range(count)] for _ in inputs]
        for k, at in self.steps():
            for chains, each in zip(totals, inputs, strict=True):
                factors = [values.vector(k, at) for values in (each if isinstance(each, tuple) else (each,))]
                for i, operands in enumerate(zip(*factors, strict=True)):
                    into = chains[i % count]
                    combine = ptx.inst.fma.rn.f32 if len(operands) == 2 else ptx.inst.add.f32
                    combine(into, *operands, into, **self.guard(k))
        return self.agree([tree(each, ptx.inst.add.f32) for each in totals], ptx.inst.add.f32, ptx.warp.reduce_sum)

    def max(self, values: "Values"):
        """The largest; NaN where there is one."""
        chains = [constant(-math.inf) for _ in range(CHAINS)]
        for k, at in self.steps():
            for i, value in enumerate(values.vector(k, at)):
                into = chains[i % CHAINS]
                ptx.inst.max.NaN.f32(into, into, value, **self.guard(k))
        return self.agree([tree(chains, ptx.inst.max.NaN.f32)], ptx.inst.max.NaN.f32, warp_max)[0]

    def exponentials(self, x: "Values"):
        """(largest, sum of exp(x - largest)).  A row that is not kept is read once: each thread has the largest that it met,
        and a sum relative to it."""
        if self.whole:
            largest = self.max(x)
            return largest, *self.sum(self.map(lambda x: exp(sub(x, largest)), x))
        mine, total = constant(LOWEST), constant(0.0)
        for k, at in self.steps():
            values, guard = x.vector(k, at), self.guard(k)
            before = apply(ptx.inst.mov.f32, mine)
            for value in values:
                ptx.inst.max.NaN.f32(mine, mine, value, **guard)
            ptx.inst.mul.rn.f32(total, total, exp(sub(before, mine)))
            for value in values:
                ptx.inst.add.f32(total, total, exp(sub(value, mine)), **guard)
        largest = self.agree([apply(ptx.inst.mov.f32, mine)], ptx.inst.max.NaN.f32, warp_max)[0]
        ptx.inst.mul.rn.f32(total, total, exp(sub(mine, largest)))
        return largest, *self.agree([total], ptx.inst.add.f32, ptx.warp.reduce_sum)

    def element(self, tensor, column):
        """The value in the column that a register names, of this row of a matrix or of a vector, for the threads that ask."""
        (pointer,) = ptx.global_ptrs(tensor)
        size = tensor.dtype.bits // 8
        at = apply_to(reg.scalar(u64), ptx.inst.cvt.u64.u32, column)
        if len(tensor.shape) > 1:
            ptx.inst.mad.wide.u32(at, self.index, self.split.n, at)
        bits = reg.scalar(b32 if size == 4 else b16)
        (LOAD.b32 if size == 4 else LOAD.b16)(bits, ptx.addr(pointer + at * size))
        return apply(ptx.inst.mov.b32, bits) if size == 4 else widened(bits, tensor.dtype)[0]

    def of_row(self, tensor):
        """The address of this row's element of a vector that has one a row."""
        (pointer,) = ptx.global_ptrs(tensor)
        return apply_to(reg.scalar(u64), ptx.inst.mad.wide.u32, self.index, tensor.dtype.bits // 8, pointer)

    def store(self, tensor, values: "Values", last: bool = False):
        """Writes the row of a matrix.  `last`: nothing reads the fetched row any more, so that what is next takes the place of each vector at
        once."""
        base = self.address(tensor)
        for k, at in self.steps():
            self.move(STORE, tensor, base, k, at, narrowed(values.vector(k, at), tensor.dtype))
            if last and self.ahead:
                self.ahead.fetch_next()

    # How.

    def registers_of(self, tensor) -> int:
        """That hold a row of a tensor."""
        return self.split.values * tensor.dtype.bits // 32

    def address(self, tensor, index=None):
        """Of the thread's first vector, in this row of a matrix or another one."""
        (pointer,) = ptx.global_ptrs(tensor)
        size = tensor.dtype.bits // 8
        offset = apply_to(reg.scalar(u64), ptx.inst.mul.wide.u32, self.thread, self.split.vector * size)
        if len(tensor.shape) > 1:
            ptx.inst.mad.wide.u32(offset, self.index if index is None else index, self.split.n * size, offset)
        return pointer + offset

    def steps(self):
        """(k, at) for each vector of the thread: the k-th, or in a loop over `at` elements the k-th behind those."""
        split = self.split
        if self.whole:
            yield from ((k, None) for k in range(split.each))
            return
        whole = split.n // (split.together * split.vector)
        span = UNROLL * split.together * split.vector
        for at in ptx.range_(0, whole // UNROLL * span, span):
            yield from ((k, at) for k in range(UNROLL))
        yield from ((k, None) for k in range(whole // UNROLL * UNROLL, split.each))

    def guard(self, k: int) -> dict:
        """The predicate of the threads that have a k-th vector."""
        return {} if self.split.full(k) else self._tail

    def move(self, instruction, tensor, base, k: int, at, bits: list):
        """ld or st of the registers of the k-th vector."""
        size = tensor.dtype.bits // 8
        if at is not None:
            base = apply_to(reg.scalar(u64), ptx.inst.mad.wide.u32, at, size, base)
        offset = k * self.split.together * self.split.vector * size
        move(instruction, base, offset, bits, self.split.vector * size, **self.guard(k))
