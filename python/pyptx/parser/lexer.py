"""Tokens of a text, as pyptx 0.1.1 gave them: `%tid.x` is one, and ends of lines and comments are some, too.

The library's own tokens are `pyptx._core.parse(text).tokens()`; this is a list of objects over them, for programs that have one.
"""

from __future__ import annotations

import re

from pyptx import _core
from pyptx.errors import PtxError
from pyptx.ir._text import decoded, encoded
from pyptx.parser.tokens import Token, TokenKind

__all__ = ["LexError", "tokenize"]

_MARKS = dict(zip("{}()[],;:@!+-|<>=*/~&", list(TokenKind)[6:27], strict=True))
_TRIVIA = re.compile(r"[^\S\n]+|\n|//[^\n]*|/\*.*?\*/", re.S)
_NUMBER = re.compile(r"0[fFdD][0-9a-fA-F]+|[0-9.]+(?:[eE][+-]?[0-9]+)?")


class LexError(PtxError):
    """Text that begins no token."""

    def __init__(self, message: str, line: int, col: int):
        super().__init__(f"{line}:{col}: {message}")
        self.line, self.col = line, col


def _kind(text: str) -> TokenKind | None:
    first = text[0]
    if first in _MARKS:
        return _MARKS[first] if len(text) == 1 else None
    if first == '"':
        return TokenKind.STRING if len(text) > 1 and text.endswith('"') else None
    if first.isdigit() or (first == "." and text[1:2].isdigit() and _NUMBER.fullmatch(text)):
        is_real = _NUMBER.fullmatch(text) and not text.isdigit()
        return TokenKind.FLOAT if is_real else TokenKind.INTEGER
    if first == ".":
        return TokenKind.DIRECTIVE if len(text) > 1 else None
    if first == "%":
        return TokenKind.REGISTER if len(text) > 1 else None
    return TokenKind.IDENTIFIER if first.isalpha() or first in "_$" else None


def tokenize(source: str) -> list[Token]:
    """The tokens of a text, the last one of the kind EOF.

    Example:
        first, *_ = pyptx.parser.lexer.tokenize("add.u32 %r1, %tid.x, 1;")
        assert (first.kind.name, first.text) == ("IDENTIFIER", "add")
    """
    raw = encoded(source)
    spans = memoryview(_core.parse(raw).tokens()).cast("I").tolist()
    found: list[Token] = []
    place, white, behind = [1, 1], "", 0

    def step(text: str):
        lines = text.count("\n")
        place[:] = (place[0] + lines, len(text) - text.rfind("\n")) if lines else (place[0], place[1] + len(text))

    def add(kind: TokenKind, text: str):
        nonlocal white
        found.append(Token(kind, text, *place, white))
        white = ""
        step(text)

    for begin, end in zip(spans[::2], spans[1::2], strict=True):
        for piece in _TRIVIA.findall(decoded(raw[behind:begin])):
            if piece == "\n":
                add(TokenKind.NEWLINE, piece)
            elif piece[0] == "/":
                add(TokenKind.COMMENT, piece)
            else:
                white += piece
                step(piece)
        text = decoded(raw[begin:end])
        joined = begin == behind and found and re.fullmatch(r"\.[xyzw]", text) and found[-1].kind is TokenKind.REGISTER
        if joined:
            found[-1] = found[-1]._replace(text=found[-1].text + text)
            step(text)
        elif text:
            if (kind := _kind(text)) is None:
                raise LexError(f"`{text}` is no token of 0.1.1", *place)
            add(kind, text)
        behind = end
    add(TokenKind.EOF, "")
    return found
