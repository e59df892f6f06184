"""The element types of tensors, by the names that torch, numpy and JAX give them."""

from pyptx.types import bf16, f16, f32, s32, s64

__all__ = ["INDICES", "TYPES", "spelled", "type_name"]

TYPES = {"float32": f32, "float16": f16, "bfloat16": bf16}
INDICES = {"int64": s64, "int32": s32}


def spelled(dtype) -> str:
    """The name of an element type of torch, numpy or JAX."""
    return getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")


def type_name(array) -> str:
    return spelled(array.dtype)
