"""`pyptx lint`: finds dead code, unused registers and other doubtful places in legal PTX.

The rules are ptx/lint/rules.def; docs/lint.md has a section for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyptx import _core

__all__ = ["Change", "Finding", "Rule", "chosen", "find", "fix", "rules", "spelled"]


class Rule(NamedTuple):
    """`on`: without being asked for.  `fixes`: some of its findings come with changes that keep the meaning."""

    number: int
    name: str
    severity: str
    on: bool
    fixes: bool
    summary: str

    @property
    def code(self) -> str:
        return f"PTX{self.number}"


class Change(NamedTuple):
    """Bytes [begin, end) of the text, and what should stand there."""

    begin: int
    end: int
    text: str


class Finding(NamedTuple):
    """What a rule found, in the shape of a diagnostic; `changes` together mend it."""

    code: int
    name: str
    severity: str
    line: int
    column: int
    span: tuple[int, int]
    message: str
    section: str
    changes: list[Change]
    file: str
    notes: list[str] = []  # noqa: RUF012  a diagnostic has them

    def __str__(self) -> str:
        section = f"  [PTX ISA {self.section}]" if self.section else ""
        return f"{self.file}:{self.line}:{self.column}: PTX{self.code} {self.message} ({spelled(self.name)}){section}"


def spelled(name: str) -> str:
    """The name of a rule as commands and reports write it: dead-code."""
    return name.replace("_", "-")


def rules() -> list[Rule]:
    """All rules, by number."""
    return [Rule(*row) for row in _core.lint_rules()]


def chosen(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> list[int]:
    """The numbers of the rules to look for: those that are on, with `select` these alone ("all", or codes and names), without `ignore`.

    LookupError for what is neither a code nor a name.
    """
    known = {key: rule.number for rule in rules() for key in (rule.code, str(rule.number), rule.name)}

    def numbers(words: Iterable[str]) -> set[int]:
        found: set[int] = set()
        for word in words:
            if word == "all":
                found |= set(known.values())
            elif (key := word.replace("-", "_")) in known:
                found.add(known[key])
            elif word.upper() in known:
                found.add(known[word.upper()])
            else:
                known_rules = ", ".join(f"{rule.code} {spelled(rule.name)}" for rule in rules())
                raise LookupError(f"lint has no rule {word}; it has {known_rules}")
        return found

    wanted = numbers(select) or {rule.number for rule in rules() if rule.on}
    return sorted(wanted - numbers(ignore))


def find(source: bytes, numbers: list[int], file: str = "") -> list[Finding]:
    """What the rules of these numbers find, in the order of the text."""
    return [
        Finding(code, name, severity, line, column, (begin, end), message, section, [Change(*c) for c in changes], file)
        for code, name, severity, line, column, begin, end, message, section, changes in _core.lint_text(
            source, file, numbers
        )
    ]


def fix(source: bytes, numbers: list[int]) -> bytes:
    """The text with all changes made, again and again until there are none: each takes something away, so it ends."""
    while (fixed := _core.lint_fix(source, numbers)) != source:
        source = fixed
    return source
