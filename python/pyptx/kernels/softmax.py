"""Softmax and its logarithm over rows, and their backward, which computes the forward's values again.

softmax: y = exp(x - max) / sum(exp(x - max)); a row whose largest element is infinite becomes NaN, as in torch.
log_softmax: y = x - max - log(sum(exp(x - max))).  For the gradient g of y: dx = y (g - sum(g y)), and g - exp(y) sum(g).
"""

import functools
import math
from typing import Any

from pyptx import differentiable_kernel, ptx
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._checks import check_arrays, check_shape, check_type_of_out, rank_of
from pyptx.kernels._compiled import constant_for_compiler, kept
from pyptx.kernels._keywords import Input, Unpack, renamed
from pyptx.kernels._memory import back, begins_at, dense, last
from pyptx.kernels._registers import fma, log, mul, neg, reciprocal, sub
from pyptx.kernels._row_function import Argument, RowFunction
from pyptx.kernels._rows.row import Row
from pyptx.kernels._rows.shares import Share
from pyptx.kernels._rows.softmax_columns import LANES, column_softmax
from pyptx.kernels._rows.softmax_few import few_softmax, is_few
from pyptx.kernels._rows.softmax_tiles import share_of, tile_softmax
from pyptx.kernels._rows.split import of_result, paired, row_kernel, with_own
from pyptx.kernels._rows.tiles import matrix
from pyptx.kernels._rows.totals import Exponentials, below
from pyptx.kernels._target import has_clusters
from pyptx.kernels._torch_state import compiling, widened_by_autocast
from pyptx.kernels._types import TYPES, spelled, type_name
from pyptx.types import f32

__all__ = ["log_softmax", "softmax"]


def make_softmax(wanted, split, dtype):
    result, split = wanted or dtype, with_own(split)
    both, split = paired(split, result.bits // dtype.bits), of_result(split, result.bits)

    @row_kernel((matrix(dtype),), (matrix(result),), split)
    def softmax(X, Y):
        for row, x, (largest, total) in Row.each(split(X.shape[1]), X, first=Exponentials):
            r = reciprocal(total)
            row.store(Y, row.map(lambda e, r=r: mul(e, r), row.map_with(below, x, largest)), last=True)
        ptx.ret()

    @row_kernel((matrix(dtype), matrix(result)), (matrix(dtype),), both)
    def softmax_backward(X, G, DX):
        for row, x, g, (largest, total, dot) in Row.each(both(X.shape[1]), X, G, first=Exponentials):
            e, r = row.map_with(below, x, largest), reciprocal(total)
            mean = mul(dot, r)
            row.store(DX, row.map(lambda e, g, r=r, mean=mean: mul(mul(e, r), sub(g, mean)), e, g), last=True)
        ptx.ret()

    return softmax, softmax_backward


def make_log_softmax(wanted, split, dtype):
    result, split = wanted or dtype, with_own(split)
    both, split = paired(split, result.bits // dtype.bits), of_result(split, result.bits)

    @row_kernel((matrix(dtype),), (matrix(result),), split)
    def log_softmax(X, Y):
        for row, x, (largest, total) in Row.each(split(X.shape[1]), X, first=Exponentials):
            shift = log(total)
            row.store(Y, row.map(lambda x, top=largest, shift=shift: sub(sub(x, top), shift), x), last=True)
        ptx.ret()

    @row_kernel((matrix(dtype), matrix(result)), (matrix(dtype),), both)
    def log_softmax_backward(X, G, DX):
        def first(row, x, g):
            return Exponentials(row, x, beside=g)

        for row, x, g, (largest, total, gradients) in Row.each(both(X.shape[1]), X, G, first=first):
            e, pull = row.map_with(below, x, largest), neg(mul(gradients, reciprocal(total)))
            row.store(DX, row.map(lambda e, g, pull=pull: fma(e, pull, g), e, g), last=True)
        ptx.ret()

    return log_softmax, log_softmax_backward


def by_result(name: str, make) -> tuple[RowFunction, RowFunction]:
    """The function whose result has the type of x, and the one whose result is f32."""
    wide = RowFunction(f"{name}_to_float32", functools.partial(make, f32), Argument("x", "rows"), called=name)
    return RowFunction(name, functools.partial(make, None), Argument("x", "rows"), float32=wide), wide


OF_TORCH = {"input": "x", "_stacklevel": ""}  # torch.nn.Softmax calls torch.nn.functional.softmax with both
SOFTMAX, LOG_SOFTMAX = by_result("softmax", make_softmax), by_result("log_softmax", make_log_softmax)


def softmax(x: Any = None, dim: int = -1, *, dtype: Any = None, out: Any = None, **named: Unpack[Input]) -> Any:
    """exp(x) / sum(exp(x)) over a dimension, as torch.softmax; f32, f16 or bf16, computed in f32.

    dim: any dimension.  If it is not the last one, packed memory with enough columns is read as it lies; otherwise x is copied to rows first,
    and the result is a view of rows.
    dtype: the type of the result.  As in torch, x is converted to it first, so the f32 result of bf16 or f16 is not rounded to x's type.
    Differentiable.

    Raises LaunchTypeError for other types, LaunchValueError for a dim that x does not have.

    Example:
        y = kernels.softmax(torch.randn(4, 100), dim=0)
    """
    if named:
        return softmax(**renamed(softmax, named, OF_TORCH, {"x": x, "dim": dim, "dtype": dtype, "out": out}))
    if dim == -1 and dtype is None:
        return SOFTMAX[0]((x,), out)
    return over_rows("softmax", SOFTMAX, x, dim, dtype, out)


def log_softmax(x: Any = None, dim: int = -1, *, dtype: Any = None, out: Any = None, **named: Unpack[Input]) -> Any:
    """The logarithm of `softmax`, as torch.log_softmax, with the same arguments.

    Raises LaunchTypeError and LaunchValueError as `softmax` does.

    Example:
        y = kernels.log_softmax(torch.randn(4, 100), dim=-1)
    """
    if named:
        return log_softmax(**renamed(log_softmax, named, OF_TORCH, {"x": x, "dim": dim, "dtype": dtype, "out": out}))
    if dim == -1 and dtype is None:
        return LOG_SOFTMAX[0]((x,), out)
    return over_rows("log_softmax", LOG_SOFTMAX, x, dim, dtype, out)


def lies_in_columns(x, dim: int) -> bool:
    """Whether x is packed, and the elements of `dim` do not lie side by side."""
    if spelled(getattr(x, "dtype", None)) not in TYPES or 0 in x.shape or math.prod(x.shape[dim + 1 :]) == 1:
        return False
    return has_no_gaps(x)


def fits_tiles(x, dim: int) -> bool:
    """Whether columns stay in the registers of CTAs, with the gradient if one is asked for."""
    tensors = 2 if getattr(x, "requires_grad", False) else 1
    return share_of(*of_three(x.shape, dim), x.dtype.itemsize, tensors, has_clusters(x)) is not None


def fills_gpu(x, dim: int) -> bool:
    """Whether there are enough columns for the GPU, if CTAs take wide ones; with fewer, it is quicker to copy them to rows."""
    outer, _, behind = of_three(x.shape, dim)
    return not getattr(x, "is_cuda", False) or outer * (behind * x.dtype.itemsize // (LANES * 16)) >= 128


def of_three(shape, dim: int) -> tuple:
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def has_no_gaps(x) -> bool:
    if hasattr(x, "is_contiguous"):
        return x.is_contiguous()
    flags = getattr(x, "flags", None)
    return flags is None or flags.c_contiguous


class Kept:
    """Its attributes are kernels, because torch.compile can find those again."""


COLUMNS = Kept()


def columns_of(shares: tuple, dtype: str, vector: int, *told):
    """The kernel with its backward, of which `shares` has those by tiles, if the columns fit; () if they are few."""
    kind = TYPES[dtype]
    if not shares:
        return few_softmax(kind, vector, *told)
    made = [
        tile_softmax(kind, Share(*share), *told, backward) if share else column_softmax(kind, vector, *told)[backward]
        for backward, share in enumerate(shares)
    ]
    return differentiable_kernel(*made)


@constant_for_compiler
def columns_for_compiler(*key) -> str:
    return kept(COLUMNS, key, columns_of(*key))


def over_columns(name: str, x, dim: int, out):
    whole, shape = x.shape, of_three(x.shape, dim)
    vector = 4 if type_name(x) == "float32" else 8
    while shape[2] % vector:
        vector //= 2
    size, wide = x.dtype.itemsize, has_clusters(x)
    shares = () if is_few(shape[1], vector, size) else tuple([share_of(*shape, size, count, wide) for count in (1, 2)])
    key = shares, type_name(x), vector, name == "log_softmax", wide
    traced = compiling(x)
    function = getattr(COLUMNS, columns_for_compiler(*key)) if traced else columns_of(*key)
    x = dense(x.reshape(shape), traced)
    if out is None:
        return function(x).reshape(whole)
    check_type_of_out(name, getattr(function, "forward_kernel", function), out)
    function(x, out=out.reshape(shape))
    return out


def over_rows(name: str, functions, x, dim: int, dtype, out):
    rank = rank_of(name, "x", x)
    if type(dim) is not int or not -rank <= dim < rank:
        raise LaunchValueError(f"{name}: dim is {-rank} to {rank - 1} for {rank} dimensions, not {dim!r}")
    if out is not None:
        check_arrays(name, ("x",), (x,), out, 1)
        check_shape(name, "out", out, x.shape)
    its, wide = spelled(getattr(x, "dtype", None)), False
    if dtype is None and out is None and widened_by_autocast(x):
        dtype = "float32"
    inside, plain = dim % rank, out is None or (has_no_gaps(out) and (compiling(x) or begins_at(out, 16)))
    if dtype is None and plain and lies_in_columns(x, inside) and (fits_tiles(x, inside) or fills_gpu(x, inside)):
        return over_columns(name, x, inside, out)
    x = last(x, dim)
    if dtype is not None and spelled(dtype) != its:
        if spelled(dtype) not in TYPES:
            raise LaunchTypeError(f"{name}: dtype is {spelled(dtype)}; legal are {', '.join(TYPES)}")
        wide = spelled(dtype) == "float32" and its in TYPES
        if not wide:  # x is rounded first, as by torch
            x = x.to(dtype) if hasattr(x, "to") else x.astype(dtype)
    if out is None:
        return back(functions[wide]((x,)), dim)
    functions[wide]((x,), last(out, dim))
    return out
