"""What this installation can do: the report of `pyptx doctor`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _gpus() -> list[str]:
    from pyptx import _core

    return [f"{name}, compute capability {major}.{minor}" for name, major, minor in _core.devices()]


def report() -> str:
    """A page of `name: value` lines."""
    from pyptx import __version__, _core

    gpus = _gpus()
    rows = [
        ("pyptx", __version__),
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("machine", f"{platform.platform()}, {os.cpu_count()} CPUs"),
        *((package, _version(package)) for package in ("torch", "numpy", "jax")),
        ("CUDA driver", _core.driver_version() or "none"),
        *((f"GPU {index}", text) for index, text in enumerate(gpus)),
        ("assembler", _core.assembler_description()),
        ("disassembler", _core.disassembler_description()),
        ("CPU tensors", "run on the simulator"),
        ("CUDA tensors", "run on their device" if gpus else "cannot exist here: no CUDA device"),
    ]
    width = max(len(name) for name, _ in rows) + 1
    return "\n".join(f"{name + ':':<{width}} {value}" for name, value in rows)
