"""How threads share rows: the CTAs, warps and registers for a row of some length, and the grid of the kernels."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyptx import kernel, ptx
from pyptx.kernels._rows.apart import apart_kernels, whole

__all__ = [
    "LARGE", "LONG", "MOST_CTAS", "SHORT", "TWO_WAVES", "WARP", "Split", "aligned", "begin_early", "ctas_for", "ending_alone", "from_short",
    "has_edges", "in_registers", "lanes_for", "of_norms", "of_result", "paired", "row_kernel", "shorter", "tightly", "vector_of", "vectors_of",
    "whole_warps", "with_own", "without_edges",
]  # fmt: skip

WARP, MOST_CTAS = 32, 8
LARGE = 16  # CTAs of a cluster, which GPUs take that have clusters today, for what eight have no room for
SHARED = 227 * 1024  # bytes of a multiprocessor of an H200; a CTA of any GPU since sm_80 may have 99 K
LONG = 16384  # elements of a row, above which it does not fit the registers of a CTA as f32
SHORT = 8192  # elements of a row, up to which one CTA for each row, in f32, is as fast as memory
# Bytes of rows that a thread keeps as they lie in memory, where a multiprocessor has 1,024 of 64 registers.
PACKED = 128
BESIDE = 3 * 1024  # bytes of a CTA, besides rows
IN_FLIGHT = 24 * 1024  # bytes to a CTA that keep memory busy
SHARE = 144 * 1024  # bytes of a long row, of a CTA
# (CTAs of a cluster, how many such clusters an H200 has room for), a CTA a multiprocessor
CLUSTERS = ((1, 132), (2, 66), (4, 30), (8, 15), (16, 6))
# Bytes of a row, up to which a warp takes one: a CTA for each would begin too late.
OF_WARP, OF_WARP_READING = 3072, 5120
EDGES = 64  # elements of a row, from which on vectors of memory are worth it; twice as many where rows are written, too
OWN, OWN_OF_F32 = 96, 64  # elements of a row that a thread has for itself, at most
SOME_OWN = (48, 64)  # the same of some rows together, of which several matrices are read, or one
# Turns left to waves of workers (_rows/waves.py).  TWO_WAVES stands in for the first two where three waves have too many sums.
TWO_WAVES, LAST_WAVE = (64, 6), (64, 3)
MANY = 2**26  # bytes of a matrix, from which on there are waves of workers; smaller ones stay in L2
MOST_SUMS = 0.05  # bytes of sums, as a part of those of rows, up to which there are waves
ALONE = 2**23  # elements of a matrix, up to which kernels of long rows end before the next one begins
MULTIPROCESSORS = 132  # of an H200; a constant, so that sums over rows have one order everywhere


@dataclass(frozen=True)
class Split:
    """How threads share a row of n elements: a cluster of `ctas` CTAs takes it, with `threads` threads of each CTA, which load `vector`
    elements at a time.  If rows are short, a CTA takes `rows` of them, each with so many threads.  The limits were measured on an H200.
    """

    n: int
    vector: int
    threads: int
    rows: int = 1
    ctas: int = 1
    kept: int = 64  # elements that a thread keeps in registers at most
    hopper: bool = False  # or a later GPU: its shared memory, and kernels that begin while the one before ends
    ring: bool = False  # whether CTAs go over rows that arrive in shared memory
    resident: int = 0  # CTAs of a multiprocessor, of kernels whose registers are chosen for that
    packed: bool = False  # whether the row stays in registers as it lies in memory
    batch: int = 1  # rows that stay in registers side by side
    pipelined: bool = False  # whether a row of a ring is summed while the one in front is not done
    depth: int = 0  # vectors of a thread in the ring of a pipelined row, if there is room
    late: bool = False  # whether the kernel behind begins when rows have been read: before, it would fill some multiprocessors, and leave others
    alone: int = 0  # rows up to which the kernel behind begins when this one has ended (`ending_alone`)
    waves: tuple[int, ...] = ()  # of workers: the turns left to each and those behind it, in 64ths of all; (): one wave
    edges: bool = False  # whether rows begin and end inside vectors of memory
    stay: bool = False  # whether vectors that all rows of a loop share stay in registers, as f32
    turns: int = 0  # rows of a cluster of a ring; 0: as many clusters as are resident take all

    @classmethod
    def once(
        cls, n: int, bits: int, arrays: int = 1, norm: int = 0, edges: bool = True, own: bool = False,
        tight: bool = False, **_,
    ) -> "Split":  # fmt: skip
        """A CTA for each row: two to four loads a thread in flight, and several CTAs a multiprocessor.  `edges`: whether rows follow each other in
        memory, so that vectors may begin before them.  `own`: whether threads may have rows of their own, which only `Row.each` has.  `tight`: whether
        few empty places of vectors matter more than neighbouring ones, as where an element takes many instructions."""
        if own and (made := cls._own(n, bits, arrays)):
            return made
        edges = edges and n >= 2 * EDGES and has_edges(n, bits)
        vector, vectors = _with_edges(n, bits) if edges else vectors_of(n, bits)
        if vectors <= 5 * WARP if edges else n * bits <= 8 * OF_WARP:
            return cls._short(n, bits, vector, 2, vectors if edges else 0, tight, arrays)
        if edges and arrays == 1 and not tight and (threads := _of_four_rows(vectors, norm)):
            return cls(n, vector, threads, rows=4, edges=True)
        two, three = {1: (512, 768), 2: (256 if bits == 16 else 512, 512)}.get(norm, (512, 512))
        each = 2 if vectors - edges <= two else 3 if vectors - edges <= three else 4
        return cls(n, vector, min(512, max(128, whole_warps(vectors / each))), edges=edges)

    @classmethod
    def _own(cls, n: int, bits: int, arrays: int) -> "Split | None":
        """Some rows a thread, that have two vectors of 16 bytes at least, or one, if it has room for all of `arrays` matrices."""
        vector = 128 // bits
        rows = vector // math.gcd(n, vector)
        rows *= max(1, 2 * vector // max(1, rows * n))
        most = OWN if bits == 16 else OWN_OF_F32
        most = most if arrays == 1 else most * 3 // 4
        if n == 0 or (n % vector == 0 and n > vector) or n > most:
            return None
        if rows * n <= SOME_OWN[arrays == 1]:
            return cls(n, n, 1, rows=128, batch=rows)
        # Small matrices of longer rows have many CTAs; of shorter ones a grid would begin too many.
        return cls(n, n, 1, rows=32 if n > 64 else 64 if n > 40 else 128, kept=most)

    @classmethod
    def _short(
        cls, n: int, bits: int, vector: int, each: int, with_edges: int, tight: bool = False, arrays: int = 1,
    ) -> "Split":  # fmt: skip
        """A warp a row, or some lanes of one, with `each` vectors a lane: a grid begins a CTA in no less than 1.2 ns, so that narrow vectors come in CTAs
        of more threads.  Rows `with_edges` have so many vectors, of which a lane may have five: as few places as can be stay empty."""
        if with_edges:
            lanes = _fitting(with_edges, 2 if each > 2 else 8, arrays == 1)
            return cls(n, vector, lanes, rows=128 // lanes, edges=True)
        lanes = lanes_for(n / (vector * each))
        if vector * bits == 128 and (tight or bits == 16) and n <= 5 * WARP * vector:
            fewest = _fitting(n // vector, 2 if tight and n <= 6 * vector else 4)
            lanes = min(lanes, fewest, key=lambda lanes: -(-(n // vector) // lanes) * lanes)
        threads = 128 * min(4, max(1, 4 // vector))
        return cls(n, vector, lanes, rows=threads // lanes)

    @classmethod
    def reading(cls, n: int, bits: int, own: bool = False) -> "Split":
        """The split of kernels that write one value a row: more loads a thread in flight, fewer threads that tell each other something; of longer rows as many
        threads as there can be, which keep nothing."""
        # Beside several rows, what is read and written for them takes registers.
        if own and (made := cls._own(n, bits, 2) or cls._own(n, bits, 1)):
            return made
        edges = has_edges(n, bits)
        vector, vectors = _with_edges(n, bits) if edges else vectors_of(n, bits)
        if vectors <= 5 * WARP if edges else n * bits <= 8 * OF_WARP_READING:
            return cls._short(n, bits, vector, 4, vectors if edges else 0)
        if edges and vectors <= 10 * WARP:
            return cls(n, vector, WARP, rows=4, kept=80, edges=edges)
        if vectors > 640 and (edges or aligned(n, bits)):
            return cls(n, vector, 128 if vectors <= 2048 else 256, kept=0, edges=edges)
        if edges:  # for one vector more than 128 threads have, there is another warp
            each = max(2, -(-(vectors - 1) // 128))
            return cls(n, vector, whole_warps(vectors / each), edges=True)
        made = cls(n, vector, 128 if vectors <= 1024 else 256)
        # As many as without being told, but the assembler orders otherwise: 24.1 us, 21.9.
        if made.each == 5 and bits == 16:
            return replace(made, resident=1280 // made.threads)
        return made

    @classmethod
    def wide_reading(cls, n: int, bits: int, own: bool = False) -> "Split":
        """The same on a GPU with clusters."""
        made = cls.reading(n, bits, own)
        return replace(made, hopper=True, late=made.threads > 128 and not made.fits)

    @classmethod
    def few_reading(cls, n: int, bits: int, own: bool = False) -> "Split":
        """`wide_reading` for fewer rows than CTAs that fill the GPU: a cluster a row, if it is long."""
        made = cls.wide_reading(n, bits, own)
        if n <= LONG or made.kept > 0:
            return made
        shares = made.each * made.threads / 4096
        return replace(made, ctas=LARGE if shares > MOST_CTAS else max(2, ctas_for(shares)), late=False)

    @classmethod
    def wide(
        cls, n: int, bits: int, arrays: int = 1, norm: int = 0, least: int | None = None, most: int = 1024,
        edges: bool = True, own: bool = False, tight: bool = False, alone: bool = False,
    ) -> "Split":  # fmt: skip
        """`once` on a GPU with clusters.  Short rows are shared as there.  A long row stays in the registers of a cluster; if there is no
        room, it goes through the cluster's shared memory, where the next row arrives meanwhile.

        arrays: how many matrices are read together, in units of `bits`; 0: rows neither stay as they lie in memory nor go through shared memory.
        norm: 1 for rms_norm; 2 for layer_norm, which reads two vectors beside a row.
        least: elements from which on a row is long.
        most: threads of a CTA whose ring has rows that no vectors of 16 bytes divide.
        edges: if not, rows do not follow each other in memory, and one CTA has each.
        alone: whether the kernel behind waits for the end of this one where rows are long, and few.
        """
        if alone and n >= SHORT:
            return replace(cls.wide(n, bits, arrays, norm, least, most, edges, own, tight), alone=ALONE // n)
        if edges and norm == 2 and has_edges(n, bits) and (made := cls._ahead_of_edges(n, bits)):
            return made
        if not edges or n < (least or _least(n, bits, arrays, norm)):
            return replace(cls.once(n, bits, arrays, norm, edges, own, tight), hopper=True)
        return (
            cls._packed(n, bits, arrays, norm)
            or cls._through_ring(n, bits, arrays, norm)
            or cls._other(n, bits, arrays, most, norm)
        )

    @classmethod
    def _packed(cls, n: int, bits: int, arrays: int, norm: int) -> "Split | None":
        """The split of rows that stay in registers as they lie in memory.  Small CTAs, of which a multiprocessor has many: 16 KB of most rows, 32 of two matrices, 64 of norms
        in 16 bits whose vectors L1 keeps where few CTAs share a row.  Norms take two rows for each vector, if short."""
        half, size, edges = bits == 16, n * bits * arrays // 8, has_edges(n, bits)
        room = 512 if edges or (arrays == 1 and norm < 2) else (96 if norm else 128) if half else 256
        if arrays == 0 or not (edges or aligned(n, bits)) or size > room * 1024:
            return None
        if arrays > 1 or (norm == 1 and edges and n <= 2 * LONG):
            share = 32
        elif norm and half:
            share = 64 if norm == 2 and size <= 96 * 1024 else 32 if norm == 2 else 64 if size > 128 * 1024 else 16
        else:
            share = 24 if norm or (half and n <= LONG) else 16
        batch = 2 if norm and size <= ((64, 0) if half else (256, 64))[norm - 1] * 1024 else 1
        ctas = ctas_for(size * batch / (share * 1024))
        threads = max(64, whole_warps(size * batch / ctas / PACKED))
        resident = (768 if edges and arrays > 1 else 1024) // threads
        made = cls(n, 128 // bits, threads, ctas=ctas, kept=n, hopper=True, resident=resident, batch=batch)
        return replace(made, packed=True, edges=edges)

    @classmethod
    def _through_ring(cls, n: int, bits: int, arrays: int, norm: int) -> "Split | None":
        """Rows go through shared memory, the next one arrives meanwhile: a thread has four vectors of each matrix.  Those of norms have three rows there,
        workers in waves, and CTAs of 384 or 512 threads, whichever leave fewer places empty."""
        if arrays == 0 or not aligned(n, bits):
            return None
        vectors = n * bits // 128
        ctas = max(2, ctas_for(vectors / (2600 if norm else 2048)))
        if norm:
            fitting = (384, 512) if vectors <= 7 * 384 * ctas else (512,)
            threads = min(fitting, key=lambda threads: -(-vectors // (ctas * threads)) * threads)
            made = cls.row_ahead(n, bits, ctas, threads, 16)
            made = replace(made, waves=LAST_WAVE, kept=max(made.kept, 56))
        else:
            more = 8 if arrays == 1 else 6 if vectors <= 2048 * ctas else 10
            made = cls.row_ahead(n, bits, ctas, whole_warps(vectors / ctas / 4), more)
        return made if made.places_ahead(16 * arrays * made.threads) else None

    @classmethod
    def _ahead_of_edges(cls, n: int, bits: int) -> "Split | None":
        """Rows of layer_norm that begin inside vectors: all rows of a worker at the same element of one, so that its weight and bias are shifted once."""
        vector, vectors = _with_edges(n, bits)
        if 5 * WARP < vectors <= 9 * WARP:
            ctas, each = 1, 3
        elif SHORT < n <= 5 * LONG:
            ctas, each = (2, 4) if n <= LONG else (4, 5) if n <= 2.75 * LONG else (8, 7)
        else:
            return None
        threads = whole_warps(vectors / ctas / each)
        rows, resident = (512 // threads, 1) if ctas == 1 else (1, 512 // threads)
        return cls(
            n, vector, threads, rows, ctas, kept=8 * each, hopper=True, resident=resident, pipelined=True, depth=3 * each, waves=LAST_WAVE,
            edges=True,
        )  # fmt: skip

    @classmethod
    def row_ahead(
        cls, n: int, bits: int, ctas: int, threads: int, more: int, weight: int = 0, edges: bool = False
    ) -> "Split":
        """`more`: vectors that the ring has beyond one row.  It has two rows and one vector at least, and three rows at most.  `weight`: elements of a
        thread, up to which a weight of 16 bits stays in registers as f32."""
        threads = min(512, max(32 if n <= 512 else 64 if n <= 1024 else 128, threads))
        room = 512 // threads
        rows, resident, waves = (1, room, ()) if ctas > 1 else (room, 1, LAST_WAVE)
        made = cls(
            n, 128 // bits, threads, rows, ctas, kept=40, hopper=True, resident=resident, pipelined=True, waves=waves,
            edges=edges,
        )  # fmt: skip
        depth = min(3 * made.each, max(made.each + more, 2 * made.each + 1))
        return replace(made, depth=depth, stay=bits == 16 and made.values <= weight)

    @classmethod
    def _other(cls, n: int, bits: int, arrays: int, most: int, norm: int) -> "Split":
        """Rows that no vectors of 16 bytes divide, or that are too long for the others.  They go through shared memory if few CTAs have room
        for them.  Otherwise each CTA of a cluster keeps 16,384 elements in registers, or reads the row again."""
        vector, _ = vectors_of(n, bits)
        size = n * bits * arrays / 8
        share, most = SHARE if arrays == 1 or size <= SHARE else SHARE // 2, most if arrays == 1 else 512
        if ring := arrays > 0 and (bits == 16 or size <= (2 if norm else 1) * SHARE):
            ctas = ctas_for(size / share)
        else:
            ctas, most = ctas_for(n / (512 * 32)), 512
            if arrays == 0 and n / 2 <= ctas * 512 * 32 < n:
                ctas = LARGE
        threads = min(most, max(128, whole_warps(n / ctas / (16 if ring else 32))))
        turns = 4 if arrays > 1 else 8 if ctas > 2 else 0
        return cls(n, vector, threads, ctas=ctas, kept=32, hopper=True, ring=ring, turns=turns)

    @property
    def each(self) -> int:
        """The most vectors of a row that a thread has."""
        before = self.vector - 1 if self.edges else 0
        return max(1, -(-(self.n + before) // (self.vector * self.together)))

    @property
    def together(self) -> int:
        """Threads of a row."""
        return self.threads * self.ctas

    @property
    def stride(self) -> int:
        """How far rows lie apart that begin at the same element of a vector of memory: so do those of a batch, and those of a worker."""
        return self.vector if self.edges else 1

    def first_of(self, number):
        """The first row of the batch with this number, a register."""
        if self.stride == 1:
            return number * self.batch
        within = number & (self.stride - 1)
        return (number - within) * self.batch + within

    def batches(self, rows: int) -> int:
        """How many batches have all rows; some of the last ones may be empty."""
        return rows if self.batch == 1 else -(-rows // (self.stride * self.batch)) * self.stride

    @property
    def abreast(self) -> int:
        """Neighbouring rows that the lanes of a warp have."""
        return max(1, WARP // self.threads)

    @property
    def turn(self) -> int:
        """What a CTA takes at a time, in units of `abreast` rows."""
        return self.rows // self.abreast

    @property
    def values(self) -> int:
        """The most elements of a row that a thread has."""
        return self.each * self.vector

    @property
    def fits(self) -> bool:
        """Whether the row stays in registers."""
        return self.values <= self.kept

    def full(self, k: int) -> bool:
        """Whether every thread has a k-th vector."""
        return (k + 1) * self.together * self.vector <= self.n

    def places(self, types: Sequence) -> int:
        """How many vectors of a thread, each with all matrices of these types, lie in shared memory: the row that is worked on, and up to two
        rows on their way.  Two CTAs share a multiprocessor if that leaves enough.  0 if there is no room for more than one row, or if
        copies of the vectors would be too narrow."""
        if self.each > 16 or any(self.vector * each.bits not in (32, 64, 128) for each in types):
            return 0
        pitch = self.pitch(types)
        if self.pipelined:
            return self.places_ahead(pitch)
        least = self.each + -(-min(self.each * pitch, IN_FLIGHT) // pitch)
        rooms = (SHARED // self.resident,) if self.resident else (SHARED // 2, SHARED) if self.hopper else (99 * 1024,)
        for room in rooms:
            if (found := (room - self.beside) // pitch) >= least and (room == SHARED or self.threads <= 512):
                found = min((6 if self.resident else 3) * self.each, found)
                # Addresses of whole rows are made once a row.
                return found if found < 3 * self.each else found // self.each * self.each
        return 0

    @property
    def beside(self) -> int:
        """Bytes of shared memory of a CTA that hold no rows."""
        if self.ctas == 1 and not self.pipelined:
            return BESIDE
        return BESIDE // 2 + (64 if self.pipelined else 32) * self.ctas * self.rows * self.threads // WARP

    def places_ahead(self, pitch: int) -> int:
        """`places` of pipelined rows, whose vectors have `pitch` bytes: more than two rows, or 0 if there is no room."""
        found = min(self.depth, (SHARED // self.resident - self.beside) // pitch)
        return found if found > 2 * self.each else 0

    def pitch(self, types: Sequence) -> int:
        """Bytes of one vector of each thread of a CTA."""
        return self.vector * self.threads * self.rows * sum(each.bits for each in types) // 8

    def loops(self, types: Sequence) -> bool:
        """Whether CTAs go over many rows, the next of which are on their way to shared memory."""
        return (self.ring or self.pipelined) and self.places(types) > 0

    def crowd(self, types: Sequence) -> int:
        """How many CTAs, or clusters of them, that go over matrices of these types are resident at one time."""
        if self.resident:
            return dict(CLUSTERS)[self.ctas] * self.resident // self.stride * self.stride
        resident = 65536 // (64 * self.threads * self.rows)
        if places := self.places(types):
            resident = min(resident, SHARED // (places * self.pitch(types) + self.beside))
        return MULTIPROCESSORS * max(1, resident) // self.ctas // self.stride * self.stride

    def workers(self, rows: int, types: Sequence, summed: bool = True) -> int:
        """How many CTAs, or clusters of them, go over matrices of these types and so many rows: waves of what is resident at once, or, of one wave, as few
        as make it no longer.  `summed`: whether each has sums over its rows, which are to be added up; of many such there are fewer waves.  More than rows
        are of no harm, where their number is not known: they add zeros to the sums."""
        crowd = self.crowd(types)
        if type(rows) is not int:
            return crowd
        # Each worker writes an f32 for each column, which is read again; of each row half as much is written as is read.
        most = MOST_SUMS * rows * 1.5 * sum(each.bits for each in types) / 64 if summed else math.inf
        for waves in range(len(self.waves), 1, -1):
            if rows * self.n * types[0].bits // 8 >= MANY and waves * crowd <= most:
                return waves * crowd
        shares = -(-rows // self.rows) if self.abreast > 1 else rows
        fewest = max(1, -(-shares // max(1, -(-shares // crowd))))
        return -(-fewest // self.stride) * self.stride


def vector_of(n: int, bits: int) -> int:
    """Elements of the widest vector, up to 16 bytes, that divides n."""
    return math.gcd(n, 128 // bits) if n else 1


def vectors_of(n: int, bits: int) -> tuple[int, int]:
    vector = vector_of(n, bits)
    return vector, n // vector


def has_edges(n: int, bits: int) -> bool:
    """Whether threads have the vectors of memory, because those of the row would be of 4 bytes at most."""
    return bits == 16 and n % 4 != 0 and n >= EDGES


def _with_edges(n: int, bits: int) -> tuple[int, int]:
    vector = 128 // bits
    return vector, -(-(n + vector - 1) // vector)


def aligned(n: int, bits: int) -> bool:
    """Whether vectors of 16 bytes divide a row."""
    return n > 0 and n * bits % 128 == 0


def _least(n: int, bits: int, arrays: int, norm: int) -> int:
    """Elements of a row, from which on it is a long one."""
    if arrays == 0 or (arrays == 1 and (norm == 1 if bits == 16 else not aligned(n, bits))):
        return LONG + 1
    return SHORT if norm and bits == 32 else SHORT + 1


def ctas_for(shares: float) -> int:
    """CTAs of a cluster for so many shares of a row."""
    return min(MOST_CTAS, 1 << (math.ceil(shares) - 1).bit_length())


def _of_four_rows(vectors: int, norm: int) -> int:
    """Threads of a row of so many vectors, of which the first and the last have elements of its neighbours, if a CTA takes four; else 0."""
    if norm == 1:
        return whole_warps(vectors / 3) if vectors <= 9 * WARP else 0
    return (
        0
        if norm == 2 or vectors > 12 * WARP
        else WARP
        if vectors <= 6 * WARP
        else 2 * WARP
        if vectors <= 10 * WARP
        else 3 * WARP
    )


def lanes_for(threads: float) -> int:
    """Lanes of a warp that share a row, for which so many threads are enough."""
    return min(WARP, max(2, 1 << (math.ceil(threads) - 1).bit_length()))


def _fitting(vectors: int, least: int, fewest: bool = False) -> int:
    """`least` lanes or more, of which each has up to five of the vectors, so that as few places as can be stay empty: the `fewest` such, or the most that
    have two vectors each."""
    fits = [lanes for lanes in (2, 4, 8, 16, 32) if vectors <= 5 * lanes and lanes >= least]
    return min(
        fits, key=lambda lanes: (-(-vectors // lanes) * lanes, *((lanes,) if fewest else (lanes >= vectors, -lanes)))
    )


def whole_warps(threads: float) -> int:
    return max(1, math.ceil(threads / WARP)) * WARP


def paired(split, more: int = 1):
    """`split` for two matrices that are read together; elements of the second have `more` times the bits of the first."""
    return functools.partial(split.func, **split.keywords, arrays=1 + more)


def from_short(split):
    """`split` where rows are long from half of SHORT elements on, because one CTA for each is slower than memory; CTAs have at most 512
    threads."""
    return functools.partial(split.func, **split.keywords, least=SHORT // 2, most=512)


def with_own(split):
    """`split` for kernels by `Row.each`, which may give a thread rows of its own, unless it was told not to."""
    return functools.partial(split.func, **{"own": True, **split.keywords})


def ending_alone(split):
    """`split` for kernels that others of little work follow at once.  Beside this one, all of those CTAs would begin on the few multiprocessors that are
    empty: the others cannot change their part of shared memory before their last CTA has ended."""
    return functools.partial(split.func, **split.keywords, alone=True)


def of_result(split, bits: int):
    """`split` for kernels that write elements of so many bits: if these are more, lanes have shorter vectors, and write 16 bytes side by side; but long
    rows that begin inside vectors have those of memory."""

    def share(n: int) -> Split:
        own = split.keywords["bits"]
        edges = has_edges(n, own) and n * bits > 8 * OF_WARP
        return split(n) if bits <= own or edges else split(n, bits=bits)

    return share


def tightly(split):
    """`split` for kernels whose elements take many instructions."""
    return functools.partial(split.func, **split.keywords, tight=True)


def of_norms(split, norm: int):
    """`split` for rms_norm (1) or layer_norm (2)."""
    return functools.partial(split.func, **split.keywords, norm=norm)


def without_edges(split):
    """`split` for rows that do not follow each other in memory."""
    return functools.partial(split.func, **split.keywords, edges=False)


def in_registers(split):
    """`split` for rows that do not go through shared memory."""
    return functools.partial(split.func, **split.keywords, arrays=0)


def begin_early(hopper: bool):
    """How a kernel begins that may do so while the one before it ends (`dependent_launch`): it waits for what that one writes, and lets the next one begin."""
    if hopper:
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()


def row_kernel(
    inputs, outputs, split: Callable[[int], Split], *, over_rows: bool = False, arch: str = "sm_80",
    pieces: Callable[[int], int] = whole,
):  # fmt: skip
    """The decorator of a kernel whose tensors have the rows of Tiles ("M", "N").  Each CTA or cluster takes a row; with `over_rows`, P
    workers take them all, a scalar of the launch: it changes with the rows.  `pieces`: from the elements of a row, into how many it is cut, each of which is a row to `split`.  The kernel's
    `apart` makes those for rows that lie apart."""
    matrices = tuple(tile.dtype for tile in inputs if len(tile.shape) > 1)

    def share(n: int) -> Split:
        return split(n // pieces(n))

    def grid(N, M=None, P=None):
        row = share(N)
        if not over_rows and row.loops(matrices):
            return (clusters_of(row, M, matrices) * row.ctas, 1, 1)
        return ((P if over_rows else -(-row.batches(M * pieces(N)) // row.rows)) * row.ctas, 1, 1)

    wide, batch = split(1).hopper, {} if over_rows else {"batch": "M"}
    told = {
        "raw_params": [("u32", "M"), *([("u32", "P")] if over_rows else [])],
        "grid": (lambda N, P: grid(N, P=P)) if over_rows else (lambda N, M: grid(N, M)),
        "block": lambda N: (share(N).threads * share(N).rows, 1, 1),
        "cluster": (lambda N: (share(N).ctas, 1, 1)) if wide else (1, 1, 1),
        "raw_directives": directives_of(share, over_rows),
        "reqntid": True,
        "dependent_launch": wide,
        "arch": "sm_90" if wide else arch,
    }

    def made(function):
        packed = kernel(in_specs=inputs, out_specs=outputs, **batch, **told)(function)
        packed.apart, packed.pieces = apart_kernels(function, inputs, outputs, pieces=pieces, **told), pieces
        return packed

    return made


def directives_of(split, over_rows: bool):
    def directives(N):
        row, told = split(N), []
        if row.resident:
            told.append(("minnctapersm", (row.resident,)))
        # Loops over such a row have few turns: ptxas would write them out, with more values than registers.
        if over_rows and not row.fits:
            told.append(("pragma", ('"nounroll";',)))
        return tuple(told)

    return directives


def clusters_of(row: Split, rows: int, types: Sequence) -> int:
    """How many clusters a kernel has that loops: as many as are resident.  Where clusters are large, or there are two matrices, each takes some rows
    instead: not all multiprocessors find a place in one, and clusters that wait would begin when the others have ended; nor have all multiprocessors
    the same share of memory."""
    workers = row.workers(rows, types, summed=False)
    return -(-rows // max(1, min(row.turns, rows // workers))) if row.turns else workers


def shorter(columns: int) -> int:
    """The columns of the pieces into which a row may be cut: halved until a piece is short enough for one CTA, or odd.  Above 4,096
    columns it is halved if vectors of 16 elements stay whole: a thread then has two vectors of each matrix.  With four vectors of each
    of five matrices in registers, too few CTAs are resident."""
    while columns % 2 == 0 and (columns > 8192 or (columns > 4096 and columns % 16 == 0)):
        columns //= 2
    return columns
