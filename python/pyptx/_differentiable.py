"""`differentiable_kernel`: one object for PyTorch and JAX, which asks the arguments whose it is."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence

__all__ = ["DifferentiableKernel"]


class DifferentiableKernel:
    """`forward_kernel` with `backward_kernel` as its derivative in reverse mode.

    The backward kernel is called with the saved inputs (all, or those of the indices `save_for_backward`), then with the
    gradients of the outputs.  Its results are the gradients of the first inputs, at most `num_grad_inputs`.
    """

    def __init__(
        self,
        forward_kernel,
        backward_kernel,
        *,
        save_for_backward: Sequence[int] | None = None,
        num_grad_inputs: int | None = None,
    ):
        self.forward_kernel = forward_kernel
        self.backward_kernel = backward_kernel
        self.save_for_backward = None if save_for_backward is None else tuple(save_for_backward)
        self.num_grad_inputs = num_grad_inputs
        self._torch = None
        self._jax = {}  # by keyword arguments
        functools.update_wrapper(self, forward_kernel)

    def __repr__(self):
        return f"DifferentiableKernel({self.forward_kernel!r}, {self.backward_kernel!r})"

    def __call__(self, *arrays, **kwargs):
        torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
        if torch is not None and any(isinstance(array, torch.Tensor) for array in arrays):
            return self._of_torch()(*arrays, **kwargs)
        if jax is not None and any(isinstance(array, jax.Array) for array in arrays):
            return self._of_jax(kwargs)(*arrays)
        return self.forward_kernel(*arrays, **kwargs)

    def _of_torch(self):
        if self._torch is None:
            from pyptx import torch_support

            self._torch = torch_support.differentiable_kernel(
                self.forward_kernel,
                self.backward_kernel,
                save_for_backward=self.save_for_backward,
                num_grad_inputs=self.num_grad_inputs,
            )
        return self._torch

    def _of_jax(self, kwargs):
        from pyptx import _jax

        key = tuple((name, type(value), value) for name, value in sorted(kwargs.items()))
        function = self._jax.get(key)
        if function is None:
            function = self._jax[key] = _jax.differentiable(
                self.forward_kernel, self.backward_kernel, self.save_for_backward, self.num_grad_inputs, kwargs
            )
        return function
