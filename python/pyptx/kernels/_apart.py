"""How functions over rows call their kernels for tensors of torch whose rows lie apart (_rows/apart.py): without a copy.  A compiler, a
transformation or a mode of torch never comes here; for those the tensors are packed first."""

import math

from pyptx import _core
from pyptx.frameworks.differentiable import differentiated_once
from pyptx.kernel import Kernel
from pyptx.kernels._rows.apart import can_lie_apart, in_place, scalars_of
from pyptx.kernels._rows.split import has_edges
from pyptx.kernels._rows.turned import LEAST, turning_kernel
from pyptx.kernels._target import family
from pyptx.kernels._types import TYPES, type_name

__all__ = ["apart_backward", "are_apart", "is_packed", "laid", "packed", "repacked", "where_they_lie"]


def are_apart(tensors, out) -> bool:
    """Whether a kernel can have the rows of these tensors of one shape, and of `out`, where they lie, and one of them is not packed."""
    present = [*tensors, *([] if out is None else [out])]
    if not all(hasattr(each, "storage_offset") for each in present) or all(each.is_contiguous() for each in present):
        return False
    return (
        can_lie_apart(tensors[0].shape)
        and are_alone(present)
        and any(not is_packed(each) and in_place(each) for each in present)
    )


def are_alone(tensors) -> bool:
    """Whether the tensors are memory of one device, and torch only wants to see gradients."""
    import torch

    if torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() or torch.jit.is_tracing():
        return False

    def is_memory(tensor) -> bool:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type in ("cpu", "cuda")
        functorch = torch._C._functorch
        wrapped = functorch.is_functorch_wrapped_tensor(tensor) or functorch.is_legacy_batchedtensor(tensor)
        return plain and not wrapped and not tensor.is_neg()

    return all(map(is_memory, tensors))


def is_packed(tensor) -> bool:
    return tensor.is_contiguous() and tensor.data_ptr() % 16 == 0


def laid(tensor):
    """The tensor if a kernel finds its rows where they lie, else a packed copy."""
    return tensor if in_place(tensor) else packed(tensor)


def packed(tensor):
    """The tensor if it is packed, else a copy."""
    if is_packed(tensor):
        return tensor
    if (made := repacked(tensor)) is not None:
        return made
    import torch

    return tensor.clone(memory_format=torch.contiguous_format)


def repacked(tensor):
    """A packed copy by a kernel, of a tensor that is a view of packed memory in which some dimensions stand behind its last one; None of others."""
    kind = TYPES.get(type_name(tensor))
    if kind is None or tensor.is_contiguous() or not are_alone((tensor,)) or tensor.data_ptr() % 16:
        return None
    *lead, n = tensor.shape
    for at in range(len(lead)):
        memory = tensor.movedim(-1, at)
        if memory.is_contiguous():
            columns = math.prod(lead[at:])
            if min(n, columns) < LEAST:
                return None
            made = turning_kernel(kind, columns, n, bool(family(tensor.is_cuda)))
            made = made if _core.are_recorded((tensor,)) else made.forward_kernel
            return made(memory.reshape(-1, n, columns)).reshape(tensor.shape)
    return None


def where_they_lie(kernel: Kernel, *tensors, **options):
    """Calls a kernel over rows with tensors that may lie apart, and have leading dimensions in place of rows: those of as many dimensions as the
    first has are its matrices."""
    if is_traced(tensors[0]):
        return kernel(*tensors, **options)
    *lead, n = tensors[0].shape
    matrices = [len(each.shape) == len(lead) + 1 for each in tensors]
    if are_apart([each for each, rows in zip(tensors, matrices, strict=True) if rows], None) and takes_apart(kernel, n):
        given = [laid(each) if rows else packed(each) for each, rows in zip(tensors, matrices, strict=True)]
        apart = kernel.apart(len(lead) + 1)
        return apart(*given, **options, **scalars_of(apart, given, ()))
    given = [packed(each) if are_alone(tensors) else each.contiguous() for each in tensors]
    if len(lead) == 1:
        return kernel(*given, **options)
    made = kernel(*[flat(tile, each) for tile, each in zip(kernel.in_specs, given, strict=True)], **options)
    results = made if isinstance(made, tuple) else (made,)
    whole = [
        each.reshape(*lead, -1) if tile.shape[0] == "M" else each
        for tile, each in zip(kernel.out_specs, results, strict=True)
    ]
    return tuple(whole) if isinstance(made, tuple) else whole[0]


def flat(tile, tensor):
    """The tensor with its leading dimensions as one, if it has the rows of the tile."""
    if tile.shape[0] != "M":
        return tensor
    return tensor.reshape(-1, tensor.shape[-1]) if len(tile.shape) == 2 else tensor.reshape(-1)


def is_traced(tensor) -> bool:
    """Whether a compiler traces, or it is not a tensor of torch."""
    if not hasattr(tensor, "storage_offset"):
        return True
    import torch

    return torch.compiler.is_compiling()


def takes_apart(kernel: Kernel, n: int) -> bool:
    """Whether the kernel's rows of n elements may lie apart: pieces must not begin inside of vectors."""
    return not has_edges(n // kernel.pieces(n), 16)


def apart_backward(backward):
    """The backward of a kernel for rows that lie apart; its gradients may lie otherwise than what was saved."""
    if not isinstance(backward, Kernel):
        return backward  # a function that calls `where_they_lie` itself

    @differentiated_once
    def lying(*tensors, **options):
        return where_they_lie(backward, *tensors, **options)

    return lying
