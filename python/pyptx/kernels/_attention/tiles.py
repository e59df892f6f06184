"""Which tiles of queries a CTA of attention takes, and in which order: of sequences of one length (`Tiles`), or of sequences of different
lengths that lie one behind the other (`RaggedTile`).  At the end is the integer arithmetic that this needs.
"""

from pyptx import ptx, reg
from pyptx.kernels._registers import LOG2_E, apply_to, divided, quotient
from pyptx.types import f32, pred, s32, u32, u64

__all__ = ["RaggedTile", "Tiles", "sequence_of", "take_scalars"]

PAGES_AT_ONCE = 4


def take_scalars(owner, scalars: list):
    """Makes attributes of runtime scalars, by name."""
    kinds = {"u32": u32, "u64": u64, "s32": s32, "f32": f32}
    for kind, name in scalars:
        setattr(owner, name, ptx.param(kinds[kind], name))


class Tiles:
    """The tiles that a CTA takes.  With a mask to the right, later rows see more keys.  Then the tiles of `together` heads form a round, from
    the last rows to the first, and the next heads follow; or tiles come in pairs of a long and a short one."""

    def __init__(self, plan):
        self.plan = plan
        take_scalars(self, plan.scalars)
        self._find()

    def take(self, **tensors):
        """Makes attributes with pointers of the tensors that are not None, by name."""
        for name, tensor in tensors.items():
            if tensor is not None:
                setattr(self, name, *ptx.global_ptrs(tensor))

    def _find(self):
        plan = self.plan
        self.row_tiles = quotient(self.M + (plan.rows - 1), plan.rows)
        if plan.from_end:
            self.parts = (self.M + 63) >> 6
        if plan.pairs:
            self.row_tiles = (self.row_tiles + 1) & ~1
        self.count = self.B * self.H * self.row_tiles
        self.rounds = Divisor(self.row_tiles * apply(u32, ptx.inst.max.u32, self.together, 1))
        self.of_head = Divisor(self.H)
        self.of_kv_head = Divisor(quotient(self.H, self.HK))
        self.end = self.M

    def each(self):
        """A loop over the CTA's tiles.  In its body, `row`, `head`, `batch`, `kv_head` and the blocks of keys `first` to `last` are set.

        Rows from `end` on do not belong to the tile: they do not exist or, for the first tile `from_end`, belong to the next one."""
        plan = self.plan
        for back, head in self._places():
            self.batch, self.head = self.of_head.divided(head)
            self.kv_head, _ = self.of_kv_head.divided(self.head)
            self.row = (self.row_tiles - 1 - back) * plan.rows
            if plan.from_end:
                past = (self.parts - back * plan.groups) << 6
                self.end = apply(u32, ptx.inst.min.u32, past, self.M)
                self.row = past - apply(u32, ptx.inst.min.u32, past, plan.rows)
            self._blocks()
            yield

    def _turn(self):
        """(the CTA's first tile, the distance to its next one)."""
        return reg.from_(ptx.special.ctaid.x(), u32), reg.from_(ptx.special.nctaid.x(), u32)

    def _places(self):
        """A loop over the CTA's tiles: yields (how many tiles of the head lie behind it, the number of the head among all)."""
        first, step = self._turn()
        if self.plan.returning:
            yield from self._back_and_forth(first, step)
        else:
            for tile in ptx.range_(first, self.count, step):
                back, head = self._of_round(tile)
                # Otherwise tiles that are not full would go to the same CTAs.
                if self.plan.uneven and not self.plan.right:
                    _, back = divided(back + quotient(tile - back, step), self.row_tiles)
                yield back, head

    def _back_and_forth(self, first, step):
        """Every second time the CTAs take tiles in the opposite order, so that the CTA with the longest tile then has the shortest.

        If `together` is 0, the longest tile of one head and the shortest of another form a pair, the second longest and the second shortest
        form the next, and so on.  A CTA takes pairs, whose work is the same."""
        whole, rest = divided(self.count, step)
        other = step - 1 - first
        last = apply(u32, ptx.inst.selp.u32, other, first, (whole & 1) != 0)
        ptx.inst.add.u32(whole, whole, 1, pred=last < rest)
        paired, pairs = self.together == 0, (self.count + 1) >> 1
        own = pairs + (step - 1) - first  # of the pairs, rounded up
        ptx.inst.selp.u32(whole, quotient(own, step) << 1, whole, paired)
        of_pairs = Divisor(self.row_tiles)
        for turn in ptx.range_(reg.scalar(u32, init=0), whole, 1):
            odd = (turn & 1) != 0
            back, head = reg.scalar(u32), reg.scalar(u32)
            with ptx.if_(paired):
                two, place = of_pairs.divided((turn >> 1) * step + first)
                ptx.inst.selp.u32(back, self.row_tiles - 1 - place, place, odd)
                ptx.inst.add.u32(head, two << 1, turn & 1)
                # If the number of heads is odd, the last one is a pair with itself.
                ptx.inst.min.u32(head, head, self.B * self.H - 1)
            with ptx.else_():
                found = self._of_round(turn * step + apply(u32, ptx.inst.selp.u32, other, first, odd))
                for into, each in zip((back, head), found, strict=True):
                    ptx.inst.mov.u32(into, each)
            yield back, head

    def _of_round(self, tile):
        """(how many tiles lie behind it, the head) for a tile, where `together` heads form a round.  The last round has the heads that are left."""
        round_, rest = self.rounds.divided(tile)
        begin = round_ * self.together
        back, within = divided(rest, apply(u32, ptx.inst.min.u32, self.together, self.B * self.H - begin))
        return back, begin + within

    def place(self, column: int, row):
        """The coordinates of a box of q or o."""
        return (column, row, self.head, self.batch)

    def key_boxes(self, index):
        """Yields (the first row in the block, the coordinates after the column) for each box of a block of keys."""
        if self.plan.page:
            yield from self._boxes_of_pages(index)
        else:
            yield 0, (index * self.plan.keys, self.kv_head, self.batch)

    def _boxes_of_pages(self, index):
        """`key_boxes` of a cache whose pages `table` names.  Entries of the table are loaded some at a time, so that they arrive together."""
        plan = self.plan
        rows = range(0, plan.keys, plan.page_rows)
        for first in range(0, len(rows), PAGES_AT_ONCE):
            boxes = [(row, *self._page(index * plan.keys + row)) for row in rows[first : first + PAGES_AT_ONCE]]
            for row, within, page in boxes:
                yield row, (self.kv_head, within, page)

    def _page(self, key):
        """(a key's place in its page, the page).  A block may pass the end of the table; the last entry is read again, and its keys are masked."""
        entry = apply(s32, ptx.inst.shr.s32, key, self.plan.page.bit_length() - 1)
        within = apply(s32, ptx.inst.and_.b32, key, self.plan.page - 1)
        ptx.inst.min.s32(entry, entry, signed(self.T) - 1)
        at = apply(u64, ptx.inst.mul.wide.u32, self.batch, self.T) + apply(u64, ptx.inst.cvt.u64.s32, entry)
        return within, apply(s32, ptx.inst.ld.global_.nc.s32, ptx.addr(self.table + at * 4))

    def boxes_of_k(self, index, bytes_: int):
        """Yields (the first byte in the block, the coordinates) for each copy of a block of k."""
        plan = self.plan
        for row, place in self.key_boxes(index):
            for i in range(bytes_ // (plan.keys * plan.line)):
                yield (i * plan.keys + row) * plan.line, (i * plan.columns, *place)

    boxes_of_v = boxes_of_k

    def beside_fetching(self, shared, thread):
        """What the warpgroup that fetches does by threads that do not."""

    def begin_values(self):
        """Begins the values of a new tile."""

    def await_values(self):
        """Waits until the values of the tile may be fetched."""

    def query(self, row):
        """The number of the query in a row."""
        return row

    def bias_at(self, row):
        """Where the bias of a row begins, in what it is loaded by."""
        return self.row_of_bias(self.head, row)

    def row_of_bias(self, head, query):
        batch, head = (apply(u64, ptx.inst.cvt.u64.u32, each) for each in (self.batch, head))
        at = apply(u64, ptx.inst.mul.lo.u64, batch, self.bias_batch)
        ptx.inst.mad.lo.u64(at, head, self.bias_head, at)
        return apply(u64, ptx.inst.mad.wide.u32, query, self.bias_query, at)

    def sums_at(self, row):
        """The index of a row in log-sum-exp."""
        return apply(u64, ptx.inst.mul.wide.u32, self.batch * self.H + self.head, self.M) + row

    def sink(self, head):
        """The sink of a head, as an exponent of 2."""
        value = apply(f32, ptx.inst.ld.global_.nc.f32, ptx.addr(self.sinks + head * 4))
        return apply(f32, ptx.inst.mul.rn.f32, value, LOG2_E)

    def _blocks(self):
        """Sets which blocks are visited: from `last` down to `first`.  Those from `whole_first` to `whole_last` need no mask."""
        plan = self.plan
        end, whole = signed(self.N), signed(self.N)  # keys that some row sees, that all rows see
        if plan.right:
            sees = signed(self.query(self.row)) + self.shift + 1
            past = signed(self.end) + self.shift if plan.from_end else sees + (plan.tile_queries - 1)
            ptx.inst.min.s32(end, end, past)
            ptx.inst.min.s32(whole, whole, sees)
        ptx.inst.max.s32(end, end, 1)
        self.last = floor_divided(end - 1, plan.keys)
        self.whole_last = floor_divided(whole, plan.keys) - 1
        self.first = reg.scalar(s32, init=0)
        self.whole_first = self.first
        if plan.left:
            begin = signed(self.query(self.row)) + self.shift - self.reach
            self.first = floor_divided(begin, plan.keys)
            ptx.inst.max.s32(self.first, self.first, 0)
            ptx.inst.min.s32(self.first, self.first, self.last)
            self.whole_first = floor_divided(begin + (plan.tile_queries - 1 + plan.keys - 1), plan.keys)
            ptx.inst.max.s32(self.whole_first, self.whole_first, 0)


def sequence_of(tile, sequences, lane, bounds, rows: int):
    """(the sequence of a tile of `rows` rows, its place in the sequence), where sequences lie one behind the other.  Sequences are counted from
    1; 0 means that the tile has no rows.  The place of the last tile of a sequence is found first.  `bounds(number)`: the first row of a
    sequence, and the one behind its last.

    Tiles are counted so that sequence s begins with tile s + begin / rows, behind those of the sequences before, of which each has at most one
    without rows.  So all threads search for the last sequence that begins before the tile, each lane in another place."""
    first, count = reg.scalar(u32, init=0), apply(u32, ptx.inst.mov.u32, sequences)

    def begin_of(sequence):
        begin, end = bounds(sequence)
        return sequence + quotient(begin, rows), end - begin

    more = reg.scalar(pred)
    with ptx.loop("nearer", pred=more):
        step = (count + 31) >> 5
        mine = lane * step
        behind = reg.scalar(u32, init=0)
        with ptx.if_(mine < count):
            ptx.inst.selp.u32(behind, 1, 0, begin_of(first + mine)[0] <= tile)
        before = apply(u32, ptx.inst.popc.b32, ptx.warp.ballot(behind != 0, 0xFFFFFFFF)) - 1
        first += before * step
        ptx.inst.min.u32(count, step, count - before * step)
        ptx.inst.setp.gt.u32(more, count, 1)
    begin, length = begin_of(first)
    tiles, index = quotient(length + (rows - 1), rows), tile - begin
    found = apply(u32, ptx.inst.selp.u32, first + 1, 0, index < tiles)
    return found, tiles - 1 - index


class RaggedTile(Tiles):
    """The CTA's only tile, where sequences lie one behind the other: q (M, H, D), k (N, HK, D); sequence b has the rows from begins[b] to
    begins[b + 1].  The grid has as many CTAs as there could be tiles; those without a tile end."""

    def __init__(self, plan, begins, key_begins):
        self.begins, self.key_begins = begins, key_begins
        self.lane = reg.from_(ptx.special.tid.x(), u32) & 31
        super().__init__(plan)

    def _find(self):
        plan = self.plan
        tile, self.head = Divisor(self.H).divided(reg.from_(ptx.special.ctaid.x(), u32))
        self.kv_head, _ = divided(self.head, quotient(self.H, self.HK))
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


# Integer arithmetic: each function writes one instruction, or a few, whose result is in a new register.


def apply(kind, instruction, *operands):
    """Writes the instruction with a new register of type `kind` for its result, and returns that."""
    return apply_to(reg.scalar(kind), instruction, *operands)


class Divisor:
    """A number that divides many others: it takes one division, then a product and a correction for each.

    With m = (2^32 - 1) / d, m n / 2^32 is n / d or one less, for n below 2^31."""

    def __init__(self, by):
        self.by = by
        self.factor = apply(u32, ptx.inst.div.u32, 0xFFFFFFFF, by)

    def divided(self, value):
        """(value / by, the remainder)."""
        whole = apply(u32, ptx.inst.mul.hi.u32, value, self.factor)
        rest = value - whole * self.by
        more = rest >= self.by
        ptx.inst.add.u32(whole, whole, 1, pred=more)
        ptx.inst.sub.u32(rest, rest, self.by, pred=more)
        return whole, rest


def signed(value):
    return apply(s32, ptx.inst.mov.b32, value)


def bounds_of(begins, index):
    """(begins[index], begins[index + 1])."""
    at = begins + index * 4
    return tuple(apply(u32, ptx.inst.ld.global_.nc.u32, ptx.addr(at, 4 * i)) for i in range(2))


def floor_divided(value, by: int):
    """value / by, rounded towards minus infinity."""
    whole = apply(s32, ptx.inst.div.s32, value, by)
    rest = value - whole * by
    ptx.inst.sub.s32(whole, whole, 1, pred=rest < 0)
    return whole
