"""Sums over the rows that a worker meets, one for each column: parts of the gradients of weights."""

import math

from pyptx import ptx, reg, smem
from pyptx.kernels._registers import (
    STORE,
    STORE_SHARED,
    add,
    apply,
    beyond,
    constant,
    copied,
    move,
    registers,
    smem_address,
    tree,
)
from pyptx.kernels._rows.split import WARP
from pyptx.kernels._rows.values import Values
from pyptx.types import b64, f32, u8, u32

__all__ = ["Sums"]

TOGETHER = 8  # loads of a thread that are under way side by side


class Sums:
    """The sums: in registers until `store`, or in memory if the row does not stay in registers."""

    def __init__(self, row, tensor):
        self.row, self.tensor, self.base = row, tensor, row.address(tensor, row.worker)
        zeros = [constant(0.0) for _ in range(row.split.vector)]
        if row.split.fits:
            row.held += row.split.values
            self.kept = [list(map(copied, zeros)) for _ in range(row.split.each)]
        else:
            for k, at in row.steps():
                row.move(STORE, tensor, self.base, k, at, zeros)

    def add(self, k: int, at, *factors: Values):
        """Adds the thread's k-th vector of values, or of the products of two values."""
        row, combine = self.row, ptx.inst.add.f32 if len(factors) == 1 else ptx.inst.fma.rn.f32
        more = list(zip(*(values.vector(k, at) for values in factors), strict=True))
        sums = self.kept[k] if row.split.fits else [constant(0.0) for _ in more]
        if not row.split.fits:
            row.move(ptx.inst.ld.global_, self.tensor, self.base, k, at, sums)
        for into, operands in zip(sums, more, strict=True):
            combine(into, *operands, into, **row.counts)
        if not row.split.fits:
            row.move(STORE, self.tensor, self.base, k, at, sums)

    def store(self):
        row, split = self.row, self.row.split
        if split.rows == 1:
            self.store_own()
        elif row.single is None:
            self.store_of_groups()
        else:
            with ptx.if_(row.single), ptx.if_(row.group == 0):
                self.store_own()
            with ptx.else_():
                self.store_of_groups()

    def store_own(self):
        """Stores the sums of one row's threads."""
        split = self.row.split
        if split.edges:
            self.store_by_lines()
        elif split.fits:
            for k, sums in enumerate(self.kept):
                self.keep(self.base, k * 4 * split.together * split.vector, sums, **self.row.guard(k))

    def store_by_lines(self):
        """Stores them by way of the ring's shared memory: in memory no vector begins where those of a row do, and neighbouring threads have neighbouring
        columns."""
        row, split = self.row, self.row.split
        base, size = smem_address(row.ahead.memory), 4 * split.vector
        ptx.bar.sync(0)
        for k, sums in enumerate(self.kept):
            move(STORE_SHARED, base + row.in_cta * size, k * split.threads * size, sums, size)
        ptx.bar.sync(0)
        (pointer,) = ptx.global_ptrs(self.tensor)
        pointer = beyond(pointer, row.worker, 4 * split.n)
        first = (row.thread - row.in_cta) * split.vector - row.edges.shift + row.in_cta
        for k in range(split.each):
            for i in range(split.vector):
                column = first + (k * split.together * split.vector + i * split.threads)
                value = apply(
                    ptx.inst.ld.shared.f32, ptx.addr(base + row.in_cta * 4, (k * split.vector + i) * split.threads * 4)
                )
                self.keep(beyond(pointer, column, 4), 0, [value], pred=column < split.n)

    def keep(self, base, offset: int, sums: list, **guard):
        """Writes sums that stay in L2, where `column_sums` finds them, while rows pass through it."""
        policy = reg.scalar(b64)
        ptx.inst.createpolicy.fractional.L2__evict_last.b64(policy)
        for i in range(0, len(sums), 4):
            some, store = sums[i : i + 4], ptx.inst.st.global_.L2__cache_hint
            store = getattr(store, f"v{len(some)}") if len(some) > 1 else store
            store.b32(ptx.addr(base, offset + 4 * i), some if len(some) > 1 else some[0], policy, **guard)

    def store_of_groups(self):
        """Adds up the sums of the CTA's rows, in the shared memory of the ring, and stores them."""
        row, split = self.row, self.row.split
        pitch, groups = 4 * split.n, split.turn  # bytes of the sums of a group
        memory = row.ahead.memory if row.ahead else smem.alloc(u8, pitch * groups, align=16)
        base = smem_address(memory)
        ptx.bar.sync(0)
        if split.abreast > 1:
            self.leave_of_lanes(base)
        else:
            mine = base + row.group * pitch + row.thread * (4 * split.vector)
            if row.edges:
                mine = mine - row.edges.shift * 4
            for k, sums in enumerate(self.kept):
                at = k * split.threads * 4 * split.vector
                if not row.edges:
                    move(STORE_SHARED, mine, at, sums, 4 * split.vector, **row.guard(k))
                for i, each in enumerate(sums if row.edges else ()):
                    ptx.inst.st.shared.f32(ptx.addr(mine, at + 4 * i), each, **row.guard(k, i))
        ptx.bar.sync(0)
        vector, threads = math.gcd(split.n, 4), split.threads * split.rows
        (pointer,) = ptx.global_ptrs(self.tensor)
        for at in range(0, split.n, threads * vector):
            column = row.in_cta * vector + at
            guard = {} if at + threads * vector <= split.n else {"pred": column < split.n}
            whole: list = []  # the sums of the first groups
            for first in range(0, groups, TOGETHER):
                parts = [whole] if whole else []
                for i in range(first, min(groups, first + TOGETHER)):
                    parts.append(registers(f32, vector, init=0.0))
                    move(ptx.inst.ld.shared, base + column * 4, i * pitch, parts[-1], 4 * vector, **guard)
                whole = [tree(values, ptx.inst.add.f32) for values in zip(*parts, strict=True)]
            place = beyond(pointer, column, 4)
            ptx.inst.mad.wide.u32(place, row.worker, pitch, place)
            self.keep(place, 0, whole, **guard)

    def leave_of_lanes(self, base):
        """Adds up the sums of the rows that a warp has, and leaves them in shared memory, in the order of columns.  Of two lanes each keeps half of
        its columns and gives the other half away, as long as their number is even; then both have the same."""
        row, split = self.row, self.row.split
        values, lane = [value for sums in self.kept for value in sums], row.in_cta & (WARP - 1)
        first = reg.scalar(u32, init=0)  # of the thread's values, where those begin that are left
        distance = split.threads
        while distance < WARP and len(values) % 2 == 0:
            half, upper = len(values) // 2, (lane & distance) != 0
            pairs = [(chosen(upper, b, a), chosen(upper, a, b)) for a, b in zip(values, values[half:], strict=False)]
            values = [add(kept, of_lane(given, distance)) for kept, given in pairs]
            ptx.inst.add.u32(first, first, half, pred=upper)
            distance *= 2
        one = lane < distance  # of the lanes that have the same in the end
        while distance < WARP:
            values = [add(value, of_lane(value, distance)) for value in values]
            distance *= 2
        base = base + (row.in_cta >> 5) * (4 * split.n)
        for i, value in enumerate(values):
            number = first + i
            vector = number >> (split.vector.bit_length() - 1)
            column = (vector * split.threads + row.thread) * split.vector + (number & (split.vector - 1))
            ptx.inst.st.shared.f32(ptx.addr(base + column * 4), value, pred=one & (column < split.n))


def chosen(condition, a, b):
    """a where the condition holds, else b."""
    return apply(ptx.inst.selp.f32, a, b, condition)


def of_lane(value, distance: int):
    """The value of the lane so far away."""
    return apply(ptx.inst.shfl.sync.bfly.b32, value, distance, 31, 0xFFFFFFFF)
