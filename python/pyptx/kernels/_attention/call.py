"""`Call`: the arguments of one call of `attention`, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyptx.kernels._attention.arguments import FP8, Masks, checked_sinks, copied, dense, filled, memory_of_sums
from pyptx.kernels._types import type_name

__all__ = ["Call"]


@dataclass(frozen=True)
class Call:
    """The arguments of `attention` by their names there; those that are None say nothing.

    scales: those of q, k and v.
    top_left: whether `causal` aligns the first query with the first key, not the last with the last.
    keep: is told the kernel, its tensors and its options if they need a gradient.
    """

    q: Any
    k: Any
    v: Any
    masks: Masks
    sinks: Any = None
    mask: Any = None
    scales: tuple = (None, None, None)
    cu_seqlens: Any = None
    lengths: Any = None
    table: Any = None
    top_left: bool = False
    lse: bool = False
    deterministic: bool = False
    out: Any = None
    keep: Callable | None = None

    def beside(self) -> tuple:
        """What kernels take beside q, k and v: the sinks in f32, if there are any."""
        return () if self.sinks is None else (checked_sinks(self.sinks, self.q.shape[1]),)

    def result_of(self, run, tensors, options: dict, sums: tuple, strided: bool = True):
        """Runs the kernel and returns its result; (result, log-sum-exp, with shape `sums`) if `lse`.  The result is written to `out`, by a copy if
        the kernel cannot write there: unless `strided`, it writes packed memory only."""
        out = self.out
        if out is None:
            result = run(*tensors, **options)
        elif dense(out) is not out or (hasattr(out, "is_contiguous") and not (strided or out.is_contiguous())):
            result = run(*tensors, **options)
            result = copied(result[0], out), result[1]
        else:
            result = run(*tensors, out=(out, memory_of_sums(tensors[0], sums)), **options)
        return result[:2] if self.lse else result[0]  # behind these JAX has what the kernel changes

    def given_back(self, results: tuple):
        """What the call returns of (the result, the log-sum-exp), which lie in memory of their own."""
        result, logs = results
        if self.out is not None:
            result = copied(result, self.out)
        return (result, logs) if self.lse else result

    def nothing(self, beside: tuple):
        """What the call returns if there are no queries or no keys: zeros, and log-sum-exp of sinks alone.  The gradients are 0."""
        q, lines = self.q, self.q.shape[:-1]
        narrow = type_name(q) == FP8
        result = filled(q, (*lines, self.v.shape[-1]), 0.0, "bfloat16" if narrow else type_name(q))
        logs = filled(q, lines if len(lines) == 3 else lines[::-1], 0.0 if beside else -math.inf, "float32")
        for sinks in beside:
            logs = logs + sinks.reshape(-1, 1)
        if not narrow:
            # JAX's sinks would widen the result.
            result = result + sum(
                each[..., :0].sum() for each in (q, self.k, self.v, *(beside if hasattr(q, "storage_offset") else ()))
            )
        return self.given_back((result, logs))
