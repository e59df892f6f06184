"""What the kernels over rows share: a row of a matrix in the registers of a CTA, of a warp, or of a cluster.

    row = Row(split(X.shape[1]))                  # this CTA's row
    x, w = row.load(X), row.load(W)               # 16 bytes a load, f32 from here on
    (squares,) = row.sum(row.map(square, x))      # the same value in all threads
    row.store(Y, row.map(scaled, x, w))

A row of n elements is cut into vectors of at most 16 bytes; thread t holds the vectors t, t + threads, ...  A row that does
not fit in registers is read again by every step that needs it, from memory or L2.  Sums are taken in a fixed order: the
same inputs give the same bits.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyptx import kernel, ptx, reg, smem
from pyptx.types import b16, b32, bf16, e4m3, f16, f32, s32, u8, u32, u64

__all__ = [
    "Row", "Split", "add", "apply", "constant", "exp", "fma", "log", "mul", "neg", "reciprocal", "row_kernel", "square", "sub",
]  # fmt: skip

WARP, MOST_WARPS, MOST_CTAS = 32, 16, 8
UNROLL = 4  # vectors of a row that is not kept, loaded side by side
CHAINS = 4  # sums that a thread adds up side by side
ROOM, SHARED = 96 * 1024, 227 * 1024  # bytes: of rows on their way to a CTA; of a multiprocessor of an H200
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

    @classmethod
    def once(cls, n: int, bits: int) -> "Split":
        """For one row a CTA: two to four loads a thread in flight, and several CTAs a multiprocessor."""
        vector, vectors = _vectors(n, bits)
        if vectors <= 2 * WARP:
            return cls(n, vector, WARP, rows=4)
        each = 2 if vectors <= 512 else 4
        return cls(n, vector, min(512, max(128, _whole_warps(vectors / each))))

    @classmethod
    def wide(cls, n: int, bits: int) -> "Split":
        """For long rows: a cluster of CTAs that keep 16,384 elements each, or 32,768 where eight are not enough."""
        return cls._cluster(n, bits, kept=64)

    @classmethod
    def looping(cls, n: int, bits: int) -> "Split":
        """For CTAs that go over many rows and keep sums beside the row."""
        vector, vectors = _vectors(n, bits)
        if vectors <= 2 * WARP:
            return cls(n, vector, WARP, rows=4)
        return cls(n, vector, min(512, max(128, _whole_warps(n / 16))), kept=16)

    @classmethod
    def wide_looping(cls, n: int, bits: int) -> "Split":
        """The same for clusters."""
        return cls._cluster(n, bits, kept=32)

    @classmethod
    def _cluster(cls, n: int, bits: int, kept: int) -> "Split":
        vector, _ = _vectors(n, bits)
        per_thread = kept // 2
        ctas = min(MOST_CTAS, 1 << (math.ceil(n / (512 * per_thread)) - 1).bit_length())
        return cls(n, vector, min(512, max(128, _whole_warps(n / ctas / per_thread))), ctas=ctas, kept=kept)

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

    def slots(self, bits: int) -> int:
        """Rows of matrices, `bits` a column of all of them, that find room in shared memory: one that is worked on, one or two on
        their way; 0 where there is room for fewer."""
        row = self.values * self.threads * self.rows * bits // 8
        return 3 if 3 * row <= ROOM else 2 if 2 * row <= 4 * ROOM // 3 else 0

    def workers(self, rows: int, bits: int, arrays: int) -> int:
        """How many CTAs, or warps of them, go over such matrices of so many rows: what is resident at once, as `arrays` registers for
        each of a thread's columns and 20 besides allow it.  More than rows are of no harm, where their number is not known: they
        add zeros to the sums."""
        threads, values = self.threads * self.rows, int(self.values)  # which torch.compile may have as a symbol
        resident = 65536 // (min(128, 20 + arrays * min(values, self.kept)) * threads)
        if slots := self.slots(bits):
            resident = min(resident, SHARED // (slots * values * threads * bits // 8 + 2048))
        ctas = MULTIPROCESSORS * max(1, resident) // self.ctas
        return (max(1, min(ctas, -(-rows // self.rows))) if type(rows) is int else ctas) * self.rows


def vector_of(n: int, bits: int) -> int:
    """Elements of the widest vector, up to 16 bytes, that divides n."""
    return math.gcd(n, 128 // bits) if n else 1


def _vectors(n: int, bits: int) -> tuple[int, int]:
    vector = vector_of(n, bits)
    return vector, n // vector


def _whole_warps(threads: float) -> int:
    return max(1, math.ceil(threads / WARP)) * WARP


def row_kernel(inputs, outputs, split: Callable[[int], Split], *, over_rows: bool = False, arch: str = "sm_80"):
    """The decorator of a kernel whose CTAs take the rows of Tiles ("M", "N"), one each; `over_rows`: P workers take all."""

    def grid(N, M=None, P=None):
        row = split(N)
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
        arch="sm_90" if wide else arch,
        **told,
    )


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
    """The row of the calling CTA, warp or cluster."""

    def __init__(self, split: Split):
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
        self.partials = smem.alloc(f32, (2, 4, MOST_WARPS), align=16) if self.warps > 1 else None
        self.totals = smem.alloc(f32, (2, 4, MOST_CTAS), align=16) if split.ctas > 1 else None
        self.turn = 0
        last = split.each - 1
        self._tail = {} if split.full(last) else {"pred": thread < split.n // split.vector - last * split.together}

    @classmethod
    def own(cls, split: Split) -> "Row":
        """In a kernel of one row a CTA: the last CTA's warps that have none end here."""
        row = cls(split)
        if split.rows > 1:
            with ptx.if_(row.index >= ptx.param(u32, "M")):
                ptx.ret()
        return row

    def over(self, m, step, *tensors):
        """A loop over the rows index, index + step, ... below m, with those of `tensors`: while one row is worked on the next is
        on its way, if there is room.  `index` is the row's in the body, and what it was behind."""
        first = self.index
        ahead = Ahead(self, tensors) if tensors and Ahead.fits(self.split, tensors) else None
        if ahead:
            distance = ahead.start(first, m, step)
        for self.index in ptx.range_(first, m, step):
            before = self.turn
            if ahead:
                ahead.fetch(self.index + distance, m)
            yield ahead.rows() if ahead else [self.load(tensor) for tensor in tensors]
            if (self.turn - before) % 2 and self.warps > 1:
                ptx.bar.sync(0)  # or a warp that is a row ahead would write what another one still reads
        self.index = first

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
        if self.split.fits:
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
        if split.fits:
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
            base = smem_address(self.partials)
            slot = base + self.warp * 4
            with ptx.if_(self.lane == 0):
                for i, each in enumerate(results):
                    ptx.inst.st.shared.f32(ptx.addr(slot, (half * 4 + i) * MOST_WARPS * 4), each)
            ptx.bar.sync(0)
            self._gather(results, base, half * 16 * MOST_WARPS, 4 * MOST_WARPS, self.warps, combine)
        if self.split.ctas > 1:
            self._over_cluster(results, half, combine)
        return results

    def _over_cluster(self, results, half: int, combine):
        base = smem_address(self.totals)
        with ptx.if_(self.in_cta < self.split.ctas):
            there = reg.scalar(u32)
            ptx.inst.mapa.shared__cluster.u32(there, base + self.rank * 4, self.lane)
            for i, each in enumerate(results):
                ptx.inst.st.shared__cluster.f32(ptx.addr(there, (half * 4 + i) * MOST_CTAS * 4), each)
        ptx.cluster.sync()
        self._gather(results, base, half * 16 * MOST_CTAS, 4 * MOST_CTAS, self.split.ctas, combine)

    def _gather(self, results, base, at: int, pitch: int, count: int, combine):
        """Each result of the `count` values that lie side by side."""
        for i, each in enumerate(results):
            parts = []
            while len(parts) < count:
                where = ptx.addr(base, at + i * pitch + len(parts) * 4)
                if count - len(parts) >= 4:
                    parts += (four := [reg.scalar(f32) for _ in range(4)])
                    ptx.inst.ld.shared.v4.f32(four, where)
                else:
                    parts.append(apply(ptx.inst.ld.shared.f32, where))
            ptx.inst.mov.f32(each, tree(parts, combine))


class Values:
    """f32 values of a row: those of the thread's k-th vector, in registers."""

    def __init__(self, row: Row):
        self.row = row
        self._kept: dict[int, list] = {}

    def vector(self, k: int, at) -> list:
        if at is not None or not self.row.split.fits:
            return self._make(k, at)
        if k not in self._kept:
            self._kept[k] = self._make(k, None)
        return self._kept[k]

    def _make(self, k: int, at) -> list:
        raise NotImplementedError


class Loaded(Values):
    def __init__(self, row: Row, tensor):
        super().__init__(row)
        self.tensor, self.base = tensor, row.address(tensor)
        # All loads are in flight before the first value is needed.
        self.bits = [self._load(k, None) for k in range(row.split.each)] if row.split.fits else None

    def _load(self, k: int, at) -> list:
        zero = {"init": 0} if self.row.guard(k) else {}  # what a thread that has none adds to a sum
        bits = registers(self.tensor.dtype, self.row.split.vector, **zero)
        self.row.move(LOAD, self.tensor, self.base, k, at, bits)
        return bits

    def _make(self, k: int, at) -> list:
        bits = self.bits[k] if self.bits is not None else self._load(k, at)
        return [value for each in bits for value in widened(each, self.tensor.dtype)]


class Fetched(Values):
    """Vectors of a thread in shared memory, `pitch` bytes apart from `place` on."""

    def __init__(self, row: Row, dtype, place, pitch: int):
        super().__init__(row)
        self.dtype = dtype
        self.bits = []
        for k in range(row.split.each):
            bits = registers(dtype, row.split.vector, **({"init": 0} if row.guard(k) else {}))
            move(ptx.inst.ld.shared, place, k * pitch, bits, row.split.vector * dtype.bits // 8, **row.guard(k))
            self.bits.append(bits)

    def _make(self, k: int, at) -> list:
        return [value for each in self.bits[k] for value in widened(each, self.dtype)]


class Ahead:
    """Rows of some matrices in shared memory: one that is worked on, others on their way.  Each thread copies and reads vectors of its
    own, so no barrier is needed."""

    def __init__(self, row: Row, tensors):
        self.row, self.tensors, self.sizes = row, tensors, self.sizes_of(row.split, tensors)
        self.threads = row.split.threads * row.split.rows
        thread = reg.from_(ptx.special.tid.x(), u32)
        self.slots = row.split.slots(bits_of(tensors))
        self.pitch = sum(self.sizes) * self.threads * row.split.each
        base = smem_address(smem.alloc(u8, self.slots * self.pitch, align=16))
        self.places = []  # of the thread's first vector of each
        for size in self.sizes:
            self.places.append(base + thread * size)
            base = base + size * self.threads * row.split.each
        self.slot = reg.scalar(u32, init=0)  # the offset of the next to be written, which holds the oldest

    @staticmethod
    def sizes_of(split: Split, tensors) -> list[int]:
        """Bytes of a vector of each."""
        return [split.vector * tensor.dtype.bits // 8 for tensor in tensors]

    @classmethod
    def fits(cls, split: Split, tensors) -> bool:
        copied = all(size in (4, 8, 16) for size in cls.sizes_of(split, tensors))
        return split.fits and copied and split.slots(bits_of(tensors)) > 0

    def start(self, first, m, step):
        """Fetches the first rows; how far ahead of a row the one is that is fetched beside it."""
        self.fetch(first, m)
        if self.slots == 2:
            return step
        self.fetch(first + step, m)
        return step + step

    def fetch(self, index, m):
        """Starts to copy the row, if it is one of the `m`, to where the oldest is."""
        row = self.row
        with ptx.if_(index < m):
            for tensor, size, place in zip(self.tensors, self.sizes, self.places, strict=True):
                base, to = row.address(tensor, index), place + self.slot
                for k in range(row.split.each):
                    where = ptx.addr(to, k * self.threads * size), ptx.addr(base, k * row.split.together * size)
                    copy = ptx.inst.cp.async_.cg if size == 16 else ptx.inst.cp.async_.ca
                    copy.shared.global_(*where, size, **row.guard(k))
        ptx.cp.async_.commit_group()
        self.slot += self.pitch
        ptx.inst.mov.u32(self.slot, 0, pred=self.slot == self.slots * self.pitch)

    def rows(self) -> list[Values]:
        """The oldest."""
        ptx.cp.async_.wait_group(self.slots - 1)
        return [
            Fetched(self.row, tensor.dtype, place + self.slot, self.threads * size)
            for tensor, size, place in zip(self.tensors, self.sizes, self.places, strict=True)
        ]


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
            self.kept = [list(map(copied, zeros)) for _ in range(row.split.each)]
        else:
            for k, at in row._steps():
                row.move(STORE, tensor, self.base, k, at, zeros)

    def add(self, values: Values):
        row = self.row
        for k, at in row._steps():
            more = values.vector(k, at)
            sums = self.kept[k] if row.split.fits else [constant(0.0) for _ in more]
            if not row.split.fits:
                row.move(ptx.inst.ld.global_, self.tensor, self.base, k, at, sums)
            for into, value in zip(sums, more, strict=True):
                ptx.inst.add.f32(into, into, value)
            if not row.split.fits:
                row.move(STORE, self.tensor, self.base, k, at, sums)

    def store(self):
        if self.row.split.fits:
            for k, sums in enumerate(self.kept):
                self.row.move(STORE, self.tensor, self.base, k, None, sums)


def bits_of(tensors) -> int:
    """Of a column of all of them."""
    return sum(tensor.dtype.bits for tensor in tensors)


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
