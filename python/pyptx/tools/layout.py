"""`pyptx fmt`: PTX text in one layout."""

from __future__ import annotations

import difflib

from pyptx import _core

__all__ = ["difference", "formatted", "module"]


def formatted(source: bytes, file: str = "") -> tuple[bytes, list[_core.Diagnostic]]:
    """The text in the layout, and where it is no PTX: such a statement stays as it stands."""
    tree = _core.parse(source, file)
    return tree.format(), tree.diagnostics


def module(source: bytes) -> bytes:
    """The module as the library writes it, which is what a program of `pyptx transpile` without sugar prints."""
    return _core.module_text_of(source, "").encode("utf-8", "surrogateescape")


def difference(before: bytes, after: bytes, name: str) -> str:
    """A unified diff; "" where nothing changes."""
    texts = [each.decode("utf-8", "backslashreplace").splitlines(keepends=True) for each in (before, after)]
    lines = difflib.unified_diff(*texts, f"{name}", f"{name} (formatted)")
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)
