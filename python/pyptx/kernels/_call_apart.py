"""How functions over rows call their kernels for tensors of torch whose rows lie apart (_rows_apart.py): without a copy.  A compiler, a
transformation or a mode of torch never comes here; for those the tensors are packed first."""

from pyptx import _core
from pyptx.kernel import Kernel
from pyptx.kernels._rows_apart import can_lie_apart, in_place, scalars_of

__all__ = ["apart_backward", "are_apart", "laid", "where_they_lie"]


def are_apart(tensors, out) -> bool:
    """Whether a kernel can have the rows of these tensors of one shape, and of `out`, where they lie, and one of them is not packed."""
    present = [*tensors, *([] if out is None else [out])]
    if not all(hasattr(each, "storage_offset") for each in present) or all(each.is_contiguous() for each in present):
        return False
    return can_lie_apart(tensors[0].shape) and are_alone(present) and any(not is_packed(each) and in_place(each) for each in present)


def are_alone(tensors) -> bool:
    """Whether the tensors are memory of one device, and torch only wants to see gradients."""
    import torch

    if torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() or torch.jit.is_tracing():
        return False
    kinds = (torch.Tensor, torch.nn.Parameter)
    return all(type(each) in kinds and each.device.type in ("cpu", "cuda") and not each.is_neg() for each in tensors)


def is_packed(tensor) -> bool:
    return tensor.is_contiguous() and tensor.data_ptr() % 16 == 0


def laid(tensor):
    """The tensor if a kernel finds its rows where they lie, else a packed copy."""
    if in_place(tensor):
        return tensor
    import torch

    return tensor.clone(memory_format=torch.contiguous_format)


def where_they_lie(kernel: Kernel, *tensors, **options):
    """Calls a kernel over rows with tensors that may lie apart: those of as many dimensions as the first has are its matrices."""
    rank = len(tensors[0].shape)
    if rank == 2 and not are_apart([each for each in tensors if len(each.shape) == rank], None):
        return kernel(*tensors, **options)
    given = [laid(each) if len(each.shape) == rank else each.contiguous() for each in tensors]
    apart = kernel.apart(rank)
    return apart(*given, **options, **scalars_of(apart, given, ()))


def apart_backward(backward):
    """The backward of a kernel for rows that lie apart; its gradients may lie otherwise than what was saved."""
    if not isinstance(backward, Kernel):
        return backward  # a function that calls `where_they_lie` itself

    def lying(*tensors, **options):
        return where_they_lie(backward, *tensors, **options)

    lying.is_differentiable = False
    return lying
