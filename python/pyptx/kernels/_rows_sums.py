"""Sums over rows, one a column, of a worker that goes over many: what gradients of weights are made of."""

from pyptx import ptx
from pyptx.kernels._registers import STORE, constant, copied
from pyptx.kernels._rows_values import Values

__all__ = ["Sums"]


class Sums:
    """What rows add up to: in registers until `store`, or in memory where the row is not kept."""

    def __init__(self, row, tensor):
        self.row, self.tensor, self.base = row, tensor, row.address(tensor)
        zeros = [constant(0.0) for _ in range(row.split.vector)]
        if row.split.fits:
            row.held += row.split.values
            self.kept = [list(map(copied, zeros)) for _ in range(row.split.each)]
        else:
            for k, at in row.steps():
                row.move(STORE, tensor, self.base, k, at, zeros)

    def add(self, k: int, at, *factors: Values):
        """The thread's k-th vector of values, or of the products of two."""
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
        if self.row.split.fits:
            for k, sums in enumerate(self.kept):
                self.row.move(STORE, self.tensor, self.base, k, None, sums)
