"""A short name for what a kernel is, equal in every process that runs the same source under the same Python.

Taken from the bytecode of the body, the values that it closes over and the globals that it reads, and from all that
`@kernel` was told.  Lines, files and addresses do not enter.  A value that cannot be spelled (an open file, say) gets
a number of this process: such a name is right, but another process may find another.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import pickle
import types
from typing import Any

from pyptx import _core

__all__ = ["fingerprint", "reached"]

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...))
_unspelled = itertools.count()


def fingerprint(*values: Any) -> str:
    """Ten hexadecimal digits that stand for the values."""
    digest = hashlib.sha256()
    _feed(digest, values, {})
    return digest.hexdigest()[:10]


def reached(*values: Any) -> list[Any]:
    """The kernels among the values and among what their functions read."""
    seen: dict[int, Any] = {}
    _feed(hashlib.sha256(), values, seen)
    return [value for value in seen.values() if isinstance(value, _core.Launcher)]


def _has_identity(value) -> bool:
    """Kernels, device functions, variables of modules."""
    return hasattr(type(value), "_identity")


def _feed(digest, value, seen: dict[int, Any]):
    def put(*words):
        digest.update("\0".join((type(value).__name__, *map(str, words), "")).encode())

    if isinstance(value, enum.Enum):
        put(value.name)
    elif isinstance(value, _PLAIN):
        put(value.hex() if isinstance(value, float) else repr(value))
    elif isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)):
        put(value.__name__)
    elif id(value) in seen:  # a function that calls itself
        put("seen")
    elif isinstance(value, (tuple, list, frozenset, set, dict)):
        _feed_items(digest, value, put, seen)
    elif isinstance(value, types.CodeType):
        put(value.co_code.hex(), value.co_argcount, value.co_kwonlyargcount)
        _feed(digest, (value.co_consts, value.co_names, value.co_varnames, value.co_freevars), seen)
    elif isinstance(value, types.FunctionType):
        seen[id(value)] = value
        put(value.__name__)
        _feed_function(digest, value, seen)
    elif _has_identity(value):
        seen[id(value)] = value
        _feed(digest, value._identity(), seen)
    else:
        put(_pickled(value))


def _feed_items(digest, value, put, seen):
    put(len(value))
    items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
    for item in value.items() if isinstance(value, dict) else items:
        _feed(digest, item, seen)


def _feed_function(digest, function, seen):
    code = function.__code__
    _feed(digest, (code, function.__defaults__, function.__kwdefaults__), seen)
    for cell in function.__closure__ or ():
        try:
            _feed(digest, cell.cell_contents, seen)
        except ValueError:  # not bound yet
            digest.update(b"empty\0")
    module = function.__module__ or ""  # none where a function was made by exec
    if module.partition(".")[0] == "pyptx" and not module.startswith("pyptx.kernels"):
        return  # the package's own globals belong to its version
    names = _names(code)
    for name in names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        _feed(digest, value, seen)
        if isinstance(value, types.ModuleType):  # `kernels.add`: what it names of the module, where that is a kernel
            _feed(digest, [part for part in (vars(value).get(each) for each in names) if _has_identity(part)], seen)


def _names(code) -> list[str]:
    """Names that the code and the functions inside it may read from the module."""
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _names(constant)
    return list(dict.fromkeys(found))


def _pickled(value) -> str:
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()
    except Exception:  # whatever the value's own class raises
        return f"unspelled {next(_unspelled)}"
