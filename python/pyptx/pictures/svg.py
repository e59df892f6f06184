"""A drawing: rectangles, lines and text that become one SVG file.  It knows nothing of kernels.

Colours are classes, `c0` to `c7` and a few names, so that a file looks right on light and on dark paper; the paper is part of the
drawing, as a page may be of the other kind.
"""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

__all__ = ["Drawing", "Picture"]

_LIGHT = ("#cfe2ff", "#ffe0b8", "#cdeccf", "#f8cfd6", "#e2d6f9", "#fff0a8", "#c5ecee", "#e6dccf")
_DARK = ("#234a7d", "#7a4a12", "#22602f", "#7d2c3c", "#4d3a80", "#6b5e10", "#1d6065", "#5c4b37")
_NAMED = {  # light, dark
    "paper": ("#ffffff", "#12161d"),
    "ink": ("#1c2430", "#e3e8f0"),
    "faint": ("#5d6b7e", "#93a1b5"),
    "rule": ("#d8dee8", "#2b3442"),
    "good": ("#2463c4", "#7fb0ff"),
    "bad": ("#b3261e", "#ff8f86"),
    "idle": ("#eceff4", "#1f2733"),
}


def _style() -> str:
    def scheme(which: int, numbered: tuple[str, ...]) -> str:
        named = {name: both[which] for name, both in _NAMED.items()} | {f"c{i}": c for i, c in enumerate(numbered)}
        fills = "".join(f".pyptx .{name}{{fill:{colour}}}" for name, colour in named.items())
        lines = "".join(f".pyptx .{name}-line{{stroke:{named[name]}}}" for name in ("ink", "rule", "good", "bad"))
        return fills + lines

    fonts = (
        ".pyptx text{font-family:system-ui,sans-serif;font-size:11px}"
        ".pyptx .mono{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}"
        ".pyptx .small{font-size:8.5px}.pyptx .title{font-size:13px;font-weight:600}"
        ".pyptx line,.pyptx polyline{fill:none;stroke-width:1}.pyptx .thick{stroke-width:2}"
    )
    return f"{fonts}{scheme(0, _LIGHT)}@media (prefers-color-scheme:dark){{{scheme(1, _DARK)}}}"


class Picture:
    """One SVG drawing.  A notebook shows it, `str()` is its text, `save()` writes it.

    Example:
        pyptx.pictures.swizzle("128B").save("swizzle.svg")
    """

    def __init__(self, svg: str, title: str):
        self.svg, self.title = svg, title

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Picture: {self.title}>"

    def _repr_html_(self) -> str:
        return f'<div style="max-width:100%;overflow-x:auto">{self.svg}</div>'

    def html(self) -> str:
        """A page of its own, which needs no other file."""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title></head><body>\n{self._repr_html_()}\n</body></html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the drawing, or a page with it where the name ends in .html."""
        text = self.html() if str(path).endswith((".html", ".htm")) else self.svg
        Path(path).write_text(text, encoding="utf-8")


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Drawing:
    """What is drawn, in pixels from the upper left corner.  `picture()` closes it."""

    def __init__(self, title: str, remark: str = ""):
        self._title, self._parts = title, []
        self._width = self._height = 0.0
        self.text(12, 20, title, "ink title")
        if remark:
            self.text(12, 37, remark, "faint")

    def _reaches(self, x: float, y: float):
        self._width, self._height = max(self._width, x), max(self._height, y)

    def rect(self, x: float, y: float, width: float, height: float, colour: str, about: str = "") -> None:
        """`about`: what a pointer that rests on it is told."""
        self._reaches(x + width, y + height)
        end = f"><title>{escape(about)}</title></rect>" if about else "/>"
        place = f'x="{_short(x)}" y="{_short(y)}" width="{_short(width)}" height="{_short(height)}"'
        self._parts.append(f'<rect {place} class="{colour}"{end}')

    def text(self, x: float, y: float, text: str, style: str = "ink", anchor: str = "start") -> None:
        size = 5 if "small" in style else 8.2 if "title" in style else 6.7 if "mono" in style else 6
        self._reaches(x + size * len(text) * {"start": 1, "middle": 0.5, "end": 0}[anchor], y + 2)
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text x="{_short(x)}" y="{_short(y)}" class="{style}"{where}>{escape(text)}</text>')

    def line(self, points: list[tuple[float, float]], style: str) -> None:
        for x, y in points:
            self._reaches(x, y)
        drawn = " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
        self._parts.append(f'<polyline points="{drawn}" class="{style}"/>')

    def picture(self) -> Picture:
        width, height = round(self._width + 12), round(self._height + 12)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="pyptx" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img"><title>{escape(self._title)}</title><style>{_style()}</style>'
        )
        paper = f'<rect width="{width}" height="{height}" rx="6" class="paper"/>'
        return Picture("\n".join([head, paper, *self._parts, "</svg>"]) + "\n", self._title)
