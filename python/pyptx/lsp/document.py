"""What an editor asks of a PTX text: everything but the protocol.  Places are lines and UTF-16 columns from 0, as editors count them.

Any text will do, also one that is half typed: the tree of the parser is never missing.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, cached_property
from typing import NamedTuple

from pyptx import _core
from pyptx.ir._text import integer
from pyptx.tools import isa, lint

__all__ = ["Completion", "Document", "Said", "Symbol", "difference"]

KINDS = _core.node_kinds()
PIECES = _core.highlight_kinds()
_FUNCTION, _BLOCK, _DECLARATOR, _LABEL, _NAME, _MNEMONIC = (
    KINDS.index(kind) for kind in ("function", "block", "declarator", "label", "name", "mnemonic")
)
_DECLARING = {_FUNCTION, _BLOCK, _DECLARATOR, _LABEL}
_DECLARED = re.compile(rb"([\w$%]+)(?:\s*<\s*(\w+)\s*>)?")
_STATEMENT = re.compile(r"(?:^|[;{}:])\s*(?:@!?[\w$%]+\s+)?([A-Za-z][\w.:]*)?$")
_END_OF_LINE = re.compile(rb"\r\n|\n|\r")  # as the protocol counts lines
_MOST_LINES = 60  # of a hover


class Said(NamedTuple):
    """A diagnostic or a finding of lint: bytes [begin, end), and what to say."""

    begin: int
    end: int
    severity: str
    code: str
    message: str
    fixes: list[lint.Change]


class Completion(NamedTuple):
    """`kind`: opcode, modifier, register, label, variable, function."""

    text: str
    kind: str
    detail: str


class Symbol(NamedTuple):
    """A declaration: its name, what it is, the bytes of the name, and how many registers it makes."""

    name: str
    kind: str
    begin: int
    end: int
    scope: int
    count: int | None
    line: str  # that declares it


class Document:
    """One version of a text."""

    def __init__(self, text: str | bytes, name: str = ""):
        self.raw = text if isinstance(text, bytes) else _encoded(text)
        self.name = name
        self._ascii = self.raw.isascii()
        self._begins = [0, *(match.end() for match in _END_OF_LINE.finditer(self.raw))]

    def changed(self, begin: int, end: int, text: str) -> Document:
        """The text with other bytes at [begin, end)."""
        return Document(self.raw[:begin] + _encoded(text) + self.raw[max(begin, end) :], self.name)

    # ---- places

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column) of a byte."""
        line = bisect_right(self._begins, offset) - 1
        begin = self._begins[line]
        if self._ascii:
            return line, offset - begin
        return line, len(self.raw[begin:offset].decode("utf-8", "replace").encode("utf-16-le")) // 2

    def offset(self, line: int, column: int) -> int:
        """The byte at a place; places outside of the text are its nearest."""
        if line >= len(self._begins):
            return len(self.raw)
        begin = self._begins[line]
        written = self.raw[begin : self._begins[line + 1] if line + 1 < len(self._begins) else None].rstrip(b"\r\n")
        if self._ascii:
            return begin + min(column, len(written))
        units = written.decode("utf-8", "replace").encode("utf-16-le")[: 2 * column]
        return begin + len(units.decode("utf-16-le", "ignore").encode("utf-8"))

    def text(self, begin: int, end: int) -> str:
        return self.raw[begin:end].decode("utf-8", "replace")

    def _line(self, offset: int) -> str:
        line = bisect_right(self._begins, offset) - 1
        end = self._begins[line + 1] if line + 1 < len(self._begins) else len(self.raw)
        return self.text(self._begins[line], end).strip()

    # ---- what is said of it

    def diagnostics(self) -> list[Said]:
        """What is not legal."""
        found = []
        for each in _core.check_text(self.raw, self.name):
            begin, end = each.span
            if end <= begin:  # said of a place or of the whole text
                begin = self._begins[min(each.line, len(self._begins)) - 1] if each.line else 0
                end = begin + 1
            section = f"  [PTX ISA {each.section}]" if each.section else ""
            message = "\n".join([each.message + section, *each.notes])
            found.append(Said(begin, end, each.severity, f"PTX{each.code}", message, []))
        return found

    def findings(self) -> list[Said]:
        """What lint finds."""
        return [
            Said(
                *each.span,
                each.severity,
                f"PTX{each.code}",
                f"{each.message} ({lint.spelled(each.name)})",
                each.changes,
            )
            for each in lint.find(self.raw, lint.chosen())
        ]

    # ---- pieces and names

    @cached_property
    def tree(self) -> _core.Tree:
        return _core.parse(self.raw, self.name)

    @cached_property
    def _pieces(self) -> tuple[list[int], list[int], list[int]]:
        """Kinds, begins and ends of what has a colour."""
        table = memoryview(self.tree.highlight()).cast("I").tolist()
        return table[0::3], table[1::3], table[2::3]

    def piece(self, offset: int) -> tuple[str, int, int] | None:
        """The piece at a byte, or that ends there: its kind and its bytes."""
        kinds, begins, ends = self._pieces
        at = bisect_right(begins, offset) - 1
        if at < 0 or offset > ends[at]:
            return None
        return PIECES[kinds[at]], begins[at], ends[at]

    @cached_property
    def _nodes(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Kinds, begins, ends, and the nodes behind, of the tree."""
        table = memoryview(self.tree.nodes()).cast("I").tolist()
        return table[0::4], table[1::4], table[2::4], table[3::4]

    @cached_property
    def _scopes(self) -> tuple[list[tuple[int, int, int]], dict[tuple[int, str], Symbol]]:
        """(begin, end, scope around) of the text, each function and each block; what each scope declares."""
        kinds, begins, ends, afters = self._nodes
        scopes = [(0, len(self.raw), -1)]
        symbols: dict[tuple[int, str], Symbol] = {}
        open_scopes: list[tuple[int, int]] = [(0, len(kinds))]  # (scope, node behind it)

        def declare(kind: str, begin: int, end: int, scope: int, count: int | None = None) -> None:
            name = self.text(begin, end)
            symbols.setdefault((scope, name), Symbol(name, kind, begin, end, scope, count, self._line(begin)))

        for node in [node for node, kind in enumerate(kinds) if kind in _DECLARING]:
            while node >= open_scopes[-1][1]:
                open_scopes.pop()
            scope, kind, begin, end = open_scopes[-1][0], kinds[node], begins[node], ends[node]
            if kind in (_FUNCTION, _BLOCK):
                scopes.append((begin, end, scope))
                open_scopes.append((len(scopes) - 1, afters[node]))
            if kind == _FUNCTION:
                child = node + 1
                while child < afters[node] and kinds[child] != _NAME:
                    child = afters[child]
                if child < afters[node]:
                    declare("function", begins[child], ends[child], 0)
            elif kind == _LABEL:
                declare("label", begin, begin + len(self.raw[begin:end].rstrip(b": \t\r\n")), scope)
            elif kind == _DECLARATOR and (found := _DECLARED.match(self.raw[begin:end])):
                head = self.raw[self.raw.rfind(b".reg", max(0, begin - 200), begin) : begin]
                is_register = head.startswith(b".reg") and b";" not in head
                count = integer(found[2].decode()) if found[2] else None
                declare("register" if is_register else "variable", begin, begin + len(found[1]), scope, count)
        return scopes, symbols

    def _scope_at(self, offset: int) -> int:
        scopes = self._scopes[0]
        scope = bisect_right(scopes, offset, key=lambda each: each[0]) - 1
        while scope > 0 and offset > scopes[scope][1]:
            scope = scopes[scope][2]
        return scope

    def _resolve(self, name: str, offset: int) -> Symbol | None:
        """What a name means at a place; of a register of a range, the range."""
        scopes, symbols = self._scopes
        base = name.rstrip("0123456789")
        digits = name[len(base) :]
        is_one_of = digits and (digits == "0" or digits[0] != "0")  # %r01 is none of %r<4>
        scope = self._scope_at(offset)
        while scope >= 0:
            found = symbols.get((scope, name))
            if found is not None and (found.count is None or found.begin <= offset <= found.end):
                return found
            found = symbols.get((scope, base)) if is_one_of else None
            if found is not None and found.count is not None and int(digits) < found.count:
                return found
            scope = scopes[scope][2]
        return None

    def symbol_at(self, line: int, column: int) -> tuple[Symbol, int, int] | None:
        """What the name at a place means, and the bytes of that name."""
        piece = self.piece(self.offset(line, column))
        if piece is None or piece[0] not in ("reg", "name", "label", "function"):
            return None
        _, begin, end = piece
        found = self._resolve(self.text(begin, end), begin)
        return None if found is None else (found, begin, end)

    def references(self, symbol: Symbol) -> list[tuple[int, int]]:
        """The bytes of each name that means the symbol, its declaration first or among them."""
        scope_begin, scope_end, _ = self._scopes[0][symbol.scope]
        found = []
        for kind, begin, end in zip(*self._pieces, strict=True):
            if not scope_begin <= begin < scope_end or PIECES[kind] not in ("reg", "name", "label", "function"):
                continue
            name = self.text(begin, end)
            if name.startswith(symbol.name) and self._resolve(name, begin) == symbol:
                found.append((begin, end))
        return found

    def renamed(self, line: int, column: int, new: str) -> list[tuple[int, int, str]]:
        """The edits (begin, end, text) that give the name at a place another one; ValueError says why not."""
        found = self.symbol_at(line, column)
        if found is None:
            raise ValueError("the text declares no name here")
        symbol, begin, end = found
        if not re.fullmatch(r"[A-Za-z][\w$]*|[_$%][\w$]+", new):
            raise ValueError(f"`{new}` is no name: a letter, or one of _ $ %, then letters, digits, _ and $")
        written = self.text(begin, end)
        if symbol.count is not None and written != symbol.name:
            raise ValueError(
                f"`{written}` is one of `{symbol.name}<{symbol.count}>`: rename `{symbol.name}` where it is declared"
            )
        if new == symbol.name:
            return []
        spans = self.references(symbol)
        size = len(symbol.name.encode())
        for at, end in spans:
            taken = self._resolve(new + self.text(at + size, end), at)
            if taken is not None:
                raise ValueError(f"`{new}` is declared already, in line {self.position(taken.begin)[0] + 1}")
        edits = [(at, at + size, new) for at, _ in spans]
        before = self.diagnostics()
        after = self._with(edits).diagnostics()
        if len(after) > len(before):
            said = {each.message for each in before}
            raise ValueError(next((each.message for each in after if each.message not in said), after[0].message))
        return edits

    def _with(self, edits: list[tuple[int, int, str]]) -> Document:
        parts, last = [], 0
        for begin, end, text in sorted(edits):
            parts += [self.raw[last:begin], text.encode()]
            last = end
        return Document(b"".join([*parts, self.raw[last:]]), self.name)

    def symbols(self) -> Iterator[Symbol]:
        """All declarations, in the order of the text."""
        yield from sorted(self._scopes[1].values(), key=lambda each: each.begin)

    def scope_span(self, symbol: Symbol) -> tuple[int, int]:
        """The bytes of the function that a symbol names, or of the symbol's own line."""
        if symbol.kind == "function":
            for begin, end, around in self._scopes[0]:
                if around == 0 and begin <= symbol.begin < end:
                    return begin, end
        return symbol.begin, symbol.end

    # ---- hover and completion

    def hover(self, line: int, column: int) -> tuple[str, int, int] | None:
        """Markdown about what stands at a place, and the bytes that it is about."""
        piece = self.piece(self.offset(line, column))
        if piece is None:
            return None
        kind, begin, end = piece
        word = self.text(begin, end)
        if kind in ("opcode", "modifier"):
            mnemonic = self._mnemonic(begin)
            return None if mnemonic is None else (_page(mnemonic[0]), *mnemonic[1:])
        if kind == "number" and word[:2].lower() in ("0f", "0d"):
            digits = bytes.fromhex(word[2:])
            return f"`{word}` is {struct.unpack('>f' if len(digits) == 4 else '>d', digits)[0]!r}", begin, end
        if kind not in ("reg", "name", "label", "function"):
            return None
        found = self._resolve(word, begin)
        if found is not None:
            return f"```ptx\n{found.line}\n```\n{found.kind}, line {self.position(found.begin)[0] + 1}", begin, end
        special = _special(word)
        return None if special is None else (f"```\n{special}\n```", begin, end)

    def _mnemonic(self, offset: int) -> tuple[str, int, int] | None:
        kinds, begins, ends, _ = self._nodes
        at = bisect_right(begins, offset) - 1
        while at >= 0 and begins[at] >= offset - 200:
            if kinds[at] == _MNEMONIC and begins[at] <= offset < ends[at]:
                return re.sub(r"\s", "", self.text(begins[at], ends[at])), begins[at], ends[at]
            at -= 1
        return None

    def completions(self, line: int, column: int) -> list[Completion]:
        """What may be typed at a place."""
        at = self.offset(line, column)
        before = self.text(self._begins[min(line, len(self._begins) - 1)], at)
        if "//" in before:
            return []
        if re.search(r"%[\w.]*$", before):
            return [*self._names(at, ("register",)), *_specials()]
        statement = _STATEMENT.search(before)
        if statement:
            head, dot, _ = (statement[1] or "").rpartition(".")
            if not dot:
                return [Completion(opcode, "opcode", "") for opcode in _opcodes()]
            return [Completion(word, "modifier", "") for word in _modifiers(head)]
        return [*self._names(at, ("register", "label", "variable", "function"))]

    def _names(self, offset: int, kinds: tuple[str, ...]) -> Iterator[Completion]:
        scopes, symbols = self._scopes
        inside = set()
        scope = self._scope_at(offset)
        while scope >= 0:
            inside.add(scope)
            scope = scopes[scope][2]
        for symbol in symbols.values():
            if symbol.scope not in inside or symbol.kind not in kinds:
                continue
            if symbol.count is None:
                yield Completion(symbol.name, symbol.kind, symbol.line)
            else:
                for n in range(min(symbol.count, 64)):
                    yield Completion(f"{symbol.name}{n}", symbol.kind, symbol.line)

    # ---- the whole text

    def formatted(self) -> str | None:
        """The text in the layout of `pyptx fmt`; None where it is no PTX."""
        if self.tree.diagnostics:
            return None
        return self.tree.format().decode("utf-8", "replace")

    def semantic_tokens(self) -> list[int]:
        """Five numbers a piece, as the protocol has them: lines and columns from the piece before, length, kind, 0.

        A comment over several lines is left to the editor's grammar.
        """
        kinds, begins, ends = self._pieces
        data: list[int] = []
        starts, number, last, column = self._begins, 0, 0, 0
        lines = len(starts)
        for kind, begin, end in zip(kinds, begins, ends, strict=True):
            while number + 1 < lines and starts[number + 1] <= begin:
                number += 1
            if number + 1 < lines and end > starts[number + 1]:
                continue
            at, length = begin - starts[number], end - begin
            if not self._ascii:
                at, length = self.position(begin)[1], self.position(end)[1] - self.position(begin)[1]
            data += (number - last, at - column if number == last else at, length, kind, 0)
            last, column = number, at
        return data

    def folds(self) -> list[tuple[int, int]]:
        """First and last lines of functions, blocks and sections."""
        found = []
        for begin, end, _ in self._scopes[0][1:]:
            first, last = self.position(begin)[0], self.position(max(begin, end - 1))[0]
            if last > first:
                found.append((first, last))
        return found

    def hints(self, first: int, last: int) -> list[tuple[int, int, str]]:
        """At each label between two lines, how many registers are live there: (line, column, text)."""
        analysis = self._analysis
        found = []
        for function in range(len(analysis.functions())):
            offsets = analysis.statements(function)
            if not offsets or self.position(offsets[-1])[0] < first or self.position(offsets[0])[0] > last:
                continue
            pressures = analysis.pressures(function)
            for offset, counts in zip(offsets, pressures, strict=True):
                line = self.position(offset)[0]
                piece = self.piece(offset) if first <= line <= last else None
                if piece is not None and piece[0] == "label":
                    names = ("pred", "b16", "b32", "b64", "b128")
                    live = ", ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True) if count)
                    found.append((*self.position(piece[2] + 1), f"live: {live or 'nothing'}"))
        return found

    @cached_property
    def _analysis(self) -> _core.Analysis:
        return _core.Analysis(self.raw, self.name)


def difference(one: list[int], other: list[int]) -> tuple[int, int]:
    """How many numbers two lists share at their begin, and behind that at their end."""
    begin = _shared(one, other)
    return begin, _shared(one[: begin - 1 if begin else None : -1], other[: begin - 1 if begin else None : -1])


def _shared(one: list[int], other: list[int], part: int = 4096) -> int:
    at, most = 0, min(len(one), len(other))
    while at < most and one[at : at + part] == other[at : at + part]:
        at += part
    while at < most and one[at] == other[at]:
        at += 1
    return min(at, most)


def _encoded(text: str) -> bytes:
    """UTF-8; half of a pair of UTF-16 becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")


@cache
def _opcodes() -> list[str]:
    return sorted({form.opcode for form in _core.forms()})


@cache
def _modifiers(head: str) -> list[str]:
    """What may follow `ld.global`."""
    return sorted(_core.next_modifiers(head))


@cache
def _specials() -> list[Completion]:
    return [
        Completion(name, "register", f".{type} since {since}") for name, type, _, since in _core.special_registers()
    ]


@cache
def _special(word: str) -> str | None:
    try:
        return isa.report(word) if word.startswith("%") else None
    except LookupError:
        return None


@cache
def _page(mnemonic: str) -> str:
    try:
        lines = isa.report(mnemonic).splitlines()
    except LookupError as error:
        return str(error.args[0])
    more = [f"... `pyptx isa {mnemonic}` has the rest"] if len(lines) > _MOST_LINES else []
    return "\n".join(["```", *lines[:_MOST_LINES], "```", *more])
