"""`parse` where pyptx 0.1.1 had it."""

from pyptx.errors import ParseError
from pyptx.parser import parse

__all__ = ["ParseError", "parse"]
