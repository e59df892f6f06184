"""What `pyptx check` prints: lines with the place underlined, JSON, or SARIF 2.1.0."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from itertools import accumulate
from typing import NamedTuple

from pyptx import _core
from pyptx.tools import files
from pyptx.tools.lint import Finding

_NO_TAB = re.compile(r"[^\t]")
_WIDEST = 160  # characters of a source line that are shown: a file may be one line


# What the library says of one place of a text: the two have the same fields.
Said = _core.Diagnostic | Finding


class Found(NamedTuple):
    """A diagnostic, the source line that it is about ("" if it has none), where in it, and the file as it was named."""

    diagnostic: Said
    line: str
    first: int  # columns [first, last) from 1, in characters
    last: int
    file: str


def with_lines(diagnostics: Iterable[Said], source: bytes, file: str) -> Iterator[Found]:
    lines: list[bytes] = []
    begins: list[int] = []
    known = (-1, 0, 0)  # a line, bytes of it and the characters that they are: it may be long, and much is said of it
    line = ""
    for diagnostic in diagnostics:
        if not lines:
            lines = source.split(b"\n")
            begins = [0, *accumulate(len(line) + 1 for line in lines)]
        number = diagnostic.line - 1
        here = lines[number] if 0 <= number < len(lines) else b""
        if number != known[0]:
            known, line = (number, 0, 0), here.decode("utf-8", "replace").rstrip("\r")
        begin, end = (each - begins[number] if line else 0 for each in diagnostic.span)
        if not 0 <= begin < end:  # said of a place, or of none
            begin, end = diagnostic.column - 1, diagnostic.column
        if diagnostic.column == 0 or begin >= len(here):
            yield Found(diagnostic, line, 1, 1, file)
            continue
        at, passed = known[1:] if known[1] <= begin else (0, 0)
        first = passed + len(here[at:begin].decode("utf-8", "replace"))  # the library's columns are bytes
        last = first + len(here[begin:end].decode("utf-8", "replace").rstrip())
        known = (number, begin, first)
        yield Found(diagnostic, line, first + 1, max(first, last) + 1, file)


def text(found: Iterable[Found]) -> Iterator[str]:
    for one in found:
        yield str(one.diagnostic)
        if one.line and not one.line.isspace():  # a line may be long: no copy of it, and 160 characters at a time
            skipped = max(0, one.first - _WIDEST // 2) if len(one.line) > _WIDEST else 0
            line = one.line[skipped : skipped + _WIDEST]
            shown = _printable(line)
            margin = _NO_TAB.sub(" ", line[: one.first - 1 - skipped])
            marks = max(1, min(one.last - one.first, len(line) - len(margin)))
            yield f"    {shown}\n    {margin}{'^' * marks}"


def _printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line)  # a terminal obeys the rest


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
        for code, name, _, summary in [
            *_core.diagnostic_codes(),
            *((*each[:3], each[5]) for each in _core.lint_rules()),
        ]
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
