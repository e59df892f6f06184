"""The page of `run.lines().save(path)`: the author's files with what each line did beside it.  One file of HTML and CSS, no script."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from pyptx.tools.kernel_report_html import head

__all__ = ["page"]

_AROUND = 3  # lines of the file that are shown in front of the first line that did something, and behind the last
_STYLE = """
table { border-collapse: collapse; width: 100%; font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
th { position: sticky; top: 0; background: var(--card); color: var(--faint); font-weight: 400; }
th, td { padding: .05rem .6rem; text-align: right; white-space: pre; }
th:last-child, td:last-child { text-align: left; width: 100%; }
td:first-child { color: var(--faint); user-select: none; }
td.share { background: linear-gradient(to left, var(--bar) var(--part), transparent var(--part)); }
td.bad { color: var(--bad); font-weight: 600; }
tr:target { background: var(--card); }
"""
_COLUMNS = ("line", "instructions", "active", "wavefronts", "conflicts", "sectors", "excess", "")


def page(lines) -> str:
    """All of the page, as text."""
    most = max((one.instructions for one in lines), default=1)
    total = sum(one.instructions for one in lines)
    parts = [
        *head("What each line did on the simulator", _STYLE),
        f"<p>{total} instructions of warps. Active: lanes of 32. Conflicts: wavefronts of shared memory beyond the ideal. "
        "Excess: sectors of global memory beyond the ideal.</p>",
    ]
    for file, rows in groupby(lines, key=lambda one: one.file):
        parts += [f"<h2>{escape(file or '(no file)')}</h2>", "<table>"]
        parts += ["<tr>" + "".join(f"<th>{name}</th>" for name in _COLUMNS) + "</tr>"]
        parts += [*_rows(file, list(rows), most), "</table>"]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _rows(file: str, rows, most: int) -> Iterator[str]:
    counted = {one.line: one for one in rows}
    source = linecache.getlines(file)
    first = max(1, min(counted) - _AROUND)
    for number in range(first, max(max(counted), min(max(counted) + _AROUND, len(source))) + 1):
        text = escape(linecache.getline(file, number).rstrip())
        one = counted.get(number)
        cells = _cells(one, most) if one else "<td></td>" * (len(_COLUMNS) - 2)
        anchor = escape(f"{Path(file).name}:{number}")
        yield f'<tr id="{anchor}"><td>{number}</td>{cells}<td>{text}</td></tr>'


def _cells(one, most: int) -> str:
    share = f'<td class="share" style="--part:{one.instructions / most:.1%}">{one.instructions}</td>'
    active = f"<td{_bad(one.active < 16)}>{one.active:.1f}</td>"
    pairs = ((one.wavefronts, one.conflicts), (one.sectors, one.excess_sectors))
    return share + active + "".join(f"<td>{all_ or ''}</td><td{_bad(lost)}>{lost or ''}</td>" for all_, lost in pairs)


def _bad(is_so: bool | int) -> str:
    return ' class="bad"' if is_so else ""
