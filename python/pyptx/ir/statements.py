"""Statements: PTX as objects that an edit changes.

A statement is its text, with the white space and comments before it.  Statements that are not edited are printed byte for byte.
Every property is read from the text when it is asked for, so objects stay valid after any edit, and without their module.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar, Union

from pyptx import _core
from pyptx.ir import _text
from pyptx.ir.operands import Operand, Predicate

if TYPE_CHECKING:
    from pyptx.ir.nodes import Analysed, Function, Module
    from pyptx.ir.scopes import Register

__all__ = [
    "Brace",
    "Directive",
    "Instruction",
    "Label",
    "PragmaDirective",
    "RawLine",
    "RegDecl",
    "Section",
    "Statement",
    "VarDecl",
]

_Fact = TypeVar("_Fact")
Insertable = Union["Statement", str]


class Statement:
    """One statement: its text, its place in the text that was parsed, and edits.

    `leading` is the white space and the comments before it.  A statement belongs to one function or module, or to none.
    """

    _parent: Function | Module | None = None

    def __init__(self, text: str, leading: str = "\n", place: tuple[int, int] | None = None):
        self._written, self._leading, self.place = text, leading, place
        self._parsed: _text.Nodes | None = None
        self._touched = place is None

    def __copy__(self) -> Statement:
        """One that belongs to none yet."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict) -> Statement:
        made = memo[id(self)] = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            alone = name == "_parent" and id(value) not in memo  # it is copied without what it belongs to
            setattr(made, name, None if alone else copy.deepcopy(value, memo))
        return made

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.text!r}>"

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        return self._written

    @text.setter
    def text(self, text: str) -> None:
        cls, written = _single(text, self._at_margin or (self._parent is not None and self.function is None))
        if cls is not type(self):
            raise ValueError(f"`{text}` is no {type(self).__name__}; `replace` puts another statement here")
        self._write(written)

    @property
    def leading(self) -> str:
        return self._leading

    @leading.setter
    def leading(self, text: str) -> None:
        if _core.parse(_text.encoded(text)).tokens()[8:]:
            raise ValueError(f"{text!r}: only white space and comments may stand before a statement")
        self._leading = text
        if self.module is not None and self.module._facts is not None:
            self.module._facts.fresh = False

    @property
    def comments(self) -> list[str]:
        """The comments before it, with their slashes."""
        return re.findall(r"//[^\n]*|/\*.*?\*/", self._leading, re.S)

    @property
    def touched(self) -> bool:
        """Whether it was edited, or is new."""
        return self._touched

    @property
    def function(self) -> Function | None:
        parent = self._parent
        return parent if isinstance(parent, Statement) else None  # a module is no statement

    @property
    def module(self) -> Module | None:
        parent = self._parent
        return parent.module if isinstance(parent, Statement) else parent

    def remove(self) -> None:
        """Removes it from its function or module, with the comments before it and behind it on its line."""
        parent, at = self._whole_place()
        self._trailing = parent._behind(at + 1)
        comment = parent._behind(at)
        parent._items().pop(at)
        parent._set_behind(at, comment)
        self._changed()
        self._parent = None

    def insert_before(self, new: Insertable) -> list[Statement]:
        """Inserts statements before this one: text, or a statement, which is moved.

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { ret; }")
            m.find("ret")[0].insert_before("bar.sync 0;")
            assert "bar.sync 0;\\n\\tret;" in m.format()
        """
        return self._insert(new, 0)

    def insert_after(self, new: Insertable) -> list[Statement]:
        """Inserts statements after this one: text, or a statement, which is moved."""
        return self._insert(new, 1)

    def replace(self, new: Insertable) -> list[Statement]:
        """Replaces this statement by others; comments around it stay."""
        parent, at = self._whole_place()
        made = parent._adopted(new, self)
        at = self._whole_place()[1]
        parent._items()[at : at + 1] = made
        if made:
            made[0]._leading = self._leading
            parent._set_behind(at + len(made), made[-1]._trailing)
        self._changed([self, *made])
        self._parent = None
        return made

    def rename(self, old: str, new: str) -> None:
        """Replaces a name everywhere in the statement, except in comments."""
        changed = _text.renamed(self._written, {old: new})
        if changed != self._written:
            self._write(changed)

    _at_margin = False
    _trailing = ""  # the comment behind one that belongs to nobody

    def _whole_place(self) -> tuple[Function | Module, int]:
        if self._parent is None:
            raise ValueError(f"`{self.text}` does not belong to a function or module")
        return self._parent, next(i for i, each in enumerate(self._parent._items()) if each is self)

    def _insert(self, new: Insertable, behind: int) -> list[Statement]:
        parent, _ = self._whole_place()
        made = parent._adopted(new, self)
        parent._put(self._whole_place()[1] + behind, made)
        self._changed(made)
        return made

    def _write(self, text: str) -> None:
        self._written, self._parsed, self._touched = text, None, True
        self._changed()

    def _changed(self, edited: Sequence[Statement] | None = None) -> None:
        module = self.module
        if module is not None:
            module._forget([self] if edited is None else edited)

    def _nodes(self) -> _text.Nodes:
        if self._parsed is None:
            self._parsed = _text.Nodes(_text.encoded(self._written))
        return self._parsed


class Instruction(Statement):
    """@p opcode.modifiers operands;

    Example:
        i = pyptx.ir.Instruction("add", (".s32",), (pyptx.ir.RegisterOperand("%r1"), pyptx.ir.RegisterOperand("%r2"),
                                                    pyptx.ir.ImmediateOperand("1")))
        assert str(i) == "add.s32 %r1, %r2, 1;"
    """

    def __init__(
        self,
        opcode: str,
        modifiers: Iterable[str] = (),
        operands: Iterable[Operand] = (),
        predicate: Predicate | None = None,
        formatting: object = None,
    ):
        super().__init__(_instruction(opcode + "".join(modifiers), operands, predicate))

    @property
    def mnemonic(self) -> str:
        """The opcode and its modifiers: "add.s32".  It may be set, as may all that follows."""
        found = self._nodes().first("mnemonic", 1)
        return "" if found is None else re.sub(r"\s", "", self._nodes().written(found))

    @mnemonic.setter
    def mnemonic(self, mnemonic: str) -> None:
        self._make(mnemonic, self.operands, self.predicate)

    @property
    def opcode(self) -> str:
        return self.mnemonic.partition(".")[0]

    @opcode.setter
    def opcode(self, opcode: str) -> None:
        self.mnemonic = opcode + "".join(self.modifiers)

    @property
    def modifiers(self) -> tuple[str, ...]:
        """With their dots: (".rn", ".f32")."""
        return tuple("." + each for each in self.mnemonic.split(".")[1:])

    @modifiers.setter
    def modifiers(self, modifiers: Iterable[str]) -> None:
        self.mnemonic = self.opcode + "".join(modifiers)

    @property
    def predicate(self) -> Predicate | None:
        found = self._nodes().first("guard", 1)
        if found is None:
            return None
        text = self._nodes().written(found).replace(" ", "")
        return Predicate(text.lstrip("@!"), "!" in text)

    @predicate.setter
    def predicate(self, predicate: Predicate | str | None) -> None:
        if isinstance(predicate, str):
            predicate = Predicate(predicate.lstrip("@!"), "!" in predicate)
        self._make(self.mnemonic, self.operands, predicate)

    @property
    def operands(self) -> tuple[Operand, ...]:
        nodes = self._nodes()
        return tuple(_text.operand(nodes, child) for child in self._operand_nodes())

    @operands.setter
    def operands(self, operands: Iterable[Operand | str]) -> None:
        self._make(self.mnemonic, operands, self.predicate)

    def replace_operand(self, which: int, new: Operand | str) -> None:
        """Replaces operand number `which`, from 0.  The rest of the line stays as it is written.

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { bar.sync  0; }")
            m.find("bar.sync")[0].replace_operand(0, "1")
            assert "bar.sync  1;" in str(m)
        """
        node = self._nodes().node(self._operand_nodes()[which])
        raw = _text.encoded(self._written)
        self._rewrite(_text.decoded(raw[: node.begin]) + str(new) + _text.decoded(raw[node.end :]))

    @property
    def operand_spans(self) -> list[tuple[int, int]]:
        """Where each operand stands in `text`, in bytes."""
        return [self._nodes().node(child)[1:3] for child in self._operand_nodes()]

    @property
    def types(self) -> dict[str, str]:
        """The types of the registers that it names, as they are declared: {"%r1": "b32"}."""
        return self._fact(lambda analysis, f, s: analysis.types(f, s), {})

    @property
    def reads(self) -> list[Register]:
        """The registers that it reads, its guard too, by the rows of the ISA.

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .b32 a, b; add.s32 a, b, 1; ret; }")
            assert m.find("add")[0].reads == ["b"] and m.find("add")[0].writes == ["a"]
        """
        return self._registers(lambda analysis, f, s: [r for r, reads, _, _ in analysis.accesses(f, s) if reads])

    @property
    def writes(self) -> list[Register]:
        """The registers that it writes, by the rows of the ISA."""
        return self._registers(lambda analysis, f, s: [r for r, _, writes, _ in analysis.accesses(f, s) if writes])

    @property
    def live(self) -> list[Register]:
        """The registers whose values are still read behind it."""
        return self._registers(lambda analysis, f, s: analysis.live(f, s), after_edits=True)

    @property
    def section(self) -> str:
        """The section of the PTX ISA manual that has its form; "" where it is not legal."""
        return self._fact(lambda analysis, f, s: analysis.form(f, s)[1], "")

    def _registers(
        self, ask: Callable[[_core.Analysis, int, int], list[int]], after_edits: bool = False
    ) -> list[Register]:
        facts = self._known(after_edits)
        where = None if facts is None else facts.where(self)
        if facts is None or where is None:
            return []
        named = facts.registers(where[0])
        return [named[each] for each in ask(facts.analysis, *where)]

    def _fact(self, ask: Callable[[_core.Analysis, int, int], _Fact], otherwise: _Fact) -> _Fact:
        facts = self._known()
        where = None if facts is None else facts.where(self)
        return otherwise if facts is None or where is None else ask(facts.analysis, *where)

    def _known(self, after_edits: bool = False) -> Analysed | None:
        """An analysis that knows what it does alone, also if other statements were edited since; with `after_edits`, none older."""
        module = self.module
        if module is None:
            return None
        if module._facts is not None and not after_edits and module._facts.where(self) is not None:
            return module._facts
        return module._analysed()

    def _operand_nodes(self) -> list[int]:
        nodes = self._nodes()
        return [child for child in nodes.children(1) if nodes.kind(child) not in ("guard", "mnemonic")]

    def _make(self, mnemonic: str, operands: Iterable[Operand | str], predicate: Predicate | None) -> None:
        self._rewrite(_instruction(mnemonic, operands, predicate))

    def _rewrite(self, text: str) -> None:
        if _single(text, self._at_margin)[0] is not Instruction:
            raise ValueError(f"`{text}` is no instruction")
        self._write(text)


class Label(Statement):
    """name:"""

    def __init__(self, name: str, formatting: object = None):
        super().__init__(f"{name}:")

    _at_margin = True

    @property
    def name(self) -> str:
        return self._written.rstrip(": \t\r\n")


def _dotted(word: object) -> str:
    """A type, a state space or a linking directive, by name or as a member of `pyptx.ir.types`, with its dot."""
    text = str(getattr(word, "value", None) or getattr(word, "name", None) or word)
    return text if text.startswith(".") else f".{text}"


class Declaration(Statement):
    """What a `.reg` and a variable have in common: names and a type."""

    def __init__(self, text: str):
        super().__init__(text)

    @property
    def names(self) -> list[str]:
        """What it declares: ["%r", "x"] of `.reg .b32 %r<4>, x;`."""
        written = (self._nodes().written(child) for child in self._declarators())
        words = (text.partition("<")[0].partition("[")[0].split() for text in written)
        return [each[0] for each in words if each]  # a text that is broken may have none

    @property
    def name(self) -> str:
        return (self.names or [""])[0]

    @property
    def type(self) -> str:
        """With its dot: ".b32"; the last word before the names."""
        head = self._head()
        return head[-1] if head else ""

    def _head(self) -> list[str]:
        first = next(iter(self._declarators()), None)
        end = self._nodes().node(first).begin if first is not None else len(self._written)
        return _text.decoded(_text.encoded(self._written)[:end]).split()

    def _declarators(self) -> list[int]:
        nodes = self._nodes()
        return [child for child in nodes.children(1) if nodes.kind(child) == "declarator"] if len(nodes) > 1 else []


class RegDecl(Declaration):
    """.reg .type names;

    Example:
        d = pyptx.ir.RegDecl(".b32", "%r", 4)
        assert str(d) == ".reg .b32 %r<4>;"
    """

    def __init__(self, type: object, name: str | None = None, count: int | None = None, formatting: object = None):
        """Made of a type, a name and a count; or of the text alone."""
        written = f".reg {_dotted(type)} {name}{'' if count is None else f'<{count}>'};"
        super().__init__(str(type) if name is None else written)

    @property
    def count(self) -> int | None:
        """n of `name<n>`, the first if there are more."""
        return next(iter(self.counts.values()), None)

    @property
    def counts(self) -> dict[str, int]:
        """The names that are ranges: {"%r": 4} of `.reg .b32 x, %r<4>;`."""
        written = (self._nodes().written(child) for child in self._declarators())
        found = (re.match(r"([^\s<]+)\s*<\s*(\w+)", each) for each in written)
        return {each[1]: _text.integer(each[2]) for each in found if each}


class VarDecl(Declaration):
    """.space .type name[n] = value;

    Example:
        d = pyptx.ir.VarDecl("shared", "b8", "tile", 512, 128)
        assert str(d) == ".shared .align 128 .b8 tile[512];"
    """

    def __init__(
        self,
        state_space: object,
        type: object = None,
        name: str = "",
        array_size: int | None = None,
        alignment: int | None = None,
        initializer: object = None,
        linking: object = None,
        formatting: object = None,
    ):
        """Made of its parts; or of the text alone."""
        if type is None:
            return super().__init__(str(state_space))
        align = "" if alignment is None else f".align {alignment}"
        words = (linking and _dotted(linking), _dotted(state_space), align, _dotted(type), name)
        array = "" if array_size is None else f"[{array_size}]"
        value = "" if initializer is None else f" = {initializer}"
        super().__init__(" ".join(str(word) for word in words if word) + array + value + ";")

    @property
    def state_space(self) -> str:
        spaces = ("global", "shared", "const", "local", "param", "tex")
        return next((word[1:] for word in self._head() if word[1:].partition("::")[0] in spaces), "")

    @property
    def linking(self) -> str | None:
        return next((word[1:] for word in self._head() if word in (".visible", ".extern", ".weak", ".common")), None)

    @property
    def initializer(self) -> str | None:
        _, found, value = self._written.partition("=")
        return value.strip().rstrip(";").strip() if found else None


class Directive(Statement):
    """Any other directive: .version 8.0, .file 1 "a.cu", .loc 1 2 3, .pragma "nounroll";"""

    def __init__(self, text: str):
        super().__init__(text)

    @property
    def name(self) -> str:
        return self._written.split()[0] if self._written.split() else ""

    @property
    def value(self) -> str:
        return self._written[len(self.name) :].strip().rstrip(";").strip()


class PragmaDirective(Directive):
    """.pragma "value";"""


class Section(Directive):
    """.section name { data }"""

    _at_margin = True


class Brace(Statement):
    """The `{` or the `}` of a block in a body."""

    def __init__(self, text: str):
        super().__init__(text)

    _at_margin = True


class RawLine(Statement):
    """Text that the parser could not read; it stays as it is."""

    def __init__(self, text: str):
        super().__init__(text)


_SIMPLE: dict[str, type[Statement]] = {"instruction": Instruction, "label": Label, "section": Section, "error": RawLine}


def _class_of(kind: str, text: str) -> type[Statement]:
    if text in ("{", "}"):
        return Brace
    if kind == "variable":
        return RegDecl if re.match(r"\.reg\b", text) else VarDecl
    if kind == "directive":
        return PragmaDirective if text.startswith(".pragma") else Directive
    return _SIMPLE.get(kind, RawLine)  # a block outside of functions


def statement_of(kind: str, text: str, leading: str, place: tuple[int, int] | None) -> Statement:
    """The statement of a node that is no function."""
    made: Statement = (cls := _class_of(kind, text)).__new__(cls)
    Statement.__init__(made, text, leading, place)
    return made


def _single(text: str, margin: bool) -> tuple[type[Statement] | None, str]:
    """The class of a text that is one statement, and that statement without what stands around it.

    The class of a function, and of a text that is not one statement, is None.
    """
    source, tree = _text.parsed(text, margin)
    nodes = _text.Nodes(source, tree)
    block = 0 if margin else nodes.first("block", next(nodes.children(0)))
    found = [] if block is None else [*nodes.children(block)]
    if len(found) != 1 or nodes.kind(found[0]) in ("function", "block"):
        return None, text
    written = nodes.written(found[0])
    return _class_of(nodes.kind(found[0]), written), written


def _instruction(mnemonic: str, operands: Iterable[Operand | str], predicate: Predicate | None) -> str:
    listed = ", ".join(map(str, operands))
    return f"{f'{predicate} ' if predicate else ''}{mnemonic}{f' {listed}' if listed else ''};"
