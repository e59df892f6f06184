"""Trees and traced modules to PTX text."""

from __future__ import annotations

from pyptx._core import Module, Tree

__all__ = ["emit"]


def emit(module: Tree | Module) -> str:
    """The PTX text of a parsed tree (every byte as it was) or of a traced module.

    Example:
        text = ".version 8.0\\n.target sm_80\\n"
        assert pyptx.emitter.emit(pyptx.parser.parse(text)) == text
    """
    if isinstance(module, Tree):
        return bytes(module).decode("utf-8", "surrogateescape")
    return module.emit()
