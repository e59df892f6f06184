"""`parse` where pyptx 0.1.1 had it."""

from pyptx.errors import PtxError
from pyptx.parser import parse

__all__ = ["ParseError", "parse"]


class ParseError(PtxError):
    """Of 0.1.1; nothing raises it: `parse` reads any text, and `Module.diagnostics` says where that is no PTX."""
