"""Bodies that Python does not run as they read.

`check` finds, in the source of a body, what leaves a block of the kernel by Python's means: a `return` inside `with ptx.if_(...)`
ends the writing of the body, for every thread, and not the thread.  It also finds `ptx.if_(p)` without `with`, which writes nothing.
It looks before the body runs, because that runs through without a trace.  Functions without a source are not looked at.

`check_calls` finds what is never called, `ptx.ret` without (), in the bytecode: in helpers, too, and where there is no source.

`check_ran` refuses a body of which nothing has run, a generator or a coroutine; `check_returned` also one that returns a register.
`told` says what was wrong with the arguments of a function of the library, at the author's line.
"""

from __future__ import annotations

import ast
import bisect
import dis
import functools
import inspect
import linecache
import os
import re
import sys
import textwrap
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

from pyptx import _core
from pyptx.body.tensor_spec import TensorSpec
from pyptx.errors import AuthoringError, AuthoringTypeError

__all__ = ["check", "check_calls", "check_ran", "check_returned", "line_of_return", "told"]

_OPEN_BLOCK = 3008  # ptx/base/diagnostic.def
_NAMES = {
    name: getattr(_core, name)
    for name in ("if_", "else_", "when", "otherwise", "switch", "case", "loop", "range_", "block", "scope", "expr")
}


class _Visitor(ast.NodeVisitor):
    def __init__(self, known: dict[str, Any]):
        self._known = known
        self._blocks: list[str] = []
        self._loops: list[bool] = []  # of Python: whether it is a range_
        self.found: list[tuple[ast.stmt, str]] = []
        self.idle: list[tuple[ast.stmt, str]] = []  # what writes nothing, and why

    def _value(self, node: ast.expr) -> Any:
        """What a dotted name stands for; None for another expression."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        value = self._known.get(node.id) if isinstance(node, ast.Name) else None
        for part in reversed(parts):
            value = getattr(value, part, None)
        return value

    def _block(self, node: ast.expr) -> str | None:
        """The function of a block that is called here."""
        if not isinstance(node, ast.Call):
            return None
        value = self._value(node.func)
        return next((name for name, function in _NAMES.items() if value is function), None)

    def visit_Expr(self, node: ast.Expr):
        block = self._block(node.value)
        if block == "range_":
            self.idle.append((node, f"`ptx.{block}(...)` alone is no loop: write `for i in ptx.{block}(...):`"))
        elif block:
            self.idle.append((node, f"`ptx.{block}(...)` alone is no block: write `with ptx.{block}(...):`"))
        self.generic_visit(node)

    def _inside(self, blocks: list[str], node: ast.With | ast.For):
        self._blocks += blocks
        for statement in node.body:
            self.visit(statement)
        del self._blocks[len(self._blocks) - len(blocks) :]

    def visit_With(self, node: ast.With):
        self._inside([name for item in node.items if (name := self._block(item.context_expr))], node)

    def visit_For(self, node: ast.For):
        name = self._block(node.iter)
        self._loops.append(name is not None)
        self._inside([name] if name else [], node)
        self._loops.pop()

    def visit_While(self, node: ast.While):
        self._loops.append(False)
        self.generic_visit(node)
        self._loops.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef):
        blocks, self._blocks, loops, self._loops = self._blocks, [], self._loops, []
        for statement in node.body:
            self.visit(statement)
        self._blocks, self._loops = blocks, loops

    def visit_Return(self, node: ast.Return):
        if self._blocks:
            self.found.append((node, self._blocks[-1]))

    def visit_Break(self, node: ast.Break):
        if self._loops and self._loops[-1]:
            self.found.append((node, "range_"))


_LEAVES = re.compile(r"\b(return|break)\b")
_CALLS = re.compile(rf"\b({'|'.join(_NAMES)})\s*\(")
_OPENS = re.compile(r"\s*(with|for)\b[^#]*:\s*(#.*)?")


def _last_line(code: types.CodeType) -> int:
    inner = [_last_line(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return max([code.co_firstlineno, *inner, *(line for _, _, line in code.co_lines() if line)])


def _is_plain(code: types.CodeType) -> bool:
    """Whether each block stands behind a `with` or `for`, one in a line, and nothing leaves one: most bodies need no parsing."""
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : _last_line(code)]
    for line in lines:
        calls = len(_CALLS.findall(line))
        if _LEAVES.search(line) or calls > 1 or (calls and not _OPENS.fullmatch(line.rstrip())):
            return False
    return bool(lines)


@functools.lru_cache(1024)
def _found(code) -> tuple[str, int, list[str]] | None:
    """File, first line, lines of source; None where there is no block, nothing that could leave one, or no source."""
    if not _NAMES.keys() & {*code.co_names, *code.co_freevars} or _is_plain(code):
        return None
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return None
    return code.co_filename, first, lines


def check(function):
    """Refuses a body that leaves a block in this way, at its line."""
    check_calls(function)
    source = _found(function.__code__)
    if source is None:
        return
    file, first, lines = source
    try:
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except SyntaxError:  # a lambda within an expression
        return
    visitor = _Visitor({**function.__globals__, **inspect.getclosurevars(function).nonlocals})
    visitor.visit(tree)
    for node, block in visitor.found:
        word = type(node).__name__.lower()
        keyword = "for ... in" if block == "range_" else "with"
        instead = "ptx.ret()" if word == "return" else "ptx.bra(label)"
        ends = f"`{word}` inside `{keyword} ptx.{block}(...)` ends the writing of the kernel there, for every thread"
        _refuse(file, first + node.lineno - 1, f"{ends}; what a thread does is {instead}")
    for node, why in visitor.idle:
        _refuse(file, first + node.lineno - 1, why)


_NO_CODE = bytes([dis.opmap.get("CACHE", 0)])
_BARE = bytes([dis.opmap["LOAD_ATTR"], dis.opmap["POP_TOP"]])


@functools.lru_cache(1024)
def _bare(code: types.CodeType) -> tuple[tuple[int, list[str]], ...]:
    """Lines and names of the statements `a.b.c` of a function and of those inside it."""
    inner = [each for constant in code.co_consts if isinstance(constant, types.CodeType) for each in _bare(constant)]
    if _BARE not in code.co_code[::2].replace(_NO_CODE, b""):
        return tuple(inner)
    return (*_statements(code), *inner)


def _statements(code: types.CodeType) -> Iterator[tuple[int, list[str]]]:
    starts, lines = zip(*((start, line) for start, line in dis.findlinestarts(code) if line), strict=True)
    names: list[str] = []
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_ATTR":
            names.append(step.argval)
        elif step.opname == "POP_TOP" and len(names) > 1:
            yield lines[bisect.bisect_right(starts, step.offset) - 1], names
        if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
            names = [step.argval]
        elif step.opname not in ("LOAD_ATTR", "CACHE", "EXTENDED_ARG"):
            names = []


def check_calls(function: types.FunctionType):
    """Refuses an instruction that is named and not called, at its line."""
    if not (found := _bare(function.__code__)):
        return
    known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    for line, (root, *parts) in found:
        value = known.get(root)
        if value is None or (value is not _core.inst and value is not sys.modules.get("pyptx.ptx")):
            continue
        if callable(functools.reduce(lambda value, part: getattr(value, part, None), parts, value)):
            spelled = ".".join((root, *parts))
            _refuse(function.__code__.co_filename, line, f"`{spelled}` alone writes nothing: it is called, with ()")


def _refuse(file: str, line: int, message: str):
    diagnostic = _core.Diagnostic(_OPEN_BLOCK, file, line, message)
    raise AuthoringError(str(diagnostic), [diagnostic])


def check_returned(result: Any, function: Callable, name: str):
    """Refuses what a body returns as its result, which nobody gets."""
    check_ran(result, function, name)
    if isinstance(result, (_core.Reg, _core.RegArray, TensorSpec)) and function.__name__ != "<lambda>":
        code = function.__code__
        why = (
            f"the body of {name} returns {result!r}, which is lost: a kernel stores its results into its outputs, "
            "which are parameters of the body, one for each of out_specs"
        )
        diagnostic = _core.Diagnostic(_WRONG_ARGUMENT, code.co_filename, line_of_return(code), why)
        raise AuthoringTypeError(str(diagnostic), [diagnostic])


def line_of_return(code: types.CodeType) -> int:
    """The line of the last `return` with a value; that of the function where the bytecode does not say."""
    lines = {start: line for start, _, line in code.co_lines() if line}
    line, found, before = code.co_firstlineno, code.co_firstlineno, None
    for step in dis.get_instructions(code):
        line = lines.get(step.offset, line)
        if step.opname == "RETURN_VALUE" and not (before and before.opname == "LOAD_CONST" and before.argval is None):
            found = line
        before = step
    return found


def check_ran(result: Any, function: Callable, name: str):
    """Refuses what a body returned if that is the body itself, still to be run."""
    if not isinstance(result, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
        return
    kind = "a generator" if isinstance(result, types.GeneratorType) else "`async`"
    if isinstance(result, types.CoroutineType):
        result.close()  # else Python warns that nobody awaited it
    why = f"the body of {name} is {kind}, so none of it has run: write it without `yield` and `async`"
    code = inspect.unwrap(function).__code__
    diagnostic = _core.Diagnostic(_WRONG_ARGUMENT, code.co_filename, code.co_firstlineno, why)
    raise AuthoringTypeError(str(diagnostic), [diagnostic])


_WRONG_ARGUMENT = 3001  # ptx/base/diagnostic.def
_MISFIT = re.compile(
    r"(\w+)\(\): incompatible function arguments\..*?\n    1\. \w+(\(.*?\))(?: -> [^\n]*)?\n.*Invoked with types: (.*)",
    re.S,
)
_COMMA = re.compile(r",(?![^\[]*\])")  # not those of `tuple[int, ...]`
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def told(error: TypeError) -> AuthoringTypeError | None:
    """What the library says of arguments that do not fit a function, as an error at the author's line; None for another error."""
    found = _MISFIT.match(str(error))
    said = _of_python(str(error)) if found is None else None
    if found is None and said is None:
        return None
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [place for place in places if not place[0].startswith(_PACKAGE)] or places
    if found is None:
        diagnostic = _core.Diagnostic(_WRONG_ARGUMENT, *own[-1], said)
        return AuthoringTypeError(str(diagnostic), [diagnostic])
    name, legal, given = found.groups()
    name = name.replace("smem_", "smem.", 1)
    for long, short in (("pyptx._core.", ""), ("collections.abc.", ""), ("NoneType", "None"), ("self, ", "")):
        legal, given = legal.replace(long, short), given.replace(long, short)
    diagnostic = _core.Diagnostic(_WRONG_ARGUMENT, *own[-1], _misfit(name, legal.strip("()"), given.strip()))
    return AuthoringTypeError(str(diagnostic), [diagnostic])


_OPERANDS = re.compile(r"unsupported operand type\(s\) for (\S+?)(?: or .*)?: '(.+)' and '(.+)'")
_ORDER = re.compile(r"'(\S+)' not supported between instances of '(.+)' and '(.+)'")
_NO_PARTS = re.compile(
    r"(?:object of type )?'(?:pyptx\._core\.)?(Reg|TensorSpec)' (?:object is not iterable|has no len\(\))"
)


_BY_NAME = re.compile(r"(TensorCopy\.(\w+))\(\) takes 1 positional argument but \d+ were given")


def _of_python(text: str) -> str | None:
    """What Python says of a register or tensor where a number or a list is meant, in other words; None for anything else."""
    if found := _BY_NAME.fullmatch(text):
        from pyptx.compat.copies import TensorCopy  # not by `import pyptx.body`, which it uses

        names = list(inspect.signature(getattr(TensorCopy, found[2])).parameters)[1:]
        return f"a tensor copy takes its arguments by name: {', '.join(f'{name}=' for name in names)}"
    if text.startswith("operand 'pyptx._core.Reg' does not support ufuncs"):
        return "a register has no value while the kernel is written: instructions compute with it, ptx.inst.ex2.approx.f32(d, x)"
    if found := _NO_PARTS.fullmatch(text):
        if found[1] == "TensorSpec":
            return "a tensor of a kernel is no sequence: X.shape has its sizes, `p, = ptx.global_ptrs(X)` its address"
        return (
            "a register holds one value and is no sequence: reg.array(f32, n) has n registers, and a loop of the kernel is "
            "`for i in ptx.range_(n):`"
        )
    found = _OPERANDS.fullmatch(text) or _ORDER.fullmatch(text)
    if found and "pyptx._core.AddressOperand" in found.groups():
        return "an address, ptx.addr(base, bytes), is no number: its second argument is what is added"
    others = [kind for kind in found.groups()[1:] if kind != "pyptx._core.Reg"] if found else []
    if found is None or len(others) != 1:
        return None
    if others[0] == "_Shape":
        return (
            f"`{found[1]}` beside a register takes a register or a number, not a shape: X.shape[0] is one of its sizes"
        )
    return f"`{found[1]}` beside a register takes a register or a number, not {others[0]}"


def _misfit(name: str, legal: str, given: str) -> str:
    """Which argument does not fit: `legal` is `count: int, *, name: str | None = None`, `given` is `str, kwargs = { name: int }`."""
    parts = [part.strip() for part in _COMMA.split(legal) if part.strip() not in ("", "/")]
    behind = parts.index("*") if "*" in parts else len(parts)
    if any(part.startswith("*") and part != "*" for part in parts):  # of *values there may be any number
        behind, parts = sys.maxsize, [part for part in parts if part == "*" or not part.startswith("*")]
    taken = {part.partition(":")[0]: part.partition(":")[2].partition("=") for part in parts if part and part != "*"}
    positional, _, keywords = given.partition("kwargs = {")
    types = [kind.strip() for kind in _COMMA.split(positional.strip(" ,")) if kind.strip()]
    arguments = dict(zip(list(taken)[:behind], types, strict=False))
    arguments |= (_pair(pair) for pair in _COMMA.split(keywords.strip(" }")) if pair.strip())
    known = ", ".join(taken) or "none"
    if len(types) > behind:
        return f"{name} takes {behind} arguments by position, not {len(types)}; its arguments: {known}"
    for argument, kind in arguments.items():
        if argument not in taken:
            return f"{name} has no argument `{argument}`; its arguments: {known}"
        wanted = taken[argument][0].strip()
        if kind == "None" and "None" not in wanted:
            return f"{name}: `{argument}` must not be None; its arguments: {known}"
        if not {kind, "object"} & {one.strip().partition("[")[0] for one in wanted.split("|")}:
            return f"{name}: `{argument}` is {wanted}, not {kind}"
    missing = [argument for argument, (_, equals, _) in taken.items() if not equals and argument not in arguments]
    if missing:
        return f"{name} needs `{missing[0]}`; its arguments: {known}"
    limits = {"int": "an int that fits where it is stored (negative, or too large)", "str": "a str that UTF-8 can say"}
    beyond = [
        f"`{argument}` is not {limits[kind]}"
        for argument, kind in arguments.items()
        if kind in limits and "object" not in taken[argument][0]
    ]
    return f"{name}: {' or '.join(beyond) or f'({given}) does not fit'}; its arguments: {known}"


def _pair(text: str) -> tuple[str, str]:
    name, _, kind = text.partition(":")
    return name.strip(), kind.strip()
