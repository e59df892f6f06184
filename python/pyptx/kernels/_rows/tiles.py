"""The Tiles of kernels over rows."""

from pyptx import Tile

__all__ = ["columns", "is_matrix", "matrix"]


def matrix(dtype) -> Tile:
    return Tile("M", "N", dtype, align=16)


def columns(dtype) -> Tile:
    """One element for each column."""
    return Tile("N", dtype, align=16)


def is_matrix(tile: Tile) -> bool:
    return tile.shape[0] == "M" and tile.rank == 2
