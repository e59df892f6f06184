"""`matmul` for torch's tensors: strides and alignment choose the kernel.  Where torch traces or differentiates, the call is a torch op."""

import math
from functools import partial
from operator import attrgetter, is_, methodcaller

import torch

from pyptx import _core
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.frameworks.elements import framework_name
from pyptx.frameworks.torch.call import is_transformed, leave_derivatives_to_eager
from pyptx.frameworks.torch.differentiable import applied, no_view
from pyptx.kernels._activations import GATED
from pyptx.kernels._call import Remembered, autocast_number, autocast_type, check_apart, copied_to, dense
from pyptx.kernels._matmul.arguments import (
    ARGUMENTS,
    NAMES,
    epilogue_of,
    line_of,
    shape_of,
    size,
    types_of,
    width_of,
)
from pyptx.kernels._matmul.choice import Problem, engine, lies_by_columns
from pyptx.kernels._matmul.cuts import small_cut
from pyptx.kernels._matmul.grouped_gradient import gated_gradient_kernel, vector_of
from pyptx.kernels._matmul.launches import DTYPES, is_line_by_columns, launches_of
from pyptx.kernels._matmul.transposed import MOST_LINES, transposed_f32
from pyptx.kernels._target import simulated

__all__ = ["matmul"]

# Types of scale factors of _matmul/scaled.py.
FACTORS = (torch.float8_e4m3fn, getattr(torch, framework_name("ue8m0"), None))
PLAIN = (torch.Tensor, torch.nn.Parameter)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
FEW = 16  # columns
MOST = 4096  # calls that are remembered
CALLS: dict = {}

transposed, contiguous = attrgetter("mT"), methodcaller("contiguous")


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


def run(given, activation, out=None):
    """Multiplies tensors that have memory: finds the Call for such tensors, or makes it."""
    a, b, *more = given
    # What decides how they are multiplied; the kernel checks the rest.
    key = (
        a.shape,
        a.stride(),
        a.dtype,
        b.shape,
        b.stride(),
        b.dtype,
        a.data_ptr() & 15,
        b.data_ptr() & 15,
        a.is_cuda or simulated.target,
        activation,
    )
    if more[0] is not None or more[1] is not None or more[2] is not None:
        looks = [
            None if each is None else (each.shape, each.stride(), each.dtype, each.data_ptr() & 15) for each in more
        ]
        key = (*key, *looks)
    if out is not None:
        key = (*key, out.dtype, out.data_ptr() & 15)
    call = CALLS.get(key)
    if call is None:
        if len(CALLS) >= MOST:
            CALLS.clear()
        call = CALLS[key] = Call(given, activation, out)
    return call(given, out)


class Seen:
    """A tensor as a kernel takes it.  `steps` are the views and copies that led there; `again` repeats them for a tensor that looks like it."""

    def __init__(self, tensor):
        self.tensor, self.steps = tensor, []

    def step(self, function):
        self.tensor = function(self.tensor)
        self.steps.append(function)

    def pack(self, aligned: bool = False):
        if not self.tensor.is_contiguous():
            self.step(contiguous)
        if not self.packed:  # a dimension of one element may have any stride, which would tell a wrong width
            self.step(methodcaller("as_strided", self.tensor.shape, strides_of(self.tensor.shape)))
        if aligned and self.tensor.data_ptr() % 16:
            self.step(methodcaller("clone"))

    def reshape(self, shape):
        """Gives the tensor this shape.  If it has too few elements, it is one line, which all lines share."""
        if size(self.tensor.shape) != size(shape):
            self.step(methodcaller("reshape", line_of(self.tensor.numel(), shape)))
            self.step(methodcaller("expand", shape))
        elif self.tensor.shape != shape:
            self.step(methodcaller("reshape", shape))

    def again(self, tensor):
        for step in self.steps:
            tensor = step(tensor)
        return tensor

    def orient(self, across: bool, by_columns: bool = False) -> bool:
        """Makes the tensor (rows, K) or (K, rows) with the last dimension contiguous, without a copy if that is possible.  Returns whether it
        is (rows, K).  `across`: it is (K, rows) before.  `by_columns`: (K, rows) may have elements of any size."""
        t = self.tensor
        natural = lies(t, -1)
        if not natural and not lies(t, -2):
            if across:
                self.step(transposed)
            self.step(contiguous)
            return True
        k_major = natural != across
        if (
            not (k_major or by_columns) and t.element_size() != 2
        ):  # wgmma and ldmatrix transpose elements of 16 bits only
            if across:
                self.step(transposed)
            self.step(by_rows)
            return True
        if not natural:
            self.step(transposed)
        return k_major

    def halve(self, activation, k_major: bool):
        """Makes gates and ups two matrices of one tensor."""
        if activation in GATED:
            dim = -2 if k_major else -1
            self.step(methodcaller("unflatten", dim, (2, self.tensor.shape[dim] // 2)))

    @property
    def packed(self) -> bool:
        return self.tensor.stride() == strides_of(self.tensor.shape)

    @property
    def width(self) -> int:
        t = self.tensor
        return width_of(t.data_ptr(), *(stride * t.element_size() for stride in t.stride()[:-1]))


def strides_of(shape) -> tuple:
    """Of a tensor without gaps."""
    return tuple(size(shape[i + 1 :]) for i in range(len(shape)))


def by_rows(t):
    """`contiguous` of what lies by columns: torch's takes three times as long."""
    lying, (*_, m, n) = t.mT, t.shape
    quick = (t.is_cuda or simulated.target) and t.dtype == torch.float32 and lying.is_contiguous()
    if not quick or not 0 < size(t.shape[:-2]) < 65536 or n > MOST_LINES:
        return t.contiguous()
    vector = 1 if m % 4 or n % 4 or t.data_ptr() % 16 else 4
    return transposed_f32(vector)(lying.reshape(-1, n, m)).view(t.shape)


def lies(t, dim: int) -> bool:
    """Whether the lines along `dim`, one of the last two dimensions, are contiguous and do not overlap."""
    if t.is_contiguous():
        return dim == -1
    other = -3 - dim
    return t.stride(dim) == 1 and t.stride(other) >= t.shape[dim] and all(stride > 0 for stride in t.stride()[:-2])


class Call:
    """What a call does for tensors of certain shapes, strides and types."""

    def __init__(self, given, activation, out):
        for name, each in zip(ARGUMENTS, given, strict=True):
            if each is not None and each.device != given[0].device:
                raise LaunchValueError(f"matmul: `{name}` is on {each.device}, `a` is on {given[0].device}")
        names = [None if each is None else str(each.dtype).removeprefix("torch.") for each in (*given, out)]
        *types, result = types_of(names[:-1], activation, names[-1])
        self.shape = shape_of(*[None if each is None else each.shape for each in (*given, out)], activation)
        self.dtype = DTYPES[result]
        self.empty = 0 in self.shape
        if self.empty:
            return
        self.seen = [None if each is None else Seen(each) for each in given]
        a, b, *more = self.seen
        if a.tensor.shape[-1] == 0:  # sums without terms are 0: eight columns of zeros give them
            a.step(lambda t: t.new_zeros((*t.shape[:-1], 8)))
            b.step(lambda t: t.new_zeros((*t.shape[:-2], 8, t.shape[-1])))
        self.flat = flatten(a, b, self.shape)
        # The kernel names its tensors in another order: scales first.
        self.order = [position for position in (0, 1, 4, 5, 2, 3) if given[position] is not None]
        alone = len(self.order) == 2 and activation not in GATED
        if not alone or activation is not None:
            self.join(a, b)
        *batch, m, n = self.flat
        alone = alone and not batch
        column = n == 1 and alone
        few = alone and activation is None and is_few(m, n, a, b)
        if column or few:  # B^T A^T: a stream, of rows of A
            a, b, m, n, self.order = b, a, n, m, [1, 0]
            a.step(methodcaller("reshape", (1, -1)) if column else transposed)
            if few:
                a.pack(aligned=True)
            else:
                self.flat = (m, n)
        a_k_major = a.orient(across=False)
        by_columns = not (column or few) and may_lie_by_columns(batch, m, n, a, b, types[0], result, activation)
        b_k_major = b.orient(not (column or few), by_columns)
        k = a.tensor.shape[-1 if a_k_major else -2]
        out_width = width_of(n * self.dtype.itemsize, 0 if out is None or not out.is_contiguous() else out.data_ptr())
        if len(batch) == 2 and not lie_apart(a, b, self.flat, k, types[0], out_width):
            self.join(a, b)
            *batch, m, n = self.flat
        b.halve(activation, b_k_major)
        shapes = [None if each is None else each.shape for each in given]
        turned = [each is not None and each.dim() == 2 and is_turned(each) for each in given[4:6]]
        epilogue, seen = epilogue_of(types, activation, shapes, self.flat, turned)
        if not few and not engine(a.tensor.is_cuda, types[0], a.width, b.width, out_width):
            a.pack()
            b.pack()
        for each, shape, is_other in zip(more, seen, (False, False, *turned), strict=True):
            if each is not None:
                if is_other and epilogue.scales == "block":
                    each.step(transposed)
                each.reshape(shape)
                each.pack(aligned=True)
        problem = Problem(
            m, n, k, size(batch) if batch else None, types[0], result, a_k_major, b_k_major, a.width, b.width, out_width, epilogue,
            a.tensor.is_cuda, turned=few, packed=a.packed and b.packed, apart=len(batch) == 2,
        )  # fmt: skip
        self.kernel = launches_of(problem)
        self.alone = len(self.order) == 2
        self.plain = self.flat == self.shape and not any(self.seen[i].steps for i in self.order)
        for i in self.order:
            self.seen[i].tensor = None  # whose memory calls that are remembered must not keep

    def join(self, a: Seen, b: Seen):
        """Makes one dimension of a batch of two."""
        *batch, m, n = self.flat
        if len(batch) == 2:
            for each in (a, b):
                each.step(methodcaller("reshape", -1, *each.tensor.shape[-2:]))
            self.flat = (size(batch), m, n)

    def __call__(self, given, out):
        if self.empty:
            return given[0].new_empty(self.shape, dtype=self.dtype) if out is None else out
        if self.plain:
            arrays = given[:2] if self.alone else [given[i] for i in self.order]
        else:
            arrays = [self.seen[i].again(given[i]) for i in self.order]
        if out is None:
            result = self.kernel(*arrays)
            return result if self.flat == self.shape else result.view(self.shape)
        if not out.is_contiguous():
            return copied_to("matmul", out, self.kernel(*arrays).view(self.shape))
        self.kernel(*arrays, out=out if self.flat == self.shape else out.view(self.flat))
        return out


def is_turned(scales) -> bool:
    """Whether a kernel takes the transpose of scales of blocks, as it is packed and they are not."""
    return not scales.is_contiguous() and scales.mT.is_contiguous()


def is_few(m: int, n: int, a: Seen, b: Seen) -> bool:
    """Whether a stream of many long rows of A, where B has few columns, is quicker than tiles of both; of more columns if B^T is no copy."""
    k, t = a.tensor.shape[-1], a.tensor
    long = 1 < n <= FEW * (1 + lies(b.tensor, -2)) and 2048 <= m <= 16384 and k >= 4096 and t.element_size() == 2
    return long and lies(t, -1) and engine(t.is_cuda, NAMES[str(t.dtype).removeprefix("torch.")], a.width) == "sm_90a"


def may_lie_by_columns(batch, m: int, n: int, a: Seen, b: Seen, dtype, result, activation) -> bool:
    """Whether a kernel takes b (K, N) as it lies though its elements are f32."""
    k, count = b.tensor.shape[-2], size(batch) if batch else None
    p = Problem(m, n, k, count, dtype, result, True, False, a.width, b.width, on_gpu=a.tensor.is_cuda)
    if not (lies(a.tensor, -1) and lies(b.tensor, -1)) or activation in GATED:
        return False
    return lies_by_columns(p) or (len(batch) == 1 and a.packed and b.packed and is_line_by_columns(p))


def flatten(a: Seen, b: Seen, shape) -> tuple:
    """Makes a and b matrices, or lists of matrices where they must be; the shape of what their product is then."""
    m, columns = shape[-2:]
    k, n = b.tensor.shape[-2:]
    if size(b.tensor.shape[:-2]) == 1:  # one matrix for all rows
        if b.tensor.dim() > 2:
            b.step(methodcaller("reshape", k, n))
        if a.tensor.dim() > 2:
            a.step(methodcaller("reshape", -1, k))
        return (size(shape[:-1]), columns)
    for each, sizes in ((a, (m, k)), (b, (k, n))):
        if each.tensor.shape[:-2] != shape[:-2]:
            each.step(methodcaller("expand", *shape[:-2], *sizes))
    if len(shape) == 4 and not (is_line(a.tensor) and is_line(b.tensor)):
        return tuple(shape)
    for each, sizes in ((a, (m, k)), (b, (k, n))):
        if each.tensor.dim() != 3:
            each.step(methodcaller("reshape", -1, *sizes))
    return (size(shape[:-2]), m, columns)


def is_line(t) -> bool:
    """Whether the first two dimensions are one, by their strides."""
    return 1 in t.shape[:2] or t.stride(0) == t.stride(1) * t.shape[1]


def lie_apart(a: Seen, b: Seen, flat, k: int, dtype, out_width: int) -> bool:
    """Whether wgmma multiplies matrices of a batch of two dimensions as they lie."""
    *batch, m, n = flat
    found = engine(a.tensor.is_cuda, dtype, a.width, b.width, out_width)
    return found == "sm_90a" and not small_cut(m, n, k * dtype.bits // 8, size(batch))


# The op.


def op(a, b, bias, residual, scale_a, scale_b, activation):
    return no_view(run((a, b, bias, residual, scale_a, scale_b), activation))


def fake(a, b, bias, residual, scale_a, scale_b, activation):
    given = (a, b, bias, residual, scale_a, scale_b)
    names = [None if each is None else str(each.dtype).removeprefix("torch.") for each in given]
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
    kind, columns = NAMES[str(z.dtype).removeprefix("torch.")], g.shape[-1]
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
