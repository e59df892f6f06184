"""The values of a row, each thread those of its vectors: loaded, made of others, rounded."""

from collections.abc import Callable, Sequence

from pyptx import ptx, reg
from pyptx.kernels._registers import LOAD, narrowed, registers, widened
from pyptx.types import s32

__all__ = ["Columns", "Loaded", "Mapped", "Rounded", "Values"]


class Values:
    """f32 values of a row: those of the thread's k-th vector, in registers."""

    def __init__(self, row):
        self.row = row
        self._kept: dict[tuple, list] = {}

    def vector(self, k: int, at) -> list:
        if at is not None or not self.row.whole:
            return self._make(k, at)
        key = k, self.row.agree.turn if self.row.again else 0
        if key not in self._kept:
            self._kept[key] = self._make(k, None)
        return self._kept[key]

    def _make(self, k: int, at) -> list:
        raise NotImplementedError


class Loaded(Values):
    def __init__(self, row, tensor):
        super().__init__(row)
        self.tensor, self.base = tensor, row.address(tensor)
        self.bits = None
        if row.held + row.registers_of(tensor) <= row.most_held if row.again else row.split.fits:
            # All loads are in flight before the first value is needed.
            row.held += row.registers_of(tensor)
            self.bits = [self._load(k, None) for k in range(row.split.each)]

    def _load(self, k: int, at) -> list:
        zero = {"init": 0} if self.row.guard(k) else {}  # what a thread that has none adds to a sum
        bits = registers(self.tensor.dtype, self.row.split.vector, **zero)
        self.row.move(LOAD, self.tensor, self.base, k, at, bits)
        return bits

    def _make(self, k: int, at) -> list:
        bits = self.bits[k] if self.bits is not None else self._load(k, at)
        return [value for each in bits for value in widened(each, self.tensor.dtype)]


class Mapped(Values):
    def __init__(self, row, function: Callable, inputs: Sequence[Values]):
        super().__init__(row)
        self.function, self.inputs = function, inputs

    def _make(self, k: int, at) -> list:
        columns = zip(*(each.vector(k, at) for each in self.inputs), strict=True)
        return [self.function(*column) for column in columns]


class Rounded(Values):
    def __init__(self, row, values: Values, dtype):
        super().__init__(row)
        self.values, self.dtype = values, dtype

    def _make(self, k: int, at) -> list:
        bits = narrowed(self.values.vector(k, at), self.dtype)
        return [value for each in bits for value in widened(each, self.dtype)]


class Columns(Values):
    def _make(self, k: int, at) -> list:
        split = self.row.split
        first = reg.scalar(s32)
        ptx.inst.mad.lo.s32(first, self.row.thread, split.vector, k * split.together * split.vector)
        if at is not None:
            ptx.inst.add.s32(first, first, at)
        return [first + i for i in range(split.vector)]
