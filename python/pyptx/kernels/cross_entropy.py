"""Cross entropy of rows of logits x against the index of the true column, or against probabilities p of all columns.

Let c = x - max(x) and L = log(sum(exp(c))); then column j costs L - c_j.  Let q_j be 1 at the true column and 0 elsewhere, or p_j; with
smoothing s it becomes (1 - s) q_j + s / N.  With weights w, the loss is the sum of w q (L - c), and for the gradient g of the loss,
dx = g (softmax(x) sum(w q) - w q).  c is relative to the largest element, so that rows far from zero keep their digits.

The forward against an index reads a row once, however long.  Smoothed, long ones have the sum of c from differences to a median.
"""

import contextlib
import functools
import math
from typing import Any

from pyptx import Tile, _core, ptx, reg
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._apart import are_apart, is_packed
from pyptx.kernels._checks import check_arrays
from pyptx.kernels._compiled import surely
from pyptx.kernels._keywords import Input, Unpack, renamed
from pyptx.kernels._memory import dense, last
from pyptx.kernels._registers import add, apply, apply_to, constant, exp, fma, log, mul, neg, reciprocal, sub
from pyptx.kernels._remembered import Remembered
from pyptx.kernels._row_function import Argument, RowFunction
from pyptx.kernels._rows.columns import MOST_GROUPS, ctas_of
from pyptx.kernels._rows.cross_entropy_columns import make_column_losses, make_column_parts, make_reduced_columns
from pyptx.kernels._rows.losses import (
    LOSSES,
    MANY,
    ONE,
    RESULTS,
    finite,
    index_at,
    of_weights,
    partial_kernel,
    parts_of,
    reduction_kernel,
    sum_of_parts,
)
from pyptx.kernels._rows.own import less_at
from pyptx.kernels._rows.row import Row
from pyptx.kernels._rows.split import LONG, WARP, Split, ending_alone, from_short, paired, row_kernel, with_own
from pyptx.kernels._rows.tiles import columns, matrix
from pyptx.kernels._rows.totals import Exponentials, below
from pyptx.kernels._target import has_clusters
from pyptx.kernels._torch_state import compiling, recorded
from pyptx.kernels._types import INDICES, type_name
from pyptx.kernels.softmax import lies_in_columns, of_three
from pyptx.types import pred, u32

__all__ = ["cross_entropy"]


class Target:
    """The index of the row's true column: `ignored` and `inside` (of the row) are predicates, `column` is a register."""

    def __init__(self, row: Row, index, ignore_index: int):
        self.ignored, self.inside = reg.scalar(pred), reg.scalar(pred)
        ptx.inst.setp.eq.s64(self.ignored, index, ignore_index)
        ptx.inst.setp.lt.u64(self.inside, index, row.split.n)  # a negative index is a large one
        self.column = apply_to(reg.scalar(u32), ptx.inst.cvt.u32.u64, index)


def smoothed(row: Row, X, x, weight, found: Exponentials, smoothing: float):
    """The largest, the sum of exponentials, the sum of w s / N and the sum of c w s / N, over all columns."""
    n, share = row.split.n, smoothing / max(1, row.split.n)
    if found.once:
        found.around = (k := finite(row.median(X))), weight
    largest, total, *rest = found.now()
    if rest:
        pulled, weights = rest if weight else (*rest, constant(float(n)))
        pulled = fma(neg(weights), sub(largest, k), pulled)
    else:
        c = row.map(lambda x: sub(x, largest), x)
        weights, pulled = row.sum(weight, (weight, c)) if weight else (constant(float(n)), *row.sum(c))
    return largest, total, mul(weights, share), mul(pulled, share)


def loss_of_index(row: Row, x, X, T, W, L, ignore_index: int, smoothing: float):
    first, share = row.thread == 0, row.split.threads < WARP and not row.split.edges
    found = Exponentials(row, x)

    def fetched():
        """The target, and the bits of its logit and weight."""
        target = Target(row, index_at(T.dtype, ptx.addr(row.of_row(T)), pred=first), ignore_index)
        there = first & target.inside
        return target, *(row.fetched(tensor, target.column, pred=there) if tensor else None for tensor in (X, W))

    # Rows that share a warp are quicker with a branch.  For others it is not there, since loads of the row would wait behind it.
    early = share or found.once
    if early:
        with ptx.if_(first) if share else contextlib.nullcontext():
            target, its, its_weight = fetched()
    if smoothing:
        largest, total, weights, pulled = smoothed(row, X, x, row.load(W) if W else None, found, smoothing)
    else:
        largest, total = found.now()
    if not early:  # L1 has the row
        target, its, its_weight = fetched()
    with ptx.if_(first):
        lines = log(total)
        loss = sub(lines, sub(row.value(X, its), largest))
        ptx.inst.selp.f32(loss, loss, math.nan, target.inside)
        if W:
            loss = mul(loss, row.value(W, its_weight))
        if smoothing:
            loss = add(mul(loss, 1 - smoothing), sub(mul(weights, lines), pulled))
        ptx.inst.mov.f32(loss, 0.0, pred=target.ignored)
        row.store_of_row(L, loss)


def gradient_of_index(row: Row, x, X, T, W, scales, DX, ignore_index: int, smoothing: float):
    index = index_at(T.dtype, ptx.addr(row.of_row(T)))
    target, g = Target(row, index, ignore_index), gradient_of_loss(row, *scales)
    ptx.inst.selp.f32(g, g, math.nan, target.inside)
    ptx.inst.selp.f32(g, 0.0, g, target.ignored)
    weight = row.load(W) if W and smoothing else None
    true = mul(g, 1 - smoothing) if smoothing else g
    if W:
        its_weight = constant(0.0)
        with ptx.if_(target.inside):
            ptx.inst.mov.f32(its_weight, row.element(W, target.column))
        true = mul(true, its_weight)
    own = row.split.threads == 1
    if not own:
        mine = target.inside & row.has(target.column)
        its = row.fetched(X, target.column, pred=mine)
    largest, total = Exponentials(row, x).now()
    everywhere = mul(g, -smoothing / row.split.n) if smoothing else None
    sums = true
    if smoothing:
        sums = sub(true, mul(everywhere, row.sum(weight)[0] if weight else float(row.split.n)))
    scale = mul(sums, reciprocal(total))

    def gradient(x, *weight):
        if not smoothing:
            return mul(below(x, largest), scale)
        return fma(below(x, largest), scale, mul(everywhere, weight[0]) if weight else everywhere)

    dx = row.map(gradient, x, *((weight,) if weight else ()))
    row.store(DX, less_at(dx, target.column, true) if own else dx, last=True)
    if own:
        return
    with ptx.if_(mine):  # The thread that wrote the true column writes it again: cheaper than to test every column.
        its = row.value(X, its)
        row.store_element(DX, target.column, sub(gradient(its, *([its_weight] if weight else [])), true))


def gradient_of_loss(row: Row, G, SCALE=None):
    """The gradient of the row's loss: one of G or, where G is that of the mean or the sum of all losses, G times SCALE."""
    load = ptx.inst.ld.global_.nc.f32
    if SCALE is None:
        return apply(load, ptx.addr(row.of_row(G)))
    return mul(*(apply(load, ptx.addr(place)) for place in ptx.global_ptrs(G, SCALE)))


def gradients_of_rows(split, X, T, W, scales, DX, *told):
    for row, x in Row.each(split(X.shape[1]), X):
        gradient_of_index(row, x, X, T, W, scales, DX, *told)
    ptx.ret()


def make_cross_entropy(few, split, x_type, target_type, w_type=None):
    """`few`: for fewer rows than fill a GPU that has clusters."""
    wide = Split.few_reading if few else Split.wide_reading
    reading = wide if split.func == Split.wide else Split.reading
    once, split = with_own(functools.partial(reading, **split.keywords)), with_own(ending_alone(from_short(split)))
    inputs = (matrix(x_type), Tile("M", target_type), *([columns(w_type)] if w_type else []))

    def cross_entropy(X, T, WEIGHT, L, *, ignore_index=-100, label_smoothing=0.0):
        for row, x in Row.each(once(X.shape[1]), X):
            loss_of_index(row, x, X, T, WEIGHT, L, ignore_index, label_smoothing)
        ptx.ret()

    def cross_entropy_backward(X, T, WEIGHT, G, DX, *, ignore_index=-100, label_smoothing=0.0):
        gradients_of_rows(split, X, T, WEIGHT, (G,), DX, ignore_index, label_smoothing)

    forward, backward = (of_weights(each, w_type) for each in (cross_entropy, cross_entropy_backward))
    return (
        row_kernel(inputs, (RESULTS,), once)(forward),
        row_kernel((*inputs, LOSSES), (matrix(x_type),), split)(backward),
    )


def make_partial(split, x_type, target_type, w_type, _):
    return partial_kernel(x_type, target_type, w_type, hopper=split.func == Split.wide), None


def make_reduced(of_parts, split, x_type, target_type, w_type, _):
    """The kernel from losses, or from the sums of parts of them, to their mean or sum, and its backward."""
    make = sum_of_parts if of_parts else reduction_kernel
    forward = make(x_type, target_type, w_type, hopper=split.func == Split.wide)
    split, weight = with_own(ending_alone(from_short(split))), [columns(w_type)] if w_type else []

    def reduced_cross_entropy_backward(X, T, WEIGHT, SCALE, G, DX, *, ignore_index=-100, label_smoothing=0.0):
        gradients_of_rows(split, X, T, WEIGHT, (G, SCALE), DX, ignore_index, label_smoothing)

    inputs = (matrix(x_type), Tile("M", target_type), *weight, ONE, ONE)
    return forward, row_kernel(inputs, (matrix(x_type),), split)(of_weights(reduced_cross_entropy_backward, w_type))


def make_of_probabilities(split, x_type, p_type):
    """The kernels for probabilities.  The caller has smoothed and weighted them, so their sum need not be 1."""
    split = paired(split)

    @row_kernel((matrix(x_type), matrix(p_type)), (LOSSES,), split)
    def cross_entropy(X, Q, L):
        for row, x, q in Row.each(split(X.shape[1]), X, Q):
            largest, total = Exponentials(row, x).now()
            sums, pulled = row.sum(q, (q, row.map(lambda x, largest=largest: sub(x, largest), x)))
            with ptx.if_(row.thread == 0):
                ptx.inst.st.global_.f32(ptx.addr(row.of_row(L)), sub(mul(sums, log(total)), pulled))
        ptx.ret()

    @row_kernel((matrix(x_type), matrix(p_type), LOSSES), (matrix(x_type), matrix(p_type)), split)
    def cross_entropy_backward(X, Q, G, DX, DQ):
        for row, x, q in Row.each(split(X.shape[1]), X, Q):
            g = apply(ptx.inst.ld.global_.nc.f32, ptx.addr(row.of_row(G)))
            largest, total = Exponentials(row, x).now()
            (sums,) = row.sum(q)
            scale, lines = mul(sums, reciprocal(total)), log(total)

            def gradient(x, q, g=g, largest=largest, scale=scale):
                return mul(g, fma(exp(sub(x, largest)), scale, neg(q)))

            row.store(DX, row.map(gradient, x, q))
            row.store(DQ, row.map(lambda x, g=g, largest=largest, lines=lines: mul(g, sub(lines, sub(x, largest))), x))
        ptx.ret()

    return cross_entropy, cross_entropy_backward


# What all functions are told, and the tensors that several have.
TOLD = {"called": "cross_entropy", "ignore_index": -100, "label_smoothing": 0.0}
LOGITS, TARGET = Argument("logits", "rows"), Argument("target", "each row", INDICES)
WEIGHT = Argument("weight", "vector", needed=False, gradient=False)
OF_ROWS = Argument("losses", "whole", saved=False, gradient=False)


def of_rows(name: str, few: bool) -> RowFunction:
    return RowFunction(name, functools.partial(make_cross_entropy, few), LOGITS, TARGET, WEIGHT, **TOLD)


CROSS_ENTROPY, OF_FEW_ROWS = of_rows("cross_entropy", False), of_rows("cross_entropy_of_few_rows", True)
MANY_THREADS = 1 << 16  # enough of them read columns as fast as narrower vectors, or more groups, would
FEW_CLASSES, MANY_CLASSES = 32, 4096  # which no groups share; of which threads have more on their way
FEW_CTAS, LITTLE = 32, 1 << 18  # that read columns slower than rows are copied; elements
MOST_ROWS, MOST = 264, 20 << 20  # rows, and elements of a matrix, up to which a cluster takes a long row
PARTIAL = RowFunction("partial_losses", make_partial, LOGITS, TARGET, WEIGHT, OF_ROWS, P=None, mean=True, **TOLD)


def of_reduction(name: str, of_parts: bool) -> RowFunction:
    make = functools.partial(make_reduced, of_parts)
    return RowFunction(name, make, LOGITS, TARGET, WEIGHT, OF_ROWS, saved_results=(1,), mean=True, **TOLD)


REDUCED, REDUCED_PARTS = (
    of_reduction("reduced_cross_entropy", False),
    of_reduction("reduced_cross_entropy_of_parts", True),
)
OF_PROBABILITIES = RowFunction(
    "cross_entropy_of_probabilities", make_of_probabilities, LOGITS, Argument("target", "rows"), called="cross_entropy"
)


# Of tensors (L, N, W) over N, as they are.
OF_COLUMNS = LOGITS, Argument("target", "whole", INDICES), Argument("weight", "whole", needed=False, gradient=False)
PARTS = (
    Argument("parts", "whole", saved=False, gradient=False),
    Argument("largest", "whole", gradient=False),
    Argument("sums", "whole", gradient=False),
)
TOLD_COLUMNS = TOLD | {"flattens": False, "vector": 1, "groups": 1}
COLUMN_LOSSES = RowFunction("column_losses", make_column_losses, *OF_COLUMNS, saved_results=(1, 2), **TOLD_COLUMNS)
COLUMN_PARTS = RowFunction("column_parts", make_column_parts, *OF_COLUMNS, P=None, **TOLD_COLUMNS)
REDUCED_COLUMNS = RowFunction(
    "reduced_columns", make_reduced_columns, *OF_COLUMNS, *PARTS, saved_results=(1,), mean=True, **TOLD_COLUMNS
)


def cross_entropy(
    logits: Any = None, target: Any = None, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0, dim: int | None = None, **named: Unpack[Input],
) -> Any:  # fmt: skip
    """The cross entropy of logits and the true classes, as torch.nn.functional.cross_entropy; the losses are f32.

    logits: f32, f16 or bf16.
    target: the class of each row, int64 or int32; or probabilities, with the shape of the logits.  For an index outside the classes, the loss
        and the gradient are NaN.
    weight: one for each class.
    label_smoothing: the part of the target, from 0 to 1, that all classes share.
    ignore_index: rows with this target have loss and gradient 0 and do not count in the mean.
    reduction: "mean" (with indices and weight: divided by the sum of the rows' weights), "sum" or "none".
    dim: the dimension of logits that has the classes.  None means 1, as in torch, or the last one, whichever fits the shape of the indices;
        if both fit, and for probabilities of more than two dimensions, it has to be given.  If it is not the last one, packed logits with enough columns are read
        as they lie, of indices; otherwise they are copied first.

    Differentiable by logits, and by probabilities.  Raises LaunchTypeError for other types, and for a weight that requires a gradient where
    target has indices; LaunchValueError for shapes and options that do not fit.

    Example:
        loss = kernels.cross_entropy(torch.randn(4, 100), torch.tensor([1, 2, 99, -100]), label_smoothing=0.1)
    """
    if named:
        told = {
            "logits": logits,
            "target": target,
            "weight": weight,
            "ignore_index": ignore_index,
            "reduction": reduction,
        }
        told |= {"label_smoothing": label_smoothing, "dim": dim}
        return cross_entropy(**renamed(cross_entropy, named, {"input": "logits"}, told))
    told = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing, "dim": dim}
    return CHOICE((logits, target, weight), **told)


def entropy(logits, target, weight, out, *, ignore_index, reduction, label_smoothing, dim):
    whole = logits, target, weight
    options = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing, "dim": dim}
    if reduction not in ("mean", "sum", "none"):
        raise LaunchValueError(f"cross_entropy: reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    if not isinstance(label_smoothing, (int, float)) or not 0 <= label_smoothing <= 1:
        raise LaunchValueError(f"cross_entropy: label_smoothing is a number from 0 to 1, not {label_smoothing!r}")
    check_arrays("cross_entropy", ("logits", "target"), (logits, target), None, 1, 2)
    indices = type_name(target) in INDICES
    if not indices and tuple(target.shape) != tuple(logits.shape):
        raise LaunchTypeError(
            f"cross_entropy: `target` is of {type_name(target)} {tuple(target.shape)}; legal are indices, int64 or int32, and probabilities "
            f"{tuple(logits.shape)}"
        )
    if dim is not None or len(logits.shape) > 2:
        dim = class_dimension(logits, target, indices, dim) % len(logits.shape)
        others = (*logits.shape[:dim], *logits.shape[dim + 1 :])
        if indices and tuple(target.shape) != others:
            raise wrong_target(target, others)
        if indices and lies_in_columns(logits, dim) and reads_columns(logits, dim):
            if weight is not None:
                check_weight(weight, logits.shape[dim], indices)
            return of_columns(logits, target, weight, dim, reduction, ignore_index, float(label_smoothing))
        logits = last(logits, dim)
        target = target if indices else last(target, dim)
    if indices and tuple(target.shape) != tuple(logits.shape[:-1]):
        raise wrong_target(target, logits.shape[:-1])
    if weight is not None:
        check_weight(weight, logits.shape[-1], indices)
    if not indices:
        return of_probabilities(logits, target, weight, reduction, label_smoothing)
    told = {"ignore_index": ignore_index, "label_smoothing": float(label_smoothing)}
    if logits is whole[0] and are_recorded_as_they_are(whole):
        function = recorded_function(whole, told, reduction)
        _core.remember_derivative(CHOICE, whole, options, function, [0, 1, 2])
        return function(*whole)
    if reduction != "none" and hasattr(logits, "requires_grad"):
        return reduced(logits, target, weight, None, mean=reduction == "mean", **told)[0]
    losses = function_for(logits)((logits, target, weight), **told)
    return of_losses(losses, target, weight, reduction, ignore_index)


def of_losses(losses, target, weight, reduction: str, ignore_index: int):
    """The losses, or their sum or mean by operations of the framework."""
    if reduction != "mean":
        return losses if reduction == "none" else losses.sum()
    counted = target != ignore_index
    if weight is None:
        return losses.sum() / counted.sum(dtype=losses.dtype)
    weights = weight[target * counted % weight.shape[0]]
    return losses.sum() / (weights * counted).sum(dtype=losses.dtype)


def of_columns(logits, target, weight, dim: int, reduction: str, ignore_index: int, smoothing: float):
    """`cross_entropy` of packed logits whose classes do not lie side by side."""
    shape = logits.shape
    matrices, classes, columns = of_three(shape, dim)
    vector, groups = cut_of_columns(matrices, classes, columns, 16 // logits.dtype.itemsize)
    told = {"vector": vector, "groups": groups, "ignore_index": ignore_index, "label_smoothing": smoothing}
    x, t = logits.reshape(matrices, classes, columns), target.reshape(matrices, columns)
    if reduction == "none" or not hasattr(logits, "requires_grad"):
        losses = COLUMN_LOSSES((x, t, weight), **told)[0].reshape(target.shape)
        return of_losses(losses, target, weight, reduction, ignore_index)
    parts = COLUMN_PARTS((x.detach(), t, weight), P=ctas_of(matrices, columns, vector, groups), **told)
    return REDUCED_COLUMNS((x, t, weight, *parts), mean=reduction == "mean", **told)[0].reshape(())


def reads_columns(logits, dim: int) -> bool:
    """Whether columns are read as they lie: there are enough of them for the GPU, or little to read at all.  Others are quicker as rows."""
    matrices, classes, columns = of_three(logits.shape, dim)
    cut = cut_of_columns(matrices, classes, columns, 16 // logits.dtype.itemsize)
    little = matrices * classes * columns <= LITTLE
    return not getattr(logits, "is_cuda", False) or little or ctas_of(matrices, columns, *cut) >= FEW_CTAS


def cut_of_columns(matrices: int, classes: int, columns: int, vector: int) -> tuple:
    """(the neighbours of a thread, `vector` at most; how many groups share the classes): of few columns there are groups, or, of few classes, few
    neighbours."""
    groups, vector = 1, vector if classes >= MANY_CLASSES else min(4, vector)
    while columns % vector:
        vector //= 2
    if classes < FEW_CLASSES:
        while vector > 2 and matrices * columns < MANY_THREADS * vector:
            vector //= 2
        return vector, groups
    while groups < MOST_GROUPS and classes >= 8 * groups and matrices * columns * groups < MANY_THREADS * vector:
        groups = 4 if groups == 1 else 2 * groups
    return vector, groups


def are_recorded_as_they_are(tensors) -> bool:
    """Whether autograd alone wants to see these tensors, and kernels take them without copies."""
    there = tuple([each for each in tensors if each is not None])
    return not compiling(tensors[0]) and _core.are_recorded(there) and all(map(is_packed, there))


def recorded_function(tensors, told: dict, reduction: str):
    """What `entropy` does with such tensors, as a function of them that chooses nothing."""
    if reduction == "none":
        function = function_for(tensors[0])
        return lambda *tensors: function(tensors, None, **told)
    from pyptx.kernels._rows.losses_in_torch import record

    types = *[None if each is None else each.dtype for each in tensors], "float32"
    made = REDUCED.run_for(types, has_clusters(tensors[0]), True)
    return functools.partial(record, made.of_torch, REDUCTION, told | {"mean": reduction == "mean"})


def function_for(logits) -> RowFunction:
    n, rows = logits.shape[-1], math.prod(logits.shape[:-1])
    if compiling(logits):
        few = surely(n > LONG) and surely(rows <= MOST_ROWS) and surely(rows * n <= MOST)
    else:  # sizes are tensors where torch.jit.trace traces
        few = type(n) is int and n > LONG and rows <= MOST_ROWS and rows * n <= MOST
    return OF_FEW_ROWS if few else CROSS_ENTROPY


def reduced(logits, target, weight, _, *, mean: bool, **told):
    """The mean or the sum, of tensors of torch, and by what its gradient is multiplied.  JAX makes it of its own operations: where rows are on
    several devices, it adds up the sums."""
    traced = compiling(logits)
    apart = not traced and are_apart((logits,), None)
    logits = logits if apart else dense(logits, traced)
    losses = function_for(logits)((logits.detach(), target, weight), **told)
    if len(logits.shape) != 2 and not apart:
        logits, target, losses = (
            logits.reshape(losses.numel(), logits.shape[-1]),
            target.reshape(-1),
            losses.reshape(-1),
        )
    rows, summed, function = losses.numel(), losses, REDUCED
    if surely(rows > MANY) if traced else type(rows) is int and rows > MANY:
        summed = PARTIAL((logits.detach(), target, weight, losses), P=parts_of(rows), mean=mean, **told)
        function = REDUCED_PARTS
    loss, scale = function((logits, target, weight, summed), mean=mean, **told)
    return loss.reshape(()), scale


CHOICE, REDUCTION = Remembered(entropy), Remembered(reduced)


def wrong_target(target, legal) -> LaunchValueError:
    return LaunchValueError(
        f"cross_entropy: target has shape {tuple(target.shape)}; legal for these logits is {tuple(legal)}"
    )


def check_weight(weight, classes, indices: bool):
    """Raises unless weight has one element for each class.  Only with probabilities it may require a gradient."""
    check_arrays("cross_entropy", ("weight",), (weight,), None, 1)
    if len(weight.shape) != 1 or weight.shape[0] != classes:
        raise LaunchValueError(
            f"cross_entropy: weight has shape {tuple(weight.shape)}, not {(classes,)}: one for each class"
        )
    if indices and recorded(weight) and weight.requires_grad:
        raise LaunchTypeError("cross_entropy: weight gets no gradient beside indices; pass .detach()")


def class_dimension(logits, target, indices: bool, dim: int | None) -> int:
    shape, rank = tuple(logits.shape), len(logits.shape)
    if dim is not None:
        if not isinstance(dim, int) or not -rank <= dim < rank:
            raise LaunchValueError(f"cross_entropy: dim is one of {rank} dimensions of logits, not {dim!r}")
        return dim
    if indices:
        found = [at for at in (1, -1) if tuple(target.shape) == shape[:at] + (shape[2:] if at == 1 else ())]
        if len(found) == 1:
            return found[0]
        if not found:
            raise LaunchValueError(
                f"cross_entropy: target has shape {tuple(target.shape)}; for logits {shape} legal are {(shape[0], *shape[2:])} and {shape[:-1]}"
            )
    raise LaunchValueError(
        f"cross_entropy: which dimension of logits {shape} has the classes? dim=1, as torch has it, or dim=-1"
    )


def of_probabilities(logits, target, weight, reduction: str, smoothing: float):
    if smoothing:
        target = target * (1 - smoothing) + smoothing / logits.shape[-1]
    if weight is not None:
        target = target * weight
    losses = OF_PROBABILITIES((logits, target))
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()
