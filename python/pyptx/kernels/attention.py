"""`attention`, and `scaled_dot_product_attention`, which takes torch's arguments: which kernel runs for which heads, masks and lengths.

_attention_arguments.py checks the arguments.  _attention_forward.py, _attention_mma.py, _attention_blackwell.py, _attention_fp8.py,
_attention_decode.py and _attention_cache.py have the kernels of the forward, and _attention_gradient.py names those of the backward.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from typing import Any

from pyptx import _core, differentiable_kernel
from pyptx._arch import detect_arch
from pyptx.errors import LaunchValueError
from pyptx.kernels._attention_arguments import (
    FP8,
    LARGEST,
    TYPES,
    Described,
    Masks,
    begins_of,
    bias_of,
    by_autocast,
    cast,
    check,
    check_beside_mask,
    check_cache,
    check_lengths,
    check_out,
    check_pages,
    check_scale,
    check_sixteens,
    checked_sinks,
    copied,
    dense,
    described,
    is_nothing,
    log2,
    of_nothing,
    packed,
    refuse_gradients,
    result_of,
    scale_numbers,
    scales_of_heads,
    strides_of,
    type_name,
)
from pyptx.kernels._attention_blackwell import Blackwell, blackwell_attention_kernel
from pyptx.kernels._attention_cache import Cache, cache_kernel
from pyptx.kernels._attention_combine import combine_kernel
from pyptx.kernels._attention_decode import Decode, decode_kernel
from pyptx.kernels._attention_forward import forward_kernel
from pyptx.kernels._attention_fp8 import Fp8, fp8_kernel
from pyptx.kernels._attention_gradient import gradient
from pyptx.kernels._attention_mma import Mma, mma_attention_kernel
from pyptx.kernels._attention_plan import MULTIPROCESSORS, Forward, begun_with, taken_together
from pyptx.kernels._attention_sums import PAD
from pyptx.kernels._attention_transposed import transpose_kernel
from pyptx.kernels._call import compiling, constant_for_compiler, is_loose, kept, recorded
from pyptx.kernels._keywords import Nothing, Unpack, no_such_argument
from pyptx.kernels._target import simulated
from pyptx.types import bf16

__all__ = ["attention", "scaled_dot_product_attention"]

PLAIN = dict.fromkeys(("skips", "from_end", "joined", "pairs", "direct", "uneven"), False)  # one tile after the other

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
    scales = (scale_q, scale_k, scale_v)
    if all(each is None for each in (mask, *scales, cu_seqlens, lengths, block_table, out)):
        told = {"causal": causal, "window": window, "softcap": softcap, "scale": scale, "top_left": False}
        told["target"] = simulated.target
        result, sums = DENSE((q, k, v, sinks), None, **told, lse=lse, deterministic=deterministic)
        return (result, sums) if lse else result
    masks = Masks(causal, window, softcap, scale)
    q, k, v, mask = by_autocast(q, k, v, mask)
    if out is not None:
        check_out(out, q, k, v)
    if mask is not None:
        others = {
            "scale_q": scale_q,
            "scale_k": scale_k,
            "scale_v": scale_v,
            "cu_seqlens": cu_seqlens,
            "lengths": lengths,
        }
        check_beside_mask(others | {"block_table": block_table})
        return _masked(q, k, v, mask, masks, sinks, lse, out)
    cached, narrow = lengths is not None or block_table is not None, type_name(described("k", k)) == FP8
    if cached or narrow:
        refuse_gradients(q, k, v, sinks, *scales)
    if any(each is not None for each in scales) and not narrow:
        raise LaunchValueError(f"attention: scale_q, scale_k, scale_v go with {FP8}, not with {type_name(k)}")
    if narrow and (cached or type_name(described("q", q)) != FP8):
        return _cached(q, k, v, masks, scales, sinks, cu_seqlens, lengths, block_table, lse, out)
    if narrow:
        return (_fp8 if cu_seqlens is None else _ragged_fp8)(q, k, v, masks, scales, sinks, cu_seqlens, lse, out)
    if cached and (cu_seqlens is not None or _other_than_hopper(q) or (block_table is not None and k.shape[1] < 8)):
        return _cached(q, k, v, masks, scales, sinks, cu_seqlens, lengths, block_table, lse, out)
    if cu_seqlens is not None:
        return _ragged(q, k, v, masks, sinks, cu_seqlens, lse, deterministic, out)
    if cached:
        return _decode(q, k, v, masks, sinks, lengths, block_table, lse, out)
    return _attention(q, k, v, masks, sinks, False, lse, deterministic, out)


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
    import torch

    ours = not dropout_p and _takes(query, key, value, scale, enable_gqa)
    if ours and attn_mask is not None and not is_causal and _takes_mask(query, key, value, attn_mask):
        return _masked(query, key, value, attn_mask, Masks(False, None, None, scale), None, False, None)
    if attn_mask is not None or not ours:
        # What torch.nn.functional has under this name may be this function, for a model that is to use it.
        return torch._C._nn.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    told = {"causal": is_causal, "window": None, "softcap": None, "scale": scale, "top_left": True}
    told["target"] = simulated.target
    return DENSE((query, key, value, None), None, **told, lse=False, deterministic=False)[0]


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


class Dense(_core.Choice):
    """`attention` for sequences of one length, which returns (result, log-sum-exp).  Called in C++ for tensors that look like those of an
    earlier call, otherwise by `_choose`."""

    def _choose(self, tensors, out=None, *, causal, window, softcap, scale, top_left, target, lse, deterministic):
        q, k, v = by_autocast(*tensors[:3])
        sinks = tensors[3]
        masks = Masks(causal, window, softcap, scale)
        scales = (None, None, None)
        narrow = type_name(described("k", k)) == FP8
        if narrow:
            refuse_gradients(q, k, v, sinks)
        if narrow and type_name(described("q", q)) == FP8:
            result = _fp8(q, k, v, masks, scales, sinks, None, lse, out)
        elif narrow:
            result = _cached(q, k, v, masks, scales, sinks, None, None, None, lse, out)
        else:
            result = _attention(q, k, v, masks, sinks, top_left, lse, deterministic, out)
        return result if lse else (result, None)

    def keep(self, tensors, given, masks: Masks, top_left, lse, deterministic, run, options):
        """Lets later calls with such tensors go straight to the kernel, if it takes them as they are."""
        picks = [index for index, tensor in enumerate(tensors) if tensor is not None]
        if all(tensors[index] is each for index, each in zip(picks, given, strict=True)):
            told = dataclasses.asdict(masks) | {"top_left": top_left, "target": simulated.target}
            told |= {"lse": lse, "deterministic": deterministic}
            _core.remember_choice(self, tensors, None, told, getattr(run, "forward_kernel", run), picks, options)


_core.show_call(Dense, Dense._choose)  # to torch.compile
DENSE = Dense()


def _attention(q, k, v, masks: Masks, sinks, top_left: bool, lse: bool, deterministic: bool, out):
    tensors = q, k, v, sinks
    told = described("q", q), described("k", k), described("v", v)
    beside = () if sinks is None else (checked_sinks(sinks, q.shape[1]),)
    differentiable = out is None and _differentiated(q, k, v, *beside)
    if compiling(q):
        key, options, few = _planned(*told, masks, top_left, True)
        differentiable = out is None  # whether gradients are asked for is not known
    elif all([isinstance(size, int) for each in told for size in each.shape]):
        key, options, few = _planned_once(*told, masks, top_left)
    else:  # make_fx with symbols, which have no hash
        key, options, few = _planned(*told, masks, top_left, True)
    if is_nothing(q, k):
        return of_nothing(q, k, v, *(beside or (None,)), lse, out)
    other = _other_than_hopper(q)
    if other:
        options = options | {"together": q.shape[1] if masks.flags[0] else 1}
    if other == "mma" or (other and (q.shape[3] > 192 or v.shape[3] > 128)):  # which takes packed tensors
        q, k, v = (dense(each).contiguous() for each in (q, k, v))
    if few and not top_left and not differentiable:
        if other:
            return _cached(q, k, v, masks, (None, None, None), sinks, None, None, None, lse, out)
        return _decode(q, k, v, masks, sinks, None, None, lse, out)
    run = _chosen(q, (*key, False, bool(beside), _is_deterministic(q, deterministic), differentiable, other))
    q, k, v = dense(q), dense(k), dense(v)
    if out is None and not compiling(q):
        DENSE.keep(tensors, (q, k, v, *beside), masks, top_left, lse, deterministic, run, options)
    return result_of(run, (q, k, v, *beside), options, q.shape[:-1], lse, out, not other and q.shape[3] <= 128)


def _masked(q, k, v, mask, masks: Masks, sinks, lse: bool, out):
    check(q, k, v)
    (_, heads, queries, width), keys, values = q.shape, k.shape[2], v.shape[3]
    beside = () if sinks is None else (checked_sinks(sinks, heads),)
    if (
        not compiling(q)
        and any(getattr(each, "requires_grad", False) for each in (q, k, v, mask, *beside))
        and recorded(q)
    ):
        raise LaunchValueError(
            "attention: with a mask there is no gradient; legal are q.detach(), causal, window, cu_seqlens, or "
            "kernels.scaled_dot_product_attention, which leaves masks beside gradients to torch's own"
        )
    bias, strides = bias_of(mask, q, k)
    if is_nothing(q, k):
        return of_nothing(q, k, v, *(beside or (None,)), lse, out)
    other = bool(_other_than_hopper(q))
    q, k, v = (dense(each).contiguous() if other else dense(each) for each in (q, k, v))
    options = masks.options(width, keys - queries) | strides | {"together": 1}
    run = _made(q, "_masked_kernel", type_name(q), _rounded(width), _rounded(values), *masks.flags, bool(beside), other)
    return result_of(run, (q, k, v, bias, *beside), options, q.shape[:-1], lse, out, not other)


@functools.cache
def _masked_kernel(name, width, values, right, left, softcap, sinks, mma: bool):
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks, "biased": True}
    if mma:
        return mma_attention_kernel(TYPES[name], Mma.of(width, values, **masks))
    cut = plan(width, values, right, left, softcap, True)
    ctas = 0 if right and width > 128 else cut.ctas
    return _forward(TYPES[name], dataclasses.replace(cut, groups=2, ctas=ctas, sinks=sinks, biased=True, **PLAIN))


def _other_than_hopper(tensor) -> str:
    """Which kernels run on the tensor's GPU, or on the simulated one: "" for Hopper's, "blackwell" and a target, or "mma"."""
    return _of_device() if getattr(tensor, "is_cuda", False) else _of_target(simulated.target or "sm_90a")


@constant_for_compiler
def _of_device() -> str:
    return _of_target(_architecture())


def _of_target(target: str) -> str:
    return {"sm_90a": "", "sm_100a": "blackwell sm_100a", "sm_103a": "blackwell sm_103a"}.get(target, "mma")


@functools.cache
def _architecture() -> str:
    return detect_arch()


def _chosen(tensor, key):
    return _made(tensor, "_choose", *key)


def _made(tensor, maker: str, *key):
    """What the function `maker` of this module returns for the key.  Where torch.compile traces, it is found as an attribute."""
    return getattr(CHOSEN, _name_for_compiler(maker, *key)) if compiling(tensor) else globals()[maker](*key)


def _planned(q: Described, k: Described, v: Described, masks: Masks, top_left: bool, traced=False):
    """(what chooses the kernel, its runtime scalars, whether so few rows meet so many keys that CTAs have to share the keys).

    Where the compiler traces, sizes may be symbols."""
    check(q, k, v)
    (batch, heads, queries, width), (_, shared, keys, _), values = q.shape, k.shape, v.shape[3]
    per = heads // shared if shared else 1
    right, left, softcap = masks.flags
    options = masks.options(width, 0 if top_left else keys - queries)
    wide, wide_values = _rounded(width), _rounded(values)
    # Comparisons of symbols choose; as values they would stay symbols.
    # The difference follows from the two; where both are one symbol it is a number, and exported programs leave the symbol open.
    few = keys - queries >= 496 and queries <= 16 and queries * per <= 128 and keys >= 512
    few = True if few else False  # noqa: SIM210
    long = True if wide > 192 and queries > (2048 if right else 512) else False  # noqa: SIM210
    if not right:  # CTAs in pairs, if there is a tile for both
        long = long and not traced and -(-queries // 128) % 2 == 0
    cut = plan(wide, wide_values, right, left, softcap, long)
    options["together"] = taken_together(cut, batch * heads, per, queries, keys, traced)
    square = True if width == values else False  # noqa: SIM210
    return (type_name(q), wide, wide_values, right, left, softcap, long, square), options, few


def _rounded(width) -> int:
    """The next larger size for which there is a kernel."""
    return next(each for each in (64, 128, 192, 256) if width <= each)


_planned_once = functools.lru_cache(maxsize=4096)(_planned)


def _is_deterministic(q, asked) -> bool:
    if asked or not hasattr(q, "storage_offset"):  # not of torch
        return bool(asked)
    import torch

    return torch.are_deterministic_algorithms_enabled()


def _differentiated(*tensors) -> bool:
    """Whether a gradient may be asked for: if a tensor of torch requires it, for all values of JAX, and inside torch.func's transforms, where a
    tensor of vmap does not tell whether an outer `grad` needs it."""
    if any(getattr(each, "requires_grad", False) or hasattr(each, "aval") for each in tensors):
        return True
    if not hasattr(tensors[0], "storage_offset"):  # not of torch
        return False
    from pyptx.frameworks.torch.call import is_transformed

    return is_transformed()


@constant_for_compiler
def _name_for_compiler(maker: str, *key) -> str:
    return kept(CHOSEN, (maker, *key), globals()[maker](*key))


CHOSEN = types.SimpleNamespace()


def _ragged(q, k, v, masks: Masks, sinks, cu_seqlens, lse: bool, deterministic: bool, out):
    check(q, k, v, ("length", "heads", "D"))
    begins = begins_of(cu_seqlens, q, k)
    beside = () if sinks is None else (checked_sinks(sinks, q.shape[1]),)
    if is_nothing(q, k):
        return of_nothing(q, k, v, *(beside or (None,)), lse, out)
    differentiable = out is None and (compiling(q) or _differentiated(q, k, v, *beside))
    other = _other_than_hopper(q) and "mma"
    q, k, v = (dense(each).contiguous() if other else dense(each) for each in (q, k, v))
    width, values = q.shape[2], v.shape[2]
    square = True if width == values else False  # noqa: SIM210
    key = (type_name(q), _rounded(width), _rounded(values), *masks.flags, True, square)
    run = _chosen(q, (*key, True, bool(beside), _is_deterministic(q, deterministic), differentiable, other))
    tensors, sums = (q, k, v, *beside, *begins), (q.shape[1], q.shape[0])
    return result_of(run, tensors, masks.options(width, 0), sums, lse, out, not other)


def _ragged_fp8(q, k, v, masks: Masks, scales, sinks, cu_seqlens, lse: bool, out):
    check(q, k, v, ("length", "heads", "D"), types=(FP8,))
    begins = begins_of(cu_seqlens, q, k)
    (queries, heads, width), (keys, shared, _), values = q.shape, k.shape, v.shape[2]
    check_sixteens(width, values)
    beside = () if sinks is None else (checked_sinks(sinks, heads),)
    if is_nothing(q, k):
        return of_nothing(q, k, v, *(beside or (None,)), lse, out)
    beside, options = (*scales_of_heads(q, scales, heads, shared), *beside), masks.options(width, 0)
    told = (*masks.flags, sinks is not None, any(each is not None for each in scales))
    if _other_than_hopper(q):
        return _fp8_by_mma(q, k, v, (*beside, *begins), told, True, options, (heads, queries), lse, out)
    wide = _rounded(width) if width <= 128 else 256
    run = _made(q, "_ragged_fp8_kernel", wide, _rounded(values), *told)
    padded = -(-keys // PAD) * PAD + PAD * (begins[1].shape[0] - 1)
    turned = _made(q, "_transpose", 64 if values <= 64 else 128, True)(dense(packed(v), 16), begins[1], NP=padded)
    tensors = dense(q, 16), dense(k, 16), turned, *beside, *begins
    return result_of(run, tensors, options, (heads, queries), lse, out)


def _fp8_by_mma(q, k, v, beside, told, ragged: bool, options: dict, sums: tuple, lse: bool, out):
    """Attention in e4m3 on GPUs other than Hopper: computed in bf16, which represents all numbers of e4m3."""
    run = _made(q, "_mma_of_fp8", _rounded(q.shape[-1]), _rounded(v.shape[-1]), *told[:-1], ragged, told[-1])
    return result_of(run, (*(cast(each, "bfloat16") for each in (q, k, v)), *beside), options, sums, lse, out, False)


@functools.cache
def _mma_of_fp8(width, values, right, left, softcap, sinks, ragged, scaled):
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks}
    return mma_attention_kernel(bf16, Mma.of(width, values, ragged=ragged, scaled=scaled, **masks))


def _fp8(q, k, v, masks: Masks, scales, sinks, _, lse: bool, out):
    check(q, k, v, types=(FP8,))
    (batch, heads, queries, width), (_, shared, keys, _), values = q.shape, k.shape, v.shape[3]
    check_sixteens(width, values)
    long = 2 if queries > 2048 else 1 if queries > 512 else 0
    beside = () if sinks is None else (checked_sinks(sinks, heads),)
    if is_nothing(q, k):
        return of_nothing(q, k, v, *(beside or (None,)), lse, out)
    beside, options = (*scales_of_heads(q, scales, heads, shared), *beside), masks.options(width, keys - queries)
    told = (sinks is not None, any(each is not None for each in scales))
    if _other_than_hopper(q):
        options["together"] = 1
        return _fp8_by_mma(q, k, v, beside, (*masks.flags, *told), False, options, q.shape[:-1], lse, out)
    key = (_rounded(width) if width <= 128 else 256, _rounded(values), *masks.flags, long, *told)
    cut, lines, padded = _fp8_plan(*key), batch * shared, -(-keys // 16) * 16
    together = taken_together(cut, batch * heads, heads // shared, queries, keys, compiling(q))
    options["together"] = together
    symbols = compiling(q) or not all([isinstance(size, int) for size in (*q.shape, *k.shape)])
    first = 0 if symbols else begun_with(cut, queries, together, heads // shared, lines)
    rows = dense(packed(v), 16).reshape(lines, keys, values)
    if begun := first > 0:
        turned, counts = _made(q, "_transpose", 64 if values <= 64 else 128, False, True)(
            rows[:first], NP=padded, L=lines
        )
        beside = (rows.reshape(batch, shared, keys, values), counts.reshape(2, batch, shared), *beside)
    else:
        turned = _made(q, "_transpose", 64 if values <= 64 else 128)(rows, NP=padded)
    run = _made(q, "_fp8_kernel", *key, begun)
    tensors = dense(q, 16), dense(k, 16), turned.reshape(batch, shared, values, padded), *beside
    return result_of(run, tensors, options, q.shape[:-1], lse, out)


def _fp8_kernel(*key_and_begun):
    *key, begun = key_and_begun
    return _fp8_of(dataclasses.replace(_fp8_plan(*key), begun=begun))


@functools.cache
def _fp8_of(cut: Fp8):
    return fp8_kernel(bf16, cut)


def _fp8_plan(
    width: int, values: int, right: bool, left: bool, softcap: bool, long: int, sinks: bool, scaled: bool
) -> Fp8:
    """`long`: 0 up to 512 queries, 1 up to 2,048, else 2."""
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks}
    cut, more = (128, 2), {"ctas": 0 if right and long else MULTIPROCESSORS}
    if width <= 128:
        cut, more = (96, 3) if width == 128 and long else (128, 3 if width == 64 else 2), {"tiles": 2, "skips": True}
        if width == 128:
            more |= {"joined": True, "from_end": right, "uneven": long == 1 and not right}
    return Fp8(width, values, *cut, scaled=scaled, ahead=True, **more, **masks)


@functools.cache
def _ragged_fp8_kernel(width: int, values: int, right: bool, left: bool, softcap: bool, sinks: bool, scaled: bool):
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks, "scaled": scaled}
    return fp8_kernel(bf16, Fp8(width, values, PAD, 2, ctas=0, ragged=True, **masks))


@functools.cache
def _transpose(columns: int, ragged: bool = False, begun: bool = False):
    return transpose_kernel(columns, ragged, begun)


def _decode(q, k, v, masks: Masks, sinks, lengths, table, lse: bool, out):
    if table is not None:
        check_pages(q, k, v, lengths, table)
    else:
        check(q, k, v)
        if lengths is not None:
            check_lengths(int(q.shape[0]), q, k, lengths, None)
    beside = () if sinks is None else (checked_sinks(sinks, int(q.shape[1])),)
    if is_nothing(q, k, table):
        return of_nothing(q, k, v, *(beside or (None,)), lse, out)
    paged = table is not None
    batch, heads, queries, width = (int(size) for size in q.shape)
    shared, values = int(k.shape[2 if paged else 1]), int(v.shape[3])
    most = int(table.shape[1]) * int(k.shape[1]) if paged else int(k.shape[2])
    page = 1 << log2(k.shape[1]) if paged else 0
    key = (type_name(q), _rounded(width), _rounded(values), *masks.flags)
    run = _made(q, "_decode_kernel", *key, page, lengths is not None)
    rows = heads // shared * queries
    options = masks.options(width, 0)
    parts = _parts_of(q, batch * shared * -(-rows // 64), most)
    tensors = [dense(q).reshape(batch, shared, rows, width), dense(k), dense(v)]
    given = [packed(each) for each in (lengths, table) if each is not None]
    pieces, sums = run(*tensors, *given, S=parts, queries=queries, **options)
    lines = batch * shared * rows
    queried = {"queries": queries} if beside else {}
    result, logs = _made(q, "_combine", type_name(q), bool(beside))(
        pieces.reshape(parts, lines, values), sums.reshape(parts, lines), *beside, **queried
    )
    result = result.reshape(batch, heads, queries, values)
    if out is not None:
        result = copied(result, out)
    return (result, logs.reshape(batch, heads, queries)) if lse else result


@functools.cache
def _parts(tiles: int, blocks: int) -> int:
    """Into how many parts the keys of a sequence are cut, so that all multiprocessors are busy, each for four blocks or more.

    Each wave of CTAs costs 4 % of the work besides."""
    most = max(1, min(64, blocks // 4))

    def idle(parts):
        waves = -(-tiles * parts // MULTIPROCESSORS)
        return waves * MULTIPROCESSORS / (tiles * parts) + 0.04 * waves + parts / 1000

    return min(range(1, most + 1), key=idle)


def _cached(q, k, v, masks: Masks, scales, sinks, cu_seqlens, lengths, table, lse: bool, out):
    """Attention of a cache by mma.sync, which takes every form of one.  Queries in e4m3 become bf16, which represents all of their numbers."""
    ragged, narrow = cu_seqlens is not None, type_name(k) == FP8
    check_cache(q, k, v, cu_seqlens, lengths, table)
    beside = () if sinks is None else (checked_sinks(sinks, int(q.shape[1])),)
    if is_nothing(q, k, table):
        return of_nothing(q, k, v, *(beside or (None,)), lse, out)
    q, *scales = _widened_queries(q, scales, ragged)
    heads, width = int(q.shape[1]), int(q.shape[-1])
    shared, values = int(k.shape[2 if table is not None else 1]), int(v.shape[3])
    per = heads // shared
    lines = (int(q.shape[0]), heads) if ragged else tuple(int(each) for each in q.shape[:3])
    most = int(table.shape[1]) * int(k.shape[1]) if table is not None else int(k.shape[2])
    key = (
        type_name(q),
        _rounded(width),
        _rounded(values),
        narrow,
        *masks.flags,
        ragged,
        table is not None,
        lengths is not None,
    )
    run = _made(q, "_cache_kernel", *key, any(each is not None for each in scales))
    step = 16 if narrow else 8
    q, k, v = dense(q), dense(k, step), dense(v, step)
    rows = lines[0] * per if ragged else lines[2] * per
    tiles = shared * (-(-rows // 16) if ragged else lines[0] * -(-rows // 16))
    options = masks.options(width, 0) | {"S": _parts_of(q, tiles, most, _rounded(width), _rounded(values), narrow)}
    if table is not None:
        options["page"] = log2(k.shape[1])
    options |= strides_of(q, k, v, ragged, table is not None, step)
    given = [
        *scale_numbers(q, scales, shared),
        *(packed(each) for each in (lengths, table, cu_seqlens) if each is not None),
    ]
    pieces, sums = run(q, k, v, *given, **options)
    parts, count = options["S"], math.prod(lines)
    queried = {"queries": 1 if ragged else lines[2]} if beside else {}
    result, logs = _made(q, "_combine", type_name(q), bool(beside), not _other_than_hopper(q))(
        pieces.reshape(parts, count, values), sums.reshape(parts, count), *beside, **queried
    )
    result, logs = result.reshape(*lines, values), logs.reshape(lines)
    if out is not None:
        result = copied(result, out)
    return (result, logs.swapaxes(0, 1) if ragged else logs) if lse else result


def _widened_queries(q, scales, ragged: bool):
    """(q, scale of k, scale of v) with q in bf16 if it is e4m3.  A single scale of q is multiplied with that of k; if each head has one, q
    itself is multiplied."""
    scale, of_k, of_v = scales
    if type_name(q) != FP8:
        if scale is not None:
            raise LaunchValueError(f"attention: scale_q is of q in {FP8}, not in {type_name(q)}")
        return q, of_k, of_v
    if scale is None:
        return cast(q, "bfloat16"), of_k, of_v
    size = math.prod(described("scale_q", scale).shape)
    check_scale("scale_q", scale, size, int(q.shape[1]))
    if size == 1:
        return cast(q, "bfloat16"), scale if of_k is None else of_k * scale, of_v
    heads = scale.reshape((-1, 1) if ragged else (-1, 1, 1))
    return cast(cast(q, "float32") * heads, "bfloat16"), of_k, of_v


def _parts_of(q, tiles, keys, *of_warps) -> int:
    """Into how many parts the keys are cut.  Where the compiler traces, sizes may be symbols, so few comparisons decide."""
    if compiling(q):
        return next((each for each in (64, 32, 16, 8, 4, 2) if keys >= each * 512 and tiles * each <= 264), 1)
    return _parts_of_warps(tiles, keys, *of_warps) if of_warps else _parts(tiles, -(-keys // Decode.keys))


@functools.cache
def _parts_of_warps(tiles: int, keys: int, width: int, values: int, narrow: bool) -> int:
    """`_parts` for the kernel of caches: a multiprocessor has two CTAs, and each part costs time in the kernel that adds them up."""
    plan = Cache.of(width, values, narrow)
    there, rounds = 2 * MULTIPROCESSORS, -(-keys // (plan.keys * plan.groups))

    def idle(parts):
        return -(-tiles * parts // there) * there / (tiles * parts) + parts / 250

    return min(range(1, max(1, min(64, rounds // 4)) + 1), key=idle)


@functools.cache
def _cache_kernel(name, width, values, narrow, right, left, softcap, ragged, paged, counted, scaled):
    masks = {"right": right, "left": left, "softcap": softcap}
    plan = Cache.of(width, values, narrow, ragged=ragged, paged=paged, counted=counted, scaled=scaled, **masks)
    return cache_kernel(TYPES[name], plan)


def plan(width: int, values: int, right: bool, left: bool, softcap: bool, long: bool) -> Forward:
    """How the forward for heads of this size is cut, as measured by bench/attention.py on an H200.

    Under a mask tiles differ in length, and `taken_together` shares them out.  For heads of more than 128 with a window, a CTA takes one
    tile, and the next CTA begins when one has ended.  For heads of more than 192, `long` sequences have larger blocks of keys, which masks
    and lengths fill less well, and without a mask CTAs in pairs."""
    masks = {"right": right, "left": left, "softcap": softcap, "ahead": True}
    if width <= 64:
        more = {"skips": right, "from_end": right, "joined": True, "uneven": True}
        return Forward(width, values, 128, 3, tiles=2, **more, **masks)
    if width <= 128:
        return Forward(width, values, 128, 2, tiles=2, joined=True, **masks)
    more = {"own_output": False, "direct": True, "skips": right, "ctas": 0 if right and left else MULTIPROCESSORS}
    if width <= 192:
        return Forward(width, values, 128 if values <= 128 else 112, 2, **more, **masks)
    return Forward(width, values, 80 if long else 64, 2, pairs=long and not right, **more, **masks)


@functools.cache
def _forward(dtype, cut: Forward):
    return forward_kernel(dtype, cut)


@functools.cache
def _decode_kernel(name, width, values, right, left, softcap, page, counted):
    cut = Decode(width, values, right=right, left=left, softcap=softcap, page=page, counted=counted)
    return decode_kernel(TYPES[name], dataclasses.replace(cut, stages=2) if width > 128 else cut)


@functools.cache
def _combine(name, sinks, early=True):
    return combine_kernel(TYPES[name], sinks, early)


@functools.cache
def _choose(
    name, width, values, right, left, softcap, long, square, ragged, sinks, deterministic, differentiable, other
):
    """The forward kernel; joined with its backward if `differentiable`."""
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks}
    if other.startswith("blackwell") and width <= 192 and values <= 128 and not ragged:
        forward = blackwell_attention_kernel(TYPES[name], Blackwell.of(width, values, **masks), other.split()[1])
    elif other:
        forward = mma_attention_kernel(TYPES[name], Mma.of(width, values, ragged=ragged, **masks))
    else:
        cut = dataclasses.replace(plan(width, values, right, left, softcap, long), sinks=sinks, ragged=ragged)
        if ragged:
            cut = dataclasses.replace(cut, ctas=0, tiles=1, ahead=False, **PLAIN)
        forward = _forward(TYPES[name], cut)
    if not differentiable:
        return forward
    backward = gradient(
        TYPES[name],
        width,
        values,
        square=square,
        right=right,
        left=left,
        softcap=softcap,
        ragged=ragged,
        deterministic=deterministic,
        mma=bool(other),
    )
    return differentiable_kernel(forward, backward, save_outputs=(0, 1), num_grad_inputs=4 if sinks else 3)
