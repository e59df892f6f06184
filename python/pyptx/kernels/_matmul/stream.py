"""C = A B on Hopper where A has few rows.  Its speed depends on how fast B, the weights, comes from memory.

B's columns are what wgmma calls rows (64 of a warpgroup), and A's few rows its columns, 8 to 256; of a tall stream it is the other way round,
and a CTA has any multiple of 8 columns.  One warp keeps some 200 KB of tensor copies in flight, over the ends of tiles, and the others multiply.
Where there are too few tiles for all multiprocessors, the CTAs of a cluster take parts of K, and add up what they have through distributed
shared memory, always in the same order.  L2 evicts B, which is read once, before A and what other kernels left there, and reads no more of it than
is copied; but that of more than 128 rows may be small enough to stay.
"""

import functools
import itertools
from dataclasses import dataclass, replace

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._epilogue import NOTHING, Epilogue, Finisher, with_tensors
from pyptx.kernels._matmul.exchange import Exchange
from pyptx.kernels._matmul.stream_blocks import BLOCKS, ScaledSums, ScaleSlots, produce_scales
from pyptx.kernels._matmul.stream_columns import ColumnSums
from pyptx.kernels._matmul.tiles import (
    CLUSTERS,
    ROW,
    WARPGROUP,
    WORD,
    Operand,
    Ring,
    address,
    clear_behind,
    copied,
    fetch_maps,
    mask,
    quotient,
)
from pyptx.kernels._registers import narrowed
from pyptx.types import PtxType, bf16, f32, s8, s32, u8, u32, u64

__all__ = ["StreamConfig", "stream_kernel"]

APART = 240  # rows
BATCH = 4  # quads of the result that are loaded before the first is stored


@dataclass(frozen=True)
class StreamConfig:
    """`rows`: of A, at the most, a multiple of 8; `parts`: of K, and `share`: neighbours that share A, whose product is the CTAs of a cluster; `bn`: columns of
    B of a CTA; `tall`: whether wgmma multiplies 64 rows of A, else 64 columns of B, at a time; `stages`: of `deep` times 128 bytes of K; `late`: the next kernel may begin when the last stage of a tile is asked for, else
    with this one; `ahead`: stages of B that go to L2 before the kernel ahead has ended; `scaled`: whether operands have scales of blocks."""

    rows: int
    parts: int
    bn: int = 128
    stages: int = 6
    share: int = 1
    resident: int = 1  # CTAs of a multiprocessor
    once: bool = False  # whether there are not more tiles than clusters; so it is where K is in parts
    tall: bool = False
    deep: int = 1
    late: bool = False
    ahead: int = 0
    scaled: bool = False

    @classmethod
    def of(
        cls, rows: int, parts: int, bn: int, share: int = 1, resident: int = 1, once: bool = False, **more
    ) -> "StreamConfig":
        """The configuration with as many stages as there is room for."""
        made = cls(rows, parts, bn, 1, share, resident, once or parts > 1, **more)
        room = 226_000 // resident - 1_500 - made.landing * made.apart - (0 if made.once else made.staged)
        beside = ScaleSlots(made).words * 4 if made.scaled else 0
        stages = min(16 // made.deep, room // (((made.lines + bn) * ROW + beside) * made.deep))
        if stages < 2:  # one is free when the next one's products have been started
            raise ValueError(f"{made}: there is room for {stages} stages; a stream has two at least")
        return replace(made, stages=stages)

    @property
    def lines(self) -> int:
        """Rows of A that a stage has room for."""
        return -(-self.rows // 64) * 64 if self.tall else self.rows

    @property
    def exact(self) -> bool:
        """Whether copies bring the rows that there are, and zeros lie behind them; of CTAs that share A, each copies as many rows as the others."""
        return self.share == 1

    @property
    def consumers(self) -> int:
        return (self.lines if self.tall else self.bn) // 64

    @property
    def groups(self) -> int:
        """How many groups of four accumulators a thread has; a group is eight of what wgmma calls columns."""
        return (self.bn if self.tall else self.rows) // 8

    @property
    def exchange(self) -> Exchange:
        return Exchange(self.parts, self.groups, self.consumers * WARPGROUP)

    @property
    def landing(self) -> int:
        """Bytes of what other parts of K leave."""
        return self.exchange.landing

    @property
    def apart(self) -> bool:
        """Whether that has room of its own; of more rows it lies in the ring, and who leaves it waits until all have multiplied."""
        return self.parts > 1 and self.rows <= APART

    @property
    def threads(self) -> int:
        return self.consumers * WARPGROUP + 32 * (1 + self.scaled)

    @property
    def area(self) -> tuple[int, int]:
        """Rows and columns of the result that a CTA adds up."""
        wide = self.exchange.most * 8
        return (self.lines, wide) if self.tall else (wide, self.bn)

    @property
    def pitch(self) -> int:
        """Bytes between rows of the staged result, so that no two threads of a warp meet in a bank."""
        wide = self.area[1] * 4
        return wide + (32 - wide) % 128 if self.tall else wide + 16

    @property
    def staged(self) -> int:
        return self.area[0] * self.pitch


class Stream:
    """The body of the kernel of one configuration: `write` writes it."""

    def __init__(
        self, c: StreamConfig, a: Operand, b: Operand, out: PtxType, epilogue: Epilogue, whole: bool, turned: bool
    ):
        self.c, self.a, self.b, self.out, self.epilogue, self.whole = c, a, b, out, epilogue, whole
        self.turned, self.sum_type = turned, s32 if a.dtype == s8 else f32
        self.block_of_a = c.lines * ROW
        self.stage_bytes = c.deep * (self.block_of_a + b.bytes)
        self.bk = c.deep * a.bk
        self.slots = ScaleSlots(c) if c.scaled else None

    def write(self, A, B, C, **more):
        c, self.more = self.c, more
        self.maps = A.tma_desc(), B.tma_desc()
        (self.pointer,) = ptx.global_ptrs(C)
        self.allocate()
        thread = reg.from_(ptx.special.tid.x(), u32)
        producer = thread == c.consumers * WARPGROUP
        self.prepare(thread, producer)
        rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
        self.part, self.member = rank >> (c.share.bit_length() - 1), rank & (c.share - 1)
        if c.parts > 1:
            with ptx.if_(thread == 0):
                c.exchange.expect(self.part, self.landed)
        self.n = ptx.param(u32, "N")
        steps = (ptx.param(u32, "K") + (self.bk - 1)) >> (self.bk.bit_length() - 1)
        if c.scaled and c.parts > 1:  # at least one for each part; a step beyond K copies zeros
            fewest, steps = steps, reg.scalar(u32)
            ptx.inst.max.u32(steps, fewest, c.parts)
        self.first = over(self.part * steps, c.parts)
        self.last = over((self.part + 1) * steps, c.parts)
        if c.ahead:
            with ptx.if_(producer):
                self.fetch_ahead()
        ptx.griddepcontrol.wait()
        if not c.late:
            ptx.griddepcontrol.launch_dependents()
        with ptx.if_(producer):
            self.produce()
        if c.scaled:
            with ptx.if_(thread >= c.consumers * WARPGROUP + 32):
                produce_scales(self, thread & 31)
        with ptx.if_(thread < c.consumers * WARPGROUP):
            self.consume(thread)
        if c.parts > 1:
            with ptx.else_():
                self.meet()
        if c.share > 1:
            ptx.cluster.sync()  # others may still arrive at this CTA's barriers
        ptx.ret()

    def allocate(self):
        """The result of the only tile takes the place of what was copied."""
        c = self.c
        behind = 0 if c.apart else c.landing  # in the ring, before what is staged
        self.ring = smem.alloc(u8, max(c.stages * self.stage_bytes, behind + c.staged if c.once else 0), align=1024)
        self.landing = smem.alloc(u8, c.landing, align=128) if c.apart else self.ring
        self.staged = address(self.ring) + behind if c.once else address(smem.alloc(u8, c.staged, align=128))
        self.full, self.empty = smem.mbarrier(c.stages), smem.mbarrier(c.stages)
        if c.parts > 1:
            self.landed = smem.mbarrier(1)
        if c.scaled:
            self.scales = smem.alloc(f32, c.stages * c.deep * self.slots.words, align=16)

    def prepare(self, thread, producer):
        """Barriers, and what no copy writes."""
        c = self.c
        with ptx.if_(producer):
            fetch_maps(self.maps)
        with ptx.if_(thread == 0):
            for stage in range(c.stages):
                ptx.mbarrier.init(self.full[stage], 1 + 32 * c.scaled)
                ptx.mbarrier.init(self.empty[stage], c.consumers * 4 * c.share)
            if c.parts > 1:
                ptx.mbarrier.init(self.landed[0], 1)
            ptx.fence.mbarrier_init()
        if c.exact:
            of_a = range(c.deep * self.b.bytes, self.stage_bytes, self.block_of_a)
            blocks = [stage * self.stage_bytes + block for stage, block in itertools.product(range(c.stages), of_a)]
            clear_behind(self.ring, blocks, c.lines, thread, c.threads)
        if c.share > 1:
            ptx.cluster.sync()
        else:
            ptx.bar.sync(0)
        if c.apart:
            ptx.cluster.arrive()  # from here on others may leave their parts

    @property
    def copied_bytes(self):
        """Those of a stage: a number, or a register."""
        c = self.c
        if not c.exact:
            return c.deep * (self.a.bytes + self.b.bytes)
        return ptx.param(u32, "M") * (c.deep * ROW) + c.deep * self.b.bytes

    def tiles(self):
        """A loop over the cluster's tiles: yields the first column of this CTA's part."""
        c = self.c
        count = over(self.n + (c.bn * c.share - 1), c.bn * c.share)
        for t in ptx.range_(reg.from_(ptx.sreg("%clusterid.x"), u32), count, reg.from_(ptx.sreg("%nclusterid.x"), u32)):
            yield self.place(t)

    def place(self, tile):
        return (tile * self.c.share + self.member) * self.c.bn

    def fetch_ahead(self):
        """Fetches the first stages of B to L2, before the kernel ahead has ended.  If that one still writes B, it writes it to L2, too."""
        column = self.place(reg.from_(ptx.sreg("%clusterid.x"), u32))
        k = copied(self.first * self.bk)
        for _ in range(self.c.ahead * self.c.deep):
            for _, where in self.copies_of_b(column, k):
                ptx.tensor_copy.prefetch(self.maps[1], where)
            k += self.a.bk

    def copies_of_b(self, column, k):
        """Yields (first byte, coordinates) of each copy of B for 128 bytes of K."""
        for rows, at in self.b.copies():
            place = column + rows if rows else column
            yield at, (k, place) if self.b.k_major else (place, k)

    def produce(self):
        c, ring, base = self.c, Ring(self.c.stages), address(self.ring)
        group = mask((1 << c.share) - 1, self.part * c.share) if c.share > 1 else None
        mine = self.member * (c.rows // c.share) if c.share > 1 else None
        hint = None
        if c.rows <= 128:
            hint = reg.scalar(u64)
            ptx.inst.createpolicy.fractional.L2__evict_first.b64(hint)
        copied_bytes = self.copied_bytes
        for column in self.tiles():
            k = copied(self.first * self.bk)
            for step in ptx.range_(self.first, self.last, dtype=u32):
                if c.late:
                    with ptx.if_(step + 1 == self.last):
                        ptx.griddepcontrol.launch_dependents()
                full = self.full[ring.stage]
                ptx.mbarrier.wait(self.empty[ring.stage], ring.parity ^ 1)
                ptx.mbarrier.arrive_expect_tx(full, copied_bytes)
                to = base + ring.stage * self.stage_bytes
                for block in range(c.deep):
                    for at, where in self.copies_of_b(column, k):
                        there = ptx.addr(to, block * self.b.bytes + at)
                        ptx.tensor_copy.load(there, self.maps[1], where, full, cache_hint=hint)
                    row, into = (0, to) if mine is None else (mine, to + mine * ROW)
                    there = ptx.addr(into, c.deep * self.b.bytes + block * self.block_of_a)
                    self.copy_a(there, (k, row), full, group)
                    k += self.a.bk
                ring.advance()

    def copy_a(self, to, where, full, group):
        ptx.tensor_copy.load(to, self.maps[0], where, full, multicast_mask=group)

    def consume(self, thread):
        """The products of this CTA's part of K, the sums of all parts, and a part of C."""
        c, ring = self.c, Ring(self.c.stages)
        lane = thread & 31
        if c.share > 1:
            there = reg.scalar(u32)
            ptx.inst.mapa.shared__cluster.u32(there, address(self.empty), self.part * c.share + lane)
        at = self.stage_address(thread >> 5, lane)
        acc = reg.array(self.sum_type, (c.bn if c.tall else c.rows) // 2)

        def release(stage):
            if c.share > 1:
                ptx.mbarrier.arrive_cluster(ptx.addr(there + stage * 8), pred=lane < c.share)
            else:
                ptx.mbarrier.arrive(self.empty[stage], pred=lane == 0)

        if self.b.dtype == f32 and not self.b.k_major:
            add_up = ColumnSums(self, thread, acc).add_up
        else:
            self.find_operands(thread)
            add_up = ScaledSums(self, thread, acc).add_up if c.scaled else functools.partial(self.add_up, acc)
        for column in self.tiles():
            add_up(ring, release)
            mine = self.exchanged(acc, thread) if c.parts > 1 else acc
            if c.once:
                ptx.bar.sync(1, c.consumers * WARPGROUP)
            self.stage(mine, at)
            ptx.bar.sync(1, c.consumers * WARPGROUP)
            self.finish(thread, column)
            if not c.once:
                ptx.bar.sync(1, c.consumers * WARPGROUP)

    def find_operands(self, thread):
        """Where a consumer's rows, or columns, of the first stage lie."""
        start, mine = address(self.ring), (thread >> 7) * (64 * ROW)
        behind = start + self.c.deep * self.b.bytes
        self.desc_b = self.b.descriptor(start if self.c.tall else start + mine)
        self.desc_a = self.a.descriptor(behind + mine if self.c.tall else behind)

    def add_up(self, acc, ring: Ring, release):
        """The products of a part of K.  `release(stage)` says that a stage has been read."""
        for each in acc:
            ptx.inst.mov.b32(each, 0)
        later, before = reg.scalar(u32, init=0), reg.scalar(u32)
        for _ in ptx.range_(self.first, self.last, dtype=u32):
            ptx.mbarrier.wait(self.full[ring.stage], ring.parity)
            self.issue(ring.stage, acc)
            ptx.wgmma.wait_group(1)
            with ptx.if_(later == 1):  # the stage before has been read
                release(before)
            ptx.inst.mov.u32(before, ring.stage)
            ptx.inst.mov.u32(later, 1)
            ring.advance()
        ptx.wgmma.wait_group(0)
        with ptx.if_(later == 1):
            release(before)

    def meet(self):
        """Until the others' shared memory may be written."""
        if not self.c.apart:
            ptx.cluster.arrive()
        ptx.cluster.wait()

    def exchanged(self, acc, thread) -> list:
        """This CTA's groups, added up over the parts in their order."""
        groups = [list(acc[i : i + 4]) for i in range(0, len(acc), 4)]
        self.meet()
        return self.c.exchange.sums(
            self.part, lambda part: part * self.c.share + self.member, address(self.landing), self.landed, thread, groups, self.sum_type
        )  # fmt: skip

    def stage_address(self, warp, lane):
        """The address at which a thread's first value is staged."""
        c, at = self.c, self.staged
        if c.tall:
            return at + (warp * 16 + (lane >> 2)) * c.pitch + (lane & 3) * 8
        return at + (warp * 16 + (lane >> 2)) * 4 + (lane & 3) * (2 * c.pitch)

    def stage(self, acc, at):
        """What a CTA has added up, as rows of C in shared memory."""
        c = self.c
        if c.tall:
            for i in range(0, len(acc), 2):
                ptx.inst.st.shared.v2.b32(ptx.addr(at, (i & 2) * 4 * c.pitch + i // 4 * 32), [acc[i], acc[i + 1]])
            return
        for i, each in enumerate(acc):
            ptx.inst.st.shared.b32(ptx.addr(at, (i // 4 * 8 + i % 2) * c.pitch + (i & 2) * 16), each)

    def issue(self, stage, acc, block: int | None = None):
        """Starts the products of a stage, which are added to the sums, or of one of its blocks, which replace them."""
        words = reg.scalar(u64)
        ptx.inst.mul.wide.u32(words, stage, self.stage_bytes // WORD)
        ptx.wgmma.fence()
        rows = self.desc_a + words, self.a, self.block_of_a
        columns = self.desc_b + words, self.b, self.b.bytes
        if not self.c.tall:
            rows, columns = columns, rows
        blocks = range(self.c.deep) if block is None else [block]
        for each, step in itertools.product(blocks, range(ROW // 32)):
            one, two = (at + (each * size // WORD + step * of.step) for at, of, size in (rows, columns))
            ptx.wgmma.mma_async(
                shape=(64, self.c.bn if self.c.tall else self.c.rows, 256 // self.a.dtype.bits),
                dtype_d=self.sum_type,
                dtype_a=rows[1].multiplied,
                dtype_b=columns[1].multiplied,
                d=acc,
                a=one,
                b=two,
                scale_d=block is None or step > 0,
                trans_a=int(not rows[1].k_major),
                trans_b=int(not columns[1].k_major),
            )
        ptx.wgmma.commit_group()

    def finish(self, thread, first_column):
        """Stores what is staged, four neighbours at a time."""
        c = self.c
        m_size, n_size = ptx.param(u32, "M"), self.n
        finisher = Finisher(self.epilogue, self.more, n_size, self.whole, self.out)
        (lines, wide), threads = c.area, c.consumers * WARPGROUP
        start, quads, first_row, end = self.staged, wide // 4, 0, None
        if c.parts > 1:
            first, end = (over((self.part + more) * c.groups, c.parts) * 8 for more in range(2))
            if c.tall:
                first_column, end = first_column + first, first_column + end
            else:
                first_row = first
        rounds = -(-lines * quads // threads)
        for begin in range(0, rounds, BATCH):
            some = []
            for i in range(begin, min(rounds, begin + BATCH)):
                number = thread + i * threads
                line = over(number, quads)
                quad = number - line * quads
                row, column = first_row + line, first_column + quad * 4
                inside = (row < m_size) & (column < n_size)
                if lines * quads % threads:
                    inside = inside & (line < lines)
                if c.groups % c.parts:
                    inside = inside & ((column if c.tall else row) < end)
                values = [reg.scalar(self.sum_type, init=0) for _ in range(4)]
                ptx.inst.ld.shared.v4.b32(values, ptx.addr(start + line * c.pitch + quad * 16), pred=inside)
                line, columns = finisher.line(row, m_size), finisher.columns(column, 4)
                some.append((row, column, inside, values, line, columns))
            for row, column, inside, values, line, columns in some:
                with ptx.if_(inside):
                    self.store(line(values, column, columns), row, column, n_size)

    def store(self, values, row, column, n_size):
        size, apart = self.out.bits // 8, 1
        at = reg.scalar(u64)
        if self.turned:
            m_size = ptx.param(u32, "M")
            ptx.inst.mul.wide.u32(at, column, m_size)
            at, apart = at + row, m_size
        else:
            ptx.inst.mul.wide.u32(at, row, n_size)
            at = at + column
        to = self.pointer + at * size
        values = narrowed(values, self.out) if self.whole else [narrowed([value], self.out)[0] for value in values]
        if self.whole:
            getattr(ptx.inst.st.global_, f"v{len(values)}").b32(ptx.addr(to), values)
            return
        store = ptx.inst.st.global_.b32 if size == 4 else ptx.inst.st.global_.b16
        for i, value in enumerate(values):
            store(ptx.addr(to), value, pred=column + i < n_size)
            to = to + apart * size


def over(number, parts: int):
    """number / parts"""
    return number >> (parts.bit_length() - 1) if parts & (parts - 1) == 0 else quotient(number, parts)


@functools.cache
def stream_kernel(
    c: StreamConfig, dtype: PtxType, b_k_major=True, out: PtxType = bf16, epilogue=NOTHING, whole=True, turned=False
):
    """The kernel (A, B, ...) -> C of one configuration.  A is (M, K), with M up to `c.rows`; B is (N, K), or (K, N) if it is not K-major.
    `whole`: N is a multiple of 4; not if the result is `turned`, C^T."""
    if c.rows % 8 or c.bn % (8 if c.tall else 64):
        raise ValueError(f"{c}: rows are a multiple of 8, columns of 8 where it is tall, else of 64")
    bk = ROW * 8 // dtype.bits
    if c.scaled != (epilogue.scales == "block") or (c.scaled and (bk != 128 or c.deep != BLOCKS)):
        raise ValueError(
            f"{c}: scales of blocks want a stream of fp8 that is scaled, whose stages have {BLOCKS} blocks"
        )
    a = Operand(dtype, True, c.rows, c.share, bk)
    b = Operand(dtype, b_k_major, c.bn, 1, bk)
    stream = Stream(c, a, b, out, epilogue, whole, turned)
    more = epilogue.tiles()
    # Numbers, because an object that `grid` reads would be compared at each call.
    ctas, most = c.parts * c.share, None if c.once else c.resident * CLUSTERS[c.share]
    across = c.bn * c.share
    # For narrow tiles of many rows, this was measured to take 0.5 to 1 % longer.
    is_read_once = c.rows <= 64 or (c.rows <= 128 and (c.bn > 64 or not b_k_major))
    # Without a bound ptxas spills what a few of these need, to keep to 96 registers.
    bound = (("minnctapersm", (c.resident,)),) if dtype == f32 and not b_k_major else ()

    def grid(N):
        tiles = -(-N // across)
        return ((min(tiles, most) if most else tiles) * ctas, 1, 1)

    return kernel(
        in_specs=(
            a.tile((), "M", "128B", "M" if c.exact else None),
            b.tile((), "N", "64B" if is_read_once else "256B"),
            *more.values(),
        ),
        out_specs=(Tile(*("NM" if turned else "MN"), out, align=8 if whole else 0),),
        raw_params=[("u32", name) for name in ("M", "N", "K")],
        grid=grid,
        block=(c.threads, 1, 1),
        cluster=(ctas, 1, 1),
        reqntid=True,
        raw_directives=bound,
        dependent_launch=True,
        arch="sm_90a",
    )(with_tensors("stream_matmul", ("A", "B", *more, "C"), stream.write))
