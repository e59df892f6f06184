"""Cross entropy of rows of logits: loss = log(sum(exp(x))) - x[target], and its backward g (softmax(x) - [column is target]).

The forward reads a row once, however long.
"""

import functools
from typing import Any

from pyptx import Tile, ptx, reg
from pyptx.kernels._call import RowFunction, matrix
from pyptx.kernels._rows import Row, Split, add, apply, exp, fma, log, mul, neg, reciprocal, row_kernel, sub
from pyptx.types import f32, s32, u32

__all__ = ["cross_entropy"]

LOSSES = Tile("M", f32)


def make_cross_entropy(split, x_type, target_type):
    targets = Tile("M", target_type)
    target_bytes = target_type.bits // 8

    def target_of(row: Row, T):
        (pt,) = ptx.global_ptrs(T)
        target = reg.scalar(target_type)
        load = ptx.inst.ld.global_.nc.b64 if target_bytes == 8 else ptx.inst.ld.global_.nc.b32
        load(target, ptx.addr(pt + row.index * target_bytes))
        narrow = reg.scalar(s32)
        ptx.inst.cvt.s32.s64(narrow, target) if target_bytes == 8 else ptx.inst.mov.b32(narrow, target)
        return narrow

    once = functools.partial(Split.once, **split.keywords)  # the row is read once: no need to keep it

    @row_kernel((matrix(x_type), targets), (LOSSES,), once)
    def cross_entropy(X, T, L, *, ignore_index=-100):
        row = Row.own(once(X.shape[1]))
        x = row.load(X)
        target = target_of(row, T)
        largest, total = row.exponentials(x)
        with ptx.if_(row.thread == 0):
            loss = reg.scalar(f32, init=0.0)
            with ptx.if_(target != ignore_index):
                at = row.element(X, reg.from_(target, u32))
                ptx.inst.mov.f32(loss, sub(add(log(total), largest), at))
            (pl,) = ptx.global_ptrs(L)
            ptx.inst.st.global_.f32(ptx.addr(pl + row.index * 4), loss)
        ptx.ret()

    @row_kernel((matrix(x_type), targets, LOSSES), (matrix(x_type),), split)
    def cross_entropy_backward(X, T, G, DX, *, ignore_index=-100):
        for row, x in Row.each(split(X.shape[1]), X):
            target = target_of(row, T)
            (pg,) = ptx.global_ptrs(G)
            g = apply(ptx.inst.ld.global_.nc.f32, ptx.addr(pg + row.index * 4))
            kept = apply(ptx.inst.selp.f32, g, 0.0, target != ignore_index)
            largest, total = row.exponentials(x)
            scale = mul(kept, reciprocal(total))

            def gradient(x, column, kept=kept, target=target, largest=largest, scale=scale):
                there = apply(ptx.inst.selp.f32, neg(kept), 0.0, column == target)
                return fma(exp(sub(x, largest)), scale, there)

            row.store(DX, row.map(gradient, x, row.columns()))
        ptx.ret()

    return cross_entropy, cross_entropy_backward


CROSS_ENTROPY = RowFunction("cross_entropy", 1, make_cross_entropy, indices=1, ignore_index=-100)


def cross_entropy(logits: Any, target: Any, *, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """The cross entropy of logits (..., N) and the indices of the true columns, as torch.nn.functional.cross_entropy of (M, N).

    logits: f32, f16 or bf16; target: int64 or int32 of the leading dimensions; losses are f32.  Rows whose target is
    `ignore_index` have loss and gradient 0 and do not count in the mean.  reduction: "mean", "sum" or "none".
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is mean, sum or none, not {reduction!r}")
    losses = CROSS_ENTROPY((logits, target), ignore_index=ignore_index)
    if reduction == "none":
        return losses
    return losses.sum() / (target != ignore_index).sum() if reduction == "mean" else losses.sum()
