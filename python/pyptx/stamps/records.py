"""What a copy wrote, as spans of time of warps.  It knows no kernel and launches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyptx.stamps.insert import SMID, Place

__all__ = ["Row", "Span", "rows", "spans"]

_HIGH = 1 << 47  # of the 48 bits of time that a record has


@dataclass(frozen=True)
class Span:
    """What a thread that writes for its warp did between two stamps; of a mark `end` is `begin`.

    `what`: "kernel", "region", "wait" or "mark".  `begin`, `end`: in units of the timeline, from its launch's first stamp.
    `closed`: whether the second stamp came; else the span lasts to the thread's last one.
    """

    what: str
    name: str
    file: str
    line: int
    cta: tuple[int, int, int]
    warp: int
    lane: int
    begin: float
    end: float
    closed: bool = True

    @property
    def duration(self) -> float:
        return self.end - self.begin


def spans(
    threads: Iterable[tuple[int, int, list[list[int]]]], places: dict[int, Place], grid: tuple[int, int, int], clock: float
) -> tuple[list[Span], int, int, dict[tuple[int, int, int], int]]:  # fmt: skip
    """Spans, the number of stamps, that of threads whose records were full, and the multiprocessor of each CTA.

    `threads`: number of the CTA, of the thread in it, and its records as lists of 32-bit words.  `clock`: ticks of %clock64 in a unit of
    time; 0: the records have none.
    """
    found: list[Span] = []
    stamps = full = 0
    multiprocessors: dict[tuple[int, int, int], int] = {}
    for linear, thread, words in threads:
        cta = (linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1]))
        read = []
        for low, high, *rest in words:
            number = high >> 16
            if number == SMID:
                multiprocessors[cta] = low
            elif number:
                read.append((number, low | (high & 0xFFFF) << 32, rest[0] | rest[1] << 32 if rest else 0))
        stamps += len(read)
        full += len(words) > 0 and words[-1][1] >> 16 != 0
        found += _of_thread(_times(read, clock), places, cta, thread)
    first = min((each.begin for each in found), default=0.0)
    return [_moved(each, first) for each in found], stamps, full, multiprocessors


def _times(read: list[tuple[int, int, int]], clock: float) -> list[tuple[int, float]]:
    """Numbers and times; with a clock, by its ticks since the thread's first record."""
    if not read:
        return []
    _, first, tick = read[0]
    if clock:
        return [(number, first + (now - tick) / clock) for number, _, now in read]
    return [(number, time + (2 * _HIGH if time + _HIGH < first else 0)) for number, time, _ in read]


def _of_thread(read: list[tuple[int, float]], places: dict[int, Place], cta, thread: int) -> Iterator[Span]:
    open_: list[tuple[int, float]] = []

    def made(number: int, begin: float, end: float, closed: bool) -> Span:
        place = places[number]
        what = "mark" if place.kind == "mark" else place.what
        return Span(what, place.name, place.file, place.line, cta, thread // 32, thread % 32, begin, end, closed)

    for number, time in read:
        kind = places[number].kind
        if kind == "mark":
            yield made(number, time, time, True)
        elif kind == "begin":
            open_.append((number, time))
        elif number - 1 in (each for each, _ in open_):  # else the beginning was another thread's
            while open_:
                begun, since = open_.pop()
                yield made(begun, since, time, begun == number - 1)
                if begun == number - 1:
                    break
    last = read[-1][1] if read else 0.0
    for number, begin in open_:
        yield made(number, begin, last, False)


def _moved(span: Span, first: float) -> Span:
    return Span(
        span.what, span.name, span.file, span.line, span.cta, span.warp, span.lane, span.begin - first, span.end - first, span.closed
    )  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One stage, or one wait, over all warps that came by: the numbers of the table.

    `count`: how often.  `mean`, `longest`: units of time of one.  `share`: of the time that these warps ran, what they spent there.
    `warps`: their numbers in the CTA.
    """

    what: str
    name: str
    file: str
    line: int
    count: int
    mean: float
    longest: float
    share: float
    warps: tuple[int, ...]


def rows(found: list[Span]) -> list[Row]:
    """One for each place, those of the kernel and of regions before waits, in the order of the author's lines."""
    lives: dict[tuple, float] = {}
    for each in found:
        if each.what == "kernel":
            key = each.cta, each.warp
            lives[key] = max(lives.get(key, 0.0), each.duration)
    groups: dict[tuple, list[Span]] = {}
    for each in found:
        groups.setdefault((each.what, each.name, each.file, each.line), []).append(each)
    made = []
    for (what, name, file, line), own in groups.items():
        total = sum(each.duration for each in own)
        life = sum(lives.get(key, 0.0) for key in {(each.cta, each.warp) for each in own})
        warps = tuple(sorted({each.warp for each in own}))
        longest = max(each.duration for each in own)
        made.append(
            Row(what, name, file, line, len(own), total / len(own), longest, total / life if life else 0.0, warps)
        )
    order = ["kernel", "region", "mark", "wait"]
    return sorted(made, key=lambda row: (order.index(row.what), row.file, row.line, row.name))
