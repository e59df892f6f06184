"""Counts of each source line on the simulator: instructions, wavefronts of shared memory with bank conflicts, sectors of global
memory with those that are not coalesced."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path

from pyptx.pictures.svg import Drawing, Picture
from pyptx.tools.lines import LineCount

__all__ = ["lines"]

_HEIGHT, _BAR, _SOURCE = 19, 120, 72  # pixels, pixels, characters


def lines(counts: Sequence[LineCount], title: str = "By the author's lines") -> Picture:
    """Draws a row of bars for each line of `run.lines()`; the cost of bank conflicts and uncoalesced accesses is red.

    Example:
        with pyptx.simulator() as run:
            pass                                            # y = k(x)
        pyptx.pictures.lines(run.lines()).save("lines.svg")
    """
    drawing = Drawing(title, "red: wavefronts that bank conflicts cost, sectors beyond those that the bytes fill")
    sources = [linecache.getline(one.file, one.line).rstrip()[:_SOURCE] for one in counts]
    margin = min((len(source) - len(source.lstrip()) for source in sources if source), default=0)
    left = 60 + 6.7 * max((len(source) - margin for source in sources), default=0)
    columns = [
        ("instructions of warps", [(one.instructions, 0) for one in counts]),
        ("wavefronts, shared", [(one.wavefronts, one.conflicts) for one in counts]),
        ("sectors, global", [(one.sectors, one.excess_sectors) for one in counts]),
    ]
    for i, (name, _) in enumerate(columns):
        drawing.text(left + 20 + (_BAR + 60) * i, 60, name, "faint")
    file, y = None, 66
    for number, (one, source) in enumerate(zip(counts, sources, strict=True)):
        if one.file != file:
            file = one.file
            drawing.text(12, y + 14, Path(file).name or "(no file)", "faint")
            y += _HEIGHT
        drawing.text(46, y + 14, str(one.line), "faint mono", "end")
        drawing.text(54, y + 14, source[margin:], "ink mono")
        for i, (_, values) in enumerate(columns):
            most = max(value for value, _ in values)
            _bar(drawing, left + 20 + (_BAR + 60) * i, y, *values[number], most)
        y += _HEIGHT
    return drawing.picture()


def _bar(drawing: Drawing, x: float, y: float, value: int, bad: int, most: int):
    if not value:
        return
    width, red = _BAR * value / most, _BAR * bad / most
    drawing.rect(x, y + 4, max(width - red, 0.5), _HEIGHT - 6, "good", f"{value:,}")
    if bad:
        drawing.rect(x + width - red, y + 4, red, _HEIGHT - 6, "bad", f"{bad:,} of {value:,}")
    drawing.text(x + width + 4, y + 14, f"{value:,}", "faint small")
