"""What the author calls registers: `row` of `row = tid * 4 + base`, `acc[3]` of `acc = reg.array(f32, 64)`.

A trace keeps of each register only which instruction of which code object asked for it, and which one had it as an operand first.  When
a message or the debugger wants a name, the positions of these instructions lead to expressions of the source: what the first is assigned
to is the name, else what the second calls its operand.  The source counts only if it compiles to the very code that ran.  A register whose
name is not certain has none.
"""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

__all__ = ["names"]

_OPERATOR, _INDEX, _LOOP = "+", "[", ":"  # what gave a register and is no call (python/src/trace.h)
_OPERAND = "("  # in front of what has a register as an operand
_FRESH = {"scalar", "array", "alloc", "alloc_array", "from_", "wgmma_frag"}  # each call of these gives a new register
_KEPT = 64  # files

# A part of a path from a name to a register: an index, a key, or the turns of a comprehension: how many, if that is known.
_Part = int | str | tuple[int | None]


def names(rows: Iterable[tuple]) -> list[str]:
    """The name of each register of `_core.MadeRegisters.rows`, array by array; "" where there is none.

    Registers of one name in one function are "row #1", "row #2" in the order in which the author's program made them.
    """
    labels: list[tuple[str, str]] = []
    reader, turns = _Reader(), Counter[Any]()
    known: set[tuple] = set()  # registers whose making told their names
    for function, base, index, count, array, element, code, offset, by, called, _, _ in rows:
        if by.startswith(_OPERAND):
            told = (function, base, index) in known
            labels.append((function, "" if told else reader.operand(code, offset, by[1:], element)))
            continue
        found = None if called else reader.targets(code, offset, by)
        turn = turns[function, id(code), offset]
        if element <= 0:
            turns[function, id(code), offset] += 1
        else:
            turn -= 1  # of the call that gave the first
        for i in range(count):
            given = ((element,) if element >= 0 else ()) + ((i,) if array else ())
            label = called or (_label(*found, given, turn, by) if found else "")
            labels.append((function, label))
            if label:
                known.add((function, base, index + i))
    many, met = Counter(labels), Counter[tuple[str, str]]()
    made = []
    for each in labels:
        met[each] += 1
        made.append(f"{each[1]} #{met[each]}" if each[1] and many[each] > 1 else each[1])
    return made


def _label(targets: list[ast.expr], path: tuple[_Part, ...], given: tuple[int, ...], turn: int, by: str) -> str:
    """What the first target that has a name calls what is reached by a path from its value."""
    known: list[int | str] = []
    for part in reversed(path):
        if not isinstance(part, tuple):
            known.insert(0, part)
        elif part[0] is not None and by in _FRESH:
            known.insert(0, turn % part[0])
            turn //= part[0]
        else:  # which turn it is cannot be told: the order has to do
            return next((label for each in targets if (label := _spelled(each))), "")
    return next((label for each in targets if (label := _reached(each, (*known, *given)))), "")


def _reached(target: ast.expr, path: tuple[int | str, ...]) -> str:
    if isinstance(target, (ast.Tuple, ast.List)):
        if not path or not isinstance(path[0], int) or any(isinstance(each, ast.Starred) for each in target.elts):
            return ""
        return _reached(target.elts[path[0]], path[1:]) if path[0] < len(target.elts) else ""
    label = _spelled(target)
    return label and label + "".join(f"[{part}]" for part in path)


def _spelled(target: ast.expr) -> str:
    """A name, or attributes of one."""
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute) and (of := _spelled(target.value)):
        return f"{of}.{target.attr}"
    return ""


class _Source:
    """The syntax of a file, and the code objects that it compiles to."""

    def __init__(self, text: str, file: str):
        self.tree = ast.parse(text, file)
        self._codes: dict[tuple[str, int], list[CodeType]] = {}
        for code in _codes(compile(self.tree, file, "exec", dont_inherit=True)):
            self._codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.ends: dict[tuple[int, int], ast.AST] = {}  # calls and subscripts; no two of them end at one place
        self.spans: dict[tuple[int, int, int, int], ast.AST] = {}  # operators
        # By their own span, which Python 3.11 has, and by that of what they run over.
        self.loops: dict[tuple[int, int, int, int], ast.For] = {}
        self.bound: set[str] = set()
        self.modules: set[str] = set()  # names of pyptx.ptx
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            self._note(node)

    def _note(self, node: ast.AST):
        if isinstance(node, (ast.Call, ast.Subscript)):
            self.ends[node.end_lineno or 0, node.end_col_offset or 0] = node
        elif isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.AugAssign)):
            self.spans[_span(node)] = node
        elif isinstance(node, ast.For):
            self.loops[_span(node)] = self.loops[_span(node.iter)] = node
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)
        elif isinstance(node, ast.arg):
            self.bound.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.bound.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for each in node.names:
                of_ptx = isinstance(node, ast.ImportFrom) and (node.module, each.name) == ("pyptx", "ptx")
                (self.modules if of_ptx else self.bound).add((each.asname or each.name).partition(".")[0])

    def compiles_to(self, code: CodeType) -> bool:
        return any(_same(code, one) for one in self._codes.get((code.co_name, code.co_firstlineno), ()))

    def expression(self, position: tuple, by: str) -> ast.AST | None:
        """What stands there, if that is something that may have given a register so."""
        line, end_line, column, end_column = position
        span = line, column, end_line, end_column
        if by == _LOOP:
            loop = self.loops.get(span)
            return loop if loop and isinstance(loop.iter, ast.Call) and _callee(loop.iter) == "range_" else None
        if by == _OPERATOR:
            node = self.spans.get(span)
            matrix = isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult)
            return None if matrix else node  # of another library's arrays, which adds up
        node = self.ends.get((end_line, end_column))
        if by == _INDEX:
            return node if isinstance(node, ast.Subscript) else None
        if not isinstance(node, ast.Call):
            return None
        if not by:  # an instruction
            return node if self.is_instruction(node.func) else None
        callee = _callee(node)
        version = by.removeprefix(f"{callee}_")  # a function that has several, one for each of its template values
        return (
            node if callee and (callee.rstrip("_") == by.rstrip("_") or (version != by and version.isdigit())) else None
        )

    def is_builtin(self, node: ast.AST, *words: str) -> bool:
        return isinstance(node, ast.Name) and node.id in words and node.id not in self.bound

    def is_instruction(self, func: ast.expr) -> bool:
        """ptx.inst..., which returns its first operand."""
        chain = []
        while isinstance(func, ast.Attribute):
            chain.append(func.attr)
            func = func.value
        known = isinstance(func, ast.Name) and func.id in self.modules - self.bound
        return known and len(chain) > 1 and chain[-1] == "inst"


def _callee(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _span(node: Any) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _same(one: CodeType, other: CodeType) -> bool:
    return all(
        getattr(one, part) == getattr(other, part)
        for part in ("co_code", "co_linetable", "co_names", "co_varnames", "co_freevars", "co_cellvars")
    )


_sources: dict[str, tuple[list[str], _Source | None]] = {}


def _source(file: str) -> _Source | None:
    linecache.checkcache(file)
    lines = linecache.getlines(file)
    known = _sources.get(file)
    if known is not None and known[0] == lines:
        return known[1]
    try:
        made = _Source("".join(lines), file) if lines else None
    except (SyntaxError, ValueError, RecursionError):
        made = None
    while len(_sources) >= _KEPT:
        del _sources[next(iter(_sources))]
    _sources[file] = lines, made
    return made


class _Reader:
    """Expressions of code objects, by the offsets of their instructions."""

    def __init__(self):
        self._known: dict[int, tuple[_Source, list[tuple]] | None] = {}

    def _expression(self, code: CodeType | None, offset: int, by: str) -> tuple[_Source, ast.AST] | None:
        if id(code) not in self._known:
            self._known[id(code)] = _read(code)
        found = self._known[id(code)]
        if found is None or offset // 2 >= len(found[1]):
            return None
        position = found[1][offset // 2]
        node = None if None in position else found[0].expression(position, by)
        return None if node is None else (found[0], node)

    def targets(self, code: CodeType | None, offset: int, by: str) -> tuple[list[ast.expr], tuple[_Part, ...]] | None:
        """Targets of an assignment, and the path from its value to what the instruction gave."""
        found = self._expression(code, offset, by)
        if found is None:
            return None
        source, node = found
        return ([node.target], ()) if isinstance(node, (ast.AugAssign, ast.For)) else _climb(source, node)

    def operand(self, code: CodeType | None, offset: int, by: str, index: int) -> str:
        """The name of what a call or an operator has as an operand."""
        found = self._expression(code, offset, by)
        node = found and found[1]
        if isinstance(node, ast.BinOp):
            return _spelled((node.left, node.right)[index])
        if isinstance(node, ast.Call) and index < len(node.args):
            return (
                "" if any(isinstance(each, ast.Starred) for each in node.args[:index]) else _spelled(node.args[index])
            )
        return ""


def _read(code: CodeType | None) -> tuple[_Source, list[tuple]] | None:
    if not hasattr(code, "co_positions"):  # Python 3.10, or nobody knows the code
        return None
    source = _source(code.co_filename)
    return (source, list(code.co_positions())) if source is not None and source.compiles_to(code) else None


def _climb(source: _Source, node: ast.AST) -> tuple[list[ast.expr], tuple[_Part, ...]] | None:
    path: tuple[_Part, ...] = ()
    always = True  # evaluated at each turn
    while True:
        parent = source.parents[node]
        if isinstance(parent, ast.Assign):
            return parent.targets, path
        if isinstance(parent, (ast.AnnAssign, ast.NamedExpr)):
            return [parent.target], path
        step = _step(source, parent, node)
        if step is None:
            return None
        node, part = step
        always = always and not isinstance(node, ast.IfExp)
        if part is not None:
            path = (part if always or not isinstance(part, tuple) else (None,), *path)


def _step(source: _Source, parent: ast.AST, node: ast.AST) -> tuple[ast.AST, _Part | None] | None:
    """The next larger expression whose value is, or holds, that of `node`, and where; None: there is none."""
    if isinstance(parent, ast.IfExp) and node is not parent.test:
        return parent, None
    if isinstance(parent, (ast.Tuple, ast.List)):
        index = parent.elts.index(node)
        return None if any(isinstance(each, ast.Starred) for each in parent.elts[:index]) else (parent, index)
    if isinstance(parent, ast.Dict) and node in parent.values:
        key = parent.keys[parent.values.index(node)]
        return (parent, repr(key.value)) if isinstance(key, ast.Constant) else None
    if isinstance(parent, ast.ListComp) and parent.elt is node:
        return parent, (_turns(source, parent),)
    if isinstance(parent, ast.GeneratorExp) and parent.elt is node:
        call = source.parents[parent]
        held = isinstance(call, ast.Call) and source.is_builtin(call.func, "list", "tuple") and len(call.args) == 1
        return (call, (_turns(source, parent),)) if held else None
    if isinstance(parent, ast.DictComp) and parent.value is node:
        return parent, (None,)
    return _same_register(source, parent, node)


def _same_register(source: _Source, parent: ast.AST, node: ast.AST) -> tuple[ast.AST, None] | None:
    """a.as_(s32) and ptx.inst.mov.u32(a, b), which are a."""
    call = source.parents.get(parent)
    if (
        isinstance(parent, ast.Attribute)
        and parent.attr == "as_"
        and isinstance(call, ast.Call)
        and call.func is parent
    ):
        return call, None
    if isinstance(parent, ast.Call) and parent.args[:1] == [node] and source.is_instruction(parent.func):
        return parent, None
    return None


def _turns(source: _Source, node: ast.ListComp | ast.GeneratorExp) -> int | None:
    """How often its element is evaluated."""
    loop = node.generators[0]
    if len(node.generators) > 1 or loop.ifs or loop.is_async:
        return None
    over = loop.iter
    if isinstance(over, (ast.Tuple, ast.List)):
        return None if any(isinstance(each, ast.Starred) for each in over.elts) else len(over.elts) or None
    if not isinstance(over, ast.Call) or not source.is_builtin(over.func, "range") or over.keywords:
        return None
    numbers = [each.value for each in over.args if isinstance(each, ast.Constant) and type(each.value) is int]
    try:
        return len(range(*numbers)) or None if len(numbers) == len(over.args) else None
    except (TypeError, ValueError):
        return None
