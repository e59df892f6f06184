"""`attention`, and `scaled_dot_product_attention`, which takes torch's arguments: which kernel runs for which heads, masks and lengths.

_attention/arguments.py checks the arguments, _attention/e4m3.py and _attention/parts.py have the calls for e4m3, few queries and caches, and
_attention/choice.py names the kernels.
"""

from __future__ import annotations

import functools
from typing import Any

from pyptx import _core
from pyptx.errors import LaunchValueError
from pyptx.kernels._attention import choice
from pyptx.kernels._attention.arguments import (
    FP8,
    LARGEST,
    TYPES,
    Described,
    Masks,
    begins_of,
    bias_of,
    by_autocast,
    check,
    check_beside_mask,
    check_device,
    check_flag,
    check_out,
    dense,
    described,
    is_nothing,
    packed,
    refuse_gradients,
)
from pyptx.kernels._attention.call import Call
from pyptx.kernels._attention.choice import plan
from pyptx.kernels._attention.e4m3 import attention_of_e4m3, ragged_attention_of_e4m3
from pyptx.kernels._attention.parts import in_parts, of_cache, of_few_queries, share_keys
from pyptx.kernels._attention.plan import MULTIPROCESSORS, taken_together
from pyptx.kernels._attention.small import small_sizes
from pyptx.kernels._checks import is_loose
from pyptx.kernels._keywords import Nothing, Unpack, no_such_argument
from pyptx.kernels._remembered import Remembered
from pyptx.kernels._target import simulated
from pyptx.kernels._torch_state import compiling, recorded
from pyptx.kernels._types import type_name

__all__ = ["attention", "scaled_dot_product_attention"]

# Queries, and keys, that short sequences behind each other have on average, by width.
SHORT = {64: 512, 128: 128, 192: 0, 256: 0}
ELSEWHERE = {  # names of arguments in torch, flash_attn and the like, and what to write instead
    **dict.fromkeys(("softmax_scale", "sm_scale"), "here it is scale"),
    **dict.fromkeys(("dropout_p", "dropout"), "leave it out, as there is no dropout"),
    **dict.fromkeys(
        ("attn_mask", "attn_bias", "bias", "key_padding_mask", "alibi_slopes"), "here it is mask, a tensor that is added to scores, or of bool"
    ),
    **dict.fromkeys(("return_lse", "return_softmax_lse", "return_attn_probs"), "here it is lse=True"),
    **dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), "here it is cu_seqlens, a pair of q's and k's"),
    **dict.fromkeys(("max_seqlen", "max_seqlen_q", "max_seqlen_k", "num_splits"), "leave it out, as it is not needed"),
    **dict.fromkeys(("cache_seqlens", "seqused_k", "kv_lens"), "here it is lengths"),
    **dict.fromkeys(("s_aux", "sink", "learnable_sink"), "here it is sinks"),
    **{f"{name}_descale": f"here it is scale_{name}" for name in "qkv"},
    "is_causal": "here it is causal", "window_size": "here it is window", "page_table": "here it is block_table",
    "enable_gqa": "leave it out, as any HK may divide H",
    "query": "here it is q", "key": "here it is k", "value": "here it is v",
}  # fmt: skip


def attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, window: int | tuple | None = None, softcap: float | None = None,
    scale: float | None = None, mask: Any = None, scale_q: Any = None, scale_k: Any = None, scale_v: Any = None, sinks: Any = None,
    cu_seqlens: Any = None, lengths: Any = None, block_table: Any = None, lse: bool = False,
    deterministic: bool = False, out: Any = None, **named: Unpack[Nothing],
) -> Any:  # fmt: skip
    """softmax(scale q k^T) v for heads in f16, bf16 or float8_e4m3fn; sums are f32.  It runs on GPUs since sm_80 (on Hopper by wgmma, on
    Blackwell by tcgen05 in the forward, otherwise by mma.sync) and on the simulator.

    q (B, H, M, D), k (B, HK, N, D), v (B, HK, N, DV); the result is (B, H, M, DV).  HK divides H: H / HK heads of q share a head of
    k and v.  D is a multiple of 8 up to 256, DV one up to D.  Strides are arbitrary; a tensor whose rows are not contiguous, or do not
    begin at multiples of 16 bytes, is copied first.

    - causal: query i sees the keys up to i + N - M, so that the last query sees all.
    - window: an int w: a query sees its own key, the w - 1 before it and, without `causal`, the w - 1 after it.  Or a pair, as
      flash_attn's window_size: the numbers of keys before its own and after it, -1 for all.
    - softcap: scores s become softcap tanh(s / softcap).
    - scale: positive; 1 / sqrt(D) if it is not given.
    - mask: (B, H, M, N), of q's type, added to scores; or bool, True where a key counts.  A dimension may be 1, and leading ones may be
      left out, if all have the same.  It goes with the arguments above and sinks, and has no gradient; for masks with gradients
      `scaled_dot_product_attention` calls torch's function.
    - scale_q, scale_k, scale_v: for q, k, v in float8_e4m3fn, whose result is bf16: f32 tensors of one number, or (H), (HK), (HK), that
      the elements of a head are multiplied by.
    - sinks: (H), floating-point: a logit of each head.  Its exponential is added to the sum that divides the result, and to lse.
    - cu_seqlens: sequences of different lengths are packed one behind another: q (M, H, D), k (N, HK, D), v (N, HK, DV).  cu_seqlens says
      where each begins: B + 1 numbers of int32 on the device, from 0 to M, or N; a pair if those of q and of k differ.
    - lengths: (B) int32: k and v are a cache with so many keys of each sequence.  With lengths, cu_seqlens is of q alone, and k and v may be
      float8_e4m3fn, with scale_k and scale_v, where q has another type.
    - block_table: (B, T) int32: k (P, page, HK, D) and v are pages of a cache, where page is a power of two; sequence b has the pages
      block_table[b].  It needs `lengths`.
    - deterministic: the gradient of q has the same bits every time, which costs two products more; also under
      torch.use_deterministic_algorithms.
    - out: memory for the result, with any strides, that does not overlap k and v, nor q, unless it is all of q.
    - lse=True: returns (result, the logarithm of the sum of exponentials of each query's scores), the latter f32, (B, H, M), or (H, M) with
      cu_seqlens.

    Differentiable in f16 and bf16 without mask, lengths and block_table.  A query that sees no key has result 0 and lse -inf.  If few
    queries meet many keys, CTAs share the keys.  The numbers in cu_seqlens, lengths and block_table are checked on the simulator only; a
    GPU reads where they say.  Raises LaunchTypeError and LaunchValueError for types, shapes and options that do not fit.

    Example:
        q, k, v = (torch.randn(1, 2, 100, 64, dtype=torch.bfloat16) for _ in range(3))
        o = kernels.attention(q, k, v, causal=True)
    """
    for name in named:
        raise no_such_argument(attention, name, ELSEWHERE)
    a_pair = isinstance(cu_seqlens, tuple) and len(cu_seqlens) == 2 and cu_seqlens[1] is not None
    of_queries, of_keys = cu_seqlens if a_pair else (cu_seqlens, None)
    tensors = q, k, v, sinks, mask, scale_q, scale_k, scale_v, of_queries, of_keys, lengths, block_table
    told = {"causal": causal, "window": window, "softcap": softcap, "scale": scale, "top_left": False}
    return CHOICE(tensors, out, **told, target=simulated.target, lse=lse, deterministic=deterministic)


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """torch.nn.functional.scaled_dot_product_attention by `attention`.  Calls that `attention` does not take, for example with dropout, f32,
    or a mask beside gradients, go to torch's own function.

    As in torch, `is_causal` aligns the first query with the first key: query i sees the keys up to i.  Raises what torch's function raises.

    Example:
        q = torch.randn(1, 2, 100, 64, dtype=torch.bfloat16)
        o = kernels.scaled_dot_product_attention(q, q, q, is_causal=True)
    """
    if attn_mask is None and not dropout_p:
        return OF_TORCH((query, key, value), None, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
    ours = not dropout_p and _takes(query, key, value, scale, enable_gqa)
    if ours and not is_causal and _takes_mask(query, key, value, attn_mask):
        return _masked(Call(query, key, value, Masks(False, None, None, scale), mask=attn_mask))
    return of_torch(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def of_torch(*given, **told):
    """torch's own: what torch.nn.functional has under its name may be the function above, for a model that is to use it."""
    import torch

    return torch._C._nn.scaled_dot_product_attention(*given, **told)


def without_mask(query, key, value, _, *, is_causal, scale, enable_gqa):
    """`scaled_dot_product_attention` of three tensors."""
    if not _takes(query, key, value, scale, enable_gqa):
        return of_torch(query, key, value, None, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)
    told = {"causal": is_causal, "window": None, "softcap": None, "scale": scale, "top_left": True, "lse": False}
    tensors = query, key, value
    if not compiling(query) and _core.are_recorded(tensors):
        options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        _core.remember_derivative(OF_TORCH, tensors, options, functools.partial(of_plain, **told), [0, 1, 2])
    return of_plain(*tensors, **told)


OF_TORCH = Remembered(without_mask)


def _takes(q, k, v, scale, grouped: bool) -> bool:
    """Whether `attention` takes these tensors of torch.  Tensors that would have to be broadcast it does not take."""
    if not all(hasattr(each, "dim") and each.dim() == 4 and not is_loose(each) for each in (q, k, v)):
        return False
    if not q.dtype == k.dtype == v.dtype or type_name(q) not in TYPES:
        return False
    (batch, heads, queries, width), (_, shared, keys, _), values = q.shape, k.shape, v.shape[3]
    fits = k.shape == (batch, shared, keys, width) and v.shape == (batch, shared, keys, values)
    of_heads = heads == shared or (grouped and shared > 0 and heads % shared == 0)
    sizes = width % 8 == 0 and values % 8 == 0 and 8 <= values <= width <= 256 and batch * heads * queries * keys > 0
    number = scale is None or (isinstance(scale, (int, float)) and 0 < scale < LARGEST)
    return bool(fits and of_heads and sizes and number)


def _takes_mask(q, k, v, mask) -> bool:
    """Whether `attention` takes this mask of torch, and no gradients are asked for."""
    if compiling(q) or (recorded(q) and any(each.requires_grad for each in (q, k, v, mask))) or is_loose(mask):
        return False
    whole, shape = (*q.shape[:3], k.shape[2]), (1,) * (4 - mask.dim()) + tuple(mask.shape)
    fits = len(shape) == 4 and all(size in (1, full) for size, full in zip(shape, whole, strict=True))
    return fits and type_name(mask) in ("bool", type_name(q)) and mask.device == q.device


class Attention(_core.Choice):
    """`attention` of (q, k, v, sinks, mask, scale_q, scale_k, scale_v, cu_seqlens of q and of k, lengths, block_table).  Called in C++ for
    tensors that look like those of an earlier call, otherwise by `_choose`."""

    def _choose(self, tensors, out=None, **options):
        if compiling(tensors[0]):
            return _chosen(tensors, out, **options)
        heed_determinism(self, tensors[0])
        run = functools.partial(_chosen, tensors, out, **options)
        if out is None and _core.are_recorded(tuple([each for each in tensors if each is not None])):
            return run(keep=functools.partial(self._keep, tensors, options))
        return _core.remember_launches(self, tensors, out, options, run)

    def _keep(self, tensors, told: dict, kernel, given, options: dict):
        """Remembers that calls like this one, which ask for a gradient, are a call of the differentiable kernel, if it takes their tensors."""
        picks = [next((at for at, tensor in enumerate(tensors) if tensor is each), None) for each in given]
        if None not in picks:
            function = functools.partial(_recorded, kernel.of_torch, options, told["lse"])
            _core.remember_derivative(self, tensors, told, function, picks)


def _recorded(derivative, options: dict, lse: bool, *tensors):
    from pyptx.frameworks.torch.differentiable import recorded

    made = recorded(derivative, options, *tensors)
    return made[:2] if lse else made[0]


def heed_determinism(function: _core.Choice, tensor):
    """Makes what the function remembers belong to what torch.use_deterministic_algorithms says."""
    if hasattr(tensor, "storage_offset"):
        import torch

        _core.heed_state(function, torch.are_deterministic_algorithms_enabled, lambda: 1)


_core.show_call(Attention, Attention._choose)  # to torch.compile
CHOICE = Attention()


def of_plain(q, k, v, *, causal, window, softcap, scale, top_left, lse):
    """Attention of q, k, v alone."""
    told = {"causal": causal, "window": window, "softcap": softcap, "scale": scale, "top_left": top_left}
    tensors = (q, k, v, None, None, None, None, None, None, None, None, None)
    return CHOICE(tensors, None, **told, target=simulated.target, lse=lse, deterministic=False)


def _chosen(tensors, out, *, causal, window, softcap, scale, top_left, target, lse, deterministic, keep=None):
    """`target`: what `simulated` has, so that what is remembered belongs to it."""
    q, k, v, sinks, mask, *scales, of_queries, of_keys, lengths, table = tensors
    masks, cu_seqlens = Masks(causal, window, softcap, scale), of_queries if of_keys is None else (of_queries, of_keys)
    q, k, v, mask = by_autocast(q, k, v, mask)
    check_flag("lse", lse)
    check_flag("deterministic", deterministic)
    for name, each in (("k", k), ("v", v), ("out", out)):
        check_device(name, each, q)
    if out is not None:
        check_out(out, q, k, v)
    call = Call(
        q, k, v, masks, sinks, mask, tuple(scales), cu_seqlens, lengths, table, top_left, lse, deterministic, out, keep
    )
    if mask is not None:
        others = dict(zip(("scale_q", "scale_k", "scale_v"), scales, strict=True))
        check_beside_mask(others | {"cu_seqlens": cu_seqlens, "lengths": lengths, "block_table": table})
        return _masked(call)
    return _by_length(call)


def _by_length(call: Call):
    """Chooses by whether keys are a cache, types are narrow and sequences lie one behind another."""
    q, k, scales, cu_seqlens, table = call.q, call.k, call.scales, call.cu_seqlens, call.table
    cached, narrow = call.lengths is not None or table is not None, type_name(described("k", k)) == FP8
    if cached or narrow:
        refuse_gradients(q, k, call.v, call.sinks, *scales)
    if any(each is not None for each in scales) and not narrow:
        raise LaunchValueError(f"attention: scale_q, scale_k, scale_v go with {FP8}, not with {type_name(k)}")
    if narrow and (cached or type_name(described("q", q)) != FP8):
        return of_cache(call)
    if narrow:
        return attention_of_e4m3(call) if cu_seqlens is None else ragged_attention_of_e4m3(call)
    if cached and (
        cu_seqlens is not None
        or choice.other_than_hopper(q)
        or (table is not None and len(k.shape) == 4 and k.shape[1] < 8)
    ):
        return of_cache(call)
    if cu_seqlens is not None:
        return _ragged(call)
    if cached:
        return of_few_queries(call)
    return _attention(call)


def _attention(call: Call):
    q, k, v, masks = call.q, call.k, call.v, call.masks
    told = described("q", q), described("k", k), described("v", v)
    traced = _is_traced(q, *told)
    plan_of = _planned if traced else _planned_once  # symbols have no hash
    key, options, few, quicker = plan_of(*told, masks, call.top_left, traced)
    beside = call.beside()
    differentiable = call.out is None and _differentiated(q, k, v, *beside)
    if compiling(q):
        differentiable = call.out is None and recorded(q) and _is_compiled_with_gradients(q, k, v, *beside)
    if is_nothing(q, k):
        return call.nothing(beside)
    other = choice.other_than_hopper(q)
    if other:
        options = options | {"together": q.shape[1] if masks.flags[0] else 1}
    if not differentiable and (few or (quicker and not other)):
        if other:
            return of_cache(call)
        run, given, options = in_parts(q, k, v, masks, beside)
        return call.given_back(run(*given, **options))
    if other == "mma" or (other and (q.shape[3] > 192 or v.shape[3] > 128)):  # which takes packed tensors
        q, k, v = (packed(dense(each)) for each in (q, k, v))
    *key, one = key
    one = one if differentiable and not (other or beside) else 0
    run = choice.made(
        q, "choose", *key, one, False, bool(beside), _is_deterministic(q, call.deterministic), differentiable, other
    )
    q, k, v = dense(q), dense(k), dense(v)
    if one:  # a kernel that has no tiles, and takes packed queries
        q, options = packed(q), {name: value for name, value in options.items() if name != "together"}
    if call.keep and differentiable:
        call.keep(run, (q, k, v, *beside), options)
    return call.result_of(run, (q, k, v, *beside), options, q.shape[:-1], not other and q.shape[3] <= 128)


def _is_traced(q, *tensors) -> bool:
    """Whether sizes may be symbols, which have no hash."""
    return compiling(q) or not all([isinstance(size, int) for each in tensors for size in each.shape])


def _masked(call: Call):
    q, k, v, mask, masks = call.q, call.k, call.v, call.mask, call.masks
    check(q, k, v)
    (*_, queries, width), keys, values = q.shape, k.shape[2], v.shape[3]
    beside = call.beside()
    if (
        not compiling(q)
        and any(getattr(each, "requires_grad", False) for each in (q, k, v, mask, *beside))
        and recorded(q)
    ):
        raise LaunchValueError(
            "attention: with a mask there is no gradient; legal are q.detach(), causal, window, cu_seqlens, or "
            "kernels.scaled_dot_product_attention, which leaves masks beside gradients to torch's own"
        )
    bias, strides, biased = bias_of(mask, q, k, v)
    if is_nothing(q, k):
        return call.nothing(beside)
    other, traced = bool(choice.other_than_hopper(q)), _is_traced(q, q, k, v)
    if not other and any(share_keys(q, k, v, masks, False, traced)):
        run, given, options = in_parts(q, k, v, masks, beside, None, None, bias, strides, biased)
        return call.given_back(run(*given, **options))
    q, k, v = (packed(dense(each)) if other else dense(each) for each in (q, k, v))
    wide = choice.rounded(width)
    small = None if other or traced else small_sizes(queries, keys, wide)
    options = masks.options(width, keys - queries) | strides | ({} if small else {"together": 1})
    run = choice.made(
        q, "masked", type_name(q), wide, choice.rounded(values), *masks.flags, bool(beside), other, biased, small
    )
    return call.result_of(run, (q, k, v, bias, *beside), options, q.shape[:-1], not other)


def _planned(q: Described, k: Described, v: Described, masks: Masks, top_left: bool, traced=False):
    """(what chooses the kernel, its runtime scalars, whether so few rows meet so many keys that CTAs have to share the keys, whether those of
    Hopper are quicker if they do).

    Where the compiler traces, sizes may be symbols."""
    check(q, k, v)
    (batch, heads, queries, width), (_, shared, keys, _), values = q.shape, k.shape, v.shape[3]
    per = heads // shared if shared else 1
    right, left, softcap = masks.flags
    options = masks.options(width, 0 if top_left else keys - queries)
    wide, wide_values = choice.rounded(width), choice.rounded(values)
    few, quicker = share_keys(q, k, v, masks, top_left, traced)
    long = True if wide > 192 and queries > (2048 if right else 512) else False  # noqa: SIM210
    if not right:  # CTAs in pairs, if there is a tile for both
        long = long and not traced and -(-queries // 128) % 2 == 0
    if wide <= 64:
        long = traced or not _is_better_of_small_tiles(batch * heads, queries)
    cut = plan(wide, wide_values, right, left, softcap, long)
    square = True if width == values else False  # noqa: SIM210
    small = None if traced else small_sizes(queries, keys, wide)
    one = 0 if traced else choice.one_query_ctas(batch * heads, queries, keys, per, softcap)
    if small:
        small = (*small, square and per == 1)
    else:
        options["together"] = taken_together(cut, batch * heads, per, queries, keys, traced)
    return (type_name(q), wide, wide_values, right, left, softcap, long, square, small, one), options, few, quicker


def _is_better_of_small_tiles(heads: int, queries: int) -> bool:
    """Whether tiles of 128 queries leave the busiest CTA with as many as those of 192 do."""
    small, large = (-(-heads * -(-queries // rows) // MULTIPROCESSORS) for rows in (128, 192))
    return small <= large


_planned_once = functools.lru_cache(maxsize=4096)(_planned)


def _is_deterministic(q, asked) -> bool:
    if asked or not hasattr(q, "storage_offset"):  # not of torch
        return bool(asked)
    import torch

    return torch.are_deterministic_algorithms_enabled()


def _differentiated(*tensors) -> bool:
    """Whether a gradient may be asked for: if a tensor of torch requires it, for all values of JAX, and inside torch.func's transforms, where a
    tensor of vmap does not tell whether an outer `grad` needs it."""
    if any(hasattr(each, "aval") for each in tensors):
        return True
    if not hasattr(tensors[0], "storage_offset"):  # not of torch
        return False
    if recorded(tensors[0]) and any([getattr(each, "requires_grad", False) for each in tensors]):
        return True
    from pyptx.frameworks.torch.call import is_transformed

    return is_transformed()


def _is_compiled_with_gradients(*tensors) -> bool:
    """Whether code that torch compiles may be asked for a gradient; a torch.func.grad around it does not show in its tensors."""
    from pyptx.frameworks.torch.call import differentiates

    return any([each.requires_grad for each in tensors]) or differentiates()


def _ragged(call: Call):
    q, k, v, masks = call.q, call.k, call.v, call.masks
    check(q, k, v, ("length", "heads", "D"))
    begins = begins_of(call.cu_seqlens, q, k)
    beside = call.beside()
    if is_nothing(q, k):
        return call.nothing(beside)
    differentiable = call.out is None and (compiling(q) or _differentiated(q, k, v, *beside))
    other = choice.other_than_hopper(q) and "mma"
    q, k, v = (packed(dense(each)) if other else dense(each) for each in (q, k, v))
    width, values = q.shape[2], v.shape[2]
    square = True if width == values else False  # noqa: SIM210
    wide = choice.rounded(width)
    most = SHORT[wide] * (begins[0].shape[0] - 1)
    long = True if q.shape[0] > most or k.shape[0] > most else False  # noqa: SIM210
    key = (type_name(q), wide, choice.rounded(values), *masks.flags, long, square, None, 0)
    run = choice.made(
        q, "choose", *key, True, bool(beside), _is_deterministic(q, call.deterministic), differentiable, other
    )
    tensors, sums, options = (q, k, v, *beside, *begins), (q.shape[1], q.shape[0]), masks.options(width, 0)
    if call.keep and differentiable:
        call.keep(run, tensors, options)
    return call.result_of(run, tensors, options, sums, not other)
