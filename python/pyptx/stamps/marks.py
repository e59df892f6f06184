"""Places that an author names, `ptx.mark` and `ptx.region`: directives in the copy that `pyptx.timeline` launches, nothing in the kernel.

It knows neither kernels nor the copy: `writing()` says that the body is traced for one.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyptx import _core
from pyptx.errors import AuthoringTypeError, AuthoringValueError

__all__ = ["mark", "read", "region", "writing"]

_thread = threading.local()
_LONGEST = 60


@contextmanager
def writing() -> Iterator[None]:
    """Bodies that this thread traces inside write their marks."""
    before = getattr(_thread, "writing", False)
    _thread.writing = True
    try:
        yield
    finally:
        _thread.writing = before


def mark(name: str) -> None:
    """A place where `pyptx.timeline` records the time of each warp.  It writes no instruction into the kernel itself.

    `name`: 1 to 60 printable characters of ASCII without `"` and `\\`; several places may have one name.

    Example:
        ptx.mark("tile done")
    """
    _write("mark", _checked(name))


class region:  # a class, as contextlib's frame would be taken for the author's line
    """A block whose time `pyptx.timeline` records for each warp.  Like `mark`, it writes no instruction into the kernel itself.

    Leave the block at its end: after a `ptx.ret` or a branch out of it there is no second stamp, and the region lasts until the
    end of the kernel.

    Example:
        with ptx.region("load"):
            ptx.inst.ld.global_.u32(x, ptx.addr(px))
    """

    def __init__(self, name: str):
        self._name = _checked(name)

    def __enter__(self) -> None:
        _write("begin", self._name)

    def __exit__(self, *_: object) -> None:
        _write("end", self._name)


def _checked(name: str) -> str:
    if not isinstance(name, str):
        raise AuthoringTypeError(f'the name of a place is a string, "load", not {name!r}')
    if not re.fullmatch(rf"[ !#-\[\]-~]{{1,{_LONGEST}}}", name):
        raise AuthoringValueError(
            f'{name!r} names no place: 1 to {_LONGEST} printable characters of ASCII, without " and \\, as "load"'
        )
    return name


def _write(kind: str, name: str) -> None:
    if getattr(_thread, "writing", False):
        _core.directive(f'.pragma "pyptx {kind} {name}";')


def read(pragma: str) -> tuple[str, str] | None:
    """Kind ("mark", "begin", "end") and name of a directive that was written here; None for others."""
    found = re.fullmatch(r'"pyptx (mark|begin|end) (.*)"', pragma)
    return (found[1], found[2]) if found else None
