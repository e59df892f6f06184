"""Which tiles of queries a CTA of attention takes, and in which order: of sequences of one length, or of several behind each
other.  With the arithmetic of integers that this needs.
"""

from pyptx import ptx, reg
from pyptx.kernels._registers import LOG2_E, apply_to
from pyptx.types import f32, pred, s32, u32, u64

__all__ = ["RaggedTile", "Tiles", "sequence_of"]


class Tiles:
    """The tiles that a CTA takes.  With a mask to the right later rows see more keys: the tiles of `together` heads are a round,
    from the last rows to the first, then come the next heads'.  Or they come in pairs of a long and a short one."""

    def __init__(self, plan):
        self.plan = plan
        kinds = {"u32": u32, "s32": s32, "f32": f32}
        for kind, name in plan.scalars:
            setattr(self, name, ptx.param(kinds[kind], name))
        self._find()

    def take(self, **tensors):
        """Pointers to those that there are, by name."""
        for name, tensor in tensors.items():
            if tensor is not None:
                setattr(self, name, *ptx.global_ptrs(tensor))

    def _find(self):
        plan = self.plan
        self.row_tiles = divided(self.M + (plan.rows - 1), plan.rows)
        if plan.from_end:
            self.parts = (self.M + 63) >> 6
        if plan.pairs:
            self.row_tiles = (self.row_tiles + 1) & ~1
        self.count = self.B * self.H * self.row_tiles
        self.rounds = Divisor(self.row_tiles * apply(u32, ptx.inst.max.u32, self.together, 1))
        self.of_head = Divisor(self.H)
        self.of_kv_head = Divisor(divided(self.H, self.HK))
        self.end = self.M

    def each(self):
        """A loop over the CTA's tiles.  In its body: `row`, `head`, `batch`, `kv_head`, the blocks of keys `first` to `last`.

        Rows from `end` on are none of the tile: there are no such, or, of the first tile `from_end`, they are the next one's."""
        plan = self.plan
        for back, head in self._places():
            self.batch, self.head = self.of_head.quotient(head)
            self.kv_head, _ = self.of_kv_head.quotient(self.head)
            self.row = (self.row_tiles - 1 - back) * plan.rows
            if plan.from_end:
                past = (self.parts - back * plan.groups) << 6
                self.end = apply(u32, ptx.inst.min.u32, past, self.M)
                self.row = past - apply(u32, ptx.inst.min.u32, past, plan.rows)
            self._blocks()
            yield

    def _turn(self):
        """The CTA's first tile, and how far the next one is."""
        return reg.from_(ptx.special.ctaid.x(), u32), reg.from_(ptx.special.nctaid.x(), u32)

    def _places(self):
        """A loop over the CTA's tiles: how many tiles of the head are behind each, and which of all heads it is."""
        first, step = self._turn()
        if self.plan.returning:
            yield from self._back_and_forth(first, step)
        else:
            for tile in ptx.range_(first, self.count, step):
                back, head = self._of_round(tile)
                if self.plan.uneven and not self.plan.right:  # else those that are not full fall on the same CTAs
                    _, back = quotient(back + divided(tile - back, step), self.row_tiles)
                yield back, head

    def _back_and_forth(self, first, step):
        """Every second time the CTAs take tiles in the other order: who has had the longest has the shortest then.

        Where `together` is 0, of two heads' tiles the longest of one and the shortest of the other are a pair, and so on.  A CTA
        takes pairs, whose work is the same."""
        whole, rest = quotient(self.count, step)
        other = step - 1 - first
        last = apply(u32, ptx.inst.selp.u32, other, first, (whole & 1) != 0)
        ptx.inst.add.u32(whole, whole, 1, pred=last < rest)
        paired, pairs = self.together == 0, (self.count + 1) >> 1
        own = pairs + (step - 1) - first  # of the pairs, rounded up
        ptx.inst.selp.u32(whole, divided(own, step) << 1, whole, paired)
        of_pairs = Divisor(self.row_tiles)
        for turn in ptx.range_(reg.scalar(u32, init=0), whole, 1):
            odd = (turn & 1) != 0
            back, head = reg.scalar(u32), reg.scalar(u32)
            with ptx.if_(paired):
                two, place = of_pairs.quotient((turn >> 1) * step + first)
                ptx.inst.selp.u32(back, self.row_tiles - 1 - place, place, odd)
                ptx.inst.add.u32(head, two << 1, turn & 1)
                ptx.inst.min.u32(
                    head, head, self.B * self.H - 1
                )  # of an odd number the last head is a pair with itself
            with ptx.else_():
                found = self._of_round(turn * step + apply(u32, ptx.inst.selp.u32, other, first, odd))
                for into, each in zip((back, head), found, strict=True):
                    ptx.inst.mov.u32(into, each)
            yield back, head

    def _of_round(self, tile):
        """The tile's place and head, where `together` heads are a round; of the last, as many as are left."""
        round_, rest = self.rounds.quotient(tile)
        begin = round_ * self.together
        back, within = quotient(rest, apply(u32, ptx.inst.min.u32, self.together, self.B * self.H - begin))
        return back, begin + within

    def place(self, column: int, row):
        """Where a box of q or o begins."""
        return (column, row, self.head, self.batch)

    def key_boxes(self, index):
        """The boxes of a block of keys: which row of the block, and where in the tensor behind the column."""
        yield 0, (index * self.plan.keys, self.kv_head, self.batch)

    def boxes_of_k(self, index, bytes_: int):
        """The copies of a block of k: bytes behind its beginning, and where the box begins in the tensor."""
        plan = self.plan
        for row, place in self.key_boxes(index):
            for i in range(bytes_ // (plan.keys * plan.line)):
                yield (i * plan.keys + row) * plan.line, (i * plan.columns, *place)

    boxes_of_v = boxes_of_k

    def beside_fetching(self, thread):
        """What the warpgroup that fetches does by threads that do not."""

    def begin_values(self):
        """Of a new tile."""

    def await_values(self):
        """Until the tile's may be fetched."""

    def query(self, row):
        """Which query a row is."""
        return row

    def sums_at(self, row):
        """The place of a row among the sums."""
        return apply(u64, ptx.inst.mul.wide.u32, self.batch * self.H + self.head, self.M) + row

    def sink(self):
        """That of the head, as an exponent of 2."""
        value = apply(f32, ptx.inst.ld.global_.nc.f32, ptx.addr(self.sinks + self.head * 4))
        return apply(f32, ptx.inst.mul.rn.f32, value, LOG2_E)

    def _blocks(self):
        """Blocks `first` to `last` are visited, downwards; those from `whole_first` to `whole_last` need no mask."""
        plan = self.plan
        end, whole = signed(self.N), signed(self.N)  # keys that some row sees, that all rows see
        if plan.right:
            sees = signed(self.row) + self.shift + 1
            past = signed(self.end) + self.shift if plan.from_end else sees + (plan.rows - 1)
            ptx.inst.min.s32(end, end, past)
            ptx.inst.min.s32(whole, whole, sees)
        ptx.inst.max.s32(end, end, 1)
        self.last = floor_divided(end - 1, plan.keys)
        self.whole_last = floor_divided(whole, plan.keys) - 1
        self.first = reg.scalar(s32, init=0)
        self.whole_first = self.first
        if plan.left:
            begin = signed(self.row) + self.shift - self.reach
            self.first = floor_divided(begin, plan.keys)
            ptx.inst.max.s32(self.first, self.first, 0)
            ptx.inst.min.s32(self.first, self.first, self.last)
            self.whole_first = floor_divided(begin + (plan.rows - 1 + plan.keys - 1), plan.keys)
            ptx.inst.max.s32(self.whole_first, self.whole_first, 0)


def sequence_of(tile, sequences, lane, bounds, rows: int):
    """Which of the sequences behind each other a tile of `rows` rows is of, counted from 1; 0: there are fewer tiles.  And its
    place, 0 for the last of the sequence's tiles.  `bounds`: of a sequence's number its first row and the one behind its last.

    All threads look for it: a lane counts the tiles of a sequence, 32 at a time."""
    tiles, upto = reg.scalar(u32), reg.scalar(u32)
    found = reg.scalar(u32, init=0)
    for base in ptx.range_(reg.scalar(u32, init=0), sequences, 32):
        mine = base + lane
        ptx.inst.mov.u32(tiles, 0)
        with ptx.if_(mine < sequences):
            begin, end = bounds(mine)
            ptx.inst.div.u32(tiles, end - begin + (rows - 1), rows)
        ptx.inst.mov.u32(upto, tiles)
        for distance in (1, 2, 4, 8, 16):
            other, inside = reg.scalar(u32), reg.scalar(pred)
            ptx.inst.shfl.sync.up.b32(other | inside, upto, distance, 0, 0xFFFFFFFF)
            ptx.inst.add.u32(upto, upto, other, pred=inside)
        beyond = ptx.warp.ballot(upto > tile, 0xFFFFFFFF)
        with ptx.if_(beyond != 0):
            first = apply(u32, ptx.inst.brev.b32, beyond)
            ptx.inst.clz.b32(first, first)
            number = base + first
            before = apply(u32, ptx.inst.shfl.sync.idx.b32, upto - tiles, first, 31, 0xFFFFFFFF)
            count = apply(u32, ptx.inst.shfl.sync.idx.b32, tiles, first, 31, 0xFFFFFFFF)
            ptx.inst.mov.u32(found, number + 1)
            place = reg.scalar(u32)
            ptx.inst.sub.u32(place, before + count - 1, tile)
            ptx.inst.mov.u32(base, sequences)
        ptx.inst.sub.u32(tile, tile, apply(u32, ptx.inst.shfl.sync.idx.b32, upto, 31, 31, 0xFFFFFFFF), pred=beyond == 0)
    return found, place


class RaggedTile(Tiles):
    """The CTA's tile of sequences that lie behind each other: q (M, H, D), k (N, HK, D); sequence b is rows begins[b] to
    begins[b + 1].  Tiles that are not there end their CTA: the grid is as large as it could be."""

    def __init__(self, plan, begins, key_begins):
        self.begins, self.key_begins = begins, key_begins
        self.lane = reg.from_(ptx.special.tid.x(), u32) & 31
        super().__init__(plan)

    def _find(self):
        plan = self.plan
        tile, self.head = Divisor(self.H).quotient(reg.from_(ptx.special.ctaid.x(), u32))
        self.kv_head, _ = quotient(self.head, divided(self.H, self.HK))
        found, place = sequence_of(
            tile, self.P - 1, self.lane, lambda index: self._bounds(self.begins, index), plan.rows
        )
        ptx.ret(pred=found == 0)
        self.row = place * plan.rows
        self.found = found
        self.begin, end = self._bounds(self.begins, found - 1)
        self.key_begin, key_end = self._bounds(self.key_begins, found - 1)
        self.M, self.N, self.total = end - self.begin, key_end - self.key_begin, self.M
        self.end = self.M
        if plan.right or plan.left:
            ptx.inst.add.s32(self.shift, self.shift, signed(self.N - self.M))
        self._blocks()

    def _bounds(self, begins, index):
        return bounds_of(begins, index)

    def each(self):
        yield

    def place(self, column: int, row):
        return (column, self.head, self.begin + row)

    def key_boxes(self, index):
        yield 0, (self.kv_head, signed(self.key_begin) + index * self.plan.keys)

    def sums_at(self, row):
        return apply(u64, ptx.inst.mul.wide.u32, self.head, self.total) + (self.begin + row)


# Arithmetic: each writes an instruction, or few, into a new register.


def apply(kind, instruction, *operands):
    return apply_to(reg.scalar(kind), instruction, *operands)


class Divisor:
    """A number that divides many: once a division, then a product and a correction.

    With m = (2^32 - 1) / d, m n / 2^32 is n / d or one less, for n below 2^31."""

    def __init__(self, by):
        self.by = by
        self.factor = apply(u32, ptx.inst.div.u32, 0xFFFFFFFF, by)

    def quotient(self, value):
        """value / by and the rest."""
        whole = apply(u32, ptx.inst.mul.hi.u32, value, self.factor)
        rest = value - whole * self.by
        more = rest >= self.by
        ptx.inst.add.u32(whole, whole, 1, pred=more)
        ptx.inst.sub.u32(rest, rest, self.by, pred=more)
        return whole, rest


def signed(value):
    return apply(s32, ptx.inst.mov.b32, value)


def bounds_of(begins, index):
    """begins[index] and begins[index + 1]."""
    at = begins + index * 4
    return tuple(apply(u32, ptx.inst.ld.global_.nc.u32, ptx.addr(at, 4 * i)) for i in range(2))


def quotient(value, by):
    whole = apply(u32, ptx.inst.div.u32, value, by)
    return whole, value - whole * by


def divided(value, by):
    return apply(u32, ptx.inst.div.u32, value, by)


def floor_divided(value, by: int):
    """Towards minus infinity."""
    whole = apply(s32, ptx.inst.div.s32, value, by)
    rest = value - whole * by
    ptx.inst.sub.s32(whole, whole, 1, pred=rest < 0)
    return whole
