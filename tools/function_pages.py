"""Writes docs/functions.md: every function of the families, a line each.

    python tools/function_pages.py [--check]      --check: exit 1 where the page is not what the rows say

The facts are the rows of ptx/author/families, as the installed package has them.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
import textwrap

from pyptx import _core

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "functions.md"
HEAD = """# Functions of the families

<!-- written by tools/function_pages.py; the facts are the rows of ptx/author/families -->

Each is `ptx.<family>.<function>`; behind `*` stand keywords. `help(ptx.mbarrier.try_wait)` says what each argument may be.
Every function that writes an instruction takes `pred=`: a predicate register, or `~register`. A result is a new register
unless `dst=` gives one (the second of two results has a keyword of its own); with `pred=` it is 0 where the predicate is false.
"""


def names(signature: str) -> str:
    """The parameters without types and defaults, and without pred=."""
    inside = signature[1 : signature.rindex(") -> ")]
    inside = re.sub(r"\[[^\]]*\]", "", inside)
    listed = [part.split(":")[0].split(" = ")[0].strip() for part in inside.split(",") if part.strip()]
    listed = [name for name in listed if name not in ("pred", "self")]
    return ", ".join(listed[:-1] if listed[-1:] == ["*"] else listed)


def names_of(family: str) -> str:
    return "ptx" if family == "ptx" else family if family[0].isupper() else f"ptx.{family}"


def page() -> str:
    lines = [HEAD]
    for family, doc, functions in _core.families():
        lines += [
            f"## {names_of(family)}",
            "",
            textwrap.fill(doc, 160),
            "",
            "| function | what it does | manual |",
            "|---|---|---|",
        ]
        for name, signature, about, section in functions:
            text, _, rest = about.partition("\n\n")
            emits = rest.split("`")[1] if rest.startswith("Emits `") else ""
            what = text + (f"<br>`{emits}`" if emits else "")
            row = f"| `{name}({names(signature)})` | {what} | {section} |"
            lines.append(row if "|" not in emits else row.replace(emits, emits.replace("|", "\\|")))
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    stale = not PAGE.is_file() or PAGE.read_text() != page()
    if parser.parse_args().check:
        if stale:
            print("docs/functions.md is not what the rows say: run tools/function_pages.py")
        return 1 if stale else 0
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
