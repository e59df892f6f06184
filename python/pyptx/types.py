"""The types that PTX names, as values: `f32`, `u64`, `pred`.  `PtxType.ptx` is the spelling with its dot."""

from __future__ import annotations

from pyptx._core import PtxType

b8, b16, b32, b64, b128 = (PtxType(f"b{n}", n) for n in (8, 16, 32, 64, 128))
u8, u16, u32, u64 = (PtxType(f"u{n}", n) for n in (8, 16, 32, 64))
s8, s16, s32, s64 = (PtxType(f"s{n}", n) for n in (8, 16, 32, 64))
f16, f16x2 = PtxType("f16", 16), PtxType("f16x2", 32)
bf16, bf16x2 = PtxType("bf16", 16), PtxType("bf16x2", 32)
tf32, f32, f64 = PtxType("tf32", 32), PtxType("f32", 32), PtxType("f64", 64)
e4m3, e5m2 = PtxType("e4m3", 8), PtxType("e5m2", 8)
pred = PtxType("pred", 1)

_BY_NAME = {value.name: value for value in list(globals().values()) if isinstance(value, PtxType)}

__all__ = ["PtxType", "from_name", *_BY_NAME]


def from_name(name: str) -> PtxType:
    """The type called `name`, with or without its dot."""
    found = _BY_NAME.get(name.removeprefix("."))
    if found is None:
        raise ValueError(f"unknown PTX type {name!r}; known: {', '.join(_BY_NAME)}")
    return found
