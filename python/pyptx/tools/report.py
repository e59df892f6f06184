"""What `pyptx check` prints: lines with the place underlined, JSON, or SARIF 2.1.0."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import NamedTuple

from pyptx import _core
from pyptx.tools import files

_WIDEST = 160  # characters of a source line that are shown: a file may be one line


class Found(NamedTuple):
    """A diagnostic, the source line that it is about ("" if it has none), where in it, and the file as it was named."""

    diagnostic: _core.Diagnostic
    line: str
    first: int  # columns [first, last) from 1, in characters
    last: int
    file: str


def with_lines(diagnostics: Iterable[_core.Diagnostic], source: bytes, file: str) -> Iterator[Found]:
    lines: list[bytes] = []
    for diagnostic in diagnostics:
        lines = lines or source.split(b"\n")
        here = lines[diagnostic.line - 1] if 0 < diagnostic.line <= len(lines) else b""
        line = here.decode("utf-8", "replace").rstrip("\r")
        before = here[: max(0, diagnostic.column - 1)].decode("utf-8", "replace")  # the library's columns are bytes
        yield Found(diagnostic, line, *_underlined(diagnostic, line, len(before)), file)


def _underlined(diagnostic: _core.Diagnostic, line: str, start: int) -> tuple[int, int]:
    """An operand, the mnemonic, or one place."""
    if diagnostic.column == 0 or start >= len(line):
        return (1, 1)
    head = re.match(r"(@!?\S+\s+)?([A-Za-z_$%.][^\s;,]*)", line[start:])
    if not head:
        return (start + 1, start + 2)
    first, last = start + head.start(2), start + head.end(2)
    if diagnostic.operand >= 0:
        operands = list(_operands(line, last))
        if diagnostic.operand < len(operands):
            first, last = operands[diagnostic.operand]
    return (first + 1, last + 1)


def _operands(line: str, at: int) -> Iterator[tuple[int, int]]:
    """Where the operands behind a mnemonic stand: split at the commas outside brackets."""
    depth, begin = 0, at
    for i in range(at, len(line) + 1):
        character = line[i] if i < len(line) else ";"
        depth += (character in "[{(") - (character in "]})")
        if character == ";" or (character == "," and depth == 0):
            text = line[begin:i]
            if text.strip():
                yield begin + len(text) - len(text.lstrip()), begin + len(text.rstrip())
            begin = i + 1
        if character == ";":
            return


def text(found: Iterable[Found]) -> Iterator[str]:
    for one in found:
        yield str(one.diagnostic)
        if one.line.strip():
            skipped = max(0, one.first - _WIDEST // 2) if len(one.line) > _WIDEST else 0
            line = one.line[skipped : skipped + _WIDEST]
            shown = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line)  # a terminal obeys the rest
            margin = "".join("\t" if c == "\t" else " " for c in line[: one.first - 1 - skipped])
            marks = max(1, min(one.last - one.first, len(line) - len(margin)))
            yield f"    {shown}\n    {margin}{'^' * marks}"


def as_json(found: Iterable[Found]) -> str:
    return json.dumps([_entry(one) for one in found], indent=1)


def _entry(one: Found) -> dict:
    diagnostic = one.diagnostic
    return {
        "file": files.shown(one.file),
        "line": diagnostic.line,
        "column": one.first if diagnostic.column else 0,
        "end_column": one.last if diagnostic.column else 0,
        "code": f"PTX{diagnostic.code}",
        "name": diagnostic.name,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "notes": diagnostic.notes,
        "section": diagnostic.section,
    }


def sarif(found: Iterable[Found], unusable: Iterable[str] = ()) -> str:
    """`unusable`: what was said of files that could not be read."""
    found = list(found)
    used = {one.diagnostic.code for one in found}
    rules = [
        {"id": f"PTX{code}", "name": name, "shortDescription": {"text": summary}}
        for code, name, _, summary in _core.diagnostic_codes()
        if code in used
    ]
    driver = {"name": "pyptx", "version": metadata.version("pyptx"), "rules": rules}
    said = [{"level": "error", "message": {"text": text}} for text in unusable]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not said, "toolExecutionNotifications": said}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one) for one in found],
    }
    return json.dumps(
        {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}, indent=1
    )


def _result(one: Found) -> dict:
    diagnostic = one.diagnostic
    place: dict = {"artifactLocation": {"uri": files.uri(one.file)}}
    if diagnostic.line:
        place["region"] = {"startLine": diagnostic.line}
        if diagnostic.column:
            place["region"] |= {"startColumn": one.first, "endColumn": one.last}
    message = "\n".join([diagnostic.message, *diagnostic.notes])
    return {
        "ruleId": f"PTX{diagnostic.code}",
        "level": diagnostic.severity,
        "message": {"text": message},
        "locations": [{"physicalLocation": place}],
    }
