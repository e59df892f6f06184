"""Rows on their way: CTAs that go over rows have the next ones copied to shared memory while they work on one; so come, part by part, rows that are
read once."""

from pyptx import ptx, reg, smem
from pyptx.kernels._registers import (
    LOAD,
    apply,
    apply_to,
    beyond,
    constant,
    element,
    move,
    registers,
    smem_address,
    widened,
)
from pyptx.kernels._rows.split import SHARED
from pyptx.kernels._rows.values import Values
from pyptx.types import b16, b32, u8, u32

__all__ = ["Ahead", "Early", "Stream", "median_of", "places_of_median"]


def least_memory(split) -> int:
    """Bytes of a CTA, of which a multiprocessor has room for no more than are to be resident: some would have more, and others fewer.  Where vectors
    divide rows, registers see to that if there are several."""
    return SHARED // (split.resident + 1) + 1024 if split.resident == 1 or (split.resident and split.edges) else 0


class Ahead:
    """The ring: vectors of some matrices, row after row.  Each thread copies the vectors that it reads itself, so no barrier is needed."""

    def __init__(self, row, tensors):
        self.row, self.tensors = row, tensors
        types = [tensor.dtype for tensor in tensors]
        self.sizes = [row.split.vector * dtype.bits // 8 for dtype in types]  # bytes of a vector of each
        self.places, self.pitch = row.split.places(types), row.split.pitch(types)
        self.total = self.places * self.pitch
        thread = reg.from_(ptx.special.tid.x(), u32)
        self.memory = smem.alloc(u8, max(self.total, least_memory(row.split)), align=16)
        base = smem_address(self.memory)
        # Addresses of the thread's vectors in the first place of the ring; for each matrix, which of them, and bytes behind it.
        alike, begin = len(set(self.sizes)) == 1, 0
        self.bases, self.lies = [], []
        for number, size in enumerate(self.sizes):
            if number == 0 or not alike:
                self.bases.append(base + begin + thread * size)
            self.lies.append((0, begin) if alike else (number, 0))
            begin += size * row.split.threads * row.split.rows
        self.first = reg.scalar(u32, init=0)  # the offset of the row's first vector
        self.arrived: set[int] = set()
        # If places are whole rows, the addresses of the present row and the next one, where their vectors lie side by side.
        self.whole = self.places % row.split.each == 0
        self.rows: list[list] = []

    def place(self, number: int, k: int) -> tuple:
        """Where the k-th vector of the row lies, of the matrix with this number: an address, and bytes behind it."""
        which, behind = self.lies[number]
        if not self.whole:
            return self.bases[which] + self.offset(k), behind
        of_row, k = divmod(k, self.row.split.each)
        return self.rows[of_row][which], behind + k * self.pitch

    def offset(self, k: int):
        if k == 0:
            return self.first
        offset, over = self.first + k * self.pitch, reg.scalar(u32)
        ptx.inst.sub.u32(over, offset, self.total)  # huge, if it is inside
        return apply_to(over, ptx.inst.min.u32, offset, over)

    def begin_row(self):
        """Finds where the present row and the next one begin."""
        self.second = self.offset(self.row.split.each) if self.places > self.row.split.each else self.first
        if self.whole:
            self.rows = [[base + at for base in self.bases] for at in (self.first, self.second)]

    def start(self, first, m, step):
        """Starts to copy as many rows as there is room for, from row `first` on."""
        index = first
        for j in range(-(-self.places // self.row.split.each)):
            index = index + step if j else index
            inside, bases = index < m, self.addresses(index)
            for k in range(min(self.row.split.each, self.places - j * self.row.split.each)):
                offset = (j * self.row.split.each + k) * self.pitch
                to = [(self.bases[which], behind + offset) for which, behind in self.lies]
                self.copy(index, inside, bases, k, to)
        self.begin_row()

    def addresses(self, index) -> list:
        """Where the rows of a turn begin."""
        number, _ = self.row.of_turn(index)
        return [self.row.address(tensor, number) for tensor in self.tensors]

    def fetch(self):
        """Ends the work on a row: starts the copies to its place that are not under way yet."""
        while self.fetched < self.row.split.each:
            self.fetch_next()
        ptx.inst.mov.u32(self.first, self.second)

    def fetch_next(self):
        """Starts the copy to the place of the row's next vector, which nobody needs any more."""
        k, each, (index, m, step) = self.fetched, self.row.split.each, self.where
        further, of_row = divmod(k + self.places, each)
        if further not in self.bases_of:
            index = apply_to(reg.scalar(u32), ptx.inst.mad.lo.u32, step, further, index)
            self.bases_of[further] = index, index < m, self.addresses(index)
        self.copy(*self.bases_of[further], of_row, [self.place(number, k) for number in range(len(self.tensors))])
        self.fetched = k + 1

    def copy(self, index, inside, bases, k: int, to):
        """Starts to copy the k-th vectors of the rows with this number, which begin at `bases`, if they are `inside`, to the places `to`.  The copies
        are one group."""
        row, guard = self.row, self.row.guard(k)
        there_of = row.edges.copied(k, index) if row.edges else []
        there = inside & guard["pred"] if guard else inside
        for size, base, (place, offset) in zip(self.sizes, bases, to, strict=True):
            copy = ptx.inst.cp.async_.cg if size == 16 else ptx.inst.cp.async_.ca
            copy.shared.global_(
                ptx.addr(place, offset), ptx.addr(base, k * row.split.together * size), size, *there_of, pred=there
            )
        ptx.cp.async_.commit_group()

    def row_values(self, index, m, step) -> list[Values]:
        """The values of the row `index`; the rows after it are `step` further each, and below m."""
        self.arrived.clear()
        self.where, self.fetched, self.bases_of = (index, m, step), 0, {}
        self.begin_row()
        return self.values()

    def values(self, behind: int = 0) -> list[Values]:
        """The values of the row, or of the row that lies so many vectors behind it."""
        return [Fetched(self.row, self, number, behind) for number in range(len(self.tensors))]

    def wait(self, k: int):
        """Waits until the k-th vector of the row has arrived."""
        if k not in self.arrived:
            ptx.cp.async_.wait_group(self.places - 1 - k)
            self.arrived.add(k)


class Fetched(Values):
    """Values of a row that `ahead` copies to shared memory."""

    def __init__(self, row, ahead: Ahead, number: int, behind: int):
        super().__init__(row)
        self.ahead, self.number, self.behind = ahead, number, behind

    def _make(self, k: int, at) -> list:
        guard, dtype, size = self.row.guard(k), self.ahead.tensors[self.number].dtype, self.ahead.sizes[self.number]
        bits = registers(dtype, self.row.split.vector, **({"init": 0} if guard else {}))
        self.ahead.wait(k + self.behind)
        place, offset = self.ahead.place(self.number, k + self.behind)
        move(ptx.inst.ld.shared, place, offset, bits, size, **guard)
        return [value for each in bits for value in widened(each, dtype)]


def places_of_median(n: int) -> list[int]:
    """Three columns, of whose elements `Row.median` takes the median.  They are multiples of the golden section: no borders of images, and no multiples of
    the sizes of heads and channels, where several elements may be far from all others (zeros of padding), from which sums of squares lose digits."""
    return [int(n * part) for part in (0.2360680, 0.6180340, 0.8541020)]


class Early:
    """The elements of the next row of which there is a median, which are loaded early.  `value`: their median, for the row that is worked
    on."""

    def __init__(self, row, tensor):
        self.dtype, self.n, self.begin = tensor.dtype, row.split.n, row.begins(tensor)
        self.bits = [reg.scalar(b32 if self.dtype.bits == 32 else b16, init=0) for _ in range(3)]
        self.value = self.taken = constant(0.0)

    def load(self, index, there_is=None):
        if self.n == 0:
            return
        size, guard = self.dtype.bits // 8, {} if there_is is None else {"pred": there_is}
        base = self.begin(index)
        for bits, column in zip(self.bits, places_of_median(self.n), strict=True):
            (LOAD.b32 if size == 4 else LOAD.b16)(bits, ptx.addr(base, column * size), **guard)

    def take(self):
        median_of(self.taken, *(element(bits, self.dtype) for bits in self.bits))


def median_of(result, a, b, c):
    low, high = (apply(instruction, a, b) for instruction in (ptx.inst.min.f32, ptx.inst.max.f32))
    ptx.inst.max.f32(result, low, apply(ptx.inst.min.f32, high, c))


class Stream:
    """A row that is read once, from its first vector to its last: DEPTH vectors of each thread are on their way to shared memory.  As registers they
    would not be: the assembler puts off loads, and has two of four under way."""

    DEPTH = 4

    def __init__(self, row, tensor):
        self.row, self.tensor, split = row, tensor, row.split
        self.size = split.vector * tensor.dtype.bits // 8
        self.pitch = self.size * split.threads
        self.step = split.together * split.vector  # elements from a thread's vector to its next
        self.at = smem_address(smem.alloc(u8, self.DEPTH * self.pitch, align=16)) + row.in_cta * self.size
        self.base = row.address(tensor)
        first = row.edges.begin if row.edges else row.thread * split.vector
        # Elements of the row from the thread's first vector on.
        self.left = apply_to(reg.scalar(u32), ptx.inst.sub.u32, split.n, first)
        for k in range(self.DEPTH):
            self.copy(k)

    @staticmethod
    def takes(split, tensor) -> bool:
        return split.rows == 1 and split.vector * tensor.dtype.bits in (32, 64, 128)

    def vectors(self):
        """(k, at, the values) of each vector, as `steps` of the row has them.  The loop copies what all threads have."""
        split, depth, apart = self.row.split, self.DEPTH, int(self.row.split.edges)
        turns = max(0, (split.n // self.step - apart) // depth - 1)
        yield from self.some(range(apart))
        for at in ptx.range_(0, turns * depth * self.step, depth * self.step):
            for k in range(apart, apart + depth):
                yield k, at, self.values(k, depth - 1)
                self.copy(k + depth, at)
        yield from self.some(range(apart + turns * depth, split.each))

    def some(self, numbers: range):
        """The vectors with these numbers, outside of the loop."""
        depth, each = self.DEPTH, self.row.split.each
        for k in numbers:
            yield k, None, self.values(k, max(depth, min(k + depth, each)) - 1 - k)
            if k + depth < each:
                self.copy(k + depth)

    def copy(self, k: int, at=None):
        """Starts to copy the k-th vector, if the row has it, or the one so far behind `at` elements."""
        base, behind, bits = self.base, k * self.step, self.tensor.dtype.bits
        if at is not None:
            base = beyond(base, at, bits // 8)
        copy = ptx.inst.cp.async_.cg if self.size == 16 else ptx.inst.cp.async_.ca
        place, rest = self.at + k % self.DEPTH * self.pitch, {}
        size = [self.size]
        if at is None and not self.row.split.full(k):
            rest = {"pred": self.left > behind}
            size += self.of_matrix(behind)
        copy.shared.global_(ptx.addr(place), ptx.addr(base, behind * bits // 8), *size, **rest)
        ptx.cp.async_.commit_group()

    def of_matrix(self, behind: int) -> list:
        """How many bytes of the vector are to be read, where it may end behind the last row of the matrix."""
        if not self.row.edges:
            return []
        there = apply_to(reg.scalar(u32), ptx.inst.min.u32, (self.left - behind) * 2, self.size)
        ptx.inst.mov.u32(there, self.size, pred=self.row.index + 1 < ptx.param(u32, "M"))
        return [there]

    def values(self, k: int, later: int) -> list:
        """The values of the k-th vector; `later` vectors behind it are on their way."""
        bits = registers(self.tensor.dtype, self.row.split.vector)
        ptx.cp.async_.wait_group(later)
        move(ptx.inst.ld.shared, self.at, k % self.DEPTH * self.pitch, bits, self.size)
        return [value for each in bits for value in widened(each, self.tensor.dtype)]
