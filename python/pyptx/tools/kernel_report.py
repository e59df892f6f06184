"""`kernel.report()`: registers, shared memory, spills and occupancy, then for each source line its PTX beside its machine code.

The report is data (`Report`, `Line`) and text; kernel_report_html.py makes a page of it.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyptx import _core

__all__ = ["Line", "Report", "of"]

_PTX = 58  # columns of PTX in the text; longer lines push the machine code to the right


@dataclass(frozen=True)
class Line:
    """A source line, with its PTX and machine code: (number in the PTX text, PTX, [machine instruction, ...]).

    `file` is empty and `line` is 0 for what no line wrote: the kernel's frame.  An instruction that the assembler made of
    several lines stands at the one that it names.
    """

    file: str
    line: int
    source: str
    rows: list[tuple[int, str, list[str]]]

    @property
    def machine(self) -> int:
        """How many machine instructions it became."""
        return sum(len(sass) for _, _, sass in self.rows)


@dataclass(frozen=True)
class Report:
    """One specialisation.  `str()` is the text, `html()` a page that needs no other file, `save()` writes either."""

    name: str
    target: str
    assembler: str
    chosen: dict[str, Any]  # template values and sizes
    resources: Any  # pyptx.launch.resources.Resources
    lines: list[Line]

    def facts(self) -> list[tuple[str, str, str]]:
        """(name, value, remark) of what the kernel takes of a multiprocessor."""
        r = self.resources
        spilled = r.spill_stores + r.spill_loads
        dynamic = f"{r.shared:,} static, {r.dynamic_shared:,} dynamic"
        return [
            ("registers", f"{r.registers}", "a thread"),
            ("shared memory", f"{r.shared + r.dynamic_shared:,} bytes", f"a CTA: {dynamic}"),
            ("spills", f"{spilled:,} bytes", f"a thread: {r.spill_stores:,} stored, {r.spill_loads:,} loaded"),
            ("stack", f"{r.stack:,} bytes", "a thread"),
            ("barriers", f"{r.barriers}", "a CTA"),
            ("threads", f"{r.threads:,}", "a CTA"),
            ("occupancy", f"{r.occupancy:.0%}", f"{r.warps} of {r.most_warps} warps, {_blocks(r)}"),
            ("instructions", f"{self._ptx():,} PTX", f"{sum(line.machine for line in self.lines):,} of the machine"),
        ]

    def _ptx(self) -> int:
        return sum(is_instruction(text) for line in self.lines for _, text, _ in line.rows)

    def __str__(self):
        return "\n".join(self._text())

    def _text(self) -> Iterator[str]:
        yield f"{self.name} for {self.target}, by {self.assembler}"
        if self.chosen:
            yield "  " + ", ".join(f"{name} = {value!r}" for name, value in self.chosen.items())
        facts = self.facts()
        wide = [max(len(fact[i]) for fact in facts) for i in range(2)]
        for name, value, remark in facts:
            yield f"  {name:{wide[0]}}  {value:>{wide[1]}}  {remark}"
        for line in self.lines:
            yield ""
            yield f"{Path(line.file).name}:{line.line}  {line.source.strip()}" if line.line else "(the kernel's frame)"
            for _, ptx, sass in line.rows:
                yield f"    {ptx.strip():{_PTX}}  {sass[0] if sass else ''}".rstrip()
                yield from (f"    {'':{_PTX}}  {more}" for more in sass[1:])

    def html(self) -> str:
        """A page of its own: no script, no other file; light and dark."""
        from pyptx.tools import kernel_report_html

        return kernel_report_html.page(self)

    _repr_html_ = html  # notebooks

    def save(self, path) -> None:
        """Writes the page, or the text where the name does not end in .html."""
        text = self.html() if str(path).endswith((".html", ".htm")) else f"{self}\n"
        Path(path).write_text(text, encoding="utf-8")


def _blocks(resources) -> str:
    if resources.blocks == 0:
        return f"no CTA fits: too many {resources.limiter}"
    return f"{resources.blocks} CTAs a multiprocessor, limited by {resources.limiter}"


def is_instruction(ptx: str) -> bool:
    return ptx.strip().endswith(";") and not ptx.lstrip().startswith(".")


def of(found) -> Report:
    """The report of a `Specialisation`.  Assembles it, with line information; launches nothing."""
    resources = found.resources()
    text, target, asked = found.text(), found.options.arch, found.options.assembler
    sass = _core.sass(text, target, found.signature.name, found.module.lines, True, asked)
    chosen = {**found.template, **found.sizes}
    described = _core.assembler_description(text, target, asked)
    lines = _by_author(text.splitlines(), found.module.lines, _by_ptx(sass, found.signature.entry))
    return Report(found.signature.name, target, described, chosen, resources, lines)


def _by_ptx(sass: str, entry: str) -> dict[int, list[str]]:
    """Machine instructions by line of the PTX, 0 where the disassembler does not tell, of the entry and what it calls."""
    made: dict[int, list[str]] = {}
    for section in re.split(r"(?m)^\s*(?:\.section|//---).*$", sass):
        code, line = [], 0
        for text in section.splitlines():
            if named := re.match(r'\s*//## File "[^"]*", line (\d+)', text):
                line = int(named[1])
            elif found := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", text):
                code.append((line, *found.groups()))
        while code and code[-1][2] == "NOP":  # the assembler fills functions up to their alignment
            code.pop()
        for line, address, instruction in code:
            made.setdefault(line, []).append(f"{address}  {instruction}")
    return made


def _by_author(ptx: list[str], places: list[tuple[str, int]], machine: dict[int, list[str]]) -> list[Line]:
    """The author's lines in the order in which they first wrote something; a line that neither wrote an instruction nor became one is left out."""
    found: dict[tuple[str, int], Line] = {}
    frame = Line("", 0, "", [])
    if 0 in machine:
        frame.rows.append((0, "", machine[0]))
    for number, text in enumerate(ptx, 1):
        sass = machine.get(number, [])
        if not is_instruction(text) and not sass:
            continue
        file, line = places[number] if number < len(places) else ("", 0)
        row = (number, text if is_instruction(text) else "", sass)
        if not line:
            frame.rows.append(row)
            continue
        source = linecache.getline(file, line).rstrip()
        found.setdefault((file, line), Line(file, line, source, [])).rows.append(row)
    return [*([frame] if frame.rows else []), *found.values()]
