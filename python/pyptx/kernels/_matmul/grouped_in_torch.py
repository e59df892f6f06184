"""`grouped_matmul` for torch's tensors, and its gradients: of b one launch of products of groups of rows (`parted`)."""

import torch

from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.frameworks.torch.call import is_transformed, leave_derivatives_to_eager
from pyptx.frameworks.torch.differentiable import applied, no_view
from pyptx.kernels._matmul.arguments import NAMES, check_ends, check_groups, gated_columns, width_of
from pyptx.kernels._matmul.calls_in_torch import Seen, contiguous, is_turned, transposed
from pyptx.kernels._matmul.choice import engine, grouped_kernel, parted_kernel
from pyptx.kernels._matmul.grouped_gradient import clear_kernel, vector_of
from pyptx.kernels._matmul.in_torch import (
    DERIVATIVES,
    LIBRARY,
    is_recorded,
    multiplied,
    must_trace,
    one_by_one,
    transformable,
)
from pyptx.kernels._matmul.tiles import MOST_GROUPS
from pyptx.kernels._memory import check_apart, copied_to, dense
from pyptx.kernels._remembered import Remembered
from pyptx.kernels._types import spelled, type_name
from pyptx.types import bf16

__all__ = ["grouped", "parted_product", "recorded_groups"]


def grouped(a, b, ends, masked, activation, scale_a, scale_b, out):
    given = (a, b, ends, scale_a, scale_b)
    if not must_trace(given):
        return run_grouped(*given, masked, activation, out=out)
    if out is None and is_recorded(given):
        return recorded_groups(*given, masked, activation)
    made = grouped_product(*given, masked, activation, False)
    if out is None:
        return made
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        raise LaunchTypeError("grouped_matmul: out= has no gradient; call it under torch.no_grad(), or without out=")
    return out.copy_(torch.where(counted(a, ends, masked), made, out))


def counted(a, ends, masked: bool):
    """Which rows belong to a group, (..., 1)."""
    rows = torch.arange(a.shape[-2], device=a.device)
    return (rows < ends[:, None])[..., None] if masked else (rows < (ends[-1] if len(ends) else 0))[:, None]


def kind_of(tensor):
    return NAMES[type_name(tensor)]


def run_grouped(a, b, ends, scale_a=None, scale_b=None, masked=False, activation=None, cleared=False, out=None):
    """`cleared`: rows of no group, which otherwise are not written, become zeros."""
    check_ends(ends, a.shape[-2], masked)
    n = gated_columns("grouped_matmul", b.shape[2], activation, scale_a is not None)
    shape, dtype = (*a.shape[:-1], n), a.dtype if scale_a is None else torch.bfloat16
    if out is not None and (out.shape != shape or out.dtype != dtype):
        raise LaunchValueError(
            f"grouped_matmul: out is {type_name(out)} {tuple(out.shape)}, not {spelled(dtype)} {shape}"
        )
    if out is not None:
        beside = {"a": a, "b": b, "counts" if masked else "offs": ends, "scale_a": scale_a, "scale_b": scale_b}
        check_apart("grouped_matmul", out, beside, "")
    if 0 in shape or not b.shape[0]:
        return a.new_zeros(shape, dtype=dtype) if out is None else out
    if not b.shape[1]:  # the sum of nothing: zeros make it
        a, b = a.new_zeros((*a.shape[:-1], 8)), b.new_zeros((b.shape[0], 8, b.shape[2]))
    if cleared:
        out = zeros_behind(ends, a.new_empty(shape, dtype=dtype), masked)
    elif out is None and not a.is_cuda:  # the simulator reports rows that no group has written
        out = a.new_zeros(shape, dtype=dtype)
    one, two = Seen(a.reshape(-1, a.shape[-1])), Seen(b)
    if not one.orient(across=False):
        one.step(transposed)
        one.step(contiguous)
    b_k_major = two.orient(across=True)
    two.halve(activation, b_k_major)
    scales = () if scale_a is None else (scale_a.reshape(-1, scale_a.shape[-1]), scale_b)
    turned = [is_turned(each) for each in scales] or [False, False]
    scales = [(each.mT if is_other else each).contiguous() for each, is_other in zip(scales, turned, strict=False)]
    if b.shape[0] > MOST_GROUPS or not engine(a.is_cuda, kind_of(a), one.width, two.width, width_of(n * 2)):
        one.pack()
        two.pack()
    kernel = grouped_kernel(
        one.tensor.shape, b.shape[0], n, type_name(a), b_k_major, one.width, two.width, a.is_cuda, masked, activation,
        not turned[0], turned[1],
    )  # fmt: skip
    arrays = (one.tensor, two.tensor, *scales, ends.contiguous())
    if out is None:
        return kernel(*arrays).view(shape)
    made = out.contiguous()
    if made.data_ptr() % 16:
        made = made.clone()  # and not a new one: rows of no group stay
    kernel(*arrays, out=made.view(-1, n))
    return out if made is out else copied_to("grouped_matmul", out, made)


def zeros_behind(ends, made, masked: bool):
    """`made` with zeros in the rows of no group."""
    counts, groups = (ends.contiguous(), made) if masked else (ends[-1:], made[None])
    clear_kernel(kind_of(made), vector_of(made.shape[-1], kind_of(made)))(counts, groups)
    return made


def op_grouped(*given):
    return no_view(run_grouped(*given))


def fake_grouped(a, b, ends, scale_a=None, scale_b=None, masked=False, activation=None, cleared=False):
    told = (None, ends) if masked else (ends, None)
    columns = check_groups(a, b, *told, activation, scale_a, scale_b)
    return a.new_empty(*a.shape[:-1], columns, dtype=a.dtype if scale_a is None else torch.bfloat16)


def setup_grouped(ctx, inputs, output):
    if inputs[3] is not None:
        raise LaunchTypeError("grouped_matmul: products with scales have no gradient")
    ctx.save_for_backward(*inputs[:3])
    ctx.masked, ctx.activation = inputs[5:7]


def backward_grouped(ctx, g):
    """Nothing reads rows of no group, so that g is not copied.  Of b one launch; under transformations of torch.func a product a matrix, of
    the rows that are its own: a mask of them costs no copy to the host."""
    a, b, ends = ctx.saved_tensors
    da = db = None
    if ctx.activation is not None:  # whose second derivative makes NaN of the NaN that memory may have
        z = grouped_product(a, b, ends, None, None, ctx.masked, None, torch.is_grad_enabled())
        g = DERIVATIVES[ctx.activation](g, z)
    if ctx.needs_input_grad[0]:
        da = grouped_product(g, b.mT, ends, None, None, ctx.masked, None, True)
    stacked = is_transformed() or engine(a.is_cuda, bf16, 16).startswith("sm_10")
    if ctx.needs_input_grad[1] and not (stacked and len(ends)):
        db = parted_product(a, g, ends, ctx.masked)
    elif ctx.needs_input_grad[1]:
        own = counted(a, ends, ctx.masked)
        a, g = torch.where(own, a, 0), torch.where(own, g, 0)
        db = multiplied(a.mT, g) if ctx.masked else torch.stack([multiplied(each.mT, g) for each in apart(a, ends)])
    return da, db, None, None, None, None, None, None


def apart(a, ends):
    """A copy of a for each group, with zeros in place of the rows of other groups."""
    whose = torch.searchsorted(ends, torch.arange(a.shape[0], device=a.device), right=True, out_int32=True)
    return [torch.where((whose == e)[:, None], a, 0) for e in range(len(ends))]


def parted(a, g, ends, masked=False):
    """The products a[rows of e].mT @ g[rows of e], (E, K, N), of a (T, K) and g (T, N), or, of rows that count, (E, R, K) and (E, R, N)."""
    if not (a.numel() and g.numel()):  # no rows, or no result
        return fake_parted(a, g, ends).zero_()
    kernel = parted_kernel(a.shape[-1], g.shape[-1], len(ends), type_name(a), a.is_cuda, masked)
    a, g = (dense(each, False).view(-1, each.shape[-1]) for each in (a, g))
    return kernel(a, g, ends.contiguous())


def parted_product(*given):
    return torch.ops.pyptx.parted_matmul(*given)


def fake_parted(a, g, ends, masked=False):
    return a.new_empty(ends.shape[0], a.shape[-1], g.shape[-1])


def setup_parted(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3])
    ctx.masked = inputs[3]


def backward_parted(ctx, pull):
    a, g, ends = ctx.saved_tensors
    da = grouped_product(g, pull.mT, ends, None, None, ctx.masked, None, True)
    return da, grouped_product(a, pull, ends, None, None, ctx.masked, None, True), None, None


GroupedProduct = transformable("grouped_matmul", setup_grouped, backward_grouped)


def grouped_product(*given):
    leave_derivatives_to_eager()
    return (
        GroupedProduct.apply(*given)
        if is_transformed() and given[3] is None
        else torch.ops.pyptx.grouped_matmul(*given)
    )


def unrecorded(a, b, ends, scale_a, scale_b, out, *, masked, activation):
    return run_grouped(a, b, ends, scale_a, scale_b, masked, activation, out=out)


UNRECORDED = Remembered(unrecorded)


class RecordedGroups(torch.autograd.Function):
    """As `RecordedProduct`."""

    backward = staticmethod(backward_grouped)

    @staticmethod
    def forward(ctx, *given):
        *tensors, masked, activation, _ = given
        made = no_view(UNRECORDED(tuple(tensors), None, masked=masked, activation=activation))
        setup_grouped(ctx, given, made)
        return made


_groups = applied(RecordedGroups)


def recorded_groups(*given):
    return _groups(*given, False)


def batched_groups(info, dims, *arguments):
    return one_by_one(torch.ops.pyptx.grouped_matmul, info, dims, arguments)


LIBRARY.define(
    "grouped_matmul(Tensor a, Tensor b, Tensor ends, Tensor? scale_a=None, Tensor? scale_b=None, bool masked=False, str? activation=None,"
    " bool cleared=False) -> Tensor"
)
LIBRARY.define("parted_matmul(Tensor a, Tensor g, Tensor ends, bool masked=False) -> Tensor")
for device in ("CPU", "CUDA"):
    LIBRARY.impl("grouped_matmul", op_grouped, device)
    LIBRARY.impl("parted_matmul", parted, device)
torch.library.register_fake("pyptx::grouped_matmul", fake_grouped, lib=LIBRARY)
torch.library.register_vmap("pyptx::grouped_matmul", batched_groups, lib=LIBRARY)
torch.library.register_autograd("pyptx::grouped_matmul", backward_grouped, setup_context=setup_grouped, lib=LIBRARY)
torch.library.register_fake("pyptx::parted_matmul", fake_parted, lib=LIBRARY)
torch.library.register_autograd("pyptx::parted_matmul", backward_parted, setup_context=setup_parted, lib=LIBRARY)
