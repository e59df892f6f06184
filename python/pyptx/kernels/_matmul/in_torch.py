"""`matmul` for torch's tensors, and its gradients.  Where torch traces or differentiates, the call is a torch op; other calls are of
`calls_in_torch.py`."""

import math
from functools import partial
from operator import is_

import torch

from pyptx import _core
from pyptx.errors import LaunchTypeError
from pyptx.frameworks.elements import framework_name
from pyptx.frameworks.torch.call import is_transformed, leave_derivatives_to_eager
from pyptx.frameworks.torch.differentiable import applied, no_view
from pyptx.kernels._matmul.arguments import (
    ARGUMENTS,
    NAMES,
    shape_of,
    types_of,
)
from pyptx.kernels._matmul.calls_in_torch import run
from pyptx.kernels._matmul.grouped_gradient import gated_gradient_kernel, vector_of
from pyptx.kernels._matmul.launches import DTYPES
from pyptx.kernels._memory import check_apart, dense
from pyptx.kernels._remembered import Remembered
from pyptx.kernels._target import simulated
from pyptx.kernels._torch_state import autocast_number, autocast_type
from pyptx.kernels._types import type_name

__all__ = ["matmul"]

# Types of scale factors of _matmul/scaled.py.
FACTORS = (torch.float8_e4m3fn, getattr(torch, framework_name("ue8m0"), None))
PLAIN = (torch.Tensor, torch.nn.Parameter)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def matmul(choice, given, activation, out):
    """`choice` remembers what was done with such tensors."""
    a, b, *more = given
    if more[2] is not None and more[2].dtype in FACTORS:
        return scaled(given, activation, out)
    whole, options = given, {"activation": activation, "target": simulated.target}
    if any_autocast():
        a, b = cast_by_autocast(a, b)
        given = (a, b, *more)
    if not must_trace(given):
        if out is not None:
            check_apart("matmul", out, dict(zip(ARGUMENTS, given, strict=True)), "residual")
        _core.heed_state(choice, any_autocast, autocast_number)
        return _core.remember_launches(choice, whole, out, options, partial(run, given, activation, out))
    if out is None:
        if not is_recorded(given):
            return product(*given, activation)
        if all(map(is_, given, whole)):
            function = partial(recorded_product, activation)
            _core.heed_state(choice, any_autocast, autocast_number)
            _core.remember_derivative(choice, given, options, function, list(range(len(given))))
        return recorded_product(activation, *given)
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in given):
        raise LaunchTypeError("matmul: out= has no gradient; call it under torch.no_grad(), or without out=")
    return out.copy_(torch.ops.pyptx.matmul(*given, activation))


def cast_by_autocast(a, b) -> tuple:
    cast = autocast_type(a)
    return (a, b) if cast is None or a.dtype not in FLOATS else (a.to(cast), b.to(cast))


def check_tensors(function: str, names, given, out):
    for name, each in zip((*names, "out"), (*given, out), strict=True):
        if each is not None and not isinstance(each, torch.Tensor):
            raise LaunchTypeError(
                f"{function}: `{name}` is {type(each).__name__}; beside a tensor of torch all are tensors of torch"
            )


def scaled(given, activation, out):
    """`matmul` for formats whose scale factors are not f32."""
    from pyptx.kernels._matmul.scaled import scaled_matmul

    if not must_trace(given):
        return scaled_matmul(given, activation, out)
    made = torch.ops.pyptx.scaled_matmul(*given, activation)
    return made if out is None else out.copy_(made)


# Calls that are not remembered ask these.  To look up the attributes of torch at each call would take as long as the answer.
any_autocast, compiling = torch._C._is_any_autocast_enabled, torch.compiler.is_compiling
transforms, modes = torch._C._are_functorch_transforms_active, torch._C._len_torch_dispatch_stack
gradients, jit_traces = torch.is_grad_enabled, torch.jit.is_tracing


def must_trace(given) -> bool:
    if compiling() or transforms() or modes() or jit_traces():
        return True
    grad = gradients()
    return any([each is not None and (type(each) not in PLAIN or (grad and each.requires_grad)) for each in given])


def is_recorded(given) -> bool:
    """Whether torch.autograd alone wants to see a product of these."""
    return not compiling() and _core.are_recorded(tuple([each for each in given if each is not None]))


def is_plain(*tensors) -> bool:
    """Whether these are memory that nobody but a kernel wants to see, and that is not cast."""
    return not compiling() and not any_autocast() and _core.are_plain(tensors)


# The op.


def op(a, b, bias, residual, scale_a, scale_b, activation):
    return no_view(run((a, b, bias, residual, scale_a, scale_b), activation))


def fake(a, b, bias, residual, scale_a, scale_b, activation):
    given = (a, b, bias, residual, scale_a, scale_b)
    names = [None if each is None else type_name(each) for each in given]
    *_, result = types_of(names, activation, None)
    return a.new_empty(
        shape_of(*[None if each is None else each.shape for each in given], None, activation), dtype=DTYPES[result]
    )


def setup_context(ctx, inputs, output):
    a, b, bias, residual, *_, ctx.activation = inputs
    if not has_gradient(inputs):
        raise LaunchTypeError("matmul: products with scales, of fp8 or int8, have no gradient")
    ctx.save_for_backward(a, b, bias)
    ctx.biased, ctx.residual = bias is not None, None if residual is None else residual.dtype


DERIVATIVES = {
    "relu": lambda g, z: torch.ops.aten.threshold_backward(g, z, 0),
    "gelu": torch.ops.aten.gelu_backward,
    "silu": lambda g, z: through_silu(g, z),
    "swiglu": lambda g, z: through_gate(g, z, "swiglu"),
    "geglu": lambda g, z: through_gate(g, z, "geglu"),
}
GATES = {
    "swiglu": lambda z: (torch.ops.aten.silu(z), through_silu),
    "geglu": lambda z: (torch.ops.aten.gelu(z), torch.ops.aten.gelu_backward),
}


def through_silu(g, z):
    """torch's own has no second derivative."""
    if not torch.is_grad_enabled():
        return torch.ops.aten.silu_backward(g, z)
    wide = z.float()
    s = torch.sigmoid(wide)
    return (g * (s * (1 + wide * (1 - s)))).to(z.dtype)


def through_gate(g, z, name: str):
    """One kernel; torch's own functions where they are differentiated, or transformed, again."""
    if not (torch.is_grad_enabled() or is_transformed()):
        return torch.ops.pyptx.gated_gradient(g, z, name)
    gate, up = z.chunk(2, -1)
    value, derivative = GATES[name](gate)
    return torch.cat((derivative(g * up, gate), g * value), -1)


def op_gated_gradient(g, z, activation):
    kind, columns = NAMES[type_name(z)], g.shape[-1]
    if not g.numel():
        return torch.empty_like(z)
    g, z = dense(g, False).view(-1, columns), dense(z, False)
    kernel = gated_gradient_kernel(activation, kind, vector_of(columns, kind))
    return no_view(kernel(z.view(-1, 2, columns), g).view(z.shape))


def backward(ctx, g):
    a, b, bias = ctx.saved_tensors
    needs = ctx.needs_input_grad
    dz = g
    if ctx.activation is not None:
        dz = DERIVATIVES[ctx.activation](g, multiplied(a, b, bias))
    da = reduced(multiplied(dz, b.mT), a.shape) if needs[0] else None
    db = None
    if needs[1]:
        if b.dim() == 2 and a.dim() > 2:
            rows, pulled = (  # torch's older vmap knows no flatten
                each.reshape(math.prod(each.shape[:-1]), each.shape[-1]) for each in (a, dz)
            )
            db = multiplied(rows.mT, pulled)
        else:
            db = reduced(multiplied(a.mT, dz), b.shape)
    dbias = dz.sum(dim=tuple(range(dz.dim() - 1)), dtype=bias.dtype) if ctx.biased and needs[2] else None
    return da, db, dbias, g.to(ctx.residual) if ctx.residual and needs[3] else None, None, None, None


def transformable(name: str, setup, derive):
    """The op of this name as torch.func.grad and its kin take it, which do not take what register_autograd makes."""

    class Product(torch.autograd.Function):
        generate_vmap_rule = True
        setup_context, backward = staticmethod(setup), staticmethod(derive)

        @staticmethod
        def forward(*given):
            return getattr(torch.ops.pyptx, name)(*given)

        @staticmethod
        def jvp(ctx, *tangents):
            raise LaunchTypeError(f"{name}: it has gradients (grad, vjp), but no forward-mode derivative (jvp)")

    return Product


Product = transformable("matmul", setup_context, backward)


def unrecorded(a, b, bias, residual, scale_a, scale_b, out, *, activation):
    return run((a, b, bias, residual, scale_a, scale_b), activation, out)


UNRECORDED = Remembered(unrecorded)


class RecordedProduct(torch.autograd.Function):
    """A product that autograd records and nobody else wants to see.  By the op it would take four times as long."""

    backward = staticmethod(backward)

    @staticmethod
    def forward(ctx, *given):
        made = no_view(UNRECORDED(given[:-1], None, activation=given[-1]))
        setup_context(ctx, given, made)
        return made


_product = applied(RecordedProduct)


def recorded_product(activation, *given):
    return _product(*given, activation)


def product(*given):
    leave_derivatives_to_eager()
    return Product.apply(*given) if is_transformed() and has_gradient(given) else torch.ops.pyptx.matmul(*given)


def has_gradient(given) -> bool:
    a, scale = given[0], given[4]
    return scale is None and a.dtype.is_floating_point and a.element_size() > 1


def multiplied(a, b, bias=None):
    """A product of a backward, which torch.autocast does not cast."""
    given = (a, b, bias, None, None, None)
    if not is_plain(a, b):
        return product(*given, None)
    return UNRECORDED(given, None, activation=None)


def reduced(gradient, shape):
    return gradient if gradient.shape == shape else gradient.sum_to_size(shape)


def batched(info, dims, *arguments):
    """vmap: one more leading dimension of a and b; where another argument has it, one call each."""
    *given, activation = arguments
    moved = [
        each if dim is None or each is None else each.movedim(dim, 0)
        for each, dim in zip(given, dims[:-1], strict=True)
    ]
    if any(dim is not None for dim in dims[2:-1]) or all(dim is None for dim in dims[:2]):
        return one_by_one(torch.ops.pyptx.matmul, info, dims, arguments)
    a, b, *more = moved
    rank = max(a.dim() - (dims[0] is not None), b.dim() - (dims[1] is not None))
    if dims[0] is not None:
        a = a.reshape(a.shape[0], *[1] * (rank + 1 - a.dim()), *a.shape[1:])
    if dims[1] is not None:
        b = b.reshape(b.shape[0], *[1] * (rank + 1 - b.dim()), *b.shape[1:])
    if more[1] is not None:  # of one call, for all
        more[1] = more[1].expand(info.batch_size, *more[1].shape)
    return torch.ops.pyptx.matmul(a, b, *more, activation), 0


def one_by_one(op, info, dims, arguments):
    """vmap by a call each."""
    if info.batch_size == 0:
        one = [
            each if dim is None else each.new_zeros((*each.shape[:dim], *each.shape[dim + 1 :]))
            for each, dim in zip(arguments, dims, strict=True)
        ]
        made = op(*one)
        return made.new_empty((0, *made.shape)), 0
    calls = [
        [each if dim is None else each.select(dim, i) for each, dim in zip(arguments, dims, strict=True)]
        for i in range(info.batch_size)
    ]
    return torch.stack([op(*call) for call in calls]), 0


LIBRARY = torch.library.Library("pyptx", "FRAGMENT")
LIBRARY.define(
    "matmul(Tensor a, Tensor b, Tensor? bias, Tensor? residual, Tensor? scale_a, Tensor? scale_b, str? activation) -> Tensor"
)
for device in ("CPU", "CUDA"):
    LIBRARY.impl("matmul", op, device)
torch.library.register_fake("pyptx::matmul", fake, lib=LIBRARY)
torch.library.register_autograd("pyptx::matmul", backward, setup_context=setup_context, lib=LIBRARY)
torch.library.register_vmap("pyptx::matmul", batched, lib=LIBRARY)
LIBRARY.define("gated_gradient(Tensor g, Tensor z, str activation) -> Tensor")
for device in ("CPU", "CUDA"):
    LIBRARY.impl("gated_gradient", op_gated_gradient, device)
torch.library.register_fake("pyptx::gated_gradient", lambda g, z, activation: z.new_empty(z.shape), lib=LIBRARY)


# Formats with block scales.


def op_scaled(a, b, bias, residual, scale_a, scale_b, activation):
    from pyptx.kernels._matmul.scaled import scaled_matmul

    return scaled_matmul((a, b, bias, residual, scale_a, scale_b), activation, None)


def fake_scaled(a, b, bias, residual, scale_a, scale_b, activation):
    from pyptx.kernels._matmul.scaled import check as check_scaled

    return a.new_empty(check_scaled(a, b, scale_a, scale_b, activation)[1], dtype=torch.bfloat16)


def setup_scaled(ctx, inputs, output):
    raise LaunchTypeError("matmul: products with scales, of fp8 or int8, have no gradient")


LIBRARY.define(
    "scaled_matmul(Tensor a, Tensor b, Tensor? bias, Tensor? residual, Tensor scale_a, Tensor scale_b, str? activation) -> Tensor"
)
for device in ("CPU", "CUDA"):
    LIBRARY.impl("scaled_matmul", op_scaled, device)
torch.library.register_fake("pyptx::scaled_matmul", fake_scaled, lib=LIBRARY)
torch.library.register_autograd("pyptx::scaled_matmul", lambda ctx, g: None, setup_context=setup_scaled, lib=LIBRARY)
