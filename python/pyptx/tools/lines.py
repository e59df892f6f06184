"""Counts of each source line on the simulator, as a table and as a page."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["LineCount", "Lines"]


@dataclass(frozen=True)
class LineCount:
    """The counts of one source line, over all launches of a run.

    instructions: of warps; threads: lanes that were active in them, 32 each at most.
    wavefronts: of accesses to shared memory; the ideal has no bank conflicts.
    sectors: of 32 bytes of global memory; the ideal is as few as the bytes that are touched fill.
    """

    file: str
    line: int
    instructions: int
    threads: int
    wavefronts: int
    ideal_wavefronts: int
    sectors: int
    ideal_sectors: int

    @property
    def active(self) -> float:
        """Lanes that were active in an instruction, of 32."""
        return self.threads / self.instructions

    @property
    def conflicts(self) -> int:
        """Wavefronts that bank conflicts cost."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def excess_sectors(self) -> int:
        """Sectors beyond the ideal: what is not coalesced."""
        return self.sectors - self.ideal_sectors

    def json(self) -> dict[str, Any]:
        """The same as values that JSON has."""
        derived = {"active": self.active, "conflicts": self.conflicts, "excess_sectors": self.excess_sectors}
        return {**asdict(self), **derived}


class Lines(list[LineCount]):
    """Counts of lines, by file and line.  Printed, it is a table with the source; `save` writes a page."""

    def __init__(self, rows: Iterable[LineCount] = ()):
        super().__init__(rows)

    def __str__(self) -> str:
        head = ("line", "instructions", "active", "wavefronts", "conflicts", "sectors", "excess")
        rows = [
            (
                str(one.line), str(one.instructions), f"{one.active:.1f}", _shown(one.wavefronts), _shown(one.conflicts),
                _shown(one.sectors), _shown(one.excess_sectors),
            )
            for one in self
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        out, file = [], None
        for one, row in zip(self, rows, strict=True):
            if one.file != file:
                file = one.file
                out += [file or "(no file)", _row(head, widths)]
            out.append(f"{_row(row, widths)}  {linecache.getline(one.file, one.line).strip()}".rstrip())
        return "\n".join(out)

    def _repr_html_(self) -> str:
        from pyptx import pictures

        return pictures.lines(self)._repr_html_()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the author's files with the counts beside their lines, as one file of HTML."""
        from pyptx.tools.lines_html import page  # not for those who print

        with open(path, "w", encoding="utf-8") as file:
            file.write(page(self))


def _shown(count: int) -> str:
    return str(count) if count else "-"


def _row(cells: Iterable[str], widths: list[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
