"""What torch does at the moment: whether it traces, records for gradients or casts.  Other frameworks do none of this, and torch is not imported
for their arrays."""

import sys

from pyptx import _core

__all__ = [
    "autocast_number", "autocast_type", "compiling", "heed_autocast", "in_dynamo", "is_of_older_vmap", "jit_traces", "recorded", "widened_by_autocast",
]  # fmt: skip

AUTOCAST = ("cuda",)  # devices on which torch.autocast computes norms and softmax in f32


def recorded(tensor) -> bool:
    """Whether operations on tensors of torch are recorded for gradients."""
    if not hasattr(tensor, "requires_grad"):
        return False
    import torch

    return torch.is_grad_enabled()


def compiling(tensor) -> bool:
    if not hasattr(tensor, "storage_offset"):  # not of torch
        return False
    import torch

    return torch.compiler.is_compiling()


def in_dynamo(tensor) -> bool:
    """Whether Dynamo is reading the code, unlike what it hands on, in which `compiling` is true as well."""
    if not hasattr(tensor, "storage_offset"):  # not of torch
        return False
    import torch

    return torch.compiler.is_dynamo_compiling()


def is_of_older_vmap(*tensors) -> bool:
    """Whether torch.autograd.grad(is_grads_batched=True) asks: its vmap knows no op that writes to an argument."""
    if not hasattr(tensors[0], "storage_offset") or compiling(tensors[0]):
        return False
    import torch

    return any(map(torch._C._functorch.is_legacy_batchedtensor, tensors))


def jit_traces() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.jit.is_tracing()


def autocast_type(tensor):
    """The type to which torch.autocast rounds the f32 operands of products on the tensor's device.  None outside of torch.autocast, and for
    tensors of other frameworks."""
    if not hasattr(tensor, "storage_offset"):
        return None
    import torch

    kind = tensor.device.type
    known = kind in ("cpu", "cuda")  # torch raises for others, as meta
    return torch.get_autocast_dtype(kind) if known and torch.is_autocast_enabled(kind) else None


def widened_by_autocast(tensor) -> bool:
    """Whether torch.autocast widens this tensor to f32 for norms and softmax."""
    if autocast_type(tensor) is None:
        return False
    import torch

    return tensor.device.type in AUTOCAST and tensor.dtype in (torch.float16, torch.bfloat16)


def heed_autocast(function: _core.Choice, tensor):
    """Makes what the function remembers belong to what torch.autocast does."""
    if hasattr(tensor, "storage_offset"):
        import torch

        _core.heed_state(function, torch._C._is_any_autocast_enabled, autocast_number)


def autocast_number() -> int:
    """A number for the types to which torch.autocast casts at the moment."""
    import torch

    types = [torch.float32, torch.float16, torch.bfloat16]
    cast = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return sum((1 + types.index(torch.get_autocast_dtype(kind))) << (8 * (kind == "cuda")) for kind in cast)
