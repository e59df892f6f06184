"""What pyptx 0.1.1 kept of compiled kernels: `CubinCache` of `pyptx.cache`, and `CubinRegistry` of `pyptx.jax_support`.

Kernels use neither.  They are for programs that keep machine code of their own in them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

__all__ = [
    "DEFAULT_CACHE_DIR",
    "CacheEntry",
    "CacheKey",
    "CubinCache",
    "CubinRecord",
    "CubinRegistry",
    "get_cubin_registry",
    "get_global_cache",
    "set_global_cache",
]

DEFAULT_CACHE_DIR = Path(os.environ.get("PYPTX_CACHE_DIR") or Path.home() / ".cache" / "pyptx")


@dataclass(frozen=True)
class CacheKey:
    """What a cubin is found by: a kernel and its arguments.  `hash()` is the name of its files.

    Example:
        from pyptx.cache import CacheKey

        assert len(CacheKey("k", {"N": 4}, ((4,),), "sm_90a").hash()) == 32
    """

    fn_id: str
    template_kwargs: Any
    input_shapes: Any
    arch: str

    def hash(self) -> str:
        """32 hexadecimal digits: of the SHA-256 of the fields as sorted JSON."""
        return sha256(json.dumps(vars(self), sort_keys=True, default=str).encode()).hexdigest()[:32]


@dataclass
class CacheEntry:
    """The text and the machine code of a key.

    Example:
        from pyptx.cache import CacheEntry, CacheKey

        entry = CacheEntry(CacheKey("k", {}, ((4,),), "sm_90a"), "// PTX", b"", {"registers": 24})
    """

    key: CacheKey
    ptx_source: str
    cubin_bytes: bytes
    metadata: dict[str, Any] = field(default_factory=dict)


class CubinCache:
    """Entries in memory and, with `enable_disk`, in `cache_dir`: a .json, a .ptx and a .cubin of each.

    Example:
        from pyptx.cache import CacheEntry, CacheKey, CubinCache

        cache, key = CubinCache(enable_disk=False), CacheKey("k", {"N": 4}, ((4,),), "sm_90a")
        cache.put(CacheEntry(key, "// PTX", b""))
        assert key in cache and cache.get(key).ptx_source == "// PTX"
    """

    def __init__(self, cache_dir: str | os.PathLike[str] | None = None, enable_disk: bool = True):
        self.cache_dir = DEFAULT_CACHE_DIR if cache_dir is None else Path(cache_dir)
        self.enable_disk = enable_disk
        self._entries: dict[str, CacheEntry] = {}

    def _files(self, name: str) -> list[Path]:
        return [self.cache_dir / f"{name}.{kind}" for kind in ("ptx", "cubin", "json")]

    def get(self, key: CacheKey) -> CacheEntry | None:
        """The entry of a key; None where there is none, or none that is whole."""
        name = key.hash()
        if name not in self._entries and self.enable_disk:
            text, code, facts = self._files(name)
            try:
                entry = CacheEntry(key, text.read_text(), code.read_bytes(), json.loads(facts.read_text())["metadata"])
            except (OSError, ValueError, KeyError):
                return None
            self._entries[name] = entry
        return self._entries.get(name)

    def put(self, entry: CacheEntry) -> None:
        """Keeps an entry.  On disk the .json comes last, so an entry that another process sees is whole."""
        name = entry.key.hash()
        self._entries[name] = entry
        if not self.enable_disk:
            return
        self.cache_dir.mkdir(parents=True, exist_ok=True)
        facts = json.dumps({"key": vars(entry.key), "metadata": entry.metadata}, default=str)
        for file, data in zip(
            self._files(name), (entry.ptx_source.encode(), entry.cubin_bytes, facts.encode()), strict=True
        ):
            beside = file.with_name(f"{file.name}.{os.getpid()}")
            beside.write_bytes(data)
            beside.replace(file)

    def clear(self, *, disk: bool = False) -> None:
        """Forgets all entries; with `disk` also those in the folder, and nothing else that lies there."""
        self._entries.clear()
        for facts in self.cache_dir.glob("*.json") if disk else ():
            for file in self._files(facts.stem):
                file.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: CacheKey) -> bool:
        return self.get(key) is not None


_global_cache: CubinCache | None = None


def get_global_cache() -> CubinCache:
    """The cache of this process: one in DEFAULT_CACHE_DIR, unless `set_global_cache` gave another.

    Example:
        from pyptx.cache import get_global_cache

        assert get_global_cache() is get_global_cache()
    """
    global _global_cache
    if _global_cache is None:
        _global_cache = CubinCache()
    return _global_cache


def set_global_cache(cache: CubinCache | None) -> None:
    """What `get_global_cache` returns from now on.

    Example:
        from pyptx.cache import CubinCache, set_global_cache

        set_global_cache(CubinCache(enable_disk=False))
    """
    global _global_cache
    _global_cache = cache


@dataclass
class CubinRecord:
    """A compiled kernel and its launch.

    Example:
        from pyptx.jax_support import CubinRecord

        record = CubinRecord(1, "// PTX", "add", block=(128, 1, 1))
    """

    handle: int
    ptx_source: str
    kernel_name: str
    smem_bytes: int = 0
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    cu_function: Any = None
    module: Any = None
    cubin_bytes: bytes | None = None


class CubinRegistry:
    """Records by number, from 1 on.

    Example:
        from pyptx.jax_support import CubinRegistry

        registry = CubinRegistry()
        assert registry.get(registry.register("// PTX", "add")).kernel_name == "add"
    """

    def __init__(self) -> None:
        self._records: dict[int, CubinRecord] = {}
        self._last = 0

    def register(
        self,
        ptx_source: str,
        kernel_name: str,
        cubin_bytes: bytes | None = None,
        smem_bytes: int = 0,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (1, 1, 1),
        cu_function: Any = None,
        module: Any = None,
    ) -> int:
        """Keeps a record, and returns its number.  No number is given twice, also not after `clear`."""
        self._last += 1
        self._records[self._last] = CubinRecord(
            self._last, ptx_source, kernel_name, smem_bytes, grid, block, cu_function, module, cubin_bytes
        )
        return self._last

    def get(self, handle: int) -> CubinRecord:
        """The record of a number; KeyError where there is none."""
        return self._records[handle]

    def clear(self) -> None:
        self._records.clear()

    def __len__(self) -> int:
        return len(self._records)


_registry = CubinRegistry()


def get_cubin_registry() -> CubinRegistry:
    """The registry of this process.  Calls of kernels leave it as it is: they need no numbers.

    Example:
        from pyptx.jax_support import get_cubin_registry

        assert get_cubin_registry() is get_cubin_registry()
    """
    return _registry
