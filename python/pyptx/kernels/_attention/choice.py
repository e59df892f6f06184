"""The kernels of `attention` by what chooses them: the kind of GPU, the size of heads, masks and lengths.  Each is made once.

`plan` and `e4m3_plan` have what was measured on an H200 (docs/performance/attention.md).
"""

from __future__ import annotations

import dataclasses
import functools
import types

from pyptx import differentiable_kernel
from pyptx._arch import detect_arch
from pyptx.kernels._attention.arguments import TYPES
from pyptx.kernels._attention.blackwell import Blackwell, blackwell_attention_kernel
from pyptx.kernels._attention.cache import Cache, cache_kernel
from pyptx.kernels._attention.combine import WARPS, combine_kernel
from pyptx.kernels._attention.decode import Decode, decode_kernel
from pyptx.kernels._attention.forward import forward_kernel
from pyptx.kernels._attention.fp8 import Fp8, fp8_kernel
from pyptx.kernels._attention.gradient import gradient, of_one_query
from pyptx.kernels._attention.mma import Mma, mma_attention_kernel
from pyptx.kernels._attention.one_query import OneQuery, one_query_kernel
from pyptx.kernels._attention.plan import MULTIPROCESSORS, Forward
from pyptx.kernels._attention.prefill import Prefill, prefill_kernel
from pyptx.kernels._attention.small_forward import SmallForward, small_forward_kernel
from pyptx.kernels._attention.sums import PAD
from pyptx.kernels._attention.transposed import transpose_kernel
from pyptx.kernels._compiled import constant_for_compiler, kept
from pyptx.kernels._target import on_gpu, simulated
from pyptx.kernels._torch_state import compiling
from pyptx.types import bf16

__all__ = ["e4m3_plan", "made", "one_query_ctas", "other_than_hopper", "plan", "rounded"]

PLAIN = dict.fromkeys(("skips", "from_end", "joined", "pairs", "direct", "uneven"), False)  # one tile after the other
ALONE = PLAIN | {"ragged": True, "ctas": 0, "tiles": 1, "ahead": False}  # each tile of sequences has a CTA
MADE = types.SimpleNamespace()


def other_than_hopper(tensor) -> str:
    """Which kernels run on the tensor's GPU, or on the simulated one: "" for Hopper's, "blackwell" and a target, or "mma"."""
    return _of_device() if on_gpu(tensor) else _of_target(simulated.target or "sm_90a")


@constant_for_compiler
def _of_device() -> str:
    return _of_target(_architecture())


def _of_target(target: str) -> str:
    return {"sm_90a": "", "sm_100a": "blackwell sm_100a", "sm_103a": "blackwell sm_103a"}.get(target, "mma")


@functools.cache
def _architecture() -> str:
    return detect_arch()


def made(tensor, maker: str, *key):
    """What the function `maker` of this module returns for the key.  Where torch.compile traces, it is found as an attribute."""
    return getattr(MADE, _name_for_compiler(maker, *key)) if compiling(tensor) else globals()[maker](*key)


@constant_for_compiler
def _name_for_compiler(maker: str, *key) -> str:
    return kept(MADE, (maker, *key), globals()[maker](*key))


def rounded(width) -> int:
    """The next larger size for which there is a kernel."""
    return next(each for each in (64, 128, 192, 256) if width <= each)


def plan(width: int, values: int, right: bool, left: bool, softcap: bool, long: bool) -> Forward:
    """How the forward for heads of this size is cut, as measured by bench/attention.py on an H200.

    Under a mask tiles differ in length, and `taken_together` shares them out.  For heads of more than 128 with a window, a CTA takes one
    tile, and the next CTA begins when one has ended.  For heads of more than 192, `long` sequences have larger blocks of keys, which masks
    and lengths fill less well, and without a mask CTAs in pairs; for heads of up to 64, larger tiles of queries."""
    masks = {"right": right, "left": left, "softcap": softcap, "ahead": True}
    if width <= 64:
        more = {"skips": right, "from_end": right, "joined": True, "uneven": True}
        return Forward(width, values, 128, 3 if long else 2, tiles=2, **more, **masks)
    if width <= 128:
        return Forward(width, values, 128, 2, tiles=2, joined=True, **masks)
    more = {"own_output": False, "direct": True, "skips": right, "ctas": 0 if right and left else MULTIPROCESSORS}
    if width <= 192:
        return Forward(width, values, 128 if values <= 128 else 112, 2, **more, **masks)
    return Forward(width, values, 80 if long else 64, 2, pairs=long and not right, **more, **masks)


def short_plan(width: int, values: int, right: bool, left: bool, softcap: bool, _) -> Forward:
    """How the forward for short sequences behind each other is cut: tiles of 64 queries, several CTAs to a multiprocessor."""
    return Forward(
        width, values, 64, 1, turns=False, own_output=False, resident=3 if width <= 64 else 2, right=right, left=left,
        softcap=softcap,
    )  # fmt: skip


@functools.cache
def forward_of(dtype, cut: Forward):
    return forward_kernel(dtype, cut)


@functools.cache
def small_forward(name, width, values, groups, blocks, *rest):
    return small_forward_kernel(TYPES[name], SmallForward(width, values, blocks, groups, *rest))


@functools.cache
def choose(
    name, width, values, right, left, softcap, long, square, small, one, ragged, sinks, deterministic, differentiable,
    other,
):  # fmt: skip
    """The forward kernel; joined with its backward if `differentiable`.  `small`: None, or `small_sizes`, and whether
    _attention/small.py has the gradients.  `one`: 0, or `one_query_ctas`, for calls with a gradient on Hopper and without sinks."""
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks}
    if other.startswith("blackwell") and width <= 192 and values <= 128 and not ragged:
        forward = blackwell_attention_kernel(TYPES[name], Blackwell.of(width, values, **masks), other.split()[1])
    elif other:
        forward = mma_attention_kernel(TYPES[name], Mma.of(width, values, ragged=ragged, **masks))
    elif one:
        return one_query(name, width, values, right, left, one)
    elif small:
        forward = small_forward(name, width, values, *small[:3], *masks.values())
    else:
        cut = (short_plan if ragged and not long else plan)(width, values, right, left, softcap, long)
        cut = dataclasses.replace(cut, sinks=sinks, **(ALONE if ragged else {}))
        forward = forward_of(TYPES[name], cut)
    if not differentiable:
        return forward
    own = small[:3] if small and small[3] and not sinks else None
    backward = derivative(name, width, values, right, left, softcap, square, ragged, deterministic, bool(other), own)
    return differentiable_kernel(forward, backward, save_outputs=(0, 1), num_grad_inputs=4 if sinks else 3)


def one_query_ctas(lines: int, queries: int, keys: int, per: int, softcap: bool) -> int:
    """How many CTAs share the keys of each of so many heads in _attention/one_query.py; 0 if it does not take them."""
    if queries != 1 or per != 1 or softcap or keys <= 128:
        return 0
    return next(each for each in (1, 2, 4, 8) if each == 8 or lines * each >= 2 * MULTIPROCESSORS or keys < each * 512)


@functools.cache
def one_query(name, width, values, right, left, ctas):
    cut = OneQuery(width, values, right, left, ctas)
    backward = of_one_query(TYPES[name], dataclasses.replace(cut, ctas=1))
    return differentiable_kernel(one_query_kernel(TYPES[name], cut), backward, save_outputs=(0, 1), num_grad_inputs=3)


@functools.cache
def derivative(
    name, width, values, right, left, softcap, square, ragged=False, deterministic=False, mma=False, small=None
):
    masks = {"right": right, "left": left, "softcap": softcap, "ragged": ragged}
    how = {"square": square, "deterministic": deterministic, "mma": mma, "small": small}
    return gradient(TYPES[name], width, values, **masks, **how)


@functools.cache
def masked(name, width, values, right, left, softcap, sinks, mma: bool, biased: int, small: tuple | None):
    if small:
        return small_forward(name, width, values, *small, right, left, softcap, sinks, biased)
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks, "biased": biased}
    if mma:
        return mma_attention_kernel(TYPES[name], Mma.of(width, values, **masks))
    cut = plan(width, values, right, left, softcap, True)
    ctas = 0 if right and width > 128 else cut.ctas
    return forward_of(TYPES[name], dataclasses.replace(cut, groups=2, ctas=ctas, sinks=sinks, biased=biased, **PLAIN))


@functools.cache
def mma_of_e4m3(width, values, right, left, softcap, sinks, ragged, scaled):
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks}
    return mma_attention_kernel(bf16, Mma.of(width, values, ragged=ragged, scaled=scaled, **masks))


def e4m3(*key_and_begun):
    *key, begun = key_and_begun
    return e4m3_of(dataclasses.replace(e4m3_plan(*key), begun=begun))


@functools.cache
def e4m3_of(cut: Fp8):
    return fp8_kernel(bf16, cut)


def e4m3_plan(
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
def ragged_e4m3(width: int, values: int, right: bool, left: bool, softcap: bool, sinks: bool, scaled: bool):
    masks = {"right": right, "left": left, "softcap": softcap, "sinks": sinks, "scaled": scaled}
    return fp8_kernel(bf16, Fp8(width, values, PAD, 2, ctas=0, ragged=True, **masks))


@functools.cache
def transposition(columns: int, ragged: bool = False, begun: bool = False):
    return transpose_kernel(columns, ragged, begun)


@functools.cache
def prefill(name, width, values, right, left, softcap, sinks, page, beside, narrow, scaled):
    cut = dataclasses.asdict(plan(width, values, right, left, softcap, width <= 64)) | ALONE | {"sinks": sinks}
    if narrow:  # the memory of the result is that of keys and values before they are widened
        cut |= {"keys": 128 if width <= 128 else 64, "groups": 2, "own_output": False}
        cut |= {"narrow": True, "narrow_stages": 1 if width > 192 else 2, "scaled": scaled}
    return prefill_kernel(TYPES[name], Prefill(**cut, page=page, beside=beside))


@functools.cache
def cached(name, width, values, narrow, right, left, softcap, ragged, paged, counted, scaled):
    masks = {"right": right, "left": left, "softcap": softcap}
    plan = Cache.of(width, values, narrow, ragged=ragged, paged=paged, counted=counted, scaled=scaled, **masks)
    return cache_kernel(TYPES[name], plan)


@functools.cache
def few_queries(name, width, values, tall, right, left, softcap, page, counted, biased, alone, sinks, narrow, scaled):
    masks = {"right": right, "left": left, "softcap": softcap, "biased": biased, "alone": alone, "sinks": sinks}
    masks |= {"narrow": narrow, "scaled": scaled}
    return decode_kernel(TYPES[name], Decode.of(width, values, tall, page=page, counted=counted, **masks))


@functools.cache
def combination(name, sinks, early, alone):
    return combine_kernel(TYPES[name], sinks, early, 1 if alone else WARPS)
