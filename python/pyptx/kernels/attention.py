"""`attention`: which kernel runs for which heads, masks and lengths; its gradient; the function in torch's own words.

The kernels are in _attention_forward.py, _attention_decode.py and what _attention_gradient.py names.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from typing import Any, NamedTuple

from pyptx import _core, differentiable_kernel
from pyptx._arch import detect_arch
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._attention_blackwell import Blackwell, blackwell_attention_kernel
from pyptx.kernels._attention_cache import STRIDES, Cache, cache_kernel
from pyptx.kernels._attention_decode import Decode, combine_kernel, decode_kernel
from pyptx.kernels._attention_forward import Forward, forward_kernel
from pyptx.kernels._attention_fp8 import Fp8, fp8_kernel, transpose_kernel
from pyptx.kernels._attention_gradient import gradient
from pyptx.kernels._attention_mma import Mma, mma_attention_kernel
from pyptx.kernels._attention_sums import PAD
from pyptx.kernels._call import compiling, constant_for_compiler, kept
from pyptx.kernels._target import simulated
from pyptx.types import bf16, f16

__all__ = ["attention", "scaled_dot_product_attention"]

TYPES = {"float16": f16, "bfloat16": bf16}
FP8 = "float8_e4m3fn"
MULTIPROCESSORS = 132  # of an H200
L2_BYTES = 32e6  # of K and V that are read together


def attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, window: int | None = None, softcap: float | None = None,
    scale: float | None = None, scale_q: Any = None, scale_k: Any = None, scale_v: Any = None, sinks: Any = None,
    cu_seqlens: Any = None, lengths: Any = None, block_table: Any = None, lse: bool = False,
    deterministic: bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """softmax(scale q k^T) v of heads, in f16, bf16 or float8_e4m3fn; sums are f32.  GPUs since sm_80: Hopper's by wgmma, Blackwell's
    forward by tcgen05, all else by mma.sync; and the simulator.

    q (B, H, M, D), k (B, HK, N, D), v (B, HK, N, DV); the result is (B, H, M, DV).  HK divides H: that many heads of q share
    one of k and v.  D is a multiple of 8 up to 256, DV one up to D.  Any strides; a tensor whose rows are not side by side, or
    do not begin at multiples of 16 bytes, is copied first.

    - causal: query i sees the keys up to i + N - M: the last query sees all.
    - window: an int w: a query sees its own key and the w - 1 before it, and without `causal` the w - 1 behind it.
    - softcap: scores s become softcap tanh(s / softcap).
    - scale: 1 / sqrt(D) if not given; positive.
    - scale_q, scale_k, scale_v: of q, k, v in float8_e4m3fn, whose result is bf16: f32 tensors of one number, or (H), (HK), (HK);
      what the elements of a head are multiplied by.
    - sinks: (H) floating-point, a logit of each head that stands beside the scores of its queries: it adds to what exponentials
      are divided by, and to lse, and has no value.
    - cu_seqlens: sequences of different lengths behind each other: q (M, H, D), k (N, HK, D), v (N, HK, DV), and where each
      sequence begins, B + 1 numbers of int32 on the device; a pair where those of q and k differ.
    - lengths: (B) int32: k and v are a cache, and these many keys of each sequence are there.  With cu_seqlens that is of q alone.
      k and v may be float8_e4m3fn beside q in another type, with scale_k and scale_v.
    - block_table: (B, T) int32: k (P, page, HK, D) and v are pages of a cache, page a power of two; sequence b has the pages
      block_table[b].  Needs `lengths`.
    - deterministic: the gradient of q has the same bits every time; it costs two products more.
    - lse=True: returns (result, log(sum(exp(scores))) of each query, f32: (B, H, M), or (H, M) with cu_seqlens).

    Differentiable without lengths or block_table, in f16 and bf16.  A query that sees no key has
    result 0 and lse -inf.  Few queries against many keys share the keys among CTAs.

    Example:
        q, k, v = (torch.randn(1, 2, 100, 64, dtype=torch.bfloat16) for _ in range(3))
        o = kernels.attention(q, k, v, causal=True)
    """
    scales = (scale_q, scale_k, scale_v)
    if all(each is None for each in (*scales, cu_seqlens, lengths, block_table, out)):
        told = {"causal": causal, "window": window, "softcap": softcap, "scale": scale, "top_left": False}
        told["target"] = simulated.target
        result, sums = DENSE((q, k, v, sinks), None, **told, lse=lse, deterministic=deterministic)
        return (result, sums) if lse else result
    masks = Masks(causal, window, softcap, scale)
    cached, narrow = lengths is not None or block_table is not None, _name(_described("k", k)) == FP8
    if any(each is not None for each in scales) and not narrow:
        raise LaunchValueError(f"attention: scale_q, scale_k, scale_v are of {FP8}, not of {_name(k)}")
    if narrow and (cached or _name(_described("q", q)) != FP8):
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
    """torch.nn.functional.scaled_dot_product_attention by `attention`.  What that does not take, as masks, dropout or f32, goes to
    torch's own.

    As there, `is_causal` counts from the first query: query i sees the keys up to i.
    """
    from torch.nn import functional

    if attn_mask is not None or dropout_p or not _takes(query, key, value, scale, enable_gqa):
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    told = {"causal": is_causal, "window": None, "softcap": None, "scale": scale, "top_left": True}
    told["target"] = simulated.target
    return DENSE((query, key, value, None), None, **told, lse=False, deterministic=False)[0]


def _takes(q, k, v, scale, grouped: bool) -> bool:
    """Whether `attention` takes such tensors of torch, none of which is broadcast."""
    if not all(hasattr(each, "dim") and each.dim() == 4 for each in (q, k, v)):
        return False
    if not q.dtype == k.dtype == v.dtype or _name(q) not in TYPES:
        return False
    (batch, heads, queries, width), (_, shared, keys, _), values = q.shape, k.shape, v.shape[3]
    fits = k.shape == (batch, shared, keys, width) and v.shape == (batch, shared, keys, values)
    of_heads = heads == shared or (grouped and shared > 0 and heads % shared == 0)
    sizes = width % 8 == 0 and values % 8 == 0 and 8 <= values <= width <= 256 and batch * heads * queries * keys > 0
    return bool(fits and of_heads and sizes and (scale is None or scale > 0))


@dataclasses.dataclass(frozen=True)
class Masks:
    """What of a call says which keys count, and how much."""

    causal: bool
    window: int | None
    softcap: float | None
    scale: float | None

    def __post_init__(self):
        if self.window is not None and (not isinstance(self.window, int) or self.window < 1):
            raise LaunchValueError(f"attention: window is a number of keys, 1 or more, not {self.window!r}")
        for name in ("softcap", "scale"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, str) or not hasattr(value, "__float__")):
                raise LaunchTypeError(f"attention: {name} is a number, not {value!r}")
            if hasattr(value, "__dlpack__"):
                raise LaunchTypeError(f"attention: {name} is a number, not {type(value).__name__}: float({name})")
        if self.softcap is not None and not self.softcap > 0:
            raise LaunchValueError(f"attention: softcap is positive, not {self.softcap!r}")
        if self.scale is not None and not self.scale > 0:
            raise LaunchValueError(f"attention: scale is positive, not {self.scale!r}; scale q by yourself")

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """right, left, softcap of a plan."""
        return bool(self.causal or self.window is not None), self.window is not None, self.softcap is not None

    def options(self, width: int, shift) -> dict:
        """Runtime scalars: query i sees the keys up to i + shift where causal."""
        options: dict = {"scale": 1 / math.sqrt(width) if self.scale is None else float(self.scale)}
        reach = 0 if self.window is None else self.window - 1
        if self.causal or self.window is not None:
            options["shift"] = shift if self.causal else shift + reach
        if self.window is not None:
            options["reach"] = reach if self.causal else 2 * reach
        if self.softcap is not None:
            options["cap"] = float(self.softcap)
        return options


class Described(NamedTuple):
    """What a tensor is, without its memory."""

    shape: tuple
    dtype: object


def _described(name: str, tensor) -> Described:
    if not hasattr(tensor, "shape") or not hasattr(tensor, "dtype"):
        raise LaunchTypeError(f"attention: {name} is a tensor, not {tensor!r}")
    return Described(tensor.shape, tensor.dtype)


class Dense(_core.Choice):
    """`attention` of sequences of one length, as (result, log-sum-exp): in C++ for tensors that look like earlier ones."""

    def _choose(self, tensors, out=None, *, causal, window, softcap, scale, top_left, target, lse, deterministic):
        q, k, v, sinks = tensors
        masks = Masks(causal, window, softcap, scale)
        scales = (None, None, None)
        if _name(_described("q", q)) == FP8:
            result = _fp8(q, k, v, masks, scales, sinks, None, lse, out)
        elif _name(_described("k", k)) == FP8:
            result = _cached(q, k, v, masks, scales, sinks, None, None, None, lse, out)
        else:
            result = _attention(q, k, v, masks, sinks, top_left, lse, deterministic, out)
        return result if lse else (result, None)

    def keep(self, tensors, given, masks: Masks, top_left, lse, deterministic, run, options):
        """Such tensors go to the kernel at once, where it is given them as they are."""
        picks = [index for index, tensor in enumerate(tensors) if tensor is not None]
        if all(tensors[index] is each for index, each in zip(picks, given, strict=True)):
            told = dataclasses.asdict(masks) | {"top_left": top_left, "target": simulated.target}
            told |= {"lse": lse, "deterministic": deterministic}
            _core.remember_choice(self, tensors, None, told, getattr(run, "forward_kernel", run), picks, options)


_core.show_call(Dense, Dense._choose)  # to torch.compile
DENSE = Dense()


def _attention(q, k, v, masks: Masks, sinks, top_left: bool, lse: bool, deterministic: bool, out):
    tensors = q, k, v, sinks
    told = _described("q", q), _described("k", k), _described("v", v)
    beside = () if sinks is None else (_checked_sinks(sinks, q.shape[1]),)
    differentiable = out is None and _differentiated(q, k, v, *beside)
    if compiling(q):
        key, options, few = _planned(*told, masks, top_left, True)
        differentiable = out is None  # what asks for derivatives is not known
    else:
        key, options, few = _planned_once(*told, masks, top_left)
    other = _other_than_hopper(q)
    if other == "mma" or (other and (q.shape[3] > 192 or v.shape[3] > 128)):
        q, k, v = (_dense(each).contiguous() for each in (q, k, v))
    if few and not top_left and not differentiable:
        if other:
            return _cached(q, k, v, masks, (None, None, None), sinks, None, None, None, lse, out)
        return _decode(q, k, v, masks, sinks, None, None, lse, out)
    run = _chosen(q, (*key, False, bool(beside), bool(deterministic), differentiable, other))
    q, k, v = _dense(q), _dense(k), _dense(v)
    if out is None and not compiling(q):
        DENSE.keep(tensors, (q, k, v, *beside), masks, top_left, lse, deterministic, run, options)
    given = {} if out is None else {"out": (out, _sums(q, q.shape[:-1]))}
    result = run(q, k, v, *beside, **given, **options)
    return result if lse else result[0]


def _other_than_hopper(tensor) -> str:
    """What makes the forward on the tensor's GPU, or on that which is simulated; "" for Hopper."""
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
    """What a function of this module makes of the key; where the compiler traces it finds it again by its name."""
    return getattr(CHOSEN, _name_for_compiler(maker, *key)) if compiling(tensor) else globals()[maker](*key)


def _planned(q: Described, k: Described, v: Described, masks: Masks, top_left: bool, traced=False):
    """What chooses the kernel; its runtime scalars; whether so few rows meet so many keys that the keys have to be shared.

    Where the compiler traces, sizes may be symbols."""
    _check(q, k, v)
    (batch, heads, queries, width), (_, shared, keys, _), values = q.shape, k.shape, v.shape[3]
    right, left, softcap = masks.flags
    options = masks.options(width, 0 if top_left else keys - queries)
    wide, wide_values = _rounded(width), _rounded(values)
    if traced:
        options["together"] = heads if right else 1
    else:
        options["together"] = _together(batch * heads, heads // shared, keys, width, values, right)
    # Comparisons of symbols choose; as values they would stay symbols.
    few = True if queries <= 16 and queries * (heads // shared) <= 128 and keys >= 1024 else False  # noqa: SIM210
    long = True if wide > 192 or queries > 512 else False  # noqa: SIM210
    square = True if width == values else False  # noqa: SIM210
    return (_name(q), wide, wide_values, right, left, softcap, long, square), options, few


def _rounded(width) -> int:
    """Up to a size that there is a kernel for."""
    return next(each for each in (64, 128, 192, 256) if width <= each)


_planned_once = functools.lru_cache(maxsize=4096)(_planned)


def _differentiated(*tensors) -> bool:
    """Whether somebody may ask for a derivative: of a torch tensor that says so, of any JAX value."""
    return any(getattr(each, "requires_grad", False) or hasattr(each, "aval") for each in tensors)


def _sums(like, shape):
    """Memory for log-sum-exp, where the caller gives that of the result."""
    if hasattr(like, "new_empty"):
        import torch

        return like.new_empty(shape, dtype=torch.float32)
    import numpy

    return numpy.empty(shape, numpy.float32)


@constant_for_compiler
def _name_for_compiler(maker: str, *key) -> str:
    return kept(CHOSEN, (maker, *key), globals()[maker](*key))


CHOSEN = types.SimpleNamespace()


def _checked_sinks(sinks, heads):
    """In f32; a conversion passes gradients on."""
    kind = _name(_described("sinks", sinks))
    if len(sinks.shape) != 1 or sinks.shape[0] != heads:
        raise LaunchValueError(f"attention: sinks has one number a head, ({heads},), not {tuple(sinks.shape)}")
    if kind not in (*TYPES, "float32"):
        raise LaunchTypeError(f"attention: sinks is of {kind}; legal are float32, {', '.join(TYPES)}")
    if hasattr(sinks, "astype"):
        return sinks.astype("float32")
    return sinks.float().contiguous()


def _ragged(q, k, v, masks: Masks, sinks, cu_seqlens, lse: bool, deterministic: bool, out):
    begins = _begins(cu_seqlens)
    _check(q, k, v, ("length", "heads", "D"))
    beside = () if sinks is None else (_checked_sinks(sinks, q.shape[1]),)
    differentiable = out is None and (compiling(q) or _differentiated(q, k, v, *beside))
    other = _other_than_hopper(q) and "mma"
    q, k, v = (_dense(each).contiguous() if other else _dense(each) for each in (q, k, v))
    width, values = q.shape[2], v.shape[2]
    square = True if width == values else False  # noqa: SIM210
    key = (_name(q), _rounded(width), _rounded(values), *masks.flags, True, square)
    run = _chosen(q, (*key, True, bool(beside), bool(deterministic), differentiable, other))
    given = {} if out is None else {"out": (out, _sums(q, (q.shape[1], q.shape[0])))}
    result = run(q, k, v, *beside, *begins, **given, **masks.options(width, 0))
    return result if lse else result[0]


def _begins(cu_seqlens) -> tuple:
    """Where sequences of queries and of keys begin."""
    begins = cu_seqlens if isinstance(cu_seqlens, tuple) else (cu_seqlens, cu_seqlens)
    for each in begins:
        if len(_described("cu_seqlens", each).shape) != 1 or each.shape[0] < 2:
            raise LaunchValueError(f"attention: cu_seqlens is (B + 1) with B of 1 or more, not {tuple(each.shape)}")
    return begins


def _ragged_fp8(q, k, v, masks: Masks, scales, sinks, cu_seqlens, lse: bool, out):
    begins = _begins(cu_seqlens)
    _check(q, k, v, ("length", "heads", "D"), types=(FP8,))
    (queries, heads, width), (keys, shared, _), values = q.shape, k.shape, v.shape[2]
    _check_sixteens(width, values)
    beside = () if sinks is None else (_checked_sinks(sinks, heads),)
    given = {} if out is None else {"out": (out, _sums(q, (heads, queries)))}
    scaled, options = _of_heads(q, scales, heads, shared), masks.options(width, 0)
    if _other_than_hopper(q):
        run = _made(q, "_mma_of_fp8", _rounded(width), _rounded(values), *masks.flags, bool(beside), True, bool(scaled))
        result = run(*(_cast(each, "bfloat16") for each in (q, k, v)), *scaled, *beside, *begins, **given, **options)
        return result if lse else result[0]
    wide = _rounded(width) if width <= 128 else 256
    run = _made(q, "_ragged_fp8_kernel", wide, _rounded(values), *masks.flags, bool(beside), bool(scaled))
    padded = -(-keys // PAD) * PAD + PAD * (begins[1].shape[0] - 1)
    turned = _made(q, "_transpose", 64 if values <= 64 else 128, True)(_packed(v), begins[1], NP=padded)
    result = run(_dense(q, 16), _dense(k, 16), turned, *scaled, *beside, *begins, **given, **options)
    return result if lse else result[0]


def _packed(tensor):
    return tensor.contiguous() if hasattr(tensor, "contiguous") else _dense(tensor)


def _cast(tensor, name: str):
    if hasattr(tensor, "new_empty"):
        import torch

        return tensor.to(getattr(torch, name)).contiguous()
    import ml_dtypes

    return tensor.astype(getattr(ml_dtypes, name, name))


@functools.cache
def _mma_of_fp8(width, values, right, left, softcap, sinks, ragged, scaled):
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks}
    return mma_attention_kernel(bf16, Mma.of(width, values, ragged=ragged, scaled=scaled, **masks))


def _check_sixteens(width: int, values: int):
    if width % 16 or values % 16:
        raise LaunchValueError(f"attention: D and DV of {FP8} are multiples of 16, not {width} and {values}")


def _fp8(q, k, v, masks: Masks, scales, sinks, _, lse: bool, out):
    _check(q, k, v, types=(FP8,))
    (batch, heads, queries, width), (_, shared, keys, _), values = q.shape, k.shape, v.shape[3]
    _check_sixteens(width, values)
    right = masks.flags[0]
    long = True if queries > 512 else False  # noqa: SIM210
    beside, scaled = () if sinks is None else (_checked_sinks(sinks, heads),), _of_heads(q, scales, heads, shared)
    if _other_than_hopper(q):
        run = _made(
            q, "_mma_of_fp8", _rounded(width), _rounded(values), *masks.flags, bool(beside), False, bool(scaled)
        )
        given = {} if out is None else {"out": (out, _sums(q, q.shape[:-1]))}
        options = masks.options(width, keys - queries) | {"together": 1}
        result = run(*(_cast(each, "bfloat16") for each in (q, k, v)), *scaled, *beside, **given, **options)
        return result if lse else result[0]
    wide = _rounded(width) if width <= 128 else 256
    run = _made(q, "_fp8_kernel", wide, _rounded(values), *masks.flags, long, bool(beside), bool(scaled))
    options = masks.options(width, keys - queries) | {"together": heads if right else 1}
    padded = -(-keys // 16) * 16
    turned = _made(q, "_transpose", 64 if values <= 64 else 128)(
        v.reshape(batch * shared, keys, values), NP=padded
    ).reshape(batch, shared, values, padded)
    given = {} if out is None else {"out": (out, _sums(q, q.shape[:-1]))}
    result = run(_dense(q, 16), _dense(k, 16), turned, *scaled, *beside, **given, **options)
    return result if lse else result[0]


def _of_heads(q, scales, heads: int, shared: int) -> tuple:
    """(2, H) f32: what scores and results of a head of q are multiplied by; nothing where that is 1."""
    if all(each is None for each in scales):
        return ()
    if hasattr(q, "new_empty"):
        import torch

        repeated, stack = torch.repeat_interleave, torch.stack
    else:
        if hasattr(q, "aval"):
            import jax.numpy as numpy
        else:
            import numpy

        repeated, stack = numpy.repeat, numpy.stack
    spread = []
    for name, each, count in zip(("scale_q", "scale_k", "scale_v"), scales, (heads, shared, shared), strict=True):
        one = _ones(q, heads)
        if each is not None:
            size = math.prod(_described(name, each).shape)
            _check_scale(name, each, size, count)
            flat = each.reshape(-1)
            one = one * (flat if size == 1 else repeated(flat, heads // count))
        spread.append(one)
    return (stack((spread[0] * spread[1], spread[2])),)


@functools.cache
def _fp8_kernel(width: int, values: int, right: bool, left: bool, softcap: bool, long: bool, sinks: bool, scaled: bool):
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks}
    cut, more = (128, 2), {"ctas": 0 if right and long else MULTIPROCESSORS}
    if width <= 128:
        cut, more = (128 if width == 64 else 96, 3), {"tiles": 2, "skips": right}
        more["early"] = 4 if width == 64 else 0
    return fp8_kernel(bf16, Fp8(width, values, *cut, scaled=scaled, lazy=False, ahead=True, **more, **masks))


@functools.cache
def _ragged_fp8_kernel(width: int, values: int, right: bool, left: bool, softcap: bool, sinks: bool, scaled: bool):
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks, "scaled": scaled}
    return fp8_kernel(bf16, Fp8(width, values, PAD, 2, ctas=0, ragged=True, lazy=False, **masks))


@functools.cache
def _transpose(columns: int, ragged: bool = False):
    return transpose_kernel(columns, ragged)


def _decode(q, k, v, masks: Masks, sinks, lengths, table, lse: bool, out):
    if table is not None:
        _check_pages(q, k, v, lengths, table)
    else:
        _check(q, k, v)
    paged = table is not None
    batch, heads, queries, width = (int(size) for size in q.shape)
    shared, values = int(k.shape[2 if paged else 1]), int(v.shape[3])
    most = int(table.shape[1]) * int(k.shape[1]) if paged else int(k.shape[2])
    page = 1 << _log2(k.shape[1]) if paged else 0
    key = (_name(q), _rounded(width), _rounded(values), *masks.flags)
    run = _made(q, "_decode_kernel", *key, page, lengths is not None)
    rows = heads // shared * queries
    options = masks.options(width, 0)
    parts = _parts_of(q, batch * shared * -(-rows // 64), most)
    tensors = [_dense(q).reshape(batch, shared, rows, width), _dense(k), _dense(v)]
    given = [each for each in (lengths, table) if each is not None]
    pieces, sums = run(*tensors, *given, S=parts, queries=queries, **options)
    lines = batch * shared * rows
    beside = () if sinks is None else (_checked_sinks(sinks, heads),)
    queried = {"queries": queries} if beside else {}
    result, logs = _made(q, "_combine", _name(q), bool(beside))(
        pieces.reshape(parts, lines, values), sums.reshape(parts, lines), *beside, **queried
    )
    result = result.reshape(batch, heads, queries, values)
    if out is not None:
        out.copy_(result)
        result = out
    return (result, logs.reshape(batch, heads, queries)) if lse else result


@functools.cache
def _parts(tiles: int, blocks: int) -> int:
    """Into how many parts the keys of a sequence are cut, so that all multiprocessors are busy, each for four blocks or more.

    Each time that the multiprocessors begin anew costs as much as 4 % of the work."""
    most = max(1, min(64, blocks // 4))

    def idle(parts):
        waves = -(-tiles * parts // MULTIPROCESSORS)
        return waves * MULTIPROCESSORS / (tiles * parts) + 0.04 * waves + parts / 1000

    return min(range(1, most + 1), key=idle)


def _cached(q, k, v, masks: Masks, scales, sinks, cu_seqlens, lengths, table, lse: bool, out):
    """By mma.sync, which takes every form of a cache.  Queries of e4m3 are bf16 here, which has all of its numbers."""
    ragged, narrow = cu_seqlens is not None, _name(k) == FP8
    _check_cache(q, k, v, cu_seqlens, lengths, table)
    q, *scales = _widened_queries(q, scales, ragged)
    heads, width = int(q.shape[1]), int(q.shape[-1])
    shared, values = int(k.shape[2 if table is not None else 1]), int(v.shape[3])
    per = heads // shared
    lines = (int(q.shape[0]), heads) if ragged else tuple(int(each) for each in q.shape[:3])
    most = int(table.shape[1]) * int(k.shape[1]) if table is not None else int(k.shape[2])
    key = (
        _name(q),
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
    q, k, v = _dense(q), _dense(k, step), _dense(v, step)
    rows = lines[0] * per if ragged else lines[2] * per
    tiles = shared * (-(-rows // 16) if ragged else lines[0] * -(-rows // 16))
    options = masks.options(width, 0) | {"S": _parts_of(q, tiles, most, _rounded(width), _rounded(values), narrow)}
    if table is not None:
        options["page"] = _log2(k.shape[1])
    options |= _strides_of(q, k, v, ragged, table is not None, step)
    given = [*_numbers(q, scales, shared), *(each for each in (lengths, table, cu_seqlens) if each is not None)]
    pieces, sums = run(q, k, v, *given, **options)
    parts, count = options["S"], math.prod(lines)
    beside = () if sinks is None else (_checked_sinks(sinks, heads),)
    queried = {"queries": 1 if ragged else lines[2]} if beside else {}
    result, logs = _made(q, "_combine", _name(q), bool(beside), not _other_than_hopper(q))(
        pieces.reshape(parts, count, values), sums.reshape(parts, count), *beside, **queried
    )
    result, logs = result.reshape(*lines, values), logs.reshape(lines)
    if out is not None:
        out.copy_(result)
        result = out
    return (result, logs.swapaxes(0, 1) if ragged else logs) if lse else result


def _widened_queries(q, scales, ragged: bool):
    """q in bf16 where it is e4m3, and scales of k and v.  That of q joins k's; where its heads have one each, q is multiplied."""
    scale, of_k, of_v = scales
    if _name(q) != FP8:
        if scale is not None:
            raise LaunchValueError(f"attention: scale_q is of q in {FP8}, not in {_name(q)}")
        return q, of_k, of_v
    if scale is None:
        return _cast(q, "bfloat16"), of_k, of_v
    if math.prod(scale.shape) == 1:
        return _cast(q, "bfloat16"), scale if of_k is None else of_k * scale, of_v
    heads = scale.reshape((-1, 1) if ragged else (-1, 1, 1))
    return _cast(_cast(q, "float32") * heads, "bfloat16"), of_k, of_v


def _numbers(q, scales, count: int) -> list:
    """scale_k and scale_v as tensors of one number or `count`; none where both are 1."""
    if all(each is None for each in scales):
        return []
    found = []
    for name, each in zip(("scale_k", "scale_v"), scales, strict=True):
        if each is None:
            found.append(_ones(q, 1))
            continue
        size = math.prod(_described(name, each).shape)
        _check_scale(name, each, size, count)
        found.append(each.reshape(size))
    return found


def _check_scale(name: str, tensor, size: int, count: int):
    if _name(tensor) != "float32" or size not in (1, count):
        raise LaunchValueError(f"attention: {name} is f32 of one number or ({count},), not {_name(tensor)} of {size}")


def _ones(like, count: int):
    """In f32, where `like` is."""
    if hasattr(like, "new_empty"):
        import torch

        return torch.ones(count, dtype=torch.float32, device=like.device)
    if hasattr(like, "aval"):
        import jax.numpy as numpy
    else:
        import numpy
    return numpy.ones(count, numpy.float32)


def _strides_of(q, k, v, ragged: bool, paged: bool, step: int) -> dict:
    """The runtime scalars that are strides, in units of 16 bytes."""
    q_outer, q_query, q_head = (0, *_stride(q)[:2]) if ragged else (_stride(q)[i] for i in (0, 2, 1))
    found = [each // 8 for each in (q_outer, q_query, q_head)]
    for each in (k, v):
        outer, second, third = _stride(each)[:3]
        found += [at // step for at in ((outer, second, third) if paged else (outer, third, second))]
    return dict(zip(STRIDES, found, strict=True))


def _stride(tensor) -> list:
    """In elements; arrays that do not say are packed."""
    if hasattr(tensor, "stride"):
        return list(tensor.stride())
    return [math.prod(tensor.shape[at + 1 :]) for at in range(len(tensor.shape))]


def _log2(page) -> int:
    return next(each for each in range(31) if page <= 1 << each)


def _parts_of(q, tiles, keys, *of_warps) -> int:
    """Into how many parts the keys are cut; where the compiler traces, sizes may be symbols, of which few comparisons decide."""
    if compiling(q):
        return next((each for each in (64, 32, 16, 8, 4, 2) if keys >= each * 512 and tiles * each <= 264), 1)
    return _parts_of_warps(tiles, keys, *of_warps) if of_warps else _parts(tiles, -(-keys // Decode.keys))


@functools.cache
def _parts_of_warps(tiles: int, keys: int, width: int, values: int, narrow: bool) -> int:
    """As `_parts`, where a multiprocessor has two CTAs, and the parts are added up by a kernel that takes its time for each."""
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


def _name(tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _check(q, k, v, dimensions=("batch", "heads", "length", "D"), types=tuple(TYPES)):
    _check_types(q, k, v, dimensions, types)
    ragged = len(dimensions) == 3
    h, d = (q.shape[1], q.shape[2]) if ragged else (q.shape[1], q.shape[3])
    hk, dv = k.shape[1], v.shape[-1]
    fits = k.shape[:-1] == v.shape[:-1] and k.shape[-1] == d and (ragged or q.shape[0] == k.shape[0])
    if not fits:
        raise LaunchValueError(
            f"attention: sizes of q, k, v do not fit: {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}; see its help"
        )
    _check_heads(h, hk, d, dv)


def _check_types(q, k, v, dimensions, types=tuple(TYPES)):
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        _described(name, tensor)
        if len(tensor.shape) != len(dimensions):
            raise LaunchValueError(
                f"attention: {name} has {len(dimensions)} dimensions ({', '.join(dimensions)}), not {len(tensor.shape)}"
            )
        if _name(tensor) not in types or _name(tensor) != _name(q):
            legal = ", ".join((*TYPES, FP8))
            raise LaunchTypeError(f"attention: {name} is of {_name(tensor)}; legal are {legal}, the same for q, k, v")


def _check_heads(h: int, hk: int, d: int, dv: int):
    if hk == 0 or h % hk:
        raise LaunchValueError(f"attention: {h} heads of q cannot share {hk} of k and v: HK divides H")
    if d % 8 or dv % 8 or not 8 <= d <= 256 or not 8 <= dv <= d:
        raise LaunchValueError(f"attention: D is a multiple of 8 up to 256 and DV one up to D, not {d} and {dv}")


def _check_pages(q, k, v, lengths, table):
    _check_types(q, k, v, ("batch, or pages", "heads, or keys of a page", "length, or heads", "D"))
    _check_table(int(q.shape[0]), lengths, table)
    if k.shape[:3] != v.shape[:3] or k.shape[3] != q.shape[3]:
        raise LaunchValueError(
            f"attention: k (P, page, HK, D) and v do not fit q (B, H, M, D): {tuple(k.shape)}, {tuple(v.shape)}, {tuple(q.shape)}"
        )
    page = int(k.shape[1])
    if page < 8 or page & (page - 1):
        raise LaunchValueError(f"attention: a page has a power of two of keys, 8 or more, not {page}")
    _check_heads(q.shape[1], k.shape[2], q.shape[3], v.shape[3])


def _check_cache(q, k, v, cu_seqlens, lengths, table):
    legal = (*TYPES, FP8)
    for name, tensor, count in (("q", q, 3 if cu_seqlens is not None else 4), ("k", k, 4), ("v", v, 4)):
        _described(name, tensor)
        if len(tensor.shape) != count:
            raise LaunchValueError(f"attention: {name} has {count} dimensions beside a cache, not {len(tensor.shape)}")
        if _name(tensor) not in legal or _name(v) != _name(k) or (_name(k) != FP8 and _name(k) != _name(q)):
            raise LaunchTypeError(
                f"attention: q, k, v are of {_name(q)}, {_name(k)}, {_name(v)}; legal are {', '.join(legal)}, the same for"
                f" k and v, and for q the same or, beside {FP8}, another"
            )
    if isinstance(cu_seqlens, tuple):
        raise LaunchValueError(
            "attention: beside lengths or block_table, cu_seqlens is of q alone; lengths says the rest"
        )
    if cu_seqlens is not None and (len(cu_seqlens.shape) != 1 or cu_seqlens.shape[0] < 2):
        raise LaunchValueError(f"attention: cu_seqlens is (B + 1) with B of 1 or more, not {tuple(cu_seqlens.shape)}")
    if cu_seqlens is not None and lengths is None:
        raise LaunchValueError(
            "attention: a cache and cu_seqlens need lengths, (B) int32: how many keys each sequence has"
        )
    batch = int(q.shape[0]) if cu_seqlens is None else int(cu_seqlens.shape[0]) - 1
    if table is not None:
        _check_table(batch, lengths, table)
    fits = k.shape[:3] == v.shape[:3] and k.shape[3] == q.shape[-1] and (table is not None or k.shape[0] == batch)
    if not fits:
        raise LaunchValueError(
            f"attention: sizes of q, k, v do not fit: {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}; see its help"
        )
    page = int(k.shape[1])
    if table is not None and page & (page - 1):
        raise LaunchValueError(f"attention: a page has a power of two of keys, not {page}")
    _check_heads(q.shape[1], k.shape[2 if table is not None else 1], q.shape[-1], v.shape[3])
    if _name(k) == FP8:
        _check_sixteens(k.shape[3], v.shape[3])


def _check_table(batch: int, lengths, table):
    if lengths is None:
        raise LaunchValueError("attention: block_table needs lengths, (B) int32: how many keys each sequence has")
    if len(table.shape) != 2 or table.shape[0] != batch:
        raise LaunchValueError(f"attention: block_table is (B, T) with B = {batch}, not {tuple(table.shape)}")


def _dense(tensor, step: int = 8):
    """The tensor, or a copy of it, as tensor copies take it: rows side by side, all strides multiples of `step` elements."""
    strides = getattr(tensor, "stride", None)
    if strides is None:  # not of torch
        flags = getattr(tensor, "flags", None)
        return tensor if flags is None or flags.c_contiguous else tensor.copy()
    *outer, inner = tensor.stride()
    begins = compiling(tensor) or tensor.storage_offset() % step == 0
    fits = inner == 1 and all(each % step == 0 and each > 0 for each in outer)
    if not begins:  # where the compiler traces, an address is not known; the launch refuses one that does not fit
        return tensor.contiguous() if not tensor.is_contiguous() else tensor.clone()
    return tensor if fits else tensor.contiguous()


def _together(heads: int, per: int, length: int, width: int, values: int, right: bool) -> int:
    """How many heads' tiles are taken together: without a mask one, as neighbours share K and V; else as many as L2 keeps."""
    if not right:
        return 1
    fit = max(1, int(L2_BYTES * per // max(1, length * (width + values) * 2)))
    return max(each for each in range(1, min(heads, fit) + 1) if heads % each == 0)


@functools.lru_cache(maxsize=4096)
def plan(width: int, values: int, right: bool, left: bool, softcap: bool, long: bool) -> Forward:
    """How heads of this size are cut, by bench/attention.py on an H200.  Under a mask tiles differ in length: a CTA takes them
    from the longest on and back; where heads of 128 or more are long, one tile, and the next CTA begins where one has ended."""
    masks = {"right": right, "left": left, "softcap": softcap, "ahead": True}
    if width <= 64:  # a short triangle is cut into rows of 128: of 192, more would be masked
        short = right and not long
        cut = {"groups": 2 if short else 3, "skips": right and not short}
        return Forward(width, values, 128, lazy=False, tiles=2, **cut, **masks)
    ctas = 0 if right and long else MULTIPROCESSORS
    if width <= 128:
        return Forward(width, values, 128, 2, ctas=ctas, tiles=2 if ctas else 1, **masks)
    keys = 80 if width > 192 else 128 if values <= 128 else 112
    return Forward(width, values, keys, 2, own_output=False, ctas=ctas, **masks)


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
    """The forward kernel; with its backward, where that is wanted and there is one."""
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks}
    if other.startswith("blackwell") and width <= 192 and values <= 128 and not ragged:
        forward = blackwell_attention_kernel(TYPES[name], Blackwell.of(width, values, **masks), other.split()[1])
    elif other:
        forward = mma_attention_kernel(TYPES[name], Mma.of(width, values, ragged=ragged, **masks))
    else:
        cut = dataclasses.replace(plan(width, values, right, left, softcap, long), sinks=sinks, ragged=ragged)
        if ragged:
            cut = dataclasses.replace(cut, ctas=0, tiles=1, skips=False, ahead=False)
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
