"""Value types of pyptx 0.1.1 that modules are no longer made of: programs that name them still import.

Comment, BlankLine, FormattingInfo     white space and comments are `Statement.leading` and `Statement.comments`
Block                                  a body is flat, with a `Brace` at either end of a block
IntrinsicScope                         the comments around what an @intrinsic wrote
Param, FunctionDirective               `Function.params` are declarations, `Function.directives` texts
Target, AddressSize                    `Module.target` is a text, `Module.address_size` a number
CompoundExpr                           an expression appends its instructions where it stands
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "AddressSize",
    "BlankLine",
    "Block",
    "Comment",
    "CompoundExpr",
    "FormattingInfo",
    "FunctionDirective",
    "IntrinsicScope",
    "Param",
    "Target",
    "Version",
]


class Version(NamedTuple):
    """Of PTX: what `Module.version` is."""

    major: int
    minor: int


@dataclass(frozen=True)
class Target:
    targets: tuple[str, ...]


@dataclass(frozen=True)
class AddressSize:
    size: int


@dataclass(frozen=True)
class FormattingInfo:
    indent: str = ""
    trailing: str = ""
    blank_lines_before: int = 0
    preceding_comments: tuple[str, ...] = ()
    raw_line: str | None = None


@dataclass(frozen=True)
class Comment:
    text: str


@dataclass(frozen=True)
class CompoundExpr:
    instructions: tuple[object, ...]


@dataclass(frozen=True)
class BlankLine:
    pass


@dataclass(frozen=True)
class Block:
    body: tuple[object, ...]
    formatting: FormattingInfo | None = None


@dataclass(frozen=True)
class IntrinsicScope:
    name: str
    args_repr: str
    body: tuple[object, ...]
    formatting: FormattingInfo | None = None


@dataclass(frozen=True)
class Param:
    state_space: object
    type: object
    name: str
    array_size: int | None = None
    alignment: int | None = None
    ptr_state_space: object = None
    ptr_alignment: int | None = None


@dataclass(frozen=True)
class FunctionDirective:
    name: str
    values: tuple[object, ...]
