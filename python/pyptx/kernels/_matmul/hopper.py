"""C = A B on Hopper's tensor cores: a persistent kernel of one producer warp and two consumer warpgroups.

    producer     for each tile, for each 128 bytes of K:  wait(empty[stage]), copy a tile of A and one of B, on full[stage]
    consumers    for each tile, for each 128 bytes of K:  wait(full[stage]), four wgmma, arrive(empty[the stage before])

What surprises, and why:

- CTAs of a cluster that need the same rows of A, or the same columns of B, each fetch a part of them and multicast it.  A stage
  is therefore free only when the consumers of all CTAs that it goes to have read theirs.
- One group of wgmma stays in flight while the next is issued; the stage before is released when the newer one is on its way.
- Accumulators are rounded to 16-bit values in other registers, which are stored (_matmul/store.py) while the first products of the next
  tile run, two steps of which are in flight.  So the tensor cores wait only for the conversion.  An activation takes longer: accumulators
  go to other registers, and it takes some columns beside each step of the next tile.
- Where K is in parts (`Config.parts`), neighbouring steps are of different CTAs: what they copy at one time is neighbours in memory, too.
- Tiles are taken in groups of some rows of tiles, column by column, so that what all CTAs read at one time is close to a square
  and stays in L2.

A and B may each be stored with K contiguous, or with M (N) contiguous, which is a bit of the instruction; M, N and K may be anything,
as copies clip what lies outside and fill it with zeros.
"""

import contextlib
import functools
from dataclasses import replace

from pyptx import ptx, reg, smem
from pyptx.kernels._epilogue import NOTHING, Epilogue
from pyptx.kernels._matmul.ahead import Line
from pyptx.kernels._matmul.blocks import PairedSums, SingleSums
from pyptx.kernels._matmul.exchange import Exchange
from pyptx.kernels._matmul.store import Store, chunk_of
from pyptx.kernels._matmul.tiles import (
    CLUSTERS,
    ENDS,
    ROW,
    WARPGROUP,
    WORD,
    Config,
    Groups,
    Operand,
    Ring,
    Tiles,
    address,
    clear_behind,
    copied,
    fetch_maps,
    keep_ends,
    kernel_of_tiles,
    mask,
    of_batch,
    quotient,
    within,
)
from pyptx.types import PtxType, b32, bf16, f32, s8, s32, u8, u32, u64

__all__ = ["product_kernel"]

WARPS = 4
HALF = 64  # rows of a tile, of one of two consumers
PAIRED = 128  # columns of a tile with scales of blocks, up to which there are registers for the sums of two steps
WORKING = 40  # registers of a consumer besides accumulators and what waits to be stored
# Bytes of shared memory that a CTA may have, less what barriers and gaps between allocations take.
MOST_SHARED = 232_448 - 1024


class Product:
    """The body of the kernel of one configuration: `write` writes it."""

    def __init__(
        self, c: Config, a: Operand, b: Operand, out: PtxType, batched: int, epilogue: Epilogue, grouped: bool,
        masked: bool = False, parted: bool = False,
    ):  # fmt: skip
        self.c, self.a, self.b, self.out, self.batched, self.epilogue = c, a, b, out, batched, epilogue
        self.grouped, self.masked, self.parted = grouped, masked, parted
        self.halves_tiles = halves_tiles(c, masked, epilogue) and grouped
        # Steps of a tile that begin before its place is known.
        self.begun = 2 if epilogue.scales == "block" else 1
        self.columns = c.bn // 2 if epilogue.gated else c.bn  # columns of C in a tile
        self.acc_type = s32 if a.dtype == s8 else f32
        self.stage_bytes = a.bytes + b.bytes
        self.blocks = c.bm // 64 // c.consumers  # blocks of 64 rows that a consumer has
        self.exchange = Exchange.of(c)
        self.stored = self.columns // c.parts  # columns of C that a CTA stores
        self.chunk, self.swizzled = chunk_of(c.bn // c.parts, out.bits)
        self.swizzled |= c.turned  # the parts of turned tiles are 128 bytes wide
        self.threads = WARPGROUP * (c.consumers + 1)
        ahead = c.overlap and epilogue != NOTHING and self.blocks == 1 and epilogue.scales != "block"
        residual = epilogue.residual
        self.residual_copied = ahead and residual is not None and residual.bits == out.bits
        self.ahead = ahead and (residual is None or self.residual_copied)
        self.packs = not self.ahead or (epilogue.activation is None and residual is None)
        self.halves = 2 if epilogue.gated else 1
        self.lines = self.lines_ahead() if self.ahead else []
        every = self.blocks * (self.stored // self.chunk)
        self.buffers = self.buffers_ahead() if self.residual_copied else every if c.once else 2
        # Registers for a thread of the producer and of a consumer, if equal shares (168, or 128 with three consumers) are too few.
        wide = self.blocks * c.bn >= 192 or (epilogue.scales == "block" and c.bn > 64) or (self.ahead and c.bn >= 112)
        self.registers = {2: (40, 232) if wide else None, 3: (32, 160)}.get(c.consumers)

    @property
    def buffer(self) -> int:
        """The bytes of 64 rows of a chunk, which are stored together."""
        return 64 * self.chunk * self.out.bits // 8

    @property
    def at_once(self) -> int:
        """How many parts of a tile are stored before the next tile begins.  The others wait as accumulators, as many as there are registers for,
        until its products run, or as values of C, if these are made quickly."""
        if self.packs:
            return 0
        parts = self.columns // self.chunk
        if not self.c.beside:
            return parts
        registers = {1: 255, 2: 168}.get(self.c.consumers) if self.registers is None else self.registers[1]
        return max(0, parts - (registers - WORKING - self.c.bn // 2) // (self.c.bn // 2 // parts))

    def lines_ahead(self) -> list:
        """What an epilogue reads of rows and columns, as much as there is room for."""
        e, room, found = self.epilogue, self.room(2) // self.c.consumers, []
        lines = [Line("SCALE_A", f32, 64 * 4)] if e.scales == "row" else []
        if e.bias:
            lines.append(Line("BIAS", e.bias, self.c.bn * e.bias.bits // 8))
        if e.scales == "row":
            lines.append(Line("SCALE_B", f32, self.c.bn * 4))
        for line in lines:
            if sum(each.bytes for each in (*found, line)) <= room:
                found.append(line)
        return found

    @property
    def line_bytes(self) -> int:
        """Bytes of the lines of one consumer."""
        return sum(line.bytes for line in self.lines)

    def room(self, buffers: int) -> int:
        """The bytes of shared memory that so many buffers a consumer leave."""
        c, ends = self.c, 4 * ENDS * self.grouped
        return MOST_SHARED - c.stages * self.stage_bytes - c.consumers * buffers * self.buffer - ends

    def buffers_ahead(self) -> int:
        """How many buffers a consumer has, each for 64 rows of a chunk of C: as many as there is room for, if the residual is fetched there."""
        lines, parts = self.line_bytes * self.c.consumers, self.columns // self.chunk
        return next((count for count in range(parts, 2, -1) if self.room(count) >= lines), min(parts, 2))

    def write(self, A, B, C, OFFS=None, **more):
        c, self.more = self.c, more
        self.maps = A.tma_desc(), B.tma_desc(), C.tma_desc()
        if c.turned:
            self.maps = self.maps[1], self.maps[0], self.maps[2]
        self.ring = smem.alloc(u8, c.stages * self.stage_bytes, align=1024)
        self.staged = self.ring if c.once else smem.alloc(u8, c.consumers * self.buffers * self.buffer, align=1024)
        self.full, self.empty = smem.mbarrier(c.stages), smem.mbarrier(c.stages)
        if c.parts > 1:
            self.landing, self.landed = smem.alloc(u8, self.exchange.landing, align=128), smem.mbarrier(1)
            self.part = reg.from_(ptx.sreg("%cluster_ctarank"), u32) >> (c.share.bit_length() - 1)
        if self.lines:
            self.kept = smem.alloc(b32, c.consumers * self.line_bytes // 4)
        if self.residual_copied:
            self.residual_map = more["RESIDUAL"].tma_desc()
            self.arrived = smem.mbarrier(c.consumers * (self.columns // self.chunk))
        thread = reg.from_(ptx.special.tid.x(), u32)
        warpgroup = thread >> 7
        self.set_up(thread)
        if c.ahead:
            with ptx.if_(thread == 0):
                self.fetch_ahead()
        # What stands above may run while the kernel before this one ends; the next kernel's may run beside this one.
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
        if self.grouped or c.inside:
            (self.pointer,) = ptx.global_ptrs(C)
        if self.grouped:
            self.ends = keep_ends(OFFS, thread, self.threads, self.masked)
        if self.parted:
            self.ends = keep_ends(OFFS, thread, self.threads, self.masked, "L")
        self.steps = (ptx.param(u32, "K") + (self.a.bk - 1)) >> (self.a.bk.bit_length() - 1)
        if self.epilogue.scales == "block" and c.bn <= PAIRED:  # two steps at least; a step beyond K copies zeros
            steps, self.steps = self.steps, reg.scalar(u32)
            ptx.inst.max.u32(self.steps, steps, 2)
        if c.parts > 1:  # each has a step, and one beyond K copies zeros
            steps, self.steps = self.steps, reg.scalar(u32)
            ptx.inst.max.u32(self.steps, steps, c.parts)
            self.steps = quotient(self.steps + (c.parts - 1) - self.part, c.parts)
        self.whole_steps = self.steps - 1 if c.tail else self.steps
        with ptx.if_(warpgroup == 0):
            if self.registers:
                ptx.setmaxnreg(self.registers[0], inc=False)
            with ptx.if_(thread == 0):
                self.produce()
            if c.parts > 1:
                ptx.cluster.wait()
        with ptx.else_():
            if self.registers:
                ptx.setmaxnreg(self.registers[1], inc=True)
            self.consume(thread & 127, warpgroup - 1)
        if c.share > 1:
            ptx.cluster.sync()  # others may still read this CTA's memory, or arrive at its barriers
        ptx.ret()

    def set_up(self, thread):
        """Fetches tensor maps, makes mbarrier objects, and waits until all threads of the cluster see them."""
        c = self.c
        with ptx.if_(thread == 32):
            fetch_maps((*self.maps, self.residual_map) if self.residual_copied else self.maps)
        with ptx.if_(thread == 0):
            for stage in range(c.stages):
                ptx.mbarrier.init(self.full[stage], 1)
                ptx.mbarrier.init(self.empty[stage], (c.cm + c.cn - 1) * c.consumers * WARPS)
            if self.residual_copied:
                for part in range(c.consumers * (self.columns // self.chunk)):
                    ptx.mbarrier.init(self.arrived[part], 1)
            if c.parts > 1:
                ptx.mbarrier.init(self.landed[0], 1)
            ptx.fence.mbarrier_init()
            if c.parts > 1:
                self.exchange.expect(self.part, self.landed)
        if c.few:
            blocks = range(0, c.stages * self.stage_bytes, self.stage_bytes)
            clear_behind(self.ring, blocks, c.bm, thread, self.threads)
        if c.share > 1:
            ptx.cluster.sync()
        else:
            ptx.bar.sync(0)
        if c.parts > 1:
            ptx.cluster.arrive()  # from here on others may leave their parts

    def tiles(self, role: str) -> Tiles:
        if self.grouped:
            return Groups(self.c, self.columns, self.ends, role, self.masked)
        return Tiles(self.c, self.batched, self.columns)

    def fetch_ahead(self):
        """Fetches the first steps of B to L2, before the kernel ahead has ended.  If that one still writes B, it writes it to L2, too."""
        c, tiles = self.c, Tiles(self.c, False, self.columns)
        row, column = tiles.place(tiles.first, tiles.down(ptx.param(u32, tiles.rows)))
        of = (self.a, self.maps[0], tiles.rn, row) if c.turned else (self.b, self.maps[1], tiles.rm, column)
        operand, tensor_map, rank, start = of
        k = reg.scalar(u32, init=0)
        for _ in range(c.ahead):
            for _, where in self.part_of(operand, rank, (start, k, None))[1]:
                ptx.tensor_copy.prefetch(tensor_map, where)
            k += self.a.bk

    # The producer.

    def produce(self):
        c, tiles = self.c, self.tiles("produce")
        ring = Ring(c.stages)
        base = address(self.ring)
        column = (1 << c.cm) - 1
        shared_a = mask(((1 << c.share) - 1) // column, self.of_this_part(tiles.rm)) if c.cn > 1 else None
        shared_b = mask(column, self.of_this_part(tiles.rn * c.cm)) if c.cm > 1 else None
        step = reg.scalar(s32, init=-self.a.bk if c.swing else c.parts * self.a.bk)
        copied_bytes = ptx.param(u32, "M") * ROW + self.b.bytes if c.few else self.stage_bytes
        last = self.whole_steps * self.a.bk - (4 - c.tail) * (self.a.bk // 4) if c.tail else None
        hints = [None, None]
        if c.ahead:
            hints[not c.turned] = reg.scalar(u64)
            ptx.inst.createpolicy.fractional.L2__evict_first.b64(hints[not c.turned])
        operands = (
            (self.a, self.maps[0], tiles.rn, shared_a, hints[0]),
            (self.b, self.maps[1], tiles.rm, shared_b, hints[1]),
        )
        for row, column, batch, expert, _, rows, _ in tiles.places():
            k = copied(self.part * self.a.bk) if c.parts > 1 else reg.scalar(u32, init=0)
            if c.swing:
                # (A predicate that is negated for each tile would be shorter; ptxas 13.0 reads it behind the negation.)
                ptx.inst.neg.s32(step, step)
                ptx.inst.selp.b32(k, (self.steps - 1) * self.a.bk, 0, step < 0)
            steps = self.steps
            if self.parted:
                k, lines = self.lines_of(batch)
                steps, batch = (lines + (self.a.bk - 1)) >> (self.a.bk.bit_length() - 1), None
            many = rows > HALF if self.halves_tiles else None
            for number in ptx.range_(0, steps, dtype=u32):
                full, lower = self.full[ring.stage], None
                if c.tail:
                    ptx.inst.min.u32(k, k, last)
                ptx.mbarrier.wait(self.empty[ring.stage], ring.parity ^ 1)
                if self.halves_tiles:
                    lower, bytes_ = many | (number < self.begun), reg.scalar(u32)
                    ptx.inst.selp.b32(bytes_, self.stage_bytes, self.stage_bytes - HALF * ROW, lower)
                    ptx.mbarrier.arrive_expect_tx(full, bytes_)
                else:
                    ptx.mbarrier.arrive_expect_tx(full, copied_bytes)
                to = base + ring.stage * self.stage_bytes
                starts = (row, batch), (column, expert if self.grouped else batch)
                self.copy(operands, starts, k, to, full, lower)
                ptx.inst.add.s32(k, k, step)
                ring.advance()

    def copy(self, operands, starts, k, to, full, lower):
        """Copies this CTA's part of a stage."""
        offset = 0
        for (operand, tensor_map, rank, multicast, hint), (line, batch) in zip(operands, starts, strict=True):
            first, copies = self.part_of(operand, rank, (line, k, batch))
            into = to + first if operand.share > 1 else to
            for at, where in copies:
                there = ptx.addr(into, offset + at)
                with self.if_needed(operand, rank, at, lower):
                    ptx.tensor_copy.load(there, tensor_map, where, full, multicast_mask=multicast, cache_hint=hint)
            offset += operand.bytes

    def if_needed(self, operand: Operand, rank, at: int, lower):
        """A copy of the lower half of a tile's rows is not, where `lower` does not hold; None: all are."""
        if lower is None or operand is not self.a or (operand.share == 1 and at == 0):
            return contextlib.nullcontext()
        return ptx.if_(lower if operand.share == 1 else lower | (rank == 0))

    def of_this_part(self, number):
        """The rank in the cluster of the CTA that has this number among those of the same part of K."""
        return number if self.c.parts == 1 else self.part * self.c.share + number

    def part_of(self, operand: Operand, rank, start):
        """This CTA's part of the tile that begins at `start` (row, k, matrix of a batch): (the part's first byte in the tile, copies), where each
        copy is (its first byte in the part, its coordinates)."""
        (row, k, batch), first = start, 0
        if operand.share > 1:
            rows, along, size = operand.part
            row, k = row + rank * rows if rows else row, k + rank * along if along else k
            first = rank * size
        places = [(at, operand.where(row, rows, k)) for rows, at in operand.copies()]
        return first, [(at, (*where, *of_batch(self.batched, batch))) for at, where in places]

    # A consumer.

    def consume(self, thread, consumer):
        c = self.c
        self.position = Ring(c.stages)
        start = address(self.ring)
        mine = consumer * (self.blocks * 64 * ROW)
        self.desc_a = self.a.descriptor(start + mine)
        self.desc_b = self.b.descriptor(start + self.a.bytes)
        self.prepare_release(thread)
        self.acc = [reg.array(self.acc_type, c.bn // 2) for _ in range(self.blocks)]
        store = Store(self, thread, consumer, self.stored)
        first = consumer * (self.blocks * 64)
        if self.epilogue.scales == "block":
            sums = (PairedSums if c.bn <= PAIRED else SingleSums)(self, store, thread)
            for place in self.tiles("consume").places(sums.ahead):
                sums.sum(place._replace(row=place.row + first))
            sums.end()
            store.finish()
            return
        for place in self.tiles("consume").places(None if self.parted else self.begin):
            place = place._replace(row=place.row + first)
            if self.parted:
                self.sum_lines(store, thread + consumer * WARPGROUP, place.batch)
            else:
                self.sum(store, place)
            acc = self.acc
            if c.parts > 1:
                acc, place = self.sums_of_parts(thread + consumer * WARPGROUP), self.stored_by(place)
            if c.once:  # the other consumers may still multiply what lies where this one stages its result
                ptx.bar.sync(c.consumers + 1, WARPGROUP * c.consumers)
            if not self.ahead:
                store.keep(place)
            store.turn(acc)
            if not c.overlap:
                store.all()
        if c.overlap:
            store.all()
        store.finish()

    def sums_of_parts(self, thread) -> list:
        """The columns that this CTA stores, added up over the parts of K."""
        c, rank, half = self.c, reg.from_(ptx.sreg("%cluster_ctarank"), u32), self.stored // 2
        member = rank & (c.share - 1)
        firsts = [range(part * half, (part + 1) * half, 4) for part in range(c.parts)]
        groups = [acc[first : first + 4] for of_part in firsts for acc in self.acc for first in of_part]
        ptx.cluster.wait()
        landing, ranks = address(self.landing), lambda part: part * c.share + member
        sums = self.exchange.sums(self.part, ranks, landing, self.landed, thread, groups, self.acc_type)
        return [sums[first : first + half] for first in range(0, len(sums), half)]

    def stored_by(self, place):
        """Where they are."""
        return place._replace(column=place.column + self.part * self.stored)

    def begin(self):
        """Begins a tile, whose place need not be known."""
        self.issue(self.acc, True)
        ptx.inst.mov.u32(self.before, self.position.stage)
        self.position.advance()

    def sum(self, store: Store, place):
        """Adds up the products of a tile that has begun; the tile before is stored beside the first of them, of which two are in flight."""
        work = [functools.partial(store.if_waiting, write) for write in store.later()] if self.c.overlap else []
        if self.ahead:
            work.append(lambda: store.fetch(place))
            if self.residual_copied:
                work.append(store.ahead.fetch_residual)
        if not self.halves_tiles:
            self.sum_beside(work)
            return
        with ptx.if_(self.is_idle(store, place)):
            self.pass_over([self.before], self.steps - 1, work)
        with ptx.else_():
            self.sum_beside(work)

    def is_idle(self, store: Store, place):
        """Whether a consumer has the lower half of the only tile of a group, without a row."""
        return (place.rows <= HALF) & (store.consumer > 0)

    def pass_over(self, begun: list, left, work: list):
        """What such a consumer does: it frees the stages, of which `left` have not been waited for, and what it writes runs beside."""
        ptx.wgmma.wait_group(0)
        for stage in begun:
            self.release(stage)
        for number, write in enumerate(work):
            write()
            with ptx.if_(left > number):
                self.pass_one()
        for _ in ptx.range_(len(work), left, dtype=u32):
            self.pass_one()

    def pass_one(self):
        ptx.mbarrier.wait(self.full[self.position.stage], self.position.parity)
        self.release(self.position.stage)
        self.position.advance()

    def sum_beside(self, work: list):
        """The steps of a tile that has begun, and what is written beside the first of them."""
        for k, write in enumerate(work):
            with ptx.if_(self.whole_steps > k + 1):
                self.issue(self.acc, False)
            write()
            with ptx.if_(self.whole_steps > k + 1):
                self.step()
        for _ in ptx.range_(len(work) + 1, self.whole_steps, dtype=u32):
            self.issue(self.acc, False)
            self.step()
        if self.c.tail:
            self.issue(self.acc, False, 4 - self.c.tail)
            self.step()
        ptx.wgmma.wait_group(0)
        self.release(self.before)

    def step(self):
        """Waits for the products of the stage before the newest, and frees it."""
        ptx.wgmma.wait_group(1)
        self.release(self.before)
        ptx.inst.mov.u32(self.before, self.position.stage)
        self.position.advance()

    def issue(self, accumulators, first: bool, begin: int = 0, column: int = 0, groups: int = 1, before=None):
        """Starts the products of one stage, of its 32 bytes of K from number `begin` on, and of as many of a tile's columns from number `column`
        on as accumulators are for.  `first`: they replace what the accumulators hold, instead of being added.  groups: of wgmma.  `before` writes
        what comes when the stage is full."""
        at = self.position
        ptx.mbarrier.wait(self.full[at.stage], at.parity)
        words = reg.scalar(u64)
        ptx.inst.mul.wide.u32(words, at.stage, self.stage_bytes // WORD)
        a, b = self.desc_a + words, self.desc_b + words
        if before:
            before()
        ptx.wgmma.fence()
        for step in range(begin, ROW // 32):
            if groups > 1 and step == ROW // 32 // groups:
                ptx.wgmma.commit_group()
            for number, acc in enumerate(accumulators):
                ptx.wgmma.mma_async(
                    shape=(64, 2 * len(acc), 256 // self.a.dtype.bits),
                    dtype_d=self.acc_type,
                    dtype_a=self.a.multiplied,
                    dtype_b=self.b.multiplied,
                    d=acc,
                    a=a + (step * self.a.step + number * 64 * ROW // WORD),
                    b=b + (column * ROW // WORD + step * self.b.step),
                    scale_d=not (first and step == 0),
                    trans_a=int(not self.a.k_major),
                    trans_b=int(not self.b.k_major),
                )
        ptx.wgmma.commit_group()

    # Products of groups of lines of K.

    def lines_of(self, group):
        """(the first line of a group, how many lines it has)."""
        at, end, start = self.ends + group * 4, reg.scalar(u32), reg.scalar(u32, init=0)
        ptx.inst.ld.shared.u32(end, ptx.addr(at))
        if self.masked:
            within(start, end, group, quotient(ptx.param(u32, "K"), ptx.param(u32, "L")))
        else:
            ptx.inst.ld.shared.u32(start, ptx.addr(at, -4), pred=group > 0)
            ptx.inst.min.u32(start, start, ptx.param(u32, "K"))
            within(start, end, None, None, "K")
        return start, end - start

    def sum_lines(self, store: Store, thread, group):
        """Adds up the products of a group's lines; the tile before is stored beside the first of them."""
        for acc in self.acc:
            for each in acc:
                ptx.inst.mov.b32(each, 0)
        _, left = self.lines_of(group)
        later, shift = reg.scalar(u32, init=0), self.a.bk.bit_length() - 1
        steps = (left + (self.a.bk - 1)) >> shift
        work = store.later() if self.c.overlap else []
        for k, write in enumerate(work):
            with ptx.if_(steps > k):
                self.issue_lines(thread, left)
            store.if_waiting(write)
            with ptx.if_(steps > k):
                self.step_lines(left, later)
        for _ in ptx.range_(len(work), steps, dtype=u32):
            self.issue_lines(thread, left)
            self.step_lines(left, later)
        ptx.wgmma.wait_group(0)
        with ptx.if_(later == 1):
            self.release(self.before)

    def issue_lines(self, thread, left):
        """Starts the products of a stage.  The last one of a group also has lines behind it, which become zeros in shared memory."""
        with ptx.if_(left < self.a.bk):
            ptx.mbarrier.wait(self.full[self.position.stage], self.position.parity)
            self.clear(thread, left)
        self.issue(self.acc, False)

    def step_lines(self, left, later):
        """Waits for the products of the stage before the newest, and frees it.  `later`: 0 for the first, before which there is none."""
        ptx.wgmma.wait_group(1)
        with ptx.if_(later == 1):
            self.release(self.before)
        ptx.inst.mov.u32(self.before, self.position.stage)
        ptx.inst.mov.u32(later, 1)
        left -= self.a.bk
        self.position.advance()

    def clear(self, thread, first):
        """Writes zeros to the lines from `first` on, in all blocks (128 bytes wide) of the stage."""
        threads, zero = self.c.consumers * WARPGROUP, reg.scalar(b32, init=0)
        start = address(self.ring) + self.position.stage * self.stage_bytes
        for i in range(self.stage_bytes // WORD // threads):
            word = thread + i * threads
            outside = ((word >> 3) & (self.a.bk - 1)) >= first
            ptx.inst.st.shared.v4.b32(ptx.addr(start + word * WORD), [zero] * 4, pred=outside)
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(self.c.consumers + 1, threads)

    def prepare_release(self, thread):
        c = self.c
        self.before = reg.scalar(u32)
        lane = thread & 31
        self.releases = lane < c.cm + c.cn - 1
        if c.share > 1:  # this CTA and those that copy to it: of its columns, and then of its rows, itself left out
            rank, self.there = reg.from_(ptx.sreg("%cluster_ctarank"), u32), reg.scalar(u32)
            number = rank if c.parts == 1 else rank & (c.share - 1)
            rm, rn, other = number & (c.cm - 1), number >> (c.cm.bit_length() - 1), reg.scalar(u32)
            ptx.inst.add.u32(other, rank - rm, lane)
            with ptx.if_(lane >= c.cm):
                ptx.inst.mad.lo.u32(other, (rn + (lane - c.cm + 1)) & (c.cn - 1), c.cm, self.of_this_part(rm))
            ptx.inst.mapa.shared__cluster.u32(self.there, address(self.empty), other)

    def release(self, stage):
        if self.c.cm * self.c.cn > 1:
            ptx.mbarrier.arrive_cluster(ptx.addr(self.there + stage * 8), pred=self.releases)
        else:
            ptx.mbarrier.arrive(self.empty[stage], pred=self.releases)


def halves_tiles(c: Config, masked: bool, epilogue: Epilogue) -> bool:
    """Whether the lower half of a tile is neither copied nor multiplied where the whole group, of more room, has no more rows than the upper
    half.  The last tile of more rows is not cut: CTAs would drift apart that share what they read of B, each of which would then come from
    memory."""
    return masked and c.bm == 2 * HALF and c.consumers == 2 and (epilogue.scales != "block" or c.bn <= PAIRED)


@functools.cache
def product_kernel(
    c: Config,
    dtype: PtxType,
    a_k_major=True,
    b_k_major=True,
    out: PtxType = bf16,
    batched: int = 0,
    epilogue=NOTHING,
    grouped=False,
    masked=False,
    parted=False,
):
    """The kernel (A, B, ...) -> C of one configuration.

    A is (M, K), or (K, M) if it is not K-major; B is (N, K), or (K, N); with a gated activation it is (2, N, K), or (K, 2, N).
    batched: how many dimensions there are before these, up to 2.
    grouped: B has E matrices, and OFFS has, for each, the row of A behind its last one.  masked: each matrix has M / E rows of A, and OFFS
        says how many of them count.
    parted: A (K, M) and B (K, N) have a product for each group of lines of K, C (L, M, N); OFFS has the line behind each group's last one.
        masked: each group has K / L lines, and OFFS says how many of them count.
    """
    bk = ROW * 8 // dtype.bits
    pieces = 2 if grouped and halves_tiles(c, masked, epilogue) and c.cn == 1 else 1
    a = Operand(dtype, a_k_major, c.bm, c.cn, bk, pieces=pieces)
    b = Operand(dtype, b_k_major, c.bn, c.cm, bk, epilogue.gated)
    if c.turned:
        if out.bits != 16 or grouped or epilogue != NOTHING:
            raise ValueError(f"{c}: turned, a product has values of 16 bits, and no groups or epilogue")
        a, b = (replace(b, rows=c.bm, share=c.cn), replace(a, rows=c.bn, share=c.cm))
    if c.few and (not grouped or c.bm != 64 or c.ctas > 1):
        raise ValueError(
            f"{c}: a part of a tile's rows is copied of groups, whose tiles have 64 rows, without clusters"
        )
    if parted and (a_k_major or b_k_major or c.ctas > 1 or c.swing or epilogue != NOTHING):
        raise ValueError(f"{c}: groups of lines of K want A (K, M), B (K, N), and no clusters or swing")
    other = grouped or parted or c.tail or epilogue.gated or epilogue.scales == "block"
    if c.parts > 1 and (not c.once or c.bn % (16 * c.parts) or other):
        raise ValueError(
            f"{c}: parts of K want clusters that have one tile, a multiple of 16 columns each, and no tail, groups, gates or scales of blocks"
        )
    if c.tail and (c.swing or parted or epilogue.scales == "block"):
        raise ValueError(f"{c}: a tail of K wants no swing, groups of lines or scales of blocks")
    product = Product(c, a, b, out, int(batched or parted), epilogue, grouped, masked, parted)
    wide = c.bn > PAIRED  # of gates and ups, a half could lie in two blocks of 128 columns
    of_blocks = product.blocks == 1 and c.overlap and (c.consumers == 2 and not epilogue.gated if wide else not c.swing)
    if epilogue.scales == "block" and not of_blocks:
        raise ValueError(
            f"{c}: with scales of blocks, a warpgroup has 64 rows, tiles overlap, those of up to {PAIRED} columns do not swing, and "
            "wider ones have two warpgroups and no gates"
        )
    unit = max(product.chunk, 0 if b_k_major else 64)  # copies of B (K, N) are 64 columns wide
    if epilogue.gated and (c.cm > 1 or product.columns % unit):
        raise ValueError(f"{c}: gates and ups want no clusters along M, and a multiple of {2 * unit} columns")
    name = "grouped_matmul" if grouped else "parted_matmul" if parted else "matmul"
    return kernel_of_tiles(product, name, CLUSTERS[c.ctas], product.threads, lines=64, arch="sm_90a")
