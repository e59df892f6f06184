"""Shows calls of kernels in profilers, under the kernel's name.

`torch.profiler.profile` and `torch.autograd.profiler.emit_nvtx` show them without further options.  Without a profiler of torch,
`with nvtx():` or `PYPTX_NVTX=1` makes each call an NVTX range, as Nsight Systems shows it:

    with pyptx.profiling.nvtx():
        y = rms_norm(x, w)

A call costs nothing more while nobody listens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from pyptx import _core

__all__ = ["nvtx"]


@contextmanager
def nvtx() -> Iterator[None]:
    """Each call inside `with` is an NVTX range.  Needs the package `nvtx`, or a torch that was built for CUDA."""
    _ranges()  # refused here, not at the first call
    before = _core.use_nvtx(True)
    try:
        yield
    finally:
        _core.use_nvtx(before)


@cache
def _ranges() -> tuple[Callable, Callable]:
    """(push, pop) of whoever can talk to NVTX."""
    try:
        import nvtx
    except ImportError:
        torch = sys.modules.get("torch")
        if torch is None or torch.version.cuda is None:
            raise ImportError("NVTX ranges need the package nvtx (pip install nvtx), or a torch for CUDA") from None
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    return nvtx.push_range, nvtx.pop_range


def enter(kernel) -> list[Callable]:
    """Opens the ranges that are listened to; returns what closes them.  C++ calls it (python/src/profile.h)."""
    opened: list[Callable] = []
    profiler = sys.modules.get("torch.autograd.profiler")
    if profiler is not None and profiler._is_profiler_enabled:
        record = sys.modules["torch"]._C._profiler._RecordFunctionFast  # as torch's own compiled code does
        event = record(kernel.__name__)
        event.__enter__()
        opened.append(lambda: event.__exit__(None, None, None))
    if _core.uses_nvtx():
        push, pop = _ranges()
        push(kernel.__name__)
        opened.append(pop)
    return opened


def leave(opened: list[Callable]) -> None:
    while opened:
        opened.pop()()
