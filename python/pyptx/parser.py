"""PTX text to a lossless tree, and the check's verdict on it."""

from __future__ import annotations

from pyptx import _core
from pyptx._core import Diagnostic, Tree

__all__ = ["Tree", "check", "parse"]


def _bytes(source: str | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.encode("utf-8", "surrogateescape")


def parse(source: str | bytes, *, file: str = "") -> Tree:
    """The tree of any text; never fails.  `tree.diagnostics` says where the text is no PTX.

    `pyptx.emitter.emit` gives the text back, byte for byte.

    Example:
        tree = pyptx.parser.parse(".version 8.0\\n.target sm_80\\n")
        assert not tree.diagnostics
    """
    return _core.parse(_bytes(source), file)


def check(source: str | bytes, *, file: str = "", target: str | None = None, lint: bool = False) -> list[Diagnostic]:
    """Everything that is not legal PTX in a text, in its order; judged for `target` if given, else for its .target.

    With `lint` also notes on what is legal and not as the manual writes it.

    Example:
        said = pyptx.parser.check(".version 8.0\\n.target sm_80\\n.global .u33 x;\\n")
        assert said[0].line == 3
    """
    return _core.check_text(_bytes(source), file, target, lint)
