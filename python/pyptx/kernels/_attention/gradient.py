"""The gradient of attention: which kernels compute it.

The CTAs of _attention/backward.py keep keys and compute dk and dv, and meanwhile add dq to memory.  For heads of more than 128 elements
_attention/wide.py computes dk and dv.  _attention/dq.py computes dq where it is not added to memory: for these heads, and in a fixed
order, in parts of the keys where queries are few.  On other GPUs than Hopper, _attention/backward_mma.py computes all three.  dk and dv come
in parts where many heads of q share few keys (`by_heads`).  Of short sequences one kernel does, _attention/small.py; of one query
_attention/one_query.py.
"""

import functools
import heapq
import math
from dataclasses import replace

from pyptx.frameworks.differentiable import differentiated_once
from pyptx.kernels._attention.backward import Backward, backward_kernel
from pyptx.kernels._attention.backward_mma import MmaKeys, MmaQueries, mma_dq_kernel, mma_keys_kernel
from pyptx.kernels._attention.dq import QueryGradient, dq_kernel
from pyptx.kernels._attention.one_query import OneQuery, one_query_gradient_kernel
from pyptx.kernels._attention.plan import MULTIPROCESSORS, Forward, taken_together
from pyptx.kernels._attention.small import Small, small_kernel
from pyptx.kernels._attention.sums import PAD, add_parts_kernel, finish_kernel, prepare_kernel, sinks_kernel
from pyptx.kernels._attention.wide import Wide, wide_kernel
from pyptx.kernels._torch_state import is_of_older_vmap

__all__ = ["gradient", "of_one_query"]

BLOCKS = 4  # blocks of keys that a part of dq has at least
L2_BYTES = 20e6  # bytes of q, do and dq that heads whose tiles are together have
MANY = 8 * MULTIPROCESSORS  # CTAs that share the work as well as can be
HEADS, FAR_APART = 4, 1.1  # heads of a CTA under a causal mask; how much longer it takes if they are more
BEGIN = 0.7  # what a CTA takes beside its blocks, in blocks
ADDING, BYTES = 4.0, 4e6  # microseconds of one launch more; bytes a microsecond
GAIN = 1.03  # that parts have to be worth


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
    adds = width <= 128 and not mma and not deterministic
    over_keys = keys_function(dtype, width, values, square, masks, adds, mma)
    prepare, of_sinks = prepare_kernel(dtype, values, width * adds, ragged), sinks_kernel()
    finish = finish_kernel(dtype, width, ragged) if adds else None
    of_queries, over_queries = (None, None) if adds else queries_function(dtype, width, values, masks, mma)

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
        queries = q.shape[0 if ragged else 2]
        rows = -(-queries // PAD) * PAD + (PAD * (begins[0].shape[0] - 1) if ragged else 0)
        made = prepare(o, do, lse, dlse, *begins[:1], R=rows)
        sums = made[0] if adds else made
        if adds:
            dk, dv, *changed = over_keys(q, k, v, do, sums, made[1], *begins, **options)
            dq = finish(changed[0] if changed else made[1], *begins[:1], M=queries, D=int(q.shape[-1]), scale=scale)
        else:
            dk, dv = over_keys(q, k, v, do, sums, *begins, **options)
            together = {} if ragged else {"together": heads_of_queries(of_queries, q.shape, k.shape)}
            dq = over_queries(q, k, v, do, sums, *begins, **together, **options)
        of_them = (of_sinks(sums[None] if ragged else sums, sinks[0]),) if sinks else ()
        return dq, dk, dv, *of_them

    return attention_gradient


def keys_function(dtype, width: int, values: int, square: bool, masks: dict, adds: bool, mma: bool):
    """The function to dk and dv, which adds dq to memory if it `adds`."""
    if mma:
        return by_heads(dtype, MmaKeys(width, of_values=values, **masks), by_mma)
    if width > 128 or not (square or adds):
        return by_heads(dtype, Wide(width, of_values=values, **masks), wide_kernel)
    cut = Backward(width, 64 if width == 128 else 128, dq=adds, of_values=0 if square else values, **masks)
    return by_heads(dtype, cut, by_keys)


def queries_function(dtype, width: int, values: int, masks: dict, mma: bool) -> tuple:
    """(how tiles are cut, the function to dq)."""
    if mma:
        cut = MmaQueries.of(width, values, **masks)
        return cut, mma_dq_kernel(dtype, cut)
    cut = QueryGradient(width, values, {64: 128, 128: 96}.get(width, 64), **masks)
    return cut, by_queries(dtype, cut)


def by_keys(dtype, cut: Backward):
    """The function to dk and dv, which adds to dq where the cut says so.  Where the last CTA of a head has all its keys, nothing clears what
    dq would get of others, which takes up to 2 % of the kernel's time.  Up to 64 queries are a block of 64."""
    made = {
        (rows, whole): backward_kernel(dtype, replace(cut, rows=rows, whole=whole))
        for rows in {64, cut.rows}
        for whole in (False, True)
    }
    if cut.ragged:
        return made[cut.rows, False]

    def over_keys(q, k, *given, **options):
        queries, keys = q.shape[2], k.shape[2]
        rows = 64 if type(queries) is int and queries <= 64 else cut.rows
        return made[rows, type(keys) is int and keys % cut.keys == 0](q, k, *given, **options)

    return over_keys


def by_heads(dtype, cut: Backward, made):
    """The function to dk and dv by the kernels that `made` makes: in parts of the heads of q that share keys, where that is quicker."""
    whole, parted = (made(dtype, replace(cut, parts=parts)) for parts in (False, True))
    rows = ("N", "HK") if cut.ragged else ("B", "HK", "N")
    add_up = add_parts_kernel(dtype, (*rows, "D"), (*rows, "E"))

    def over_keys(q, k, v, *given, **options):
        parts, together = parts_of_heads(cut, q, k, v, given[-1], options.get("shift"), options.get("reach"))
        if not cut.ragged:
            options["together"] = together
        if parts == 1:
            return whole(q, k, v, *given, **options)
        dk, dv, *changed = parted(q, k, v, *given, S=parts, **options)
        return *add_up(dk, dv), *changed

    return over_keys


def by_queries(dtype, cut: QueryGradient):
    """The function to dq: in as many parts of the keys as fill the GPU, if tiles of queries do not and a part has enough blocks."""
    whole = dq_kernel(dtype, cut)
    if cut.ragged:
        return whole
    parted, add_up = dq_kernel(dtype, replace(cut, parts=True)), add_parts_kernel(dtype, ("B", "H", "M", "D"))

    def over_queries(q, k, *given, **options):
        parts = parts_of(cut, q.shape, k.shape[2])
        if parts == 1:
            return whole(q, k, *given, **options)
        return add_up(parted(q, k, *given, S=parts, **options))

    return over_queries


def parts_of(cut: QueryGradient, shape, keys) -> int:
    """Into how many parts `by_queries` cuts the keys; one where sizes are symbols."""
    if not all(type(size) is int for size in (*shape, keys)):
        return 1
    tiles, blocks = shape[0] * shape[1] * -(-shape[2] // cut.rows), -(-keys // cut.keys)
    return max(1, min(MULTIPROCESSORS // max(1, tiles), blocks // BLOCKS))


def heads_of_queries(cut: Forward, of_q, of_k) -> int:
    """How many heads of these shapes have their tiles of queries together; one where sizes are symbols."""
    if not all(type(size) is int for size in (*of_q, *of_k)):
        return 1
    (batch, heads, queries, _), (_, shared, keys, _) = of_q, of_k
    return taken_together(cut, batch * heads, heads // shared, queries, keys, False)


def parts_of_heads(cut: Backward, q, k, v, begins, shift, reach) -> tuple[int, int]:
    """`cut_heads` of these tensors; (1, 1) where sizes are symbols.  Of packed sequences all are taken to have one length."""
    sizes = (*q.shape, *k.shape, v.shape[-1], *(begins.shape if cut.ragged else ()))
    if not all(type(size) is int for size in sizes):
        return 1, 1
    if cut.ragged:
        batch = max(1, begins.shape[0] - 1)
        (queries, heads, _), (keys, shared, width) = q.shape, k.shape
        queries, keys = -(-queries // batch), -(-keys // batch)
    else:
        (batch, heads, queries, _), (_, shared, keys, width) = q.shape, k.shape
    return cut_heads(cut, batch, heads, shared, queries, keys, width + v.shape[-1], shift or 0, reach or 0)


@functools.lru_cache(maxsize=4096)
def cut_heads(cut: Backward, batch, heads, shared, queries, keys, widths, shift, reach) -> tuple[int, int]:
    """(into how many parts the heads of q that share keys are cut, how many heads of k, times parts, have their tiles together).

    It counts microseconds of an H200, by docs/performance/attention.md: blocks of the busiest multiprocessor, and the bytes of parts.  Under a
    causal mask, CTAs of the same heads drift apart as they go from head to head, until L2 no longer has what they read."""
    blocks, per = blocks_of_tiles(cut, queries, keys, shift, reach), heads // shared
    a_block = {64: 2.3, 128: 2.3, 192: 1.35, 256: 1.8}[cut.width]
    mean = heads * batch * sum(blocks) / MULTIPROCESSORS
    best, before = (math.inf, 1, 1), 0
    for parts in range(1, per + 1):
        lines, most = batch * shared * parts, -(-per // parts)
        if most == before:
            continue
        before, together = most, heads_together(cut, lines, queries, widths)
        if per == 1:
            return 1, together
        apart = FAR_APART if cut.right and not cut.left and most > HEADS else 1.0
        added_up = ADDING + batch * shared * keys * widths * 8 * parts / BYTES if parts > 1 else 0
        time = max(most * max(blocks), mean) * a_block * apart + added_up
        if time < best[0] and lines * len(blocks) <= MANY:
            taken = [per * (part + 1) // parts - per * part // parts for part in range(parts)]
            longest = busiest(blocks, taken, batch * shared, shared * parts if cut.ragged else together)
            time = longest * a_block * apart + added_up
        if parts > 1:
            time *= GAIN
        best = min(best, (time, parts, together))
    return best[1:]


def blocks_of_tiles(cut: Backward, queries: int, keys: int, shift: int, reach: int) -> list[int]:
    """How many blocks of queries see the keys of each tile of a head, as `KeyTile` counts them."""
    last = -(-queries // cut.rows) - 1

    def seen(key):
        first = max(0, (key - shift) // cut.rows) if cut.right else 0
        end = (key + cut.keys - 1 - shift + reach) // cut.rows if cut.left else last
        return max(0, min(last, end) - first + 1)

    return [seen(key) for key in range(0, keys, cut.keys)] or [0]


def heads_together(cut: Backward, lines: int, queries: int, widths: int) -> int:
    """How many of so many heads have their tiles together, the longest ones first.  Without a mask, and with a window, tiles are equally long,
    and those that follow each other read the same queries.  Under a causal mask it is what L2 keeps, and at least two, so that the last
    head's longest tile does not begin late."""
    if not cut.right or cut.left:
        return 1
    most = max(2, int(L2_BYTES // max(1, queries * widths * (4 if cut.dq else 2))))
    return -(-lines // -(-lines // most))


def busiest(blocks: list, taken: list, lines: int, together: int) -> float:
    """When the last CTA ends, in blocks, if each multiprocessor takes the next one as soon as it has none.  `taken`: the heads of each part."""
    ends, count = [0.0] * MULTIPROCESSORS, lines * len(taken)
    for first in range(0, count, together):
        for each in blocks:
            for line in range(first, min(first + together, count)):
                heapq.heapreplace(ends, ends[0] + each * taken[line % len(taken)] + BEGIN)
    return max(ends)


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


def of_one_query(dtype, cut: OneQuery):
    """The function to all gradients, of one query to a head.  CTAs that share the keys of a head are four for each multiprocessor, or fewer if
    keys are few."""
    by_stretches, add_up = one_query_gradient_kernel(dtype, cut), add_parts_kernel(dtype, ("B", "H", "M", "D"))

    @differentiated_once
    def attention_gradient(q, k, v, o, lse, do, dlse, *, scale, shift=None, reach=None):
        lines, keys = q.shape[0] * q.shape[1], k.shape[2]
        parts = 1
        if type(lines) is int and type(keys) is int:
            parts = max(1, min(4 * MULTIPROCESSORS // lines, keys // (2 * cut.keys)))
        dq, dk, dv = by_stretches(q, k, v, o, do, lse, dlse, S=parts, scale=scale, **of_masks(shift, reach, None))
        return add_up(dq), dk, dv

    return attention_gradient


def by_mma(dtype, cut: MmaKeys):
    """The function to (dk, dv) by mma.sync: one kernel, or one for each if the registers do not hold both."""
    if cut.width <= 128:
        return mma_keys_kernel(dtype, cut)
    made = [mma_keys_kernel(dtype, replace(cut, results=(each,))) for each in range(2)]
    return lambda *given, **options: tuple(each(*given, **options) for each in made)
