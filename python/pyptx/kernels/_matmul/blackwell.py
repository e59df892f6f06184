"""C = A B on Blackwell's tensor cores (sm_100a, sm_103a): a persistent, warp-specialised kernel.  A tile is one CTA's, or a pair's.

    warp 0       for each tile, for each 128 bytes of K:  wait(empty[stage]), copy a tile of A and one of B, on full[stage]
    warp 1       for each tile: wait(drained[slot]); for each 128 bytes of K: wait(full[stage]), four tcgen05.mma, commit(empty[stage]);
                 commit(filled[slot])
    warps 4..7   for each tile: wait(filled[slot]), tensor memory to registers, the epilogue, to C; arrive(drained[slot])

Tensor memory has two slots, the accumulators of two tiles: one is multiplied while the other one is stored.  In a pair (`Config.cm` of 2)
each CTA has half of the tile's rows of A and half of its columns of B, and the even one multiplies for both.

With f32 scales of blocks of 128 of K (`Blocks`) a slot has the products of 128 of K, and warps 4..7 add them up.

Tiles, groups of rows and boxes of copies are those of _matmul/tiles.py.  The kernel has never run on hardware: it is assembled, and its
results are right and its reports clean on the simulator.
"""

import functools
from dataclasses import replace

from pyptx import ptx, reg, smem
from pyptx.kernels._epilogue import NOTHING, BlockScales, Epilogue, Finisher
from pyptx.kernels._matmul.tiles import (
    ROW,
    WORD,
    Config,
    Groups,
    Operand,
    Place,
    Ring,
    Tiles,
    address,
    fetch_maps,
    keep_ends,
    kernel_of_tiles,
)
from pyptx.kernels._registers import narrowed
from pyptx.types import PtxType, b32, bf16, e4m3, f16, f32, s8, s32, u8, u16, u32, u64

__all__ = ["BLOCKS", "PAIR", "SINGLE", "blackwell_cut", "blackwell_kernel"]

MULTIPROCESSORS = 148  # of a B200
THREADS, WARPS = 256, 4  # WARPS: those that store
SLOTS = 2
LINES = 32  # rows of C that a warp stores: its lanes of tensor memory
COLUMNS = 32  # columns that a thread reads at one time
KINDS = {bf16: "kind::f16", f16: "kind::f16", f32: "kind::tf32", e4m3: "kind::f8f6f4", s8: "kind::i8"}

# A tile of one CTA has 128 rows, that of a pair 256.
SINGLE = Config(128, 256, 4, consumers=1, overlap=False, swing=False)
PAIR = Config(128, 256, 6, consumers=1, cm=2, overlap=False, swing=False)
BLOCKS = Config(128, 128, 6, consumers=1, overlap=False, swing=False)  # a thread has the sums of a row in registers


def blackwell_cut(m: int, n: int, batch: int, gated: bool, blocks: bool = False) -> Config:
    """The configuration: pairs if there are rows for two; half as many columns if the tiles would leave multiprocessors idle; BLOCKS with
    scales of `blocks`.  Not measured."""
    if blocks:
        return BLOCKS
    c = PAIR if m > 128 else SINGLE
    tiles = -(-m // (c.bm * c.cm)) * -(-n // c.bn) * batch
    return c if gated or tiles * c.cm >= MULTIPROCESSORS else replace(c, bn=128)


class Slots(Ring):
    """The position of one role among the accumulators in tensor memory."""

    def __init__(self):
        super().__init__(SLOTS)


class Product:
    """The body of the kernel of one configuration: `write` writes it."""

    residual_copied = False  # as tiles; each thread loads its part

    def __init__(
        self, c: Config, a: Operand, b: Operand, out: PtxType, batched: bool, epilogue: Epilogue, grouped: bool, masked: bool
    ):  # fmt: skip
        self.c, self.a, self.b, self.out, self.batched, self.epilogue = c, a, b, out, batched, epilogue
        self.grouped, self.masked, self.parted = grouped, masked, False
        self.columns = c.bn // 2 if epilogue.gated else c.bn  # columns of C in a tile
        self.stage_bytes = a.bytes + b.bytes
        self.tensor_columns = SLOTS * c.bn
        self.chunk, self.swizzled = ROW * 8 // out.bits, True  # columns of C that are staged together

    def write(self, A, B, C, OFFS=None, **more):
        c, self.more = self.c, more
        self.maps = A.tma_desc(), B.tma_desc(), C.tma_desc()
        (self.pointer,) = ptx.global_ptrs(C)
        self.ring = smem.alloc(u8, c.stages * self.stage_bytes, align=1024)
        self.staged = smem.alloc(u8, WARPS * 2 * LINES * ROW, align=1024)
        self.slot = smem.alloc(u32, 1)  # where tcgen05.alloc writes the address in tensor memory
        self.full, self.empty = smem.mbarrier(c.stages), smem.mbarrier(c.stages)
        self.filled, self.drained = smem.mbarrier(SLOTS), smem.mbarrier(SLOTS)
        self.thread = reg.from_(ptx.special.tid.x(), u32)
        self.warp, self.lane = self.thread >> 5, self.thread & 31
        self.rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
        self.begin()
        if self.grouped:
            self.ends = keep_ends(OFFS, self.thread, THREADS, self.masked)
        bk = self.a.bk
        self.steps = (ptx.param(u32, "K") + (bk - 1)) >> (bk.bit_length() - 1)
        with ptx.if_(self.thread == 0):
            self.produce()
        with ptx.if_((self.thread ^ 32 | self.rank) == 0):
            self.multiply()
        with ptx.if_(self.warp >= 4):
            self.store()
        self.sync()
        with ptx.if_(self.warp == 2):
            ptx.tcgen05.dealloc(self.tensor, self.tensor_columns, cta_group=c.cm)
        ptx.ret()

    def begin(self):
        c = self.c
        with ptx.if_(self.warp == 2):
            ptx.tcgen05.alloc(ptx.addr(address(self.slot)), self.tensor_columns, cta_group=c.cm)
            ptx.tcgen05.relinquish_alloc_permit(cta_group=c.cm)
        with ptx.if_(self.thread == 32):
            fetch_maps(self.maps)
        with ptx.if_(self.thread == 0):
            for stage in range(c.stages):
                ptx.mbarrier.init(self.full[stage], 1)
                ptx.mbarrier.init(self.empty[stage], 1)
            for slot in range(SLOTS):
                ptx.mbarrier.init(self.filled[slot], 1)
                ptx.mbarrier.init(self.drained[slot], WARPS * c.cm)
            ptx.fence.mbarrier_init()
        self.sync()
        self.tensor = reg.scalar(b32)
        ptx.inst.ld.shared.b32(self.tensor, ptx.addr(address(self.slot)))
        # What stands above may run while the kernel before this one ends; the next kernel's may run beside this one.
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()

    def sync(self):
        ptx.tcgen05.fence_before_thread_sync()
        if self.c.cm > 1:
            ptx.cluster.sync()
        else:
            ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()

    def tiles(self, role: str) -> Tiles:
        if self.grouped:
            return Groups(self.c, self.columns, self.ends, role, self.masked)
        return Tiles(self.c, self.batched, self.columns)

    # One thread that copies.

    def produce(self):
        c, ring, base = self.c, Ring(self.c.stages), address(self.ring)
        for place in self.tiles("produce").places():
            column = place.column + self.rank * (self.columns // 2) if c.cm > 1 else place.column
            k = reg.scalar(u32, init=0)
            for _ in ptx.range_(0, self.steps, dtype=u32):
                ptx.mbarrier.wait(self.empty[ring.stage], ring.parity ^ 1)
                with ptx.if_(self.rank == 0):  # the barrier of the even CTA counts the copies of both
                    ptx.mbarrier.arrive_expect_tx(self.full[ring.stage], c.cm * self.stage_bytes)
                to = base + ring.stage * self.stage_bytes
                bar = self.full[ring.stage]
                bar = ptx.cluster.map_shared_u32(bar, 0) if c.cm > 1 else bar
                self.copy(self.a, self.maps[0], to, place.row, k, place.batch, bar)
                expert = place.expert if self.grouped else place.batch
                self.copy(self.b, self.maps[1], to + self.a.bytes, column, k, expert, bar)
                self.copy_scales(place, k, to, bar)
                k += self.a.bk
                ring.advance()

    def copy(self, operand: Operand, tensor_map, to, first, k, batch, bar):
        how = {"cta_group": 2} if self.c.cm > 1 else {}
        for rows, at in operand.copies():
            where = operand.where(first, rows, k)
            ptx.tensor_copy.load(ptx.addr(to, at), tensor_map, where if batch is None else (*where, batch), bar, **how)

    def copy_scales(self, place: Place, k, to, bar):
        """Copies scale factors; _matmul/scaled.py overrides it."""

    # One thread that multiplies.

    def multiply(self):
        c, ring, slots = self.c, Ring(self.c.stages), Slots()
        from_a = self.descriptor(self.a, address(self.ring))
        from_b = self.descriptor(self.b, address(self.ring) + self.a.bytes)
        for _ in self.tiles("multiply").places():
            ptx.mbarrier.wait(self.drained[slots.stage], slots.parity ^ 1)
            ptx.tcgen05.fence_after_thread_sync()
            into = self.tensor + slots.stage * c.bn
            for step in ptx.range_(0, self.steps, dtype=u32):
                ptx.mbarrier.wait(self.full[ring.stage], ring.parity)
                ptx.tcgen05.fence_after_thread_sync()
                words = reg.scalar(u64)
                ptx.inst.mul.wide.u32(words, ring.stage, self.stage_bytes // WORD)
                self.multiply_stage(into, from_a + words, from_b + words, step, ring.stage)
                self.commit(self.empty[ring.stage])
                ring.advance()
            self.commit(self.filled[slots.stage])
            slots.advance()

    def multiply_stage(self, into, a, b, step, stage):
        for part in range(ROW // 32):
            add = {"enable_input_d": True} if part else {"pred_operand": step != 0}
            ptx.tcgen05.mma(
                into, a + part * self.a.step, b + part * self.b.step, self.kind(),
                kind=KINDS[self.a.dtype], cta_group=self.c.cm, **add,
            )  # fmt: skip

    def kind(self):
        c, dtype = self.c, self.a.multiplied
        majors = {f"{name}_major": "K" if each.k_major else "MN" for name, each in (("a", self.a), ("b", self.b))}
        bits = ptx.tcgen05.instruction_descriptor(
            m=c.cm * c.bm, n=c.bn, a_dtype=dtype, b_dtype=dtype, d_dtype=s32 if dtype == s8 else f32, **majors
        )
        return reg.from_(bits, u32)

    def descriptor(self, operand: Operand, start):
        leading = {} if operand.k_major else {"leading_bytes": operand.bk * ROW}
        return ptx.tcgen05.descriptor(start, stride_bytes=8 * ROW, swizzle="128B", **leading)

    def commit(self, bar):
        """Makes the barrier, in both CTAs of a pair, arrive when the products issued so far are done."""
        if self.c.cm > 1:
            ptx.tcgen05.commit(bar, cta_group=2, multicast=True, multicast_mask=reg.from_(3, u16))
        else:
            ptx.tcgen05.commit(bar)

    # Four warps that store.  The t-th of their threads has row t of the CTA's part of the tile.

    def store(self):
        c, slots = self.c, Slots()
        quarter = self.warp & 3
        self.base = address(self.staged) + quarter * (2 * LINES * ROW)
        self.finisher = Finisher(self.epilogue, self.more, ptx.param(u32, "N"), True, self.out)
        drained = address(self.drained)
        if c.cm > 1:
            ptx.inst.mapa.shared__cluster.u32(drained, drained, 0)
        for place in self.tiles("store").places():
            place = place._replace(row=place.row + quarter * LINES)
            values, release = self.accumulators(place, quarter, slots, drained)
            finish = self.finisher.line(place.row + self.lane, ptx.param(u32, "M"), place.batch)
            chunks = self.columns // self.chunk
            for number in range(chunks):
                words = []
                for at in range(number * self.chunk, (number + 1) * self.chunk, COLUMNS):
                    words += self.finished(values(at), finish, place, at)
                if number == chunks - 1:  # all accumulators are read
                    release()
                self.put(words, place, number)
        with ptx.if_(self.lane == 0):
            ptx.cp.async_.bulk.wait_group(0)

    def accumulators(self, place: Place, quarter, slots: Slots, drained):
        """(read, release) for the warp's rows of a tile: `read(at)` returns the accumulators of the columns of C from `at` on; `release()` says
        that all are read."""
        lanes = self.filled_slot(quarter, slots)

        def release():
            self.drain(slots, drained)
            slots.advance()

        return lambda at: self.read(lanes, self.starts(at)), release

    def filled_slot(self, quarter, slots: Slots):
        """Waits for a slot; returns the address of the warp's lanes in tensor memory."""
        ptx.mbarrier.wait(self.filled[slots.stage], slots.parity)
        ptx.tcgen05.fence_after_thread_sync()
        return self.tensor + (slots.stage * self.c.bn + (quarter << 21))

    def drain(self, slots: Slots, drained):
        ptx.tcgen05.fence_before_thread_sync()
        bar = ptx.addr(drained + slots.stage * 8)
        (ptx.mbarrier.arrive_cluster if self.c.cm > 1 else ptx.mbarrier.arrive)(bar, pred=self.lane == 0)

    def starts(self, at: int) -> list[int]:
        """The columns in tensor memory where the accumulators of the columns of C from `at` on begin; if gated, also where those of the ups do."""
        if not self.epilogue.gated:
            return [at]
        part = self.columns // self.c.cm  # each CTA of a pair has brought gates and their ups
        return [at // part * 2 * part + at % part + half * part for half in range(2)]

    def read(self, lanes, starts) -> list:
        found = []
        for start in starts:
            words = [reg.scalar(b32) for _ in range(COLUMNS)]
            ptx.tcgen05.ld(words, lanes + start, shape="32x32b", count=COLUMNS)
            found += words
        ptx.tcgen05.wait_ld()
        return found if self.out == s32 else [as_f32(word) for word in found]

    def finished(self, values: list, finish, place: Place, at: int) -> list:
        """The words of C for the values of the columns from `at` on, after the epilogue."""
        words = []
        for i in range(0, COLUMNS, 4):
            column = place.column + (at + i)
            given = [value for start in range(i, len(values), COLUMNS) for value in values[start : start + 4]]
            if self.epilogue != NOTHING:
                given = finish(given, column, self.finisher.columns(column, 4, place.batch))
            words += given if self.out == s32 else narrowed(given, self.out)
        return words

    def put(self, words: list, place: Place, number: int):
        """Stores the number-th 128 bytes of the rows of the tile to C."""
        buffer = number % 2 * LINES * ROW
        column = place.column + number * self.chunk
        if place.end is None:
            self.stage(words, buffer, number)
            self.copy_out(place, column, buffer)
        else:  # a copy would write the rows of the next group, too
            whole = place.row + LINES <= place.end
            with ptx.if_(whole):
                self.stage(words, buffer, number)
                self.copy_out(place, column, buffer)
            with ptx.else_():
                self.store_row(words, place, column)
        with ptx.if_(self.lane == 0):
            ptx.cp.async_.bulk.commit_group()

    def stage(self, words: list, buffer: int, number: int):
        # If the number of parts is odd, the tile before ended with this buffer.
        alone = number == 0 and self.columns // self.chunk % 2
        with ptx.if_(self.lane == 0):  # the copy that read this buffer last
            ptx.cp.async_.bulk.wait_group(0 if alone else 1, read=True)
        ptx.warp.sync(0xFFFFFFFF)
        for i in range(ROW // WORD):
            to = self.base + self.lane * ROW + ((self.lane & 7) ^ i) * WORD
            ptx.inst.st.shared.v4.b32(ptx.addr(to, buffer), words[4 * i : 4 * i + 4])
        ptx.fence.proxy_async_shared_cta()
        ptx.warp.sync(0xFFFFFFFF)

    def copy_out(self, place: Place, column, buffer: int):
        with ptx.if_(self.lane == 0):
            where = (column, place.row) if place.batch is None else (column, place.row, place.batch)
            ptx.tensor_copy.store(self.maps[2], where, ptx.addr(self.base, buffer))

    def store_row(self, words: list, place: Place, column):
        row, n, size = place.row + self.lane, ptx.param(u32, "N"), self.out.bits // 8
        to = reg.scalar(u64)
        ptx.inst.mul.wide.u32(to, row, n)
        to = self.pointer + (to + column) * size
        for i in range(ROW // WORD):
            inside = (row < place.end) & (column + i * (WORD // size) < n)
            ptx.inst.st.global_.v4.b32(ptx.addr(to, i * WORD), words[4 * i : 4 * i + 4], pred=inside)


class Blocks(Product):
    """The body with f32 scales for each 128 of K, which is a stage.  The tensor cores leave the products of each stage in a slot of its own,
    and the warps that store multiply them by the scales and add them up in registers."""

    def multiply(self):
        ring, slots = Ring(self.c.stages), Slots()
        from_a = self.descriptor(self.a, address(self.ring))
        from_b = self.descriptor(self.b, address(self.ring) + self.a.bytes)
        nothing = reg.scalar(u32, init=0)  # how many stages a slot has before: none
        for _ in self.tiles("multiply").places():
            for _ in ptx.range_(0, self.steps, dtype=u32):
                ptx.mbarrier.wait(self.drained[slots.stage], slots.parity ^ 1)
                ptx.mbarrier.wait(self.full[ring.stage], ring.parity)
                ptx.tcgen05.fence_after_thread_sync()
                words = reg.scalar(u64)
                ptx.inst.mul.wide.u32(words, ring.stage, self.stage_bytes // WORD)
                into = self.tensor + slots.stage * self.c.bn
                self.multiply_stage(into, from_a + words, from_b + words, nothing, ring.stage)
                self.commit(self.empty[ring.stage])
                self.commit(self.filled[slots.stage])
                ring.advance()
                slots.advance()

    def accumulators(self, place: Place, quarter, slots: Slots, drained):
        sums = [reg.scalar(f32) for _ in range(self.c.bn)]
        for each in sums:
            ptx.inst.mov.f32(each, 0.0)
        m, n = ptx.param(u32, "M"), ptx.param(u32, "N")
        columns, width = ([place.column, place.column + n], n + n) if self.epilogue.gated else ([place.column], n)
        scales = BlockScales(
            self.more, self.epilogue, [place.row + self.lane], m, columns, width, place.expert, place.end
        )
        for _ in ptx.range_(0, self.steps, dtype=u32):
            factors = [of_row for (of_row,) in scales.next()]
            lanes = self.filled_slot(quarter, slots)
            for at in range(0, self.c.bn, COLUMNS):
                factor = factors[at // (self.c.bn // len(factors))]
                for total, value in zip(sums[at:], self.read(lanes, [at]), strict=False):
                    ptx.inst.fma.rn.f32(total, value, factor, total)
            self.drain(slots, drained)
            slots.advance()

        return lambda at: [value for start in self.starts(at) for value in sums[start : start + COLUMNS]], lambda: None


def as_f32(word):
    value = reg.scalar(f32)
    ptx.inst.mov.b32(value, word)
    return value


@functools.cache
def blackwell_kernel(
    c: Config,
    dtype: PtxType,
    a_k_major=True,
    b_k_major=True,
    out: PtxType = bf16,
    batched=False,
    epilogue=NOTHING,
    grouped=False,
    masked=False,
    arch="sm_100a",
):
    """The kernel (A, B, ...) -> C of one configuration, for sm_100a or sm_103a.  Its tensors are those of `hopper.product_kernel`."""
    bk = ROW * 8 // dtype.bits
    a = Operand(dtype, a_k_major, c.bm, 1, bk)
    b = Operand(dtype, b_k_major, c.bn // c.cm, 1, bk, epilogue.gated)
    body = Blocks if epilogue.scales == "block" else Product
    product = body(c, a, b, out, batched, epilogue, grouped, masked)
    if product.columns // (c.cm if epilogue.gated else 1) % product.chunk:
        raise ValueError(f"{c}: columns of C are stored {product.chunk} at a time")
    name = "blackwell_grouped_matmul" if grouped else "blackwell_matmul"
    return kernel_of_tiles(product, name, MULTIPROCESSORS // c.ctas, THREADS, LINES, arch)
