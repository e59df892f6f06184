"""Modules, functions and statements: PTX as objects that an edit changes.

A statement is its text, with the white space and comments before it.  Statements that are not edited are printed byte for byte.
Every property is read from the text when it is asked for, so objects stay valid after any edit, and without their module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar, Union

from pyptx import _core
from pyptx.ir import _text
from pyptx.ir.compat import *  # noqa: F403  0.1.1 had all of its classes in this module
from pyptx.ir.compat import Version
from pyptx.ir.operands import *  # noqa: F403
from pyptx.ir.operands import Operand, Predicate

if TYPE_CHECKING:
    from pyptx.ir.flow import BasicBlock, FunctionFlow, Pressure, Uses

__all__ = [
    "Brace",
    "Directive",
    "Function",
    "Instruction",
    "Label",
    "Module",
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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.text!r}>"

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        return self._written

    @text.setter
    def text(self, text: str) -> None:
        (made,) = _made(text, self._at_margin) or (None,)
        if type(made) is not type(self):
            raise ValueError(f"`{text}` is no {type(self).__name__}; `replace` puts another statement here")
        self._write(made._written)

    @property
    def leading(self) -> str:
        return self._leading

    @leading.setter
    def leading(self, text: str) -> None:
        if _core.parse(_text.encoded(text)).tokens()[8:]:
            raise ValueError(f"{text!r}: only white space and comments may stand before a statement")
        self._leading = text
        self._changed()

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
        return self._parent if isinstance(self._parent, Function) else None

    @property
    def module(self) -> Module | None:
        parent = self._parent
        return parent if isinstance(parent, Module) or parent is None else parent.module

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
        self._changed()
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
        self._changed()
        return made

    def _write(self, text: str) -> None:
        self._written, self._parsed, self._touched = text, None, True
        self._changed()

    def _changed(self) -> None:
        module = self.module
        if module is not None:
            module._forget()

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
    def reads(self) -> list[str]:
        """The registers that it reads, its guard too, by the rows of the ISA.

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .b32 a, b; add.s32 a, b, 1; ret; }")
            assert m.find("add")[0].reads == ["b"] and m.find("add")[0].writes == ["a"]
        """
        return [name for name, reads, _, _ in self._accesses() if reads]

    @property
    def writes(self) -> list[str]:
        """The registers that it writes, by the rows of the ISA."""
        return [name for name, _, writes, _ in self._accesses() if writes]

    @property
    def live(self) -> list[str]:
        """The registers whose values are still read behind it."""
        return self._fact(lambda analysis, f, s: analysis.live(f, s), [])

    @property
    def section(self) -> str:
        """The section of the PTX ISA manual that has its form; "" where it is not legal."""
        return self._fact(lambda analysis, f, s: analysis.form(f, s)[1], "")

    def _accesses(self) -> list[tuple[str, bool, bool, bool]]:
        return self._fact(lambda analysis, f, s: analysis.accesses(f, s), [])

    def _fact(self, ask: Callable[[_core.Analysis, int, int], _Fact], otherwise: _Fact) -> _Fact:
        module = self.module
        where = module._analysed().where(self) if module is not None else None
        return otherwise if module is None or where is None else ask(module._analysed().analysis, *where)

    def _operand_nodes(self) -> list[int]:
        nodes = self._nodes()
        return [child for child in nodes.children(1) if nodes.kind(child) not in ("guard", "mnemonic")]

    def _make(self, mnemonic: str, operands: Iterable[Operand | str], predicate: Predicate | None) -> None:
        self._rewrite(_instruction(mnemonic, operands, predicate))

    def _rewrite(self, text: str) -> None:
        made = _made(text, False)
        if len(made) != 1 or not isinstance(made[0], Instruction):
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


class _Declaration(Statement):
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


class RegDecl(_Declaration):
    """.reg .type names;"""

    @property
    def count(self) -> int | None:
        """n of `name<n>`, the first if there are more."""
        return next(iter(self.counts.values()), None)

    @property
    def counts(self) -> dict[str, int]:
        """The names that are ranges: {"%r": 4} of `.reg .b32 x, %r<4>;`."""
        written = (self._nodes().written(child) for child in self._declarators())
        found = (re.match(r"([^\s<]+)\s*<\s*(0[xX][0-9a-fA-F]+|\d+)", each) for each in written)
        bases = {"0x": 16, "0X": 16}
        return {each[1]: int(each[2], bases.get(each[2][:2], 8 if each[2][0] == "0" else 10)) for each in found if each}


class VarDecl(_Declaration):
    """.space .type name[n] = value;"""

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
    if kind == "variable":
        return RegDecl if re.match(r"\.reg\b", text) else VarDecl
    if kind == "directive":
        return PragmaDirective if text.startswith(".pragma") else Directive
    return _SIMPLE.get(kind, RawLine)  # a block outside of functions


def _statement(kind: str, text: str, leading: str, place: tuple[int, int] | None) -> Statement:
    cls = Brace if text in ("{", "}") else _class_of(kind, text)
    made: Statement = cls.__new__(cls)
    Statement.__init__(made, text, leading, place)
    return made


def _instruction(mnemonic: str, operands: Iterable[Operand | str], predicate: Predicate | None) -> str:
    listed = ", ".join(map(str, operands))
    return f"{f'{predicate} ' if predicate else ''}{mnemonic}{f' {listed}' if listed else ''};"


def _made(text: str, margin: bool) -> list[Statement]:
    """The statements of a text, which belong to nobody yet.  ValueError where it is no PTX."""
    head = b"" if margin else b".func f(){"
    source = head + _text.encoded(text) + (b"" if margin else b"\n}")
    tree = _core.parse(source)
    wrong = [each for each in tree.diagnostics if not (margin and each.name == "misplaced_statement")]
    if wrong:
        raise ValueError(f"`{text}`: {wrong[0].message}")
    module = Module(source)
    body = module if margin else next(iter(module.functions))
    made = body._items()
    if made:
        made[-1]._trailing = body._behind(len(made))
    for each in made:
        each._parent, each.place, each._touched = None, None, True
    return made


class _Body:
    """What holds statements.  `_tail` is the white space and the comments behind the last one."""

    def _items(self) -> list[Statement]:
        raise NotImplementedError

    def _forget(self) -> None:
        raise NotImplementedError

    @property
    def _tail(self) -> str:
        raise NotImplementedError

    @_tail.setter
    def _tail(self, text: str) -> None:
        raise NotImplementedError

    def _leading_at(self, at: int) -> str:
        items = self._items()
        return items[at]._leading if at < len(items) else self._tail

    def _set_leading(self, at: int, text: str) -> None:
        items = self._items()
        if at < len(items):
            items[at]._leading = text
        else:
            self._tail = text

    def _behind(self, at: int) -> str:
        """Takes away the comment on the line of the statement before `at`: it belongs to that one."""
        line, newline, rest = self._leading_at(at).partition("\n")
        if not newline or "/" not in line or line.count("/*") > line.count("*/"):
            return ""
        self._set_leading(at, newline + rest)
        return line

    def _set_behind(self, at: int, comment: str) -> None:
        """Puts a comment there, and what stood on the rest of the line on one of its own."""
        rest = self._leading_at(at)
        if "//" in comment and not rest.lstrip(" \t").startswith("\n"):
            rest = ("\n" if at == len(self._items()) else "\n\t") + rest.lstrip(" \t")
        self._set_leading(at, comment + rest)

    def _put(self, at: int, made: list[Statement]) -> None:
        if made:
            made[0]._leading = self._behind(at) + made[0]._leading
            self._items()[at:at] = made
            self._set_behind(at + len(made), made[-1]._trailing)

    def _adopted(self, new: Insertable, beside: Statement | None) -> list[Statement]:
        margin = isinstance(self, Module)
        if isinstance(new, Statement):
            if new is beside:
                raise ValueError(f"`{new.text}` cannot be inserted beside itself")
            if new._parent is not None:
                new.remove()
            made = [new]
        else:
            made = _made(new, margin)
        for each in made:
            each._parent = self  # type: ignore[assignment]
            each._touched = True
            at_margin = margin or each._at_margin
            if "\n" not in each._leading:
                each._leading = "\n" + each._leading
            if not each._leading.endswith("\t") and not at_margin:
                each._leading = each._leading.rstrip(" \t") + "\t"
        return made


class Function(Statement, _Body):
    """An .entry or .func: a head, and a body of statements, blocks flat with their braces.

    Example:
        m = pyptx.parse(".version 8.0\\n.target sm_80\\n.visible .entry k(.param .u64 p) { ret; }")
        (k,) = m.functions
        assert k.name == "k" and k.is_entry and [str(i) for i in k.instructions] == ["ret;"]
    """

    _at_margin = True
    body: list[Statement]
    _closing: str | None  # what stands behind the last statement, usually a brace; None: there is no body

    def _items(self) -> list[Statement]:
        return self.body

    @property
    def _tail(self) -> str:
        return (self._closing or "").removesuffix("}")

    @_tail.setter
    def _tail(self, text: str) -> None:
        self._closing = text + "}" * (self._closing or "").endswith("}")

    @property
    def text(self) -> str:
        if self._closing is None:
            return self._written
        return "".join([self._written, "{", *(each._leading + each.text for each in self.body), self._closing])

    @text.setter
    def text(self, text: str) -> None:
        raise AttributeError("edit the head, the body, or replace the function")

    @property
    def head(self) -> str:
        """Everything before the body.  It may be set."""
        return self._written.rstrip()

    @head.setter
    def head(self, head: str) -> None:
        made = _made(head + ("" if self.is_declaration else " { }"), True)
        if len(made) != 1 or not isinstance(made[0], Function) or made[0].is_declaration != self.is_declaration:
            raise ValueError(f"`{head}` is no head of a function")
        self._write(head + ("" if self.is_declaration else "\n"))

    @property
    def name(self) -> str:
        found = self._nodes().first("name", 1)
        return "" if found is None else self._nodes().written(found)

    @property
    def is_entry(self) -> bool:
        return ".entry" in self._written.split("(")[0].split()

    @property
    def is_declaration(self) -> bool:
        return self._closing is None

    @property
    def linking(self) -> str | None:
        return next((w[1:] for w in self._written.split() if w in (".visible", ".extern", ".weak")), None)

    @property
    def params(self) -> tuple[VarDecl, ...]:
        """The parameters, as declarations that belong to nobody: edit `head`."""
        nodes = self._nodes()
        lists = [child for child in nodes.children(1) if nodes.kind(child) == "parameters"]
        named = nodes.first("name", 1)
        return tuple(
            VarDecl(nodes.written(each))
            for child in lists
            if named is not None and child > named
            for each in nodes.children(child)
        )

    @property
    def directives(self) -> tuple[str, ...]:
        """Those of its head: (".maxntid 128, 1, 1",)."""
        nodes = self._nodes()
        return tuple(nodes.written(child) for child in nodes.children(1) if nodes.kind(child) == "directive")

    @property
    def instructions(self) -> list[Instruction]:
        """A list of its own: edits do not disturb who walks over it."""
        return [each for each in self.body if isinstance(each, Instruction)]

    @property
    def labels(self) -> list[Label]:
        return [each for each in self.body if isinstance(each, Label)]

    def append(self, new: Insertable) -> list[Statement]:
        """Statements at the end of the body."""
        if self.is_declaration:
            raise ValueError(f"`{self.name}` has no body")
        made = self._adopted(new, None)
        self._put(len(self.body), made)
        self._changed()
        return made

    def rename(self, old: str, new: str) -> None:
        """Another name for a register, a label, a variable of the body or a parameter, wherever the function has it.

        `%r` renames all of `.reg .b32 %r<4>`; one of them, `%r1`, gets a declaration of its own.  ValueError where the new name is
        taken, or the old one is not there.

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .b32 %r<2>; mov.b32 %r1, 0; }")
            m.functions[0].rename("%r1", "counter")
            assert "mov.b32 counter, 0;" in str(m) and ".reg .b32 counter;" in str(m)
        """
        if not re.fullmatch(r"[A-Za-z][\w$]*|[_$%][\w$]+", new):
            raise ValueError(f"`{new}` is no name: a letter, or one of _ $ %, then letters, digits, _ and $")
        used = {word for each in [self._written, *(s.text for s in self.body)] for _, _, word in _text.words(each)}
        names, ranges = {old: new}, self._ranges()
        declaration = next((d for base, d in ranges.items() if re.fullmatch(re.escape(base) + r"\d+", old)), None)
        if old in ranges and new[-1].isdigit():
            raise ValueError(
                f"`{new}` ends in a digit: `{new}<{ranges[old].counts[old]}>` would give the registers ambiguous names"
            )
        if old in ranges:
            names |= {f"{old}{n}": f"{new}{n}" for n in range(ranges[old].counts[old]) if f"{old}{n}" in used}
        elif old not in used or (declaration is None and old not in self._own_names()):
            raise ValueError(f"`{self.name}` has no `{old}`")
        for taken in names.values():
            if taken in used or any(re.fullmatch(re.escape(base) + r"\d+", taken) for base in ranges):
                raise ValueError(f"`{self.name}` has a `{taken}` already")
        for each in [*self.body]:
            changed = _text.renamed(each._written, names)
            if changed != each._written:
                each._write(changed)
        if old in self._head_names():
            self._write(_text.renamed(self._written, names))
        if declaration is not None:
            declaration.insert_after(f".reg {declaration.type} {new};")

    def _head_names(self) -> set[str]:
        """Parameters and results."""
        nodes = self._nodes()
        return {nodes.written(each) for each in range(len(nodes)) if nodes.kind(each) == "declarator"}

    def _own_names(self) -> set[str]:
        declared = {name for each in self.body if isinstance(each, _Declaration) for name in each.names}
        return declared | {each.name for each in self.labels} | self._head_names()

    def _ranges(self) -> dict[str, RegDecl]:
        return {name: each for each in self.body if isinstance(each, RegDecl) for name in each.counts}

    @property
    def flow(self) -> FunctionFlow:
        """Its control-flow graph, uses, liveness and register pressure, as it stands now."""
        from pyptx.ir.flow import FunctionFlow

        return FunctionFlow(self)

    @property
    def blocks(self) -> list[BasicBlock]:
        """Its basic blocks, in the order of the text."""
        return self.flow.blocks

    def uses(self, register: str) -> Uses:
        """The instructions that read a register and those that write it."""
        return self.flow.uses(register)

    @property
    def pressure(self) -> Pressure:
        """The most registers that are live at one place."""
        return self.flow.pressure


class _Analysed:
    """A text that was analysed, and which of its statements is which object."""

    def __init__(self, module: Module):
        text, offsets = module._printed()
        self.analysis = _core.Analysis(text, module.file)
        self._by_offset = offsets
        self.functions = {offsets[begin]: number for number, (_, begin) in enumerate(self.analysis.functions())}
        self._where: dict[Statement, tuple[int, int]] = {}
        self.statements: list[list[Statement | None]] = []
        for number in self.functions.values():
            self.statements.append([offsets.get(begin) for begin in self.analysis.statements(number)])
            for at, each in enumerate(self.statements[-1]):
                if each is not None:
                    self._where.setdefault(each, (number, at))

    def where(self, statement: Statement) -> tuple[int, int] | None:
        return self._where.get(statement)

    def statement_at(self, offset: int) -> Statement | None:
        """The one whose text has this byte."""
        from bisect import bisect_right

        begins = [*self._by_offset]
        at = bisect_right(begins, offset)
        return self._by_offset[begins[at - 1]] if at else None


class Module(_Body):
    """A PTX text as objects.  Made by `pyptx.parse`, and by `Kernel.module`.

    Example:
        m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { bar.sync 0; ret; }")
        for i in m.find("bar.sync"):
            i.remove()
        assert "bar" not in str(m) and not m.check()
    """

    def __init__(self, source: bytes | str, file: str = ""):
        self.file = file
        if not isinstance(source, (str, bytes)):
            raise TypeError(f"PTX must be a str or bytes, not {type(source).__name__}")
        self._source = source if isinstance(source, bytes) else _text.encoded(source)
        self._tree = _core.parse(self._source, file)
        self._kept: list[Statement] | None = None
        self._end = ""
        self._facts: _Analysed | None = None

    def __getstate__(self) -> dict[str, object]:
        """For copies and pickle: the tree is made again."""
        return {**vars(self), "_tree": None, "_facts": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._tree = _core.parse(self._source, self.file)

    def __str__(self) -> str:
        return _text.decoded(bytes(self))

    def __bytes__(self) -> bytes:
        return self._source if self._kept is None else self._printed()[0]

    def __repr__(self) -> str:
        return f"<Module {self.file or '.'.join(map(str, self.version or ('?',)))}, {len(self.functions)} functions>"

    @property
    def diagnostics(self) -> list[_core.Diagnostic]:
        """Where the text that was parsed is no PTX at all."""
        return self._tree.diagnostics

    @property
    def items(self) -> list[Statement]:
        """Directives, variables, sections and functions, in their order."""
        return [*self._items()]

    @property
    def directives(self) -> tuple[Statement, ...]:
        """The items behind .version, .target and .address_size."""
        return tuple(each for each in self._items() if not _is_header(each))

    @property
    def functions(self) -> list[Function]:
        return [each for each in self._items() if isinstance(each, Function)]

    @property
    def instructions(self) -> list[Instruction]:
        return [each for function in self.functions for each in function.instructions]

    @property
    def version(self) -> Version | None:
        value = self._header(".version").partition(".")
        return Version(int(value[0]), int(value[2])) if value[0].isdigit() and value[2].isdigit() else None

    @property
    def target(self) -> str:
        return self._header(".target")

    @property
    def address_size(self) -> int | None:
        value = self._header(".address_size")
        return int(value) if value.isdigit() else None

    def __getitem__(self, name: str) -> Function:
        """The function of a name; KeyError where there is none."""
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(name)

    def find(self, mnemonic: str) -> list[Instruction]:
        """The instructions that begin so, by whole words: "wgmma", "ld.global", "wgmma.mma_async".

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { bar.sync 0; barrier.sync 0; }")
            assert len(m.find("bar")) == 1 and len(m.find("barrier.sync")) == 1
        """
        return [each for each in self.instructions if (each.mnemonic + ".").startswith(mnemonic + ".")]

    def insert(self, new: Insertable, before: Statement | None = None) -> list[Statement]:
        """Variables, directives or functions, before one of the items or at the end."""
        if before is not None:
            return before.insert_before(new)
        made = self._adopted(new, None)
        self._put(len(self._items()), made)
        self._forget()
        return made

    def check(self, *, edited: bool = False) -> list[_core.Diagnostic]:
        """The errors of the present text, in its order; with `edited`, only those of edited statements.

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { ret; }")
            m.find("ret")[0].insert_before("add.s32 %r1, %r2, %r3;")
            assert m.check(edited=True)[0].name == "undefined_name" or m.check(edited=True)
        """
        facts = self._analysed()
        found = facts.analysis.diagnostics
        if not edited:
            return found
        about = [(each, facts.statement_at(each.span[0])) for each in found]
        return [each for each, statement in about if statement is not None and statement.touched]

    def format(self) -> str:
        """The text in the layout of `pyptx fmt`."""
        return _text.decoded(_core.parse(bytes(self), self.file).format())

    def emit(self, lineinfo: bool = False) -> str:
        """The text as it stands."""
        return str(self)

    # ---- what the parts need of each other

    def _items(self) -> list[Statement]:
        if self._kept is None:
            self._kept = []
            _Reader(self, self._source, self._tree).read()
        return self._kept

    @property
    def _tail(self) -> str:
        return self._end

    @_tail.setter
    def _tail(self, text: str) -> None:
        self._end = text

    def _header(self, name: str) -> str:
        return next((each.value for each in self._items() if isinstance(each, Directive) and each.name == name), "")

    def _forget(self) -> None:
        self._facts = None

    def _analysed(self) -> _Analysed:
        if self._facts is None:
            self._facts = _Analysed(self)
        return self._facts

    def _printed(self) -> tuple[bytes, dict[int, Statement]]:
        """The text, and the statement that begins at each offset."""
        pieces: list[bytes] = []
        offsets: dict[int, Statement] = {}
        at = 0

        def put(text: str) -> None:
            nonlocal at
            pieces.append(_text.encoded(text))
            at += len(pieces[-1])

        for item in self._items():
            put(item._leading)
            offsets[at] = item
            if not isinstance(item, Function) or item._closing is None:
                put(item._written)
                continue
            put(item._written + "{")
            for each in item.body:
                put(each._leading)
                offsets[at] = each
                put(each._written)
            put(item._closing)
        put(self._end)
        return b"".join(pieces), offsets


def _is_header(item: Statement) -> bool:
    return isinstance(item, Directive) and item.name in (".version", ".target", ".address_size")


class _Reader:
    """Statements out of a tree."""

    def __init__(self, module: Module, source: bytes, tree: _core.Tree):
        self._module, self._source = module, source
        self._nodes = _text.Nodes(source, tree)
        self._at = 0  # what is read
        self._line, self._line_begin = 1, 0

    def read(self) -> None:
        items = self._module._items()
        for number in self._nodes.children(0):
            leading = self._take(self._nodes.node(number).begin)
            kind = self._nodes.kind(number)
            if kind == "function":
                items.append(self._function(number, leading))
            else:
                items.append(self._simple(number, kind, leading, self._module))
        self._module._end = self._take(len(self._source))

    def _take(self, end: int) -> str:
        """The text up to an offset."""
        text = self._source[self._at : max(end, self._at)]
        self._at = max(end, self._at)
        return _text.decoded(text)

    def _place(self) -> tuple[int, int]:
        passed = self._source.count(b"\n", self._line_begin, self._at)
        if passed:
            self._line += passed
            self._line_begin = self._source.rfind(b"\n", 0, self._at) + 1
        return self._line, self._at - self._line_begin + 1

    def _simple(self, number: int, kind: str, leading: str, parent: Module | Function) -> Statement:
        place = self._place()
        made = _statement(kind, self._take(self._nodes.node(number).end), leading, place)
        made._parent = parent
        return made

    def _function(self, number: int, leading: str) -> Function:
        place, node = self._place(), self._nodes.node(number)
        block = self._nodes.first("block", number)
        made = Function.__new__(Function)
        head = self._take(node.end if block is None else self._nodes.node(block).begin)
        Statement.__init__(made, head, leading, place)
        made._parent, made.body, made._closing = self._module, [], None
        if block is not None:
            self._take(self._at + 1)
            self._body(made, block)
            made._closing = self._take(node.end)
        return made

    def _body(self, function: Function, block: int) -> None:
        ends: list[int] = []  # of the blocks that are open
        number, after = block + 1, self._nodes.node(block).after
        while True:
            while ends and number == self._nodes.node(ends[-1]).after:
                end = self._nodes.node(ends.pop()).end
                if self._source[end - 1 : end] == b"}":
                    function.body.append(self._brace(end - 1, function))
            if number >= after:
                return
            if self._nodes.kind(number) == "block":
                function.body.append(self._brace(self._nodes.node(number).begin, function))
                ends.append(number)
                number += 1
                continue
            leading = self._take(self._nodes.node(number).begin)
            function.body.append(self._simple(number, self._nodes.kind(number), leading, function))
            number = self._nodes.node(number).after

    def _brace(self, at: int, function: Function) -> Statement:
        leading = self._take(at)
        place = self._place()
        made = _statement("", self._take(at + 1), leading, place)
        made._parent = function
        return made
