"""C = A B on Hopper where A has few rows.  Its speed depends on how fast B, the weights, comes from memory.

B's columns are what wgmma calls rows (64 of a warpgroup), and A's few rows its columns, 8 to 128.  One warp keeps some 200 KB of
tensor copies in flight, over the ends of tiles, and one or two warpgroups multiply.  Where there are too few tiles for all
multiprocessors, the CTAs of a cluster take parts of K, and add up what they have through distributed shared memory, always in
the same order.  L2 evicts B, which is read once, before A and what other kernels left there; but that of more than 128 rows may be
small enough to stay.
"""

import functools
import itertools
from dataclasses import dataclass, replace

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._epilogue import NOTHING, Epilogue, Finisher, with_tensors
from pyptx.kernels._matmul_tiles import (
    MULTIPROCESSORS,
    ROW,
    WARPGROUP,
    WORD,
    Operand,
    Ring,
    address,
    copied,
    fetch_maps,
    mask,
    quotient,
)
from pyptx.kernels._registers import narrowed
from pyptx.types import PtxType, bf16, f32, u8, u32, u64

__all__ = ["StreamConfig", "stream_kernel"]


@dataclass(frozen=True)
class StreamConfig:
    """`rows`: of A, a multiple of 8; `parts`: of K, and `share`: neighbours that share A, whose product is the CTAs of a cluster; `bn`: columns of
    B of a CTA; `stages`: of `deep` times 128 bytes of K; `late`: the next kernel may begin when the last stage of a tile is asked for, else
    with this one; `ahead`: stages of B that go to L2 before the kernel ahead has ended."""

    rows: int
    parts: int
    bn: int = 128
    stages: int = 6
    share: int = 1
    resident: int = 1  # CTAs of a multiprocessor
    once: bool = False  # whether there are not more tiles than clusters; so it is where K is in parts
    batch: int = 1  # quads of the result whose parts are loaded before the first is added
    deep: int = 1
    late: bool = False
    ahead: int = 0

    @classmethod
    def of(
        cls, rows: int, parts: int, bn: int, share: int = 1, resident: int = 1, once: bool = False, **more
    ) -> "StreamConfig":
        """The configuration with as many stages as there is room for."""
        made = cls(rows, parts, bn, 1, share, resident, once or parts > 1, **more)
        room = 226_000 // resident - 1_500 - (0 if made.once else rows * made.pitch)
        stages = min(16 // made.deep, room // ((rows + bn) * ROW * made.deep))
        if stages < 2:  # one is free when the next one's products have been started
            raise ValueError(f"{made}: there is room for {stages} stages; a stream has two at least")
        return replace(made, stages=stages)

    @property
    def consumers(self) -> int:
        return self.bn // 64

    @property
    def threads(self) -> int:
        return self.consumers * WARPGROUP + 32

    @property
    def pitch(self) -> int:
        """Bytes between rows of the staged result: 16 beyond a multiple of 64, so that no two threads of a warp meet in a bank."""
        return self.bn * 4 + 16


class Stream:
    """The body of the kernel of one configuration: `write` writes it."""

    def __init__(self, c: StreamConfig, a: Operand, b: Operand, out: PtxType, epilogue: Epilogue, whole: bool):
        self.c, self.a, self.b, self.out, self.epilogue, self.whole = c, a, b, out, epilogue, whole
        self.stage_bytes = c.deep * (a.bytes + b.bytes)
        self.bk = c.deep * a.bk

    def write(self, A, B, C, **more):
        c, self.more = self.c, more
        self.maps = A.tma_desc(), B.tma_desc()
        (self.pointer,) = ptx.global_ptrs(C)
        # The result of the only tile takes the place of what was copied.
        result = c.rows * c.pitch
        self.ring = smem.alloc(u8, max(c.stages * self.stage_bytes, result if c.once else 0), align=1024)
        self.staged = self.ring if c.once else smem.alloc(u8, result, align=128)
        self.full, self.empty = smem.mbarrier(c.stages), smem.mbarrier(c.stages)
        thread = reg.from_(ptx.special.tid.x(), u32)
        producer = thread == c.consumers * WARPGROUP
        with ptx.if_(producer):
            fetch_maps(self.maps)
        with ptx.if_(thread == 0):
            for stage in range(c.stages):
                ptx.mbarrier.init(self.full[stage], 1)
                ptx.mbarrier.init(self.empty[stage], c.consumers * 4 * c.share)
            ptx.fence.mbarrier_init()
        if c.share > 1:
            ptx.cluster.sync()
        else:
            ptx.bar.sync(0)
        rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
        self.part, self.member = rank >> (c.share.bit_length() - 1), rank & (c.share - 1)
        self.n = ptx.param(u32, "N")
        steps = (ptx.param(u32, "K") + (self.bk - 1)) >> (self.bk.bit_length() - 1)
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
        with ptx.if_(thread < c.consumers * WARPGROUP):
            self.consume(thread)
        if c.parts > 1:  # the cluster had one tile
            ptx.cluster.sync()
            with ptx.if_(thread < c.consumers * WARPGROUP):
                self.reduce(thread, self.place(reg.from_(ptx.sreg("%clusterid.x"), u32)))
        if c.parts * c.share > 1:
            ptx.cluster.sync()  # others may still read this CTA's memory, or arrive at its barriers
        ptx.ret()

    def tiles(self):
        """A loop over the cluster's tiles: yields the first column of this CTA's part."""
        c = self.c
        count = (self.n + (c.bn * c.share - 1)) >> ((c.bn * c.share).bit_length() - 1)
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
        for column in self.tiles():
            k = copied(self.first * self.bk)
            for step in ptx.range_(self.first, self.last, dtype=u32):
                if c.late:
                    with ptx.if_(step + 1 == self.last):
                        ptx.griddepcontrol.launch_dependents()
                full = self.full[ring.stage]
                ptx.mbarrier.wait(self.empty[ring.stage], ring.parity ^ 1)
                ptx.mbarrier.arrive_expect_tx(full, self.stage_bytes)
                to = base + ring.stage * self.stage_bytes
                for block in range(c.deep):
                    for at, where in self.copies_of_b(column, k):
                        there = ptx.addr(to, block * self.b.bytes + at)
                        ptx.tensor_copy.load(there, self.maps[1], where, full, cache_hint=hint)
                    row, into = (0, to) if mine is None else (mine, to + mine * ROW)
                    there = ptx.addr(into, c.deep * self.b.bytes + block * self.a.bytes)
                    ptx.tensor_copy.load(there, self.maps[0], (k, row), full, multicast_mask=group)
                    k += self.a.bk
                ring.advance()

    def consume(self, thread):
        """The products of this CTA's part of K, left in shared memory: row m of C at m * pitch."""
        c, ring = self.c, Ring(self.c.stages)
        consumer, lane = thread >> 7, thread & 31
        start = address(self.ring)
        desc_b = self.b.descriptor(start + consumer * (64 * ROW))
        desc_a = self.a.descriptor(start + c.deep * self.b.bytes)
        if c.share > 1:
            there = reg.scalar(u32)
            ptx.inst.mapa.shared__cluster.u32(there, address(self.empty), self.part * c.share + lane)
        acc = reg.array(f32, c.rows // 2)
        before = reg.scalar(u32)

        def release():
            if c.share > 1:
                ptx.mbarrier.arrive_cluster(ptx.addr(there + before * 8), pred=lane < c.share)
            else:
                ptx.mbarrier.arrive(self.empty[before], pred=lane == 0)

        place = address(self.staged) + ((thread >> 5) * 16 + (lane >> 2)) * 4
        place += (lane & 3) * (2 * c.pitch)
        for column in self.tiles():
            for each in acc:
                ptx.inst.mov.f32(each, 0.0)
            later = reg.scalar(u32, init=0)
            for _ in ptx.range_(self.first, self.last, dtype=u32):
                ptx.mbarrier.wait(self.full[ring.stage], ring.parity)
                words = reg.scalar(u64)
                ptx.inst.mul.wide.u32(words, ring.stage, self.stage_bytes // WORD)
                self.issue(acc, desc_b + words, desc_a + words)
                ptx.wgmma.wait_group(1)
                with ptx.if_(later == 1):  # the stage before has been read
                    release()
                ptx.inst.mov.u32(before, ring.stage)
                ptx.inst.mov.u32(later, 1)
                ring.advance()
            ptx.wgmma.wait_group(0)
            with ptx.if_(later == 1):
                release()
            if c.once:
                ptx.bar.sync(1, c.consumers * WARPGROUP)
            for i, each in enumerate(acc):
                ptx.inst.st.shared.f32(ptx.addr(place, (i // 4 * 8 + i % 2) * c.pitch + (i & 2) * 16), each)
            if c.parts == 1:
                ptx.bar.sync(1, c.consumers * WARPGROUP)
                self.reduce(thread, column)
                ptx.bar.sync(1, c.consumers * WARPGROUP)

    def issue(self, acc, b, a):
        ptx.wgmma.fence()
        for block, step in itertools.product(range(self.c.deep), range(ROW // 32)):
            ptx.wgmma.mma_async(
                shape=(64, self.c.rows, 256 // self.a.dtype.bits),
                dtype_d=f32,
                dtype_a=self.b.multiplied,
                dtype_b=self.a.multiplied,
                d=acc,
                a=b + (block * self.b.bytes // WORD + step * self.b.step),
                b=a + (block * self.a.bytes // WORD + step * self.a.step),
                scale_d=True,
                trans_a=int(not self.b.k_major),
            )
        ptx.wgmma.commit_group()

    def reduce(self, thread, first_column):
        """This CTA's share of the result: four neighbours at a time, added up over the parts in their order."""
        c = self.c
        m_size, n_size = ptx.param(u32, "M"), self.n
        finisher = Finisher(self.epilogue, self.more, n_size, self.whole)
        start, quads = address(self.staged), c.bn // 4
        mine, threads = -(-c.rows * quads // c.parts), c.consumers * WARPGROUP
        whole = mine % threads == 0 and mine * c.parts == c.rows * quads
        rounds = -(-mine // threads)
        for first in range(0, rounds, c.batch):
            some = []
            for i in range(first, min(rounds, first + c.batch)):
                at = thread + i * threads
                number = at + self.part * mine
                row, quad = number >> (quads.bit_length() - 1), number & (quads - 1)
                here, column = start + row * c.pitch + quad * 16, first_column + quad * 4
                inside = (row < m_size) & (column < n_size)
                if not whole:
                    inside = inside & (at < mine) & (number < c.rows * quads)
                some.append((row, column, inside, self.parts_of(here, inside) if c.batch > 1 else here))
            for row, column, inside, values in some:
                with ptx.if_(inside):
                    parts = self.parts_of(values) if c.batch == 1 else values
                    total = functools.reduce(added, parts)
                    values = finisher.line(row, m_size)(total, column, finisher.columns(column, 4))
                    self.store(values, row, column, n_size)

    def parts_of(self, here, inside=None) -> list:
        """Four values of each part."""
        parts = []
        for part in range(self.c.parts):
            values = [reg.scalar(f32, **({} if inside is None else {"init": 0.0})) for _ in range(4)]
            guard = {} if inside is None else {"pred": inside}
            if self.c.parts > 1:
                there = reg.scalar(u32)
                ptx.inst.mapa.shared__cluster.u32(there, here, self.member + part * self.c.share)
                ptx.inst.ld.shared__cluster.v4.f32(values, ptx.addr(there), **guard)
            else:
                ptx.inst.ld.shared.v4.f32(values, ptx.addr(here), **guard)
            parts.append(values)
        return parts

    def store(self, values, row, column, n_size):
        size = self.out.bits // 8
        at = reg.scalar(u64)
        ptx.inst.mul.wide.u32(at, row, n_size)
        to = self.pointer + (at + column) * size
        values = narrowed(values, self.out) if self.whole else [narrowed([value], self.out)[0] for value in values]
        if self.whole:
            getattr(ptx.inst.st.global_, f"v{len(values)}").b32(ptx.addr(to), values)
            return
        store = ptx.inst.st.global_.b32 if size == 4 else ptx.inst.st.global_.b16
        for i, value in enumerate(values):
            store(ptx.addr(to, size * i), value, pred=column + i < n_size)


def added(one, two) -> list:
    return [x + y for x, y in zip(one, two, strict=True)]


def over(number, parts: int):
    """number / parts"""
    return number >> (parts.bit_length() - 1) if parts & (parts - 1) == 0 else quotient(number, parts)


@functools.cache
def stream_kernel(c: StreamConfig, dtype: PtxType, b_k_major=True, out: PtxType = bf16, epilogue=NOTHING, whole=True):
    """The kernel (A, B, ...) -> C of one configuration.  A is (M, K), with M up to `c.rows`; B is (N, K), or (K, N) if it is not K-major.
    `whole`: N is a multiple of 4."""
    bk = ROW * 8 // dtype.bits
    a = Operand(dtype, True, c.rows, c.share, bk)
    b = Operand(dtype, b_k_major, c.bn, 1, bk)
    stream = Stream(c, a, b, out, epilogue, whole)
    more = epilogue.tiles()
    # Numbers, because an object that `grid` reads would be compared at each call.
    ctas, once, most = c.parts * c.share, c.once, c.resident * MULTIPROCESSORS // (c.parts * c.share)
    across = c.bn * c.share

    def grid(N):
        tiles = -(-N // across)
        return ((tiles if once else min(tiles, most)) * ctas, 1, 1)

    return kernel(
        in_specs=(a.tile((), "M", "128B"), b.tile((), "N"), *more.values()),
        out_specs=(Tile("M", "N", out, align=8 if whole else 0),),
        raw_params=[("u32", name) for name in ("M", "N", "K")],
        grid=grid,
        block=(c.threads, 1, 1),
        cluster=(ctas, 1, 1),
        reqntid=True,
        dependent_launch=True,
        arch="sm_90a",
    )(with_tensors("stream_matmul", ("A", "B", *more, "C"), stream.write))
