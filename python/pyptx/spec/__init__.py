"""Which modifiers and operands an instruction has, as pyptx 0.1.1 described it: written from the rows of the ISA.

Nothing in the library uses it.  The check, which every instruction goes through, knows more: `pyptx isa add`, `pyptx.parser.check`.
"""

from pyptx.spec.ptx import INSTRUCTIONS, InstructionSpec, ModifierGroup, get_specs, register_overload
from pyptx.spec.validate import (
    PtxValidationError,
    UnvalidatedInstructionWarning,
    ValidationError,
    ValidationIssue,
    is_strict,
    set_strict,
    strict,
    validate_instruction,
    validate_or_raise,
)

__all__ = [
    "INSTRUCTIONS",
    "InstructionSpec",
    "ModifierGroup",
    "PtxValidationError",
    "UnvalidatedInstructionWarning",
    "ValidationError",
    "ValidationIssue",
    "get_specs",
    "is_strict",
    "register_overload",
    "set_strict",
    "strict",
    "validate_instruction",
    "validate_or_raise",
]
