"""Writes docs/isa: a page for each chapter of instructions, special registers, and what of it is simulated and has run.
The part of README.md that says what runs without a GPU comes from the same rows.

    python tools/isa_pages.py [--check]      --check: exit 1 where a page is not what the rows say, and write nothing

The facts are the rows of ptx/isa, as the installed package has them.  Pages written by hand stand beside these.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import pathlib
import re
import sys

from pyptx import _core

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "isa"
README = ROOT / "README.md"
BEGIN, END = "<!-- coverage: written by tools/isa_pages.py -->\n", "<!-- end of coverage -->\n"
NOTE = "<!-- written by tools/isa_pages.py; the facts are the rows of ptx/isa/forms -->\n"


def chapter(form) -> tuple[str, str]:
    """The manual's group of instructions: ("9.7.1", "Integer Arithmetic Instructions")."""
    depth = 3 if form.section.startswith("9.7.") else 2
    return ".".join(form.section.split(".")[:depth]), form.title.split(":")[0]


def file_of(number: str, title: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower().replace(" instructions", "")).strip("-")
    return f"{'.'.join(f'{int(n):02}' for n in number.split('.')[2:])}-{words}.md"


def chapters() -> dict[tuple[str, str], list]:
    found = collections.defaultdict(list)
    for form in _core.forms():
        found[chapter(form)].append(form)
    return dict(sorted(found.items(), key=lambda item: [int(n) for n in item[0][0].split(".")]))


def sets(form) -> list[str]:
    lines = []
    for name, values in form.sets:
        lines.append(
            f"- `.{name}` = " + " ".join(f"`{value}`" + (f" ({need})" if need else "") for value, need in values)
        )
    return lines


def chapter_page(number: str, title: str, forms: list) -> str:
    lines = [f"# {title} ({number})", "", NOTE]
    for (section, name), group in itertools.groupby(forms, key=lambda form: (form.section, form.title)):
        lines += [f"## {name.partition(': ')[2] or name} ({section})", ""]
        for form in group:
            lines += ["```", form.syntax, "```", "", *sets(form)]
            lines += [f"- since {form.since}"]
            lines += [f"- rule: {rule}" for rule in form.rules]
            runs = f"not simulated: {form.unsimulated}" if form.unsimulated else "simulated"
            lines += [f"- form `{form.id}`, {runs}", ""]
    return "\n".join(lines)


def registers_page() -> str:
    lines = ["# Special registers (10)", "", NOTE, "| register | type | since |", "|---|---|---|"]
    for name, type, elements, since in _core.special_registers():
        lines.append(f"| `{name}` | `{f'.v{elements} ' if elements > 1 else ''}.{type}` | {since} |")
    return "\n".join(lines) + "\n"


def forms_on_gpu() -> set[str]:
    """Forms in the fixtures that tools/gpu runs on a device and compares bit for bit."""
    used: set[str] = set()
    for fixture in sorted((ROOT / "tests" / "fixtures" / "run").glob("*.ptx")):
        text = fixture.read_bytes()
        if b"\n// gpu: no," not in text:
            used |= set(_core.forms_used(text))
    return used


def coverage_page(all_chapters: dict) -> str:
    gpu = forms_on_gpu()
    mark = {True: "yes", False: ""}
    lines = ["# Coverage", "", NOTE]
    lines.append(
        "Every form is checked.  *Simulated*: the simulator runs it.  *GPU*: it occurs in a fixture of tests/fixtures/run, which\n"
        "`tools/gpu` runs on a device and compares with the simulator bit for bit.  Of a form, not of each of its modifiers.\n"
    )
    lines += ["| chapter | forms | simulated | GPU |", "|---|---|---|---|"]
    total = collections.Counter()
    for (number, title), forms in all_chapters.items():
        count = {
            "forms": len(forms),
            "simulated": sum(not form.unsimulated for form in forms),
            "gpu": sum(form.id in gpu for form in forms),
        }
        total.update(count)
        lines.append(
            f"| [{number} {title}]({file_of(number, title)}) | {count['forms']} | {count['simulated']} | {count['gpu']} |"
        )
    lines += [f"| all | {total['forms']} | {total['simulated']} | {total['gpu']} |", ""]
    lines += ["What does not run:", "", "| why not | forms |", "|---|---|"]
    reasons = collections.defaultdict(list)
    for form in itertools.chain.from_iterable(all_chapters.values()):
        if form.unsimulated:
            reasons[form.unsimulated].append(f"`{form.id}`")
    lines += [f"| {why} | {', '.join(forms)} |" for why, forms in reasons.items()] + [""]
    lines += ["| form | section | simulated | GPU |", "|---|---|---|---|"]
    for form in itertools.chain.from_iterable(all_chapters.values()):
        lines.append(f"| `{form.id}` | {form.section} | {mark[not form.unsimulated]} | {mark[form.id in gpu]} |")
    return "\n".join(lines) + "\n"


def missing(forms: list) -> list[str]:
    """Opcodes of which no form is simulated."""
    runs = collections.defaultdict(bool)
    for form in forms:
        runs[form.opcode] |= not form.unsimulated
    return [f"`{name}`" + (" (asynchronous copies)" if name == "cp" else "") for name in runs if not runs[name]]


def coverage_summary(all_chapters: dict) -> str:
    """What the simulator runs: chapters of one title together, whichever manual numbers them."""
    by_title = collections.defaultdict(list)
    for (_, title), forms in all_chapters.items():
        by_title[
            title.replace(" Instructions", "").lower().replace("tensorcore", "Tensor Core").replace("simd", "SIMD")
        ].extend(forms)
    whole, part, none = [], [], []
    for title, forms in by_title.items():
        count = sum(not form.unsimulated for form in forms)
        if count == len(forms):
            whole.append(f"{title} ({count})")
        elif count == 0:
            none.append(f"{title} ({len(forms)})")
        else:
            lacks = ", ".join(missing(forms))
            part.append(f"{title} ({count} of {len(forms)}{'; no ' if lacks else ''}{lacks})")
    every = list(itertools.chain.from_iterable(all_chapters.values()))
    simulated = sum(not form.unsimulated for form in every)
    rows = [("runs", whole), ("runs in part", part), ("does not run yet", none)]
    return (
        f"**{simulated} of {len(every)} forms of instructions run without a GPU**, on the simulator; all are checked. By the manual's\n"
        "chapters, with the number of forms:\n\n| | |\n|---|---|\n"
        + "".join(f"| {what} | {', '.join(names)} |\n" for what, names in rows if names)
    )


def readme(all_chapters: dict) -> str:
    """README.md with its part between the two marks written anew."""
    before, _, rest = README.read_text().partition(BEGIN)
    return before + BEGIN + coverage_summary(all_chapters) + END + rest.partition(END)[2]


def pages() -> dict[str, str]:
    all_chapters = chapters()
    made = {file_of(*key): chapter_page(*key, forms) for key, forms in all_chapters.items()}
    made["special-registers.md"] = registers_page()
    made["coverage.md"] = coverage_page(all_chapters)
    return {f"docs/isa/{name}": text for name, text in made.items()} | {"README.md": readme(all_chapters)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    made = pages()
    stale = [name for name, text in made.items() if not (ROOT / name).is_file() or (ROOT / name).read_text() != text]
    if arguments.check:
        print("\n".join(f"{name} is not what the rows say: run tools/isa_pages.py" for name in stale), end="")
        return 1 if stale else 0
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (ROOT / name).write_text(made[name])
    print(f"{len(made)} pages, {len(stale)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
