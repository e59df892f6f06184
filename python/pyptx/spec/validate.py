"""Instructions of `pyptx.ir` against the forms: the check's verdict, in the words of pyptx 0.1.1.

A kernel's body needs no call of these: what it writes is checked at its line, and the error is a `PtxValidationError`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyptx import _core
from pyptx.errors import PtxValidationError
from pyptx.ir import Instruction
from pyptx.spec.ptx import InstructionSpec, get_specs, overloads

__all__ = [
    "PtxValidationError",
    "UnvalidatedInstructionWarning",
    "ValidationError",
    "ValidationIssue",
    "is_strict",
    "set_strict",
    "strict",
    "validate_instruction",
    "validate_or_raise",
]


class UnvalidatedInstructionWarning(UserWarning):
    """Of 0.1.1, for opcodes that it did not know; nothing raises it."""


@dataclass(frozen=True)
class ValidationIssue:
    """What is wrong with an instruction; `severity` is "error" or "warning"."""

    instruction: Instruction
    message: str
    severity: str = "error"

    def __str__(self) -> str:
        return f"[{self.severity}] {self.instruction.mnemonic}: {self.message}"


ValidationError = ValidationIssue
_state = threading.local()


def is_strict() -> bool:
    """What `set_strict` set last in this thread; True before that.

    Example:
        from pyptx.spec import is_strict

        assert is_strict()
    """
    return getattr(_state, "strict", True)


def set_strict(b: bool) -> None:
    """Keeps the setting of 0.1.1.  With either, illegal instructions are refused where a body writes them.

    Example:
        from pyptx.spec import set_strict

        set_strict(True)
    """
    _state.strict = bool(b)


@contextmanager
def strict(enabled: bool) -> Iterator[None]:
    """`set_strict` for a block.

    Example:
        from pyptx.spec import is_strict, strict

        with strict(False):
            assert not is_strict()
    """
    before = is_strict()
    set_strict(enabled)
    try:
        yield
    finally:
        set_strict(before)


def _against(instruction: Instruction, spec: InstructionSpec) -> list[str]:
    """Why this form does not fit: each group takes the first modifier that it has, in any order."""
    left, said = list(instruction.modifiers), []
    for group in spec.modifier_groups:
        found = next((each for each in left if each in group.options), None)
        if found is not None:
            left.remove(found)
        elif group.required:
            said.append(f"Missing required modifier `{group.name}`: one of {' '.join(group.options)}")
    said += [f"Unexpected modifier `{each}`" for each in left]
    count = len(instruction.operands)
    if count < spec.min_operands:
        said.append(f"Too few operands: {count}, at least {spec.min_operands}")
    elif count > spec.max_operands:
        said.append(f"Too many operands: {count}, at most {spec.max_operands}")
    return said


def validate_instruction(
    inst: Instruction, spec_table: Mapping[str, InstructionSpec] | None = None
) -> list[ValidationIssue]:
    """What is wrong with the modifiers of an instruction and with the number of its operands; [] where nothing is.

    A form of `spec_table` or of `register_overload` that takes them decides.  An opcode that nobody has is a warning.

    Example:
        from pyptx.ir import Instruction
        from pyptx.spec import validate_instruction

        assert "Missing required modifier" in str(validate_instruction(Instruction("setmaxnreg", (".sync",)))[0])
    """
    own = [spec_table[inst.opcode]] if spec_table and inst.opcode in spec_table else list(overloads(inst.opcode))
    if any(not _against(inst, spec) for spec in own):
        return []
    specs = own if spec_table is not None else get_specs(inst.opcode)
    if not specs:
        return [ValidationIssue(inst, f"Unknown opcode `{inst.opcode}`", "warning")]
    fewest = min((_against(inst, spec) for spec in specs), key=len)
    if not fewest and spec_table is None and not _core.forms_of(inst.mnemonic):
        fewest = [str(_core.explain(inst.mnemonic))]
    return [ValidationIssue(inst, message) for message in fewest]


def validate_or_raise(inst: Instruction) -> None:
    """Raises a `PtxValidationError` with the errors of `validate_instruction`, if it finds any.

    Example:
        from pyptx.ir import Instruction, RegisterOperand
        from pyptx.spec import validate_or_raise

        r = RegisterOperand("%r0")
        validate_or_raise(Instruction("add", (".u32",), (r, r, r)))
    """
    if issues := [each for each in validate_instruction(inst) if each.severity == "error"]:
        raise PtxValidationError(issues)
