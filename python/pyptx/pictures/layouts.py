"""Where the pieces of a tile lie in shared memory.  Every address is the library's own (ptx/arch/matrix.h), as the copy engine and
the matrix instructions of the simulator take it."""

from __future__ import annotations

from pyptx import _core
from pyptx.pictures.svg import Drawing, Picture
from pyptx.specs import Layout, Tile

__all__ = ["pattern", "swizzle", "tile"]

_LINE = 128  # bytes: the 32 banks
_MOST_LINES = 16  # that are drawn: every pattern repeats after 8


def pattern(name: str, lines: int = 8) -> list[list[int]]:
    """Which piece of its line lies where: row r is the 128 bytes at r * 128 of a tile, its entries are the numbers of the pieces of 16
    bytes (8, where the swizzle exchanges those) that lie there, as the tables of the manual's 5.5.7 have them.

    Example:
        assert pyptx.pictures.pattern("128B")[1] == [1, 0, 3, 2, 5, 4, 7, 6]
    """
    piece = _piece(name)
    each = _LINE // piece
    found = [[-1] * each for _ in range(lines)]
    for i in range(lines * each):
        at = _core.swizzled(name, i * piece)
        found[at // _LINE][at % _LINE // piece] = i % each
    return found


def _piece(name: str) -> int:
    """The bytes that a swizzle keeps together, 16 at most."""
    return 8 if any(_core.swizzled(name, line * _LINE) % 16 for line in range(8)) else 16


def swizzle(name: str, lines: int = 8) -> Picture:
    """The pattern of a swizzle: where the pieces of each line of 128 bytes lie.

    Example:
        pyptx.pictures.swizzle("64B").save("swizzle.svg")
    """
    piece, rows = _piece(name), pattern(name, lines)
    drawing = Drawing(f"Swizzle {name}", f"which {piece} bytes of a line of 128 lie where; 4 bytes a bank")
    width = 48 * piece // 16
    _banks(drawing, 52, width, piece)
    for r, row in enumerate(rows):
        y = 72 + 24 * r
        drawing.text(44, y + 16, f"+{r * _LINE}", "faint", "end")
        for c, number in enumerate(row):
            drawing.rect(52 + width * c, y, width - 2, 22, f"c{number % 8}")
            drawing.text(52 + width * c + width / 2 - 1, y + 15, str(number), "ink", "middle")
    return drawing.picture()


def _banks(drawing: Drawing, x: float, width: float, piece: int):
    for c in range(_LINE // piece):
        first, last = c * piece // 4, (c + 1) * piece // 4 - 1
        drawing.text(x + width * c + width / 2 - 1, 64, f"{first}-{last}", "faint small", "middle")


def tile(what: Tile | Layout) -> Picture:
    """Where the box that `tensor.tma_desc()` of this `Tile` copies lies in shared memory; of a `Layout`, its swizzle.

    Sizes have to be numbers: those of `tma_box`, or of the shape where there is no box.

    Example:
        pyptx.pictures.tile(Tile("M", "K", bf16, Layout.TMA_128B, tma_box=(64, 64))).save("tile.svg")
    """
    if isinstance(what, Layout):
        return swizzle(what.swizzle)
    if not isinstance(what, Tile):
        raise TypeError(f"a layout must be a Tile or a Layout, not {what!r}")
    box, name, bits = what.tma_box or what.shape, what.tma_swizzle or what.layout.swizzle, what.dtype.bits
    if symbols := [size for size in box if isinstance(size, str)]:
        raise ValueError(f"the picture of {what!r} needs a number for {', '.join(symbols)}: give tma_box")
    *outer, columns = box
    rows = 1
    for size in outer:
        rows *= size
    pitch, width = columns * bits // 8, {n: w for n, w, _ in _core.swizzles()}[name]
    if pitch % 16:
        raise ValueError(f"a row of {what!r} has {pitch} bytes; a tensor map needs a multiple of 16")
    if width and pitch > width:
        raise ValueError(f"a row of {what!r} has {pitch} bytes, more than the {width} of its swizzle")
    return _drawn_tile(what, name, rows, pitch, bits)


def _drawn_tile(what: Tile, name: str, rows: int, pitch: int, bits: int) -> Picture:
    shown = min(rows, _MOST_LINES * _LINE // pitch or 1)
    lines = -(-shown * pitch // _LINE)
    left_out = f"; {rows - shown} rows more follow" if shown < rows else ""
    drawing = Drawing(
        f"{what!r}", f"row, and first of the {128 // bits} columns, of 16 bytes each; swizzle {name}{left_out}"
    )
    _banks(drawing, 52, 58, 16)
    for line in range(lines):
        drawing.text(44, 72 + 24 * line + 16, f"+{line * _LINE}", "faint", "end")
    for row in range(shown):
        for piece in range(pitch // 16):
            at = _core.swizzled(name, row * pitch + piece * 16)
            x, y = 52 + 58 * (at % _LINE // 16), 72 + 24 * (at // _LINE)
            column = piece * 128 // bits
            drawing.rect(
                x, y, 56, 22, f"c{piece % 8}", f"row {row}, columns {column} to {column + 128 // bits - 1}: +{at}"
            )
            drawing.text(x + 28, y + 15, f"{row}, {column}", "ink", "middle")
    return drawing.picture()
