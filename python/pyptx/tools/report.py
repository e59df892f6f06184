"""What `pyptx check` prints: lines with the place underlined, JSON, or SARIF 2.1.0."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from importlib import metadata

from pyptx import _core

# A diagnostic and the source line that it is about ("" if it has none).
Found = tuple[_core.Diagnostic, str]


def with_lines(diagnostics: Iterable[_core.Diagnostic], source: bytes) -> Iterator[Found]:
    lines: list[bytes] = []
    for diagnostic in diagnostics:
        lines = lines or source.split(b"\n")
        here = lines[diagnostic.line - 1] if 0 < diagnostic.line <= len(lines) else b""
        yield diagnostic, here.decode("utf-8", "replace").rstrip("\r")


def underlined(diagnostic: _core.Diagnostic, line: str) -> tuple[int, int]:
    """Columns [first, last) from 1 that a diagnostic is about: an operand, the mnemonic, or one place."""
    start = diagnostic.column - 1
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
    for diagnostic, line in found:
        yield str(diagnostic)
        if line.strip():
            first, last = underlined(diagnostic, line)
            margin = "".join("\t" if c == "\t" else " " for c in line[: first - 1])
            yield f"    {line}\n    {margin}{'^' * max(1, last - first)}"


def as_json(found: Iterable[Found]) -> str:
    return json.dumps([_entry(*one) for one in found], indent=1)


def _entry(diagnostic, line: str) -> dict:
    first, last = underlined(diagnostic, line)
    return {
        "file": diagnostic.file,
        "line": diagnostic.line,
        "column": first if diagnostic.column else 0,
        "end_column": last if diagnostic.column else 0,
        "code": f"PTX{diagnostic.code}",
        "name": diagnostic.name,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "notes": diagnostic.notes,
        "section": diagnostic.section,
    }


def sarif(found: Iterable[Found]) -> str:
    found = list(found)
    used = {diagnostic.code for diagnostic, _ in found}
    rules = [
        {"id": f"PTX{code}", "name": name, "shortDescription": {"text": summary}}
        for code, name, _, summary in _core.diagnostic_codes()
        if code in used
    ]
    driver = {"name": "pyptx", "version": metadata.version("pyptx"), "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [_result(*one) for one in found]}
    return json.dumps(
        {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}, indent=1
    )


def _result(diagnostic, line: str) -> dict:
    place: dict = {"artifactLocation": {"uri": diagnostic.file.replace("\\", "/")}}
    if diagnostic.line:
        place["region"] = {"startLine": diagnostic.line}
        if diagnostic.column:
            first, last = underlined(diagnostic, line)
            place["region"] |= {"startColumn": first, "endColumn": last}
    message = "\n".join([diagnostic.message, *diagnostic.notes])
    return {
        "ruleId": f"PTX{diagnostic.code}",
        "level": diagnostic.severity,
        "message": {"text": message},
        "locations": [{"physicalLocation": place}],
    }
