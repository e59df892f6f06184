"""Comparison of modules under the names of pyptx 0.1.1.  `pyptx diff` compares by meaning, up to names."""

from __future__ import annotations

from itertools import zip_longest

from pyptx import _core
from pyptx.ir.nodes import Function, Module

__all__ = ["diff_modules", "normalize_module"]


def normalize_module(module: Module) -> Module:
    """The module as the library writes one: without comments, its layout not the author's.

    Example:
        module = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() {\\n  ret; // done\\n}\\n")
        assert "done" not in str(pyptx.ir.normalize.normalize_module(module))
    """
    return Module(_core.module_text_of(bytes(module)))


def diff_modules(a: Module, b: Module, entry_only: bool = False) -> list[str]:
    """Where two modules differ, but for comments and layout; [] where they are equal.  Names count.

    `entry_only`: kernels alone, without the functions and variables beside them.

    Example:
        a = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { ret; }\\n")
        b = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { exit; }\\n")
        assert pyptx.ir.normalize.diff_modules(a, b) == ["func[0] (k): `ret;` is `exit;`"]
    """
    a, b = normalize_module(a), normalize_module(b)
    said = []
    for name in ("version", "target", "address_size"):
        left, right = getattr(a, name), getattr(b, name)
        if left != right:
            said.append(f"{name}: {left} is {right}")
    sides = [[f for f in m.functions if f.is_entry or not entry_only] for m in (a, b)]
    if len(sides[0]) != len(sides[1]):
        said.append(f"function count: {len(sides[0])} is {len(sides[1])}")
    for i, (f, g) in enumerate(zip(*sides, strict=False)):
        said += [f"func[{i}] ({f.name}): {one}" for one in _lines(str(f), str(g))]
    if not entry_only:
        beside = ["\n".join(str(item) for item in m.items if not isinstance(item, Function)) for m in (a, b)]
        said += [
            f"module: {one}" for one in _lines(*beside) if not one.startswith(("`.version", "`.target", "`.address"))
        ]
    return said


def _lines(a: str, b: str) -> list[str]:
    """The first line that differs."""
    for left, right in zip_longest(a.split("\n"), b.split("\n"), fillvalue="(the end)"):
        if left.strip() != right.strip():
            return [f"`{left.strip()}` is `{right.strip()}`"]
    return []
