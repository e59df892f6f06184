"""Operands and other small values of a statement.  They never change: an edit puts another one in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "AddressOperand",
    "ImmediateOperand",
    "LabelOperand",
    "NegatedOperand",
    "Operand",
    "ParenthesizedOperand",
    "PipeOperand",
    "Predicate",
    "RegisterOperand",
    "VectorOperand",
]


@dataclass(frozen=True)
class RegisterOperand:
    """A register, also a special one or a part of one: %r1, %tid.x, v.x; `_` for a result that nobody wants."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ImmediateOperand:
    """A number or a constant expression, as it is written."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class LabelOperand:
    """The name of a label, variable, parameter or function."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class VectorOperand:
    """{a, b}"""

    elements: tuple[Operand, ...]

    def __str__(self) -> str:
        return "{" + _listed(self.elements) + "}"


@dataclass(frozen=True)
class AddressOperand:
    """[base], [base+offset], [base, {coordinates}]: `offset` is what follows the base, without a leading plus."""

    base: str
    offset: str | None = None

    def __str__(self) -> str:
        if not self.offset:
            return f"[{self.base}]"
        return f"[{self.base}{'' if self.offset.startswith(',') else '+'}{self.offset}]"


@dataclass(frozen=True)
class ParenthesizedOperand:
    """(a, b): arguments or results of a call."""

    elements: tuple[Operand, ...]

    def __str__(self) -> str:
        return "(" + _listed(self.elements) + ")"


@dataclass(frozen=True)
class NegatedOperand:
    """!p"""

    operand: Operand

    def __str__(self) -> str:
        return f"!{self.operand}"


@dataclass(frozen=True)
class PipeOperand:
    """p|q: two results."""

    left: Operand
    right: Operand

    def __str__(self) -> str:
        return f"{self.left}|{self.right}"


Operand: TypeAlias = (
    RegisterOperand
    | ImmediateOperand
    | LabelOperand
    | VectorOperand
    | AddressOperand
    | ParenthesizedOperand
    | NegatedOperand
    | PipeOperand
)


@dataclass(frozen=True)
class Predicate:
    """The guard of an instruction: @p, or @!p."""

    register: str
    negated: bool = False

    def __str__(self) -> str:
        return f"@{'!' if self.negated else ''}{self.register}"


def _listed(operands: Sequence[Operand]) -> str:
    return ", ".join(map(str, operands))
