"""The kernel being traced.  `trace_scope` starts one by hand, for tests and tools; `@kernel` does it otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyptx._core import Trace as TraceContext
from pyptx._core import current_trace as current
from pyptx.compat import trace as _compat

__all__ = ["TraceContext", "current", "get_ctx", "trace_scope"]


@contextmanager
def trace_scope(
    *, ptx_version: tuple[int, int] | None = None, name: str = "kernel", arch: str = "sm_90a"
) -> Iterator[TraceContext]:
    """Traces what its body writes; `finish()` of what it yields gives the module."""
    trace = TraceContext(name, arch, ptx_version)
    with trace:
        yield trace


_compat.add_to(TraceContext)  # what 0.1.1's traces have


def get_ctx() -> TraceContext:
    """The trace that the calling thread is in; RuntimeError outside of one."""
    trace = current()
    if trace is None:
        raise RuntimeError(
            "No active kernel trace. Instructions are written inside a function decorated with @kernel, by the thread "
            "that traces it."
        )
    return trace
