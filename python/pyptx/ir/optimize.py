"""A name of pyptx 0.1.1 that is refused."""

from __future__ import annotations

from typing import NoReturn

from pyptx.errors import PtxError

__all__ = ["copy_propagate"]


def copy_propagate(statements: object) -> NoReturn:
    """Refused: a register may be written between the copy and its use, on a branch, which 0.1.1 did not look at."""
    raise PtxError(
        "copy_propagate: pyptx never changes your instructions, and the assembler removes copies; for a pass of your "
        "own, use Kernel.rewritten and Function.flow (docs/ir.md)"
    )
