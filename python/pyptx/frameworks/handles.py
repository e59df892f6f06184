"""Arguments of the calls by which earlier releases launched kernels: a handle, and the launch once more."""

from __future__ import annotations

from typing import Any

from pyptx.kernel import Kernel

__all__ = ["checked", "unbound"]


def checked(kernel: Kernel, launch: dict[str, Any]) -> Kernel:
    """The kernel, which is its own handle; what `launch` repeats of it must be its own."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"cubin_handle is the kernel itself, made by @pyptx.kernel, not {kernel!r}")
    own = {"out_specs": kernel.out_specs, "grid": None, "block": kernel.block, "cluster": kernel.cluster, "smem_bytes": None}  # fmt: skip
    for name, value in launch.items():
        if name not in own:
            raise TypeError(f"{name!r} is none of {', '.join(own)}")
        if own[name] is not None and tuple(value) != tuple(own[name]):
            raise ValueError(f"{kernel!r} has {name}={own[name]}, not {value}")
    return kernel


def unbound(kernel: Kernel, env: dict[str, int] | None) -> dict[str, int]:
    """The sizes that no input gives."""
    return kernel.signature.unbound(env)
