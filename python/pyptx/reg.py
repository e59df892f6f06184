"""Registers: `scalar`, `array`, `from_`.  Operators on a `Reg` write one instruction each."""

from __future__ import annotations

import sys

from pyptx import _names
from pyptx._core import (
    NegPred,
    PipeRef,
    Reg,
    RegArray,
    RegPart,
    alloc,
    alloc_array,
    array,
    from_,
    named,
    scalar,
    scalars,
)
from pyptx.errors import AuthoringValueError
from pyptx.types import PtxType

__all__ = [
    "NegPred",
    "PipeRef",
    "Reg",
    "RegArray",
    "RegPart",
    "alloc",
    "alloc_array",
    "array",
    "from_",
    "named",
    "scalar",
    "scalars",
    "wgmma_frag",
]


def wgmma_frag(*, m: int, n: int, dtype: PtxType, name: str | None = None) -> RegArray:
    """One thread's registers of an (m, n) accumulator that a warpgroup shares.

    Example:
        acc = reg.wgmma_frag(m=64, n=128, dtype=f32)      # 64 registers
    """
    if m * n == 0 or m * n % 128:
        raise AuthoringValueError(f"an accumulator of {m} x {n} does not divide among the 128 threads of a warpgroup")
    return array(dtype, m * n // 128, name)


_names.hints(sys.modules[__name__], "reg")
