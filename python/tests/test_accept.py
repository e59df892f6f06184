"""Every line of tests/fixtures/accept through the authoring calls: what is written is the line, and reads back as the same text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyptx import _core, kernel, ptx, reg, types

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = sorted((ROOT / "tests/fixtures/accept").glob("*.ptx"))
OPEN, CLOSE = "([{", ")]}"
VARIABLE = re.compile(r"\.(global|const|shared|local)(?: \.align (\d+))? \.(\w+) (\w+)(?:\[(\d+)\])?;")
PARAMETER = re.compile(r"\.param(?: \.align (\d+))? \.(\w+) (\w+)(?:\[(\d+)\])?")


def split(text: str, at: str = ",") -> list[str]:
    """At the separators that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in OPEN) - (letter in CLOSE)
        if letter == at and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


class Author:
    """Writes a fixture's body by calls, statement by statement."""

    def __init__(self):
        self.registers = {}

    def operand(self, text: str):
        if len(halves := split(text, "|")) > 1:
            left, right = map(self.operand, halves)
            return left | right
        if text.endswith(".unified"):
            return self.operand(text.removesuffix(".unified")).unified
        if text[0] == "[":
            return self.address(split(text[1:-1]))
        if text[0] in "{(":
            parts = [self.operand(part) for part in split(text[1:-1])]
            return parts if text[0] == "{" else tuple(parts)
        if text[0] == "!":
            return ~self.operand(text[1:])
        if text[0] == "-" and text[1] == "%":
            return ptx.minus(self.registers[text[1:]]) if "." not in text else -self.operand(text[1:])
        name, _, part = text.partition(".")
        if name in self.registers:
            return getattr(self.registers[name], part) if part else self.registers[name]
        return text

    def address(self, parts: list[str]):
        base, _, offset = parts[0].partition("+")
        if len(parts) == 1:
            return ptx.addr(self.operand(base), int(offset or 0))
        return ptx.bracket(*(self.operand(part) for part in parts))

    def statement(self, line: str):
        if found := re.fullmatch(r"\.reg \.(\w+) (%\w+)<(\d+)>;", line):
            kind, name, count = found.groups()
            made = reg.array(types.from_name(kind), int(count), name=name)
            self.registers.update({f"{name}{i}": made[i] for i in range(int(count))})
        elif found := VARIABLE.fullmatch(line):
            space, align, kind, name, size = found.groups()
            ptx.var(space, types.from_name(kind), name, size=size and int(size), align=align and int(align))
        else:
            guard, mnemonic, operands = re.fullmatch(r"(?:@(!?%\w+) )?([\w.:]+)\s*(.*);", line).groups()
            pred = self.operand(guard) if guard else None
            _core.emit(mnemonic, *(self.operand(each) for each in split(operands)), pred=pred)


def variable(line: str):
    found = VARIABLE.fullmatch(line)
    if found is None or _core.is_opaque(found[3]):
        return ptx.module_text(line)
    space, align, kind, name, size = found.groups()
    make = {"global": ptx.global_, "const": ptx.const, "shared": ptx.shared}[space]
    return make(types.from_name(kind), size and int(size), name=name, align=align and int(align)).name


def raw(parameter: str) -> tuple[str, str]:
    align, kind, name, size = PARAMETER.fullmatch(parameter).groups()
    return kind + (f".align{align}" if align else "") + (f".array{size}" if size else ""), name


def instructions(text: str) -> list[str]:
    lines = [line.strip() for line in text[text.index("\n{") :].splitlines()]
    return [line for line in lines if line and line[0] not in "{}."]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixture(path):
    lines = [line.split("//")[0].strip() for line in path.read_text().splitlines()]
    lines = [line for line in lines if line]
    start = next(i for i, line in enumerate(lines) if ".entry" in line)
    version, target = lines[0].split()[1], lines[1].split(maxsplit=1)[1]
    name, parameters = re.fullmatch(r"\.visible \.entry (\w+)\((.*)\)", lines[start]).groups()
    outside, body = lines[3:start], lines[start + 2 : -1]

    def written():
        for line in outside:
            variable(line)
        author = Author()
        for line in body:
            author.statement(line)

    written.__name__ = name
    raw_params = [raw(each) for each in split(parameters)]
    made = kernel(arch=target, version=tuple(map(int, version.split("."))), raw_params=raw_params)(written).ptx()
    assert instructions(made) == instructions(_core.parse(path.read_bytes()).emit())
    assert _core.parse(made.encode()).emit() == made
