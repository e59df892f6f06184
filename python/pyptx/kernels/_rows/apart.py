"""Rows that do not follow each other in memory: slices of longer rows, heads of a tensor whose dimensions are transposed.

A kernel over rows has, beside itself, a kernel for tensors of each rank that lie so.  Its tensors keep all their dimensions, and the strides of the
leading ones are scalars of the launch, in bytes.  The body is the same: where a row begins is all that differs.  Elements of a row lie side by
side, and vectors of 16 bytes divide rows and strides; other tensors are copied.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._registers import beyond, divided
from pyptx.kernels._rows.tiles import is_matrix
from pyptx.types import u32, u64

__all__ = ["Apart", "Half", "apart_kernels", "can_lie_apart", "in_place", "scalars_of", "whole"]

MOST_RANK = 4  # dimensions of a tensor


def whole(n: int) -> int:
    """Into how many pieces rows are cut that are not."""
    return 1


class Apart:
    """A matrix inside a body: the rows of a tensor, cut into `pieces` each, a power of two.  It has what a body asks a tensor for."""

    def __init__(self, tensor, lead: Sequence[str], pieces: int):
        self.tensor, self.lead, self.pieces = tensor, lead, pieces
        self.dtype, self.shape = tensor.dtype, (None, tensor.shape[-1])

    def begin(self, index):
        """The address of the first element of a row, or of a piece of one."""
        (place,) = ptx.global_ptrs(self.tensor)
        index, place = of_piece(index, place, self.pieces, self.shape[1] * self.dtype.bits // 8)
        for level in range(len(self.lead) - 1, 0, -1):
            index, within = divided(index, ptx.param(u32, self.lead[level]))
            place = beyond(place, within, ptx.param(u32, stride_name(self.tensor.name, level)))
        return beyond(place, index, ptx.param(u32, stride_name(self.tensor.name, 0)))


class Together(Apart):
    """A matrix whose rows follow each other, of a tensor of more dimensions."""

    def __init__(self, tensor, pieces: int):
        self.tensor, self.pieces = tensor, pieces
        self.dtype, self.shape = tensor.dtype, (None, tensor.shape[-1])

    def begin(self, index):
        (place,) = ptx.global_ptrs(self.tensor)
        return beyond(place, index, self.shape[1] // self.pieces * self.dtype.bits // 8)


class Half(Apart):
    """One half of each row of a matrix that is packed or lies apart: the first (0) or the second (1)."""

    def __init__(self, tensor, which: int, pieces: int):
        self.tensor, self.which, self.pieces = tensor, which, pieces
        self.dtype, self.shape = tensor.dtype, (None, tensor.shape[1] // 2)

    def begin(self, index):
        size = self.shape[1] * self.dtype.bits // 8
        index, ahead = of_piece(index, reg.scalar(u64, init=self.which * size), self.pieces, size)
        if isinstance(self.tensor, Apart):
            return self.tensor.begin(index) + ahead
        (place,) = ptx.global_ptrs(self.tensor)
        return beyond(place, index, 2 * size) + ahead


def of_piece(index, place, pieces: int, size: int) -> tuple:
    """(the row of a piece, where the piece begins if the row begins at `place`) of rows of so many bytes."""
    if pieces == 1:
        return index, place
    return index >> (pieces.bit_length() - 1), beyond(place, index & (pieces - 1), size // pieces)


def stride_name(tensor: str, level: int) -> str:
    return f"{tensor}_{level}"


def apart_kernels(function, inputs, outputs, *, raw_params: Sequence, grid: Callable, pieces: Callable = whole, **told):
    """The function from the rank of tensors to the kernel of the body `function` for tensors whose rows lie apart or, if `packed`, for packed ones.  Its
    Tiles have leading dimensions in place of M.

    grid, pieces: as of `row_kernel`.
    """

    @functools.cache
    def made(rank: int, packed: bool = False):
        lead, tiles = [f"M{level}" for level in range(rank - 1)], (*inputs, *outputs)
        names = list(inspect.signature(function).parameters)

        def spread(tile: Tile) -> Tile:
            if tile.shape[0] != "M":
                return tile
            if not is_matrix(tile):
                return Tile(*lead, tile.dtype, align=tile.align)
            return Tile(*lead, tile.shape[1], tile.dtype, align=16, packed=packed)

        def laid(tensor, tile: Tile):
            if not is_matrix(tile):
                return tensor
            count = pieces(tensor.shape[-1]) if tile.shape[1] == "N" else 1
            return Together(tensor, count) if packed else Apart(tensor, lead, count)

        @functools.wraps(function)
        def body(*tensors, **values):
            return function(*map(laid, tensors, tiles), **values)

        strides = [
            ("u32", stride_name(name, level))
            for name, tile in zip(names, tiles, strict=False)
            if is_matrix(tile) and not packed
            for level in range(rank - 1)
        ]
        return kernel(
            in_specs=tuple(map(spread, inputs)),
            out_specs=tuple(map(spread, outputs)),
            raw_params=[*raw_params, *(("u32", size) for size in lead[1:]), *strides],
            grid=of_symbols(grid, lead),
            **told,
        )(body)

    return made


def of_symbols(grid: Callable, lead: Sequence[str]) -> Callable:
    """The grid by the symbols of Tiles that have the leading dimensions `lead` in place of M."""
    asked = list(inspect.signature(grid).parameters)
    names = [each for each in asked if each != "M"] + [each for each in lead if "M" in asked]

    def spread(**sizes):
        if "M" in asked:
            sizes["M"] = math.prod(sizes.pop(each) for each in lead)
        return grid(**sizes)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    spread.__signature__ = inspect.Signature([inspect.Parameter(each, kind) for each in names])
    return spread


# Tensors of torch.


def in_place(tensor) -> bool:
    """Whether a kernel finds the rows of this tensor where they lie."""
    *lead, inner = tensor.stride()
    size, shape = tensor.element_size(), tensor.shape
    return (
        inner == 1
        and tensor.data_ptr() % 16 == 0
        and all(
            stride >= 0 and stride * size % 16 == 0 and stride * size < 2**32
            for stride, count in zip(lead, shape, strict=False)
            if count > 1
        )
    )


def can_lie_apart(shape) -> bool:
    """Whether rows of tensors of this shape may lie apart: vectors of 16 bytes divide them, and each has more than one."""
    return (
        2 <= len(shape) <= MOST_RANK
        and 0 not in shape
        and shape[-1] % 8 == 0
        and shape[-1] > 8
        and math.prod(shape[:-1]) < 2**31
    )


def scalars_of(kernel, tensors, outs, **sizes: int) -> dict:
    """What a kernel of `apart_kernels` is told beside its tensors; `outs`: the outputs that the call brings; `sizes`: of dimensions that none of these has."""
    lead, columns, found = tensors[0].shape[:-1], sizes, {"M": math.prod(tensors[0].shape[:-1])}
    brought = (*tensors, *outs, *[None] * (len(kernel.out_specs) - len(outs)))
    for name, tile, tensor in zip(
        kernel.signature.tensors, (*kernel.in_specs, *kernel.out_specs), brought, strict=True
    ):
        if tile.packed:
            continue
        symbol = tile.shape[-1]
        if tensor is None:  # the call makes it, packed
            row = columns[symbol] if symbol in columns else columns["H"] // 2
            strides = [row * math.prod(lead[level + 1 :]) for level in range(len(lead))]
        else:
            columns[symbol], strides = tensor.shape[-1], tensor.stride()
        for level, (count, step) in enumerate(zip(lead, strides, strict=False)):
            found[stride_name(name, level)] = step * (tile.dtype.bits // 8) if count > 1 else 0
    return found
