"""The gradient of attention: which kernels compute it.

The CTAs of _attention/backward.py keep keys and compute dk and dv, and meanwhile add dq to memory.  For heads of more than 128 elements
_attention/wide.py computes dk and dv.  _attention/dq.py computes dq where it is not added to memory: for these heads, and in a fixed
order, in parts of the keys where queries are few.  On other GPUs than Hopper, _attention/backward_mma.py computes all three.  Of short sequences one kernel does, _attention/small.py.
"""

import functools
from dataclasses import replace

from pyptx.frameworks.differentiable import differentiated_once
from pyptx.kernels._attention.backward import Backward, backward_kernel
from pyptx.kernels._attention.backward_mma import MmaKeys, MmaQueries, mma_dq_kernel, mma_keys_kernel
from pyptx.kernels._attention.dq import QueryGradient, dq_kernel
from pyptx.kernels._attention.plan import MULTIPROCESSORS
from pyptx.kernels._attention.small import Small, small_kernel
from pyptx.kernels._attention.sums import PAD, finish_kernel, prepare_kernel, sinks_kernel
from pyptx.kernels._attention.wide import Wide, wide_kernel
from pyptx.kernels._call import is_of_older_vmap
from pyptx.kernels.column_sums import column_sums

__all__ = ["gradient"]

BLOCKS = 4  # blocks of keys that a part of dq has at least


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
    small: tuple | None,
):
    """The function from (q, k, v, o, lse, do, dlse) to (dq, dk, dv).  If there are sinks, they follow v, and their gradient follows dv.  If
    `ragged`, where the sequences of queries and of keys begin follows these."""
    if small and not mma:
        return in_one(small_kernel(dtype, Small(width, *small, right, left, softcap)))
    masks = {"right": right, "left": left, "softcap": softcap, "ragged": ragged}
    wide = width > 128 or not square or mma
    if mma:
        over_keys = by_mma(dtype, width, values, masks)
    elif wide:
        over_keys = wide_kernel(dtype, Wide(width, of_values=values, **masks))
    else:
        over_keys = by_keys(dtype, Backward(width, 64 if width == 128 else 128, dq=not deterministic, **masks))
    adds = not wide and not deterministic
    prepare, of_sinks = prepare_kernel(dtype, values, adds, ragged), sinks_kernel()
    finish = finish_kernel(dtype, width, ragged) if adds else None
    keys = {64: 128, 128: 96}.get(width, 64)
    if mma:
        over_queries = mma_dq_kernel(dtype, MmaQueries.of(width, values, **masks))
    else:
        over_queries = None if adds else by_queries(dtype, QueryGradient(width, values, keys, **masks))

    @functools.cache
    def without_adding():
        return gradient(dtype, width, values, **masks, square=square, deterministic=True, mma=False, small=None)

    @differentiated_once
    def attention_gradient(q, k, v, *others, scale, shift=None, reach=None, cap=None):
        *beside, o, lse, do, dlse = others
        if adds and is_of_older_vmap(do, dlse):
            return without_adding()(q, k, v, *others, scale=scale, **of_masks(shift, reach, cap))
        if mma:
            q, k, v = (each.contiguous() if hasattr(each, "contiguous") else each for each in (q, k, v))
        begins = tuple(beside[-2:]) if ragged else ()
        sinks = beside[: len(beside) - len(begins)]
        options = {"scale": scale} | of_masks(shift, reach, cap)
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


def by_keys(dtype, cut: Backward):
    """The function to dk and dv, which adds to dq where the cut says so.  Where the last CTA of a head has all its keys, nothing clears what
    dq would get of others, which takes up to 2 % of the kernel's time."""
    some, whole = (backward_kernel(dtype, replace(cut, whole=whole)) for whole in (False, True))
    if cut.ragged:
        return some

    def over_keys(q, k, *given, **options):
        keys = k.shape[2]
        return (whole if type(keys) is int and keys % cut.keys == 0 else some)(q, k, *given, **options)

    return over_keys


def by_queries(dtype, cut: QueryGradient):
    """The function to dq: in as many parts of the keys as fill the GPU, if tiles of queries do not and a part has enough blocks."""
    whole = dq_kernel(dtype, cut)
    if cut.ragged:
        return whole
    parted, sums = dq_kernel(dtype, replace(cut, parts=True)), column_sums(dtype)

    def over_queries(q, k, *given, **options):
        parts = parts_of(cut, q.shape, k.shape[2])
        if parts == 1:
            return whole(q, k, *given, **options)
        made = parted(q, k, *given, S=parts, **options)
        return sums(made.reshape(parts, -1)).reshape(q.shape)

    return over_queries


def parts_of(cut: QueryGradient, shape, keys) -> int:
    """Into how many parts `by_queries` cuts the keys; one where sizes are symbols."""
    if not all(type(size) is int for size in (*shape, keys)):
        return 1
    tiles, blocks = shape[0] * shape[1] * -(-shape[2] // cut.rows), -(-keys // cut.keys)
    return max(1, min(MULTIPROCESSORS // max(1, tiles), blocks // BLOCKS))


def of_masks(shift, reach, cap) -> dict:
    """The runtime scalars that a kernel with such masks has."""
    given = {"shift": shift, "reach": reach, "cap": cap}
    return {name: value for name, value in given.items() if value is not None}


def in_one(kernel):
    """The function to all gradients by one kernel."""

    @differentiated_once
    def attention_gradient(q, k, v, o, lse, do, dlse, *, scale, shift=None, reach=None, cap=None):
        return kernel(q, k, v, o, do, lse, dlse, scale=scale, **of_masks(shift, reach, cap))

    return attention_gradient


def by_mma(dtype, width: int, values: int, masks: dict):
    """The function to (dk, dv) by mma.sync: one kernel, or one for each if the registers do not hold both."""
    if width <= 128:
        return mma_keys_kernel(dtype, MmaKeys(width, of_values=values, **masks))
    made = [mma_keys_kernel(dtype, MmaKeys(width, of_values=values, results=(each,), **masks)) for each in range(2)]
    return lambda *given, **options: tuple(each(*given, **options) for each in made)
