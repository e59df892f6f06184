"""Pieces of PTX text and the nodes over them: how statements see into their own text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pyptx import _core
from pyptx.ir.operands import (
    AddressOperand,
    ImmediateOperand,
    LabelOperand,
    NegatedOperand,
    Operand,
    ParenthesizedOperand,
    PipeOperand,
    RegisterOperand,
    VectorOperand,
)

KINDS = _core.node_kinds()
_WORD = re.compile(r"[%A-Za-z_$][\w$]*")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def integer(text: str) -> int:
    """The value of an integer literal, or of WARP_SZ; 0 of what is neither."""
    if text == "WARP_SZ":
        return 32
    digits = text.rstrip("uU")
    octal = re.fullmatch(r"0[0-7]+", digits)
    try:
        return int(digits, 8 if octal else 0)
    except ValueError:
        return 0


def parsed(text: str, margin: bool) -> tuple[bytes, _core.Tree]:
    """Statements of a body, in a function around them; with `margin`, of a module.  ValueError where that is no PTX."""
    source = encoded(text) if margin else b".func f(){" + encoded(text) + b"\n}"
    tree = _core.parse(source)
    wrong = [each for each in tree.diagnostics if not (margin and each.name == "misplaced_statement")]
    if wrong:
        raise ValueError(f"`{text}`: {wrong[0].message}")
    return source, tree


class Node(NamedTuple):
    """A node of a tree: its kind, its bytes [begin, end), and the number of the node behind its subtree."""

    kind: str
    begin: int
    end: int
    after: int


class Nodes:
    """The nodes of a text.  Node 0 is all of it."""

    def __init__(self, text: bytes, tree: _core.Tree | None = None):
        self.text = text
        self._table = memoryview((tree or _core.parse(text)).nodes()).cast("I")

    def __reduce__(self):  # for copies and pickle
        return Nodes, (self.text,)

    def __len__(self) -> int:
        return len(self._table) // 4

    def node(self, number: int) -> Node:
        kind, begin, end, after = self._table[4 * number : 4 * number + 4]
        return Node(KINDS[kind], begin, end, after)

    def children(self, number: int) -> Iterator[int]:
        child, after = number + 1, self.node(number).after
        while child < after:
            yield child
            child = self.node(child).after

    def kind(self, number: int) -> str:
        return KINDS[self._table[4 * number]]

    def written(self, number: int) -> str:
        node = self.node(number)
        return decoded(self.text[node.begin : node.end])

    def first(self, kind: str, parent: int = 0) -> int | None:
        """The first child of this kind."""
        return next((child for child in self.children(parent) if self.kind(child) == kind), None)


def operand(nodes: Nodes, number: int) -> Operand:
    """A node as an operand.  What has no class of its own is an ImmediateOperand with its text."""
    kind, text = nodes.kind(number), nodes.written(number)
    if kind == "name":
        return RegisterOperand(text) if text.startswith("%") else LabelOperand(text)
    if kind == "sink":
        return RegisterOperand("_")
    if kind == "vector":
        return VectorOperand(tuple(operand(nodes, child) for child in nodes.children(number)))
    if kind == "list":
        return ParenthesizedOperand(tuple(operand(nodes, child) for child in nodes.children(number)))
    if kind == "pair":
        left, right = list(nodes.children(number))[:2]
        return PipeOperand(operand(nodes, left), operand(nodes, right))
    if kind == "unary" and text.startswith("!"):
        return NegatedOperand(operand(nodes, number + 1))
    if kind == "address" and text.endswith("]"):
        return _address(text[1:-1].strip())
    return ImmediateOperand(text)


def _address(inside: str) -> Operand:
    base = _WORD.match(inside)
    if base is None or inside[base.end() :].lstrip().startswith(("[", ".")):
        return AddressOperand(inside)
    rest = inside[base.end() :].strip()
    return AddressOperand(base[0], (rest.removeprefix("+").strip() if rest else None) or None)


def words(text: str) -> list[tuple[int, int, str]]:
    """Tokens of a text that are words, but for opcodes, with their places in it."""
    raw = encoded(text)
    tree = _core.parse(raw)
    table, nodes, found = memoryview(tree.tokens()).cast("I"), Nodes(raw, tree), []
    opcodes = {nodes.node(each).begin for each in range(len(nodes)) if nodes.kind(each) == "mnemonic"}
    for begin, end in zip(table[::2], table[1::2], strict=True):
        word = decoded(raw[begin:end])
        if _WORD.fullmatch(word) and begin not in opcodes:
            found.append((len(decoded(raw[:begin])), len(decoded(raw[:end])), word))
    return found


def renamed(text: str, new: dict[str, str]) -> str:
    """The text with other words for some of its words; comments and strings stay."""
    if not any(old in text for old in new):
        return text
    pieces, at = [], 0
    for begin, end, word in words(text):
        if word in new:
            pieces += [text[at:begin], new[word]]
            at = end
    return "".join([*pieces, text[at:]])
