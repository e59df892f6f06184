"""JAX support by name.  A kernel needs none of it: `kernel(x)` on JAX arrays does the same.

Importing this module registers the call's handlers, which is all that a process needs to run an exported program.
"""

from __future__ import annotations

from typing import Any

import jax

from pyptx.compat.cubins import CubinRecord, CubinRegistry, get_cubin_registry
from pyptx.compat.driver import (
    add_scalar_param_to_shim,
    add_tma_spec_to_shim,
    compile_ptx_to_cubin,
    register_launch_config,
    set_mock_ffi_callback,
    synthesize_tma_descriptor,
    synthesize_tma_descriptor_3d,
)
from pyptx.frameworks.differentiable import differentiable_kernel
from pyptx.frameworks.handles import checked, unbound
from pyptx.frameworks.jax import call
from pyptx.kernel import Kernel

__all__ = [
    "EXPORT_CHECKS",
    "CubinRecord",
    "CubinRegistry",
    "add_scalar_param_to_shim",
    "add_tma_spec_to_shim",
    "call_kernel_via_ffi",
    "compile_ptx_to_cubin",
    "differentiable_kernel",
    "ensure_ffi_registered",
    "get_cubin_registry",
    "hijax_kernel",
    "register_launch_config",
    "set_mock_ffi_callback",
    "shim_is_available",
    "shim_load_error",
    "synthesize_tma_descriptor",
    "synthesize_tma_descriptor_3d",
]

# jax.export.export(f, disabled_checks=EXPORT_CHECKS): JAX asks that a custom call which is not its own be named.
EXPORT_CHECKS = (jax.export.DisabledSafetyCheck.custom_call(call.TARGET),)


def ensure_ffi_registered() -> bool:
    """True: importing this module has registered the handlers.

    Example:
        from pyptx import jax_support

        assert jax_support.ensure_ffi_registered()
    """
    return True


def shim_is_available() -> bool:
    """True: the handlers are part of the package.

    Example:
        from pyptx import jax_support

        assert jax_support.shim_is_available()
    """
    return True


def shim_load_error() -> None:
    """None, always: there is nothing to load.

    Example:
        from pyptx import jax_support

        assert jax_support.shim_load_error() is None
    """
    return None


def call_kernel_via_ffi(
    *inputs: Any, cubin_handle: Kernel, out_shape_env: dict[str, int] | None = None, **launch: Any
) -> Any:
    """`kernel(*inputs)`.  There is no table of handles: `cubin_handle` is the kernel.

    `launch` may repeat out_specs, grid, block, cluster and smem_bytes; they belong to the kernel and must be its own.

    Example:
        import jax.numpy as jnp
        from pyptx import jax_support
        from pyptx.kernels import add

        y = jax_support.call_kernel_via_ffi(jnp.ones(64), jnp.ones(64), cubin_handle=add)
    """
    return call.call(checked(cubin_handle, launch), inputs, unbound(cubin_handle, out_shape_env))


def hijax_kernel(differentiable: Any) -> Any:
    """A `differentiable_kernel` as a function of JAX arrays that is one HiJAX primitive: JAX calls these experimental.

    Example:
        import jax.numpy as jnp
        from pyptx import jax_support
        from pyptx.kernels import add

        sum_of_two = jax_support.hijax_kernel(jax_support.differentiable_kernel(add, lambda x, y, g: (g, g)))
    """
    from pyptx.frameworks.jax import hijax

    return hijax.hijax_kernel(differentiable)
