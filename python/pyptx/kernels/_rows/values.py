"""The values of a row, of which each thread has those of its vectors: loaded, computed from others, or rounded."""

from collections.abc import Callable, Sequence

from pyptx import ptx, reg, smem
from pyptx.kernels._registers import LOAD, apply_to, narrowed, registers, smem_address, widened
from pyptx.types import b32, u32

__all__ = ["Identity", "Kept", "Loaded", "Mapped", "Rounded", "Values"]


COMING = (
    8  # registers for early loads of a vector that all rows share; half as many if two rows are in registers together
)


class Identity:
    """Copies the bits of a row to other registers for each pass over it, in a way that ptxas cannot see through.  Otherwise ptxas would
    keep the f32 values of the first pass, which need more registers than there are."""

    def __init__(self, row, thread):
        self.row, self.selectors = row, {}
        self.address = smem_address(smem.alloc(u32, (1,)))
        with ptx.if_(thread == 0):
            ptx.inst.st.shared.u32(ptx.addr(self.address), 0x3210)  # a selector of prmt that leaves each byte in place
        ptx.bar.sync(0)

    def __call__(self, bits: list) -> list:
        turn = self.row.passes
        if turn == 0 or bits[0].dtype.bits != 32:
            return bits
        if turn not in self.selectors:
            self.selectors[turn] = apply_to(reg.scalar(b32), ptx.inst.ld.shared.b32, ptx.addr(self.address))
        return [apply_to(reg.scalar(each.dtype), ptx.inst.prmt.b32, each, each, self.selectors[turn]) for each in bits]


class Values:
    """f32 values of a row; `vector` returns the registers of the thread's k-th vector."""

    def __init__(self, row):
        self.row = row
        self._kept: dict[tuple, list] = {}

    def vector(self, k: int, at) -> list:
        if at is not None or not self.row.whole:
            return self._make(k, at)
        key = k, self.row.passes if self.row.again else 0
        if key not in self._kept:
            self._kept[key] = self._make(k, None)
        return self._kept[key]

    def _make(self, k: int, at) -> list:
        raise NotImplementedError


class Loaded(Values):
    def __init__(self, row, tensor):
        super().__init__(row)
        self.tensor, self.base = tensor, row.address(tensor)
        # The whole row; loads under way, by vector; how many vectors early they start.
        self.bits, self.coming, self.ahead = (None, {}, 0)
        shared = len(tensor.shape) == 1
        if row.edges and shared and not row.split.pipelined:  # two loads a vector: too many registers to be early
            return
        if row.same is not None and shared:  # registers are for the row
            self.ahead = max(1, COMING * 32 // (row.split.vector * tensor.dtype.bits * row.split.batch))
            self.coming = {k: self._load(k, None) for k in range(min(self.ahead, row.split.each))}
        elif row.same is not None or (
            row.held + row.registers_of(tensor) <= row.most_held if row.again else row.split.fits
        ):
            # All loads are in flight before the first value is needed.
            row.held += row.registers_of(tensor)
            self.bits = [self._load(k, None) for k in range(row.split.each)]

    def _load(self, k: int, at) -> list:
        zero = {"init": 0} if self.row.guard(k) else {}  # a thread without a k-th vector adds zeros to sums
        bits = registers(self.tensor.dtype, self.row.split.vector, **zero)
        self.row.move(LOAD, self.tensor, self.base, k, at, bits)
        return bits

    def _make(self, k: int, at) -> list:
        if self.bits is not None:
            bits = self.bits[k] if self.row.same is None else self.row.same(self.bits[k])
        elif k in self.coming:
            later = k + self.ahead
            bits = self.coming.pop(k)
            if later < self.row.split.each:
                self.coming[later] = self._load(later, None)
        else:
            bits = self._load(k, at)
        return [value for each in bits for value in widened(each, self.tensor.dtype)]


class Kept(Values):
    """Values that stay in registers as f32, whatever is done meanwhile."""

    def __init__(self, row, values: Values):
        super().__init__(row)
        self.registers = [values.vector(k, None) for k in range(row.split.each)]

    def vector(self, k: int, at) -> list:
        return self.registers[k]


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
