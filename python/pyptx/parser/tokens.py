"""The kinds of tokens that pyptx 0.1.1 told apart; `pyptx.parser.lexer` writes them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Token", "TokenKind"]

TokenKind = Enum(
    "TokenKind",
    "INTEGER FLOAT STRING IDENTIFIER REGISTER DIRECTIVE LBRACE RBRACE LPAREN RPAREN LBRACKET RBRACKET COMMA SEMICOLON COLON AT "
    "BANG PLUS MINUS PIPE LESS GREATER EQUALS STAR SLASH TILDE AMPERSAND NEWLINE COMMENT EOF",
)


class Token(NamedTuple):
    kind: TokenKind
    text: str
    line: int
    col: int
    leading_whitespace: str = ""
