"""`pyptx diff`: two texts by meaning: layout, comments and the names of registers and labels do not matter."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

from pyptx import ir

__all__ = ["Row", "of", "of_lines", "side_by_side"]

# A whole number that stands by itself, so not `8` of a name, of 1.8 or of 0f3F800000.
_NUMBER = re.compile(r"(?<![\w$%.])(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)U?(?![\w$%.])")


class Row(NamedTuple):
    """Lines that stand beside each other, "" where one side has none; `same`: they mean the same."""

    left: str
    right: str
    same: bool


class _Names:
    """Names in the order in which they come: what a register or label is called is no matter, which one it is."""

    def __init__(self, own: set[str]):
        self._own, self._seen = own, dict[str, str]()

    def line(self, text: str) -> str:
        from pyptx.ir import _text

        names = {
            word: self._seen.setdefault(word, f"${len(self._seen)}")
            for _, _, word in _text.words(text)
            if word in self._own
        }
        return _NUMBER.sub(_decimal, _text.renamed(text, names))


def _decimal(match: re.Match[str]) -> str:
    digits = match[1]
    return str(int(digits, 8 if digits.isdigit() and digits.startswith("0") else 0))


def _own_names(function: ir.Function) -> set[str]:
    """The names that a function gives to registers and labels."""
    names = {each.name for each in function.labels}
    for each in function.body:
        if isinstance(each, ir.RegDecl):
            names |= set(each.names)
            for name, count in each.counts.items():
                names |= {f"{name}{n}" for n in range(min(count, 1 << 16))}
    return names


def _lines(module: ir.Module) -> Iterator[tuple[str, str]]:
    """Each statement: as it is shown, and as it is compared.  Declarations of registers are names alone."""
    for item in ir.Module(module.format()).items:
        if not isinstance(item, ir.Function):
            yield item.text, item.text
            continue
        names = _Names(_own_names(item))
        for line in item.head.splitlines():
            yield line, line
        for each in item.body:
            if isinstance(each, ir.RegDecl):
                continue
            if isinstance(each, ir.Directive) and each.name == ".loc":
                continue
            text = re.sub(r"//[^\n]*|/\*.*?\*/", "", each.text, flags=re.S)
            yield "\t" * isinstance(each, ir.Instruction) + each.text, names.line(" ".join(text.split()))


def of(left: ir.Module, right: ir.Module) -> list[Row]:
    """The two beside each other.  A pair is the same if it is up to names, each name standing for one of the other side.

    Example:
        a = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .b32 a; mov.b32 a, 0x10; L: bra L; }")
        b = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .b32 %r<2>; mov.b32 %r1, 16; M: bra M; } // b")
        assert all(row.same for row in pyptx.tools.difference.of(a, b))
    """
    return _aligned([*_lines(left)], [*_lines(right)])


def of_lines(left: list[str], right: list[str]) -> list[Row]:
    """The same of lines that are compared as they are, blanks aside: machine code."""
    pairs = ([(each, " ".join(each.split())) for each in side] for side in (left, right))
    return _aligned(*pairs)


def _aligned(left: list[tuple[str, str]], right: list[tuple[str, str]]) -> list[Row]:
    keys = [[key for _, key in side] for side in (left, right)]
    if keys[0] == keys[1]:
        return [Row(a, b, True) for (a, _), (b, _) in zip(left, right, strict=True)]
    # Numbers of names shift behind a line that only one side has: the mnemonics align, the keys say what is the same.
    shapes = [[re.sub(r"\$\d+", "$", key) for key in side] for side in keys]
    rows: list[Row] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *shapes, autojunk=False).get_opcodes():
        if tag == "equal":
            rows += [Row(left[i][0], right[c + i - a][0], True) for i in range(a, b)]
            continue
        for i in range(max(b - a, d - c)):
            one, other = (left[a + i][0] if a + i < b else ""), (right[c + i][0] if c + i < d else "")
            rows.append(Row(one, other, False))
    return _with_names(rows, left, right)


def _with_names(rows: list[Row], left: list[tuple[str, str]], right: list[tuple[str, str]]) -> list[Row]:
    """Lines of one shape are the same where their names match one to one with those of the lines above."""
    keys = dict(left), dict(right)
    forward: dict[str, str] = {}
    back: dict[str, str] = {}
    found = []
    for row in rows:
        same = row.same
        if same:
            names = [re.findall(r"\$\d+", keys[side].get(row[side], "")) for side in (0, 1)]
            for a, b in zip(*names, strict=False):
                same = same and forward.setdefault(a, b) == b and back.setdefault(b, a) == a
        found.append(row._replace(same=same))
    return found


def side_by_side(rows: list[Row], width: int = 160, context: int | None = 3) -> str:
    """Columns with a mark between them: `|` changed, `<` `>` on one side alone.  `context`: how many equal lines stay around."""
    half = max(20, (width - 3) // 2)
    keep = {
        near
        for at, row in enumerate(rows)
        if not row.same
        for near in range(at - (context or 0), at + (context or 0) + 1)
    }
    lines, skipped = [], False
    for at, row in enumerate(rows):
        if context is not None and at not in keep:
            skipped = True
            continue
        if skipped and lines:
            lines.append("...")
        skipped = False
        mark = " " if row.same else "<" if not row.right else ">" if not row.left else "|"
        left, right = (text.expandtabs(4).replace("\n", " ")[:half] for text in row[:2])
        lines.append(f"{left:{half}} {mark} {right}".rstrip())
    return "\n".join(lines)
