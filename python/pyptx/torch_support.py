"""PyTorch: kernels as differentiable torch functions, and the names by which earlier releases called kernels.

A kernel is called with torch tensors as it is: `kernel(x, w)`, eagerly, under torch.compile, vmap and autocast.  What is
here is for what a call alone does not say: a backward, or the op itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pyptx import _torch_export, _torch_ops  # noqa: F401  (pyptx::launch, which exported programs name)
from pyptx._differentiable import DifferentiableKernel, differentiable_kernel
from pyptx._handles import checked, unbound
from pyptx._identity import fingerprint
from pyptx.kernel import Kernel

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


def is_torch_tensor(obj: Any) -> bool:
    """Whether this is a torch tensor."""
    return isinstance(obj, torch.Tensor)


def any_torch_tensors(inputs: Sequence[Any]) -> bool:
    """Whether one of these is a torch tensor."""
    return any(map(is_torch_tensor, inputs))


def extract_input_shapes(inputs: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """The shape of each input."""
    return tuple(tuple(array.shape) for array in inputs)


def call_kernel_via_torch(*inputs, cubin_handle: Kernel, out_shape_env: dict[str, int] | None = None, **launch) -> Any:
    """`kernel(*inputs)`.  There is no table of handles: `cubin_handle` is the kernel.

    `launch` may repeat out_specs, grid, block, cluster and smem_bytes; they belong to the kernel and must be its own.
    """
    return checked(cubin_handle, launch)(*inputs, **unbound(cubin_handle, out_shape_env))


def get_or_register_torch_op(cubin_handle: Kernel, out_shape_env: dict[str, int] | None = None, **launch) -> Callable:
    """The torch op of a kernel, `torch.ops.pyptx.<name>.default`, registered at the first call."""
    checked(cubin_handle, launch)
    op, keywords = _torch_ops.family_of(cubin_handle).op, unbound(cubin_handle, out_shape_env)
    return (lambda *inputs: op(*inputs, **keywords)) if keywords else op


def call_kernel_via_torch_compile(
    *inputs, cubin_handle: Kernel, out_shape_env: dict[str, int] | None = None, **launch
) -> Any:
    """The op of `get_or_register_torch_op`, called."""
    return get_or_register_torch_op(cubin_handle, out_shape_env, **launch)(*inputs)


class DifferentiableOp:
    """The torch op of a `DifferentiableKernel`."""

    def __init__(self, of: DifferentiableKernel):
        self.of, self.forward_kernel = of, of.forward_kernel
        name = f"{of.forward_kernel._entry}_grad_{fingerprint(of)}"
        self.op = _torch_ops.family_of(of.forward_kernel, name, differentiates=self).op

    def __call__(self, *arrays, **keywords):
        # Programs carry the forward alone. (Dynamo of torch 2.11 takes torch.compiler.is_exporting() for true everywhere.)
        if self.forward_kernel._prepare_op():
            return self.forward_kernel._traced_call(*arrays, **keywords)
        if keywords:
            keywords = _torch_ops.keywords_of(self.forward_kernel, keywords)
        return _torch_ops.run_op(self, arrays, keywords)

    # What torch.library.register_autograd asks for.

    def setup_context(self, ctx, inputs, output, keyword_only_inputs=None):
        ctx.save_for_backward(*(inputs[index] for index in self.of.saved))
        given = dict(keyword_only_inputs or {})
        given |= _torch_ops.read_template(given.pop("template", ""))
        ctx.keywords = {name: value for name, value in given.items() if value is not None and name in self.of.accepted}

    def backward(self, ctx, *gradients):
        arrays = (*ctx.saved_tensors, *(gradient.contiguous() for gradient in gradients))
        if isinstance(self.of.backward_kernel, Kernel):  # by its op, which refuses a second derivative
            results = _torch_ops.call(self.of.backward_kernel, arrays, ctx.keywords)
        else:
            results = self.of.backward_kernel(*arrays, **ctx.keywords)
        results = results if isinstance(results, (tuple, list)) else (results,)
        if len(results) < self.of.with_gradient:
            raise TypeError(
                f"the backward of kernel {self.forward_kernel.__name__} gave {len(results)} gradients for "
                f"{self.of.with_gradient} inputs"
            )
        needed = ctx.needs_input_grad[-self.of.inputs :]
        wanted = (need and index < self.of.with_gradient for index, need in enumerate(needed))
        return tuple(results[index] if want else None for index, want in enumerate(wanted))
