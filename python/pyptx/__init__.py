"""Write NVIDIA PTX by hand, from Python or C++, and run it anywhere.

The function under `@kernel` is the PTX stream: one call, one instruction.  See `kernel`, `ptx`, `reg`, `smem`, `Tile`.
"""

from __future__ import annotations

import os as _os

from pyptx import _core

_core.set_package_folder(_os.path.dirname(__file__) + _os.sep)

from pyptx import ptx, reg, simulator, smem  # noqa: E402
from pyptx._arch import detect_arch  # noqa: E402
from pyptx._intrinsic import intrinsic  # noqa: E402
from pyptx.frameworks.differentiable import differentiable_kernel  # noqa: E402
from pyptx.kernel import kernel  # noqa: E402
from pyptx.specs import Layout, Tile  # noqa: E402

__version__: str = _core.version
__all__ = [
    "Layout",
    "Tile",
    "compile",
    "detect_arch",
    "differentiable_kernel",
    "intrinsic",
    "kernel",
    "ptx",
    "reg",
    "simulator",
    "smem",
]


def compile(kernels, threads=None):
    """Traces and assembles kernels before they are called, several at once: [kernel, (kernel, {"M": 4096})].

    Example:
        @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
        def k(X, Y):
            ptx.ret()

        pyptx.compile([k, (k, {"N": 4096})])
    """
    from pyptx.launch import resources

    return resources.compile(kernels, threads)
