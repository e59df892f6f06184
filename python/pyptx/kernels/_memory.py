"""Where the elements of an array lie: its address, whether two arrays share memory, views and packed copies of it."""

import math

from pyptx import _core
from pyptx.errors import LaunchValueError
from pyptx.kernels._apart import repacked
from pyptx.kernels._compiled import constant_for_compiler
from pyptx.kernels._torch_state import compiling

__all__ = [
    "address_of", "back", "begins_at", "check_apart", "contents", "copied_to", "dense", "has_memory_apart", "last", "packed_array", "shares_memory", "viewed",
]  # fmt: skip


def last(array, dim: int):
    """A view of the array that has this dimension behind the others."""
    return moved(array, dim, -1)


def back(array, dim: int):
    """A view of the array that has its last dimension at `dim`: undoes `last`."""
    return moved(array, -1, dim)


def moved(array, source: int, target: int):
    """A view of the array, of torch, numpy or JAX, in which the dimension `source` stands at `target`."""
    rank = len(array.shape)
    if rank < 2 or source % rank == target % rank:
        return array
    if hasattr(array, "movedim"):
        return array.movedim(source, target)
    order = list(range(rank))
    order.insert(target % rank, order.pop(source % rank))
    return array.transpose(*order)


def viewed(array, rows: int, columns: int):
    """The same memory as a matrix; raises the framework's error if there is no such view."""
    return array.view(rows, columns) if hasattr(array, "storage_offset") else array.reshape(rows, columns)


def dense(tensor, traced: bool):
    """The tensor, or a copy, with its elements packed, at an address that is a multiple of 16 bytes."""
    contiguous = getattr(tensor, "contiguous", None)
    if contiguous is None:  # not of torch
        return packed_array(tensor)
    if not traced and (made := repacked(tensor)) is not None:
        return made
    tensor = contiguous()
    if traced:  # where an address is not known; the launch refuses one that does not fit
        return tensor
    return tensor if begins_at(tensor, 16) else tensor.clone()


def packed_array(array):
    """An array of NumPy, or a copy of it that kernels take; one of JAX lies so."""
    flags = getattr(array, "flags", None)
    return array if flags is None or (flags.c_contiguous and begins_at(array, 16)) else array.copy()


def begins_at(tensor, multiple: int) -> bool:
    """Whether the address is a multiple of so many bytes.  Tensors of vmap and the like have none; they tell where they begin in their storage."""
    if not hasattr(tensor, "storage_offset"):
        return tensor.__array_interface__["data"][0] % multiple == 0
    address = address_of(tensor)
    return (tensor.storage_offset() * tensor.itemsize if address is None else address) % multiple == 0


def address_of(tensor) -> int | None:
    """The address of a tensor of torch, or None if it has no memory of its own, as the tensors of vmap and those that torch.compile traces; 0 of one
    that functionalize stands for."""
    if compiling(tensor):
        return None
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return None


def contents(tensor) -> list | None:
    """The numbers in the tensor, as nested lists, or None if they are on a GPU or a compiler traces."""
    numpy = type(tensor).__module__ == "numpy"
    plain = type(tensor).__module__ == "torch" and tensor.device.type == "cpu" and address_of(tensor)
    if not numpy and not plain:
        return None
    are_not_all()  # the next call may have other numbers
    return tensor.tolist()


@constant_for_compiler
def are_not_all():
    """Says that launches are not all that a call does, so that nobody remembers them."""
    _core.spoil_launches()


def copied_to(name: str, out, made):
    """Copies the elements of `made` to `out` and returns `out`."""
    strides = out.stride() if callable(getattr(out, "stride", None)) else out.strides
    if any(stride == 0 and size > 1 for stride, size in zip(strides, out.shape, strict=True)):
        raise LaunchValueError(
            f"{name}: out has elements that share their memory (a stride of 0); legal is .contiguous()"
        )
    are_not_all()
    out[...] = made
    return out


def check_apart(name: str, out, beside: dict, takes_place_of: str):
    """Raises LaunchValueError if `out` shares memory with one of the tensors `beside` it, which the kernel still reads.  `out` may be all of
    the tensor `takes_place_of`."""
    for argument, tensor in beside.items():
        if tensor is None or not shares_memory(out, tensor):
            continue
        if argument != takes_place_of or place_of(out) != place_of(tensor):
            place = takes_place_of and f", or that of all of {takes_place_of}"
            raise LaunchValueError(f"{name}: out shares memory with {argument}; legal is memory of its own{place}")


def has_memory_apart(out, tensor) -> bool:
    """Whether a kernel over rows may write `out` while it reads the tensor: they share no memory, or are the same rows, none twice."""
    repeats = any(stride == 0 and count > 1 for stride, count in zip(out.stride(), out.shape, strict=True))
    return not repeats and (not shares_memory(out, tensor) or place_of(out) == place_of(tensor))


def place_of(tensor) -> tuple:
    if hasattr(tensor, "data_ptr"):
        return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.itemsize
    return tensor.__array_interface__["data"], tensor.shape, tensor.strides, tensor.itemsize


def shares_memory(one, other) -> bool:
    """Whether elements of two tensors of torch or NumPy may lie at the same address.  Tensors whose stretches alternate, such as columns of
    one matrix, do not share memory."""
    if all(type(each).__module__ == "numpy" for each in (one, other)):
        import numpy

        return numpy.may_share_memory(one, other)
    if any(
        not hasattr(each, "untyped_storage") or address_of(each) is None or not each.numel() for each in (one, other)
    ):
        return False
    (first, end, step, stretch), (first_, end_, step_, stretch_) = extent(one), extent(other)
    if end <= first_ or end_ <= first:
        return False
    step = math.gcd(step, step_)
    apart = (first_ - first) % step if step else 0
    return apart < stretch or apart + stretch_ > step


def extent(tensor):
    """(the first address, the one behind the last, the step, the bytes of a stretch): the elements are stretches without a gap, and the step
    divides the distance between any two of them."""
    size, stretch, steps = tensor.element_size(), 1, []
    for stride, count in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if stride == stretch:
            stretch *= count
        elif count > 1:
            steps.append((stride, count - 1))
    first, last = tensor.data_ptr(), sum(stride * count for stride, count in steps) + stretch
    return first, first + last * size, math.gcd(*(stride for stride, _ in steps)) * size, stretch * size
