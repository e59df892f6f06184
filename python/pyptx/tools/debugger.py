"""A stopped run of the simulator, and a debugger for it on the terminal."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyptx import _core

__all__ = ["Debugger", "Mbarrier", "Register", "Registers", "SharedMemory", "Standing", "Stop", "action_of"]

_ACTIONS = {None: 0, "continue": 0, "step": 1, "line": 2, "quit": 3}


def action_of(answer: Any) -> int:
    """The answer of a function that was asked at a stop, as the library knows it."""
    if (answer is not None and not isinstance(answer, str)) or answer not in _ACTIONS:
        raise ValueError(
            f'the function of a breakpoint must return None, "continue", "step", "line" or "quit", not {answer!r}'
        )
    return _ACTIONS[answer]


@dataclass(frozen=True)
class Register:
    """A register of the warp.  `bits`: of each lane; `written`: whether an instruction has written it there.  `called`: the author's
    name, "row" or "acc[3]", and where it was made; empty if that is not certain."""

    name: str
    type: str
    bits: list[int]
    written: list[bool]
    called: str = ""
    file: str = ""
    line: int = 0

    @property
    def values(self) -> Any:
        """One value a lane, as a NumPy array: floating point and integers as what they are, .b types as unsigned integers."""
        np = _numpy()
        if self.type == "pred":
            return np.array(self.bits, bool)
        size = max(8, int("".join(c for c in self.type.partition("x")[0] if c.isdigit()) or 32))
        if self.type in ("f16x2", "bf16x2"):
            size = 32
        if size == 128:
            return np.array(self.bits, object)
        raw = np.array([bits & ((1 << size) - 1) for bits in self.bits], f"u{size // 8}")
        kind = {"f16": "f2", "f32": "f4", "f64": "f8"}.get(self.type) or (
            f"i{size // 8}" if self.type[0] == "s" else None
        )
        return raw.view(kind) if kind else raw

    def __getitem__(self, lane: int) -> Any:
        return self.values[lane]

    def __str__(self) -> str:
        name = f"{self.called} ({self.name}, {self.file}:{self.line})" if self.called else self.name
        if not any(self.written):
            return f"{name} .{self.type}: nothing has written it"
        shown = [_shown(value) if known else "?" for value, known in zip(self.values, self.written, strict=True)]
        same = len(set(shown)) == 1
        return f"{name} .{self.type}: {shown[0] + ' in all lanes' if same else ' '.join(shown)}"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if hasattr(value, "dtype") and value.dtype.kind == "f" else str(value)


class Registers(Mapping[str, Register]):
    """The registers of the function that runs, by the author's names or the text's: "row", "acc[3]", "%f0" or "f0".  The keys are the
    names of the text.

    Several registers of one name are "row #1", "row #2", in the order in which the body made them.
    """

    def __init__(self, found: list[Register]):
        self._found = {one.name: one for one in found}
        self.named = {one.called: one for one in found if one.called}

    def all(self, name: str) -> list[Register]:
        """The register of this name; or all those of an array, or of a name that several have."""
        for found in (self._found.get(name), self.named.get(name)):
            if found is not None:
                return [found]
        several = [one for called, one in self.named.items() if called.startswith((f"{name}[", f"{name} #"))]
        if several:
            return several
        found = self._found.get(f"%{name}") or self._found.get(name.removeprefix("%"))
        if found is None:
            raise KeyError(f"no register {name!r} here; there are {self._names() or 'none'}")
        return [found]

    def _names(self) -> str:
        return ", ".join(f"{one.called} ({name})" if one.called else name for name, one in self._found.items())

    def __getitem__(self, name: str) -> Register:
        found = self.all(name)
        if len(found) == 1:
            return found[0]
        which = ", ".join(f"{one.called} ({one.name}, {one.file}:{one.line})" for one in found)
        raise KeyError(f"{len(found)} registers are called {name!r}: {which}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


@dataclass(frozen=True)
class SharedMemory:
    """An allocation of the CTA's shared memory.  `data` and `written` are copies: the bytes, and which of them were written."""

    name: str
    offset: int
    data: bytes
    written: bytes
    type: str | None = None
    shape: tuple[int, ...] | None = None

    def array(self, dtype: Any = None, shape: tuple[int, ...] | None = None) -> Any:
        """The elements as a NumPy array, of the type and shape of `smem.alloc` unless others are given.  Types that NumPy does not
        have (bf16, fp8) are unsigned integers of their width."""
        np = _numpy()
        if dtype is None:
            size = int("".join(c for c in (self.type or "b8") if c.isdigit())[:2]) // 8 if self.type in _PLAIN else 0
            dtype = f"{_PLAIN[self.type]}{size}" if self.type in _PLAIN else _WIDTHS.get(self.type or "b8", "u1")
        flat = np.frombuffer(self.data, dtype)
        wanted = shape or self.shape
        return flat.reshape(wanted) if wanted else flat


_PLAIN = {
    f"{kind}{bits}": {"f": "f", "s": "i", "u": "u", "b": "u"}[kind] for kind in "fsub" for bits in (8, 16, 32, 64)
}
_PLAIN.pop("f8")
_WIDTHS = {"bf16": "u2", "f16x2": "u4", "bf16x2": "u4"}


@dataclass(frozen=True)
class Mbarrier:
    """An mbarrier object of the CTA: the phase that is incomplete, arrivals that it waits for, of how many, and bytes."""

    name: str
    offset: int
    expected: int
    pending: int
    phase: int
    tx: int

    def __str__(self) -> str:
        return f"{self.name}: phase {self.phase} waits for {self.pending} of {self.expected} arrivals, {self.tx} bytes"


@dataclass(frozen=True)
class Standing:
    """Lanes of a warp at one instruction.  `waits` says what they wait for, and is empty if they can run."""

    cta: tuple[int, int, int]
    warp: int
    lanes: int
    file: str
    line: int
    instruction: str
    waits: str

    def __str__(self) -> str:
        lanes = "all lanes" if self.lanes == 0xFFFFFFFF else f"lanes {self.lanes:#010x}"
        waits = f": {self.waits}" if self.waits else ""
        return f"CTA {self.cta} warp {self.warp}, {lanes} at {self.file}:{self.line} (`{self.instruction}`){waits}"


class Stop:
    """A run that is stopped before an instruction.  It is valid while the function of the breakpoint runs.

    `thread`, `cta`, `warp`, `lanes`: who is about to execute it; `lanes` is a mask.  `source` is "k.cu:6" where the text was compiled
    from that line, else "".
    """

    def __init__(self, now: _core.SimulatorStop):
        self._now = now
        self.cta, self.thread, self.file, self.line, self.instruction = now.site[:5]
        self.warp, self.lanes = now.warp, now.lanes
        self.source = now.site[9]

    def __str__(self) -> str:
        line = linecache.getline(self.file, self.line).strip()
        of = f" of {self.source}" if self.source else ""
        at = f"CTA {self.cta} warp {self.warp} at {self.file}:{self.line} (`{self.instruction}`{of})"
        return "\n".join([f"{at}: {line}" if line else at, *self._source_lines(0)])

    def is_at(self, file: str, line: int) -> bool:
        """Whether it stands at this line of a file, or of any ("")."""
        source, _, of = self.source.rpartition(":")
        places = [(self.file, self.line), *([(source, int(of))] if of else [])]
        return any(line == at and (not file or f"/{name}".endswith(f"/{file}")) for name, at in places)

    def _source_lines(self, around: int) -> list[str]:
        file, _, line = self.source.rpartition(":")
        return _lines_of(file, int(line), around) if line else []

    @property
    def registers(self) -> Registers:
        """Those of the function that runs."""
        found = []
        for name, kind, written, low, high, *called in self._now.registers():
            bits = [a | b << 64 for a, b in zip(low, high or [0] * 32, strict=True)]
            found.append(Register(name, kind, bits, [bool(written >> lane & 1) for lane in range(32)], *called))
        return Registers(found)

    @property
    def shared(self) -> dict[str, SharedMemory]:
        """Allocations of shared memory, by name; the dynamic part has the name ""."""
        return {
            name: SharedMemory(name, offset, data, written, *_core.shared_array(self._now.entry, name, len(data)))
            for name, offset, data, written in self._now.shared()
        }

    @property
    def mbarriers(self) -> dict[str, Mbarrier]:
        """Those of the CTA, by name: "full", "full+8"."""
        return {row[0]: Mbarrier(*row) for row in self._now.mbarriers()}

    @property
    def warps(self) -> list[Standing]:
        """Where every warp of the cluster stands that has not ended."""
        return [Standing(*row) for row in self._now.warps()]


def _lines_of(file: str, line: int, around: int) -> list[str]:
    lines = [(n, linecache.getline(file, n).rstrip("\n")) for n in range(max(1, line - around), line + around + 1)]
    return [f"{'>' if n == line else ' '} {n:4} {text}" for n, text in lines if text]


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ModuleNotFoundError("values of registers and shared memory are NumPy arrays: pip install numpy") from None
    return numpy


class Debugger:
    """Commands from the terminal, at a stop.  An empty line is the last command again."""

    HELP = """\
  s, step        to the warp's next instruction      n, line        to its next line
  c, continue    to the next breakpoint              q, quit        ends the run
  p NAME         registers, in all lanes             r, registers   all that were written
  v, names       all that have a name in the source
  m NAME         shared memory; m: its names         b, mbarriers   their phases and counts
  w, warps       where they stand                    l, list        the lines around
  o, source      those of the source                 h, help        these commands"""

    def __init__(self, read: Callable[[str], str] | None = None, write: Callable[[str], Any] | None = None):
        self._read, self._write = read or input, write or print
        self._last = "step"
        self.asks = False  # it waits for a command
        self.awaited = False  # somebody has asked for a stop

    def __call__(self, stop: Stop) -> str:
        import shlex

        self.awaited = False
        self._write(str(stop))
        while True:
            try:
                self.asks = True
                words = shlex.split(self._read("(pyptx) ")) or self._last.split()
            except EOFError:
                return "quit"
            except ValueError as error:
                self._write(str(error))
                continue
            finally:
                self.asks = False
            self._last = " ".join(words)
            answer = {"s": "step", "n": "line", "c": "continue", "q": "quit"}.get(words[0], words[0])
            if answer in _ACTIONS:
                return answer
            self._show(stop, *words)

    def _show(self, stop: Stop, command: str, *names: str):
        try:
            for line in self._lines(stop, command, names):
                self._write(line)
        except KeyError as error:
            self._write(str(error.args[0]))

    def _lines(self, stop: Stop, command: str, names: tuple[str, ...]) -> list[str]:
        if command in ("p", "print") and names:
            return [str(one) for name in names for one in stop.registers.all(name)]
        if command in ("r", "registers"):
            return [str(one) for one in stop.registers.values() if any(one.written)]
        if command in ("v", "names"):
            return [str(one) for one in stop.registers.named.values()] or ["no register has a name in the source"]
        if command in ("m", "memory"):
            if not names:
                return [f"{name or '(dynamic)'}: {len(one.data)} bytes" for name, one in stop.shared.items()]
            return [str(_named(stop.shared, name).array()) for name in names]
        if command in ("b", "mbarriers"):
            return [str(one) for one in stop.mbarriers.values()] or ["there are no mbarriers"]
        if command in ("w", "warps"):
            return [str(one) for one in stop.warps]
        if command in ("l", "list"):
            return _lines_of(stop.file, stop.line, 4)
        if command in ("o", "source"):
            return stop._source_lines(4) or [f"no source is known here{stop.source and f': {stop.source}'}"]
        help = self.HELP.split("\n")
        return help if command in ("h", "help") else [f"{command!r} is no command, or lacks a name; there are", *help]


def _named(found: Mapping[str, SharedMemory], name: str) -> SharedMemory:
    if name not in found:
        raise KeyError(f"no shared memory {name!r}; there are {', '.join(found) or 'none'}")
    return found[name]
