"""PyTorch: kernels as differentiable torch functions, and the names by which earlier releases called kernels.

A kernel is called with torch tensors as it is: `kernel(x, w)`, eagerly, under torch.compile, vmap and autocast.  What is
here is for what a call alone does not say: a backward, or the op itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pyptx.frameworks.differentiable import DifferentiableKernel, differentiable_kernel
from pyptx.frameworks.handles import checked, unbound
from pyptx.frameworks.torch import export, ops  # noqa: F401  (pyptx::launch, which exported programs name)
from pyptx.kernel import Kernel
from pyptx.kernels._matmul import grouped_in_torch  # noqa: F401  (pyptx::matmul and its kin, which they name, too)

__all__ = [
    "DifferentiableKernel",
    "any_torch_tensors",
    "call_kernel_via_torch",
    "call_kernel_via_torch_compile",
    "differentiable_kernel",
    "extract_input_shapes",
    "get_or_register_torch_op",
    "is_torch_tensor",
]


def _try_load_cpp_ext() -> None:
    """None: 0.1.1 compiled an extension for calls; here the package has it."""


def is_torch_tensor(obj: Any) -> bool:
    """Whether this is a torch tensor.

    Example:
        import torch
        from pyptx import torch_support

        x = torch.randn(2, 64)
        assert torch_support.is_torch_tensor(x)          # pyptx.torch_support
    """
    return isinstance(obj, torch.Tensor)


def any_torch_tensors(inputs: Sequence[Any]) -> bool:
    """Whether one of these is a torch tensor.

    Example:
        import torch
        from pyptx import torch_support

        x = torch.randn(2, 64)
        assert torch_support.any_torch_tensors([1, x])     # pyptx.torch_support
    """
    return any(map(is_torch_tensor, inputs))


def extract_input_shapes(inputs: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """The shape of each input.

    Example:
        import torch
        from pyptx import torch_support

        x = torch.randn(2, 64)
        assert torch_support.extract_input_shapes([x]) == ((2, 64),)     # pyptx.torch_support
    """
    return tuple(tuple(array.shape) for array in inputs)


def call_kernel_via_torch(
    *inputs: Any, cubin_handle: Kernel, out_shape_env: dict[str, int] | None = None, **launch: Any
) -> Any:
    """`kernel(*inputs)`.  There is no table of handles: `cubin_handle` is the kernel.

    `launch` may repeat out_specs, grid, block, cluster and smem_bytes; they belong to the kernel and must be its own.

    Example:
        import torch
        from pyptx import torch_support
        from pyptx.kernels import add

        x = torch.randn(64)
        y = torch_support.call_kernel_via_torch(x, x, cubin_handle=add)     # y = add(x, x) as well
    """
    return checked(cubin_handle, launch)(*inputs, **unbound(cubin_handle, out_shape_env))


def get_or_register_torch_op(
    cubin_handle: Kernel,
    out_specs: Any = None,
    out_shape_env: dict[str, int] | None = None,
    grid: Any = None,
    block: Any = None,
    cluster: Any = None,
    smem_bytes: int | None = None,
) -> Callable[..., Any]:
    """The torch op of a kernel, `torch.ops.pyptx.<name>.default`, registered at the first call: a function of its tensors, or of a list of
    them, whose results are then a list.

    What else is given must be the kernel's own.

    Example:
        import torch
        from pyptx import torch_support
        from pyptx.kernels import add

        x = torch.randn(64)
        op = torch_support.get_or_register_torch_op(add)
        y = op(x, x)
        (z,) = op([x, x])
    """
    launch = {"out_specs": out_specs, "grid": grid, "block": block, "cluster": cluster, "smem_bytes": smem_bytes}
    checked(cubin_handle, {name: value for name, value in launch.items() if value is not None})
    op, keywords = ops.family_of(cubin_handle).op, unbound(cubin_handle, out_shape_env)

    def call(*inputs: Any) -> Any:
        if len(inputs) != 1 or not isinstance(inputs[0], (list, tuple)):
            return op(*inputs, **keywords)
        made = op(*inputs[0], **keywords)
        return [*made] if isinstance(made, (list, tuple)) else [made]

    return call


def call_kernel_via_torch_compile(
    *inputs: Any, cubin_handle: Kernel, out_shape_env: dict[str, int] | None = None, **launch: Any
) -> Any:
    """The op of `get_or_register_torch_op`, called.

    Example:
        import torch
        from pyptx import torch_support
        from pyptx.kernels import add

        x = torch.randn(64)
        y = torch_support.call_kernel_via_torch_compile(x, x, cubin_handle=add)
    """
    return get_or_register_torch_op(cubin_handle, out_shape_env=out_shape_env, **launch)(*inputs)
