"""Kernels, functions and modules of kernels in other processes: by module and name where they are found so, else by what defines them, the code of functions
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
from collections.abc import Iterable
from typing import Any

from pyptx import _core

__all__ = ["reduce"]

_IN_CPP = type(_core.addr), type(_core.mbarrier.init)


def reduce(value: Any, what: str, places: Iterable[str]) -> str | tuple:
    """What `__reduce__` of a kernel, a function or a module of kernels returns; its `_definition()` is (function, arguments)
    that make it anew.  `places`: names of the modules in which it and the variables that it uses may have a name."""
    if _is_named(value):
        return value.__qualname__
    places = tuple(dict.fromkeys(places))
    return _place(value, places) or (_loads, (_dumps(value, what, places),))


def _is_named(value: Any) -> bool:
    """Whether its module has it under its name."""
    found = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in (getattr(value, "__qualname__", None) or "?").split("."):
        found = getattr(found, part, None)
    return found is value


def _place(value: Any, places: tuple[str, ...]) -> tuple | None:
    """The name that one of these modules has for it: variables and modules of kernels do not know theirs."""
    for module in places:
        for name, found in vars(sys.modules.get(module, object)).items():
            if found is value:
                return _at, (module, name)
    return None


def _at(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _part(value: Any, path: str) -> Any:
    """What lies there, "inst.ld.global_", or None."""
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


def _of_library(path: str) -> Any:
    from pyptx import ptx  # noqa: F401, a part of the package

    return _part(_core, path) or _part(sys.modules["pyptx"], path)


def _written(value: Any) -> str | None:
    """The name of an instruction, or of a function of this package in C++: they cannot say it to pickle."""
    if isinstance(value, type(_core.inst)):
        return repr(value)[len("<ptx.") : -1]
    name = getattr(value, "__qualname__", None)
    return name if type(value) in _IN_CPP and _of_library(name) is value else None


class _Pickler(pickle.Pickler):
    """Also takes modules, instructions, and functions, kernels and variables that no module has under their name."""

    def __init__(self, file, places: tuple[str, ...]):
        super().__init__(file, protocol=4)
        self._places = places

    def reducer_override(self, value):
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if name := _written(value):
            return _of_library, (name,)
        if hasattr(type(value), "_identity") and not _is_named(value):
            if place := _place(value, self._places):
                return place
            if hasattr(type(value), "_definition"):
                return value._definition()
        if not isinstance(value, types.FunctionType) or _is_named(value):
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
            f"{qualified} was pickled by another version of Python; a kernel at the top level of a module is pickled by its name instead"
        )
    scope = vars(importlib.import_module(module)) if module else {"__builtins__": __builtins__}
    made = types.FunctionType(marshal.loads(code), scope, name, defaults, tuple(map(types.CellType, closed)))
    made.__qualname__, made.__module__, made.__kwdefaults__ = qualified, module, keyword_defaults
    return made


def _dumps(value: Any, what: str, places: tuple[str, ...]) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, places).dump(value)
    except (RecursionError, ValueError, TypeError, AttributeError) as error:
        raise pickle.PicklingError(
            f"{what} is not a name of its module, and its closure cannot be pickled: {error}. Define it at the level of "
            "a module"
        ) from error
    return file.getvalue()


def _loads(definition: bytes) -> Any:
    return pickle.loads(definition)
