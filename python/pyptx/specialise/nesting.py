"""Texts that are being written by this thread, so that a body that asks for its own is told so, and does not ask without end."""

from __future__ import annotations

import threading
from typing import Any

from pyptx import _core
from pyptx.errors import AuthoringRuntimeError

__all__ = ["Writing"]

_OPEN = 3008  # ptx/base/diagnostic.def
_DEEPEST = 16  # texts of one kernel that ask for each other: for other template values each, they could end


class _Begun(threading.local):
    def __init__(self) -> None:
        self.asked: dict[int, list[Any]] = {}  # by what writes: what it was asked for, outermost first


_begun = _Begun()


class Writing:
    """`with Writing(kept, name, asked)`: `kept` writes the text of the kernel `name` for `asked`; refused if it does so already."""

    __slots__ = ("asked", "kept", "name")

    def __init__(self, kept: Any, name: str, asked: Any):
        self.kept, self.name, self.asked = id(kept), name, asked

    def __enter__(self) -> None:
        begun = _begun.asked.setdefault(self.kept, [])
        if self.asked in begun or len(begun) == _DEEPEST:
            message = (
                f"kernel {self.name} is asked for while its text is being written, by its own body or by what that calls; "
                "what a body calls is a function of Python, or a device function, @ptx.func, which may call itself"
            )
            found = _core.Diagnostic(_OPEN, *_core.author_place(), message)
            raise AuthoringRuntimeError(str(found), [found])
        begun.append(self.asked)

    def __exit__(self, *error: object) -> None:
        begun = _begun.asked[self.kept]
        begun.pop()
        if not begun:
            del _begun.asked[self.kept]
