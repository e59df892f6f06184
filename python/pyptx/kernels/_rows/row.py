"""`Row`, which the kernels over rows are written with: a row of a matrix in the registers of a CTA, of some of its warps, or of a cluster.

    row = Row(split(X.shape[1]))                  # this CTA's row
    x, w = row.load(X), row.load(W)               # 16 bytes a load, f32 from here on
    (squares,) = row.sum(row.map(square, x))      # the same value in all threads
    row.store(Y, row.map(scaled, x, w))

A row of n elements is cut into vectors of at most 16 bytes; thread t holds the vectors t, t + threads, ...  A row that does
not fit in registers is read again by every step that needs it, from memory or L2.  Sums are taken in a fixed order: the
same inputs give the same bits.

split.py has how threads share rows, loops.py how those that have many rows each, edges.py what rows have at their ends that begin inside a
vector, totals.py what threads find out together, agreement.py how they come to one value, messages.py how within a cluster, own.py the rows of a few elements that a thread has for
itself, ring.py the rows that are on their way while one is worked on, pipeline.py the loop whose sums are a row ahead, waves.py which rows
a loop has, sums.py what is summed over rows, for gradients.
"""

import copy
from collections.abc import Callable, Sequence

from pyptx import ptx, reg
from pyptx.kernels._registers import (
    STORE,
    apply_to,
    beyond,
    divided,
    element,
    fetched,
    move,
    narrowed,
    to_u64,
    wide_product,
)
from pyptx.kernels._rows.agreement import Agreement
from pyptx.kernels._rows.apart import Apart
from pyptx.kernels._rows.edges import Edges
from pyptx.kernels._rows.own import Elements, own_rows
from pyptx.kernels._rows.pipeline import pipelined
from pyptx.kernels._rows.ring import Ahead, Early
from pyptx.kernels._rows.split import WARP, Split
from pyptx.kernels._rows.sums import Sums
from pyptx.kernels._rows.totals import Totals, max_of_row
from pyptx.kernels._rows.values import Identity, Kept, Loaded, Mapped, Rounded, Values
from pyptx.kernels._rows.waves import rows_of
from pyptx.types import f32, u32

__all__ = ["Row"]

UNROLL = 4  # vectors that are loaded side by side, of a row that does not stay in registers
FEW_THREADS = 128  # of a row: with fewer, each of a few warps has an end of the row
HELD = 48  # registers of a thread for sums and for early loads, in a loop over rows


class Row:
    """The row of the calling CTA, warp or cluster.  `agrees`: whether its threads combine values with each other.  `pieces`: how many rows were a
    row of the tensors."""

    def __init__(self, split: Split, agrees: bool = True, pieces: int = 1):
        self.split, self.pieces = split, pieces
        thread = reg.from_(ptx.special.tid.x(), u32)
        self.index = reg.from_(ptx.special.ctaid.x(), u32)
        in_cta = thread
        warp, lane, rank, group = thread >> 5, thread & (WARP - 1), None, None
        self.worker = self.index
        if split.rows > 1:
            group, thread = (warp, lane) if split.threads == WARP else divided(thread, split.threads)
            warp = thread >> 5
            self.index = self.index * split.rows + group
        if split.ctas > 1:
            rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
            thread = rank * split.threads + thread
            self.index = self.worker = self.index >> (split.ctas.bit_length() - 1)
        self.thread, self.in_cta = thread, in_cta  # the thread's number within the row, and within the CTA
        self.group = group  # which of the CTA's rows
        if split.batch > 1 and split.threads > 1:
            self.index = split.first_of(self.index)
        self.agree = Agreement(split, in_cta, lane, warp, rank, group)
        self.passes = 0  # passes over the row so far; each waits for a value that the threads had to find together
        self.same = Identity(self, in_cta) if split.packed else None
        # Whether values are formed again behind each agreement, of rows that stay packed, or in shared memory.
        self.again = split.packed
        self.whole = split.fits  # whether each vector of a thread has instructions of its own
        self.early = self.ahead = None
        self.mapped: dict[tuple, tuple] = {}  # what `map_with` has made
        self.deferred: list | None = None  # what `store` leaves to `side_by_side` and `own_rows`
        self.scalars: list | None = None  # what `store_of_row` leaves to `own_rows`
        # Where a warp has several rows of a loop: the last row of all, and which of the warp's rows this is.
        self.last = self.lane_row = None
        self.single = None  # of a CTA for several rows in small matrices: whether only its first threads have one
        self.counts: dict = {}  # the guard of what such a row adds to sums over rows: it may stand in for one that does not exist
        self.most_held = HELD if split.threads <= 512 else HELD // 4
        self.held = 0  # registers that hold sums, and what was loaded before it is needed
        last = split.each - 1
        self.edges = Edges(self) if split.edges else None
        self._tail = {} if split.full(last) else {"pred": thread < split.n // split.vector - last * split.together}
        if agrees:
            self.agree.announce()
        if split.hopper:
            ptx.griddepcontrol.wait()
            if not split.late:
                many = {"pred": self.count() > split.alone} if split.alone else {}
                ptx.griddepcontrol.launch_dependents(**many)

    @classmethod
    def own(cls, split: Split, agrees: bool = True, pieces: int = 1) -> "Row":
        """The row, in a kernel whose CTAs have one row each, or one for each warp: warps without a row end here."""
        row = cls(split, agrees, pieces)
        if split.rows > 1 or (split.batch > 1 and split.stride > 1):
            with ptx.if_(row.index >= row.count()):
                ptx.ret()
        return row

    def count(self):
        """How many rows there are."""
        rows = ptx.param(u32, "M")
        return rows * self.pieces if self.pieces > 1 else rows

    @classmethod
    def each(cls, split: Split, *tensors, shared=(), first: Callable | None = None, medians=None):
        """Yields (row, its values of each of the tensors, the values of each vector that all rows share): once for a CTA that has one row, or
        in a loop over the rows of a cluster.  `first(row, *values)`: what is found first, Totals or Exponentials; its results come last."""
        if split.threads == 1:
            yield from own_rows(cls(split), tensors, shared, first)
            return
        if split.batch > 1:
            yield from cls.side_by_side(split, tensors, shared, first)
            return
        if not split.loops([tensor.dtype for tensor in tensors]):
            row = cls.own(split)
            values = [row.load(tensor) for tensor in tensors]
            beside = [row.load(vector) for vector in shared]
            yield row, *values, *beside, *([first(row, *values).now()] if first else ())
            return
        row = cls(split)
        step = reg.from_(ptx.sreg("%nclusterid.x"), u32)

        def of(*values):
            return first(row, *values[: len(tensors)])

        for values in row.over(ptx.param(u32, "M"), step, *tensors, shared=shared, first=first and of, medians=medians):
            yield row, *values

    @classmethod
    def side_by_side(cls, split: Split, tensors, shared, first: Callable):
        """`each` for several rows that a CTA or cluster holds in registers together, so that the vectors that all rows share are loaded once.
        What the bodies store is written after the last body, vector by vector.  Where there are fewer rows, the first one is done again."""
        row = cls.own(split)
        rows = [row, *(copy.copy(row) for _ in range(split.batch - 1))]
        for i, each in enumerate(rows):
            each.mapped, each.deferred = {}, []
            if i:
                each.index = row.index + i * split.stride
                ptx.inst.mov.u32(each.index, row.index, pred=each.index >= row.count())
                each.edges = row.edges and row.edges.of(each)
        values = [[each.load(tensor) for tensor in tensors] for each in rows]
        beside = [row.load(vector) for vector in shared]
        results = Totals.of_several([first(each, *some) for each, some in zip(rows, values, strict=True)])
        for each, some, found in zip(rows, values, results, strict=True):
            yield each, *some, *beside, found
        for k, at in row.steps():
            for each in rows:
                for tensor, base, stored in each.deferred:
                    each.move(STORE, tensor, base, k, at, narrowed(stored.vector(k, at), tensor.dtype))

    def over(self, m, workers, *tensors, shared=(), first: Callable | None = None, medians=None):
        """A loop over the rows of this worker (a CTA or cluster), which is one of `workers` and takes `split.rows` rows of the m at a time.
        It yields the values of `tensors`, those of the vectors that all rows share, and the results of `first(*values)`, which is Totals or
        Exponentials.  While one row is worked on, the next one is copied to shared memory, if there is room.  In the body, `index` is the
        number of the row.  `medians`: a tensor whose `median` the body asks for."""
        index, step, group = self.index, workers, self.group
        if self.split.abreast > 1:  # rows are counted by warps, all lanes of which have as many turns
            self.last, self.lane_row = m - 1, group & (self.split.abreast - 1)
            shift = self.split.abreast.bit_length() - 1
            m, group = (m + (self.split.abreast - 1)) >> shift, group >> shift
        if self.split.waves:
            crowd = self.split.crowd([tensor.dtype for tensor in tensors])
            index, step, m = rows_of(self.split, crowd, self.worker, workers, m)
        if self.split.rows > 1:  # neighbouring rows are different workers', of which each has some if there are few
            if self.split.abreast == 1 and self.split.stay and not self.split.waves:
                self.single = step >= m  # elsewhere there are no registers for it, and many rows
            begin = index if self.split.waves else self.worker
            index = apply_to(reg.scalar(u32), ptx.inst.mad.lo.u32, group, step, begin)
            step = step * self.split.turn
        self.index = index
        fetched = tensors and self.split.places([tensor.dtype for tensor in tensors]) > 0
        held = self.held + sum(self.registers_of(tensor) for tensor in tensors)
        in_front = fetched and self.split.pipelined and first is not None
        if self.split.stay:
            shared = [Kept(self, self.load(vector)) for vector in shared]
        elif in_front:
            shared = [self.load(vector) for vector in shared]  # they stay as they lie in memory
        self.ahead = Ahead(self, tensors) if fetched else None
        self.again = fetched or (self.whole and held > self.most_held)
        if fetched:
            self.whole = True
            self.ahead.start(index, m, step)
        if medians is not None:
            self.early = Early(self, medians)
            self.early.load(self.of_turn(index)[0], index < m)
        if in_front:
            yield from pipelined(self, m, step, shared, first)
        else:
            yield from self.one_by_one(m, step, tensors, shared, first)
        self.index = index

    def one_by_one(self, m, step, tensors, shared, first):
        ahead, early, index = self.ahead, self.early, self.index
        self.agree.begin_loop()
        for turn in ptx.range_(index, m, step):
            self.index, self.counts = self.of_turn(turn)
            before = self.agree.turn
            if early:
                early.take()
                early.load(self.of_turn(turn + step)[0], turn + step < m)
            values = ahead.row_values(turn, m, step) if ahead else [self.load(tensor) for tensor in tensors]
            values += [vector if self.split.stay else self.load(vector) for vector in shared]
            yield [*values, first(*values).now()] if first else values
            if ahead:
                ahead.fetch()
            self.agree.end_round(before)

    def of_turn(self, turn) -> tuple:
        """(the number of the row, the guard of what it adds to sums) of a turn of a loop.  The last row stands in for rows that do not exist, so that
        all lanes of a warp go on together; it is stored again as it was."""
        if self.split.abreast == 1:
            return turn, {}
        number = apply_to(reg.scalar(u32), ptx.inst.mad.lo.u32, turn, self.split.abreast, self.lane_row)
        return apply_to(reg.scalar(u32), ptx.inst.min.u32, number, self.last), {"pred": number <= self.last}

    def median(self, tensor):
        """The median of three elements of the row of a matrix (`places_of_median`)."""
        if self.early:
            return self.early.value
        early = self.early = Early(self, tensor)
        early.load(self.index)
        early.take()
        self.agree.lanes_read = True
        return early.value

    # Values of the row.

    def load(self, tensor) -> "Values":
        """The row of a matrix, or all of a vector."""
        if self.split.threads == 1:
            return Elements(self, tensor)
        return Loaded(self, tensor)

    def map(self, function: Callable, *inputs: "Values") -> "Values":
        """The values of `function`, which is called with the registers of one column."""
        return Mapped(self, function, inputs)

    def map_with(self, function: Callable, x: "Values", register) -> "Values":
        """The values of `function(x, register)`, where all columns have the same register.  Called again with the same operands, it returns
        the same values and writes no instructions."""
        key = function, x, id(register)
        if key not in self.mapped:
            self.mapped[key] = register, self.map(lambda x: function(x, register), x)
        return self.mapped[key][1]

    def rounded(self, values: "Values", dtype) -> "Values":
        """The values rounded to `dtype`, in f32 registers."""
        return values if dtype == f32 else Rounded(self, values, dtype)

    def sums(self, tensor) -> "Sums":
        """Sums over rows, one for each column; the worker stores them to its own row of `tensor`, a matrix of f32."""
        return Sums(self, tensor)

    def sum(self, *inputs) -> list:
        """The sums over the row of up to four inputs, in every thread.  An input is values, or a pair of values, whose products are summed."""
        return Totals(self, *inputs).now()

    def max(self, values: "Values"):
        """The largest value of the row, in every thread; NaN if one is NaN."""
        return max_of_row(self, values)

    def element(self, tensor, column):
        """The value in one column of this row of a matrix, or of a vector; `column` is a register, and may differ from thread to thread."""
        return self.value(tensor, self.fetched(tensor, column))

    def fetched(self, tensor, column, **guard):
        """The bits of the `element`.  The load is in flight until `value` uses them."""
        return fetched(tensor.dtype, ptx.addr(self.place(tensor, column)), **guard)

    def value(self, tensor, bits):
        return element(bits, tensor.dtype)

    def store_element(self, tensor, column, value):
        (bits,) = narrowed([value], tensor.dtype)
        (STORE.b32 if tensor.dtype == f32 else STORE.b16)(ptx.addr(self.place(tensor, column)), bits)

    def place(self, tensor, column):
        """The address of the `element`."""
        if isinstance(tensor, Apart):
            return beyond(tensor.begin(self.index), column, tensor.dtype.bits // 8)
        (pointer,) = ptx.global_ptrs(tensor)
        at = to_u64(column)
        if len(tensor.shape) > 1:
            ptx.inst.mad.wide.u32(at, self.index, self.split.n, at)
        return pointer + at * (tensor.dtype.bits // 8)

    def begins(self, tensor) -> Callable:
        """A function from the index of a row of a matrix to its address."""
        if isinstance(tensor, Apart):
            return tensor.begin
        (pointer,) = ptx.global_ptrs(tensor)
        return lambda index: beyond(pointer, index, self.split.n * tensor.dtype.bits // 8)

    def has(self, column):
        """Whether the column, a register, lies in one of the thread's vectors."""
        vector, threads = self.split.vector, self.split.together
        column = column + self.edges.shift if self.edges else column
        of_row = apply_to(reg.scalar(u32), ptx.inst.div.u32, column, vector)
        return self.thread == apply_to(reg.scalar(u32), ptx.inst.rem.u32, of_row, threads)

    def of_row(self, tensor):
        """The address of this row's element, in a vector that has one element for each row."""
        (pointer,) = ptx.global_ptrs(tensor)
        return beyond(pointer, self.index, tensor.dtype.bits // 8)

    def store_of_row(self, tensor, value):
        """Writes the f32 of this row, in a vector that has one element for each row."""
        if self.scalars is None:
            ptx.inst.st.global_.f32(ptx.addr(self.of_row(tensor)), value)
        else:
            self.scalars.append((tensor, value))

    def store(self, tensor, values: "Values", last: bool = False):
        """Writes the row of a matrix.  `last`: nothing reads the row in shared memory after this, so that the next copy may take the place of
        each vector at once."""
        base = self.address(tensor)
        if self.deferred is not None:
            self.deferred.append((tensor, base, values))
            return
        for k, at in self.steps():
            self.move(STORE, tensor, base, k, at, narrowed(values.vector(k, at), tensor.dtype))
            if last and self.ahead:
                self.ahead.fetch_next()

    def conclude(self, stores: Sequence, sums: Sequence):
        """The last pass over a row of a loop, vector by vector.  It writes the rows of matrices, `stores` of (tensor, values), and adds to the
        sums over rows, `sums` of (sums, values), or of (sums, values, values) for products.  The next copy takes the place of each vector."""
        bases = [self.address(tensor) for tensor, _ in stores]
        for k, at in self.steps():
            for base, (tensor, values) in zip(bases, stores, strict=True):
                self.move(STORE, tensor, base, k, at, narrowed(values.vector(k, at), tensor.dtype))
            for total, *values in sums:
                total.add(k, at, *values)
            if self.ahead:
                self.ahead.fetch_next()

    # Vectors of a thread.

    def registers_of(self, tensor) -> int:
        """How many registers of a thread hold its part of a row of the tensor."""
        return self.split.values * tensor.dtype.bits // 32

    def address(self, tensor, index=None):
        """The address of the thread's first vector, in this row of a matrix, or in row `index`."""
        size, index, matrix = tensor.dtype.bits // 8, self.index if index is None else index, len(tensor.shape) > 1
        if isinstance(tensor, Apart):
            return beyond(tensor.begin(index), self.thread, self.split.vector * size)
        (pointer,) = ptx.global_ptrs(tensor)
        if self.edges and (matrix or size == 4):
            return self.edges.address(pointer, index if matrix else 0, size)
        offset = wide_product(self.thread, self.split.vector * size)
        if matrix:
            ptx.inst.mad.wide.u32(offset, index, self.split.n * size, offset)
        return pointer + offset

    def steps(self):
        """Yields (k, at) for each vector of the thread: it is the k-th of the row (at is None), or the k-th behind `at` elements, where `at` is
        the register that a loop counts."""
        split = self.split
        if self.whole:
            yield from ((k, None) for k in range(split.each))
            return
        apart = int(split.edges)  # the first vector, which may begin before the row
        whole = (split.n // (split.together * split.vector) - apart) // UNROLL * UNROLL
        span = UNROLL * split.together * split.vector
        yield from ((k, None) for k in range(apart))
        for at in ptx.range_(0, whole // UNROLL * span, span):
            yield from ((k, at) for k in range(apart, apart + UNROLL))
        yield from ((k, None) for k in range(apart + whole, split.each))

    def guard(self, k: int, i: int | None = None) -> dict:
        """The predicate of the threads that have a k-th vector, or whose k-th vector has an element i."""
        if self.edges:
            return self.edges.guard(k, i)
        return {} if self.split.full(k) else self._tail

    def branches(self, k: int) -> bool:
        """Whether only warps at an end of the row have guards for the k-th vector: of rows with edges that stay in registers.  In a ring, or beside packed
        rows, branches cost more than guards."""
        split = self.split
        here = self.edges and self.whole and not split.packed and not self.ahead and split.threads >= FEW_THREADS
        return bool(here) and not (k > 0 and split.full(k))

    def guards(self, k: int):
        """Yields a function from an element of the k-th vector to the guard of its instructions: once, or, if it `branches`, twice, in two branches, of which
        one has none."""
        if not self.branches(k):
            yield lambda i: self.guard(k, i)
            return
        whole = self.edges.whole(k)
        with ptx.if_(whole):
            yield lambda i: {}
        with ptx.else_():
            yield lambda i: self.guard(k, i)

    def move(self, instruction, tensor, base, k: int, at, bits: list):
        """Loads or stores the registers of the k-th vector."""
        size = tensor.dtype.bits // 8
        if at is not None:
            base = beyond(base, at, size)
        if self.edges and len(tensor.shape) == 1:
            self.edges.load_shared(tensor, base, k, at, bits)
            return
        if self.edges and at is None:
            (self.edges.store if instruction is STORE else self.edges.load)(tensor, base, k, bits)
            return
        offset = k * self.split.together * self.split.vector * size
        move(instruction, base, offset, bits, self.split.vector * size, **self.guard(k))
