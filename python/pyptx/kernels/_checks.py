"""Checks of the arguments of functions of this package, with the errors for those that do not fit."""

import operator

from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._torch_state import jit_traces
from pyptx.kernels._types import TYPES, type_name

__all__ = ["check_arrays", "check_devices", "check_numbers", "check_shape", "check_type_of_out", "is_loose", "rank_of"]


def check_arrays(name: str, names, tensors, out, rows: int, needed: int | None = None):
    """Raises LaunchTypeError for an argument that is no array, that is sparse or nested, or that should have rows but has no dimension.
    The first `rows` tensors have rows.  The first `needed` (by default `rows`) may not be None."""
    for position, each in enumerate((*tensors, out)):
        if each is None and (position >= (rows if needed is None else needed) or position == len(tensors)):
            continue
        wrong = None
        if is_loose(each):
            wrong = "is no dense tensor: .to_dense(), or torch.nested's .to_padded_tensor()"
        elif not (hasattr(each, "dtype") and hasattr(each, "shape")):
            wrong = f"is {type(each).__name__}, not an array"
        elif position < rows and len(each.shape) == 0:
            wrong = "has no dimension, and so no rows"
        if wrong is not None:  # names that are read are compared at each call that torch.compile has compiled
            which = "out" if position == len(tensors) else f"`{names[position]}`"
            raise LaunchTypeError(f"{name}: {which} {wrong}")


def rank_of(name: str, which: str, array) -> int:
    """The number of dimensions.  It raises what `check_arrays` raises, but calls it only if something is wrong, to save time."""
    try:
        rank = len(array.shape)
    except (AttributeError, RuntimeError, TypeError):  # nested tensors of torch raise
        rank = 0
    if not rank:
        check_arrays(name, (which,), (array,), None, 1)
    return rank


def is_loose(tensor) -> bool:
    """Whether the tensor is sparse, nested or in a library's own layout: shape and strides do not tell where its elements are."""
    if getattr(tensor, "is_nested", False) is True:
        return True
    if not hasattr(tensor, "storage_offset"):  # not of torch
        return False
    import torch

    return tensor.layout is not torch.strided


def check_numbers(name: str, options: dict, defaults):
    """Raises LaunchTypeError for an option that is not a number as its default is.  Where torch.jit.trace traces, sizes are tensors; the
    function replaces them in `options` by numbers."""
    for key, value in options.items():
        default = defaults[key]
        if type(default) is float and (isinstance(value, str) or not hasattr(value, "__float__")):
            raise LaunchTypeError(f"{name}: {key} is a number, not {value!r}")
        if hasattr(value, "__dlpack__"):  # which may hold another one at the next call
            if hasattr(value, "item") and jit_traces():  # where sizes are tensors
                options[key] = value.item()
                continue
            raise LaunchTypeError(f"{name}: {key} is a number, not {type(value).__name__}: float({key})")
        if type(default) is int:
            if isinstance(value, (str, float)) or not hasattr(value, "__index__"):
                raise LaunchTypeError(f"{name}: {key} is an integer, not {value!r}")
            options[key] = operator.index(value)  # of what may be a symbol
        if type(default) is bool and value not in (True, False):
            raise LaunchTypeError(f"{name}: {key} is True or False, not {value!r}")


def check_devices(name: str, names, tensors, out):
    """Raises LaunchValueError for tensors of torch that are not on the device of the first."""
    there = [
        (which, each) for which, each in (*zip(names, tensors, strict=False), ("out", out)) if hasattr(each, "is_cuda")
    ]
    for which, each in there:
        if each.device != there[0][1].device:
            raise LaunchValueError(f"{name}: `{which}` is on {each.device}, `{there[0][0]}` is on {there[0][1].device}")


def check_type_of_out(name: str, kernel, out):
    legal = next(each for each, dtype in TYPES.items() if dtype == kernel.out_specs[0].dtype)
    if type_name(out) != legal:
        raise LaunchTypeError(f"{name}: out is of {type_name(out)}; legal is {legal}")


def check_shape(name: str, which: str, array, legal, why: str = ""):
    """Raises LaunchValueError for an array of another shape."""
    if array.shape != legal:
        raise LaunchValueError(f"{name}: {which} has shape {tuple(array.shape)}, not {tuple(legal)}{why}")
