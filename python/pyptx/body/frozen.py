"""Values as parts of keys of dictionaries."""

from __future__ import annotations

import types
from typing import Any

__all__ = ["frozen", "is_fixed"]

_PLAIN = (int, float, complex, bool, str, bytes, type(None))


def is_fixed(value: Any) -> bool:
    """Whether the object stays what it is, so that nobody has to look into it again."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_fixed, value))
    if hasattr(kind, "__dlpack__") or kind.__hash__ is None:  # arrays, lists
        return False
    return kind.__hash__ is not object.__hash__ or not hasattr(value, "__dict__") or hasattr(kind, "_identity")


def frozen(value):
    """A hashable stand-in that is equal for equal values of one type only: 1, 1.0 and True make three kernels."""
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, tuple):
        return tuple, tuple(frozen(item) for item in value)
    if is_fixed(value):
        return type(value), value
    import pickle  # most kernels have no such value

    try:
        return type(value), pickle.dumps(value)
    except Exception:  # whatever its class raises: then it is what it is by identity, if it can be that
        hash(value)
        return type(value), value
