"""`differentiable_kernel`: one object for PyTorch and JAX, which chooses the framework by the arguments.

torch/differentiable.py and jax/call.py register the derivative with their framework.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence

from pyptx.kernel import Kernel

__all__ = ["DifferentiableKernel", "differentiable_kernel", "differentiated_once", "keywords_of"]


class DifferentiableKernel:
    """A kernel and its backward as one function.  Made by `differentiable_kernel`.

    Example:
        from pyptx.kernels import add

        sum_of_two = pyptx.differentiable_kernel(add, lambda x, y, g: (g, g))
        assert sum_of_two.saved == (0, 1)
    """

    def __init__(
        self,
        forward_kernel,
        backward_kernel,
        save_for_backward,
        num_grad_inputs,
        save_outputs=(),
        num_grad_outputs=None,
    ):
        self.forward_kernel: Kernel = forward_kernel
        self.backward_kernel = backward_kernel
        self.inputs = len(forward_kernel.in_specs)
        self.saved = tuple(range(self.inputs)) if save_for_backward is None else tuple(save_for_backward)
        self.saved_outputs = tuple(save_outputs)
        self.with_gradient = self.inputs if num_grad_inputs is None else num_grad_inputs
        outputs = len(forward_kernel.out_specs)
        self.gradients_given = outputs if num_grad_outputs is None else num_grad_outputs  # of the first outputs
        self.packs_gradients = True  # for torch's backward, whatever their strides
        self.refuses_others = False  # whether JAX may not ask for gradients of further inputs, which are 0
        self._check()
        self.accepted = keywords_of(backward_kernel)
        self._jax: dict = {}  # by keyword arguments
        self._torch = None
        if sys.modules.get("torch") is not None:  # now: torch.compile could not make it while it traces a call
            self._make_torch()

    def _check(self):
        name, outputs = self.forward_kernel.__name__, len(self.forward_kernel.out_specs)
        for index in self.saved:
            if not 0 <= index < self.inputs:
                raise ValueError(f"save_for_backward: kernel {name} has inputs 0 to {self.inputs - 1}, not {index}")
        for index in self.saved_outputs:
            if not 0 <= index < outputs:
                raise ValueError(f"save_outputs: kernel {name} has outputs 0 to {outputs - 1}, not {index}")
        if not 0 <= self.with_gradient <= self.inputs:
            raise ValueError(f"num_grad_inputs: kernel {name} has {self.inputs} inputs, not {self.with_gradient}")
        if not 0 < self.gradients_given <= outputs:
            raise ValueError(f"num_grad_outputs: kernel {name} has {outputs} outputs, not {self.gradients_given}")
        backward = getattr(self.backward_kernel, "forward_kernel", self.backward_kernel)
        given = len(self.saved) + len(self.saved_outputs) + self.gradients_given
        if isinstance(backward, Kernel) and len(backward.in_specs) != given:
            raise TypeError(
                f"backward kernel {backward.__name__} takes {len(backward.in_specs)} tensors but is given {given}: the saved "
                f"inputs {list(self.saved)} and outputs {list(self.saved_outputs)} of {name} and a gradient for each of {self.gradients_given} outputs"
            )

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        from pyptx.body import portable

        return portable.reduce(self, "a differentiable kernel", [self.forward_kernel._fn.__module__])

    def _definition(self):
        return type(self), self._identity()

    def _identity(self):
        return (
            self.forward_kernel, self.backward_kernel, self.saved, self.with_gradient, self.saved_outputs, self.gradients_given
        )  # fmt: skip

    def __repr__(self):
        return f"DifferentiableKernel({self.forward_kernel!r}, {self.backward_kernel!r})"

    def __call__(self, *arrays, **keywords):
        if keywords:
            tensors = self.forward_kernel._named_tensors(len(arrays), tuple(keywords))
            arrays = (*arrays, *[keywords[name] for name in tensors])
            keywords = {name: value for name, value in keywords.items() if name not in tensors}
        # By attributes, not by types of frameworks that may not be there: torch.compile traces this.
        if any(hasattr(array, "aval") for array in arrays):
            return self._of_jax(keywords)(*arrays)
        if not any(hasattr(array, "requires_grad") for array in arrays):
            return self.forward_kernel(*arrays, **keywords)
        if self._torch is None:
            self._make_torch()
        return self._torch(*arrays, **keywords)

    @property
    def op(self):
        """torch's op."""
        return self.of_torch.op

    @property
    def of_torch(self):
        if self._torch is None:
            self._make_torch()
        return self._torch

    def residuals(self, inputs, outputs) -> tuple:
        """The arguments of the backward before the gradients: the saved inputs and outputs."""
        if not self.saved_outputs and self.saved == tuple(range(self.inputs)):
            return tuple(inputs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        return (*(inputs[index] for index in self.saved), *(outputs[index] for index in self.saved_outputs))

    def _make_torch(self):
        from pyptx.frameworks.torch.differentiable import DifferentiableOp

        self._torch = DifferentiableOp(self)

    def _of_jax(self, keywords):
        from pyptx.frameworks.jax import call

        key = tuple((name, type(value), value) for name, value in sorted(keywords.items()))
        if key not in self._jax:
            self._jax[key] = call.differentiable(self, keywords)
        return self._jax[key]


def differentiated_once(backward):
    """Marks a backward of kernels: it has no derivative itself, and touches memory by launches alone, which can be remembered."""
    backward.is_differentiable, backward.is_of_launches = False, True
    return backward


def keywords_of(function) -> set[str]:
    """Keyword arguments that a backward takes; a forward's others stay with the forward."""
    kernel = getattr(function, "forward_kernel", function)
    if isinstance(kernel, Kernel):
        signature = kernel.signature
        return signature.known - (signature.bound - signature.template.keys())
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}


def differentiable_kernel(
    forward_kernel: Kernel,
    backward_kernel,
    *,
    save_for_backward: Sequence[int] | None = None,
    num_grad_inputs: int | None = None,
    save_outputs: Sequence[int] = (),
    num_grad_outputs: int | None = None,
) -> DifferentiableKernel:
    """A forward and a backward kernel as one function that torch.autograd and jax.grad differentiate.

    The backward is called with the saved inputs, the saved outputs and then a gradient for each output, and returns a gradient
    for each of the first `num_grad_inputs` inputs (all of them).  It is a kernel, a function made of kernels, or a
    differentiable kernel, which then gives second derivatives; a plain kernel refuses those.  `save_for_backward`:
    indices of the inputs to save; all by default.  `save_outputs`: indices of outputs.  `num_grad_outputs`: the backward
    takes the gradients of so many outputs, the first ones (all); the others have none.  Gradients are contiguous.  Keyword arguments of a
    call go to both, as far as the backward has them.

    Example:
        from pyptx.kernels import add

        sum_of_two = pyptx.differentiable_kernel(add, lambda x, y, g: (g, g))
    """
    if not isinstance(forward_kernel, Kernel):
        raise TypeError(f"the forward of a differentiable kernel is made by @pyptx.kernel, not {forward_kernel!r}")
    if not callable(backward_kernel):
        raise TypeError(
            f"the backward of {forward_kernel!r} must be a kernel or a function of kernels, not {backward_kernel!r}"
        )
    told = save_for_backward, num_grad_inputs, save_outputs, num_grad_outputs
    return DifferentiableKernel(forward_kernel, backward_kernel, *told)
