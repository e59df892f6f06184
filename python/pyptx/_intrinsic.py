"""`@intrinsic`: a Python function whose instructions stand between two comments that say which call wrote them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from pyptx import _core

__all__ = ["intrinsic"]


def _shown(value) -> str:
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def intrinsic(function: Callable) -> Callable:
    """Puts the instructions of each call between two comments:  // BEGIN name(arguments) ... // END name

    Example:
        @pyptx.intrinsic
        def twice(v):
            v += v

        @kernel
        def k():
            twice(reg.scalar(u32, init=1))    # // BEGIN twice(%r0) ... // END twice
            ptx.ret()

        k.ptx()
    """

    @functools.wraps(function)
    def scoped(*args, **kwargs):
        if _core.current_trace() is None:
            return function(*args, **kwargs)
        shown = [_shown(value) for value in args] + [f"{name}={_shown(value)}" for name, value in kwargs.items()]
        with _core.intrinsic_scope(f"{function.__name__}({', '.join(shown)})"):
            return function(*args, **kwargs)

    scoped.__is_ptx_intrinsic__ = True
    return scoped
