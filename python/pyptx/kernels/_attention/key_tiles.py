"""Which keys a CTA of attention's gradients keeps, and the queries that it goes over: of sequences of one length (`KeyTile`), or of sequences
of different lengths that lie one behind the other (`RaggedKeyTile`).
"""

from pyptx import Tile, ptx, reg
from pyptx.kernels._attention.plan import options_of
from pyptx.kernels._attention.results import Lines
from pyptx.kernels._attention.sums import padded_begin
from pyptx.kernels._attention.tiles import apply, bounds_of, floor_divided, sequence_of, signed
from pyptx.kernels._registers import divided, quotient
from pyptx.types import f32, s32, u32, u64

__all__ = ["KeyTile", "grid_over_keys", "key_tile", "part_of_keys", "scalars_over_keys"]


def scalars_over_keys(plan) -> list:
    """The runtime scalars of a kernel whose CTAs keep keys."""
    ragged = ("P", "H", "HK", "D", *([] if plan.square else ["E"]))
    sizes = [("u32", name) for name in (ragged if plan.ragged else ("B", "H", "HK", "M", "N"))]
    return [
        *sizes, *[("u32", "together")] * (not plan.ragged), *options_of(plan),
        *(("u32", name) for name in ("R", *of_parts(plan))),
    ]  # fmt: skip


def of_parts(plan) -> tuple[str, ...]:
    """The names of the scalars that a kernel has besides if CTAs share the heads of a tile."""
    if not plan.parts:
        return ()
    return ("S", "N") if plan.ragged else ("S", "D", *([] if plan.square else ["E"]))


def part_of_keys(plan, width: str) -> Tile:
    """The shape of dk or dv in parts."""
    return Tile(*(("S", "N", "HK") if plan.ragged else ("B", "S", "HK", "N")), width, f32, align=16)


def grid_over_keys(plan):
    """The grid of a kernel whose CTAs keep keys: a CTA for each tile, or S."""

    def grid(HK, N, B=0, P=0, S=1):
        return (S * HK * (N // plan.keys + P - 1 if P else B * -(-N // plan.keys)), 1, 1)

    if plan.ragged:
        return (lambda HK, N, P, S: grid(HK, N, P=P, S=S)) if plan.parts else (lambda HK, N, P: grid(HK, N, P=P))
    return (lambda B, HK, N, S: grid(HK, N, B, S=S)) if plan.parts else (lambda B, HK, N: grid(HK, N, B))


def key_tile(plan, begins, key_begins):
    if plan.ragged:
        return RaggedKeyTile(plan, *ptx.global_ptrs(begins, key_begins))
    return KeyTile(plan)


class KeyTile:
    """The CTA's keys, and the blocks of queries that see them, for each head that shares the keys: `first` to `last`, of which those from
    `whole_first` to `whole_last` need no mask.  The tiles of `together` heads of k form a round, in which the longest come first.  Each of
    S parts of the heads that share the keys counts as a head of k."""

    names = ("B", "H", "HK", "M", "N", "together", "R")

    def __init__(self, plan):
        self.plan = plan
        for name, kind in [*((name, u32) for name in self.names), ("scale", f32)]:
            setattr(self, name, ptx.param(kind, name))
        for kind, name in plan.scalars:
            if kind == "s32":
                setattr(self, name, ptx.param(s32, name))
        if plan.softcap:
            self.cap = ptx.param(f32, "cap")
        for name in of_parts(plan):
            setattr(self, name, ptx.param(u32, name))
        self._find()
        self.per, _ = divided(self.H, self.HK)
        self._place()
        self._blocks()

    def _find(self):
        plan = self.plan
        tiles = quotient(self.N + (plan.keys - 1), plan.keys)
        tile = reg.from_(ptx.special.ctaid.x(), u32)
        round_, rest = divided(tile, self.together * tiles)
        begin, heads = round_ * self.together, self.B * self.HK * (self.S if plan.parts else 1)
        self.place, within = divided(rest, apply(u32, ptx.inst.min.u32, self.together, heads - begin))
        self.batch, self.kv_head = divided(self._without_part(begin + within), self.HK)

    def _without_part(self, number):
        """The number of the tile's keys, of which each part has a number."""
        if self.plan.parts:
            number, self.part = divided(number, self.S)
        return number

    def _place(self):
        self.key = self.place * self.plan.keys

    def query_box(self, column, row):
        return (column, row, self.head, self.batch)

    def key_box(self, column, row):
        return (column, row, self.kv_head, self.batch)

    def padded_row(self):
        """The head's first row of dq."""
        return (self.batch * self.H + self.head) * self.R

    def sums_at(self, sums):
        """The two rows of sums of the head."""
        lines = (self.batch * self.H + self.head) * 2
        lse = sums + apply(u64, ptx.inst.mul.wide.u32, lines, self.R * 4)
        return lse, lse + apply(u64, ptx.inst.mul.wide.u32, self.R, 4)

    def _blocks(self):
        plan = self.plan
        blocks = signed(quotient(self.M + (plan.rows - 1), plan.rows))
        self.last = blocks - 1
        self.first, self.whole_first, self.whole_last = reg.scalar(s32, init=0), reg.scalar(s32, init=0), self.last
        if plan.right:  # query i sees key j: i >= j - shift
            sees = signed(self.key) - self.shift
            self.first = clamped(floor_divided(sees, plan.rows), blocks)
            self.whole_first = clamped(floor_divided(sees + (plan.keys - 1 + plan.rows - 1), plan.rows), blocks)
        if plan.left:  # i <= j - shift + reach
            until = signed(self.key) - self.shift + self.reach
            self.whole_last = floor_divided(until + 1, plan.rows) - 1
            last = floor_divided(until + (plan.keys - 1), plan.rows)
            self.last = apply(s32, ptx.inst.min.s32, self.last, last)
            ptx.inst.min.s32(self.whole_last, self.whole_last, self.last)

    def heads(self):
        """A loop over the heads that share the keys, or over those of the CTA's part."""
        self.head, count = self.kv_head * self.per, self.per
        if self.plan.parts:
            begin, end = (quotient(self.per * part, self.S) for part in (self.part, self.part + 1))
            self.head, count = self.head + begin, end - begin
        for _ in ptx.range_(0, count, 1, dtype=u32):
            yield
            self.head += 1

    def lines(self, pointer, width, of_part: bool = False) -> Lines:
        """The rows of the head in k, v or their gradients, or in the CTA's part of these."""
        batch = self.batch * self.S + self.part if of_part else self.batch
        return Lines(pointer, self.N, (batch * self.HK + self.kv_head) * self.N, 1, 0, width)


class RaggedKeyTile(KeyTile):
    """The CTA's keys, where sequences lie one behind the other.  CTAs without keys end."""

    def __init__(self, plan, begins, key_begins):
        self.begins, self.key_begins = begins, key_begins
        self.names = ("P", "H", "HK", "D", *([] if plan.square else ["E"]), "R")
        super().__init__(plan)

    def _find(self):
        plan = self.plan
        tile, self.kv_head = divided(self._without_part(reg.from_(ptx.special.ctaid.x(), u32)), self.HK)
        lane = reg.from_(ptx.special.tid.x(), u32) & 31
        found, back = sequence_of(tile, self.P - 1, lane, lambda index: bounds_of(self.key_begins, index), plan.keys)
        ptx.ret(pred=found == 0)
        sequence = found - 1
        self.begin, end = bounds_of(self.begins, sequence)
        self.key_begin, key_end = bounds_of(self.key_begins, sequence)
        if plan.parts:
            self.all_keys = self.N
        self.M, self.N = end - self.begin, key_end - self.key_begin
        self.place = quotient(self.N + (plan.keys - 1), plan.keys) - 1 - back
        self.padded = padded_begin(self.begin, sequence)
        if plan.right or plan.left:
            ptx.inst.add.s32(self.shift, self.shift, signed(self.N - self.M))

    def query_box(self, column, row):
        return (column, self.head, signed(self.begin) + row)

    def key_box(self, column, row):
        return (column, self.kv_head, self.key_begin + row)

    def lines(self, pointer, width, of_part: bool = False) -> Lines:
        begin = self.part * self.all_keys + self.key_begin if of_part else self.key_begin
        return Lines(pointer, self.N, begin, self.HK, self.kv_head, width)

    def padded_row(self):
        return self.head * self.R + self.padded

    def sums_at(self, sums):
        lse = sums + (apply(u64, ptx.inst.mul.wide.u32, self.head * 2, self.R) + self.padded) * 4
        return lse, lse + apply(u64, ptx.inst.mul.wide.u32, self.R, 4)


def clamped(block, blocks):
    """`block` clipped to 0 and the number of blocks."""
    low = apply(s32, ptx.inst.max.s32, block, 0)
    return apply(s32, ptx.inst.min.s32, low, blocks)
