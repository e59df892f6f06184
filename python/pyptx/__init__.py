"""Write NVIDIA PTX by hand; run it on a GPU, or on a simulator.

The function under `@kernel` is the PTX stream: one call, one instruction.  See `kernel`, `ptx`, `reg`, `smem`, `Tile`.
"""

from __future__ import annotations

import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

from pyptx import _core

_core.set_package_folder(_os.path.dirname(__file__) + _os.sep)

from pyptx import ptx, reg, smem  # noqa: E402
from pyptx._arch import detect_arch  # noqa: E402
from pyptx._intrinsic import intrinsic  # noqa: E402
from pyptx.frameworks.differentiable import differentiable_kernel  # noqa: E402
from pyptx.kernel import kernel  # noqa: E402
from pyptx.launch.diff import diff as diff  # noqa: E402
from pyptx.replay import replay as replay  # noqa: E402
from pyptx.simulator import simulator as simulator  # noqa: E402
from pyptx.specs import Im2col as Im2col  # noqa: E402
from pyptx.specs import Layout, Tile  # noqa: E402

if _TYPE_CHECKING:
    from collections.abc import Iterable as _Iterable
    from typing import Any as _Any

    from pyptx.ir import Module as _Module
    from pyptx.stamps.recorder import Timeline as _Timeline

__version__: str = _core.version
# What 0.1.1 had; `from pyptx import *` shall not hide Python's own `compile`.
__all__ = [
    "Layout",
    "Tile",
    "detect_arch",
    "differentiable_kernel",
    "intrinsic",
    "kernel",
    "ptx",
    "reg",
    "smem",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "Im2col", "__version__", "compile", "diff", "parse", "replay", "simulator", "timeline"])


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

    An item may be a function without arguments.  It is called, and the kernels that it calls with torch's tensors are assembled, but not
    launched: their results have the right shapes, and no values.  That holds for calls in this thread; on a GPU, torch runs backwards in
    another one, where kernels are launched.

    Example:
        @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
        def k(X, Y):
            ptx.ret()

        pyptx.compile([k, (k, {"N": 4096})])
    """
    from pyptx.launch import resources

    return resources.compile(kernels, threads)


def timeline(
    kernel: _Any = None,
    *,
    ctas: int | None = None,
    records: int = 1024,
    fine: bool = False,
    waits: bool = True,
    measure: bool = True,
) -> _Timeline:
    """Records when the warps of a kernel work and wait: `with pyptx.timeline(k) as t: y = k(x)`.  docs/timeline.md explains it.

    Calls inside the block launch a copy of the kernel with stamps: records of the time at `ptx.mark` and `ptx.region`, at the
    beginning and the end of the kernel, and (`waits`) around loops that poll an mbarrier or a flag, bar.sync, wgmma.wait_group,
    cp.async.wait_group and others.  The results are the same; the kernel itself does not change.

    kernel: made by @kernel; None: each kernel that is called inside the block, also those of `pyptx.kernels`.
    ctas: the number of CTAs that are recorded, from the first on; by default as many as fit into 512 MiB (64 on the simulator).
    records: the most stamps of a thread.
    fine: also read %clock64, for marks less than a microsecond apart: the steps of %globaltimer are 32 ns on an H200 and up to
    1 us elsewhere.
    measure: also time launches of the kernel and of the copy, on outputs of their own and on copies of inputs that are written.
    Pass False for a kernel that communicates with another one while it runs.

    On a GPU times are nanoseconds, and the call takes torch's tensors.  On the simulator times are numbers of instructions, which
    show the order but not the duration.  Calls with JAX's arrays are not recorded: use torch's tensors or NumPy's arrays.

    Example:
        from pyptx.kernels import rms_norm

        x = np.ones((4, 256), np.float32)
        with pyptx.timeline() as t:
            rms_norm(x)
        print(t)                                            # a table; t.save("t.json") for Perfetto, "t.svg" to look at
    """
    from pyptx.stamps.recorder import Timeline  # not by `import pyptx`: it needs time

    return Timeline(kernel, ctas, records, fine, waits, measure)
