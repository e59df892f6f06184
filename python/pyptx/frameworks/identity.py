"""A short name for what a kernel is, equal in every process that runs the same source under the same Python.

Taken from the bytecode of the body and all that it reads (pyptx/body/reads.py), and from all that `@kernel` was told.  Lines,
files and addresses do not enter.  A value that cannot be spelled (an open file, say) gets a number of this process: such a
name is right, but another process may find another.
"""

from __future__ import annotations

import itertools
from typing import Any

from pyptx import _core
from pyptx.body.reads import Walk

__all__ = ["fingerprint", "reached"]

_unspelled = itertools.count()


def _walk(values) -> Walk:
    home = getattr(values[0], "__module__", None) or ""
    return Walk(*values, home=home, unspelled=lambda value: f"unspelled {next(_unspelled)}")


def fingerprint(*values: Any) -> str:
    """Ten hexadecimal digits that stand for the values."""
    return _walk(values).digest()[:10]


def reached(*values: Any) -> list[Any]:
    """The kernels among the values and among what their functions read."""
    return [value for value in _walk(values).reached.values() if isinstance(value, _core.Launcher)]
