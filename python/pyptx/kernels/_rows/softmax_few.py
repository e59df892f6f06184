"""Softmax and its logarithm over a few elements of a dimension that is not the last one, and their backward: X (L, N, W) over N.

A thread has all elements of some neighbouring columns in registers, and reads them once.  Its loads have 4 bytes at least.
"""

import functools

from pyptx import Tile, differentiable_kernel, kernel, ptx
from pyptx.kernels._registers import STORE, add, copied, fma, log, move, mul, narrowed, neg, reciprocal, sub, tree
from pyptx.kernels._rows.columns import THREADS, Columns, ctas_of
from pyptx.kernels._rows.split import begin_early
from pyptx.kernels._rows.totals import LOWEST, below
from pyptx.types import PtxType

__all__ = ["few_softmax", "is_few"]

ROOM = 96  # elements of a thread, as f32: with more, too few threads are resident


def is_few(n: int, vector: int, size: int) -> bool:
    """Whether a thread has room for columns of n elements of so many bytes, in the backward, too; `vector` divides W."""
    return 2 * n <= ROOM and neighbours(n, vector, 2) * size >= 4


def neighbours(n: int, vector: int, arrays: int) -> int:
    """How many columns of so many tensors a thread takes."""
    while vector > 1 and n * vector * arrays > ROOM:
        vector //= 2
    return vector


@functools.cache
def few_softmax(dtype: PtxType, vector: int, logarithm: bool = False, hopper: bool = False):
    """The kernel X (L, N, W) -> Y with its backward, for N that `is_few`."""
    tile = Tile("L", "N", "W", dtype, align=16)

    def launch(arrays: int) -> dict:
        return {
            "in_specs": (tile,) * arrays,
            "out_specs": (tile,),
            "raw_params": [("u32", "W")],
            "grid": lambda L, N, W: (ctas_of(L, W, neighbours(N, vector, arrays)), 1, 1),
            "block": (THREADS, 1, 1),
            "batch": "L",
            "reqntid": True,
            "dependent_launch": hopper,
            "arch": "sm_90" if hopper else "sm_80",
        }

    @kernel(**launch(1))
    def few_softmax(X, Y):
        write(hopper, vector, of_logarithm if logarithm else of_softmax, X, Y)

    @kernel(**launch(2))
    def few_softmax_backward(X, G, DX):
        write(hopper, vector, gradient_of_logarithm if logarithm else gradient_of_softmax, X, G, DX)

    return differentiable_kernel(few_softmax, few_softmax_backward)


def write(hopper: bool, vector: int, of_column, *tensors):
    """Writes to the last tensor, of each column, what `of_column` makes of the elements in the others."""
    *given, result = tensors
    begin_early(hopper)
    n = result.shape[1]
    columns = Columns(result, neighbours(n, vector, len(given)))
    rows = [columns.loaded(0, n, tensor) for tensor in given]
    made = [of_column(*([row[j] for row in some] for some in rows)) for j in range(columns.vector)]
    for place, values in zip(columns.places(result, 0, n), zip(*made, strict=True), strict=True):
        bits = narrowed(values, result.dtype)
        move(STORE, place, 0, bits, columns.vector * result.dtype.bits // 8, pred=columns.inside)
    ptx.ret()


def exponentials(x: list) -> tuple:
    """(the differences to the largest element, their exponentials, the sum of those)."""
    largest = tree([copied(each) for each in x], ptx.inst.max.NaN.f32)
    ptx.inst.max.NaN.f32(largest, largest, LOWEST)
    e = [below(each, largest) for each in x]
    return [sub(each, largest) for each in x], e, total_of(e)


def total_of(values: list):
    return tree([copied(each) for each in values], ptx.inst.add.f32)


def of_softmax(x: list) -> list:
    _, e, total = exponentials(x)
    r = reciprocal(total)
    return [mul(each, r) for each in e]


def of_logarithm(x: list) -> list:
    c, _, total = exponentials(x)
    lines = log(total)
    return [sub(each, lines) for each in c]


def gradient_of_softmax(x: list, g: list) -> list:
    _, e, total = exponentials(x)
    r = reciprocal(total)
    mean = neg(mul(total_of([mul(a, b) for a, b in zip(e, g, strict=True)]), r))
    return [mul(mul(a, r), add(b, mean)) for a, b in zip(e, g, strict=True)]


def gradient_of_logarithm(x: list, g: list) -> list:
    _, e, total = exponentials(x)
    pull = neg(mul(total_of(g), reciprocal(total)))
    return [fma(a, pull, b) for a, b in zip(e, g, strict=True)]
