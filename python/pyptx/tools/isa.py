"""`pyptx isa`: the forms of an instruction as the library knows them, for a terminal.  The facts are the rows of the ISA."""

from __future__ import annotations

import difflib
import textwrap

from pyptx import _core


def report(query: str = "") -> str:
    """The page of an opcode ("wgmma"), of the beginning of a mnemonic ("ld.global.v4") or of special registers ("%clock"), in either case.

    Without a query, every opcode.  Raises LookupError where nothing has that name.
    """
    query = query.lower()
    if not query:
        return _opcodes()
    if query.startswith("%"):
        return _special_registers(query)
    forms = _matching(query)
    if forms:
        return _page(forms)
    opcodes = sorted({form.opcode for form in _core.forms()})
    if query.partition(".")[0] in opcodes:
        raise LookupError(_core.explain(query))
    near = difflib.get_close_matches(query, opcodes)
    raise LookupError(
        f"no instruction is called {query}" + (f"; did you mean {', '.join(near)}?" if near else "; see `pyptx isa`")
    )


def _opcodes() -> str:
    opcodes = list(dict.fromkeys(form.opcode for form in _core.forms()))
    return "\n".join(textwrap.wrap("  ".join(opcodes), 110, break_on_hyphens=False))


def _special_registers(query: str) -> str:
    rows = [row for row in _core.special_registers() if row[0].startswith(query)]
    if not rows:
        raise LookupError(f"no special register is called {query}; `pyptx isa %` lists them")
    return "\n".join(
        f"{name:28} {'.v' + str(elements) + ' ' if elements > 1 else ''}.{type:6} since {since}"
        for name, type, elements, since in rows
    )


def _matching(query: str) -> list:
    """Forms of the opcode that have every word of the query, in whatever order."""
    opcode, *words = query.split(".")
    forms = [form for form in _core.forms() if form.opcode == opcode]
    return [form for form in forms if set(words) <= {modifier.lower() for modifier in form.modifiers}]  # .NaN, .L2::64B


def _page(forms: list) -> str:
    lines: list[str] = []
    section = None
    for form in forms:
        if form.section != section:
            section = form.section
            lines += ["", f"PTX ISA {section}  {form.title}"] if lines else [f"PTX ISA {section}  {form.title}"]
        lines += ["", *_form(form)]
    return "\n".join(lines)


def _form(form) -> list[str]:
    lines = [f"  {form.syntax}"]
    for name, values in form.sets:
        text = "  ".join(value + (f" [{need}]" if need else "") for value, need in values)
        lines += textwrap.wrap(
            text, 110, initial_indent=f"    .{name} = ", subsequent_indent=" " * (len(name) + 8), break_on_hyphens=False
        )
    lines.append(f"    since {form.since}")
    lines += [f"    rule: {rule}" for rule in form.rules]
    lines.append(f"    {form.id}; simulator: {form.unsimulated or 'yes'}")
    return lines
