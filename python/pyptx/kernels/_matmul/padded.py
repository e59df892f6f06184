"""Large products on Hopper of matrices whose rows TMA cannot address: A, B or both copied to rows that it can, and C copied back."""

from dataclasses import replace

from pyptx.kernels._epilogue import NOTHING
from pyptx.kernels._matmul.choice import Problem, engine, kernel_of, microseconds_in_one, streams_few
from pyptx.kernels._matmul.cuts import microseconds
from pyptx.kernels._matmul.pitched import pitched_kernel

__all__ = ["Padded", "is_padded", "padded_microseconds"]

COPY, BANDWIDTH = 3.5, 2.5e6  # microseconds of a copy besides its bytes, and bytes of a microsecond
GAIN = 0.9  # of the time of mma.sync
SECTOR = 32  # bytes


def is_padded(p: Problem) -> bool:
    """Whether copies of what TMA cannot address, and wgmma, take less than mma.sync.  An epilogue would read rows of C, too."""
    widths, epilogue = (p.a_width, p.b_width, p.out_width), p.epilogue
    if engine(p.on_gpu, p.dtype, 16) != "sm_90a" or min(widths) >= 16 or epilogue.gated or epilogue.scales == "block":
        return False
    if streams_few(p) or (p.out_width < 16 and epilogue != NOTHING):
        return False
    by_mma = microseconds(p.m, p.n, p.k * p.dtype.bits // 8, p.batch or 1, min(p.a_width, p.b_width))
    return padded_microseconds(p) < GAIN * by_mma


def padded_microseconds(p: Problem) -> float:
    sizes = (p.m * p.k, p.dtype, p.a_width), (p.n * p.k, p.dtype, p.b_width), (p.m * p.n, p.out, p.out_width)
    copies = [size * dtype.bits / 8 * (p.batch or 1) for size, dtype, width in sizes if width < 16]
    multiplied = microseconds_in_one(replace(p, m=p.m * (p.batch or 1), batch=None, pitched=True))
    return multiplied + sum(COPY + 2 * size / BANDWIDTH for size in copies)


class Padded:
    """A and B copied to rows of a multiple of 32 bytes if theirs are of less than 16, and C, of torch's type `dtype`, copied back."""

    def __init__(self, p: Problem, dtype):
        self.of_a, self.of_b, self.of_c = (width < 16 for width in (p.a_width, p.b_width, p.out_width))
        self.shape = (*(() if p.batch is None else (p.batch,)), p.m, p.n)
        self.copies, self.back, self.dtype = pitched_kernel(p.dtype), pitched_kernel(p.out), dtype
        widths = {name: SECTOR for name in ("a_width", "b_width", "out_width") if getattr(p, name) < 16}
        self.kernel = kernel_of(replace(p, pitched=self.of_c, **widths))

    def __call__(self, a, b, *more, out=None):
        a = self.pitched(a) if self.of_a else a
        b = self.pitched(b) if self.of_b else b
        if not self.of_c:
            return self.kernel(a, b, *more, **({} if out is None else {"out": out}))
        made = self.room(b, self.shape[:-1], self.shape[-1], self.dtype)
        self.kernel(a, b, *more, out=made[..., : self.shape[-1]])
        result = b.new_empty(self.shape, dtype=self.dtype) if out is None else out
        self.back(made.view(-1, made.shape[-1]), out=result.view(-1, self.shape[-1]))
        return result

    def pitched(self, x):
        """A copy whose rows lie a multiple of a sector apart."""
        *lead, columns = x.shape
        made = self.room(x, lead, columns, x.dtype)
        self.copies(x.reshape(-1, columns), out=made.view(-1, made.shape[-1]))
        return made[..., :columns]

    def room(self, like, lead, columns: int, dtype):
        unit = SECTOR // dtype.itemsize
        return like.new_empty((*lead, -(-columns // unit) * unit), dtype=dtype)
