"""`with pyptx.timeline(kernel) as t`: calls inside launch a stamped copy; what its warps wrote becomes spans, a table and pictures."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyptx import _core
from pyptx.errors import LaunchError, LaunchTypeError, LaunchValueError
from pyptx.kernel import Kernel
from pyptx.launch import kept
from pyptx.launch.record import make_record
from pyptx.simulator import simulator
from pyptx.specialise import rewrite
from pyptx.specialise.specialisation import Specialisation
from pyptx.stamps import active, insert, records

if TYPE_CHECKING:
    from pyptx.pictures import Picture

__all__ = ["Launch", "Overhead", "Timeline"]

_DEVICE_BYTES, _HOST_BYTES = 512 << 20, 64 << 20  # of the buffer
_TIMED = 5  # launches in a row whose mean is a time


@dataclass(frozen=True)
class Overhead:
    """What a launch of the kernel takes, and one of its copy: `unit` is "us" on a GPU, "instructions" of warps on the simulator."""

    kernel: float
    copy: float
    unit: str

    def __str__(self) -> str:
        shown = (f"{each:,.1f}" if self.unit == "us" else f"{each:,.0f}" for each in (self.copy, self.kernel))
        copy, kernel = shown
        return f"the copy {copy} {self.unit}, the kernel {kernel}: {self.copy / max(self.kernel, 1e-9):.2f} x"


@dataclass(frozen=True)
class Launch:
    """One launch of a copy.

    `unit`: of the spans' times, "ns", or "instructions" of warps on the simulator.  `ctas`: how many CTAs were recorded.  `stamps`: how
    many records were written.  `full`: threads that had no room for more.  `overhead`: None where it was not measured.
    `multiprocessors`: by CTA.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    unit: str
    ctas: int
    stamps: int
    full: int
    overhead: Overhead | None
    spans: list[records.Span] = field(repr=False)
    multiprocessors: dict[tuple[int, int, int], int] = field(repr=False)

    def rows(self) -> list[records.Row]:
        """The numbers of the table."""
        return records.rows(self.spans)

    def table(self) -> str:
        """A line for each place: how often, mean and longest, the share of its warps' time, and which warps of the CTA came by."""
        count = math.prod(self.grid)
        shown = "" if self.ctas == count else f", the first {self.ctas} recorded"
        lines = [
            f"{self.kernel}: {count} CTAs of {math.prod(self.block)} threads{shown}; {self.stamps:,} stamps; times in {self.unit}",
            *([f"overhead: {self.overhead}"] if self.overhead else []),
            *([f"{self.full} threads had no room for all of their stamps: timeline(records=...)"] if self.full else []),
            f"{'':8}{'place':28}{'line':24}{'count':>9}{'mean':>11}{'longest':>11}{'share':>8}  warps",
        ]
        for row in self.rows():
            where = f"{os.path.basename(row.file)}:{row.line}" if row.line else ""
            times = f"{row.mean:>11,.0f}{row.longest:>11,.0f}{row.share:>8.1%}" if row.what != "mark" else " " * 30
            lines.append(f"{row.what:8}{row.name:28}{where:24}{row.count:>9,}{times}  {_ranges(row.warps)}")
        return "\n".join(lines)


def _ranges(numbers: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for each in numbers:
        if runs and runs[-1][1] == each - 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


class Timeline:
    """The result of `pyptx.timeline`: a list of launches, their table, Perfetto's events and pictures.

    Example:
        from pyptx.kernels import add

        x = np.ones(512, np.float32)
        with pyptx.timeline(add) as t:
            add(x, x)
        assert len(t.launches) == 1 and "kernel" in t.table()
    """

    def __init__(self, kernel: Kernel | None, ctas: int | None, count: int, fine: bool, waits: bool, measure: bool):
        if kernel is not None and not isinstance(kernel, Kernel):
            raise TypeError(
                f"timeline takes a kernel, made by @kernel, not {kernel!r}; without one it records each kernel that is called inside"
            )
        for name, value in (("ctas", ctas), ("records", count)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} of timeline must be a positive int, not {value!r}")
        if not 4 <= count <= 1 << 20:
            raise ValueError(f"records of timeline must be 4 to 2^20 stamps of a thread, not {count}")
        self.launches: list[Launch] = []
        self._kernel, self._ctas, self._fine, self._waits, self._measure = kernel, ctas, fine, waits, measure
        self._part = (16 if fine else 8) << (count - 1).bit_length()
        self._copies: dict[Specialisation, _Copy] = {}

    def __enter__(self) -> Timeline:
        if active.recorder is not None:
            raise RuntimeError("another timeline is recording: leave its `with` first")
        active.recorder = self
        kept.watch_calls()
        return self

    def __exit__(self, *_: Any) -> None:
        active.recorder = None
        kept.watch_calls()

    # Called by the launcher for each call inside.

    def wants(self, kernel: Kernel) -> bool:
        return self._kernel is None or kernel is self._kernel

    def call(
        self,
        kernel: Kernel,
        given: Any,
        device: tuple[int, int],
        arrays: tuple,
        values: list,
        out: Any,
        stream: Any,
        makers: Any,
    ):
        """Makes the call by a copy; the result is the kernel's."""
        found = kernel.specialise_for(given)
        copy = self._copies.get(found)
        if copy is None:
            copy = self._copies[found] = _Copy(kernel, given, found, self._part, self._fine, self._waits)
        grid = kernel.signature.grid.of(given.sizes, found.template)
        threads = math.prod(found.block)
        most = (_HOST_BYTES if device[0] == 1 else _DEVICE_BYTES) // (self._part * threads)
        ctas = min(math.prod(grid), self._ctas or max(most, 1))
        where = _place_of(arrays, device)
        overhead = None
        if self._measure and math.prod(grid):
            overhead = self._overhead(kernel, copy, found, given, device, arrays, values, stream, makers, where, ctas)
        buffer = where.zeros(ctas * threads * self._part, self._part)
        plan = copy.specialisation.plan_of(given.sizes, device, len(buffer))
        with where.turns():
            result = plan((buffer, *arrays), (ctas, *values), out, stream, makers)
        written = where.read(buffer, ctas * threads, self._part, 4 if self._fine else 2)
        clock = _ticks(written) if self._fine else 0.0
        told = ((row // threads, row % threads, words) for row, words in written)
        spans, stamps, full, multiprocessors = records.spans(told, copy.places, grid, clock)
        unit = "instructions" if device[0] == 1 else "ns"
        made = Launch(kernel.__name__, grid, found.block, unit, ctas, stamps, full, overhead, spans, multiprocessors)
        self.launches.append(made)
        return result

    def _overhead(self, kernel, copy, found, given, device, arrays, values, stream, makers, where, ctas) -> Overhead:
        """Launches kernel and copy on outputs of their own, and on copies of the inputs that they write."""
        written = [kernel.signature.tensors.index(name) for name in kernel.mutates]
        plain = found.plan(given.sizes, device)
        buffer = where.zeros(ctas * math.prod(found.block) * self._part, self._part)
        stamped = copy.specialisation.plan_of(given.sizes, device, len(buffer))
        own = tuple(where.copy(array) if index in written else array for index, array in enumerate(arrays))
        times = [
            where.time(lambda: plain(own, tuple(values), None, stream, makers), stream),
            where.time(lambda: stamped((buffer, *own), (ctas, *values), None, stream, makers), stream),
        ]
        return Overhead(*times, where.unit)

    # What was recorded.

    def table(self) -> str:
        """The tables of all launches."""
        return (
            "\n\n".join(each.table() for each in self.launches)
            or "no launch: nothing that is recorded was called inside"
        )

    __str__ = table

    def __repr__(self) -> str:
        return f"<Timeline: {len(self.launches)} launches, {sum(each.stamps for each in self.launches):,} stamps>"

    def json(self) -> dict[str, Any]:
        """Events of Chrome's trace format, which Perfetto reads: a process a CTA, a thread a warp.  Times in microseconds, on the
        simulator in instructions."""
        events: list[dict[str, Any]] = []
        for number, launch in enumerate(self.launches):
            events += _events(number, launch, len(events))
        units = {launch.unit for launch in self.launches}
        return {"traceEvents": events, "otherData": {"unit": "instructions" if units == {"instructions"} else "us"}}

    def picture(
        self, *, launch: int = 0, cta: tuple[int, int, int] = (0, 0, 0), begin: float = 0, end: float | None = None
    ) -> Picture:
        """The warps of one CTA against time, as `pyptx.pictures.timeline`; `begin`, `end`: the part that is shown, in the unit of `json`."""
        from pyptx import pictures

        return pictures.timeline(self.json(), launch=launch, cta=cta, begin=begin, end=end)

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Writes the events (.json, for https://ui.perfetto.dev), the picture (.svg, .html; options as of `picture`) or the table (.txt)."""
        kind = Path(path).suffix
        if kind in (".svg", ".html", ".htm"):
            self.picture(**options).save(path)
        elif kind in (".json", ".txt"):
            Path(path).write_text(self.table() + "\n" if kind == ".txt" else json.dumps(self.json()), encoding="utf-8")
        else:
            raise ValueError(f"{path}: a timeline is saved as .json, .svg, .html or .txt")

    def _repr_html_(self) -> str:
        from html import escape

        pictures = [
            self.picture(launch=number)._repr_html_() for number, each in enumerate(self.launches) if each.spans
        ]
        return f"<pre>{escape(self.table())}</pre>" + "".join(pictures)


def _events(number: int, launch: Launch, first: int) -> list[dict[str, Any]]:
    ctas = sorted({each.cta for each in launch.spans}, key=lambda cta: cta[::-1])
    pids = {cta: first + index for index, cta in enumerate(ctas)}
    scale = 1000 if launch.unit == "ns" else 1
    made: list[dict[str, Any]] = []
    for cta, pid in pids.items():
        name = f"launch {number}, CTA ({cta[0]},{cta[1]},{cta[2]})"
        labels = f"SM {launch.multiprocessors[cta]}" if cta in launch.multiprocessors else ""
        made.append({"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": name}})
        made.append({"name": "process_labels", "ph": "M", "pid": pid, "tid": 0, "args": {"labels": labels}})
    for cta, warp in sorted({(each.cta, each.warp) for each in launch.spans}):
        made.append({"name": "thread_name", "ph": "M", "pid": pids[cta], "tid": warp, "args": {"name": f"warp {warp}"}})
    for each in launch.spans:
        said = {"line": f"{each.file}:{each.line}" if each.line else "", "lane": each.lane}
        if not each.closed:
            said["what"] = "no stamp at its end"
        event = {
            "name": each.name,
            "cat": each.what,
            "ts": each.begin / scale,
            "pid": pids[each.cta],
            "tid": each.warp,
            "args": said,
        }
        made.append(
            event | ({"ph": "i", "s": "t"} if each.what == "mark" else {"ph": "X", "dur": each.duration / scale})
        )
    return made


def _ticks(written: list[tuple[int, list[list[int]]]]) -> float:
    """Ticks of %clock64 in a nanosecond: over the thread that has the longest time between its first and last record."""
    best = (0, 0)
    for _, words in written:
        read = [(low | (high & 0xFFFF) << 32, a | b << 32) for low, high, a, b in words if 0 < high >> 16 < insert.SMID]
        if len(read) > 1:
            best = max(best, (read[-1][0] - read[0][0], read[-1][1] - read[0][1]))
    return best[1] / best[0] if best[0] > 0 and best[1] > 0 else 1.0


# ---- the copy of a specialisation


class _Stamped(Specialisation):
    """A specialisation whose .entry has two parameters more, the first: the buffer and the number of recorded CTAs."""

    _words = 0

    def plan_of(self, sizes, device, words: int):
        self._words = words
        return self.kept(("plan", device, tuple(sizes.items()), words), lambda: self._plan(sizes, device))

    def record(self, sizes, grid=None):
        def first(made):  # an input stands before all outputs
            made.tensor(insert.PARAMETER, "s64", [self._words], written=True)
            made.scalar(f"{insert.PARAMETER}_ctas", "u32")

        return make_record(self, sizes, grid, first=first)


class _Copy:
    def __init__(self, kernel: Kernel, given: Any, found: Specialisation, part: int, fine: bool, waits: bool):
        from pyptx import ir

        traced = kernel._kept.marked(given)
        module = ir.Module(traced.text(), kernel.signature.name)
        made = insert.stamped(
            module, kernel.signature.entry, traced.module.lines, part, math.prod(found.block), fine, waits
        )
        wrong = [each for each in module.check() if each.severity == "error"]
        if wrong:
            raise LaunchError(f"{kernel.__name__}: the copy with stamps is not legal PTX: {wrong[0]}", wrong)
        changed = rewrite.Changed(traced.module, module)
        self.specialisation = _Stamped(found.options, found.signature, changed, found.template, found.sizes)
        self.places = made.places


# ---- where tensors are: torch's, or NumPy's


def _place_of(arrays: tuple, device: tuple[int, int]) -> _Torch | _NumPy:
    torch = sys.modules.get("torch")
    if torch is not None and (not arrays or any(isinstance(each, torch.Tensor) for each in arrays)):
        return _Torch(torch, device)
    if device[0] not in (1, 3):
        raise LaunchTypeError("timeline: a launch on a GPU needs torch's tensors")
    return _NumPy()


class _NumPy:
    unit = "instructions"

    def turns(self) -> AbstractContextManager[Any]:
        """Short turns of warps, in which time moves, where no seed is chosen already."""
        return nullcontext() if simulator.current().seed else simulator.options(seed=1)

    def zeros(self, size: int, part: int) -> Any:
        """So many bytes as 64-bit integers, at an address that is a multiple of `part`."""
        import numpy

        whole = numpy.zeros((size + part) // 8, numpy.int64)
        skipped = -whole.ctypes.data % part // 8
        return whole[skipped : skipped + size // 8]

    def copy(self, array: Any) -> Any:
        import numpy

        return numpy.array(array, copy=True)

    def time(self, launch: Callable[[], Any], stream: Any) -> float:
        launch()
        return float(_core.simulator_statistics()[0])

    def read(self, buffer: Any, threads: int, part: int, words: int) -> list[tuple[int, list[list[int]]]]:
        """The records of each thread that wrote, by its number."""
        import numpy

        parts = buffer.view(numpy.uint32).reshape(threads, part // (4 * words), words)
        return [(int(row), _until_end(parts[row])) for row in numpy.flatnonzero(parts[:, 1, 1])]


def _until_end(part: Any) -> list[list[int]]:
    """The records that were written; all of them, with the last, where none was left."""
    import numpy

    empty = numpy.flatnonzero(part[:, 1] == 0)
    return part[: empty[0] + 1 if len(empty) else len(part)].tolist()


class _Torch:
    def __init__(self, torch: Any, device: tuple[int, int]):
        self._torch, self._cuda = torch, device[0] == 2
        self._device = torch.device("cuda", device[1]) if self._cuda else torch.device("cpu")
        self.unit = "us" if self._cuda else "instructions"

    def zeros(self, size: int, part: int) -> Any:
        whole = self._torch.zeros((size + part) // 8, dtype=self._torch.int64, device=self._device)
        skipped = -whole.data_ptr() % part // 8
        return whole[skipped : skipped + size // 8]

    def turns(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._cuda else _NumPy().turns()

    def copy(self, array: Any) -> Any:
        return array.detach().clone()

    def time(self, launch: Callable[[], Any], stream: Any) -> float:
        if not self._cuda:
            return _NumPy().time(launch, stream)
        torch = self._torch
        launch()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        on = torch.cuda.current_stream(self._device) if stream is None else torch.cuda.ExternalStream(_handle(stream))
        first.record(on)
        for _ in range(_TIMED):
            launch()
        last.record(on)
        last.synchronize()
        return first.elapsed_time(last) * 1e3 / _TIMED

    def read(self, buffer: Any, threads: int, part: int, words: int) -> list[tuple[int, list[list[int]]]]:
        if self._cuda:
            self._torch.cuda.synchronize(self._device)
        import numpy

        parts = buffer.view(threads, part // 8)
        rows = (parts[:, words // 2] != 0).nonzero().flatten()
        wrote = parts[rows].cpu().numpy().view(numpy.uint32).reshape(len(rows), part // (4 * words), words)
        return [(row, _until_end(each)) for row, each in zip(rows.tolist(), wrote, strict=True)]


def _handle(stream: Any) -> int:
    handle = getattr(stream, "cuda_stream", stream)
    if not isinstance(handle, int):
        raise LaunchValueError(f"timeline: stream= must be a stream of torch or its handle, not {stream!r}")
    return handle
