"""How threads share rows, by the length of a row: the CTAs, warps and registers that a row is given, and the grid of its kernels."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyptx import kernel

__all__ = ["MOST_CTAS", "WARP", "Split", "in_registers", "of_norms", "paired", "row_kernel", "vector_of"]

WARP, MOST_CTAS = 32, 8
SHARED = 227 * 1024  # bytes of a multiprocessor of an H200; a CTA of any GPU since sm_80 may have 99 K
LONG = 16384  # elements of a row, above which it does not fit the registers of a CTA as f32
PACKED = 64 * 1024  # bytes of a row in half of a multiprocessor's registers, beside as many for its values
BESIDE = 3 * 1024  # of a CTA, besides rows
IN_FLIGHT = 24 * 1024  # bytes to a CTA that keep memory busy
SHARE = 144 * 1024  # bytes of a long row, of a CTA
MULTIPROCESSORS = 132  # of an H200; a constant, so that sums over rows have one order everywhere


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
    early: bool = False  # whether an element that is asked for is loaded beside the row
    resident: int = 0  # CTAs of a multiprocessor, where a row stays in registers as it lies in memory; else 0
    turns: int = 0  # rows of a cluster of a ring; 0: as many clusters as are resident take all

    @classmethod
    def once(cls, n: int, bits: int, arrays: int = 1, **_) -> "Split":
        """For one row a CTA: two to four loads a thread in flight, and several CTAs a multiprocessor."""
        vector, vectors = _vectors(n, bits)
        if vectors <= 4 * WARP:  # a CTA a row is begun in no less than 1.2 ns
            return cls(n, vector, WARP, rows=4)
        each = 2 if vectors <= 512 else 4
        return cls(n, vector, min(512, max(128, _whole_warps(vectors / each))))

    @classmethod
    def reading(cls, n: int, bits: int) -> "Split":
        """For kernels that write one value a row: more loads a thread in flight, fewer threads that tell each other something."""
        vector, vectors = _vectors(n, bits)
        if vectors <= 4 * WARP:
            return cls(n, vector, WARP, rows=4)
        return cls(n, vector, 128 if vectors <= 1024 else 256, early=True)

    @classmethod
    def wide(cls, n: int, bits: int, arrays: int = 1, most: int = 1024, norm: bool = False) -> "Split":
        """`once` on a GPU with clusters.  Rows above LONG go through shared memory, those of `arrays` matrices at one time, where few CTAs have
        room for them: an agreement of a cluster takes a microsecond.  Else clusters keep 16,384 elements a CTA in registers, or read
        rows again.  `most`: threads of a CTA; `norm`: whether there is one agreement, in which f32 goes through the shared memory of two,
        too.  Rows of 16 bits that fit stay in registers as they lie in memory, half of a multiprocessor's, or all for a norm."""
        if n <= LONG:
            return replace(cls.once(n, bits), hopper=True)
        vector, _ = _vectors(n, bits)
        size = n * bits * arrays / 8
        if arrays == 1 and bits == 16 and size <= PACKED * (1 + norm) and n % 8 == 0:
            resident = 2 if size <= PACKED else 1
            return cls(n, vector, 1024 // resident, kept=n, hopper=True, resident=resident)
        share, most = SHARE if arrays == 1 or size <= SHARE else SHARE // 2, most if arrays == 1 else 512
        if ring := arrays > 0 and (bits == 16 or size <= (2 if norm else 1) * SHARE):
            ctas = min(MOST_CTAS, 1 << (math.ceil(size / share) - 1).bit_length())
        else:
            ctas, most = min(MOST_CTAS, 1 << (math.ceil(n / (512 * 32)) - 1).bit_length()), 512
        threads = min(most, max(128, _whole_warps(n / ctas / (16 if ring else 32))))
        turns = 4 if arrays > 1 else 8 if ctas > 2 else 0
        return cls(n, vector, threads, ctas=ctas, kept=32, hopper=True, ring=ring, turns=turns)

    @classmethod
    def looping(cls, n: int, bits: int, **_) -> "Split":
        """For CTAs that go over many rows and keep sums beside the row."""
        vector, vectors = _vectors(n, bits)
        if vectors <= 2 * WARP:
            return cls(n, vector, WARP, rows=4)
        return cls(n, vector, min(512, max(128, _whole_warps(n / 16))), kept=16)

    @classmethod
    def wide_looping(cls, n: int, bits: int, deep: int = LONG + 1, deep_f32: int = LONG + 1) -> "Split":
        """The same on a GPU with clusters.  `deep`, `deep_f32`: the length from which on rows of 16 bits, and of f32, are 32 elements a thread."""
        if (deep if bits == 16 else deep_f32) <= n <= LONG:
            return cls(n, vector_of(n, bits), min(512, max(128, _whole_warps(n / 32))), kept=32, hopper=True)
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


def with_few_threads(split):
    """The way to share rows among CTAs of 512 threads at most."""
    return functools.partial(split.func, **split.keywords, most=512)


def of_norms(split):
    """The way to share rows whose threads tell each other something once."""
    return functools.partial(split.func, **split.keywords, norm=True)


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
    if wide and not directives:
        directives = resident_ctas(split)
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


def resident_ctas(split):
    def directives(N):
        resident = split(N).resident
        return (("minnctapersm", (resident,)),) if resident else ()

    return directives


def clusters_of(row: Split, rows: int, types: Sequence) -> int:
    """Of a kernel that loops: as many as are resident; of large ones, and of two matrices, some rows each: not all multiprocessors find a
    place in one, and those that wait would begin when the others have ended; nor have all multiprocessors the same share of memory."""
    workers = row.workers(rows, types)
    return -(-rows // max(1, min(row.turns, rows // workers))) if row.turns else workers
