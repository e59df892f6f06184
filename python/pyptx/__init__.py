"""Write NVIDIA PTX by hand, from Python or C++, and run it anywhere.

The function under `@kernel` is the PTX stream: one call, one instruction.  See `kernel`, `ptx`, `reg`, `smem`, `Tile`.
"""

from __future__ import annotations

import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

from pyptx import _core

_core.set_package_folder(_os.path.dirname(__file__) + _os.sep)

from pyptx import ptx, reg, smem  # noqa: E402
from pyptx._arch import detect_arch  # noqa: E402
from pyptx._diff import diff  # noqa: E402
from pyptx._intrinsic import intrinsic  # noqa: E402
from pyptx.frameworks.differentiable import differentiable_kernel  # noqa: E402
from pyptx.kernel import kernel  # noqa: E402
from pyptx.replay import replay  # noqa: E402
from pyptx.simulator import simulator  # noqa: E402
from pyptx.specs import Layout, Tile  # noqa: E402

if _TYPE_CHECKING:
    from collections.abc import Iterable as _Iterable
    from typing import Any as _Any

    from pyptx.ir import Module as _Module

__version__: str = _core.version
__all__ = [
    "Layout",
    "Tile",
    "compile",
    "detect_arch",
    "diff",
    "differentiable_kernel",
    "intrinsic",
    "kernel",
    "parse",
    "ptx",
    "reg",
    "replay",
    "simulator",
    "smem",
]


def parse(source: str | bytes, *, file: str = "") -> _Module:
    """A PTX text as objects, a `pyptx.ir.Module`; never fails.  `pyptx.parser.parse`.

    Example:
        module = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { ret; }")
        assert [str(i) for i in module.find("ret")] == ["ret;"]
    """
    from pyptx import parser

    return parser.parse(source, file=file)


def compile(kernels: _Iterable[_Any], threads: int | None = None) -> None:
    """Traces and assembles kernels before they are called, several at once: [kernel, (kernel, {"M": 4096})].

    Example:
        @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
        def k(X, Y):
            ptx.ret()

        pyptx.compile([k, (k, {"N": 4096})])
    """
    from pyptx.launch import resources

    return resources.compile(kernels, threads)
