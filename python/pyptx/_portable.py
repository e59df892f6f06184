"""Kernels in other processes: by module and name where they are found so, else by what defines them, the code of functions
and what it closes over.  State of this process (texts, plans, what a framework keeps) does not travel.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import marshal
import pickle
import sys
import types
from typing import Any

__all__ = ["dumps", "is_named"]


def is_named(value: Any) -> bool:
    """Whether its module has it under its name."""
    found = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


class _Pickler(pickle.Pickler):
    """Also takes modules, and functions that no module has under their name."""

    def reducer_override(self, value):
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if not isinstance(value, types.FunctionType) or is_named(value):
            return NotImplemented
        code = importlib.util.MAGIC_NUMBER, marshal.dumps(value.__code__)
        names = value.__module__, value.__name__, value.__qualname__
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        return _function, (code, names, value.__defaults__, value.__kwdefaults__, cells)


def _function(code, names, defaults, keyword_defaults, closed):
    magic, code = code
    module, name, qualified = names
    if magic != importlib.util.MAGIC_NUMBER:
        raise pickle.UnpicklingError(
            f"{qualified} was pickled by another version of Python; what stands at the level of a module travels by its name"
        )
    scope = vars(importlib.import_module(module)) if module else {"__builtins__": __builtins__}
    made = types.FunctionType(marshal.loads(code), scope, name, defaults, tuple(map(types.CellType, closed)))
    made.__qualname__, made.__module__, made.__kwdefaults__ = qualified, module, keyword_defaults
    return made


def dumps(what: str, value: Any) -> bytes:
    """The value as bytes for `pickle.loads`."""
    file = io.BytesIO()
    try:
        _Pickler(file, protocol=4).dump(value)
    except (RecursionError, ValueError, TypeError, AttributeError) as error:
        raise pickle.PicklingError(
            f"{what} is no name of its module, and what it closes over cannot be pickled: {error}. Define it at the level of "
            "a module"
        ) from error
    return file.getvalue()
