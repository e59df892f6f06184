"""Attention of queries against a cache of keys, by mma.sync: for GPUs since sm_80, and for caches of e4m3 since sm_89.

It computes what _attention/decode.py computes on Hopper, and what that does not take: pages of any power of two, sequences of queries one
behind the other, caches of e4m3.  A CTA takes 16 rows (the queries of the heads that share a head of the cache) and a stretch of its keys.
Its warps take the blocks in turns; each has a ring of blocks, which asynchronous copies fill.  The results of the warps are added up in
shared memory, those of the stretches by `combine_kernel`.

The elements of a head may be summed in any order.  So a thread loads 16 bytes of k at once, where a product takes four of each step, and q
is read in the same order.  For v in e4m3, ldmatrix moves two elements at a time, and the products are those of even and of odd columns.
"""

import math
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.forward import Warpgroup
from pyptx.kernels._attention.plan import Forward, options_of
from pyptx.kernels._attention.softmax import power
from pyptx.kernels._attention.tiles import Divisor, Tiles, apply, bounds_of, floor_divided, sequence_of, signed
from pyptx.kernels._attention.widened import as_f16, power_below
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E, quotient, smem_address, widened
from pyptx.types import b32, e4m3, f16, f32, s32, u8, u32, u64

__all__ = ["Cache", "cache_kernel"]

ROWS = 16
MEMORY = 96 * 1024  # bytes of shared memory of a CTA, which every GPU since sm_80 has
STRIDES = ("q_batch", "q_query", "q_head", "k_outer", "k_key", "k_head", "v_outer", "v_key", "v_head", "unit")


@dataclass(frozen=True)
class Cache(Forward):
    """How the kernel is cut; `width` and `values` are 64, 128 or 256."""

    keys: int = 32
    groups: int = 4  # warps
    slack: float = 0.0
    turns: bool = False
    size: int = 2  # bytes of an element of k and v
    paged: bool = False
    counted: bool = False  # sequences have lengths of their own, as those in pages always have
    scaled: bool = False  # scores and results are multiplied by numbers

    @classmethod
    def of(cls, width: int, values: int, narrow: bool, **more) -> "Cache":
        width, values = (next(each for each in (64, 128, 256) if n <= each) for n in (width, values))
        size = 1 if narrow else 2
        key = (width + values) * size
        keys, warps = 32 if key <= 256 else 16, 4 if key <= 512 else 2
        return cls(width, values, keys, warps, stages=min(4, MEMORY // (warps * keys * key)), size=size, **more)

    @property
    def threads(self) -> int:
        return 32 * self.groups

    @property
    def stage_bytes(self) -> int:
        return self.k_bytes + self.v_bytes

    @property
    def bytes(self) -> int:
        return self.groups * max(self.stages * self.stage_bytes, ROWS * self.values * 4)

    @property
    def scalars(self) -> list:
        sizes = ["S", "H", "HK", "M", "D", "DV", *["P"] * self.ragged, *["T"] * self.paged]
        sizes += ["SK", "SV"] * self.scaled + ([] if self.counted else ["N"])
        return [*(("u32", name) for name in (*sizes, *STRIDES)), *options_of(self), *[("u32", "page")] * self.paged]


def cache_kernel(dtype, plan: Cache):
    """The kernel from (q, k, v, ...) to (parts, sums).

    q (B, H, M, D), k (B, HK, N, D), v (B, HK, N, DV), or pages (P, page, HK, D).  Strides are arbitrary; they are scalars, of q in units of 16
    bytes, of k and v of `unit` bytes, so that they have 32 bits.  More tensors follow v, in this order:
    - `scaled`: two, f32, of one number or (HK), by which scores and results are multiplied.
    - `counted`: lengths (B) s32.
    - `paged`: the table (B, T) s32; the scalar `page` is log2 of the keys of a page.
    - `ragged`: where the sequences of q (M, H, D) begin, (P) s32.

    parts (S, B, H, M, DV) f32, or (S, M, H, DV); sums (S, B, H, M, 2), or (S, M, H, 2), as `combine_kernel` takes them.  If `right`, query i sees the keys up to i + N - M + shift.
    """
    kind = e4m3 if plan.size == 1 else dtype
    loose = {"align": 16, "packed": False}
    lines = ("M", "H") if plan.ragged else ("B", "H", "M")
    sequences = "SEQUENCES" if plan.ragged else "B"
    places = ("PAGES", "PAGE", "HK") if plan.paged else (sequences, "HK", "N")
    tensors = {"Q": Tile(*lines, "D", dtype, **loose), "K": Tile(*places, "D", kind, **loose)}
    tensors |= {"V": Tile(*places, "DV", kind, **loose)}
    if plan.scaled:
        tensors |= {"SCALE_K": Tile("SK", f32), "SCALE_V": Tile("SV", f32)}
    if plan.counted:
        tensors["LENGTHS"] = Tile(sequences, s32)
    if plan.paged:
        tensors["TABLE"] = Tile(sequences, "T", s32)
    if plan.ragged:
        tensors["BEGINS"] = Tile("P", s32)

    def body(**given):
        names = [name for name in (*tensors, "PARTS", "SUMS")]
        pointers = dict(zip(names, ptx.global_ptrs(*(given[name] for name in names)), strict=True))
        thread = reg.from_(ptx.special.tid.x(), u32)
        part = Part(plan, thread & 31, pointers)
        Warp(plan, f16 if plan.size == 1 else dtype, dtype, thread).run(part, pointers)
        ptx.ret()

    def grid(S, H, HK, M, B=0, P=0):
        rows = M * (H // HK)
        if P:
            return (HK * (rows // ROWS + P - 1), S, 1)
        return (B * HK, S, -(-rows // ROWS))

    ragged, dense = (lambda S, H, HK, M, P: grid(S, H, HK, M, P=P)), (lambda S, B, H, HK, M: grid(S, H, HK, M, B))
    return kernel(
        in_specs=tuple(tensors.values()),
        out_specs=(Tile("S", *lines, "DV", f32), Tile("S", *lines, 2, f32, align=8)),
        raw_params=plan.scalars,
        grid=ragged if plan.ragged else dense,
        block=(plan.threads, 1, 1),
        reqntid=True,
        arch="sm_89" if plan.size == 1 else "sm_80",
    )(with_tensors("cache_attention", (*tensors, "PARTS", "SUMS"), body))


class Part(Tiles):
    """The CTA's rows, which belong to one sequence and one head of the cache, and its blocks of keys, `first` to `last`."""

    def __init__(self, plan: Cache, lane, pointers: dict):
        self.lane, self.pointers = lane, pointers
        super().__init__(plan)

    def _find(self):
        plan = self.plan
        across = reg.from_(ptx.special.ctaid.x(), u32)
        self.per, self.part = quotient(self.H, self.HK), reg.from_(ptx.special.ctaid.y(), u32)
        self.of_query = Divisor(self.per)
        tile, self.kv_head = Divisor(self.HK).divided(across)
        if plan.ragged:
            begins, per = self.pointers["BEGINS"], self.per
            found, place = sequence_of(
                tile, self.P - 1, self.lane, lambda at: [each * per for each in bounds_of(begins, at)], ROWS
            )
            ptx.ret(pred=found == 0)
            self.sequence, self.row = found - 1, place * ROWS
            self.begin, end = bounds_of(begins, self.sequence)
            self.total, self.M = self.M, end - self.begin
        else:
            self.sequence, self.row = tile, reg.from_(ptx.special.ctaid.z(), u32) * ROWS
        if plan.counted:
            at = self.pointers["LENGTHS"] + self.sequence * 4
            self.N = apply(u32, ptx.inst.ld.global_.nc.u32, ptx.addr(at))
        self.rows = self.M * self.per
        self._stretch()

    def _stretch(self):
        """Finds the keys that some of the rows see, those that all rows see, and the CTA's part of them."""
        plan = self.plan
        end, whole = signed(self.N), signed(self.N)
        begin, whole_begin = reg.scalar(s32, init=0), reg.scalar(s32, init=0)
        if plan.right or plan.left:
            self.shift = signed(self.N - self.M) + self.shift
            low, high = (signed(self.query(row)) for row in (self.row, self.row + (ROWS - 1)))
            ptx.inst.min.s32(high, high, signed(self.M) - 1)
        if plan.right:
            ptx.inst.min.s32(end, end, high + self.shift + 1)
            ptx.inst.min.s32(whole, whole, low + self.shift + 1)
        if plan.left:
            ptx.inst.max.s32(begin, begin, low + self.shift - self.reach)
            ptx.inst.max.s32(whole_begin, whole_begin, high + self.shift - self.reach)
        least, last = floor_divided(begin, plan.keys), floor_divided(end + (plan.keys - 1), plan.keys) - 1
        count = apply(s32, ptx.inst.max.s32, last - least + 1, 0)
        each = quotient(apply(u32, ptx.inst.mov.b32, count) + (self.S - 1), self.S)
        self.first = least + signed(each * self.part)
        self.last = apply(s32, ptx.inst.min.s32, self.first + signed(each) - 1, last)
        self.whole_last = floor_divided(whole, plan.keys) - 1
        self.whole_first = floor_divided(whole_begin + (plan.keys - 1), plan.keys)

    def query(self, row):
        return self.of_query.divided(row)[0]

    def line(self, row):
        """The line of `parts` for a row."""
        query, within = self.of_query.divided(row)
        head = self.kv_head * self.per + within
        if self.plan.ragged:
            inner, count = (self.begin + query) * self.H + head, self.total * self.H
        else:
            batches = quotient(reg.from_(ptx.special.nctaid.x(), u32), self.HK)
            inner, count = (self.sequence * self.H + head) * self.M + query, batches * self.H * self.M
        return apply(u64, ptx.inst.mul.wide.u32, self.part, count) + inner

    def of_q(self, row):
        """The address of a row of q."""
        query, within = self.of_query.divided(row)
        head = self.kv_head * self.per + within
        at = head * self.q_head
        if self.plan.ragged:
            at += (self.begin + query) * self.q_query
        else:
            at += query * self.q_query + self.sequence * self.q_batch
        return self.pointers["Q"] + apply(u64, ptx.inst.mul.wide.u32, at, 16)


class Warp(Warpgroup):
    """A warp, which has all 16 rows, a thread parts of two, 8 apart.  The warps of a CTA take the blocks of keys in turns."""

    def __init__(self, plan: Cache, dtype, of_q, thread):
        self.plan, self.dtype, self.type_of_q, self.all = plan, dtype, of_q, thread
        self.number, self.warp = 0, thread >> 5
        self.thread = lane = thread & 31
        self.scores = reg.array(f32, plan.keys // 2)
        self.p = [reg.scalar(b32) for _ in range(plan.keys // 4)]
        self.out = reg.array(f32, plan.values // 2)
        self._make_rows()
        self.of_values = reg.scalar(f32)
        self.first_row, self.first_column = lane >> 2, (lane & 3) << 1
        memory = smem.alloc(u8, plan.bytes, align=128)
        self.stats = smem.alloc(f32, plan.groups * ROWS * 2)
        self.memory = smem_address(memory)
        self.base = self.memory + self.warp * (plan.stages * plan.stage_bytes)
        self.places = [reg.scalar(u32) for _ in range(2)]

    def run(self, part: Part, pointers: dict):
        plan = self.plan
        self.tiles, self.pointers = part, pointers
        self._set_scale()
        self._read_q()
        for each in self.out:
            ptx.inst.mov.f32(each, 0.0)
        self._reset_rows()
        mine = part.last - signed(self.warp)
        ahead = apply(s32, ptx.inst.mov.s32, mine)
        self.filled, self.read = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        self._look_up(ahead)
        for _ in range(plan.stages - 1):
            self._fetch(ahead)
        for index in ptx.range_(mine, part.first - 1, -plan.groups):
            ptx.cp.async_.wait_group(plan.stages - 2)
            ptx.warp.sync(0xFFFFFFFF)  # all lanes see the block, and all have read the one before
            self._fetch(ahead)
            self._block(index)
            self._next(self.read)
        ptx.cp.async_.wait_group(0)
        self._add_up()

    def _next(self, place):
        plan = self.plan
        ptx.inst.add.u32(place, place, plan.stage_bytes)
        ptx.inst.selp.u32(place, 0, place, place == plan.stages * plan.stage_bytes)

    def _set_scale(self):
        part = self.tiles
        ptx.inst.mul.rn.f32(self.c[0], part.scale, LOG2_E)
        if self.plan.scaled:
            ptx.inst.mul.rn.f32(self.c[0], self.c[0], self._number("SCALE_K", part.SK))
            ptx.inst.mov.f32(self.of_values, self._number("SCALE_V", part.SV))

    def _number(self, name: str, count):
        """The number of the head, or the only one, of a tensor of scales."""
        index = apply(u32, ptx.inst.min.u32, self.tiles.kv_head, count - 1)
        return apply(f32, ptx.inst.ld.global_.nc.f32, ptx.addr(self.pointers[name] + index * 4))

    def _scale_of_scores(self):
        return apply(f32, ptx.inst.mul.rn.f32, self.c[0], 1 / LOG2_E)

    # q, as operands A.

    def _read_q(self):
        """Loads the elements of the thread's two rows that stand opposite the 16 bytes of k that each thread of four loads."""
        plan, part = self.plan, self.tiles
        quarter = 16 // plan.size  # elements of 16 bytes of k
        rows = []
        for half in range(2):
            row = part.row + self.first_row + 8 * half
            inside = row < part.rows
            address = part.of_q(apply(u32, ptx.inst.selp.u32, row, part.row, inside))
            words = []
            for group in range(plan.width // (4 * quarter)):
                column = (self.thread & 3) * quarter + group * (4 * quarter)
                for i in range(quarter // 8):
                    words += [reg.scalar(b32, init=0) for _ in range(4)]
                    there = inside & (column + 8 * i < part.D)
                    ptx.inst.ld.global_.nc.v4.b32(words[-4:], ptx.addr(address + (column + 8 * i) * 2), pred=there)
            rows.append(words)
        if plan.size == 1:
            rows, self.undo = zip(*(self._normalised(words) for words in rows), strict=True)
        self.q = [[rows[half][at + i] for i in range(2) for half in range(2)] for at in range(0, plan.width // 8, 2)]

    def _normalised(self, words):
        """(a row of q in f16, divided by a power of two so that its largest element is below 2; that power)."""
        values = [value for word in words for value in widened(word, self.type_of_q)]
        largest = reg.scalar(f32, init=0.0)
        for each in values:
            ptx.inst.max.f32(largest, largest, apply(f32, ptx.inst.abs.f32, each))
        for distance in (1, 2):
            other = apply(f32, ptx.inst.shfl.sync.bfly.b32, largest, distance, 31, 0xFFFFFFFF)
            ptx.inst.max.f32(largest, largest, other)
        power, inverse = power_below(largest)
        packed = []
        for low, high in zip(values[::2], values[1::2], strict=True):
            for each in (low, high):
                ptx.inst.mul.rn.f32(each, each, inverse)
            packed.append(apply(b32, ptx.inst.cvt.rn.f16x2.f32, high, low))
        return packed, power

    # Blocks of keys.

    def _look_up(self, index):
        """Finds where one key of the block lies in k and in v, in their units: each lane finds another key's place for all lanes."""
        plan, part = self.plan, self.tiles
        key = index * plan.keys + signed(self.thread & (plan.keys - 1))
        ptx.inst.min.s32(key, key, signed(part.N) - 1)
        ptx.inst.max.s32(key, key, 0)
        within, outer = apply(u32, ptx.inst.mov.b32, key), part.sequence
        if plan.paged:
            entry = apply(u32, ptx.inst.shr.u32, within, part.page)
            at = apply(u64, ptx.inst.mul.wide.u32, part.sequence, part.T) + entry
            outer = reg.scalar(u32, init=0)
            ptx.inst.ld.global_.nc.u32(outer, ptx.addr(self.pointers["TABLE"] + at * 4), pred=index >= part.first)
            within = within - apply(u32, ptx.inst.shl.b32, entry, part.page)
        for name, place in zip("kv", self.places, strict=True):
            outer_stride, key_stride, head_stride = (getattr(part, f"{name}_{of}") for of in ("outer", "key", "head"))
            ptx.inst.mov.u32(place, outer * outer_stride + within * key_stride + part.kv_head * head_stride)

    def _fetch(self, index):
        """Starts the copies of block `index`, if it exists, and moves `index` to the warp's next block."""
        plan, part = self.plan, self.tiles
        with ptx.if_(index >= part.first):
            to = self.base + self.filled
            self._copy(index, self.places[0], self.pointers["K"], to, plan.width, part.D, swizzled_k)
            self._copy(index, self.places[1], self.pointers["V"], to + plan.k_bytes, plan.values, part.DV, swizzled_v)
        ptx.cp.async_.commit_group()
        ptx.inst.sub.s32(index, index, plan.groups)
        self._look_up(index)
        self._next(self.filled)

    def _copy(self, index, place, pointer, to, width: int, elements, swizzled):
        """Starts the copies of the rows of a block.  Rows behind the last key become zeros."""
        plan, part = self.plan, self.tiles
        pieces = width * plan.size // 16  # of a row
        piece, first = self.thread & (pieces - 1), self.thread >> (pieces.bit_length() - 1)
        left = signed(part.N) - index * plan.keys
        exists = piece * (16 // plan.size) < elements
        begin = pointer + apply(u64, ptx.inst.mul.wide.u32, piece, 16)
        for line in range(0, plan.keys, 32 // pieces):
            row = first + line
            place_of_row = apply(u32, ptx.inst.shfl.sync.idx.b32, place, row, 31, 0xFFFFFFFF)
            inside = exists & (signed(row) < left)
            source = apply(u64, ptx.inst.mad.wide.u32, place_of_row, part.unit, begin)
            ptx.inst.selp.b64(source, source, pointer, inside)
            bytes_ = apply(u32, ptx.inst.selp.u32, 16, 0, inside)
            target = to + row * (width * plan.size) + (swizzled(piece, row, pieces) << 4)
            ptx.inst.cp.async_.cg.shared.global_(ptx.addr(target), ptx.addr(source), 16, bytes_)

    def _block(self, index):
        self._multiply_scores()
        self._softmax(index, True)
        self._scale()
        self._pack()
        self._multiply_values()

    def _mask(self, index):
        with ptx.if_((index > self.tiles.whole_last) | (index < self.tiles.whole_first)):
            super()._mask(index)

    def _multiply_scores(self):
        plan = self.plan
        for each in self.scores:
            ptx.inst.mov.f32(each, 0.0)
        # Bytes of a row; products of 16 bytes of each of four threads.
        pitch, steps = (plan.width * plan.size, 4 // plan.size)
        row, piece = self.thread >> 2, self.thread & 3
        block = self.base + self.read + row * pitch
        at = [block + (swizzled_k(piece + 4 * odd, row, pitch // 16) << 4) for odd in range(min(2, pitch // 64))]
        for tile in range(plan.keys // 8):
            for group in range(pitch // 64):
                words = [reg.scalar(b32) for _ in range(4)]
                offset = (group >> 1) * 128 + tile * 8 * pitch
                ptx.inst.ld.shared.v4.b32(words, ptx.addr(at[group & 1], offset))
                if plan.size == 1:
                    words = [half for word in words for half in as_f16(word)]
                for step in range(steps):
                    self._mma(self.scores, tile, self.q[group * steps + step], words[2 * step : 2 * step + 2])
        if plan.size == 1:
            for i, each in enumerate(self.scores):
                ptx.inst.mul.rn.f32(each, each, self.undo[i // 2 % 2])

    def _multiply_values(self):
        plan = self.plan
        pitch = plan.values * plan.size
        pieces, row, upper = pitch // 16, self.thread & 15, self.thread >> 4
        block = self.base + self.read + row * pitch + plan.k_bytes
        at = [block + (swizzled_v(upper + 2 * pair, row, pieces) << 4) for pair in range(min(4, pieces // 2))]
        for step in range(plan.keys // 16):
            a = self.p[4 * step : 4 * step + 4]
            for pair in range(pieces // 2):
                words = [reg.scalar(b32) for _ in range(4)]
                offset = (pair >> 2) * 128 + step * 16 * pitch
                ptx.matrix.ldmatrix(words, ptx.addr(at[pair & 3], offset), trans=True)
                for i in range(2):
                    b, tile = words[2 * i : 2 * i + 2], 2 * pair + i
                    if plan.size == 2:
                        self._mma(self.out, tile, a, b)
                        continue
                    # A register has neighbouring elements of keys: the even columns are multiplied first, then the odd ones.
                    halves = [as_f16(apply(b32, ptx.inst.prmt.b32, word, 0, 0x3120)) for word in b]
                    for odd in range(2):
                        self._mma(self.out, 2 * tile + odd, a, [each[odd] for each in halves])

    def _mma(self, accumulators, tile: int, a, b):
        d = list(accumulators)[4 * tile : 4 * tile + 4]
        ptx.mma.sync((16, 8, 16), f32, self.dtype, self.dtype, f32, d, a, b, d)

    # The results of the warps, added up.

    def _add_up(self):
        """Leaves the warp's results, weighted, in shared memory, adds up those of all warps and stores the sums to the parts."""
        plan, part = self.plan, self.tiles
        stats = smem_address(self.stats)
        mine = stats + self.first_row * 8
        for row in range(2):
            for distance in (1, 2):
                other = apply(f32, ptx.inst.shfl.sync.bfly.b32, self.total[row], distance, 31, 0xFFFFFFFF)
                ptx.inst.add.f32(self.total[row], self.total[row], other)
            ptx.inst.mul.rn.f32(self.largest[row], self.largest[row], self.c[row])
            ptx.inst.selp.f32(self.largest[row], -math.inf, self.largest[row], self.total[row] == 0.0)
            to = ptx.addr(mine + self.warp * (ROWS * 8), row * 64)
            ptx.inst.st.shared.v2.f32(to, [self.largest[row], self.total[row]], pred=(self.thread & 3) == 0)
        ptx.bar.sync(0)
        for row in range(2):
            top, _ = self._joined(mine + row * 64)
            weight = power(self.largest[row], top)
            if plan.scaled:
                ptx.inst.mul.rn.f32(weight, weight, self.of_values)
            for i, each in enumerate(self.out):
                if i // 2 % 2 == row:
                    ptx.inst.mul.rn.f32(each, each, weight)
            line = (self.warp * ROWS + self.first_row + 8 * row) * (plan.values * 4)
            at = self.memory + line + (self.thread & 3) * (16 if plan.size == 1 else 8)
            pairs = [list(self.out)[i : i + 2] for i in range(2 * row, len(self.out), 4)]
            if plan.size == 2:
                for tile, pair in enumerate(pairs):
                    ptx.inst.st.shared.v2.f32(ptx.addr(at, tile * 32), pair)
            else:
                for tile, (even, odd) in enumerate(zip(pairs[::2], pairs[1::2], strict=True)):
                    ptx.inst.st.shared.v4.f32(ptx.addr(at, tile * 64), [even[0], odd[0], even[1], odd[1]])
        ptx.bar.sync(0)
        quads = plan.values // 4
        for first in range(0, ROWS * quads, plan.threads):
            flat = self.all + first
            row, column = flat >> (quads.bit_length() - 1), (flat & (quads - 1)) * 4
            self._store(stats, part, row, column)

    def _joined(self, at):
        """(the largest exponent of a row, its sum over all warps), from the values in shared memory at `at`."""
        read = [[reg.scalar(f32), reg.scalar(f32)] for _ in range(self.plan.groups)]
        top, total = reg.scalar(f32, init=-math.inf), reg.scalar(f32, init=0.0)
        for warp, pair in enumerate(read):
            ptx.inst.ld.shared.v2.f32(pair, ptx.addr(at, warp * ROWS * 8))
            ptx.inst.max.f32(top, top, pair[0])
        ptx.inst.selp.f32(top, 0.0, top, top == -math.inf)
        for largest, sum_ in read:
            ptx.inst.fma.rn.f32(total, sum_, power(largest, top), total)
        return top, total

    def _store(self, stats, part: Part, row, column):
        plan = self.plan
        top, total = self._joined(stats + row * 8)
        found = [reg.scalar(f32, init=0.0) for _ in range(4)]
        at = self.memory + row * (plan.values * 4) + column * 4
        for warp in range(plan.groups):
            values = [reg.scalar(f32) for _ in range(4)]
            ptx.inst.ld.shared.v4.f32(values, ptx.addr(at, warp * ROWS * plan.values * 4))
            for into, value in zip(found, values, strict=True):
                ptx.inst.add.f32(into, into, value)
        inverse = apply(f32, ptx.inst.rcp.approx.ftz.f32, total)
        ptx.inst.selp.f32(inverse, 0.0, inverse, total == 0.0)
        for each in found:
            ptx.inst.mul.rn.f32(each, each, inverse)
        ptx.inst.selp.f32(top, -math.inf, top, total == 0.0)
        with ptx.if_(part.row + row < part.rows):
            line = part.line(part.row + row)
            to = self.pointers["PARTS"] + line * apply(u64, ptx.inst.mul.wide.u32, part.DV, 4) + column * 4
            ptx.inst.st.global_.v4.f32(ptx.addr(to), found, pred=column < part.DV)
            ptx.inst.st.global_.v2.f32(ptx.addr(self.pointers["SUMS"] + line * 8), [top, total], pred=column == 0)


def swizzled_k(piece, row, pieces: int):
    """Where a piece of 16 bytes of k lies in its row.  Eight lanes that read 64 bytes of two rows then meet all banks."""
    return piece if pieces < 8 else piece ^ ((row & 1) << 2)


def swizzled_v(piece, row, pieces: int):
    """Where a piece of 16 bytes of v lies in its row.  Eight lanes that read a piece of eight rows then meet all banks."""
    return piece ^ (row & 7) if pieces >= 8 else piece ^ ((row >> 1) & 3)
