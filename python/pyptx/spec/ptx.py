"""Each form of an instruction as an `InstructionSpec`."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from pyptx import _core

__all__ = ["INSTRUCTIONS", "InstructionSpec", "ModifierGroup", "get_specs", "register_overload"]


@dataclass(frozen=True)
class ModifierGroup:
    """Modifiers one of which may stand in an instruction, or has to: with their dots."""

    name: str
    options: tuple[str, ...]
    required: bool = False


@dataclass(frozen=True)
class InstructionSpec:
    """One form: `operand_pattern` is its operands in the notation of `pyptx isa`."""

    opcode: str
    modifier_groups: tuple[ModifierGroup, ...] = ()
    operand_pattern: str = ""
    min_operands: int = 0
    max_operands: int = 0
    description: str = ""
    since_version: tuple[int, int] = (1, 0)
    arch: str | None = None


_overloads: defaultdict[str, list[InstructionSpec]] = defaultdict(list)


def _groups(mnemonic: str, sets: dict[str, tuple[str, ...]]) -> tuple[ModifierGroup, ...]:
    """Of `.type`, a set by its name, or a modifier itself; optional within braces."""
    found, depth = [], 0
    for mark, name in re.findall(r"([{}<>])|\.([\w:]+)", mnemonic):
        depth += {"{": 1, "<": 1, "}": -1, ">": -1}.get(mark, 0)
        if name:
            found.append(ModifierGroup(name, sets.get(name, ("." + name,)), required=not depth))
    return tuple(found)


def _commas(operands: str) -> tuple[int, int]:
    """How many operands there are at least and at most: those within braces may be missing."""
    least = most = 1 if operands else 0
    depth = 0
    for at, mark in enumerate(operands):
        if mark in "[(":
            depth += 100
        elif mark in "])":
            depth -= 100
        elif mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
        elif mark == "," and depth < 100 and at:
            most += 1
            least += depth == 0
    return least, most


def _spec(form: _core.Form) -> InstructionSpec:
    mnemonic, _, operands = form.syntax.partition(" ")
    sets = {name: tuple("." + each for each, _ in options) for name, options in form.sets}
    version = re.search(r"PTX (\d+)\.(\d+)", form.since)
    since = (int(version[1]), int(version[2])) if version else (1, 0)
    arch = re.search(r"sm_\w+", form.since)
    operands = operands.strip()
    return InstructionSpec(
        form.opcode, _groups(mnemonic, sets), operands, *_commas(operands), form.title, since, arch[0] if arch else None
    )


@cache
def _specs() -> dict[str, tuple[InstructionSpec, ...]]:
    found: defaultdict[str, list[InstructionSpec]] = defaultdict(list)
    for form in _core.forms():
        found[form.opcode].append(_spec(form))
    return {opcode: tuple(specs) for opcode, specs in found.items()}


# The first form of each opcode; `get_specs` has all.
INSTRUCTIONS: dict[str, InstructionSpec] = {opcode: specs[0] for opcode, specs in _specs().items()}


def get_specs(op: str) -> list[InstructionSpec]:
    """All forms of an opcode, and what `register_overload` added; an empty list where there is no such opcode.

    Example:
        from pyptx.spec import get_specs

        assert any(group.name == "rnd" for spec in get_specs("add") for group in spec.modifier_groups)
    """
    return [*_specs().get(op, ()), *_overloads[op]]


def overloads(op: str) -> list[InstructionSpec]:
    """What `register_overload` added to an opcode."""
    return _overloads[op]


def register_overload(spec: InstructionSpec) -> None:
    """Makes `validate_instruction` take one more form.  A kernel's body is checked by the rows alone.

    Example:
        from pyptx.spec import InstructionSpec, get_specs, register_overload

        register_overload(InstructionSpec("frobnicate", min_operands=1, max_operands=1))
        assert get_specs("frobnicate")
    """
    _overloads[spec.opcode].append(spec)
