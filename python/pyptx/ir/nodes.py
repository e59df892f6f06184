"""Modules and functions: what holds statements (pyptx.ir.statements).

0.1.1 had all classes of PTX in this module, and they are found here still.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyptx import _core
from pyptx.ir import _text
from pyptx.ir.compat import *  # noqa: F403
from pyptx.ir.compat import Version
from pyptx.ir.operands import *  # noqa: F403
from pyptx.ir.scopes import Binding, Register, Scopes
from pyptx.ir.statements import *  # noqa: F403
from pyptx.ir.statements import (
    Directive,
    Insertable,
    Instruction,
    Label,
    RegDecl,
    Section,
    Statement,
    VarDecl,
    statement_of,
)

if TYPE_CHECKING:
    from pyptx.ir.flow import BasicBlock, FunctionFlow, Pressure, Uses

__all__ = ["Function", "Module"]


def _made(text: str, margin: bool) -> list[Statement]:
    """The statements of a text, which belong to nobody yet.  ValueError where it is no PTX."""
    source, _ = _text.parsed(text, margin)
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
        windows = beside is not None and "\r\n" in beside._leading
        for each in made:
            each._parent = self  # type: ignore[assignment]
            each._touched = True
            at_margin = margin or each._at_margin
            if "\n" not in each._leading:
                each._leading = "\n" + each._leading
            if not each._leading.endswith("\t") and not at_margin:
                each._leading = each._leading.rstrip(" \t") + "\t"
            if windows:
                each._leading = re.sub(r"\r?\n", "\r\n", each._leading)
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
        if self.module is not None:
            self.module._forget(made)
        return made

    def rename(self, old: str, new: str, at: Statement | None = None) -> None:
        """Another name for a register, a label, a variable of the body or a parameter, wherever that is meant.

        `%r` renames all of `.reg .b32 %r<4>`; one of them, `%r1`, gets a declaration of its own.  Blocks may declare a name again: it
        means what it means outside of all blocks, or what the only block says that declares it, or what it means in the statement
        `at`; a Register says itself.  ValueError where several blocks declare it, the new name is taken, or the old one is not there.

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .b32 %r<2>; mov.b32 %r1, 0; }")
            m.functions[0].rename("%r1", "counter")
            assert "mov.b32 counter, 0;" in str(m) and ".reg .b32 counter;" in str(m)
        """
        if not re.fullmatch(r"[A-Za-z][\w$]*|[_$%][\w$]+", new):
            raise ValueError(f"`{new}` is no name: a letter, or one of _ $ %, then letters, digits, _ and $")
        scopes, old = Scopes(self), old if isinstance(old, Register) else str(old)
        meant = scopes.meant(old, at)
        self._refuse_taken(scopes, meant, old, new)
        for each, names in scopes.uses(meant, old):
            each._write(_text.renamed(each._written, {name: new + name[len(old) :] for name in names}))
        if meant.owner is self:
            self._write(_text.renamed(self._written, {old: new}))
        elif isinstance(meant.owner, Label) and self.module is not None:
            for item in self.module.items:  # sections of debug information name labels of functions
                if isinstance(item, Section) and old in item.text:
                    item.rename(old, new)
        if isinstance(meant.owner, RegDecl) and meant.name != old:
            meant.owner.insert_after(f".reg {meant.owner.type} {new};")

    def _refuse_taken(self, scopes: Scopes, meant: Binding, old: str, new: str) -> None:
        if meant.name == old and meant.count is not None and new[-1].isdigit():
            raise ValueError(
                f"`{new}` ends in a digit: `{new}<{meant.count}>` would give the registers ambiguous names"
            )
        sees, block = scopes.around(meant.owner)
        written = [*(each.text for each in block), *([self._written] if meant.owner is self else [])]
        used = {word for each in written if new in each for _, _, word in _text.words(each)}
        endings = {""} | {name[len(old) :] for _, names in scopes.uses(meant, old) for name in names}
        declared = [each for each in sees + block if isinstance(each, RegDecl) and "<" in each.text]
        ranges = {name for each in declared for name in each.counts}
        for name in (new + ending for ending in sorted(endings)):
            if name in used or any(re.fullmatch(re.escape(base) + r"\d+", name) for base in ranges):
                raise ValueError(f"`{self.name}` has a `{name}` already")

    def _head_names(self) -> set[str]:
        """Parameters and results."""
        nodes = self._nodes()
        return {nodes.written(each) for each in range(len(nodes)) if nodes.kind(each) == "declarator"}

    @property
    def flow(self) -> FunctionFlow:
        """Its control-flow graph, uses, liveness and register pressure, as it stands now."""
        from pyptx.ir.flow import FunctionFlow

        flows = self.module._analysed().flows if self.module is not None else {}
        if self not in flows:
            flows[self] = FunctionFlow(self)
        return flows[self]

    @property
    def blocks(self) -> list[BasicBlock]:
        """Its basic blocks, in the order of the text."""
        return self.flow.blocks

    def uses(self, register: str, at: Statement | None = None) -> Uses:
        """The instructions that read a register and those that write it; `at`, as for `rename`, where blocks declare its name again."""
        return self.flow.uses(register, at)

    @property
    def pressure(self) -> Pressure:
        """The most registers that are live at one place."""
        return self.flow.pressure


class Analysed:
    """A text that was analysed, and which of its statements is which object.

    `fresh`: nothing was edited since.  After edits that change no declaration, it still knows what each other statement does alone.
    """

    fresh = True

    def __init__(self, module: Module):
        text, offsets = module._printed()
        self.analysis = _core.Analysis(text, module.file)
        self._by_offset = offsets
        self.functions = {offsets[begin]: number for number, (_, begin) in enumerate(self.analysis.functions())}
        self._registers: dict[int, list[Register]] = {}
        self.flows: dict[Function, FunctionFlow] = {}
        self._where: dict[Statement, tuple[int, int]] = {}
        self.statements: list[list[Statement | None]] = []
        for number in self.functions.values():
            self.statements.append([offsets.get(begin) for begin in self.analysis.statements(number)])
            for at, each in enumerate(self.statements[-1]):
                if each is not None:
                    self._where.setdefault(each, (number, at))

    def registers(self, function: int) -> list[Register]:
        """The registers of a function, in the order of their numbers in the analysis."""
        if function not in self._registers:
            found = self.analysis.registers(function)
            self._registers[function] = [Register(name, self._by_offset.get(begin)) for name, begin in found]
        return self._registers[function]

    def where(self, statement: Statement) -> tuple[int, int] | None:
        return self._where.get(statement)

    def edited(self, statement: Statement) -> None:
        self.fresh = False
        self._where.pop(statement, None)

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
        self._facts: Analysed | None = None

    def __getstate__(self) -> dict[str, object]:
        """The state without the tree, which copies and pickle make again."""
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

    @version.setter
    def version(self, version: tuple[int, int]) -> None:
        self._set_header(".version", f"{version[0]}.{version[1]}")

    @property
    def target(self) -> str:
        """All of it: "sm_90a", "sm_75, debug".  It may be set, as may the version.

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { ret; }")
            m.target, m.version = "sm_100a", (8, 6)
            assert str(m).startswith(".version 8.6\\n.target sm_100a\\n") and not m.check()
        """
        return self._header(".target")

    @target.setter
    def target(self, target: str) -> None:
        self._set_header(".target", target)

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

    def _set_header(self, name: str, value: str) -> None:
        for each in self._items():
            if isinstance(each, Directive) and each.name == name:
                each.text = f"{name} {value}"
                return
        raise ValueError(f"the module has no `{name}`")

    def _forget(self, edited: Sequence[Statement] = ()) -> None:
        """What is known of the text; with the statements that were edited, inserted or removed, what that leaves unknown."""
        facts, depth = self._facts, 0
        for each in edited:
            depth += (each.text == "{") - (each.text == "}")
            alone = isinstance(each, (Instruction, Label)) or (
                isinstance(each, Directive) and each.function is not None
            )
            # A block that is new as a whole concerns no other.
            if facts is not None and (alone or depth > 0 or each.text == "}"):
                facts.edited(each)
            else:
                facts = None
        self._facts = facts if edited and depth == 0 else None

    def _analysed(self) -> Analysed:
        if self._facts is None or not self._facts.fresh:
            self._facts = Analysed(self)
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
        self._line, self._line_begin, self._counted = 1, 0, 0  # line breaks, up to an offset: a text may be one line

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
        passed = self._source.count(b"\n", self._counted, self._at)
        self._counted = self._at
        if passed:
            self._line += passed
            self._line_begin = self._source.rfind(b"\n", 0, self._at) + 1
        return self._line, self._at - self._line_begin + 1

    def _simple(self, number: int, kind: str, leading: str, parent: Module | Function) -> Statement:
        place = self._place()
        made = statement_of(kind, self._take(self._nodes.node(number).end), leading, place)
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
        made = statement_of("", self._take(at + 1), leading, place)
        made._parent = function
        return made
