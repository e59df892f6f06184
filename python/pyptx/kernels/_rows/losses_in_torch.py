"""What torch.autograd records of the mean or the sum of losses: one function, whose forward is two launches that are remembered together.  Its
backward is that of the second launch, which does not need the losses."""

import torch

from pyptx.frameworks.torch.differentiable import applied, no_view

__all__ = ["record"]


class _Reduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, owner, forward, keywords, logits, target, *others):
        """`others`: the weight, if there is one, and None in the place of the losses."""
        *weight, _ = others
        loss, scale = forward((logits, target, *(weight or others)), None, **keywords)
        ctx.owner, ctx.shape, ctx.keywords, ctx.given = owner, logits.shape, owner.keywords_of_backward(keywords), None
        if len(ctx.shape) != 2:
            rows = target.numel()
            logits, target = logits.reshape(rows, ctx.shape[-1]), target.reshape(rows)
        ctx.save_for_backward(logits, target, *weight, scale)
        return no_view(loss)

    @staticmethod
    def backward(ctx, g):
        dx, *others = ctx.owner.backward(ctx, g.reshape(1))
        if dx is not None and len(ctx.shape) != 2:
            dx = dx.reshape(ctx.shape)
        return None, None, None, dx, *others


_reduce = applied(_Reduced)


def record(owner, forward, keywords, logits, target, weight):
    """The loss.  `owner`: the op of the mean, of logits, target, weight if there is one, and losses; `forward`: the function of the first
    three to its two results, without gradients."""
    others = (None,) if weight is None else (weight, None)
    return _reduce(owner, forward, keywords, logits, target, *others)
