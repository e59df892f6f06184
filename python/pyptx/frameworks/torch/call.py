"""Calls of a kernel that go through its torch op: those that Dynamo traces, those whose tensors have no memory to read
(fake tensors, tensors of torch.func's transforms), and those whose arguments autocast has to cast.
"""

from __future__ import annotations

import threading

import torch

from pyptx.errors import LaunchTypeError
from pyptx.frameworks.torch import export
from pyptx.frameworks.torch.ops import Family, family_of, fits

__all__ = [
    "call",
    "differentiates",
    "is_transformed",
    "keywords_of",
    "leave_derivatives_to_eager",
    "must_dispatch",
    "prepare",
    "run_op",
]


_open = threading.local()  # `calls`: those of ops that this thread is in
_DEEPEST = 16


class _Transformed(torch.autograd.Function):
    """An op for torch.func.grad and its kin, which do not take what register_autograd makes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(owner, keywords, *arrays):
        results = owner.op(*arrays, **keywords)
        return () if results is None else results  # of a kernel that has no output: vmap wants a tuple

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.owner, keywords, *arrays = inputs
        ctx.owner.setup_context(ctx, arrays, output, keywords)

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, *ctx.owner.backward(ctx, *gradients)

    @staticmethod
    def jvp(ctx, *tangents):
        ctx.owner.no_tangents()


def is_transformed() -> bool:
    """Whether a call belongs to torch.func.grad or its kin, which want an autograd.Function in place of an op."""
    functions = torch._C._functorch
    return (
        not torch.compiler.is_compiling()
        and torch._C._are_functorch_transforms_active()
        and functions.peek_interpreter_stack().key() != functions.TransformType.Functionalize  # it takes ops alone
    )


def differentiates() -> bool:
    """Whether torch.func.grad or a transform of its kind is open."""
    functions = torch._C._functorch
    kinds = functions.TransformType.Grad, functions.TransformType.Jvp
    return any(each.key() in kinds for each in functions.get_interpreter_stack() or ())


differentiates._dynamo_marked_constant = True  # what torch.compiler.assume_constant_result sets


def leave_derivatives_to_eager():
    """Where torch compiles torch.func.grad: it refuses the derivatives of all ops there, and runs what it does not compile."""
    if torch.compiler.is_compiling() and differentiates():
        torch._dynamo.graph_break(
            msg="torch compiles no torch.func.grad of an op; compile the function that it differentiates: "
            "torch.func.grad(torch.compile(f))"
        )


def run_op(owner, arrays, keywords):
    """Calls the op of a family or of a differentiable kernel."""
    if not isinstance(owner, Family):
        leave_derivatives_to_eager()
    if is_transformed():
        results = _Transformed.apply(owner, keywords, *arrays)
        return results if isinstance(results, torch.Tensor) or results else None
    if torch.autograd.forward_ad._current_level >= 0:
        owner.refuse_tangents(arrays)
    if isinstance(owner, Family):
        owner.refuse_gradients(arrays)
    refuse_others(owner, arrays)
    return owner.op(*arrays, **keywords)


def refuse_others(owner, arrays):
    """An op takes torch's tensors alone, where a call that is none takes NumPy's arrays beside them."""
    # Dynamo would compare the names at each call.
    if all([array is None or isinstance(array, torch.Tensor) for array in arrays]):
        return
    kernel = owner.kernel if isinstance(owner, Family) else owner.forward_kernel
    for array, name in zip(arrays, kernel.signature.input_names, strict=False):
        if array is not None and not isinstance(array, torch.Tensor):
            raise LaunchTypeError(
                f"{kernel.__name__}: argument `{name}`: it is {type(array).__name__}, beside tensors of torch that have "
                "gradients, are compiled, cast or no memory; pass torch's tensors alone"
            )


def prepare(kernel) -> bool:
    """Registers the kernel's op; true where its calls are for an exported program."""
    kernel._watched().verify()
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
    for name, array in zip(kernel.signature.input_names, arrays, strict=True):
        if not isinstance(array, torch.Tensor):
            raise LaunchTypeError(
                f"{kernel.__name__}: argument `{name}`: in a call that torch transforms or traces every input is a "
                f"tensor of torch, not {type(array)}"
            )
        if array.is_nested:
            raise LaunchTypeError(f"{kernel.__name__}: argument `{name}`: {why_unreadable(array)}")
    if out is not None:
        for each in out if isinstance(out, (tuple, list)) else (out,):  # torch's copy_ would not look
            if isinstance(each, torch.Tensor) and _freed(each):
                raise LaunchTypeError(f"{kernel.__name__}: out= has no memory: its storage was freed")
        return kernel._traced_call(*arrays, **keywords, out=out)
    if keywords:
        keywords = keywords_of(kernel, keywords)
    if prepare(kernel):
        return export.embedded(kernel._op_name(), arrays, **keywords)
    # Where torch has no rule for a mix of transformations, the op's function for the CPU gets tensors without memory.
    depth = getattr(_open, "calls", 0)
    if depth == _DEEPEST:
        raise LaunchTypeError(f"{kernel.__name__}: torch gives the kernel's op tensors without memory, again and again")
    _open.calls = depth + 1
    try:
        return run_op(kernel._torch_family, arrays, keywords)
    finally:
        _open.calls = depth


def _is_wrapped(array: torch.Tensor) -> bool:
    """Whether a transformation of torch.func stands for it, or the older vmap of `torch.autograd.grad(is_grads_batched=True)`."""
    functorch = torch._C._functorch
    return functorch.is_functorch_wrapped_tensor(array) or functorch.is_legacy_batchedtensor(array)


def _freed(array: torch.Tensor) -> bool:
    if type(array).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or array.device.type not in (
        "cpu",
        "cuda",
    ):
        return False
    if _is_wrapped(array) or array.is_nested or array.layout is not torch.strided:
        return False
    return array.numel() > 0 and not array.untyped_storage().nbytes()


def why_unreadable(array: torch.Tensor) -> str:
    """Why a tensor has no memory that a kernel could be given, and what to pass instead; "" where that is not known."""
    if _is_wrapped(array):
        return (
            "it has no memory: a transformation of torch.func stands for it (an output that is brought cannot be one)"
        )
    if array.is_nested:
        return "it is a nested tensor: pass its parts (.unbind()) or a padded tensor (torch.nested.to_padded_tensor)"
    if type(array).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"it has no memory of its own: it is a {type(array).__qualname__}, which takes operators itself"
    if array.layout is not torch.strided:
        return f"its layout is {array.layout}, a kernel takes strided tensors: pass .to_dense()"
    if array.is_quantized:
        return f"it is quantised ({array.dtype}): pass .int_repr() or .dequantize()"
    if array.is_meta:
        return "it has no memory: it is on the meta device"
    if _freed(array):
        return "it has no memory: its storage was freed"
    return ""


def number(scalar: torch.Tensor):
    """A tensor as a runtime scalar, which is a number: the value that it has now, without derivatives."""
    if _is_wrapped(scalar):
        raise TypeError("a transformation of torch.func stands for it; pass a number, or an input of the kernel")
    if scalar.numel() != 1:
        raise TypeError(f"its shape is {tuple(scalar.shape)}; pass one number")
    if torch.is_grad_enabled() and scalar.requires_grad:
        raise TypeError("it requires a gradient, which a number does not pass on; pass .item() or .detach()")
    if torch.autograd.forward_ad.unpack_dual(scalar).tangent is not None:
        raise TypeError("it has a tangent, which a number does not pass on; pass .item() or .detach()")
    return scalar.item()


def must_dispatch(kernel, arrays) -> bool:
    """Whether torch has to see this call as an op: its tensors are not memory, or autocast would change them."""
    # Where torch's Python key is off, as in the functions of _DisableTorchDispatch, an op would come back here.
    listened_to = not torch._C._dispatch_tls_is_dispatch_key_excluded("Python")
    found = False
    for array, tile in zip(arrays, kernel.in_specs, strict=False):
        if not isinstance(array, torch.Tensor):
            continue
        found = True
        if (
            array.is_meta
            or _is_wrapped(array)
            or torch._is_functional_tensor(array)
            or (listened_to and type(array).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__)
        ):
            return True
        device = array.device.type
        castable = array.is_floating_point() and not fits(tile, array.dtype)
        if castable and device in ("cpu", "cuda") and torch.is_autocast_enabled(device):
            return True
    if found and torch.jit.is_tracing():  # to which a result without an op is a constant
        return True
    return found and listened_to and torch._C._len_torch_dispatch_stack() > 0
