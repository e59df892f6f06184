"""Which declaration a name of a function means, by its blocks, and the registers that an analysis names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pyptx.ir import _text
from pyptx.ir.statements import Declaration, Label, RegDecl, Statement

if TYPE_CHECKING:
    from pyptx.ir.nodes import Function

__all__ = ["Register"]

_DIGITS = "0123456789"


class Register(str):
    """A register: its name, and the statement that declares it, which of a parameter is the function.

    It is a str.  Two are equal if the same statement declares them: a block may declare the name of an outer one again.

    Example:
        m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .b32 a; mov.b32 a, 1; { .reg .b32 a; mov.b32 a, 2; } ret; }")
        outer, inner = (i.writes[0] for i in m.find("mov"))
        assert outer == inner.upper().lower() == "a" and outer != inner and inner.declaration is m["k"].body[3]
    """

    __slots__ = ("declaration",)
    declaration: Statement | None

    def __new__(cls, name: str, declaration: Statement | None) -> Register:
        made = super().__new__(cls, name)
        made.declaration = declaration
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Register) and other.declaration is not self.declaration:
            return False
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self):
        return str, (str(self),)


class Binding(NamedTuple):
    """A declared name: the statement that declares it, and how many registers, `name0` and up, where it is a range."""

    owner: Statement
    name: str
    count: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binding) and self.owner is other.owner and self.name == other.name

    def __hash__(self) -> int:
        return hash((id(self.owner), self.name))


class _Block(NamedTuple):
    names: dict[str, Binding]
    ranges: dict[str, Binding]

    def declare(self, made: Binding) -> None:
        (self.names if made.count is None else self.ranges).setdefault(made.name, made)

    def find(self, word: str, base: str, number: str) -> Binding | None:
        if word in self.names:
            return self.names[word]
        found = self.ranges.get(base) if number and number == str(int(number)) else None  # %r01 is none of %r<4>
        return found if found is not None and int(number) < (found.count or 0) else None


class Scopes:
    """The declarations of a function, block by block."""

    def __init__(self, function: Function):
        self.function = function
        # The labels of the body and of each block in it, in the order of their braces: all of a block sees its labels.
        self._labels: list[dict[str, Binding]] = [{}]
        blocks = [0]
        for each in function.body:
            if isinstance(each, Label):
                self._labels[blocks[-1]].setdefault(each.name, Binding(each, each.name))
            elif each.text == "{":
                blocks.append(len(self._labels))
                self._labels.append({})
            elif each.text == "}" and len(blocks) > 1:
                blocks.pop()

    def walk(self, about: str) -> Iterator[tuple[Statement, Resolve]]:
        """Each statement of the body, and what names mean in it.  `about`: a part of each name that is asked for."""
        labels = iter(self._labels)
        parameters = {name: Binding(self.function, name) for name in self.function._head_names()}
        blocks = [_Block(parameters | next(labels), {})]

        def resolve(word: str) -> tuple[Binding, int] | None:
            base = word.rstrip(_DIGITS)
            for depth in range(len(blocks) - 1, -1, -1):
                found = blocks[depth].find(word, base, word[len(base) :])
                if found is not None:
                    return found, depth
            whole = [depth for depth, block in enumerate(blocks) if word in block.ranges]
            return (blocks[whole[-1]].ranges[word], whole[-1]) if whole else None

        for each in [*self.function.body]:
            if each.text == "{":
                blocks.append(_Block(dict(next(labels)), {}))
            elif each.text == "}" and len(blocks) > 1:
                blocks.pop()
            elif isinstance(each, Declaration) and about in each.text:
                counts = each.counts if isinstance(each, RegDecl) else {}
                for name in each.names:
                    blocks[-1].declare(Binding(each, name, counts.get(name)))
            yield each, resolve

    def meant(self, name: str, at: Statement | None = None) -> Binding:
        """What declares a name: outside of all blocks, or in the only one that does, or as the statement `at` sees it."""
        if at is not None and all(each is not at for each in self.function.body):
            raise ValueError(f"`{at}` is no statement of `{self.function.name}`")
        found: dict[Binding, int] = {}
        for each, resolve in self.walk(name.rstrip(_DIGITS)):
            one = resolve(name)
            if each is at:
                found = dict([one]) if one else {}
                break
            if one is not None:
                found.setdefault(*one)
        if isinstance(name, Register):
            found = {one: depth for one, depth in found.items() if one.owner is name.declaration}
        outside = [one for one, depth in found.items() if depth == 0]
        if not found:
            raise ValueError(f"`{self.function.name}` has no `{name}`")
        if len(found) > 1 and not outside:
            blocks = f"{len(found)} blocks of `{self.function.name}`"
            raise ValueError(f"{blocks} declare `{name}`: `at` is a statement of the one that is meant")
        return (outside or [*found])[0]

    def around(self, owner: Statement) -> tuple[list[Statement], list[Statement]]:
        """What stands above a declaration outside of its block and of others, and its block."""
        body = self.function.body
        at = next((i for i, each in enumerate(body) if each is owner), 0)
        begin, depth, outside = 0, 0, []
        for i in range(at - 1, -1, -1):
            depth += (body[i].text == "}") - (body[i].text == "{")
            if depth < 0:
                begin, depth = begin or i, 0
            if begin and not depth:
                outside.append(body[i])
        end, depth = at, 0
        while owner is not self.function and end < len(body) and depth >= 0:
            depth += (body[end].text == "{") - (body[end].text == "}")
            end += 1
        return outside, body if owner is self.function else body[begin:end]

    def uses(self, meant: Binding, name: str) -> Iterator[tuple[Statement, set[str]]]:
        """The statements that name what a binding declares, and how: the name, and registers of it where it is a range."""
        whole = meant.count is not None and meant.name == name
        for each, resolve in self.walk(meant.name.rstrip(_DIGITS)):
            if name not in each.text:
                continue
            words = {word for _, _, word in _text.words(each.text) if word.startswith(name)}
            names = {word for word in words if (whole or word == name) and (resolve(word) or (None,))[0] == meant}
            if names:
                yield each, names


# What declares a name, a register of a range or all of a range; and how many blocks deep that stands.
Resolve = Callable[[str], "tuple[Binding, int] | None"]
