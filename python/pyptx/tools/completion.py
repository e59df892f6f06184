"""Completion of the command in shells: argcomplete asks the parser at each TAB.  `pip install pyptx[completion]` brings it."""

from __future__ import annotations

import re

from pyptx.tools import files

__all__ = ["SHELLS", "script", "suggest", "targets"]

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """What the shell has to read at its start.  `files.Unusable` where argcomplete is not installed."""
    try:
        import argcomplete
    except ImportError:
        raise files.Unusable("completion needs argcomplete: pip install pyptx[completion]") from None
    return argcomplete.shellcode(["pyptx"], shell=shell)


def suggest(parser) -> None:
    """Answers the shell and ends the process, where it is the shell that asks."""
    import argcomplete

    argcomplete.autocomplete(parser)


def targets() -> list[str]:
    from pyptx import _core

    kinds = (("", "since"), ("a", "since_a"), ("f", "since_f"))
    return [f"sm_{row['number']}{kind}" for row in _core.architectures() for kind, since in kinds if row[since]]


def opcodes(prefix: str, **_) -> list[str]:
    """Mnemonics: opcodes, then what may follow what is typed."""
    from pyptx import _core

    if prefix.startswith("%"):
        return [name for name, *_ in _core.special_registers()]
    head, dot, _ = prefix.rpartition(".")
    if not dot:
        return sorted({form.opcode for form in _core.forms()})
    opcode, *words = head.split(".")
    forms = [form for form in _core.forms() if form.opcode == opcode and set(words) <= set(form.modifiers)]
    return sorted({f"{head}.{word}" for form in forms for word in form.modifiers if word not in words})


def entries(prefix: str, parsed_args, **_) -> list[str]:
    """Names of the .entry functions of the file that is already typed."""
    try:
        source = files.read(parsed_args.file) if parsed_args.file != "-" else b""
    except files.Unusable:
        return []
    return [name.decode() for name in re.findall(rb"\.entry\s+([\w$]+)", source)]
