"""The arguments of `attention`: checks them, and brings them into the form that kernels take.

The numbers in cu_seqlens, lengths and block_table are checked if they are in the CPU's memory, for the simulator.  The host does not wait
for those of a GPU.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._attention.cache import STRIDES
from pyptx.kernels._attention.plan import BIAS
from pyptx.kernels._checks import is_loose
from pyptx.kernels._compiled import likely
from pyptx.kernels._memory import address_of, begins_at, check_apart, contents, copied_to, packed_array
from pyptx.kernels._torch_state import autocast_type, compiling, recorded
from pyptx.kernels._types import type_name
from pyptx.types import bf16, f16

TYPES = {"float16": f16, "bfloat16": bf16}
FP8 = "float8_e4m3fn"
FAR = 1 << 29  # keys; a window that reaches further hides none
LARGEST = 3e38  # a scalar of f32


@dataclasses.dataclass(frozen=True)
class Masks:
    """The arguments of a call that say which keys count, and how much."""

    causal: bool
    window: int | tuple | None
    softcap: float | None
    scale: float | None

    def __post_init__(self):
        check_flag("causal", self.causal)
        if not self._has_a_window():
            raise LaunchValueError(
                "attention: window is a number of keys, 1 or more, or a pair of the keys before a query's own and behind it, -1 or None "
                f"where all count; not {self.window!r}"
            )
        for name in ("softcap", "scale"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, (int, float)):
                check_number(name, value)
        if self.softcap is not None and not 0 < self.softcap < LARGEST:
            raise LaunchValueError(f"attention: softcap is positive and finite, not {self.softcap!r}")
        if self.scale is not None and not 0 < self.scale < LARGEST:
            raise LaunchValueError(
                f"attention: scale is positive and finite, not {self.scale!r}; scale q by yourself for others"
            )

    def _has_a_window(self) -> bool:
        """Whether the window is None or a legal one."""
        if isinstance(self.window, tuple):
            return len(self.window) == 2 and all(
                [each is None or (is_integer(each) and each >= -1) for each in self.window]
            )
        return self.window is None or (is_integer(self.window) and self.window >= 1)

    @property
    def sides(self) -> tuple:
        """(keys before a query's own, keys after it) that count; None if all do."""
        if self.window is None:
            before = behind = None
        elif isinstance(self.window, tuple):
            before, behind = [None if each is None or each < 0 else min(int(each), FAR) for each in self.window]
        else:
            before = behind = min(int(self.window) - 1, FAR)
        if self.causal:
            return before, 0
        return before, FAR if before is not None and behind is None else behind

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """(right, left, softcap) of a plan."""
        before, behind = self.sides
        return behind is not None, before is not None, self.softcap is not None

    def options(self, width: int, shift) -> dict:
        """The runtime scalars.  With `causal`, query i sees the keys up to i + shift."""
        options: dict = {"scale": 1 / math.sqrt(width) if self.scale is None else float(self.scale)}
        before, behind = self.sides
        if behind is not None:
            options["shift"] = shift + behind if behind else shift
        if before is not None:
            options["reach"] = before + behind
        if self.softcap is not None:
            options["cap"] = float(self.softcap)
        return options


def check_number(name: str, value):
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise LaunchTypeError(f"attention: {name} is a number, not {value!r}")
    if hasattr(value, "__dlpack__"):
        raise LaunchTypeError(f"attention: {name} is a number, not {type(value).__name__}: float({name})")


class Described(NamedTuple):
    """What a tensor is, without its memory."""

    shape: tuple
    dtype: object


def described(name: str, tensor) -> Described:
    if is_loose(tensor):
        raise LaunchTypeError(f"attention: {name} is no dense tensor: .to_dense(), or sequences with cu_seqlens")
    if not hasattr(tensor, "shape") or not hasattr(tensor, "dtype"):
        raise LaunchTypeError(f"attention: {name} is a tensor, not {tensor!r}")
    return Described(tensor.shape, tensor.dtype)


def check_flag(name: str, value):
    if hasattr(value, "__dlpack__") or value not in (True, False):
        raise LaunchTypeError(f"attention: {name} is True or False, not {value!r}")


def is_integer(value) -> bool:
    if isinstance(value, int):  # also a symbol of torch.compile, which may not be asked for attributes
        return not isinstance(value, bool)
    return hasattr(value, "__index__") and not hasattr(value, "__dlpack__")


def by_autocast(*tensors):
    """The tensors in the type of torch.autocast, if one of them is f32, for which there are no kernels."""
    if not any(str(getattr(each, "dtype", None)) == "torch.float32" for each in tensors):
        return tensors
    made = next((found for found in map(autocast_type, tensors) if found is not None), None)
    if made is None:
        return tensors
    import torch

    floats = (torch.float32, torch.float16, torch.bfloat16)
    return tuple([each.to(made) if getattr(each, "dtype", None) in floats else each for each in tensors])


def checked_sinks(sinks, heads):
    """The sinks in f32.  Raises for another type or shape.  Gradients pass through the conversion."""
    kind = type_name(described("sinks", sinks))
    if len(sinks.shape) != 1 or sinks.shape[0] != heads:
        raise LaunchValueError(f"attention: sinks has one number a head, ({heads},), not {tuple(sinks.shape)}")
    if kind not in (*TYPES, "float32"):
        raise LaunchTypeError(f"attention: sinks is of {kind}; legal are float32, {', '.join(TYPES)}")
    if hasattr(sinks, "astype"):
        return sinks.astype("float32")
    return sinks.float().contiguous()


def begins_of(cu_seqlens, q, k) -> tuple:
    """(where the sequences of queries begin, where those of keys do)."""
    begins = cu_seqlens if isinstance(cu_seqlens, tuple) else (cu_seqlens, cu_seqlens)
    if len(begins) != 2:
        raise LaunchValueError(f"attention: cu_seqlens is a tensor, or a pair of q's and of k's, not {len(begins)}")
    for each, tensor in zip(begins, (q, k), strict=True):
        check_begins(each, q, int(tensor.shape[0]) if not compiling(q) else None)
    if begins[0].shape != begins[1].shape:
        counts = tuple(int(each.shape[0]) - 1 for each in begins)
        raise LaunchValueError(
            f"attention: cu_seqlens has as many sequences of q as of k, not {counts[0]} and {counts[1]}"
        )
    return tuple(packed(each) for each in begins)


def check_begins(begins, q, rows: int | None):
    check_integers("cu_seqlens", begins, q)
    if len(begins.shape) != 1 or begins.shape[0] < 2:
        raise LaunchValueError(f"attention: cu_seqlens is (B + 1) with B of 1 or more, not {tuple(begins.shape)}")
    there = contents(begins)
    if there is not None and (there[0] != 0 or there[-1] != rows or there != sorted(there)):
        raise LaunchValueError(f"attention: cu_seqlens rises from 0 to the {rows} rows that there are, it is {there}")


def check_integers(name: str, tensor, q):
    """Raises unless the tensor is int32 and on the device of q."""
    if type_name(described(name, tensor)) != "int32":
        raise LaunchTypeError(f"attention: {name} is of int32, not {type_name(tensor)}")
    check_device(name, tensor, q)


def check_device(name: str, tensor, q):
    if hasattr(q, "is_cuda") and hasattr(tensor, "is_cuda") and tensor.device != q.device:
        raise LaunchValueError(f"attention: {name} is on {q.device} as q is, not on {tensor.device}")


def scale_numbers(q, scales, count: int) -> list:
    """[scale_k, scale_v] as tensors of one number or `count`; [] if neither is given."""
    if all(each is None for each in scales):
        return []
    found = []
    for name, each in zip(("scale_k", "scale_v"), scales, strict=True):
        if each is None:
            found.append(ones(q, 1))
            continue
        size = math.prod(described(name, each).shape)
        check_scale(name, each, size, count)
        found.append(each.reshape(size))
    return found


def check_scale(name: str, tensor, size: int, count: int):
    if type_name(tensor) != "float32" or size not in (1, count):
        raise LaunchValueError(
            f"attention: {name} is f32 of one number or ({count},), not {type_name(tensor)} of {size}"
        )


def ones(like, count: int):
    """Ones in f32 on the device of `like`."""
    if hasattr(like, "new_empty"):
        import torch

        return torch.ones(count, dtype=torch.float32, device=like.device)
    if hasattr(like, "aval"):
        import jax.numpy as numpy
    else:
        import numpy
    return numpy.ones(count, numpy.float32)


def scales_of_heads(q, scales, heads: int, shared: int) -> tuple:
    """(a tensor (2, H) f32,), by which the scores and the results of each head of q are multiplied; () if no scale is given."""
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
        one = ones(q, heads)
        if each is not None:
            size = math.prod(described(name, each).shape)
            check_scale(name, each, size, count)
            flat = each.reshape(-1)
            one = one * (flat if size == 1 else repeated(flat, heads // count))
        spread.append(one)
    return (stack((spread[0] * spread[1], spread[2])),)


def strides_of(q, k, v, ragged: bool, paged: bool, step: int) -> dict:
    """The runtime scalars that are strides, in which the kernel counts in 32 bits: of q in units of 16 bytes, of k and v of `unit` bytes."""
    unit = 16 if compiling(q) else _unit_of(k, v, 16 // step)
    steps = {"q": (q, 16 // 8, 16), "k": (k, 16 // step, unit), "v": (v, 16 // step, unit)}
    for name, (each, size, of_each) in steps.items():
        last = sum((size - 1) * stride for size, stride in zip(each.shape, stride_of(each), strict=True)) * size
        if last // of_each >= 1 << 32:
            raise LaunchValueError(
                f"attention: {name} of a cache lies within 2^32 times {of_each} bytes, of which its strides are multiples; not within {last}"
            )
    q_outer, q_query, q_head = (0, *stride_of(q)[:2]) if ragged else (stride_of(q)[i] for i in (0, 2, 1))
    found = [each // 8 for each in (q_outer, q_query, q_head)]
    for each, size, of_each in (steps["k"], steps["v"]):
        # The kernel multiplies the stride of a single element by 0, whatever it is.
        outer, second, third = (
            at if count != 1 else 0 for count, at in zip(each.shape[:3], stride_of(each), strict=False)
        )
        found += [at * size // of_each for at in ((outer, second, third) if paged else (outer, third, second))]
    return dict(zip(STRIDES, (*found, unit), strict=True))


def _unit_of(k, v, size: int) -> int:
    """The largest power of two, up to 2^31, that the bytes of all strides between rows of k and v are multiples of."""
    bytes_ = [
        stride * size
        for each in (k, v)
        for count, stride in zip(each.shape[:3], stride_of(each), strict=False)
        if count > 1
    ]
    both = functools.reduce(math.gcd, bytes_, 1 << 31)
    return both & -both


def stride_of(tensor) -> list:
    """The strides in elements; arrays that do not tell theirs are packed."""
    if hasattr(tensor, "stride"):
        return list(tensor.stride())
    return [math.prod(tensor.shape[at + 1 :]) for at in range(len(tensor.shape))]


def log2(page) -> int:
    return next(each for each in range(31) if page <= 1 << each)


def check(q, k, v, dimensions=("batch", "heads", "length", "D"), types=tuple(TYPES)):
    check_types(q, k, v, dimensions, types)
    ragged = len(dimensions) == 3
    h, d = (q.shape[1], q.shape[2]) if ragged else (q.shape[1], q.shape[3])
    hk, dv = k.shape[1], v.shape[-1]
    fits = k.shape[:-1] == v.shape[:-1] and k.shape[-1] == d and (ragged or q.shape[0] == k.shape[0])
    if not fits:
        refuse_sizes(q, k, v, "N, HK" if ragged else f"{q.shape[0]}, HK, N")
    check_heads(h, hk, d, dv)


def refuse_sizes(q, k, v, before: str):
    raise LaunchValueError(
        f"attention: sizes of q, k, v do not fit: {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}; "
        f"legal are k ({before}, {q.shape[-1]}) and v ({before}, DV)"
    )


def check_types(q, k, v, dimensions, types=tuple(TYPES)):
    named, legal = {"q": q, "k": k, "v": v}, (*TYPES, FP8)
    for name, tensor in named.items():
        described(name, tensor)
        if len(tensor.shape) != len(dimensions):
            raise LaunchValueError(
                f"attention: {name} has {len(dimensions)} dimensions ({', '.join(dimensions)}), not {len(tensor.shape)}"
            )
    found = {name: type_name(tensor) for name, tensor in named.items()}
    odd = [name for name, each in found.items() if each not in legal or each != found["q"]]
    if odd or found["q"] not in types:
        name = odd[0] if odd else "q"
        raise LaunchTypeError(
            f"attention: {name} is of {found[name]}; legal are {', '.join(legal)}, the same for q, k, v"
        )


def check_heads(h: int, hk: int, d: int, dv: int):
    if h % hk if hk else h:
        raise LaunchValueError(f"attention: {h} heads of q cannot share {hk} of k and v: HK divides H")
    if d % 8 or dv % 8 or not 8 <= d <= 256 or not 8 <= dv <= d:
        raise LaunchValueError(f"attention: D is a multiple of 8 up to 256 and DV one up to D, not {d} and {dv}")


def check_pages(q, k, v, lengths, table):
    check_types(q, k, v, ("batch, or pages", "heads, or keys of a page", "length, or heads", "D"))
    check_lengths(int(q.shape[0]), q, k, lengths, table)
    if k.shape[:3] != v.shape[:3] or k.shape[3] != q.shape[3]:
        raise LaunchValueError(
            f"attention: k (P, page, HK, D) and v do not fit q (B, H, M, D): {tuple(k.shape)}, {tuple(v.shape)}, {tuple(q.shape)}"
        )
    page = int(k.shape[1])
    if page < 8 or page & (page - 1):
        raise LaunchValueError(f"attention: a page has a power of two of keys, 8 or more, not {page}")
    check_heads(q.shape[1], k.shape[2], q.shape[3], v.shape[3])


def check_cache(q, k, v, cu_seqlens, lengths, table):
    legal = (*TYPES, FP8)
    for name, tensor, count in (("q", q, 3 if cu_seqlens is not None else 4), ("k", k, 4), ("v", v, 4)):
        described(name, tensor)
        if len(tensor.shape) != count:
            raise LaunchValueError(f"attention: {name} has {count} dimensions beside a cache, not {len(tensor.shape)}")
        if (
            type_name(tensor) not in legal
            or type_name(v) != type_name(k)
            or (type_name(k) != FP8 and type_name(k) != type_name(q))
        ):
            raise LaunchTypeError(
                f"attention: q, k, v are of {type_name(q)}, {type_name(k)}, {type_name(v)}; legal are {', '.join(legal)}, the same for"
                f" k and v, and for q the same or, beside {FP8}, another"
            )
    if isinstance(cu_seqlens, tuple):
        raise LaunchValueError(
            "attention: beside lengths or block_table, cu_seqlens is of q alone; lengths says the rest"
        )
    if cu_seqlens is not None and lengths is None:
        raise LaunchValueError(
            "attention: a cache and cu_seqlens need lengths, (B) int32: how many keys each sequence has"
        )
    if cu_seqlens is not None:
        check_begins(cu_seqlens, q, int(q.shape[0]) if not compiling(q) else None)
    batch = int(q.shape[0]) if cu_seqlens is None else int(cu_seqlens.shape[0]) - 1
    if table is not None or lengths is not None:
        check_lengths(batch, q, k, lengths, table)
    fits = k.shape[:3] == v.shape[:3] and k.shape[3] == q.shape[-1] and (table is not None or k.shape[0] == batch)
    if not fits:
        refuse_sizes(q, k, v, "pages, page, HK" if table is not None else f"{batch}, HK, N")
    page = int(k.shape[1])
    if table is not None and page & (page - 1):
        raise LaunchValueError(f"attention: a page has a power of two of keys, not {page}")
    check_heads(q.shape[1], k.shape[2 if table is not None else 1], q.shape[-1], v.shape[3])
    if type_name(k) == FP8:
        check_sixteens(k.shape[3], v.shape[3])


def check_lengths(batch: int, q, k, lengths, table):
    """`lengths`, and the pages that they reach."""
    if lengths is None:
        raise LaunchValueError("attention: block_table needs lengths, (B) int32: how many keys each sequence has")
    check_integers("lengths", lengths, q)
    if len(lengths.shape) != 1 or lengths.shape[0] != batch:
        raise LaunchValueError(f"attention: lengths is (B) with B = {batch}, not {tuple(lengths.shape)}")
    if table is not None:
        check_integers("block_table", table, q)
        if len(table.shape) != 2 or table.shape[0] != batch:
            raise LaunchValueError(f"attention: block_table is (B, T) with B = {batch}, not {tuple(table.shape)}")
    counts = contents(lengths)
    if counts is None:
        return
    most = int(k.shape[2]) if table is None else int(table.shape[1]) * int(k.shape[1])
    if any(not 0 <= each <= most for each in counts):
        raise LaunchValueError(f"attention: lengths are 0 to {most}, the keys that there is room for, not {counts}")
    rows = contents(table) if table is not None else None
    for count, pages in zip(counts, rows or [[]] * batch, strict=True):
        used = pages[: -(-count // int(k.shape[1]))]
        if any(not 0 <= each < k.shape[0] for each in used):
            raise LaunchValueError(f"attention: block_table has pages 0 to {k.shape[0] - 1}, not {used}")


def check_sixteens(width: int, values: int):
    if width % 16 or values % 16:
        raise LaunchValueError(f"attention: D and DV of {FP8} are multiples of 16, not {width} and {values}")


def dense(tensor, step: int = 8):
    """The tensor, or a copy of it that tensor copies take: rows are contiguous, all strides are multiples of `step` elements."""
    if not hasattr(tensor, "stride"):  # not of torch
        return packed_array(tensor)
    *outer, inner = tensor.stride()
    traced = compiling(tensor)
    begins = traced or begins_at(tensor, step * tensor.itemsize)
    fits = inner == 1 and all(each % step == 0 and (likely(each > 0) if traced else each > 0) for each in outer)
    if not begins:  # where the compiler traces, an address is not known; the launch refuses one that does not fit
        return tensor.contiguous() if not tensor.is_contiguous() else tensor.clone()
    return tensor if fits else tensor.contiguous()


def packed(tensor):
    return tensor.contiguous() if hasattr(tensor, "contiguous") else dense(tensor)


def cast(tensor, name: str):
    if hasattr(tensor, "new_empty"):
        import torch

        return tensor.to(getattr(torch, name)).contiguous()
    import ml_dtypes

    return tensor.astype(getattr(ml_dtypes, name, name))


def check_beside_mask(others: dict):
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise LaunchValueError(
            f"attention: beside mask are legal causal, window, softcap, scale, sinks, lse, out; not {given[0]}"
        )


def refuse_gradients(*tensors):
    """Raises LaunchValueError if a gradient of a cache or of e4m3 is asked for.  Where the compiler traces, that is not known; then the kernel
    refuses it."""
    asked = not compiling(tensors[0]) and any([getattr(each, "requires_grad", False) for each in tensors])
    if asked and recorded(tensors[0]):
        raise LaunchValueError(
            f"attention: with lengths, block_table, or k and v in {FP8} there is no gradient; legal are torch.no_grad() and .detach()"
        )


def bias_of(mask, q, k, v):
    """(the mask as a kernel takes it, its strides as runtime scalars, how many elements are loaded at a time).  A kernel adds the mask to
    scores, and loads it for pairs of keys, if each row begins with a word.  Single ones it loads for values of up to 64 columns; of more it has
    too few registers, so that the mask is copied."""
    kind, whole = type_name(described("mask", mask)), (*q.shape[:3], k.shape[2])
    if kind not in ("bool", type_name(q)):
        raise LaunchTypeError(
            f"attention: mask is of bool, True where a key counts, or of {type_name(q)} as q, added to scores; not of {kind}"
        )
    check_device("mask", mask, q)
    sizes = (1,) * (4 - len(mask.shape)) + tuple(mask.shape)
    if len(sizes) != 4 or any(size not in (1, full) for size, full in zip(sizes, whole, strict=True)):
        raise LaunchValueError(
            f"attention: mask is (B, H, M, N) = {whole}, or 1 where all have the same, not {tuple(mask.shape)}"
        )
    mask = mask.reshape(sizes)
    if kind == "bool":
        mask = where(mask, q)
    strides = stride_of(mask)
    odd = any(stride % 2 for stride, size in zip(strides[:3], sizes, strict=False) if size > 1)
    begins = hasattr(mask, "data_ptr") and (address_of(mask) or 0) % 4
    lies, biased = sizes[3] == whole[3] and strides[3] == 1, 1 if (odd or begins) and v.shape[3] <= 64 else 2
    if not lies or (biased == 2 and (odd or begins)):
        mask, biased = with_even_rows(mask, (*sizes[:3], whole[3])), 2
        strides = stride_of(mask)
    steps = [stride // biased if size > 1 else 0 for stride, size in zip(strides[:3], sizes, strict=False)]
    return mask, {name: step for (_, name), step in zip(BIAS, steps, strict=True)}, biased


def where(mask, q):
    """The bool mask as numbers of q's type: 0 for True, -inf for False."""
    if hasattr(mask, "new_empty"):  # their logarithms, by one launch
        return _logarithms(mask, q.dtype)
    zero, nothing = (filled(q, (1,) * 4, value, type_name(q)) for value in (0.0, -math.inf))
    if hasattr(mask, "aval"):
        import jax.numpy as numpy
    else:
        import numpy
    return numpy.where(mask, zero, nothing)


def _logarithms(mask, dtype):
    import torch

    from pyptx.frameworks.torch.call import is_transformed

    if compiling(mask) or is_transformed():  # neither takes memory for a result
        return mask.log().to(dtype)
    return torch.log(mask, out=mask.new_empty(mask.shape, dtype=dtype))


def with_even_rows(mask, shape):
    """A copy of this shape, whose rows have an even number of elements; the last of an odd number is not read."""
    more = shape[-1] % 2
    if hasattr(mask, "new_empty"):
        made = mask.new_empty((*shape[:-1], shape[-1] + more))
        made[..., : shape[-1]] = mask
        return made
    if hasattr(mask, "aval"):
        import jax.numpy as numpy
    else:
        import numpy
    return numpy.pad(numpy.broadcast_to(mask, shape), [(0, 0)] * 3 + [(0, more)])


def check_out(out, q, k, v):
    """Raises LaunchValueError if `out` shares memory with k or v, or with a part of q.  Tiles are stored while others are still read, but a row
    of the result may take the place of the same row of q.  Raises for another shape or type than the result's."""
    for name, each in (("q", q), ("k", k), ("v", v), ("out", out)):
        described(name, each)
    told = tuple(out.shape), type_name(out)
    own = (*q.shape[:-1], *v.shape[-1:]), "bfloat16" if type_name(q) == FP8 else type_name(q)
    if told != own:
        raise LaunchValueError(f"attention: out is {told[0]} of {told[1]}, the result is {own[0]} of {own[1]}")
    check_apart("attention", out, {"q": q, "k": k, "v": v}, "q")


def copied(result, out):
    return copied_to("attention", out, result)


def is_nothing(*tensors) -> bool:
    """Whether one of the tensors has no elements."""
    return any(0 in each.shape for each in tensors if each is not None)


def filled(like, shape, value: float, name: str):
    if hasattr(like, "new_full"):
        import torch

        return like.new_full(shape, value, dtype=getattr(torch, name))
    if hasattr(like, "aval"):
        import jax.numpy as numpy
    else:
        import numpy
    import ml_dtypes

    return numpy.full(shape, value, getattr(ml_dtypes, name, name))


def memory_of_sums(like, shape):
    """Memory for log-sum-exp, if the caller gives that of the result."""
    if hasattr(like, "new_empty"):
        import torch

        return like.new_empty(shape, dtype=torch.float32)
    import numpy

    return numpy.empty(shape, numpy.float32)
