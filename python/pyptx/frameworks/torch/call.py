"""Calls of a kernel that go through its torch op: those that Dynamo traces, those whose tensors have no memory to read
(fake tensors, tensors of torch.func's transforms), and those whose arguments autocast has to cast.
"""

from __future__ import annotations

import torch

from pyptx.errors import LaunchTypeError
from pyptx.frameworks.torch import export
from pyptx.frameworks.torch.ops import Family, family_of, fits

__all__ = ["call", "keywords_of", "must_dispatch", "prepare", "run_op"]


class _Transformed(torch.autograd.Function):
    """An op for torch.func.grad and its kin, which do not take what register_autograd makes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(owner, keywords, *arrays):
        return owner.op(*arrays, **keywords)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.owner, keywords, *arrays = inputs
        ctx.owner.setup_context(ctx, arrays, output, keywords)

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, *ctx.owner.backward(ctx, *gradients)


def run_op(owner, arrays, keywords):
    """Calls the op of a family or of a differentiable kernel."""
    if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        return _Transformed.apply(owner, keywords, *arrays)
    if isinstance(owner, Family):
        owner.refuse_gradients(arrays)
    return owner.op(*arrays, **keywords)


def prepare(kernel) -> bool:
    """Registers the kernel's op; true where its calls are for an exported program."""
    family_of(kernel)
    if not torch.compiler.is_exporting():
        return False
    export.allow()
    return True


def keywords_of(kernel, keywords):
    """Keyword arguments of a call as those of the op."""
    names = kernel._template_names(tuple(keywords))
    numbers = {name: value for name, value in keywords.items() if name not in names}
    spelled = kernel._spell_template(names, tuple([keywords[name] for name in names]))
    if spelled:
        numbers["template"] = spelled
    return numbers


def call(kernel, arrays, keywords, out=None, stream=None):
    """A call of a kernel as a call of its op, outside of Dynamo."""
    if stream is not None:
        raise LaunchTypeError(f"{kernel.__name__}: stream= is not for tensors that torch transforms or traces")
    if out is not None:
        return kernel._traced_call(*arrays, **keywords, out=out)
    if keywords:
        keywords = keywords_of(kernel, keywords)
    if prepare(kernel):
        return export.embedded(kernel._op_name(), arrays, **keywords)
    return run_op(kernel._torch_family, arrays, keywords)


def must_dispatch(kernel, arrays) -> bool:
    """Whether torch has to see this call as an op: its tensors are not memory, or autocast would change them."""
    for array, tile in zip(arrays, kernel.in_specs, strict=False):
        if not isinstance(array, torch.Tensor):
            return False
        if (
            torch._C._functorch.is_functorch_wrapped_tensor(array)
            or torch._is_functional_tensor(array)
            or type(array).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        ):
            return True
        device = array.device.type
        castable = array.is_floating_point() and not fits(tile, array.dtype)
        if castable and device in ("cpu", "cuda") and torch.is_autocast_enabled(device):
            return True
    return torch._C._len_torch_dispatch_stack() > 0 and bool(arrays)
