"""PyTorch: kernels as differentiable torch functions, and the names by which earlier releases called kernels.

A kernel is called with torch tensors as it is: `kernel(x, w)`, eagerly, under torch.compile, vmap and autocast.  What is
here is for what a call alone does not say: a backward, or the op itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pyptx import _torch_ops
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
    return _checked(cubin_handle, launch)(*inputs, **_unbound(cubin_handle, out_shape_env))


def get_or_register_torch_op(cubin_handle: Kernel, out_shape_env: dict[str, int] | None = None, **launch) -> Callable:
    """The torch op of a kernel, `torch.ops.pyptx.<name>.default`, registered at the first call."""
    _checked(cubin_handle, launch)
    op, keywords = _torch_ops.family_of(cubin_handle).op, _unbound(cubin_handle, out_shape_env)
    return (lambda *inputs: op(*inputs, **keywords)) if keywords else op


def call_kernel_via_torch_compile(
    *inputs, cubin_handle: Kernel, out_shape_env: dict[str, int] | None = None, **launch
) -> Any:
    """The op of `get_or_register_torch_op`, called."""
    return get_or_register_torch_op(cubin_handle, out_shape_env, **launch)(*inputs)


def _checked(kernel: Kernel, launch: dict[str, Any]) -> Kernel:
    if not isinstance(kernel, Kernel):
        raise TypeError(f"cubin_handle is the kernel itself, made by @pyptx.kernel, not {kernel!r}")
    own = {"out_specs": kernel.out_specs, "grid": None, "block": kernel.block, "cluster": kernel.cluster, "smem_bytes": None}  # fmt: skip
    for name, value in launch.items():
        if name not in own:
            raise TypeError(f"{name!r} is none of {', '.join(own)}")
        if own[name] is not None and tuple(value) != tuple(own[name]):
            raise ValueError(f"{kernel!r} has {name}={own[name]}, not {value}")
    return kernel


def _unbound(kernel: Kernel, env: dict[str, int] | None) -> dict[str, int]:
    """The sizes that no input gives."""
    bound = {name for tile in kernel.in_specs for name in tile.symbolic_dims}
    return {name: size for name, size in (env or {}).items() if name in kernel._symbols and name not in bound}


class DifferentiableKernel:
    """A kernel and its backward as one torch op.  Made by `differentiable_kernel`."""

    def __init__(self, forward_kernel, backward_kernel, save_for_backward, num_grad_inputs):
        self.forward_kernel: Kernel = forward_kernel
        self.backward_kernel = backward_kernel
        inputs = len(forward_kernel.in_specs)
        self._saved = tuple(range(inputs)) if save_for_backward is None else tuple(save_for_backward)
        self._inputs = inputs
        self._with_gradient = inputs if num_grad_inputs is None else num_grad_inputs
        self._check()
        self._accepted = _keywords_of(backward_kernel)
        name = f"{forward_kernel._entry}_grad_{fingerprint(self)}"
        self.op = _torch_ops.family_of(forward_kernel, name, differentiates=self).op

    def _check(self):
        name, outputs = self.forward_kernel.__name__, len(self.forward_kernel.out_specs)
        for index in self._saved:
            if not 0 <= index < self._inputs:
                raise ValueError(f"save_for_backward: kernel {name} has inputs 0 to {self._inputs - 1}, not {index}")
        if not 0 <= self._with_gradient <= self._inputs:
            raise ValueError(f"num_grad_inputs: kernel {name} has {self._inputs} inputs, not {self._with_gradient}")
        backward = getattr(self.backward_kernel, "forward_kernel", self.backward_kernel)
        given = len(self._saved) + outputs
        if isinstance(backward, Kernel) and len(backward.in_specs) != given:
            raise TypeError(
                f"backward kernel {backward.__name__} takes {len(backward.in_specs)} tensors but is given {given}: the saved "
                f"inputs {list(self._saved)} of {name} and a gradient for each of its {outputs} outputs"
            )

    def _identity(self):
        return self.forward_kernel, self.backward_kernel, self._saved, self._with_gradient

    def __repr__(self):
        return f"DifferentiableKernel({self.forward_kernel!r}, {self.backward_kernel!r})"

    def __call__(self, *arrays, **keywords):
        if keywords:
            keywords = _torch_ops.keywords_of(self.forward_kernel, keywords)
        return _torch_ops.run_op(self, arrays, keywords)

    # What torch.library.register_autograd asks for.

    def setup_context(self, ctx, inputs, output, keyword_only_inputs=None):
        ctx.save_for_backward(*(inputs[index] for index in self._saved))
        given = dict(keyword_only_inputs or {})
        given |= _torch_ops.read_template(given.pop("template", ""))
        ctx.keywords = {name: value for name, value in given.items() if value is not None and name in self._accepted}

    def backward(self, ctx, *gradients):
        arrays = (*ctx.saved_tensors, *(gradient.contiguous() for gradient in gradients))
        if isinstance(self.backward_kernel, Kernel):  # by its op, which refuses a second derivative
            results = _torch_ops.call(self.backward_kernel, arrays, ctx.keywords)
        else:
            results = self.backward_kernel(*arrays, **ctx.keywords)
        results = results if isinstance(results, (tuple, list)) else (results,)
        if len(results) < self._with_gradient:
            raise TypeError(
                f"the backward of kernel {self.forward_kernel.__name__} gave {len(results)} gradients for "
                f"{self._with_gradient} inputs"
            )
        needed = ctx.needs_input_grad[-self._inputs :]
        wanted = (need and index < self._with_gradient for index, need in enumerate(needed))
        return tuple(results[index] if want else None for index, want in enumerate(wanted))


def _keywords_of(function) -> set[str]:
    """Keyword arguments that a backward takes; a forward's others stay with the forward."""
    kernel = getattr(function, "forward_kernel", function)
    if isinstance(kernel, Kernel):
        return set(kernel._known)
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}


def differentiable_kernel(
    forward_kernel: Kernel,
    backward_kernel,
    *,
    save_for_backward: Sequence[int] | None = None,
    num_grad_inputs: int | None = None,
) -> DifferentiableKernel:
    """A forward and a backward kernel as one function that torch.autograd differentiates.

    The backward is called with the saved inputs and then a gradient for each output, all contiguous, and returns a gradient
    for each of the first `num_grad_inputs` inputs (all of them).  It is a kernel, a function made of kernels, or a
    differentiable kernel, which then gives second derivatives; a plain kernel refuses those.  `save_for_backward`:
    indices of the inputs to save; all by default.  Keyword arguments of a call go to both, as far as the backward has them.
    """
    if not isinstance(forward_kernel, Kernel):
        raise TypeError(f"the forward of a differentiable kernel is made by @pyptx.kernel, not {forward_kernel!r}")
    if not callable(backward_kernel):
        raise TypeError(
            f"the backward of {forward_kernel!r} is a kernel or a function of kernels, not {backward_kernel!r}"
        )
    return DifferentiableKernel(forward_kernel, backward_kernel, save_for_backward, num_grad_inputs)
