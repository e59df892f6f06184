"""What the kernels over rows share: a row of a matrix in the registers of a CTA, of a warp, or of a cluster.

    row = Row(split(X.shape[1]))                  # this CTA's row
    x, w = row.load(X), row.load(W)               # 16 bytes a load, f32 from here on
    (squares,) = row.sum(row.map(square, x))      # the same value in all threads
    row.store(Y, row.map(scaled, x, w))

A row of n elements is cut into vectors of at most 16 bytes; thread t holds the vectors t, t + threads, ...  A row that does
not fit in registers is read again by every step that needs it, from memory or L2.  Sums are taken in a fixed order: the
same inputs give the same bits.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyptx import kernel, ptx, reg, smem
from pyptx.types import b16, b32, bf16, e4m3, f16, f32, s32, u8, u32, u64

__all__ = [
    "Row", "Split", "add", "apply", "constant", "exp", "fma", "in_registers", "log", "mul", "neg", "paired", "reciprocal", "row_kernel", "square", "sub",
]  # fmt: skip

WARP, MOST_WARPS, MOST_CTAS = 32, 32, 8
UNROLL = 4  # vectors of a row that is not kept, loaded side by side
CHAINS = 4  # sums that a thread adds up side by side
SHARED = 227 * 1024  # bytes of a multiprocessor of an H200; a CTA of any GPU since sm_80 may have 99 K
LONG = 16384  # elements of a row, above which a cluster takes it
BESIDE = 3 * 1024  # of a CTA, besides rows
IN_FLIGHT = 24 * 1024  # bytes to a CTA that keep memory busy
SHARE = 144 * 1024  # bytes of a long row, of a CTA
HELD = 48  # registers of sums and of what is loaded before it is needed, of a thread that goes over rows
MULTIPROCESSORS = 132  # of an H200; a constant, so that sums over rows have one order everywhere
LOWEST = -3.0e38  # below all that a sum of exponentials tells apart
LOG2_E = math.log2(math.e)
LOAD, STORE = ptx.inst.ld.global_.nc, ptx.inst.st.global_


@dataclass(frozen=True)
class Split:
    """How threads share a row of n elements: `vector` elements at a time, `threads` of each of `ctas` CTAs, which are a cluster.

    `rows` rows a CTA, each a warp's, where rows are short.  The figures are measured on an H200.
    """

    n: int
    vector: int
    threads: int
    rows: int = 1
    ctas: int = 1
    kept: int = 64  # elements that a thread keeps in registers at most
    hopper: bool = False  # or a later GPU: its shared memory, and kernels that begin while the one before ends
    ring: bool = False  # whether CTAs go over rows that arrive in shared memory

    @classmethod
    def once(cls, n: int, bits: int, arrays: int = 1) -> "Split":
        """For one row a CTA: two to four loads a thread in flight, and several CTAs a multiprocessor."""
        vector, vectors = _vectors(n, bits)
        if vectors <= 2 * WARP:
            return cls(n, vector, WARP, rows=4)
        each = 2 if vectors <= 512 else 4
        return cls(n, vector, min(512, max(128, _whole_warps(vectors / each))))

    @classmethod
    def wide(cls, n: int, bits: int, arrays: int = 1) -> "Split":
        """`once` on a GPU with clusters.  Rows above LONG go through shared memory, those of `arrays` matrices at one time, where few CTAs have
        room for them: an agreement of a cluster takes a microsecond.  Else clusters keep 16,384 elements a CTA in registers, or read
        rows again."""
        if n <= LONG:
            return replace(cls.once(n, bits), hopper=True)
        vector, _ = _vectors(n, bits)
        size = n * bits * arrays / 8
        share, most = (SHARE, 1024) if arrays == 1 or size <= SHARE else (SHARE // 2, 512)
        if ring := arrays > 0 and (bits == 16 or size <= SHARE):
            ctas = min(MOST_CTAS, 1 << (math.ceil(size / share) - 1).bit_length())
        else:
            ctas, most = min(MOST_CTAS, 1 << (math.ceil(n / (512 * 32)) - 1).bit_length()), 512
        threads = min(most, max(128, _whole_warps(n / ctas / (16 if ring else 32))))
        return cls(n, vector, threads, ctas=ctas, kept=32, hopper=True, ring=ring)

    @classmethod
    def looping(cls, n: int, bits: int) -> "Split":
        """For CTAs that go over many rows and keep sums beside the row."""
        vector, vectors = _vectors(n, bits)
        if vectors <= 2 * WARP:
            return cls(n, vector, WARP, rows=4)
        return cls(n, vector, min(512, max(128, _whole_warps(n / 16))), kept=16)

    @classmethod
    def wide_looping(cls, n: int, bits: int) -> "Split":
        """The same on a GPU with clusters."""
        if n <= LONG // 2:
            return replace(cls.looping(n, bits), hopper=True)
        vector, _ = _vectors(n, bits)
        ctas = min(MOST_CTAS, 1 << (math.ceil(n / (512 * 16)) - 1).bit_length())
        return cls(n, vector, min(512, max(128, _whole_warps(n / ctas / 16))), ctas=ctas, kept=32, hopper=True)

    @property
    def each(self) -> int:
        """Vectors that a thread has at most."""
        return max(1, -(-self.n // (self.vector * self.together)))

    @property
    def together(self) -> int:
        """Threads of a row."""
        return self.threads * self.ctas

    @property
    def values(self) -> int:
        """Elements that a thread has at most."""
        return self.each * self.vector

    @property
    def fits(self) -> bool:
        """Whether the row stays in registers."""
        return self.values <= self.kept

    def full(self, k: int) -> bool:
        """Whether every thread has a k-th vector."""
        return (k + 1) * self.together * self.vector <= self.n

    def places(self, types: Sequence) -> int:
        """Vectors of a thread, each of all matrices of these types, that lie in shared memory: a row that is worked on and up to two that are
        on their way, of two CTAs where that leaves enough; 0 where there is no room for more than a row, or where copies of the
        vectors would be too narrow."""
        if self.each > 16 or any(self.vector * each.bits not in (32, 64, 128) for each in types):
            return 0
        pitch = self.pitch(types)
        least = self.each + -(-min(self.each * pitch, IN_FLIGHT) // pitch)
        for room in (SHARED // 2, SHARED) if self.hopper else (99 * 1024,):
            if (found := (room - BESIDE) // pitch) >= least and (room == SHARED or self.threads <= 512):
                return min(3 * self.each, found)
        return 0

    def pitch(self, types: Sequence) -> int:
        """Bytes of one vector of each thread of a CTA."""
        return self.vector * self.threads * self.rows * sum(each.bits for each in types) // 8

    def loops(self, types: Sequence) -> bool:
        """Whether CTAs go over many rows, the next of which are on their way to shared memory."""
        return self.ring and self.places(types) > 0

    def workers(self, rows: int, types: Sequence) -> int:
        """How many CTAs, or warps of them, go over matrices of these types and so many rows: what is resident at once, or as few as make it no
        longer.  More than rows are of no harm, where their number is not known: they add zeros to the sums."""
        resident = 65536 // (64 * self.threads * self.rows)
        if places := self.places(types):
            resident = min(resident, SHARED // (places * self.pitch(types) + BESIDE))
        ctas = MULTIPROCESSORS * max(1, resident) // self.ctas
        if type(rows) is int:
            turns = -(-rows // (ctas * self.rows))
            ctas = max(1, -(-rows // (max(1, turns) * self.rows)))
        return ctas * self.rows


def vector_of(n: int, bits: int) -> int:
    """Elements of the widest vector, up to 16 bytes, that divides n."""
    return math.gcd(n, 128 // bits) if n else 1


def _vectors(n: int, bits: int) -> tuple[int, int]:
    vector = vector_of(n, bits)
    return vector, n // vector


def _whole_warps(threads: float) -> int:
    return max(1, math.ceil(threads / WARP)) * WARP


def paired(split):
    """The way to share rows of two matrices that are read together."""
    return functools.partial(split.func, **split.keywords, arrays=2)


def in_registers(split):
    """The way to share rows that do not go through shared memory."""
    return functools.partial(split.func, **split.keywords, arrays=0)


def row_kernel(
    inputs, outputs, split: Callable[[int], Split], *, over_rows: bool = False, arch: str = "sm_80", directives=None
):
    """The decorator of a kernel whose CTAs take the rows of Tiles ("M", "N"), one each; `over_rows`: P workers take all."""
    matrices = tuple(tile.dtype for tile in inputs if len(tile.shape) > 1)

    def grid(N, M=None, P=None):
        row = split(N)
        if not over_rows and row.loops(matrices):
            return (clusters_of(row, M, matrices) * row.ctas, 1, 1)
        return (-(-(P if over_rows else M) // row.rows) * row.ctas, 1, 1)

    told = {"grid": lambda N, P: grid(N, P=P)} if over_rows else {"grid": lambda N, M: grid(N, M), "batch": "M"}
    wide = split.func in (Split.wide, Split.wide_looping)
    return kernel(
        in_specs=inputs,
        out_specs=outputs,
        raw_params=[("u32", "M")],
        block=lambda N: (split(N).threads * split(N).rows, 1, 1),
        cluster=(lambda N: (split(N).ctas, 1, 1)) if wide else (1, 1, 1),
        reqntid=True,
        raw_directives=directives,
        dependent_launch=wide,
        arch="sm_90" if wide else arch,
        **told,
    )


def clusters_of(row: Split, rows: int, types: Sequence) -> int:
    """Of a kernel that loops: as many as are resident; of large ones, eight rows each: not all multiprocessors find a place in one, and those
    that wait would begin when the others have ended."""
    workers = row.workers(rows, types)
    return workers if row.ctas <= 2 else -(-rows // max(1, min(8, rows // workers)))


# Arithmetic: each call writes an instruction, or few, into a new register.


def apply_to(result, instruction, *operands):
    instruction(result, *operands)
    return result


def apply(instruction, *operands):
    """A new f32 register with what the instruction makes of the operands."""
    return apply_to(reg.scalar(f32), instruction, *operands)


def constant(value: float):
    return reg.scalar(f32, init=value)


def add(a, b):
    return apply(ptx.inst.add.f32, a, b)


def sub(a, b):
    return apply(ptx.inst.sub.f32, a, b)


def mul(a, b):
    return apply(ptx.inst.mul.f32, a, b)


def fma(a, b, c):
    return apply(ptx.inst.fma.rn.f32, a, b, c)


def neg(a):
    return apply(ptx.inst.neg.f32, a)


def square(a):
    return mul(a, a)


def reciprocal(a):
    return apply(ptx.inst.rcp.rn.f32, a)


def exp(x):
    """e to the x by ex2.approx: 2 ulp and, as x log2(e) is rounded, |x| 2^-24 of it."""
    return apply(ptx.inst.ex2.approx.ftz.f32, mul(x, LOG2_E))


def log(x):
    """By lg2.approx: absolute error 2^-22 between 0.5 and 2, relative elsewhere."""
    return mul(apply(ptx.inst.lg2.approx.f32, x), 1 / LOG2_E)


class Row:
    """The row of the calling CTA, warp or cluster.  `agrees`: whether its threads tell each other something."""

    def __init__(self, split: Split, agrees: bool = True):
        self.split = split
        thread = reg.from_(ptx.special.tid.x(), u32)
        self.index = reg.from_(ptx.special.ctaid.x(), u32)
        self.in_cta = thread
        self.warp = thread >> 5
        self.lane = thread & (WARP - 1)
        self.warps = split.threads // WARP
        if split.rows > 1:
            thread, self.index = self.lane, self.index * split.rows + self.warp
        if split.ctas > 1:
            self.rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
            thread = self.rank * split.threads + thread
            self.index = self.index >> (split.ctas.bit_length() - 1)
        self.thread = thread  # among those of the row
        self.partials = Exchange(MOST_WARPS) if self.warps > 1 else None
        self.totals = Exchange(MOST_CTAS) if split.ctas > 1 else None
        self.turn = 0  # agreements so far
        self.again = False  # whether values are formed again behind each agreement, of rows that stay in shared memory
        self.whole = split.fits  # whether each vector of a thread has instructions of its own
        self.early = None
        self.most_held = HELD if split.threads <= 512 else HELD // 4
        self.held = 0  # registers that hold sums, and what was loaded before it is needed
        last = split.each - 1
        self._tail = {} if split.full(last) else {"pred": thread < split.n // split.vector - last * split.together}
        self.entered = split.ctas == 1
        if split.ctas > 1 and agrees:
            ptx.inst.barrier.cluster.arrive.relaxed()
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
        if ahead:
            self.whole = True
            ahead.start(first, m, step)
        if medians is not None:
            self.early = Early(self, medians)
            self.early.load(first, first < m)
        self.enter()
        exchanges = [each for each in (self.partials, self.totals) if each]
        for each in exchanges:
            each.begin_loop()
        for self.index in ptx.range_(first, m, step):
            before = self.turn
            if medians is not None:
                self.early.take()
                self.early.load(self.index + step, self.index + step < m)
            yield ahead.row_values() if ahead else [self.load(tensor) for tensor in tensors]
            if ahead:
                ahead.fetch(self.index, m, step)
            if (self.turn - before) % 2:
                for each in exchanges:
                    each.turn_over()
        self.index = first

    def enter(self):
        """Waits, once, until all CTAs of the cluster have begun: only then there is memory to write to."""
        if not self.entered:
            ptx.inst.barrier.cluster.wait()
            self.entered = True

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
        totals = [[constant(0.0) for _ in range(CHAINS)] for _ in inputs]
        for k, at in self._steps():
            for chains, each in zip(totals, inputs, strict=True):
                factors = [values.vector(k, at) for values in (each if isinstance(each, tuple) else (each,))]
                for i, operands in enumerate(zip(*factors, strict=True)):
                    into = chains[i % CHAINS]
                    combine = ptx.inst.fma.rn.f32 if len(operands) == 2 else ptx.inst.add.f32
                    combine(into, *operands, into, **self.guard(k))
        return self._agree([tree(each, ptx.inst.add.f32) for each in totals], ptx.inst.add.f32, ptx.warp.reduce_sum)

    def max(self, values: "Values"):
        """The largest; NaN where there is one."""
        chains = [constant(-math.inf) for _ in range(CHAINS)]
        for k, at in self._steps():
            for i, value in enumerate(values.vector(k, at)):
                into = chains[i % CHAINS]
                ptx.inst.max.NaN.f32(into, into, value, **self.guard(k))
        return self._agree([tree(chains, ptx.inst.max.NaN.f32)], ptx.inst.max.NaN.f32, warp_max)[0]

    def exponentials(self, x: "Values"):
        """(largest, sum of exp(x - largest)).  A row that is not kept is read once: each thread has the largest that it met,
        and a sum relative to it."""
        if self.whole:
            largest = self.max(x)
            return largest, *self.sum(self.map(lambda x: exp(sub(x, largest)), x))
        mine, total = constant(LOWEST), constant(0.0)
        for k, at in self._steps():
            values, guard = x.vector(k, at), self.guard(k)
            before = apply(ptx.inst.mov.f32, mine)
            for value in values:
                ptx.inst.max.NaN.f32(mine, mine, value, **guard)
            ptx.inst.mul.f32(total, total, exp(sub(before, mine)))
            for value in values:
                ptx.inst.add.f32(total, total, exp(sub(value, mine)), **guard)
        largest = self._agree([apply(ptx.inst.mov.f32, mine)], ptx.inst.max.NaN.f32, warp_max)[0]
        ptx.inst.mul.f32(total, total, exp(sub(mine, largest)))
        return largest, *self._agree([total], ptx.inst.add.f32, ptx.warp.reduce_sum)

    def element(self, tensor, column):
        """The value in the column that a register names, for the threads that ask."""
        (pointer,) = ptx.global_ptrs(tensor)
        size = tensor.dtype.bits // 8
        at = apply_to(reg.scalar(u64), ptx.inst.mul.wide.u32, self.index, self.split.n)
        bits = reg.scalar(b32 if size == 4 else b16)
        (LOAD.b32 if size == 4 else LOAD.b16)(bits, ptx.addr(pointer + (at + column) * size))
        return apply(ptx.inst.mov.b32, bits) if size == 4 else widened(bits, tensor.dtype)[0]

    def store(self, tensor, values: "Values"):
        """Writes the row of a matrix."""
        base = self.address(tensor)
        for k, at in self._steps():
            self.move(STORE, tensor, base, k, at, narrowed(values.vector(k, at), tensor.dtype))

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

    def _steps(self):
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

    def _agree(self, results: list, combine, over_warp) -> list:
        """Registers of each thread, combined over the row.

        Each warp leaves its value in shared memory and every thread combines them all; then each CTA of a cluster leaves
        its own in all of them.  Two halves of the memory take turns: who writes one has seen the barrier behind which
        the other was read."""
        for each in results:
            over_warp(each)
        half = self.turn % 2
        self.turn += 1
        if self.warps > 1:
            base = self.partials.address(half)
            slot = base + self.warp * 4
            with ptx.if_(self.lane == 0):
                for i, each in enumerate(results):
                    ptx.inst.st.shared.f32(ptx.addr(slot, i * MOST_WARPS * 4), each)
            ptx.bar.sync(0)
            self._gather(results, base, 4 * MOST_WARPS, self.warps, combine)
        if self.split.ctas > 1:
            self._over_cluster(results, half, combine)
        return results

    def _over_cluster(self, results, half: int, combine):
        self.enter()
        base = self.totals.address(half)
        with ptx.if_(self.in_cta < self.split.ctas):
            there = reg.scalar(u32)
            ptx.inst.mapa.shared__cluster.u32(there, base + self.rank * 4, self.lane)
            for i, each in enumerate(results):
                ptx.inst.st.shared__cluster.f32(ptx.addr(there, i * MOST_CTAS * 4), each)
        ptx.cluster.sync()
        self._gather(results, base, 4 * MOST_CTAS, self.split.ctas, combine)

    def _gather(self, results, base, pitch: int, count: int, combine):
        """Each result of the `count` values that lie side by side."""
        for i, each in enumerate(results):
            parts = []
            while len(parts) < count:
                where = ptx.addr(base, i * pitch + len(parts) * 4)
                if count - len(parts) >= 4:
                    parts += (four := [reg.scalar(f32) for _ in range(4)])
                    ptx.inst.ld.shared.v4.f32(four, where)
                else:
                    parts.append(apply(ptx.inst.ld.shared.f32, where))
            ptx.inst.mov.f32(each, tree(parts, combine))


class Exchange:
    """Where warps, or CTAs, leave what the others read: two halves, of up to four results of `count` each."""

    def __init__(self, count: int):
        self.count, self.half = count, 4 * count * 4  # bytes
        self.memory = smem.alloc(f32, (2, 4, count), align=2 * self.half)
        self.halves = None

    def address(self, half: int):
        if self.halves is not None:
            return self.halves[half]
        base = smem_address(self.memory)
        return base + self.half if half else base

    def begin_loop(self):
        """From here on the addresses are registers that `turn_over` changes."""
        self.halves = [copied(self.address(half)) for half in (0, 1)]

    def turn_over(self):
        """At the end of a loop's body that has an odd number of agreements: the next time begins with the other half."""
        for each in self.halves:
            ptx.inst.xor.b32(each, each, self.half)


class Values:
    """f32 values of a row: those of the thread's k-th vector, in registers."""

    def __init__(self, row: Row):
        self.row = row
        self._kept: dict[tuple, list] = {}

    def vector(self, k: int, at) -> list:
        if at is not None or not self.row.whole:
            return self._make(k, at)
        key = k, self.row.turn if self.row.again else 0
        if key not in self._kept:
            self._kept[key] = self._make(k, None)
        return self._kept[key]

    def _make(self, k: int, at) -> list:
        raise NotImplementedError


class Loaded(Values):
    def __init__(self, row: Row, tensor):
        super().__init__(row)
        self.tensor, self.base = tensor, row.address(tensor)
        self.bits = None
        if row.held + row.registers_of(tensor) <= row.most_held if row.again else row.split.fits:
            # All loads are in flight before the first value is needed.
            row.held += row.registers_of(tensor)
            self.bits = [self._load(k, None) for k in range(row.split.each)]

    def _load(self, k: int, at) -> list:
        zero = {"init": 0} if self.row.guard(k) else {}  # what a thread that has none adds to a sum
        bits = registers(self.tensor.dtype, self.row.split.vector, **zero)
        self.row.move(LOAD, self.tensor, self.base, k, at, bits)
        return bits

    def _make(self, k: int, at) -> list:
        bits = self.bits[k] if self.bits is not None else self._load(k, at)
        return [value for each in bits for value in widened(each, self.tensor.dtype)]


class Fetched(Values):
    """Vectors of a thread in shared memory, which `ahead` brings there."""

    def __init__(self, row: Row, ahead: "Ahead", number: int):
        super().__init__(row)
        self.ahead, self.number = ahead, number

    def _make(self, k: int, at) -> list:
        guard, dtype, size = self.row.guard(k), self.ahead.tensors[self.number].dtype, self.ahead.sizes[self.number]
        bits = registers(dtype, self.row.split.vector, **({"init": 0} if guard else {}))
        self.ahead.wait(k)
        move(ptx.inst.ld.shared, self.ahead.place(self.number, k), 0, bits, size, **guard)
        return [value for each in bits for value in widened(each, dtype)]


class Ahead:
    """Rows of some matrices on their way to shared memory: a ring of vectors, those of a row one after the other.  Each thread copies and
    reads vectors of its own, so no barrier is needed."""

    def __init__(self, row: Row, tensors):
        self.row, self.tensors = row, tensors
        types = [tensor.dtype for tensor in tensors]
        self.sizes = [row.split.vector * dtype.bits // 8 for dtype in types]  # bytes of a vector of each
        self.places, self.pitch = row.split.places(types), row.split.pitch(types)
        self.total = self.places * self.pitch
        thread = reg.from_(ptx.special.tid.x(), u32)
        base = smem_address(smem.alloc(u8, self.total, align=16))
        self.bases = []  # of the thread's vector of each, in the first place
        for size in self.sizes:
            self.bases.append(base + thread * size)
            base = base + size * row.split.threads * row.split.rows
        self.first = reg.scalar(u32, init=0)  # the offset of the row's first vector
        self.arrived: set[int] = set()

    def place(self, number: int, k: int):
        """Where the k-th vector of the row is, of one of the matrices."""
        return self.bases[number] + self.offset(k)

    def offset(self, k: int):
        if k == 0:
            return self.first
        offset, over = self.first + k * self.pitch, reg.scalar(u32)
        ptx.inst.sub.u32(over, offset, self.total)  # huge, if it is inside
        return apply_to(over, ptx.inst.min.u32, offset, over)

    def start(self, first, m, step):
        """Fetches as much as there is room for."""
        index = first
        for j in range(-(-self.places // self.row.split.each)):
            index = index + step if j else index
            self.copy(
                index, m, [(k, None) for k in range(min(self.row.split.each, self.places - j * self.row.split.each))], j
            )

    def fetch(self, index, m, step):
        """Behind the work on a row: what is next, to where the row was."""
        each = self.row.split.each
        further: dict[int, list] = {}
        for k in range(each):
            further.setdefault((k + self.places) // each, []).append(((k + self.places) % each, self.offset(k)))
        for j in range(1, max(further) + 1):
            index = index + step
            if j in further:
                self.copy(index, m, further[j])
        ptx.inst.mov.u32(self.first, self.offset(each) if self.places > each else self.first)

    def copy(self, index, m, vectors, j: int = 0):
        """Starts to copy vectors (k, to which offset) of a row, if it is one of the m; each is a group."""
        row, inside = self.row, index < m
        bases = [row.address(tensor, index) for tensor in self.tensors]
        for k, offset in vectors:
            guard = row.guard(k)
            there = inside & guard["pred"] if guard else inside
            for number, (size, base) in enumerate(zip(self.sizes, bases, strict=True)):
                if offset is None:
                    to = ptx.addr(self.bases[number], (j * row.split.each + k) * self.pitch)
                else:
                    to = ptx.addr(self.bases[number] + offset)
                copy = ptx.inst.cp.async_.cg if size == 16 else ptx.inst.cp.async_.ca
                copy.shared.global_(to, ptx.addr(base, k * row.split.together * size), size, pred=there)
            ptx.cp.async_.commit_group()

    def row_values(self) -> list[Values]:
        self.arrived.clear()
        return [Fetched(self.row, self, number) for number in range(len(self.tensors))]

    def wait(self, k: int):
        """Until the k-th vector of the row is there."""
        if k not in self.arrived:
            ptx.cp.async_.wait_group(self.places - 1 - k)
            self.arrived.add(k)


class Early:
    """Three elements of a row, loaded a row ahead: the first, the middle and the last one; `value`: their median."""

    def __init__(self, row: Row, tensor):
        self.dtype, self.n = tensor.dtype, row.split.n
        (self.pointer,) = ptx.global_ptrs(tensor)
        self.bits = [reg.scalar(b32 if self.dtype.bits == 32 else b16, init=0) for _ in range(3)]
        self.value = constant(0.0)

    def load(self, index, there_is=None):
        if self.n == 0:
            return
        size, guard = self.dtype.bits // 8, {} if there_is is None else {"pred": there_is}
        base = apply_to(reg.scalar(u64), ptx.inst.mad.wide.u32, index, self.n * size, self.pointer)
        for bits, column in zip(self.bits, (0, self.n // 2, self.n - 1), strict=True):
            (LOAD.b32 if size == 4 else LOAD.b16)(bits, ptx.addr(base, column * size), **guard)

    def take(self):
        a, b, c = (
            apply(ptx.inst.mov.b32, bits) if self.dtype == f32 else widened(bits, self.dtype)[0] for bits in self.bits
        )
        low, high = (apply(instruction, a, b) for instruction in (ptx.inst.min.f32, ptx.inst.max.f32))
        ptx.inst.max.f32(self.value, low, apply(ptx.inst.min.f32, high, c))


class Mapped(Values):
    def __init__(self, row: Row, function: Callable, inputs: Sequence[Values]):
        super().__init__(row)
        self.function, self.inputs = function, inputs

    def _make(self, k: int, at) -> list:
        columns = zip(*(each.vector(k, at) for each in self.inputs), strict=True)
        return [self.function(*column) for column in columns]


class Rounded(Values):
    def __init__(self, row: Row, values: Values, dtype):
        super().__init__(row)
        self.values, self.dtype = values, dtype

    def _make(self, k: int, at) -> list:
        bits = narrowed(self.values.vector(k, at), self.dtype)
        return [value for each in bits for value in widened(each, self.dtype)]


class Columns(Values):
    def _make(self, k: int, at) -> list:
        split = self.row.split
        first = reg.scalar(s32)
        ptx.inst.mad.lo.s32(first, self.row.thread, split.vector, k * split.together * split.vector)
        if at is not None:
            ptx.inst.add.s32(first, first, at)
        return [first + i for i in range(split.vector)]


class Sums:
    """What rows add up to: in registers until `store`, or in memory where the row is not kept."""

    def __init__(self, row: Row, tensor):
        self.row, self.tensor, self.base = row, tensor, row.address(tensor)
        zeros = [constant(0.0) for _ in range(row.split.vector)]
        if row.split.fits:
            row.held += row.split.values
            self.kept = [list(map(copied, zeros)) for _ in range(row.split.each)]
        else:
            for k, at in row._steps():
                row.move(STORE, tensor, self.base, k, at, zeros)

    def add(self, *factors: Values):
        """Values, or the products of two."""
        row, combine = self.row, ptx.inst.add.f32 if len(factors) == 1 else ptx.inst.fma.rn.f32
        for k, at in row._steps():
            more = list(zip(*(values.vector(k, at) for values in factors), strict=True))
            sums = self.kept[k] if row.split.fits else [constant(0.0) for _ in more]
            if not row.split.fits:
                row.move(ptx.inst.ld.global_, self.tensor, self.base, k, at, sums)
            for into, operands in zip(sums, more, strict=True):
                combine(into, *operands, into)
            if not row.split.fits:
                row.move(STORE, self.tensor, self.base, k, at, sums)

    def store(self):
        if self.row.split.fits:
            for k, sums in enumerate(self.kept):
                self.row.move(STORE, self.tensor, self.base, k, None, sums)


def registers(dtype, count: int, **init) -> list:
    """New registers for a vector of elements: two halves in one where there are several."""
    kind = f32 if dtype == f32 else b32 if dtype.bits * count >= 32 else b16
    return [reg.scalar(kind, **init) for _ in range(max(1, dtype.bits * count // 32))]


def move(instruction, base, offset: int, bits: list, count: int, **guard):
    """ld or st of the registers of `count` bytes, four registers at a time."""
    each = count // len(bits)
    for i in range(0, len(bits), 4):
        some = bits[i : i + 4]
        where = ptx.addr(base, offset + each * i)
        spelled = getattr(getattr(instruction, f"v{len(some)}") if len(some) > 1 else instruction, f"b{8 * each}")
        value = some if len(some) > 1 else some[0]
        spelled(*((where, value) if instruction is STORE else (value, where)), **guard)


def widened(bits, dtype) -> list:
    """f32 values of a register: one, or two halves."""
    if dtype == f32:
        return [bits]
    if dtype == bf16 and bits.dtype == b32:  # the upper half of an f32 is a bf16
        low, high = reg.scalar(b32), reg.scalar(b32)
        ptx.inst.shl.b32(low, bits, 16)
        ptx.inst.and_.b32(high, bits, 0xFFFF0000)
        return [apply(ptx.inst.mov.b32, low), apply(ptx.inst.mov.b32, high)]
    if dtype == bf16:
        return [apply(ptx.inst.mov.b32, [reg.scalar(b16, init=0), bits])]
    halves = [bits]
    if bits.dtype == b32:
        halves = [reg.scalar(f16), reg.scalar(f16)]
        ptx.inst.mov.b32(halves, bits)
    return [apply(ptx.inst.cvt.f32.f16, half) for half in halves]


def narrowed(values: Sequence, dtype) -> list:
    """Registers of `dtype`, rounded to nearest: two halves, or four bytes, in one where there are several."""
    if dtype == f32:
        return list(values)
    if dtype == e4m3:
        return bytes_of(values)
    if len(values) == 1:
        half = reg.scalar(b16)
        getattr(ptx.inst.cvt.rn, dtype.name).f32(half, values[0])
        return [half]
    packed = []
    for low, high in zip(values[::2], values[1::2], strict=True):
        packed.append(reg.scalar(b32))
        getattr(ptx.inst.cvt.rn, dtype.name + "x2").f32(packed[-1], high, low)
    return packed


def bytes_of(values: Sequence) -> list:
    """Registers of e4m3 values; what is above the largest, 448, becomes that."""
    pairs = []
    for low, high in zip(values[::2], values[1::2] or [0.0], strict=True):
        pairs.append(reg.scalar(b16))
        ptx.inst.cvt.rn.satfinite.e4m3x2.f32(pairs[-1], high, low)
    if len(pairs) == 1:
        return pairs
    return [
        apply_to(reg.scalar(b32), ptx.inst.mov.b32, list(pair)) for pair in zip(pairs[::2], pairs[1::2], strict=True)
    ]


def tree(values: Sequence, combine):
    """All of them combined in pairs, in the first register."""
    values = list(values)
    while len(values) > 1:
        half = (len(values) + 1) // 2
        for low, high in zip(values, values[half:], strict=False):
            combine(low, low, high)
        values = values[:half]
    return values[0]


def warp_max(value):
    """The largest of a warp's values in all lanes; NaN where there is one, which `ptx.warp.reduce_max` leaves out."""
    for distance in (16, 8, 4, 2, 1):
        other = reg.scalar(f32)
        ptx.inst.shfl.sync.bfly.b32(other, value, distance, 31, 0xFFFFFFFF)
        ptx.inst.max.NaN.f32(value, value, other)


def copied(register):
    move = ptx.inst.mov.b16 if register.dtype.bits == 16 else ptx.inst.mov.b32
    return apply_to(reg.scalar(register.dtype), move, register)


def smem_address(allocation):
    return apply_to(reg.scalar(u32), ptx.inst.mov.u32, allocation.name)
