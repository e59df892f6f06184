"""What the command reads and writes: files and the standard streams.  What is wrong with one is an `Unusable` that names it."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

__all__ = ["Unusable", "read", "shown", "uri", "write"]

_MOST = 1 << 30  # bytes of one file: what never ends (/dev/zero) has to end somewhere


class Unusable(Exception):
    """A file that cannot be read, written or understood.  The text names it and says why."""


def shown(file: str) -> str:
    """The name for people: `-` is the standard input, and bytes that are no text are escaped."""
    return "<stdin>" if file == "-" else file.encode("utf-8", "backslashreplace").decode()


def uri(file: str) -> str:
    """The name as a URI reference: relative names stay relative."""
    from urllib.parse import quote

    path = quote(os.fsencode(shown(file) if file == "-" else file))
    return f"file://{path}" if path.startswith("/") else path


@contextmanager
def _named(file: str):
    try:
        yield
    except OSError as error:
        raise Unusable(f"{shown(file)}: {error.strerror or error}") from None


_read: object = None  # the standard input that was read


def read(file: str) -> bytes:
    """The content of a file, or of the standard input where it is called `-`."""
    global _read
    with _named(file):
        if file != "-":
            with open(file, "rb") as stream:
                content = stream.read(_MOST + 1)
        elif sys.stdin is None:
            raise Unusable("<stdin>: it is closed")
        else:
            content = sys.stdin.buffer.read(_MOST + 1)
            if not content and _read is sys.stdin:
                raise Unusable("<stdin>: it has been read already: give `-` only once")
            _read = sys.stdin
    if len(content) > _MOST:
        raise Unusable(f"{shown(file)}: it has more than {_MOST:,} bytes")
    return content


def write(file: str, *parts) -> None:
    with _named(file), open(file, "wb") as stream:
        for part in parts:
            stream.write(part)
