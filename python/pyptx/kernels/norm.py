"""RMSNorm and LayerNorm over rows, and their backward.

rms_norm: y = h w with h = x r and r = 1 / sqrt(mean(x x) + eps).  For the gradient g of y:
dx = r (g w - h mean(g w h)),  dw = sum over rows of g h.

layer_norm: y = h w + b with h = (x - mean) r and r = 1 / sqrt(mean((x - mean)^2) + eps).  One pass takes the sums of c and c c, where
c = x - k and k is the median of three elements of the row: rows far from zero keep their digits, and outliers do no harm, unless they are two of the three.
dx = r (g w - mean(g w) - h mean(g w h)),  dw = sum of g h,  db = sum of g.

dw and db are sums over rows: each CTA adds up the rows that it meets, and `column_sums` adds up the sums of the CTAs.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

from pyptx import Tile, ptx
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.frameworks.differentiable import differentiated_once
from pyptx.kernels._apart import where_they_lie
from pyptx.kernels._checks import check_arrays
from pyptx.kernels._compiled import constant, constant_for_compiler
from pyptx.kernels._keywords import Input, Nothing, Unpack, no_such_argument, renamed
from pyptx.kernels._registers import add, apply, fma, mul, neg, sub
from pyptx.kernels._row_function import Argument, RowFunction
from pyptx.kernels._rows.loops import is_small, looping, small_looping, wide_looping
from pyptx.kernels._rows.row import Row
from pyptx.kernels._rows.split import in_registers, of_norms, paired, row_kernel, with_own
from pyptx.kernels._rows.tiles import columns, matrix
from pyptx.kernels._rows.totals import Totals
from pyptx.kernels._target import has_clusters
from pyptx.kernels._torch_state import in_dynamo
from pyptx.kernels.column_sums import column_sums
from pyptx.types import f32, u32

__all__ = ["add_rms_norm", "layer_norm", "rms_norm"]


SUMS = Tile("P", "N", f32)
EPSILON = 2.0**-23  # of f32


def of_one(n: int) -> float:
    """1 / n; 1 for rows without elements, whose kernels write nothing."""
    return 1 / max(n, 1)


def looping_kernels(make, split, *types, loaded: Sequence, sums: Sequence, **more):
    """(the kernel that loops over rows, of matrices of the types `loaded`, how many workers it has for rows of n elements, the kernel that adds up their
    sums to vectors of the types `sums`); the same for GPUs with clusters, and there for small matrices."""
    ways = {
        looping: {},
        wide_looping: {"hopper": True},
        small_looping: {"hopper": True, "small": True},
    }
    shares = {functools.partial(of, **split.keywords, **more): told for of, told in ways.items()}
    return tuple(
        (make(share, *types), workers_of(share, loaded), column_sums(*sums, **told)) for share, told in shares.items()
    )


def workers_of(share, loaded: Sequence):
    return constant_for_compiler(lambda n, rows=None: share(n).workers(rows, loaded))


def looping_for(kernels, x, norm: int = 1):
    """The one of `looping_kernels` for a matrix, its workers, and what adds up their sums.  To Dynamo, which looks into the backward for compiled
    autograd, there may be any number of rows."""
    (*lead, n), clusters, traced = x.shape, has_clusters(x), in_dynamo(x)
    rows = lead[0] if len(lead) == 1 else math.prod(lead)
    n = constant(n) if traced or type(n) is not int else n
    small = not traced and type(rows) is int and is_small(rows, n, 8 * x.dtype.itemsize, norm)
    kernel, workers, sums = kernels[2 if clusters and small else clusters]
    return kernel, workers(n) if traced else workers(n, rows), sums


def inverse_root(total, n: int, eps: float):
    """1 / sqrt(total / n + eps)"""
    r = apply(ptx.inst.fma.rn.f32, total, of_one(n), eps)
    ptx.inst.rsqrt.approx.f32(r, r)
    return r


def squares(row: Row, x) -> Totals:
    return Totals(row, (x, x))


def squares_and_dot(row: Row, x, gw) -> Totals:
    return Totals(row, (x, x), (gw, x))


def shifted(row: Row, X, x):
    """c, as the text above calls it: x less the median of three elements."""
    return row.map_with(sub, x, row.median(X))


def moments(row: Row, x, *gw, X) -> Totals:
    """The sums of c and c c and, if gw = g w is given, those of gw and gw c: what `centred` needs."""
    c = shifted(row, X, x)
    return Totals(row, c, (c, c), *gw, *((each, c) for each in gw))


def centred(row: Row, c, eps: float, sums):
    """(h, r) from the sums of c and c c; if there are also the sums of gw and gw c, (h, r, the sum of gw, the sum of gw h)."""
    n = row.split.n
    total, squares, *rest = sums
    mean = mul(total, of_one(n))
    r = inverse_root(fma(neg(mean), total, squares), n, eps)
    behind = mul(neg(mean), r)
    h = row.map(lambda c: fma(c, r, behind), c)
    if not rest:
        return h, r
    gradients, dot = rest
    return h, r, gradients, mul(fma(neg(mean), gradients, dot), r)


def widened(tensors) -> tuple:
    """The tensors with x in f32."""
    return (tensors[0].float(), *tensors[1:])


# RMSNorm.


def make_rms_norm(split, x_type, w_type):
    share = of_norms(with_own(split), 1)
    if w_type is None:
        return rms_norm_without_weight(share, x_type), rms_norm_gradient(with_own(split), x_type)

    @row_kernel((matrix(x_type), columns(w_type)), (matrix(x_type),), share)
    def rms_norm(X, W, Y, *, eps=1e-6):
        for row, x, w, (total,) in Row.each(share(X.shape[1]), X, shared=(W,), first=squares):
            r = inverse_root(total, X.shape[1], eps)
            row.store(Y, row.map(lambda x, w, r=r: mul(mul(x, r), w), x, w), last=True)
        ptx.ret()

    return rms_norm, rms_norm_gradients(split, x_type, w_type)


def rms_norm_without_weight(split, x_type):
    @row_kernel((matrix(x_type),), (matrix(x_type),), split)
    def rms_norm(X, Y, *, eps=1e-6):
        for row, x, (total,) in Row.each(split(X.shape[1]), X, first=squares):
            r = inverse_root(total, X.shape[1], eps)
            row.store(Y, row.map(lambda x, r=r: mul(x, r), x), last=True)
        ptx.ret()

    return rms_norm


def rms_norm_gradients(split, x_type, w_type):
    loops = looping_kernels(rms_norm_backward_kernel, split, x_type, w_type, loaded=(x_type, x_type), sums=(w_type,))

    @differentiated_once
    def backward(x, w, g, *, eps=1e-6):
        kernel, workers, sums = looping_for(loops, x)
        dx, dw = where_they_lie(kernel, x, w, g, eps=eps, P=workers)
        return dx, sums(dw)

    return backward


def rms_norm_backward_kernel(split, x_type, w_type):
    @row_kernel((matrix(x_type), columns(w_type), matrix(x_type)), (matrix(x_type), SUMS), split, over_rows=True)
    def rms_norm_backward(X, W, G, DX, DW, *, eps=1e-6):
        n, m, workers = X.shape[1], ptx.param(u32, "M"), ptx.param(u32, "P")
        row = Row(split(n))
        dw = row.sums(DW)

        def first(x, g, w):
            return squares_and_dot(row, x, row.map(mul, g, w))

        for x, g, w, (total, dot) in row.over(m, workers, X, G, shared=(W,), first=first):
            r = inverse_root(total, n, eps)
            dx = scaled_gradient(row, row.map(mul, g, w), x, r, dot, n)
            row.conclude([(DX, dx)], [(dw, g, row.map(lambda x, r=r: mul(x, r), x))])
        dw.store()
        ptx.ret()

    return rms_norm_backward


def rms_norm_gradient(split, x_type):
    @row_kernel((matrix(x_type), matrix(x_type)), (matrix(x_type),), paired(split))
    def rms_norm_backward(X, G, DX, *, eps=1e-6):
        n = X.shape[1]
        for row, x, g, (total, dot) in Row.each(paired(split)(n), X, G, first=squares_and_dot):
            row.store(DX, scaled_gradient(row, g, x, inverse_root(total, n, eps), dot, n), last=True)
        ptx.ret()

    return rms_norm_backward


def scaled_gradient(row: Row, gw, x, r, dot, n: int):
    """r (gw - x r r dot / n), where dot is the sum of gw x."""
    pull = mul(mul(mul(mul(dot, r), r), r), -of_one(n))
    return row.map(lambda gw, x: fma(x, pull, mul(gw, r)), gw, x)


RMS_NORM = RowFunction(
    "rms_norm", make_rms_norm, Argument("x", "rows"), Argument("weight", "vector", needed=False),
    float32=lambda given, **told: RMS_NORM(widened(given), **told), eps=1e-6,
)  # fmt: skip


def rms_norm(
    x: Any = None, normalized_shape: Any = None, weight: Any = None, eps: float | None = 1e-6, *, out: Any = None,
    **named: Unpack[Input],
) -> Any:  # fmt: skip
    """x / sqrt(mean(x x) + eps) * weight over the last dimensions, as torch.nn.functional.rms_norm.

    x: f32, f16 or bf16, with any leading dimensions.  weight: one of these types, with the shape `normalized_shape`.  rms_norm(x, w) is
    rms_norm(x, w.shape, w); without both, the last dimension is normalized.  eps=None means 2^-23 for all types.  Computed in f32,
    rounded once.  Differentiable.

    Raises LaunchTypeError for other types and what is no array, LaunchValueError for shapes that do not fit.

    Example:
        y = kernels.rms_norm(torch.randn(2, 4, 64), torch.ones(64), eps=1e-5)
    """
    if named:
        told = {"x": x, "normalized_shape": normalized_shape, "weight": weight, "eps": eps, "out": out}
        return rms_norm(**renamed(rms_norm, named, {"input": "x"}, told))
    eps = EPSILON if eps is None else eps
    if weight is None and (
        normalized_shape is None
        or (not isinstance(normalized_shape, int) and getattr(normalized_shape, "ndim", 0) == 1)
    ):
        return RMS_NORM((x, normalized_shape), out, eps=eps)  # rms_norm(x, weight), as most calls have it
    shape, weight = shape_and_vectors("rms_norm", normalized_shape, weight)
    if shape is None:
        return RMS_NORM((x, weight), out, eps=eps)
    return over_trailing(RMS_NORM, x, shape, (weight,), out, eps)


def shape_and_vectors(name: str, shape, weight, *bias) -> tuple:
    """(normalized_shape, weight, bias) of a call, in which weight and bias may stand where normalized_shape belongs.  The shape is None if
    only the last dimension is normalized."""
    if not (shape is None or is_sizes(shape)):  # weight
        if weight is not None and (not bias or bias[0] is not None):
            raise LaunchTypeError(f"{name}: {name}(x, weight, ...) or {name}(x, normalized_shape, weight, ..., eps)")
        shape, weight, bias = None, shape, (weight if weight is not None else bias[0],) if bias else ()
    if shape is None:
        vector = next((each for each in (weight, *bias) if each is not None), None)
        if len(getattr(vector, "shape", (1,))) != 1:
            shape = tuple(vector.shape)
    return shape, weight, *bias


def is_sizes(shape) -> bool:
    return isinstance(shape, (int, tuple, list)) or (hasattr(shape, "__index__") and not getattr(shape, "shape", ()))


def over_trailing(function: RowFunction, x, shape, vectors, out, eps):
    """Calls a function over rows where a row is several dimensions of x."""
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (int(shape),)
    whole = tuple(getattr(x, "shape", ()))
    if not shape or whole[len(whole) - len(shape) :] != shape:
        raise LaunchValueError(
            f"{function.name}: normalized_shape {shape} is not what the shape of x, {whole}, ends with"
        )
    for vector in vectors:
        if vector is not None and tuple(getattr(vector, "shape", shape)) != shape:
            raise LaunchValueError(
                f"{function.name}: weight and bias have the normalized shape {shape}, not {tuple(vector.shape)}"
            )
    if len(shape) == 1:
        return function((x, *vectors), out, eps=eps)
    check_arrays(function.name, function.names, (x, *vectors), out, 1)
    lead = whole[: len(whole) - len(shape)]
    given = [x.reshape(*lead, math.prod(shape)), *(each if each is None else each.reshape(-1) for each in vectors)]
    result = function(given, eps=eps).reshape(whole)
    if out is None:
        return result
    if tuple(out.shape) != whole or out.dtype != x.dtype:
        raise LaunchValueError(f"{function.name}: out is {out.dtype} {tuple(out.shape)}, not {x.dtype} {whole}")
    out[...] = result
    return out


# RMSNorm of x + residual.


def make_add_rms_norm(split, x_type, residual_type, w_type):
    matrices, share = (matrix(x_type), matrix(residual_type)), with_own(in_registers(split))

    @row_kernel((*matrices, columns(w_type)), matrices, share)
    def add_rms_norm(X, R, W, Y, S, *, eps=1e-6):
        for row, x, residual, w in Row.each(share(X.shape[1]), X, R, shared=(W,)):
            s = row.rounded(row.map(add, x, residual), residual_type)
            row.store(S, s)
            r = inverse_root(*squares(row, s).now(), X.shape[1], eps)
            row.store(Y, row.map(lambda s, w, r=r: mul(mul(s, r), w), s, w))
        ptx.ret()

    types = x_type, residual_type
    loops = looping_kernels(  # four rows beside the sums
        add_rms_norm_backward_kernel, split, *types, w_type, loaded=2 * types, sums=(w_type,), kept_f32=24, matrices=4
    )

    @differentiated_once
    def backward(x, residual, w, g, gs, *, eps=1e-6):
        kernel, workers, sums = looping_for(loops, x)
        dx, dr, dw = where_they_lie(kernel, x, residual, w, g, gs, eps=eps, P=workers)
        return dx, dr, sums(dw)

    return add_rms_norm, backward


def add_rms_norm_backward_kernel(split, x_type, residual_type, w_type):
    """x and the residual have the same gradient, which is stored in the type of each."""
    matrices = (matrix(x_type), matrix(residual_type))

    @row_kernel((*matrices, columns(w_type), *matrices), (*matrices, SUMS), split, over_rows=True)
    def add_rms_norm_backward(X, R, W, G, GS, DX, DR, DW, *, eps=1e-6):
        n, m, workers = X.shape[1], ptx.param(u32, "M"), ptx.param(u32, "P")
        row = Row(split(n))
        dw = row.sums(DW)

        def made(x, residual, g, w):
            return row.rounded(row.map(add, x, residual), residual_type), row.map(mul, g, w)

        def first(x, residual, g, gs, w):
            s, gw = made(x, residual, g, w)
            return squares_and_dot(row, s, gw)

        for x, residual, g, gs, w, (total, dot) in row.over(m, workers, X, R, G, GS, shared=(W,), first=first):
            s, gw = made(x, residual, g, w)
            r = inverse_root(total, n, eps)
            ds = row.map(add, scaled_gradient(row, gw, s, r, dot, n), gs)
            row.conclude([(DX, ds), (DR, ds)], [(dw, g, row.map(lambda s, r=r: mul(s, r), s))])
        dw.store()
        ptx.ret()

    return add_rms_norm_backward


ADD_RMS_NORM = RowFunction(
    "add_rms_norm",
    make_add_rms_norm,
    Argument("x", "rows"),
    Argument("residual", "rows"),
    Argument("weight", "vector"),
    eps=1e-6,
)


def add_rms_norm(x: Any, residual: Any, weight: Any, *, eps: float = 1e-6, **named: Unpack[Nothing]) -> Any:
    """(rms_norm(s, weight), s), where s = x + residual, rounded to the residual's type: one pass over memory instead of two.

    x, residual: f32, f16 or bf16, both (..., N).  weight: (N,), one of these types.  Differentiable.

    Raises LaunchTypeError for other types and what is no array, LaunchValueError for shapes that do not fit.

    Example:
        x, residual = torch.randn(2, 4, 64), torch.randn(2, 4, 64)
        y, residual = kernels.add_rms_norm(x, residual, torch.ones(64))
    """
    for name in named:
        raise no_such_argument(add_rms_norm, name)
    return ADD_RMS_NORM((x, residual, weight), eps=eps)


# LayerNorm.


def make_layer_norm(split, x_type, w_type, b_type=None):
    share = of_norms(with_own(split), 2)
    if w_type is None:
        return layer_norm_without_weight(share, x_type), layer_norm_gradient(split, x_type)
    gradients = layer_norm_gradients(split, x_type, w_type, b_type)

    def rows(X, eps, *shared):
        first = functools.partial(moments, X=X)
        for row, x, w, *b, totals in Row.each(share(X.shape[1]), X, shared=shared, first=first, medians=X):
            h, _ = centred(row, shifted(row, X, x), eps, totals)
            yield row, h, w, *b
        ptx.ret()

    if b_type is None:

        @row_kernel((matrix(x_type), columns(w_type)), (matrix(x_type),), share)
        def layer_norm(X, W, Y, *, eps=1e-5):
            for row, h, w in rows(X, eps, W):
                row.store(Y, row.map(mul, h, w), last=x_type == f32 or row.split.pipelined)

        return layer_norm, gradients

    @row_kernel((matrix(x_type), columns(w_type), columns(b_type)), (matrix(x_type),), share)
    def layer_norm(X, W, B, Y, *, eps=1e-5):
        for row, h, w, b in rows(X, eps, W, B):
            row.store(Y, row.map(fma, h, w, b), last=x_type == f32 or row.split.pipelined)

    return layer_norm, gradients


def layer_norm_without_weight(split, x_type):
    @row_kernel((matrix(x_type),), (matrix(x_type),), split)
    def layer_norm(X, Y, *, eps=1e-5):
        first = functools.partial(moments, X=X)
        for row, x, totals in Row.each(split(X.shape[1]), X, first=first, medians=X):
            row.store(Y, centred(row, shifted(row, X, x), eps, totals)[0], last=x_type == f32 or row.split.pipelined)
        ptx.ret()

    return layer_norm


def layer_norm_gradients(split, x_type, w_type, b_type):
    summed = tuple(filter(None, (w_type, b_type)))
    loops = looping_kernels(
        layer_norm_backward_kernel, split, x_type, w_type, b_type, loaded=(x_type, x_type), sums=summed, norm=2
    )

    @differentiated_once
    def backward(x, w, *b_and_g, eps=1e-5):
        kernel, workers, sums = looping_for(loops, x, norm=2)
        dx, *partial = where_they_lie(kernel, x, w, b_and_g[-1], eps=eps, P=workers)
        totals = sums(*partial)
        return dx, *(totals if b_type else (totals,))

    return backward


def layer_norm_backward_kernel(split, x_type, w_type, b_type):
    inputs = (matrix(x_type), columns(w_type), matrix(x_type))

    def body(X, W, G, DX, eps, DW, *DB):
        n, m, workers = X.shape[1], ptx.param(u32, "M"), ptx.param(u32, "P")
        row = Row(split(n))
        dw, *db = [row.sums(each) for each in (DW, *DB)]

        def first(x, g, w):
            return moments(row, x, row.map(mul, g, w), X=X)

        for x, g, w, totals in row.over(m, workers, X, G, shared=(W,), first=first, medians=X):
            h, *rest = centred(row, shifted(row, X, x), eps, totals)
            dx = centred_gradient(row, row.map(mul, g, w), h, *rest)
            row.conclude([(DX, dx)], [(dw, g, h), *((each, g) for each in db)])
        for each in (dw, *db):
            each.store()
        ptx.ret()

    if b_type is None:

        @row_kernel(inputs, (matrix(x_type), SUMS), split, over_rows=True)
        def layer_norm_backward(X, W, G, DX, DW, *, eps=1e-5):
            body(X, W, G, DX, eps, DW)

        return layer_norm_backward

    @row_kernel(inputs, (matrix(x_type), SUMS, SUMS), split, over_rows=True)
    def layer_norm_backward(X, W, G, DX, DW, DB, *, eps=1e-5):
        body(X, W, G, DX, eps, DW, DB)

    return layer_norm_backward


def layer_norm_gradient(split, x_type):
    @row_kernel((matrix(x_type), matrix(x_type)), (matrix(x_type),), paired(split))
    def layer_norm_backward(X, G, DX, *, eps=1e-5):
        first = functools.partial(moments, X=X)
        for row, x, g, totals in Row.each(paired(split)(X.shape[1]), X, G, first=first, medians=X):
            h, *sums = centred(row, shifted(row, X, x), eps, totals)
            row.store(DX, centred_gradient(row, g, h, *sums))
        ptx.ret()

    return layer_norm_backward


def centred_gradient(row: Row, gw, h, r, total, dot):
    """r (gw - total / n - h dot / n), where total is the sum of gw and dot that of gw h."""
    scale = mul(r, -of_one(row.split.n))
    mean, pull = mul(total, scale), mul(dot, scale)
    return row.map(lambda gw, h: fma(h, pull, fma(gw, r, mean)), gw, h)


LAYER_NORM = RowFunction(
    "layer_norm", make_layer_norm, Argument("x", "rows"), Argument("weight", "vector", needed=False), Argument("bias", "vector", needed=False),
    float32=lambda given, **told: LAYER_NORM(widened(given), **told), eps=1e-5,
)  # fmt: skip


def layer_norm(
    x: Any = None, normalized_shape: Any = None, weight: Any = None, bias: Any = None, eps: float = 1e-5, *,
    out: Any = None, **named: Unpack[Input],
) -> Any:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions, as torch.nn.functional.layer_norm.

    x: f32, f16 or bf16, with any leading dimensions.  weight, bias: one of these types, with the shape `normalized_shape`; each may be None.
    layer_norm(x, w, b) is layer_norm(x, w.shape, w, b).  Computed in f32, rounded once.  Differentiable.

    Raises LaunchTypeError for other types and what is no array, LaunchValueError for shapes that do not fit.

    Example:
        y = kernels.layer_norm(torch.randn(2, 4, 64), torch.ones(64), torch.zeros(64))
    """
    if named:
        told = {"x": x, "normalized_shape": normalized_shape, "weight": weight, "bias": bias, "eps": eps, "out": out}
        return layer_norm(**renamed(layer_norm, named, {"input": "x"}, told))
    if bias is None and (
        (normalized_shape is None and weight is None)
        or (not isinstance(normalized_shape, int) and getattr(normalized_shape, "ndim", 0) == 1)
    ):
        # As most calls have it: layer_norm(x, weight, bias).
        return LAYER_NORM((x, normalized_shape, weight), out, eps=eps)
    shape, weight, bias = shape_and_vectors("layer_norm", normalized_shape, weight, bias)
    if weight is None and bias is not None:
        check_arrays("layer_norm", ("bias",), (bias,), None, 0, 1)
        weight = bias**0  # ones
    if shape is None:
        return LAYER_NORM((x, weight, bias), out, eps=eps)
    return over_trailing(LAYER_NORM, x, shape, (weight, bias), out, eps)
