"""Softmax and its logarithm over rows, and their backward, which makes the forward's values again.

softmax: y = exp(x - max) / sum(exp(x - max)); a row whose largest element is infinite becomes NaN, as in torch.
log_softmax: y = x - max - log(sum(exp(x - max))).  For the gradient g of y: dx = y (g - sum(g y)), and g - exp(y) sum(g).
"""

from typing import Any

from pyptx import ptx
from pyptx.kernels._call import RowFunction, matrix
from pyptx.kernels._rows import Row, exp, fma, log, mul, neg, paired, reciprocal, row_kernel, sub

__all__ = ["log_softmax", "softmax"]


def exponentials(row: Row, x):
    """exp(x - max) of each element, their sum, and max."""
    largest = row.max(x)
    e = row.map(lambda x: exp(sub(x, largest)), x)
    return e, *row.sum(e), largest


def make_softmax(split, dtype):
    @row_kernel((matrix(dtype),), (matrix(dtype),), split)
    def softmax(X, Y):
        for row, x in Row.each(split(X.shape[1]), X):
            e, total, _ = exponentials(row, x)
            r = reciprocal(total)
            row.store(Y, row.map(lambda e, r=r: mul(e, r), e))
        ptx.ret()

    @row_kernel((matrix(dtype), matrix(dtype)), (matrix(dtype),), paired(split))
    def softmax_backward(X, G, DX):
        for row, x, g in Row.each(paired(split)(X.shape[1]), X, G):
            e, total, _ = exponentials(row, x)
            (dot,) = row.sum((g, e))
            r = reciprocal(total)
            mean = mul(dot, r)
            row.store(DX, row.map(lambda e, g, r=r, mean=mean: mul(mul(e, r), sub(g, mean)), e, g))
        ptx.ret()

    return softmax, softmax_backward


def make_log_softmax(split, dtype):
    @row_kernel((matrix(dtype),), (matrix(dtype),), split)
    def log_softmax(X, Y):
        for row, x in Row.each(split(X.shape[1]), X):
            _, total, largest = exponentials(row, x)
            shift = log(total)
            row.store(Y, row.map(lambda x, largest=largest, shift=shift: sub(sub(x, largest), shift), x))
        ptx.ret()

    @row_kernel((matrix(dtype), matrix(dtype)), (matrix(dtype),), paired(split))
    def log_softmax_backward(X, G, DX):
        for row, x, g in Row.each(paired(split)(X.shape[1]), X, G):
            e, total, _ = exponentials(row, x)
            (gradients,) = row.sum(g)
            pull = neg(mul(gradients, reciprocal(total)))
            row.store(DX, row.map(lambda e, g, pull=pull: fma(e, pull, g), e, g))
        ptx.ret()

    return log_softmax, log_softmax_backward


SOFTMAX = RowFunction("softmax", 1, make_softmax)
LOG_SOFTMAX = RowFunction("log_softmax", 1, make_log_softmax)


def softmax(x: Any, *, out: Any = None) -> Any:
    """exp(x) / sum(exp(x)) over the last dimension, as torch.softmax(x, -1); f32, f16 or bf16, computed in f32."""
    return SOFTMAX((x,), out)


def log_softmax(x: Any, *, out: Any = None) -> Any:
    """The logarithm of `softmax`, as torch.log_softmax(x, -1)."""
    return LOG_SOFTMAX((x,), out)
