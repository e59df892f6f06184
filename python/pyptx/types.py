"""The types that PTX names, as values: `f32`, `u64`, `pred`.  `PtxType.ptx` is the spelling with its dot.

There is one value for each row of ptx/isa/types.def; `types.pyi` lists them for editors and is made by the build.
"""

from __future__ import annotations

from pyptx._core import PtxType, types

_BY_NAME = {name: PtxType(name, bits) for name, bits in types()}
globals().update(_BY_NAME)

__all__ = ["PtxType", "from_name", *_BY_NAME]


def from_name(name: str) -> PtxType:
    """The type called `name`, with or without its dot.

    Example:
        assert pyptx.types.from_name(".u32") is u32
    """
    found = _BY_NAME.get(name.removeprefix("."))
    if found is None:
        raise ValueError(f"unknown PTX type {name!r}; known: {', '.join(_BY_NAME)}")
    return found
