"""The results of `with pyptx.simulator(...) as run`: reports, counts, traces, schedules, breakpoints."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from pyptx import _core
from pyptx.simulator import Options, Statistics, changed, current
from pyptx.tools.debugger import Debugger, Stop, action_of
from pyptx.tools.lines import LineCount, Lines

__all__ = ["Failing", "LineCount", "Lines", "Printed", "Report", "Run", "Site", "Stop", "Trace"]


@dataclass(frozen=True)
class Site:
    """A thread, a source line and an access that a report is about.

    `address` is an offset in shared and local memory, otherwise an address of the host; `bytes` is 0 if there is no access.  `owner`
    names the buffer or variable there: "`X`+16".  `source` is the line that the PTX was compiled from, if its .loc says so: "k.cu:6".
    """

    cta: tuple[int, int, int]
    thread: tuple[int, int, int]
    file: str
    line: int
    instruction: str
    space: str
    address: int
    bytes: int
    owner: str
    source: str = ""


@dataclass(frozen=True)
class Report:
    """An error that the simulator found: its number (docs/simulator.md), its name, the message of the exception, notes, and sites."""

    code: int
    name: str
    file: str
    line: int
    message: str
    notes: list[str]
    sites: list[Site]

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else ""
        return "\n    ".join([f"{where}PTX{self.code} {self.message}", *self.notes])

    def json(self) -> dict[str, Any]:
        """The same as values that JSON has."""
        return asdict(self)


def _reports(found) -> list[Report]:
    return [
        Report(d.code, d.name, d.file, d.line, d.message, list(d.notes), [Site(*site) for site in sites])
        for d, sites in found
    ]


@dataclass(frozen=True)
class Printed:
    """A line that a thread printed, by `ptx.print` or printf."""

    text: str
    cta: tuple[int, int, int]
    thread: tuple[int, int, int]
    file: str
    line: int


@dataclass(frozen=True)
class Failing:
    """A schedule under which a launch fails.  Use its seed to repeat it: pyptx.simulator(seed=..., schedule="synchronisation").

    `launch`: the number of the launch in the block, from 0.  `reports`: its reports.  If there are none, the outputs depend on the
    schedule, and `differs` names the first byte that differs.
    """

    seed: int
    launch: int
    reports: list[Report]
    differs: str

    def __str__(self) -> str:
        what = "\n".join(map(str, self.reports)) or f"{self.differs} is another than under the plain schedule"
        return f"seed {self.seed}, launch {self.launch}: {what}"

    def json(self) -> dict[str, Any]:
        """The same as values that JSON has."""
        return asdict(self)


class Trace:
    """Instructions of warps, waits, and asynchronous operations, in simulated order.  The unit of time is one instruction of a warp,
    so a trace shows order, not duration."""

    def __init__(self, text: Callable[[], str]):
        self._text = text

    def json(self) -> dict[str, Any]:
        """Chrome's trace format, as values."""
        return json.loads(self._text())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it for https://ui.perfetto.dev or chrome://tracing."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._text())

    def _repr_html_(self) -> str:
        from pyptx import pictures

        return pictures.timeline(self)._repr_html_()


class Run:
    """The results of the launches inside `with pyptx.simulator(...) as run`.

    Example:
        with pyptx.simulator() as run:
            pass                                            # y = k(x)
        assert not run.reports and run.statistics.warp_instructions == 0
    """

    def __init__(self, chosen: dict[str, Any], recorded: dict[str, bool]):
        self._chosen, self._recorded = chosen, recorded
        self._recording = _core.SimulatorRecording(**recorded)
        self._breakpoints: list[tuple[tuple[str, int], Callable[[Stop], Any]]] = []
        self._each: Callable[[Stop], Any] | None = None
        self._met: set[tuple[str, int]] = set()  # breakpoints
        self._before: list[tuple[Options, _core.SimulatorRecording | None]] = []  # what holds outside

    def __enter__(self) -> Run:
        before, recording = current(), _core.use_simulator_recording(self._recording)
        try:
            self.options = changed(before, self._chosen)
            self.options._use()
        except BaseException:
            _core.use_simulator_recording(recording)
            raise
        self._before.append((before, recording))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        before, recording = self._before.pop()
        before._use()
        _core.use_simulator_recording(recording)
        if kind is None and self.statistics.warp_instructions:
            for file, line in dict.fromkeys(place for place, _ in self._breakpoints if place not in self._met):
                where = f"{file}:{line}" if file else f"line {line}"
                warnings.warn(f"no launch came to {where}, where a breakpoint is", stacklevel=2)

    # What was found.

    @property
    def reports(self) -> list[Report]:
        """What the runs found wrong, in order."""
        return _reports(self._recording.reports())

    @property
    def prints(self) -> list[Printed]:
        """The lines that threads printed."""
        return [Printed(*line) for line in self._recording.prints()]

    @property
    def statistics(self) -> Statistics:
        """Instructions of all launches."""
        return Statistics(*self._recording.totals()[1:3])

    def lines(self) -> Lines:
        """What each line of the author did, over all launches: a list of `LineCount` that prints as a table."""
        self._asked("lines")
        return Lines(LineCount(*row) for row in self._recording.counts())

    @property
    def trace(self) -> Trace:
        """What happened, in simulated order."""
        self._asked("trace")
        return Trace(self._recording.trace_json)

    def json(self) -> str:
        """Reports, statistics, counts of lines and printed lines as JSON."""
        lines = [one.json() for one in self.lines()] if self._recorded["lines"] else []
        return json.dumps(
            {
                "reports": [report.json() for report in self.reports],
                "statistics": asdict(self.statistics),
                "lines": lines,
                "prints": [asdict(line) for line in self.prints],
            },
            indent=2,
        )

    def _repr_html_(self) -> str:
        """What was found wrong, then lines and trace as pictures, as far as they were recorded."""
        reports = "".join(f"<pre>{escape(str(report))}</pre>" for report in self.reports)
        parts = [self.lines()] if self._recorded["lines"] else []
        if self._recorded["trace"] and self.statistics.warp_instructions:
            parts.append(self.trace)
        return reports + "".join(part._repr_html_() for part in parts)

    def writer(self, address: int) -> tuple[str, int] | None:
        """File and line that wrote the byte at this address of the host last, in the last launch; None: no line did."""
        file, line, _ = self._writer(address)
        return (file, line) if line else None

    def _writer(self, address: int) -> tuple[str, int, str]:
        """The same, and the register that the line stored there, if the author has a name for it; line 0: no line did."""
        self._asked("writers")
        found = self._recording.writer(address)
        return (found[2], found[3], found[5]) if found else ("", 0, "")

    def _asked(self, what: str):
        if not self._recorded[what]:
            raise ValueError(f"this run did not record {what}: pyptx.simulator({what}=True)")

    # Again, and slower.

    def explore(self, schedules: int, *, compare: bool = True) -> Failing | None:
        """Runs the launches of the block again with the seeds 1 to `schedules`, on copies of their arguments, and returns the first
        schedule that fails, or None.  A schedule is a pure function of its seed; schedules differ at instructions that synchronise.

        `compare`: whether outputs that depend on the schedule count as a failure.  Pass False if the kernel adds floating-point
        numbers by atomics.  Launches whose buffers have more than 1 GiB together cannot be run again.

        Example:
            with pyptx.simulator() as run:
                pass                                        # y = k(x)
            assert run.explore(10) is None
        """
        if isinstance(schedules, bool) or not isinstance(schedules, int) or not 1 <= schedules <= 1 << 32:
            raise ValueError(f"explore tries 1 to 2^32 schedules, not {schedules!r}")
        self._asked("launches")
        if dropped := self._recording.totals()[4]:
            raise ValueError(
                f"{dropped} launches were too large to be kept: their buffers have more than 1 GiB together"
            )
        found = _core.explore(self._recording, schedules, compare)
        if found is None:
            return None
        seed, launch, reports, differs = found
        return Failing(seed, launch, _reports(reports), differs)

    def breakpoint(self, where: str | int, then: Callable[[Stop], Any] | None = None) -> None:
        """Calls `then` with a `Stop` before the instructions of a line, "gemm.py:41", or 41 of any file.  Without `then`, the debugger of
        `pyptx run --debug` asks on the terminal.  `then` returns how to go on: None or "continue", "step" (to the warp's next
        instruction), "line" (to its next line), "quit".  A line that no launch of the block came to is warned of.

        Example:
            with pyptx.simulator() as run:
                run.breakpoint("gemm.py:41", lambda stop: print(stop, stop.registers["%r0"]))
        """
        file, colon, line = str(where).rpartition(":")
        if bool(colon) != bool(file) or not line.isdigit() or int(line) == 0:
            raise ValueError(f'a breakpoint is "file:line" or a line, not {where!r}')
        self._breakpoints.append(((file, int(line)), then or Debugger()))
        self._set_stops()

    def stop_at_once(self, then: Callable[[Stop], Any] | None = None) -> None:
        """Stops before the first instruction of each launch, as `breakpoint` does at a line."""
        self._each = then or Debugger()
        self._set_stops()

    def stop_soon(self) -> None:
        """Stops a launch that runs before its next instruction, if it may stop at all: if `breakpoint` or `stop_at_once` was called."""
        self._recording.stop_soon()

    def _set_stops(self):
        def stopped(now) -> int:
            stop = Stop(now)
            for (file, line), then in self._breakpoints:
                if stop.is_at(file, line):
                    self._last = then
                    self._met.add((file, line))
                    return action_of(then(stop))
            return action_of((self._each or self._last)(stop))

        self._last = self._each
        self._recording.set_stops([place for place, _ in self._breakpoints], self._each is not None, stopped)
