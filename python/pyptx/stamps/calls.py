"""Device functions in the copy of a kernel: how they are told where a thread's next record goes.

A kernel keeps that address in a register.  Around a call it lies in 8 bytes of the thread's local memory, whose address is one argument
more.  Functions whose address is taken, with parameters in registers or of any length, or called by one that has no such argument stay as
they are.
"""

from __future__ import annotations

import re

from pyptx import ir

__all__ = ["CELL", "followed", "targets", "with_cell", "with_cell_given", "without_other_kernels"]

CELL = "pyptx_cell"


def targets(function: ir.Function) -> list[tuple[ir.Instruction, str]]:
    """Calls of functions by their names."""
    made = []
    for each in function.instructions if function.body else ():
        if each.opcode == "call":
            names = [str(operand) for operand in each.operands if not str(operand).startswith("(")]
            if len(names) == 1 and not names[0].startswith("%"):
                made.append((each, names[0]))
    return made


def without_other_kernels(module: ir.Module, kernel: ir.Function) -> None:
    """The other kernels of a module go, but for those that something names: they call functions, and have no such 8 bytes."""
    text = _text(module)
    for each in module.functions:
        if each.is_entry and each is not kernel and _count(each.name, text) == 1:
            each.remove()


def followed(module: ir.Module, entry: str, has_places) -> list[ir.Function]:
    """Functions that are told, in the module's order: those with places of their own, and those that lead to one."""
    bodies = [each for each in module.functions if each.body]
    calls = {each.name: {name for _, name in targets(each)} for each in bodies}
    text = _text(module)
    fit = {each.name for each in bodies if _fits(each, text, module)}
    while lost := {name for name in fit for by in calls if name in calls[by] and by not in fit and by != entry}:
        fit -= lost
    found = {each.name for each in bodies if each.name in fit and has_places(each)}
    while more := {name for name in fit - found if calls[name] & found}:
        found |= more
    return [each for each in bodies if each.name in found]


def _fits(function: ir.Function, text: str, module: ir.Module) -> bool:
    head = _head(function.name).search(function.head)
    if head is None or ".reg" in (head[3] or "") or "[]" in (head[3] or ""):
        return False
    called = sum(name == function.name for each in module.functions for _, name in targets(each))
    declared = sum(each.name == function.name for each in module.functions)
    return _count(function.name, text) == called + declared


def _text(module: ir.Module) -> str:
    return re.sub(r'"[^"]*"', "", str(module))  # without the names of places


def _count(name: str, text: str) -> int:
    return len(re.findall(rf"(?<![\w$%]){re.escape(name)}(?![\w$])", text))


def _head(name: str) -> re.Pattern[str]:
    return re.compile(rf"\.func\s*(\([^()]*\)\s*)?({re.escape(name)})(?![\w$])\s*(\([^()]*\))?")


def with_cell(head: str, name: str) -> str:
    """The head of a .func with one parameter more."""
    found = _head(name).search(head)
    assert found is not None, head
    inside = (found[3] or "()")[1:-1].strip()
    more = ",\n\t".join([*([inside] if inside else []), f".param .b64 {CELL}"])
    return f"{head[: found.end(2)]}(\n\t{more}\n){head[found.end() :]}"


def with_cell_given(call: str, name: str, cell: str) -> str:
    """A call with one argument more."""
    found = re.search(rf"(?<![\w$%]){re.escape(name)}(?![\w$])\s*(,\s*\(([^()]*)\))?", call)
    assert found is not None, call
    given = (found[2] or "").strip()
    return f"{call[: found.start()]}{name}, ({given + ', ' if given else ''}{cell}){call[found.end() :]}"
