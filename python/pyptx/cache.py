"""What was assembled and is kept on disk, for every process of this user.

Entries are cubins under the hash of all that they depend on (text, target, options, assembler).  `PYPTX_CACHE_DIR` names
the folder (empty: nothing is kept), else it is `pyptx/` in `$XDG_CACHE_HOME` or `~/.cache`; `PYPTX_CACHE_BYTES` bounds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyptx import _core

__all__ = ["Status", "clear", "status", "trim"]


@dataclass(frozen=True)
class Status:
    """`folder` is empty where nothing is kept; sizes in bytes.

    Example:
        folder = pyptx.cache.status().folder
    """

    folder: str
    entries: int
    bytes: int
    most_bytes: int

    def __str__(self):
        if not self.folder:
            return "no cache: PYPTX_CACHE_DIR is empty"
        return f"{self.folder}: {self.entries} entries, {self.bytes:,} bytes of at most {self.most_bytes:,}"


def status() -> Status:
    """What the folder holds now.

    Example:
        print(pyptx.cache.status())
    """
    return Status(*_core.cache_status())


def trim(most_bytes: int | None = None) -> int:
    """Removes the least recently used entries until the rest has at most so many bytes; how many went.

    Example:
        removed = pyptx.cache.trim(1 << 30)
    """
    return _core.cache_trim(status().most_bytes if most_bytes is None else most_bytes)


def clear() -> int:
    """Removes every entry; how many there were.  What a process has loaded stays loaded.

    Example:
        removed = pyptx.cache.clear()
    """
    return _core.cache_trim(0)
