"""Every instruction of tests/fixtures/accept, which has every form, can be written with `ptx.inst` and prints as it stands there."""

from __future__ import annotations

import keyword
import pathlib
import re

import pytest

from pyptx import kernel, ptx, reg
from pyptx.types import from_name

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "accept"
OPAQUE = re.compile(
    r"^\.global \.(?:texref|surfref|samplerref) (\w+);|\.param \.(?:texref|surfref|samplerref) (\w+)", re.M
)

PARAMETER = re.compile(r"\.param \.align (\d+) \.b8 (\w+)\[(\d+)\]")


def split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "{[(") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


class Author:
    """Turns PTX text into calls of the Python face."""

    def __init__(self, text: str):
        self.registers = {}
        for type_, names in re.findall(r"^\t\.reg \.(\w+) (.*);", text, re.M):
            for name in names.split(","):
                base, count = re.fullmatch(r"\s*([%\w]+)(?:<(\d+)>)?", name).groups()
                made = (
                    reg.array(from_name(type_), int(count), base) if count else reg.scalar(from_name(type_), name=base)
                )
                self.registers |= {f"{base}{i}": made[i] for i in range(int(count))} if count else {base: made}
        for space, align, name in re.findall(r"^\s*\.(\w+) \.align (\d+) \.b8 (\w+)\[256\];", text, re.M):
            ptx.var(space, from_name("b8"), name, size=256, align=int(align))

    def operand(self, text: str):
        if text[0] == "{" and text.endswith("}"):
            return [self.operand(part) for part in split(text[1:-1])]
        if text[0] == "(" and text.endswith(")"):
            return tuple(self.operand(part) for part in split(text[1:-1]))
        if "|" in text:
            left, right = (self.operand(part.strip()) for part in text.split("|"))
            return left | right
        if text[0] == "[":
            return self.address(text)
        if text[0] == "!":
            return ~self.operand(text[1:])
        if text[0] == "-" and text[1] == "%":
            whole = self.operand(text[1:])
            return -whole if "." in text else ptx.minus(whole)
        register, _, part = text.partition(".")
        if register in self.registers:
            return getattr(self.registers[register], part) if part else self.registers[register]
        return text

    def address(self, text: str):
        inside, unified = text.removesuffix(".unified")[1:-1], text.endswith(".unified")
        base, *parts = split(inside)
        base, sign, offset = re.fullmatch(r"([%\w$]+)\s*([+-]?)\s*(.*)", base).groups()
        made = ptx.addr(self.operand(base), int(sign + offset, 0) if offset else None)
        if parts:
            return ptx.bracket(made, *(self.operand(part) for part in parts))
        return made.unified if unified else made

    def instruction(self, text: str):
        guard, mnemonic, operands = re.fullmatch(r"(?:@(!?%\w+) )?([\w.:]+)(?:\s+(.*))?", text, re.DOTALL).groups()
        call = ptx.inst
        for word in mnemonic.split("."):
            word = word.replace("::", "__")
            call = getattr(call, f"_{word}" if word[0].isdigit() else f"{word}_" if keyword.iskeyword(word) else word)
        pred = {"pred": self.operand(guard)} if guard else {}
        call(*(self.operand(operand) for operand in split(operands or "")), **pred)


def instructions(text: str) -> list[str]:
    body = re.sub(r"//.*", "", text[text.index("\n{\n") + 3 :])
    found = [re.sub(r"\s+", " ", statement).strip() for statement in body.split(";")]
    return [s for s in found if s and s[0] not in ".}"]


def spelled(statement: str):
    """Apart from blanks, hexadecimal numbers and the order of the modifiers, which is the manual's in what is printed."""
    guard, mnemonic, operands = re.fullmatch(r"(@\S+ )?(\S+)(.*)", statement).groups()
    operands = re.sub(r"\b0x[0-9a-fA-F]+\b", lambda number: str(int(number[0], 16)), operands)
    return guard, sorted(mnemonic.split(".")), operands.replace(" ", "")


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.ptx")), ids=lambda path: path.stem)
def test_every_form_can_be_written(path):
    text = path.read_text()
    for pair in OPAQUE.findall(text):  # a 64-bit register may stand for them
        text = re.sub(rf"\b{pair[0] or pair[1]}\b", "%opaque", text)
    text = text.replace("\n{\n", "\n{\n\t.reg .b64 %opaque;\n", 1)
    wanted, failed = instructions(text), []

    def body():
        author = Author(text)
        for statement in wanted:
            try:
                author.instruction(statement)
            except Exception as error:
                failed.append(f"{statement}: {type(error).__name__}: {error}")

    version = tuple(map(int, re.search(r"\.version (\d+)\.(\d+)", text).groups()))
    target = re.search(r"\.target (\w+)", text)[1]
    parameters = [(f"b8.align{align}.array{size}", name) for align, name, size in PARAMETER.findall(text)]
    made = kernel(arch=target, version=version, raw_params=parameters)(body).ptx()
    assert failed == []
    assert [spelled(s) for s in instructions(made)] == [spelled(s) for s in wanted]
