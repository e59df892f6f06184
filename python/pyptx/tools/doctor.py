"""The report of `pyptx doctor`: the assemblers, GPUs and packages that were found."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

from pyptx import _core
from pyptx.errors import AssemblerError


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _gpus() -> list[str]:
    return [f"{name}, compute capability {major}.{minor}" for name, major, minor in _core.devices()]


def _assemblers() -> list[tuple[str, str]]:
    """The assembler of a text that all of them read, then each that was found and why it is taken or not."""
    from pyptx.assembler import found

    try:
        rows = [("assembler", _core.assembler_description())]
        return rows + [("" if index else "  of these", str(one)) for index, one in enumerate(found())]
    except AssemblerError as error:  # of PYPTX_ASSEMBLER
        return [("assembler", str(error))]


def report() -> str:
    """A page of `name: value` lines."""
    from pyptx import __version__

    gpus = _gpus()
    rows = [
        ("pyptx", __version__),
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("machine", f"{platform.platform()}, {os.cpu_count()} CPUs"),
        *((package, _version(package)) for package in ("torch", "numpy", "jax")),
        ("CUDA driver", _core.driver_version() or "none"),
        *((f"GPU {index}", text) for index, text in enumerate(gpus)),
        *_assemblers(),
        ("disassembler", _core.disassembler_description()),
        ("CPU tensors", "run on the simulator"),
        ("CUDA tensors", "run on their device" if gpus else "cannot exist here: no CUDA device"),
    ]
    width = max(len(name) for name, _ in rows) + 1
    return "\n".join(f"{name + ':' if name else '':<{width}} {value}" for name, value in rows)
