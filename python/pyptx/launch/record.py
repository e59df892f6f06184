"""What a kernel's launch is made of: the record of one specialisation for one set of sizes.

Nothing here knows a framework or looks at an array.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyptx import _core
from pyptx.errors import LaunchValueError
from pyptx.frameworks import elements
from pyptx.specs import SWIZZLE_BYTES, Layout, Tile

__all__ = ["box_of", "element_of", "make_record", "takes", "untyped"]


def element_of(tile: Tile) -> str:
    """The element type of the tensors that a tile takes."""
    return elements.element_of(tile.dtype)


def _bits(tile: Tile) -> int:
    """The bits of one element of the tensor map in memory: e2m1x2 is read as single values."""
    dtype = tile.tma_dtype or tile.dtype
    return 4 if dtype.name == "e2m1x2" else dtype.bits


def untyped(tile: Tile) -> bool:
    """Whether the tile is of bits: its tensors have elements of any type of that width."""
    return tile.dtype.name[0] == "b" and tile.dtype.name[1:].isdecimal()


def takes(tile: Tile, element: str) -> bool:
    """Whether a tensor of these elements may be passed: integers of one width are one type, bits take any of their width."""
    return element != "" and _core.element_takes(element_of(tile), untyped(tile), element)


def box_of(tile: Tile, env: dict[str, int]) -> tuple[int, ...]:
    """The box of a tile's tensor map, innermost dimension first; ones where it copies pixels (im2col)."""
    if tile.tma_im2col is not None:
        return (1,) * tile.rank
    if tile.tma_rank == 3:
        if tile.tma_box is None:
            raise ValueError("a Tile with tma_rank=3 needs tma_box=(rows, columns)")
        rows, columns = (env[size] if isinstance(size, str) else size for size in tile.tma_box)
        return 64, rows, columns // 64
    if tile.tma_box is not None:
        return tuple(env[size] if isinstance(size, str) else size for size in reversed(tile.tma_box))
    bits = _bits(tile)
    *outer, inner = tile.resolve_shape(env)
    width = 128 if tile.tma_spread else 8 * (_swizzle_bytes(tile) or 128) // bits
    return min(inner * tile.dtype.bits // bits, width), *(min(size, 128) for size in reversed(outer))


def _swizzle_bytes(tile: Tile) -> int:
    return tile.layout.swizzle_bytes if tile.tma_swizzle is None else SWIZZLE_BYTES[tile.tma_swizzle]


def _add_map(made, name: str, tile: Tile, env: dict[str, int], box=None):
    if tile.layout in (Layout.COL, Layout.INTERLEAVED):
        raise ValueError(f"{name}: no tensor map of a tensor with {tile.layout}; layouts with maps are ROW and TMA_*")
    columns = tile.tma_rank == 3
    im2col = tile.tma_im2col
    try:
        box = box or box_of(tile, env)
    except KeyError as error:
        raise LaunchValueError(f"{name}: the box of its tensor map needs the size of {error}: give tma_box") from None
    try:
        made.tensor_map(
            name,
            box,
            tile.tma_swizzle or tile.layout.swizzle,
            columns,
            columns and tile.tma_padding,
            element_strides=tile.tma_element_strides and tile.tma_element_strides[::-1],
            dtype=tile.tma_dtype and tile.tma_dtype.name,
            interleave=tile.tma_interleave,
            fill=tile.tma_fill,
            promotion=tile.tma_l2,
            spread=tile.tma_spread,
            im2col=im2col and (im2col.lower[::-1], im2col.upper[::-1], im2col.channels, im2col.pixels),
        )
    except ValueError as error:
        raise LaunchValueError(f"{name}: {error}") from None


def _add_tensor(made, specialisation, name: str, sizes: Mapping[str, int], parameter: bool = True):
    options, signature = specialisation.options, specialisation.signature
    index, tile = signature.tensors.index(name), signature.tiles.get(name)
    if tile is None:
        raise TypeError(
            f"kernel {signature.name}: no Tile in in_specs or out_specs says what {name} is; "
            "a number of the body is a parameter behind a `*`, or of raw_params"
        )
    is_output = index >= len(signature.inputs)
    made.tensor(
        name,
        element_of(tile),
        [sizes.get(size, size) for size in tile.shape],
        output=is_output,
        parameter=parameter,
        column_major=tile.layout is Layout.COL and tile.rank > 1,
        untyped=untyped(tile),
        strided=not tile.packed,
        alignment=tile.align,
        written=tile.whole if is_output else name in options.mutates,
    )


def make_record(
    specialisation, sizes: Mapping[str, int], grid=None, boxes: Mapping[str, tuple] | None = None, first=None
):
    """The launch of a specialisation for these sizes; arguments in the order of the .entry's parameters.

    Symbols that `sizes` does not bind stay open, for the tensors of a call to bind; the grid is then the caller's, and so
    are the boxes of tensor maps that need an open symbol.  `first` is given the record before it has a parameter.
    """
    options, signature, module = specialisation.options, specialisation.signature, specialisation.module
    made = _core.Record(
        signature.entry,
        options.arch,
        grid or signature.grid.of(sizes, specialisation.template),
        specialisation.block,
        specialisation.cluster,
        max(options.smem, module.dynamic_shared),
        options.assembler,
    )
    made.attributes(**options.attributes)
    if first is not None:
        first(made)

    known = {**specialisation.template, **sizes}
    for name in signature.tensors:
        if name not in signature.declared:
            _add_tensor(made, specialisation, name, sizes)
    for raw in options.declared:
        if raw.tensor and raw.array is not None:  # its tensor map, by value
            _add_tensor(made, specialisation, raw.tensor, sizes, parameter=False)
            _add_map(made, raw.tensor, signature.tiles[raw.tensor], known, (boxes or {}).get(raw.tensor))
            continue
        if raw.tensor:
            _add_tensor(made, specialisation, raw.tensor, sizes)
            continue
        if raw.opaque or raw.array is not None:
            raise NotImplementedError(
                f"kernel {signature.name}: tensors, their maps and scalars can be given in a call, not {raw.name} of raw_params"
            )
        made.scalar(raw.name, raw.type.name, raw.alignment)
    for name in module.tensor_maps:
        _add_map(made, name, signature.tiles[name], known, (boxes or {}).get(name))
    return made
