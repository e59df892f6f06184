"""What torch.autograd records of the mean or the sum of losses: one function, whose forward is two launches that are remembered together.  Its
backward is that of the second launch, which does not need the losses."""

import torch

from pyptx.frameworks.torch.differentiable import apply_recorded, no_view

__all__ = ["record"]


class _Reduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, owner, forward, keywords, logits, target, *others):
        """`others`: the weight, if there is one, and None in the place of the losses."""
        weight = others[0] if len(others) == 2 else None
        loss, scale = forward((logits, target, weight), None, **keywords)
        rows = target.numel()
        matrix = logits if logits.dim() == 2 else logits.reshape(rows, logits.shape[-1])
        target = target if target.dim() == 1 else target.reshape(rows)
        ctx.owner, ctx.shape = owner, logits.shape
        owner.setup_context(ctx, (matrix, target, *others), (loss, scale), keywords)
        return no_view(loss), scale

    @staticmethod
    def backward(ctx, g, _):
        dx, *others = ctx.owner.backward(ctx, g.reshape(1), None)
        if dx is not None and len(ctx.shape) != 2:
            dx = dx.reshape(ctx.shape)
        return None, None, None, dx, *others


def record(owner, forward, keywords, logits, target, weight):
    """The loss.  `owner`: the op of the mean, of logits, target, weight if there is one, and losses; `forward`: the function of the first
    three to its two results, without gradients."""
    others = (None,) if weight is None else (weight, None)
    return apply_recorded(_Reduced, owner, forward, keywords, logits, target, *others)[0]
