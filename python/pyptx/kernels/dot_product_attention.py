"""`dot_product_attention`: `attention` with the arguments and the layout of jax.nn.dot_product_attention."""

from __future__ import annotations

from typing import Any

from pyptx.kernels._attention.arguments import LARGEST, TYPES
from pyptx.kernels._types import type_name
from pyptx.kernels.attention import of_plain

__all__ = ["dot_product_attention"]


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: float | None = None,
    is_causal: bool = False, query_seq_lengths: Any = None, key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None, implementation: str | None = None,
    return_residual: bool = False,
) -> Any:  # fmt: skip
    """jax.nn.dot_product_attention by `attention`: query (B, T, N, H), key and value (B, S, K, H), or all without B.

    Calls that `attention` does not take (with bias, mask, sequence lengths, or f32) go to JAX's own function, and so do calls with an
    `implementation`.  As in JAX, `is_causal` aligns the first query with the first key.  The result of a query that sees no key is 0, where
    JAX's code for all platforms returns the mean of the values.  Raises what JAX's function raises.

    Example:
        x = jax.numpy.ones((1, 70, 2, 64), jax.numpy.bfloat16)
        o = kernels.dot_product_attention(x, x, x, is_causal=True)
    """
    others = bias, mask, query_seq_lengths, key_value_seq_lengths, implementation
    window = window_of(local_window_size)
    beyond = window is not None and min(window) < 0
    if any(each is not None for each in others) or beyond or not takes(query, key, value, scale):
        return of_jax()(
            query, key, value, bias, mask, scale=scale, is_causal=is_causal, query_seq_lengths=query_seq_lengths,
            key_value_seq_lengths=key_value_seq_lengths, local_window_size=local_window_size,
            implementation=implementation, return_residual=return_residual,
        )  # fmt: skip
    single = len(query.shape) == 3
    q, k, v = ((each[None] if single else each).swapaxes(1, 2) for each in (query, key, value))
    told = {"causal": bool(is_causal), "window": window, "softcap": None, "scale": scale, "top_left": True}
    made = of_plain(q, k, v, **told, lse=return_residual)
    made = [each.swapaxes(1, 2)[0 if single else slice(None)] for each in (made if return_residual else (made,))]
    return tuple(made) if return_residual else made[0]


def of_jax():
    """JAX's own function, also where a program has put this one in its place."""
    from jax.nn import dot_product_attention as theirs

    if theirs is dot_product_attention:
        from jax._src.nn.functions import dot_product_attention as theirs
    return theirs


def window_of(size) -> tuple[int, int] | None:
    """(keys before a query's own, keys after it) that the query sees."""
    return (size, size) if isinstance(size, int) else size


def takes(q, k, v, scale) -> bool:
    """Whether `attention` takes such arrays."""
    if not all(hasattr(each, "shape") and hasattr(each, "dtype") for each in (q, k, v)):
        return False
    if not len(q.shape) == len(k.shape) == len(v.shape) or len(q.shape) not in (3, 4) or 0 in (*q.shape, *k.shape):
        return False
    (*batch, _, heads, width), (*batch_, _, shared, _) = q.shape, k.shape
    fits = k.shape == v.shape and batch == batch_ and k.shape[-1] == width and heads % shared == 0
    types = type_name(q) in TYPES and type_name(q) == type_name(k) == type_name(v)
    number = scale is None or (isinstance(scale, (int, float)) and 0 < scale < LARGEST)
    return fits and types and number and width % 8 == 0 and 8 <= width <= 256
