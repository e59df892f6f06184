"""`attention` of q, k and v in float8_e4m3fn: of sequences of one length, and of sequences packed one behind another."""

from __future__ import annotations

from pyptx.kernels._attention import choice
from pyptx.kernels._attention.arguments import (
    FP8,
    begins_of,
    cast,
    check,
    check_sixteens,
    dense,
    is_nothing,
    packed,
    scales_of_heads,
)
from pyptx.kernels._attention.call import Call
from pyptx.kernels._attention.plan import begun_with, taken_together
from pyptx.kernels._attention.sums import PAD
from pyptx.kernels._torch_state import compiling

__all__ = ["attention_of_e4m3", "ragged_attention_of_e4m3"]


def attention_of_e4m3(call: Call):
    q, k, v, masks, scales = call.q, call.k, call.v, call.masks, call.scales
    check(q, k, v, types=(FP8,))
    (batch, heads, queries, width), (_, shared, keys, _), values = q.shape, k.shape, v.shape[3]
    check_sixteens(width, values)
    long = 2 if queries > 2048 else 1 if queries > 512 else 0
    beside = call.beside()
    if is_nothing(q, k):
        return call.nothing(beside)
    beside, options = (*scales_of_heads(q, scales, heads, shared), *beside), masks.options(width, keys - queries)
    told = (call.sinks is not None, any(each is not None for each in scales))
    if choice.other_than_hopper(q):
        options["together"] = 1
        return _by_mma(call, beside, (*masks.flags, *told), False, options, q.shape[:-1])
    key = (choice.rounded(width) if width <= 128 else 256, choice.rounded(values), *masks.flags, long, *told)
    cut, lines, padded = choice.e4m3_plan(*key), batch * shared, -(-keys // 16) * 16
    together = taken_together(cut, batch * heads, heads // shared, queries, keys, compiling(q))
    options["together"] = together
    symbols = compiling(q) or not all([isinstance(size, int) for size in (*q.shape, *k.shape)])
    first = 0 if symbols else begun_with(cut, queries, together, heads // shared, lines)
    rows = dense(packed(v), 16).reshape(lines, keys, values)
    if begun := first > 0:
        turned, counts = choice.made(q, "transposition", 64 if values <= 64 else 128, False, True)(
            rows[:first], NP=padded, L=lines
        )
        beside = (rows.reshape(batch, shared, keys, values), counts.reshape(2, batch, shared), *beside)
    else:
        turned = choice.made(q, "transposition", 64 if values <= 64 else 128)(rows, NP=padded)
    run = choice.made(q, "e4m3", *key, begun)
    tensors = dense(q, 16), dense(k, 16), turned.reshape(batch, shared, values, padded), *beside
    return call.result_of(run, tensors, options, q.shape[:-1])


def ragged_attention_of_e4m3(call: Call):
    q, k, v, masks, scales = call.q, call.k, call.v, call.masks, call.scales
    check(q, k, v, ("length", "heads", "D"), types=(FP8,))
    begins = begins_of(call.cu_seqlens, q, k)
    (queries, heads, width), (keys, shared, _), values = q.shape, k.shape, v.shape[2]
    check_sixteens(width, values)
    beside = call.beside()
    if is_nothing(q, k):
        return call.nothing(beside)
    beside, options = (*scales_of_heads(q, scales, heads, shared), *beside), masks.options(width, 0)
    told = (*masks.flags, call.sinks is not None, any(each is not None for each in scales))
    if choice.other_than_hopper(q):
        return _by_mma(call, (*beside, *begins), told, True, options, (heads, queries))
    wide = choice.rounded(width) if width <= 128 else 256
    run = choice.made(q, "ragged_e4m3", wide, choice.rounded(values), *told)
    padded = -(-keys // PAD) * PAD + PAD * (begins[1].shape[0] - 1)
    turned = choice.made(q, "transposition", 64 if values <= 64 else 128, True)(
        dense(packed(v), 16), begins[1], NP=padded
    )
    tensors = dense(q, 16), dense(k, 16), turned, *beside, *begins
    return call.result_of(run, tensors, options, (heads, queries))


def _by_mma(call: Call, beside, told, ragged: bool, options: dict, sums: tuple):
    """Attention in e4m3 on GPUs other than Hopper: computed in bf16, which represents all numbers of e4m3."""
    q, k, v = call.q, call.k, call.v
    run = choice.made(
        q, "mma_of_e4m3", choice.rounded(q.shape[-1]), choice.rounded(v.shape[-1]), *told[:-1], ragged, told[-1]
    )
    return call.result_of(run, (*(cast(each, "bfloat16") for each in (q, k, v)), *beside), options, sums, False)
