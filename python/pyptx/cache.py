"""The cache of machine code on disk, which all processes of a user share.

Entries are cubins, found by the hash of text, target, options and assembler.  `PYPTX_CACHE_DIR` names
the folder (empty: nothing is kept), else it is `pyptx/` in `$XDG_CACHE_HOME` or `~/.cache`; `PYPTX_CACHE_BYTES` bounds it.

`CubinCache` and what belongs to it are names of 0.1.1.  Kernels do not use them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyptx import _core
from pyptx.compat.cubins import (
    DEFAULT_CACHE_DIR,
    CacheEntry,
    CacheKey,
    CubinCache,
    get_global_cache,
    set_global_cache,
)

__all__ = [
    "DEFAULT_CACHE_DIR",
    "CacheEntry",
    "CacheKey",
    "CubinCache",
    "Status",
    "clear",
    "get_global_cache",
    "set_global_cache",
    "status",
    "trim",
]


@dataclass(frozen=True)
class Status:
    """The state of the cache, with sizes in bytes.  `folder` is empty if the cache is off.

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
    """The present state of the cache.

    Example:
        print(pyptx.cache.status())
    """
    return Status(*_core.cache_status())


def trim(most_bytes: int | None = None) -> int:
    """Removes the least recently used entries until the rest has at most so many bytes; returns the number of removed ones.

    Example:
        removed = pyptx.cache.trim(1 << 30)
    """
    return _core.cache_trim(status().most_bytes if most_bytes is None else most_bytes)


def clear() -> int:
    """Removes every entry, and returns their number.  Code that a process has loaded stays loaded.

    Example:
        removed = pyptx.cache.clear()
    """
    return _core.cache_trim(0)
