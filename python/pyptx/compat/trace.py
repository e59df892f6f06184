"""What programs of pyptx 0.1.1 read and write of a trace: `statements`, `reg_decls`, `var_decls`, `body()`, `emit(statement)`, ...

A trace keeps no objects of Python.  A list is read off the text that is written so far, when it is asked for; to append to it is to
write a statement.  A statement that stands is not changed or removed by its list: `Kernel.rewritten` edits the finished text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from pyptx import _core
from pyptx.errors import AuthoringRuntimeError, AuthoringTypeError

if TYPE_CHECKING:
    from pyptx import ir

__all__ = ["Written", "add_to"]

_STANDS = 3003  # ptx/base/diagnostic.def


class Written(list[Any]):
    """Statements of a trace.  `append` and `extend` write others; nothing else changes them."""

    _added = False

    def append(self, node: Any) -> None:
        emit(None, node)
        super().append(node)

    def extend(self, nodes: Iterable[Any]) -> None:
        for node in nodes:
            self.append(node)

    def __iadd__(self, nodes: Iterable[Any]) -> Written:  # type: ignore[misc]
        self.extend(nodes)
        self._added = True  # for `ctx.statements += nodes`, which assigns what this returns
        return self

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        message = (
            "what a trace has written stands: append() and emit() write more; statements are changed and removed in the "
            "finished text, by Kernel.rewritten"
        )
        found = _core.Diagnostic(_STANDS, *_core.author_place(), message)
        raise AuthoringRuntimeError(str(found), [found])

    insert = pop = remove = clear = reverse = sort = _refuse
    __setitem__ = __delitem__ = __imul__ = _refuse


def _lines(node: Any) -> Iterator[str]:
    """A node of pyptx.ir as lines of text."""
    from pyptx.ir import compat, statements

    if isinstance(node, (str, statements.Statement)):
        yield str(node)
    elif isinstance(node, compat.Comment):
        yield node.text if node.text.startswith("//") else f"// {node.text}"
    elif isinstance(node, compat.CompoundExpr):
        for each in node.instructions:
            yield from _lines(each)
    elif isinstance(node, (compat.Block, compat.IntrinsicScope)):
        around = (
            ("{", "}")
            if isinstance(node, compat.Block)
            else (f"// BEGIN {node.name}({node.args_repr})", f"// END {node.name}")
        )
        yield around[0]
        for each in node.body:
            yield from _lines(each)
        yield around[1]
    elif not isinstance(node, compat.BlankLine):
        raise AuthoringTypeError(f"a trace is given statements of pyptx.ir, or their text, not {node!r}")


def emit(trace: Any, node: Any) -> None:
    """Writes a statement of `pyptx.ir`, or its text, into the kernel that is being traced."""
    _core.inst._raw_emit("\n".join(_lines(node)))


def _body(trace: Any) -> tuple[list[ir.Statement], list[ir.Statement], list[ir.Statement]]:
    """Declarations of registers and of variables, but for those in a block, and everything else."""
    from pyptx import ir

    text, still_open = trace.written
    body = ir.Module(text).functions[-1].body
    registers: list[ir.Statement] = []
    variables: list[ir.Statement] = []
    others: list[ir.Statement] = []
    depth = 0
    for each in body[: len(body) - still_open]:
        depth += (str(each) == "{") - (str(each) == "}")
        chosen = registers if isinstance(each, ir.RegDecl) else variables if isinstance(each, ir.VarDecl) else others
        (others if depth else chosen).append(each)
    return registers, variables, others


def _version(trace: Any) -> tuple[int, int]:
    """The version that was asked for; else the first that has the target and what is written so far."""
    if any(trace.asked_version):
        return trace.asked_version
    head = trace.written[0].partition("\n")[0].removeprefix(".version ")
    major, minor = head.split(".")
    return int(major), int(minor)


def _part(at: int) -> property:
    """A list of `_body`, which takes only what `+=` assigns."""

    def assign(trace: Any, nodes: Any) -> None:
        if not (isinstance(nodes, Written) and nodes._added):
            Written()._refuse()
        nodes._added = False

    return property(lambda trace: Written(_body(trace)[at]), assign)


def _set_offset(trace: Any, offset: int) -> NoReturn:
    raise AttributeError("dyn_smem_offset follows from the allocations: smem.alloc(b8, n) takes n bytes more")


def add_to(trace: Any) -> None:
    """Gives the class of traces these attributes."""
    trace.reg_decls, trace.var_decls, trace.statements = map(_part, range(3))
    trace.body = lambda self: tuple(each for part in _body(self) for each in part)
    trace.emit = trace.emit_reg_decl = emit
    trace.ptx_version = property(_version)
    trace.dyn_smem_offset = property(lambda self: self.shared_bytes, _set_offset)
    trace.fresh_label = lambda self, prefix="L": _core.fresh_label(prefix)
    trace.validation_issues = property(lambda self: [])  # what is illegal was refused where it was written
