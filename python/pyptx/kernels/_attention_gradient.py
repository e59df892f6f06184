"""The gradient of attention: which kernels compute it.

The CTAs of _attention_backward.py keep keys and compute dk and dv, and meanwhile add dq to memory.  For heads of more than 128 elements
_attention_wide.py computes dk and dv.  _attention_dq.py computes dq where it is not added to memory: for these heads, and in a fixed
order.  On other GPUs than Hopper, _attention_backward_mma.py computes all three.
"""

from pyptx.kernels._attention_backward import Backward, backward_kernel
from pyptx.kernels._attention_backward_mma import MmaKeys, MmaQueries, mma_dq_kernel, mma_keys_kernel
from pyptx.kernels._attention_dq import QueryGradient, dq_kernel
from pyptx.kernels._attention_sums import PAD, finish_kernel, prepare_kernel, sinks_kernel
from pyptx.kernels._attention_wide import Wide, wide_kernel
from pyptx.kernels._call import differentiated_once

__all__ = ["gradient"]


def gradient(
    dtype,
    width: int,
    values: int,
    *,
    square: bool,
    right: bool,
    left: bool,
    softcap: bool,
    ragged: bool,
    deterministic: bool,
    mma: bool,
):
    """The function from (q, k, v, o, lse, do, dlse) to (dq, dk, dv).  If there are sinks, they follow v, and their gradient follows dv.  If
    `ragged`, where the sequences of queries and of keys begin follows these."""
    masks = {"right": right, "left": left, "softcap": softcap, "ragged": ragged}
    wide = width > 128 or not square or mma
    if mma:
        over_keys = by_mma(dtype, width, values, masks)
    elif wide:
        over_keys = wide_kernel(dtype, Wide(width, of_values=values, **masks))
    else:
        cut = Backward(width, 64 if width == 128 else 128, dq=not deterministic, **masks)
        over_keys = backward_kernel(dtype, cut)
    adds = not wide and not deterministic
    prepare, of_sinks = prepare_kernel(dtype, values, adds, ragged), sinks_kernel()
    finish = finish_kernel(dtype, width, ragged) if adds else None
    keys = {64: 128, 128: 96}.get(width, 64)
    if mma:
        over_queries = mma_dq_kernel(dtype, MmaQueries.of(width, values, **masks))
    else:
        over_queries = None if adds else dq_kernel(dtype, QueryGradient(width, values, keys, **masks))

    @differentiated_once
    def attention_gradient(q, k, v, *others, scale, shift=None, reach=None, cap=None):
        *beside, o, lse, do, dlse = others
        if mma:
            q, k, v = (each.contiguous() if hasattr(each, "contiguous") else each for each in (q, k, v))
        begins = tuple(beside[-2:]) if ragged else ()
        sinks = beside[: len(beside) - len(begins)]
        options = {
            name: value for name, value in (("shift", shift), ("reach", reach), ("cap", cap)) if value is not None
        }
        options["scale"] = scale
        together = {} if ragged else {"together": 1}
        queries = q.shape[0 if ragged else 2]
        rows = -(-queries // PAD) * PAD + (PAD * (begins[0].shape[0] - 1) if ragged else 0)
        made = prepare(o, do, lse, dlse, *begins[:1], R=rows)
        sums = made[0] if adds else made
        if adds:
            dk, dv, *changed = over_keys(q, k, v, do, sums, made[1], *begins, **together, **options)
            dq = finish(changed[0] if changed else made[1], *begins[:1], M=queries, D=int(q.shape[-1]), scale=scale)
        else:
            dk, dv = over_keys(q, k, v, do, sums, *begins, **together, **options)
            dq = over_queries(q, k, v, do, sums, *begins, **together, **options)
        of_them = (of_sinks(sums[None] if ragged else sums, sinks[0]),) if sinks else ()
        return dq, dk, dv, *of_them

    return attention_gradient


def by_mma(dtype, width: int, values: int, masks: dict):
    """The function to (dk, dv) by mma.sync: one kernel, or one for each if the registers do not hold both."""
    if width <= 128:
        return mma_keys_kernel(dtype, MmaKeys(width, of_values=values, **masks))
    made = [mma_keys_kernel(dtype, MmaKeys(width, of_values=values, results=(each,), **masks)) for each in range(2)]
    return lambda *given, **options: tuple(each(*given, **options) for each in made)
