"""Bodies that Python does not run as they read.

`check` finds, in the source of a body, what leaves a block of the kernel by Python's means: a `return` inside `with ptx.if_(...)`
ends the writing of the body, for every thread, and not the thread.  It looks before the body runs, because that runs through without
a trace.  Functions without a source are not looked at.

`check_ran` refuses a body of which nothing has run: a generator, a coroutine.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from typing import Any

from pyptx import _core
from pyptx.errors import AuthoringError, AuthoringTypeError

__all__ = ["check", "check_ran"]

_OPEN_BLOCK = 3008  # ptx/base/diagnostic.def
_NAMES = {
    name: getattr(_core, name) for name in ("if_", "else_", "when", "otherwise", "switch", "case", "loop", "range_")
}


class _Visitor(ast.NodeVisitor):
    def __init__(self, known: dict[str, Any]):
        self._known = known
        self._blocks: list[str] = []
        self._loops: list[bool] = []  # of Python: whether it is a range_
        self.found: list[tuple[ast.stmt, str]] = []

    def _block(self, node: ast.expr) -> str | None:
        """The function of a block that is called here."""
        if not isinstance(node, ast.Call):
            return None
        called, parts = node.func, []
        while isinstance(called, ast.Attribute):
            parts.append(called.attr)
            called = called.value
        value = self._known.get(called.id) if isinstance(called, ast.Name) else None
        for part in reversed(parts):
            value = getattr(value, part, None)
        return next((name for name, function in _NAMES.items() if value is function), None)

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


@functools.lru_cache(1024)
def _found(code) -> tuple[str, int, list[str]] | None:
    """File, first line, lines of source; None where there is no block or no source."""
    if not _NAMES.keys() & {*code.co_names, *code.co_freevars}:
        return None
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return None
    return code.co_filename, first, lines


def check(function):
    """Refuses a body that leaves a block in this way, at its line."""
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
        diagnostic = _core.Diagnostic(
            _OPEN_BLOCK,
            file,
            first + node.lineno - 1,
            f"`{word}` inside `{keyword} ptx.{block}(...)` ends the writing of the kernel there, for every thread; what a "
            f"thread does is {instead}",
        )
        raise AuthoringError(str(diagnostic), [diagnostic])


def check_ran(result: Any, name: str):
    """Refuses what a body returned if that is the body itself, still to be run."""
    if not isinstance(result, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
        return
    kind = "a generator" if isinstance(result, types.GeneratorType) else "`async`"
    if isinstance(result, types.CoroutineType):
        result.close()  # else Python warns that nobody awaited it
    raise AuthoringTypeError(
        f"the body of {name} is {kind}, so none of it has run: write it without `yield` and `async`"
    )
