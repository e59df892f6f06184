"""Calls of `matmul` with torch's tensors that have memory: strides and alignment choose the kernel, and what was done with such tensors is remembered."""

from operator import attrgetter, methodcaller

import torch

from pyptx.errors import LaunchValueError
from pyptx.kernels._activations import GATED
from pyptx.kernels._matmul.arguments import (
    ARGUMENTS,
    NAMES,
    epilogue_of,
    line_of,
    shape_of,
    size,
    types_of,
    width_of,
)
from pyptx.kernels._matmul.choice import Problem, engine, lies_by_columns
from pyptx.kernels._matmul.cuts import small_cut
from pyptx.kernels._matmul.launches import DTYPES, is_line_by_columns, launches_of
from pyptx.kernels._matmul.transposed import MOST_LINES, transposed_f32
from pyptx.kernels._memory import copied_to
from pyptx.kernels._target import simulated
from pyptx.kernels._types import type_name

__all__ = ["CALLS", "run"]

FEW = 16  # columns
MOST = 4096  # calls that are remembered
CALLS: dict = {}

transposed, contiguous = attrgetter("mT"), methodcaller("contiguous")


def run(given, activation, out=None):
    """Multiplies tensors that have memory: finds the Call for such tensors, or makes it."""
    a, b, *more = given
    # What decides how they are multiplied; the kernel checks the rest.
    key = (
        a.shape,
        a.stride(),
        a.dtype,
        b.shape,
        b.stride(),
        b.dtype,
        a.data_ptr() & 15,
        b.data_ptr() & 15,
        a.is_cuda or simulated.target,
        activation,
    )
    if more[0] is not None or more[1] is not None or more[2] is not None:
        looks = [
            None if each is None else (each.shape, each.stride(), each.dtype, each.data_ptr() & 15) for each in more
        ]
        key = (*key, *looks)
    if out is not None:
        key = (*key, out.dtype, out.data_ptr() & 15)
    call = CALLS.get(key)
    if call is None:
        if len(CALLS) >= MOST:
            CALLS.clear()
        call = CALLS[key] = Call(given, activation, out)
    return call(given, out)


class Seen:
    """A tensor as a kernel takes it.  `steps` are the views and copies that led there; `again` repeats them for a tensor that looks like it."""

    def __init__(self, tensor):
        self.tensor, self.steps = tensor, []

    def step(self, function):
        self.tensor = function(self.tensor)
        self.steps.append(function)

    def pack(self, aligned: bool = False):
        if not self.tensor.is_contiguous():
            self.step(contiguous)
        if not self.packed:  # a dimension of one element may have any stride, which would tell a wrong width
            self.step(methodcaller("as_strided", self.tensor.shape, strides_of(self.tensor.shape)))
        if aligned and self.tensor.data_ptr() % 16:
            self.step(methodcaller("clone"))

    def reshape(self, shape):
        """Gives the tensor this shape.  If it has too few elements, it is one line, which all lines share."""
        if size(self.tensor.shape) != size(shape):
            self.step(methodcaller("reshape", line_of(self.tensor.numel(), shape)))
            self.step(methodcaller("expand", shape))
        elif self.tensor.shape != shape:
            self.step(methodcaller("reshape", shape))

    def again(self, tensor):
        for step in self.steps:
            tensor = step(tensor)
        return tensor

    def orient(self, across: bool, by_columns: bool = False) -> bool:
        """Makes the tensor (rows, K) or (K, rows) with the last dimension contiguous, without a copy if that is possible.  Returns whether it
        is (rows, K).  `across`: it is (K, rows) before.  `by_columns`: (K, rows) may have elements of any size."""
        t = self.tensor
        natural = lies(t, -1)
        if not natural and not lies(t, -2):
            if across:
                self.step(transposed)
            self.step(contiguous)
            return True
        k_major = natural != across
        # wgmma and ldmatrix transpose elements of 16 bits only.
        if not (k_major or by_columns) and t.element_size() != 2:
            if across:
                self.step(transposed)
            self.step(by_rows)
            return True
        if not natural:
            self.step(transposed)
        return k_major

    def halve(self, activation, k_major: bool):
        """Makes gates and ups two matrices of one tensor."""
        if activation in GATED:
            dim = -2 if k_major else -1
            self.step(methodcaller("unflatten", dim, (2, self.tensor.shape[dim] // 2)))

    @property
    def packed(self) -> bool:
        return self.tensor.stride() == strides_of(self.tensor.shape)

    @property
    def width(self) -> int:
        t = self.tensor
        return width_of(t.data_ptr(), *(stride * t.element_size() for stride in t.stride()[:-1]))


def strides_of(shape) -> tuple:
    """The strides of a tensor of this shape without gaps."""
    return tuple(size(shape[i + 1 :]) for i in range(len(shape)))


def by_rows(t):
    """`contiguous` of what lies by columns: torch's takes three times as long."""
    lying, (*_, m, n) = t.mT, t.shape
    quick = (t.is_cuda or simulated.target) and t.dtype == torch.float32 and lying.is_contiguous()
    if not quick or not 0 < size(t.shape[:-2]) < 65536 or n > MOST_LINES:
        return t.contiguous()
    vector = 1 if m % 4 or n % 4 or t.data_ptr() % 16 else 4
    return transposed_f32(vector)(lying.reshape(-1, n, m)).view(t.shape)


def lies(t, dim: int) -> bool:
    """Whether the lines along `dim`, one of the last two dimensions, are contiguous and do not overlap."""
    if t.is_contiguous():
        return dim == -1
    other = -3 - dim
    return t.stride(dim) == 1 and t.stride(other) >= t.shape[dim] and all(stride > 0 for stride in t.stride()[:-2])


class Call:
    """What a call does for tensors of certain shapes, strides and types."""

    def __init__(self, given, activation, out):
        for name, each in zip(ARGUMENTS, given, strict=True):
            if each is not None and each.device != given[0].device:
                raise LaunchValueError(f"matmul: `{name}` is on {each.device}, `a` is on {given[0].device}")
        names = [None if each is None else type_name(each) for each in (*given, out)]
        *types, result = types_of(names[:-1], activation, names[-1])
        self.shape = shape_of(*[None if each is None else each.shape for each in (*given, out)], activation)
        self.dtype = DTYPES[result]
        self.empty = 0 in self.shape
        if self.empty:
            return
        self.seen = [None if each is None else Seen(each) for each in given]
        a, b, *more = self.seen
        if a.tensor.shape[-1] == 0:  # sums without terms are 0: eight columns of zeros give them
            a.step(lambda t: t.new_zeros((*t.shape[:-1], 8)))
            b.step(lambda t: t.new_zeros((*t.shape[:-2], 8, t.shape[-1])))
        self.flat = flatten(a, b, self.shape)
        # The kernel names its tensors in another order: scales first.
        self.order = [position for position in (0, 1, 4, 5, 2, 3) if given[position] is not None]
        alone = len(self.order) == 2 and activation not in GATED
        if not alone or activation is not None:
            self.join(a, b)
        *batch, m, n = self.flat
        alone = alone and not batch
        column = n == 1 and alone
        few = alone and activation is None and is_few(m, n, a, b)
        if column or few:  # B^T A^T: a stream, of rows of A
            a, b, m, n, self.order = b, a, n, m, [1, 0]
            a.step(methodcaller("reshape", (1, -1)) if column else transposed)
            if few:
                a.pack(aligned=True)
            else:
                self.flat = (m, n)
        a_k_major = a.orient(across=False)
        by_columns = not (column or few) and may_lie_by_columns(batch, m, n, a, b, types[0], result, activation)
        b_k_major = b.orient(not (column or few), by_columns)
        k = a.tensor.shape[-1 if a_k_major else -2]
        out_width = width_of(n * self.dtype.itemsize, 0 if out is None or not out.is_contiguous() else out.data_ptr())
        if len(batch) == 2 and not lie_apart(a, b, self.flat, k, types[0], out_width):
            self.join(a, b)
            *batch, m, n = self.flat
        b.halve(activation, b_k_major)
        shapes = [None if each is None else each.shape for each in given]
        turned = [each is not None and each.dim() == 2 and is_turned(each) for each in given[4:6]]
        epilogue, seen = epilogue_of(types, activation, shapes, self.flat, turned)
        if not few and not engine(a.tensor.is_cuda, types[0], a.width, b.width, out_width):
            a.pack()
            b.pack()
        for each, shape, is_other in zip(more, seen, (False, False, *turned), strict=True):
            if each is not None:
                if is_other and epilogue.scales == "block":
                    each.step(transposed)
                each.reshape(shape)
                each.pack(aligned=True)
        problem = Problem(
            m, n, k, size(batch) if batch else None, types[0], result, a_k_major, b_k_major, a.width, b.width, out_width, epilogue,
            a.tensor.is_cuda, turned=few, packed=a.packed and b.packed, apart=len(batch) == 2,
        )  # fmt: skip
        self.kernel = launches_of(problem)
        self.alone = len(self.order) == 2
        self.plain = self.flat == self.shape and not any(self.seen[i].steps for i in self.order)
        for i in self.order:
            self.seen[i].tensor = None  # whose memory calls that are remembered must not keep

    def join(self, a: Seen, b: Seen):
        """Makes one dimension of a batch of two."""
        *batch, m, n = self.flat
        if len(batch) == 2:
            for each in (a, b):
                each.step(methodcaller("reshape", -1, *each.tensor.shape[-2:]))
            self.flat = (size(batch), m, n)

    def __call__(self, given, out):
        if self.empty:
            return given[0].new_empty(self.shape, dtype=self.dtype) if out is None else out
        if self.plain:
            arrays = given[:2] if self.alone else [given[i] for i in self.order]
        else:
            arrays = [self.seen[i].again(given[i]) for i in self.order]
        if out is None:
            result = self.kernel(*arrays)
            return result if self.flat == self.shape else result.view(self.shape)
        if not out.is_contiguous():
            return copied_to("matmul", out, self.kernel(*arrays).view(self.shape))
        self.kernel(*arrays, out=out if self.flat == self.shape else out.view(self.flat))
        return out


def is_turned(scales) -> bool:
    """Whether a kernel takes the transpose of scales of blocks, as it is packed and they are not."""
    return not scales.is_contiguous() and scales.mT.is_contiguous()


def is_few(m: int, n: int, a: Seen, b: Seen) -> bool:
    """Whether a stream of many long rows of A, where B has few columns, is quicker than tiles of both; of more columns if B^T is no copy."""
    k, t = a.tensor.shape[-1], a.tensor
    long = 1 < n <= FEW * (1 + lies(b.tensor, -2)) and 2048 <= m <= 16384 and k >= 4096 and t.element_size() == 2
    return long and lies(t, -1) and engine(t.is_cuda, NAMES[type_name(t)], a.width) == "sm_90a"


def may_lie_by_columns(batch, m: int, n: int, a: Seen, b: Seen, dtype, result, activation) -> bool:
    """Whether a kernel takes b (K, N) as it lies though its elements are f32."""
    k, count = b.tensor.shape[-2], size(batch) if batch else None
    p = Problem(m, n, k, count, dtype, result, True, False, a.width, b.width, on_gpu=a.tensor.is_cuda)
    if not (lies(a.tensor, -1) and lies(b.tensor, -1)) or activation in GATED:
        return False
    return lies_by_columns(p) or (len(batch) == 1 and a.packed and b.packed and is_line_by_columns(p))


def flatten(a: Seen, b: Seen, shape) -> tuple:
    """Makes a and b matrices, or lists of matrices where they must be; the shape of what their product is then."""
    m, columns = shape[-2:]
    k, n = b.tensor.shape[-2:]
    if size(b.tensor.shape[:-2]) == 1:  # one matrix for all rows
        if b.tensor.dim() > 2:
            b.step(methodcaller("reshape", k, n))
        if a.tensor.dim() > 2:
            a.step(methodcaller("reshape", -1, k))
        return (size(shape[:-1]), columns)
    for each, sizes in ((a, (m, k)), (b, (k, n))):
        if each.tensor.shape[:-2] != shape[:-2]:
            each.step(methodcaller("expand", *shape[:-2], *sizes))
    if len(shape) == 4 and not (is_line(a.tensor) and is_line(b.tensor)):
        return tuple(shape)
    for each, sizes in ((a, (m, k)), (b, (k, n))):
        if each.tensor.dim() != 3:
            each.step(methodcaller("reshape", -1, *sizes))
    return (size(shape[:-2]), m, columns)


def is_line(t) -> bool:
    """Whether the first two dimensions are one, by their strides."""
    return 1 in t.shape[:2] or t.stride(0) == t.stride(1) * t.shape[1]


def lie_apart(a: Seen, b: Seen, flat, k: int, dtype, out_width: int) -> bool:
    """Whether wgmma multiplies matrices of a batch of two dimensions as they lie."""
    *batch, m, n = flat
    found = engine(a.tensor.is_cuda, dtype, a.width, b.width, out_width)
    return found == "sm_90a" and not small_cut(m, n, k * dtype.bits // 8, size(batch))
