"""A pipeline over time: what the warps of a CTA did, what they waited for, and which copies and products were under way.

Of a simulated run time is the number of instructions that warps have executed: an order, no measure (docs/simulator.md, Traces).  Of
`pyptx.timeline` on a GPU it is microseconds; what stands in the rows are then the author's regions and what waits.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyptx.pictures.svg import Drawing, Picture

if TYPE_CHECKING:
    from pyptx.simulated import Trace
    from pyptx.stamps.recorder import Timeline

__all__ = ["timeline"]

_WIDTH, _ROW = 900, 18
# What an instruction is, by the beginning of its name: the first that fits.
_KINDS = (
    ("product", "c2", r"wgmma\.mma_async|mma|wmma\.mma|tcgen05\.mma"),
    ("copy", "c0", r"cp\.|tcgen05\.(cp|ld|st)|cp$|st\.async|red\.async"),
    ("barrier", "c3", r"mbarrier|bar|barrier|fence|wgmma\.(fence|commit|wait)|tcgen05\.(commit|fence|wait)"),
    ("memory", "c1", r"ld|st|atom|red|prefetch"),
    ("other", "c4", r""),
)
_COLOURS = {name: colour for name, colour, _ in _KINDS}


@dataclass
class _Piece:
    begin: float
    end: float
    kind: str
    about: str


def timeline(
    trace: Trace | Timeline | dict[str, Any] | str | os.PathLike[str], *, launch: int = 0, cta: tuple[int, int, int] = (0, 0, 0),
    begin: float = 0, end: float | None = None,
) -> Picture:  # fmt: skip
    """The warps of one CTA against time: of `run.trace` or of a `pyptx.timeline`, of what its `json()` gives, or of the file that its
    `save()` wrote.

    `begin`, `end`: the part of time that is shown; all of it.

    Example:
        with pyptx.simulator() as run:
            pass                                            # y = k(x)
        pyptx.pictures.timeline(run.trace).save("timeline.svg")
    """
    if isinstance(trace, (str, os.PathLike)):
        trace = json.loads(Path(trace).read_text(encoding="utf-8"))
    told = trace if isinstance(trace, dict) else trace.json()
    events, unit = told["traceEvents"], told.get("otherData", {}).get("unit", "instructions")
    wanted = f"launch {launch}, CTA ({cta[0]},{cta[1]},{cta[2]})"
    pids = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    if pids and wanted not in pids:
        raise ValueError(f"the trace has no {wanted}; it has {len(pids)}, the first is {min(pids)}")
    here = [event for event in events if pids and event.get("pid") == pids[wanted]]
    last = max((event["ts"] + event.get("dur", 0) for event in here if "ts" in event), default=1)
    time = "microseconds" if unit == "us" else "instructions of warps"
    return _drawn(f"{wanted}: time in {time}", here, begin, end or last)


def _colours(events: list[dict[str, Any]]) -> dict[str, str]:
    """The colour of each kind of event: each region of a device's timeline has its own, other events have that of their instruction's kind."""
    regions = dict.fromkeys(event["name"] for event in events if event.get("cat") == "region")
    if not any(event.get("cat") == "kernel" for event in events):
        return _COLOURS | {"waits": "idle"}
    numbered = {name: f"c{(number + 5) % 8}" for number, name in enumerate(regions)}
    return (
        numbered | {"waits": "c3", "runs": "idle"} | ({"marks": "ink"} if any(e["ph"] == "i" for e in events) else {})
    )


def _drawn(title: str, events: list[dict[str, Any]], begin: float, end: float) -> Picture:
    drawing, colours = Drawing(title), _colours(events)
    x = 12.0
    for name, colour in colours.items():
        drawing.rect(x, 30, 11, 11, colour)
        drawing.text(x + 16, 40, name, "faint")
        x += 30 + 6.5 * len(name)
    y = 52
    for warp, pieces in sorted(_warps(events).items()):
        drawing.text(12, y + 13, f"warp {warp}", "faint")
        _row(drawing, y, pieces, begin, end, colours)
        y += _ROW
    for event in events:
        if event["ph"] == "i" and begin <= event["ts"] <= end:
            at = 90 + (event["ts"] - begin) * _WIDTH / max(end - begin, 1e-9)
            warp = sorted(_warps(events)).index(event["tid"])
            drawing.rect(at - 0.5, 52 + warp * _ROW, 1.5, _ROW - 2, "ink", _about(event, event["ts"]))
    flying = sorted(_operations(events), key=lambda piece: (piece.begin, piece.end))
    for number, row in enumerate(_rows(flying)):
        drawing.text(12, y + 13, "under way" if number == 0 else "", "faint")
        _row(drawing, y + 3, row, begin, end, colours, _ROW - 6)
        y += _ROW
    for tick in range(5):
        at = begin + (end - begin) * tick / 4
        shown = f"{int(at):,}" if end - begin >= 100 else f"{at:,.2f}"
        drawing.text(90 + _WIDTH * tick / 4, y + 14, shown, "faint small", "middle")
    drawing.rect(90, y + 2, _WIDTH, 1, "rule")
    return drawing.picture()


def _kind(name: str) -> str:
    return next(kind for kind, _, pattern in _KINDS if re.match(pattern, name))


def _about(event: dict[str, Any], end: int) -> str:
    said = event["args"]
    where = f"{said.get('line', '')}, {_time(event['ts'])} to {_time(end)}"
    return "\n".join([event["name"], where, *([said["what"]] if "what" in said else [])])


def _time(at: float) -> str:
    return f"{at:,}" if isinstance(at, int) else f"{at:,.3f}".rstrip("0").rstrip(".")


def _warps(events: list[dict[str, Any]]) -> dict[int, list[_Piece]]:
    """Instructions and waits of each warp, what lies below first.  Of a simulated run a wait is under the instructions of its warp's
    other threads; of a device's timeline it is upon its region, and that upon the kernel."""
    found: dict[int, list[_Piece]] = {}
    device = any(event.get("cat") == "kernel" for event in events)
    below = ["kernel", "region", "wait"] if device else ["wait"]

    def order(event: dict[str, Any]) -> tuple[int, float, float]:
        cat = event["cat"]
        return below.index(cat) if cat in below else len(below), event["ts"], -event["dur"] if device else 0

    for event in sorted((each for each in events if each["ph"] == "X"), key=order):
        end, cat = event["ts"] + event["dur"], event["cat"]
        kind = (
            "waits"
            if cat == "wait"
            else "runs"
            if cat == "kernel"
            else event["name"]
            if device
            else _kind(event["name"])
        )
        found.setdefault(event["tid"], []).append(_Piece(event["ts"], end, kind, _about(event, end)))
    return found


def _operations(events: list[dict[str, Any]]) -> Iterable[_Piece]:
    begun = {event["id"]: event for event in events if event["ph"] == "b"}
    for event in events:
        if event["ph"] == "e" and (first := begun.get(event["id"])):
            yield _Piece(first["ts"], event["ts"], _kind(first["name"]), _about(first, event["ts"]))


def _rows(pieces: Iterable[_Piece], most: int = 12) -> list[list[_Piece]]:
    """The pieces in as few rows as they need so as not to overlap; a piece that none of `most` rows has room for is left out."""
    rows: list[list[_Piece]] = []
    for piece in pieces:
        row = next((row for row in rows if row[-1].end <= piece.begin), None)
        if row is not None:
            row.append(piece)
        elif len(rows) < most:
            rows.append([piece])
    return rows


def _row(
    drawing: Drawing,
    y: float,
    pieces: list[_Piece],
    begin: float,
    end: float,
    colours: dict[str, str],
    height: float = _ROW - 2,
):
    """Pieces of one kind that are nearer than half a pixel become one."""
    scale = _WIDTH / max(1e-9, end - begin)
    joined: list[_Piece] = []
    for piece in pieces:
        first, last = max(piece.begin, begin), min(piece.end, end)
        if first >= last:
            continue
        before = joined[-1] if joined else None
        if before and before.kind == piece.kind and 0 <= (first - before.end) * scale < 0.5:
            before.end = last
            if "more" not in before.about:
                before.about += "\nand more"
        else:
            joined.append(_Piece(first, last, piece.kind, piece.about))
    for piece in joined:
        x, width = 90 + (piece.begin - begin) * scale, max((piece.end - piece.begin) * scale, 0.4)
        drawing.rect(x, y, width, height, colours.get(piece.kind, "idle"), piece.about)
