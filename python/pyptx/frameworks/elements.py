"""The element types of tensors as the faces of frameworks need them; the rows are ptx/arch/elements.def."""

from __future__ import annotations

import functools

from pyptx import _core

__all__ = ["BITS", "FRAMEWORK_NAMES", "REALS", "element_of", "framework_name"]

_ROWS = _core.elements()

# Element -> what frameworks call it, the first by its full name.  Not of elements that no framework has.
FRAMEWORK_NAMES = {name: tuple(filter(None, (full, alias))) for name, _, _, full, alias in _ROWS if full}

BITS = {name: bits for name, bits, *_ in _ROWS}  # of one element in memory

# Types whose scalars hold fractions.
REALS = tuple(name for name, bits, kind, full, _ in _ROWS if kind == "f" and bits >= 16 and full)


@functools.cache
def element_of(dtype) -> str:
    """The element type of the tensors that a Tile of this type takes: `.b32` and `.f16x2` are held in u32."""
    found = _core.element_of(dtype.name, dtype.bits)
    if found is None:
        raise TypeError(f"tensors have no elements of type {dtype.name}")
    return found


def framework_name(element: str) -> str:
    """What PyTorch, JAX and NumPy's extensions call it; TypeError where none of them has it."""
    names = FRAMEWORK_NAMES.get(element)
    if not names:
        raise TypeError(f"no framework has elements of type {element}")
    return names[0]
