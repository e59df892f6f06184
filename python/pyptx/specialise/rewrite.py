"""Kernels whose text a function of the author changes after the trace: `Kernel.rewritten`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyptx import _locks, ir
from pyptx.errors import AuthoringError
from pyptx.specialise.nesting import Writing
from pyptx.specialise.signature import Arguments
from pyptx.specialise.specialisation import Specialisation

__all__ = ["Changed", "Rewritten"]

_KEPT = 128  # the oldest goes first; the kernel keeps as many


class Changed:
    """A traced module with another text.  What a launch needs beside the text is as the trace had it."""

    def __init__(self, traced: Any, module: ir.Module):
        self._traced, self._module = traced, module
        self._text = str(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._traced, name)

    def emit(self, lineinfo: bool = False) -> str:
        if lineinfo:
            raise AuthoringError(
                "lineinfo=True is not possible for a rewritten kernel; the function that edits it may add .loc lines"
            )
        return self._text

    @property
    def instruction_count(self) -> int:
        return len(self._module.instructions)

    @property
    def registers(self) -> None:
        """The pass may have given a name of the text to another register."""
        return None

    @property
    def lines(self) -> list[tuple[str, int]]:
        """The author's line of each line of the text; what the pass wrote has none."""
        traced = self._traced.lines
        text, begins = self._module._printed()
        lines: list[tuple[str, int]] = [("", 0)] * (text.count(b"\n") + 2)
        number, at = 1, 0
        for begin, statement in begins.items():
            number += text.count(b"\n", at, begin)
            at = begin
            if statement.place is not None and statement.place[0] < len(traced):
                lines[number] = traced[statement.place[0]]
        return lines


class Rewritten:
    """The specialisations of a kernel, each with the text that the pass made of it, once."""

    def __init__(self, kept: Any, change: Callable[[ir.Module], ir.Module | None]):
        self._base, self._change = kept, change
        self._kept: dict[Specialisation, Specialisation] = {}  # by that of the kernel as it was traced
        self._lock = _locks.reentrant()  # the pass may ask for other texts of this kernel

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, given: Arguments) -> Specialisation:
        found = self._base.find(given)
        with Writing(self, found.signature.name, found), self._lock:
            kept = self._kept.get(found)
            if kept is None:
                while len(self._kept) >= _KEPT:
                    del self._kept[next(iter(self._kept))]
                kept = self._kept[found] = self._make(found)
        return kept

    def marked(self, given: Arguments) -> Specialisation:
        """As `specialisation.Kept.marked`, changed; it is not kept."""
        return self._make(self._base.marked(given))

    def _make(self, found: Specialisation) -> Specialisation:
        module = ir.Module(found.text(), found.signature.name)
        changed = self._change(module)
        if not isinstance(changed, (ir.Module, type(None))):
            raise TypeError(
                f"the function of rewritten edits the module that it gets, or returns another, not {changed!r}"
            )
        module = changed or module
        wrong = [each for each in module.check() if each.severity == "error"]
        if wrong:
            raise AuthoringError("\n".join(map(str, wrong)), wrong)
        made = Changed(found.module, module)
        return Specialisation(found.options, found.signature, made, found.template, found.sizes)
