"""JAX support by name.  A kernel needs none of it: `kernel(x)` on JAX arrays does the same.

Importing this module registers the call's handlers, which is all that a process needs to run an exported program.
"""

from __future__ import annotations

import jax

from pyptx import _jax
from pyptx._differentiable import differentiable_kernel

__all__ = [
    "EXPORT_CHECKS",
    "call_kernel_via_ffi",
    "differentiable_kernel",
    "ensure_ffi_registered",
    "hijax_kernel",
    "shim_is_available",
    "shim_load_error",
]

# jax.export.export(f, disabled_checks=EXPORT_CHECKS): JAX asks that a custom call which is not its own be named.
EXPORT_CHECKS = (jax.export.DisabledSafetyCheck.custom_call(_jax.TARGET),)


def ensure_ffi_registered() -> bool:
    """True: importing this module has registered the handlers."""
    return True


def shim_is_available() -> bool:
    """True: the handlers are part of the package."""
    return True


def shim_load_error() -> None:
    """None, always: there is nothing to load."""
    return None


def call_kernel_via_ffi(kernel, *arrays, **kwargs):
    """A call of a kernel with JAX arrays."""
    return _jax.call(kernel, arrays, kwargs)


def hijax_kernel(differentiable):
    """A `differentiable_kernel` as a function of JAX arrays that is one HiJAX primitive: JAX calls these experimental."""
    from pyptx import _hijax

    return _hijax.hijax_kernel(differentiable)
