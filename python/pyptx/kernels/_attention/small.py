"""The gradients of attention on Hopper where a head has up to 128 queries and 128 keys: one kernel makes dq, dk and dv.

A CTA has a head, with all its operands in shared memory, and a warpgroup for each 64 keys.  It makes lse and delta of each query, then, of
each block of 64 queries, P^T and dS^T as _attention/backward.py does, and keeps both, rounded, in registers.  As all keys are here, dq is a
product that nothing is added to, so the bits of all results are the same every time.
"""

import math
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._attention.backward import Warpgroup, exponent_of_scores
from pyptx.kernels._attention.forward import descriptor
from pyptx.kernels._attention.plan import K_MAJOR, WIDE, options_of
from pyptx.kernels._attention.results import stage_packed, store_directly
from pyptx.kernels._attention.small_forward import Shared, resident
from pyptx.kernels._attention.tiles import apply, take_scalars
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E, divided, widened
from pyptx.types import b32, f32, s32, u32, u64

__all__ = ["Small", "small_kernel", "small_sizes"]

MOST = 128  # queries, and keys
AT_ONCE = 4  # rows whose loads of o and do are in flight


@dataclass(frozen=True)
class Small:
    """How the kernel is cut: `groups` warpgroups have 64 keys each, `blocks` times 64 are the queries.  `whole`: as many keys as that are there."""

    width: int  # elements of a head: 64 or 128
    groups: int = 1
    blocks: int = 1
    whole: bool = False
    right: bool = False
    left: bool = False
    softcap: bool = False

    rows = 64

    @property
    def keys(self) -> int:
        return 64 * self.groups

    @property
    def threads(self) -> int:
        return 128 * self.groups

    @property
    def k_bytes(self) -> int:
        return self.keys * self.width * 2

    @property
    def q_bytes(self) -> int:
        """Bytes of a block of q."""
        return self.rows * self.width * 2

    @property
    def ds_bytes(self) -> int:
        """Bytes of a block of dS."""
        return self.rows * self.keys * 2

    @property
    def at_v(self) -> int:
        return self.k_bytes

    @property
    def at_q(self) -> int:
        return 2 * self.k_bytes

    @property
    def at_do(self) -> int:
        return self.at_q + self.blocks * self.q_bytes

    @property
    def at_ds(self) -> int:
        return self.at_do + self.blocks * self.q_bytes

    @property
    def at_sums(self) -> int:
        return self.at_ds + self.blocks * self.ds_bytes

    @property
    def bytes(self) -> int:
        return self.at_sums + self.blocks * 2 * self.rows * 4

    @property
    def together(self) -> int:
        """CTAs of a multiprocessor."""
        registers = 128 if self.width == 64 else 168
        return resident(self.bytes, self.threads, registers)

    @property
    def beside(self) -> bool:
        """Whether dv is stored beside the product for dk: where registers hold both, or ptxas would make products wait for each other."""
        return self.width == 64 and not (self.right or self.left or self.softcap)

    @property
    def scalars(self) -> list:
        return [*(("u32", name) for name in ("H", "M", "N", "D")), *options_of(self)]


def small_sizes(queries: int, keys: int, width: int) -> tuple | None:
    """`groups`, `blocks` and `whole` of the kernel for such heads; None if there is none."""
    fits = width <= 128 and 0 < queries <= MOST and 0 < keys <= MOST
    return (-(-keys // 64), -(-queries // 64), keys % 64 == 0) if fits else None


def small_kernel(dtype, plan: Small):
    """The kernel from (q, k, v, o, do, lse, dlse) to (dq, dk, dv), for as many heads of k and v as of q.  o, do, lse and dlse are contiguous."""

    def body(Q, K, V, OUT, DO, LSE, DLSE, DQ, DK, DV):
        shared, head = Shared(plan, dtype), Head(plan)
        thread = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(thread == 0):
            fetch(plan, shared, head, [each.tma_desc() for each in (Q, K, V, DO)])
        sum_up(plan, dtype, shared, head, thread, ptx.global_ptrs(OUT, DO, LSE, DLSE))
        ptx.bar.sync(0)
        SmallWarpgroup(plan, dtype, shared, head, thread & 127, thread >> 7).run(ptx.global_ptrs(DQ, DK, DV))
        ptx.ret()

    def copied(length, rows, packed=False):
        return Tile(
            "B", "H", length, "D", dtype, tma_box=(1, 1, rows, WIDE), packed=packed, tma_swizzle="128B", align=16
        )

    queries, keys = (Tile("B", "H", length, "D", dtype, align=16) for length in "MN")
    column = Tile("B", "H", "M", f32)
    return kernel(
        in_specs=(
            copied("M", plan.rows), copied("N", plan.keys), copied("N", plan.keys), queries,
            copied("M", plan.rows, packed=True), column, column,
        ),
        out_specs=(queries, keys, keys),
        raw_params=plan.scalars,
        grid=lambda B, H: (B * H, 1, 1),
        block=(plan.threads, 1, 1),
        reqntid=True,
        raw_directives=(("minnctapersm", (plan.together,)),),
        batch="B",
        arch="sm_90a",
    )(with_tensors("attention_backward_small", ("Q", "K", "V", "OUT", "DO", "LSE", "DLSE", "DQ", "DK", "DV"), body))  # fmt: skip


class Head:
    """The CTA's head, and the sizes and options of the call."""

    key = 0  # the first one

    def __init__(self, plan: Small):
        take_scalars(self, plan.scalars)
        self.number = reg.from_(ptx.special.ctaid.x(), u32)
        self.batch, self.head = divided(self.number, self.H)

    def box(self, column, row):
        return (column, row, self.head, self.batch)


def fetch(plan: Small, shared: Shared, head: Head, maps):
    """Writes the copies of a CTA, which one thread makes."""
    q_map, k_map, v_map, do_map = maps
    for barrier in range(2):
        ptx.mbarrier.init(shared.full[barrier], 1)
    ptx.fence.mbarrier_init()
    for barrier, of_keys, at_keys, of_queries, at_queries in (
        (0, k_map, 0, q_map, plan.at_q), (1, v_map, plan.at_v, do_map, plan.at_do),
    ):  # fmt: skip
        full = shared.full[barrier]
        ptx.mbarrier.arrive_expect_tx(full, plan.k_bytes + plan.blocks * plan.q_bytes)
        for half in range(plan.width // WIDE):
            to = ptx.addr(shared.base, at_keys + half * plan.keys * 128)
            ptx.tensor_copy.load(to, of_keys, head.box(half * WIDE, 0), full)
            for block in range(plan.blocks):
                to = ptx.addr(shared.base, at_queries + block * plan.q_bytes + half * plan.rows * 128)
                ptx.tensor_copy.load(to, of_queries, head.box(half * WIDE, block * plan.rows), full)


def sum_up(plan: Small, dtype, shared: Shared, head: Head, thread, pointers):
    """Leaves log2(e) lse, infinite for rows that do not exist or see no key, and delta of each query in shared memory: `width / 8` threads take a row,
    8 elements each.  The gradient of lse is part of dS as -delta is."""
    o, do, lse, dlse = pointers
    lanes = plan.width // 8
    abreast, lane = plan.threads // lanes, thread & (lanes - 1)
    first = thread >> (lanes.bit_length() - 1)
    bytes_ = apply(u64, ptx.inst.mul.wide.u32, head.D, 2)
    line = apply(u64, ptx.inst.mul.wide.u32, head.number, head.M)
    for start in range(0, plan.blocks * plan.rows, abreast * AT_ONCE):
        loaded = []
        for i in range(min(AT_ONCE, (plan.blocks * plan.rows - start) // abreast)):
            row = first + (start + i * abreast)
            inside = row < head.M
            element = line + apply(u64, ptx.inst.cvt.u64.u32, row)
            at = element * bytes_ + apply(u64, ptx.inst.mul.wide.u32, lane, 16)
            there = inside & (lane * 8 < head.D)
            pieces = [[reg.scalar(b32, init=0) for _ in range(4)] for _ in range(2)]
            sums = reg.scalar(f32, init=math.inf), reg.scalar(f32, init=0.0)
            for bits, pointer in zip(pieces, (o, do), strict=True):
                ptx.inst.ld.global_.nc.v4.b32(bits, ptx.addr(pointer + at), pred=there)
            for value, pointer in zip(sums, (lse, dlse), strict=True):
                ptx.inst.ld.global_.nc.f32(value, ptx.addr(pointer + element * 4), pred=inside)
            loaded.append((row, pieces, sums))
        for row, pieces, (lse_, of_lse) in loaded:
            delta = reg.scalar(f32, init=0.0)
            for left, right in zip(*pieces, strict=True):
                for x, y in zip(widened(left, dtype), widened(right, dtype), strict=True):
                    ptx.inst.fma.rn.f32(delta, x, y, delta)
            ptx.warp.reduce_sum(delta, width=lanes)
            ptx.inst.sub.f32(delta, delta, of_lse)
            ptx.inst.mul.rn.f32(lse_, lse_, LOG2_E)
            ptx.inst.selp.f32(lse_, math.inf, lse_, lse_ == -math.inf)
            to = shared.base + (row >> 6) * (2 * plan.rows * 4) + (row & 63) * 4
            ptx.inst.st.shared.f32(ptx.addr(to, plan.at_sums), lse_, pred=lane == 0)
            ptx.inst.st.shared.f32(ptx.addr(to, plan.at_sums + plan.rows * 4), delta, pred=lane == 0)


class SmallWarpgroup(Warpgroup):
    """64 keys of the head."""

    def __init__(self, plan: Small, dtype, shared: Shared, head: Head, thread, number):
        self.plan, self.dtype, self.shared, self.tile = plan, dtype, shared, head
        self.thread, self.number = thread, number
        self.first_key = number * 64
        self.packed = [[reg.scalar(b32) for _ in range(16)] for _ in range(plan.blocks)]  # P^T
        # Two descriptors of the memory's beginning, so that few registers are live; others are so many bytes further.
        self.k_major = descriptor(shared.base, K_MAJOR)
        self.mn_major = descriptor(shared.base, K_MAJOR & ~0xFFFF0000)
        self.mine = apply(u64, ptx.inst.mul.wide.u32, number, 64 * 128 >> 4)  # the warpgroup's keys

    def _of_rows(self, at: int):
        """The descriptor of a matrix whose rows are contiguous."""
        return self.k_major + (at >> 4)

    def _of_columns(self, at: int, rows: int):
        """The same of one that is transposed, of so many rows: it tells how far the next 64 columns are."""
        return self.mn_major + ((at >> 4) + (rows * 8 << 16))

    def run(self, results):
        plan, head = self.plan, self.tile
        dq, dk, dv = results
        self.c = exponent_of_scores(plan, head)
        for block in range(plan.blocks):
            self._differentiate(block)
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(0)  # dS of all keys is there
        keys = self._key(), head.N
        of_values = self._by_queries(plan.at_do, lambda block, step: self.packed[block][4 * step : 4 * step + 4])
        if not plan.beside:
            ptx.wgmma.wait_group(0)
            self._store(of_values, dv, *keys)
        of_keys = self._by_queries(plan.at_q, self._ds)
        if plan.beside:
            ptx.wgmma.wait_group(1)
            self._store(of_values, dv, *keys)
        ptx.wgmma.wait_group(0)
        self._store(self._scaled(of_keys), dk, *keys)
        for block in range(plan.blocks):
            if plan.groups == 1:
                self._of_queries(block, dq)
                continue
            with ptx.if_(self.number == block % plan.groups):
                self._of_queries(block, dq)

    def _differentiate(self, block: int):
        """Makes P^T and dS^T of a block of queries, and leaves dS in shared memory."""
        plan, shared = self.plan, self.shared
        self.scores, self.dp = (list(reg.array(f32, plan.rows // 2)) for _ in range(2))
        self.p, self.ds, at = self.packed[block], [reg.scalar(b32) for _ in range(16)], block * plan.q_bytes
        if block == 0:
            ptx.mbarrier.wait(shared.full[0], 0)
        ptx.wgmma.fence()
        self._by_columns(self.scores, self._of_rows(0) + self.mine, self._of_rows(plan.at_q + at), plan.width)
        if block == 0:
            ptx.mbarrier.wait(shared.full[1], 0)
        self._by_columns(self.dp, self._of_rows(plan.at_v) + self.mine, self._of_rows(plan.at_do + at), plan.width)
        sums = shared.base + ((self.thread & 3) << 3) + block * (2 * plan.rows * 4)
        ptx.wgmma.wait_group(1)
        self._probabilities(block, plan.right or plan.left or not plan.whole, sums)
        ptx.wgmma.wait_group(0)
        self._differences(sums)
        to = shared.base + self.number * (64 * 128) + (plan.at_ds + block * plan.ds_bytes)
        stage_packed(self.ds, to, self.thread, plan.keys)

    def _mask(self, index):
        """Makes the scores of queries that do not see a key, or of keys that do not exist, -inf."""
        if self.plan.right or self.plan.left:
            super()._mask(reg.scalar(s32, init=index))
        if self.plan.whole:
            return
        key = self._key()
        for row in range(2):
            exists = key + 8 * row < self.tile.N
            for i, each in enumerate(self.scores):
                if i // 2 % 2 == row:
                    ptx.inst.selp.f32(each, each, -math.inf, exists)

    def _ds(self, block: int, step: int):
        """The descriptor of the warpgroup's dS^T, of 16 queries."""
        plan = self.plan
        return self._of_rows(plan.at_ds + block * plan.ds_bytes + step * 32) + self.mine

    def _by_queries(self, first: int, left) -> list:
        """The product of `left(block, step)` (keys, 16 queries) and (queries, width), whose first block is at `first` in shared memory."""
        plan, kind = self.plan, self.dtype
        made = list(reg.array(f32, plan.width // 2))
        ptx.wgmma.fence()
        for block in range(plan.blocks):
            for step in range(plan.rows // 16):
                a, b = left(block, step), self._of_columns(first + block * plan.q_bytes + step * 2048, plan.rows)
                more = block + step > 0
                ptx.wgmma.mma_async((64, plan.width, 16), f32, kind, kind, made, a, b, scale_d=more, trans_b=1)
        ptx.wgmma.commit_group()
        return made

    def _of_queries(self, block: int, dq):
        """Makes and stores dq of a block."""
        plan, kind = self.plan, self.dtype
        made = list(reg.array(f32, plan.width // 2))
        ptx.wgmma.fence()
        for step in range(plan.keys // 16):
            a = self._of_columns(plan.at_ds + block * plan.ds_bytes + step * 2048, 0) + (1 << 16)
            b = self._of_columns(step * 2048, plan.keys)
            ptx.wgmma.mma_async(
                (64, plan.width, 16), f32, kind, kind, made, a, b, scale_d=step > 0, trans_a=1, trans_b=1
            )
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        self._store(self._scaled(made), dq, self._key() - self.first_key + block * plan.rows, self.tile.M)

    def _scaled(self, values) -> list:
        for each in values:
            ptx.inst.mul.rn.f32(each, each, self.tile.scale)
        return values

    def _store(self, values, pointer, row, count):
        """Stores 64 rows, as many as there are, of a result whose heads have `count` rows."""
        head = self.tile
        line = apply(u64, ptx.inst.mul.wide.u32, head.number, count)
        bytes_ = apply(u64, ptx.inst.mul.wide.u32, head.D, 2)
        rows = []
        for half in range(2):
            here = row + 8 * half
            rows.append((here < count, (line + apply(u64, ptx.inst.cvt.u64.u32, here)) * bytes_))
        store_directly(self.dtype, values, pointer, rows, head.D, self.thread)
