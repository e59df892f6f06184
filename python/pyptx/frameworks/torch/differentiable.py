"""A kernel and its backward as one torch op, for `differentiable_kernel`."""

from __future__ import annotations

import contextlib
import functools

import torch

from pyptx import _core
from pyptx.errors import LaunchValueError
from pyptx.frameworks.identity import fingerprint, reached
from pyptx.frameworks.torch import call, ops
from pyptx.kernel import Kernel

__all__ = ["DifferentiableOp", "applied", "no_view", "recorded"]


class _Once(torch.autograd.Function):
    """A backward where torch also asks how to differentiate it (`create_graph`, as torch.func.vjp has it): what refuses is the second
    derivative, if there is one."""

    @staticmethod
    def forward(ctx, owner, keywords, *arrays):
        ctx.owner = owner
        results = owner.run_backward(arrays, keywords)
        return results if isinstance(results, torch.Tensor) else tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        ctx.owner.no_second_derivative()


class _Recorded(torch.autograd.Function):
    """An eager call that autograd records, and that nobody else wants to see.  By an op it would take four times as long."""

    @staticmethod
    def forward(ctx, owner, keywords, *arrays):
        results = owner.forward_kernel(*arrays, **keywords)
        results = tuple(map(no_view, results)) if isinstance(results, tuple) else no_view(results)
        ctx.owner = owner
        owner.setup_context(ctx, arrays, results, keywords)
        return results

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, *ctx.owner.backward(ctx, *gradients)


def no_view(made):
    """The same memory: a result of an op that is a view of another tensor may not be changed in place where gradients are recorded."""
    return made.new_empty(0).set_(made) if made._is_view() else made


def applied(function):
    """`function.apply` for where no transformation of torch.func is open, for which torch would look."""
    return super(torch.autograd.Function, function).apply


recorded = applied(_Recorded)


class _Gradient(_core.Choice):
    """The backward of a `DifferentiableOp`, which remembers its launches."""

    def __init__(self, owner):
        self.owner = owner

    def _choose(self, arrays, out=None, **keywords):
        if torch.compiler.is_compiling():  # Dynamo traces it for compiled autograd
            return self.owner.of.backward_kernel(*arrays, **keywords)
        function = functools.partial(self.owner.of.backward_kernel, *arrays, **keywords)
        return _core.remember_launches(self, arrays, out, keywords, function)


_core.show_call(_Gradient, _Gradient._choose)  # to torch.compile


class DifferentiableOp:
    """The torch op of a `DifferentiableKernel`, and what autograd calls."""

    def __init__(self, of):
        self.of, self.forward_kernel = of, of.forward_kernel
        of_launches = getattr(of.backward_kernel, "is_of_launches", False)
        self.gradient = _Gradient(self) if of_launches else None
        name = f"{of.forward_kernel.signature.entry}_grad_{fingerprint(of)}"
        self.op = ops.family_of(of.forward_kernel, name, differentiates=self).op
        # A process that takes compiled code from Inductor's cache never traces the backward, whose ops that code names.
        for kernel in reached(of.backward_kernel):
            with contextlib.suppress(NotImplementedError):  # a kernel that is no op is called as it is
                if isinstance(kernel, Kernel):
                    ops.family_of(kernel)

    def __call__(self, *arrays, **keywords):
        if not torch.compiler.is_compiling():
            if _core.are_plain(arrays):
                return self.forward_kernel(*arrays, **keywords)
            if self.is_recorded(arrays):
                return recorded(self, keywords, *arrays)
        # Programs carry the forward alone. (Dynamo of torch 2.11 takes torch.compiler.is_exporting() for true everywhere.)
        if self.forward_kernel._prepare_op():
            return self.forward_kernel._traced_call(*arrays, **keywords)
        if keywords:
            keywords = call.keywords_of(self.forward_kernel, keywords)
        return call.run_op(self, arrays, keywords)

    def is_recorded(self, arrays) -> bool:
        """Whether autograd alone wants to see the call, as it is: torch.autocast may change types, which an op does."""
        if not _core.are_recorded(arrays):
            return False
        tiles = self.forward_kernel.in_specs
        casts = torch._C._is_any_autocast_enabled()
        return not casts or all(ops.fits(tile, each.dtype) for tile, each in zip(tiles, arrays, strict=False))

    def refuse_tangents(self, arrays):
        ops.family_of(self.forward_kernel).refuse_tangents(arrays)

    def no_tangents(self):
        ops.family_of(self.forward_kernel).no_tangents()

    def run_backward(self, arrays, keywords):
        kernel = self.of.backward_kernel
        if not torch.compiler.is_compiling() and _core.are_plain(arrays):
            return kernel(*arrays, **keywords) if self.gradient is None else self.gradient(arrays, None, **keywords)
        # By its op, which refuses a second derivative; Dynamo, which traces this for compiled autograd, knows the kernel itself.
        if isinstance(kernel, Kernel) and not torch.compiler.is_compiling():
            return call.call(kernel, arrays, keywords)
        return kernel(*arrays, **keywords)

    def no_second_derivative(self):
        if isinstance(self.of.backward_kernel, Kernel):
            ops.family_of(self.of.backward_kernel).no_backward("this kernel has no backward")
        raise LaunchValueError(f"{self.forward_kernel.__name__}: it has no second derivative")

    # What torch.library.register_autograd asks for.

    def setup_context(self, ctx, inputs, output, keyword_only_inputs=None):
        ctx.save_for_backward(*self.of.residuals(inputs, output))
        ctx.given = None
        if (count := self.of.gradients_given) < len(self.forward_kernel.out_specs):
            ctx.mark_non_differentiable(*output[count:])
            ctx.set_materialize_grads(False)  # torch would write zeros for these
            ctx.given = [(each.shape, {"dtype": each.dtype, "device": each.device}) for each in output[:count]]
        ctx.keywords = {}
        if keyword_only_inputs:
            given = dict(keyword_only_inputs)
            given |= ops.read_template(given.pop("template", ""))
            ctx.keywords = self.keywords_of_backward(given)

    def keywords_of_backward(self, given: dict) -> dict:
        return {name: value for name, value in given.items() if value is not None and name in self.of.accepted}

    def backward(self, ctx, *gradients):
        if ctx.given is not None:
            gradients = [
                torch.zeros(shape, **told) if each is None else each
                for each, (shape, told) in zip(gradients, ctx.given, strict=False)
            ]
        if self.of.packs_gradients:
            gradients = [gradient.contiguous() for gradient in gradients]
        arrays = (*ctx.saved_tensors, *gradients)
        kernel = self.of.backward_kernel
        once = isinstance(kernel, Kernel) or getattr(kernel, "is_differentiable", True) is False
        if once and _is_recorded(arrays):
            results = _Once.apply(self, ctx.keywords, *arrays)
        else:
            results = self.run_backward(arrays, ctx.keywords)
        results = results if isinstance(results, (tuple, list)) else (results,)
        if len(results) < self.of.with_gradient:
            raise TypeError(
                f"the backward of kernel {self.forward_kernel.__name__} gave {len(results)} gradients for "
                f"{self.of.with_gradient} inputs"
            )
        needed = ctx.needs_input_grad[-self.of.inputs :]
        wanted = (need and index < self.of.with_gradient for index, need in enumerate(needed))
        return tuple(results[index] if want else None for index, want in enumerate(wanted))


def _is_recorded(arrays) -> bool:
    """Whether autograd itself writes down what is computed of these; torch.func's transforms and Dynamo do it their way."""
    if torch.compiler.is_compiling() or call.is_transformed() or not torch.is_grad_enabled():
        return False
    return any(array.requires_grad for array in arrays)
