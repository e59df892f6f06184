"""What a kernel's launch is made of: its record for one specialisation, the values of its runtime scalars.

Nothing here knows a framework or looks at an array.
"""

from __future__ import annotations

from typing import Any

from pyptx import _core
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.specs import Layout, Tile

__all__ = ["element_of", "make_record", "scalar_values", "three"]

# Tiles of untyped bits hold the unsigned integers of their width.
_ELEMENTS = {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64", "pred": "bool", "tf32": "f32"}


def element_of(tile: Tile) -> str:
    """The element type of the tensors that a tile takes."""
    return _ELEMENTS.get(tile.dtype.name, tile.dtype.name)


def _box(tile: Tile, env: dict[str, int]) -> tuple[int, ...]:
    """The box of a tile's tensor map, innermost dimension first."""
    width = 8 * (tile.layout.swizzle_bytes or 128) // tile.dtype.bits
    if tile.tma_rank == 3:
        if tile.tma_box is None:
            raise ValueError("a Tile with tma_rank=3 needs tma_box=(rows, columns)")
        rows, columns = (env[size] if isinstance(size, str) else size for size in tile.tma_box)
        return 64, rows, columns // 64
    if tile.tma_box is not None:
        return tuple(env[size] if isinstance(size, str) else size for size in reversed(tile.tma_box))
    shape = tile.resolve_shape(env)
    return tuple(min(size, most) for size, most in zip(reversed(shape), (width, *(128,) * len(shape)), strict=False))


def _add_map(made, name: str, tile: Tile, env: dict[str, int]):
    if tile.layout in (Layout.COL, Layout.INTERLEAVED):
        raise ValueError(f"{name}: no tensor map of a tensor with {tile.layout}; layouts with maps are ROW and TMA_*")
    columns = tile.tma_rank == 3
    try:
        box = _box(tile, env)
    except KeyError as error:
        raise LaunchValueError(f"{name}: the box of its tensor map needs the size of {error}: give tma_box") from None
    made.tensor_map(name, box, tile.layout.swizzle_bytes, columns, columns and tile.tma_padding)


def make_record(
    kernel, env: dict[str, int], template: dict[str, Any], dynamic_shared: int, tensor_maps: list[str], grid=None
):
    """The launch of one specialisation; arguments in the order of the .entry's parameters.

    Symbols that `env` does not bind stay open, for the tensors of a call to bind; the grid is then the caller's.
    """
    block, cluster = (three(getattr(kernel, f"_{name}")) for name in ("block", "cluster"))
    made = _core.Record(
        kernel._entry,
        kernel.arch,
        grid or kernel._grid_of(env, template),
        block,
        cluster,
        max(kernel.smem, dynamic_shared),
    )
    made.attributes(**kernel._attributes)
    inputs = len(kernel.in_specs)
    for index, name in enumerate(kernel._tensors):
        tile = kernel._specs.get(name)
        if tile is None:
            raise TypeError(f"kernel {kernel.__name__}: no Tile in in_specs or out_specs says what {name} is")
        column = tile.layout is Layout.COL and tile.rank > 1
        shape = [env.get(size, size) for size in tile.shape]
        made.tensor(name, element_of(tile), shape, output=index >= inputs, column_major=column)
    for raw in kernel._raw:
        if raw.pointer or raw.array is not None:
            raise NotImplementedError(
                f"kernel {kernel.__name__}: only scalars among raw_params can be given in a call, not {raw.name}"
            )
        made.scalar(raw.name, raw.type.name, raw.alignment)
    for name in tensor_maps:
        _add_map(made, name, kernel._specs[name], env)
    return made


def three(value) -> tuple[int, int, int]:
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return parts + (1,) * (3 - len(parts))


def scalar_values(kernel, given: dict[str, Any], env: dict[str, int], template: dict[str, Any]) -> list[Any]:
    values = []
    for raw in kernel._raw:
        for source in (given, env, template):
            if source.get(raw.name) is not None:
                values.append(source[raw.name])
                break
        else:
            raise LaunchTypeError(
                f"{kernel.__name__}: argument `{raw.name}` ({raw.spelled}) is not given: pass {raw.name}=..."
            )
    return values
