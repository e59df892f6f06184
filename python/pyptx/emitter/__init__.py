"""Modules to PTX text."""

from __future__ import annotations

from pyptx import _core, ir

__all__ = ["emit"]


def emit(module: ir.Module | _core.Module) -> str:
    """The PTX text of a module: what is not touched as it was, byte for byte.

    Example:
        text = ".version 8.0\\n.target sm_80\\n"
        assert pyptx.emitter.emit(pyptx.parser.parse(text)) == text
    """
    return module.emit()
