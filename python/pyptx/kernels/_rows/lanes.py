"""How `quantize_fp8` shares blocks of 128 columns: by vectors of a row, or, where these would be narrow, by those of memory."""

from pyptx import ptx, reg
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    apply_to,
    beyond,
    bytes_of,
    copied,
    move,
    mul,
    registers,
    to_u64,
    widened,
)
from pyptx.kernels._rows.apart import Apart
from pyptx.kernels._rows.edges import compared, load_elements, shifted
from pyptx.kernels._rows.split import WARP, vector_of
from pyptx.types import b8, b16, b32, b64, pred, u32

__all__ = ["BLOCK", "Lanes", "lanes_of"]

BLOCK = 128


def lanes_of(n: int, dtype) -> "Lanes":
    """For rows of n elements."""
    narrow = vector_of(n, dtype.bits) * dtype.bits < 128
    return Shifted(n, dtype) if narrow and n >= BLOCK // 2 else Lanes(n, dtype, vector_of(n, dtype.bits))


class Lanes:
    """How the lanes of a warp share blocks of 128 columns: `lanes` lanes take one block, so the warp takes `across` blocks together, which lie
    side by side in a row, or in different rows.  A lane has `each` vectors of `vector` elements, `lanes` vectors apart.  Its rows are `step` apart.
    """

    step = 1

    def __init__(self, n: int, dtype, vector: int):
        self.n, self.dtype, self.vector = n, dtype, vector
        self.lanes = min(WARP, BLOCK // vector)
        self.across = WARP // self.lanes
        self.each = BLOCK // (self.lanes * vector)

    def place(self):
        """(the warp, which of its `across` blocks, the column within the block) of the thread."""
        thread = reg.from_(ptx.special.tid.x(), u32)
        lane = thread & 31
        return thread >> 5, lane >> (self.lanes.bit_length() - 1), (lane & (self.lanes - 1)) * self.vector

    def begin(self, row, column, within):
        """Tells the first row of the lane."""

    def place_in(self, tensor, row, column):
        """The address of an element of a matrix."""
        size = tensor.dtype.bits // 8
        if isinstance(tensor, Apart):
            return beyond(tensor.begin(row), column, size)
        (pointer,) = ptx.global_ptrs(tensor)
        return pointer + beyond(to_u64(column), row, self.n) * size

    def vectors(self, row, column, rows):
        """(row, column, predicate that it exists) for each of the lane's vectors of a row."""
        inside, pitch = row < rows, self.lanes * self.vector
        columns = [column + k * pitch if k else column for k in range(self.each)]
        return [(row, each, inside & (each < self.n)) for each in columns]

    def load(self, X, vectors) -> list:
        size, found = self.dtype.bits // 8, []
        for row, column, inside in vectors:
            found.append(registers(self.dtype, self.vector, init=0))
            move(LOAD, self.place_in(X, row, column), 0, found[-1], self.vector * size, pred=inside)
        return found

    def values(self, loaded) -> list:
        return [[value for each in bits for value in widened(each, self.dtype)] for bits in loaded]

    def store(self, Q, vectors, values, inverse):
        for (row, column, inside), some in zip(vectors, values, strict=True):
            move(STORE, self.place_in(Q, row, column), 0, bytes_of([mul(x, inverse) for x in some]), self.vector, pred=inside)


class Shifted(Lanes):
    """The same, with vectors of 16 bytes where a row of another length has them in memory: a lane loads the two in which its elements lie.  Its bytes
    of e4m3 begin at the same place of a vector, which it makes of its own and of the next lane's; at both ends of a block there are parts of one.

    `shift`: how many elements the lane has before its second vector; the same for rows that are `step` apart.
    """

    def __init__(self, n: int, dtype):
        super().__init__(n, dtype, 128 // dtype.bits)
        self.step = self.vector

    def begin(self, row, column, within):
        vector, shift = self.vector, (row * (-self.n % self.vector)) & (self.vector - 1)
        self.shift, self.column = shift, column
        self.divided = shift != 0
        self.ragged = column + shift + vector > self.n  # the vector, or the lane before it, has elements behind the row
        first, last = within == 0, within == BLOCK - vector
        self.whole = ~self.ragged & ~(last & self.divided)
        self.first = first
        self.masks = [self.mask(word) for word in range(4)]
        self.ends = list(self.parts(first & ~self.ragged, last & ~self.ragged & self.divided))

    def mask(self, word: int):
        """Of a word of elements: the bits of those that are of the row."""
        of_word = 32 // self.dtype.bits
        bits = reg.scalar(b32, init=0)
        for i in range(of_word):
            some = (1 << (i + 1) * self.dtype.bits) - 1
            ptx.inst.mov.b32(bits, some, pred=self.column + (word * of_word + i) < self.n)
        return bits

    def parts(self, head, tail):
        """Of the lane's bytes before its second vector if it is the `head` of a block, or those of it if it is the `tail`: yields (width, the number of the
        first byte, the predicate) of stores."""
        for width in (1 << i for i in range(self.vector.bit_length() - 1)):
            has = compared(ptx.inst.setp.ne.u32, self.shift & width, 0)
            before = self.shift & (width - 1)
            rest = (self.vector - self.shift) & (self.vector - 1)
            of_tail = compared(ptx.inst.setp.ne.u32, rest & width, 0)
            at = copied(before)
            ptx.inst.mov.u32(at, self.shift + (rest & (self.vector - 2 * width)), pred=tail)
            yield width, at, (head & has) | (tail & of_tail)

    def vectors(self, row, column, rows):
        """(row, column, whether it exists, whether the row is the last one) of the lane's elements of a row."""
        inside = (row < rows) & (column < self.n)
        return [(row, column, inside, inside & (row + 1 >= rows))]

    def load(self, X, vectors) -> list:
        ((row, column, inside, last),) = vectors
        size, bits = self.dtype.bits // 8, registers(self.dtype, self.vector, init=0)
        both = [registers(self.dtype, self.vector, init=0) for _ in range(2)]
        place = self.place_in(X, row, column)
        there = beyond(place, self.shift, size)
        move(LOAD, there, -16, both[0], 16, pred=inside & ~last & self.divided)
        move(LOAD, there, 0, both[1], 16, pred=inside & ~last & (self.column + self.shift < self.n))
        shifted(both[0] + both[1], self.shift * (size // 2), bits, size == 4)
        with ptx.if_(last):  # its last vector may end behind the matrix
            guards = [{"pred": self.column + i < self.n} for i in range(self.vector)]
            load_elements(self.dtype, place, 0, bits, guards)
        for each, mask in zip(bits, self.masks, strict=True):
            ptx.inst.and_.b32(each, each, mask)
        return [bits]

    def store(self, Q, vectors, values, inverse):
        ((row, column, inside, _),) = vectors
        own = bytes_of([mul(x, inverse) for x in values[0]])
        place = self.place_in(Q, row, column)
        move(STORE, place + to_u64(self.shift), 0, self.joined(own), self.vector, pred=inside & self.whole)
        for width, at, guard in self.ends:
            self.store_bytes(place, own, at, width, inside & guard)
        with ptx.if_(inside & self.ragged):
            self.store_ragged(place, own)

    def joined(self, own: list) -> list:
        """The second vector: the lane's bytes from `shift` on, and the first of the next lane."""
        words = [*own, *(self.of_next(each) for each in own)]
        if len(own) == 2:
            further = compared(ptx.inst.setp.ne.u32, self.shift & 4, 0)
            words = [
                apply_to(reg.scalar(b32), ptx.inst.selp.b32, far, near, further)
                for near, far in zip(words[:3], words[1:], strict=True)
            ]
        amount = (self.shift & 3) * 8
        return [
            apply_to(reg.scalar(b32), ptx.inst.shf.r.clamp.b32, low, high, amount)
            for low, high in zip(words, words[1:], strict=False)
        ][: len(own)]

    def of_next(self, word):
        return apply_to(reg.scalar(b32), ptx.inst.shfl.sync.down.b32, word, 1, 31, 0xFFFFFFFF)

    def store_bytes(self, place, own: list, at, width: int, guard):
        """Stores `width` of the lane's bytes, from byte `at` on."""
        there = place + to_u64(at)
        if len(own) == 2:
            whole = apply_to(reg.scalar(b64), ptx.inst.mov.b64, own)
            whole = apply_to(reg.scalar(b64), ptx.inst.shr.b64, whole, at * 8)
            part = [reg.scalar(b32), reg.scalar(b32)]
            ptx.inst.mov.b64(part, whole)
            part = part[0]
        else:
            part = apply_to(reg.scalar(b32), ptx.inst.shr.b32, own[0], at * 8)
        getattr(STORE, f"b{8 * width}")(ptx.addr(there), part, pred=guard)

    def store_ragged(self, place, own: list):
        """Stores byte by byte what is of the row."""
        begin = copied(self.shift)
        ptx.inst.mov.u32(begin, 0, pred=self.first | (self.column + self.shift > self.n))
        for i in range(self.vector):
            guard = (begin <= i) & (self.column + i < self.n)
            byte = apply_to(reg.scalar(b32), ptx.inst.shr.b32, own[i // 4], 8 * (i % 4)) if i % 4 else own[i // 4]
            STORE.b8(ptx.addr(place, i), byte, pred=guard)
