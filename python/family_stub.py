"""Writes the patterns for the stub of _core: core.pat as it is, and the functions of the families with their types.

    PYTHONPATH=<folder of _core> python family_stub.py core.pat OUTPUT

A family is a class with static functions there: a module inside a module has no notation of its own in a stub.
"""

import pathlib
import sys

import _core

WIDTH = 120


def split(parameters: str) -> list[str]:
    """At the commas that are not in brackets."""
    parts, depth, at = [], 0, 0
    for i, c in enumerate(parameters):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(parameters[at:i].strip())
            at = i + 1
    return [*parts, parameters[at:].strip()] if parameters else []


def function(name: str, signature: str, doc: str, indent: str, *, static: bool) -> list[str]:
    lines = [f"{indent}@staticmethod"] if static else []
    head = f"{indent}def {name}{signature}:"
    if len(head) > WIDTH:
        end = signature.rindex(") -> ")
        parameters = split(signature[1:end])
        lines += [f"{indent}def {name}(", *(f"{indent}    {p}," for p in parameters), f"{indent}{signature[end:]}:"]
    else:
        lines.append(head)
    first, *rest = doc.splitlines()
    lines.append(f'{indent}    """{first}')
    lines += [f"{indent}    {line}".rstrip() for line in rest]
    lines.append(f'{indent}    """')
    return lines


def main() -> None:
    text = [pathlib.Path(sys.argv[1]).read_text()]
    for family, doc, functions in _core.families():
        if family[0].isupper():
            for name, signature, about, _ in functions:
                text += [f"_core.{family}.{name}$:", *function(name, signature, about, "    ", static=False), ""]
            continue
        text += [f"_core.{family}$:", f"    class {family}:", f'        """{doc}"""', ""]
        for name, signature, about, _ in functions:
            text += [*function(name, signature, about, " " * 8, static=True), ""]
    pathlib.Path(sys.argv[2]).write_text("\n".join(text))


main()
