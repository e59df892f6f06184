"""Sums over the rows that a worker meets, one for each column: parts of the gradients of weights."""

import math

from pyptx import ptx, reg, smem
from pyptx.kernels._registers import (
    STORE,
    STORE_SHARED,
    apply_to,
    constant,
    copied,
    move,
    registers,
    smem_address,
    tree,
)
from pyptx.kernels._rows_values import Values
from pyptx.types import b64, f32, u8, u64

__all__ = ["Sums"]


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
            combine(into, *operands, into)
        if not row.split.fits:
            row.move(STORE, self.tensor, self.base, k, at, sums)

    def store(self):
        split = self.row.split
        if split.rows > 1:
            self.store_of_groups()
        elif split.fits:
            for k, sums in enumerate(self.kept):
                self.keep(self.base, k * 4 * split.together * split.vector, sums, **self.row.guard(k))

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
        pitch = 4 * split.n  # bytes of the sums of a group
        memory = row.ahead.memory if row.ahead else smem.alloc(u8, pitch * split.rows, align=16)
        base = smem_address(memory)
        mine = base + row.group * pitch + row.thread * (4 * split.vector)
        ptx.bar.sync(0)
        for k, sums in enumerate(self.kept):
            move(STORE_SHARED, mine, k * split.threads * 4 * split.vector, sums, 4 * split.vector, **row.guard(k))
        ptx.bar.sync(0)
        vector, threads = math.gcd(split.n, 4), split.threads * split.rows
        (pointer,) = ptx.global_ptrs(self.tensor)
        for at in range(0, split.n, threads * vector):
            column = row.in_cta * vector + at
            guard = {} if at + threads * vector <= split.n else {"pred": column < split.n}
            parts = []
            for i in range(split.rows):
                parts.append(registers(f32, vector, init=0.0))
                move(ptx.inst.ld.shared, base + column * 4, i * pitch, parts[-1], 4 * vector, **guard)
            whole = [tree(values, ptx.inst.add.f32) for values in zip(*parts, strict=True)]
            place = apply_to(reg.scalar(u64), ptx.inst.mad.wide.u32, column, 4, pointer)
            ptx.inst.mad.wide.u32(place, row.worker, pitch, place)
            self.keep(place, 0, whole, **guard)
