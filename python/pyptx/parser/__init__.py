"""PTX text to objects that print it back, and the check's verdict on it."""

from __future__ import annotations

from pyptx import _core
from pyptx._core import Diagnostic
from pyptx.errors import ParseError  # noqa: F401  (where programs of 0.1.1 look for it)
from pyptx.ir import Module
from pyptx.parser.lexer import LexError  # noqa: F401

__all__ = ["Module", "check", "parse"]


def _bytes(source: str | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.encode("utf-8", "surrogateescape")


def parse(source: str | bytes, *, file: str = "") -> Module:
    """The module of any text; never fails.  `module.diagnostics` says where the text is no PTX.

    `str(module)` and `pyptx.emitter.emit` give the text back, byte for byte.  It is `pyptx.parse`, too.

    Example:
        module = pyptx.parser.parse(".version 8.0\\n.target sm_80\\n.global .b32 x;\\n")
        assert not module.diagnostics and module.directives[0].name == "x"
    """
    return Module(source, file)


def check(source: str | bytes, *, file: str = "", target: str | None = None, lint: bool = False) -> list[Diagnostic]:
    """Everything that is not legal PTX in a text, in its order; judged for `target` if given, else for its .target.

    With `lint` also notes on what is legal and not as the manual writes it.

    Example:
        said = pyptx.parser.check(".version 8.0\\n.target sm_80\\n.global .u33 x;\\n")
        assert said[0].line == 3
    """
    return _core.check_text(_bytes(source), file, target, lint)
