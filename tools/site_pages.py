"""Lays out the site that `make docs` builds: docs/, README.md and CONTRIBUTING.md as they are read in the repository, the pages of the
API, and a table of all instructions.

    python tools/site_pages.py lay-out FOLDER     FOLDER/pages, FOLDER/mkdocs.yml
    python tools/site_pages.py check FOLDER       whether every link of FOLDER/html leads somewhere, and mnemonics are found
"""

from __future__ import annotations

import argparse
import html.parser
import json
import pathlib
import re
import shutil
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import api_pages
import isa_pages

from pyptx import _core

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Chapters of the site: pages, or folders, whose README.md opens the chapter.  Every page has to be in one (mkdocs.yml, validation).
CHAPTERS = {
    "Home": ["index.md", "install.md"],
    "Guide": ["guide"],
    "Write": ["authoring.md", "functions.md", "cpp.md", "ir.md", "transpiler.md", "kernels.md"],
    "Look": ["simulator.md", "sanitizer.md", "lint.md", "pictures.md", "timeline.md", "command.md", "editors.md"],
    "Run": ["pytorch.md", "torch_compile.md", "jax.md", "peers.md", "export.md", "assembler.md"],
    "API": ["api/python", "api/cpp"],
    "ISA": ["isa"],
    "About": ["performance", "comparison.md", "architecture.md", "contributing.md"],
}


def pages() -> dict[str, str]:
    """Every page of the site by its path in it."""
    found = {str(path.relative_to(ROOT / "docs")): path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))}
    found["index.md"] = linked((ROOT / "README.md").read_text())
    found["contributing.md"] = linked((ROOT / "CONTRIBUTING.md").read_text())
    found["isa/mnemonics.md"] = mnemonics()
    found |= api_pages.python_pages() | api_pages.cpp_pages()
    return {name: plain(text) for name, text in found.items()}


def linked(text: str) -> str:
    """Names of pages and of folders of pages, `docs/lint.md`, `docs/guide/`, as links to them."""

    def link(m: re.Match) -> str:
        return f"[{m[1]}]({m[1][5:]}{'README.md' if m[1].endswith('/') else ''})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.S | re.M)
    return "".join(
        part if i % 2 else re.sub(r"`(docs/(?:guide/|isa/|performance/|[\w/-]+\.md))`", link, part)
        for i, part in enumerate(parts)
    )


def plain(text: str) -> str:
    """What Python-Markdown reads otherwise than the repository's host: a second word behind ```python, and lists, tables and
    indented code directly behind a paragraph."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            line, fenced = (line if fenced else re.sub(r"^```(\w+) .*", r"```\1", line)), not fenced
        before = lines[-1] if lines else ""
        begins = re.match(r"(- |\d+\. |\|)", line)
        continues = re.match(r"(- |\d+\. |\||  )", before) or not before.strip()
        if not fenced and begins and not continues:
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def mnemonics() -> str:
    """A table of all forms that a field above it narrows (site_assets/mnemonics.js)."""
    lines = [
        "# Search by mnemonic",
        "",
        '<input id="mnemonic" type="search" placeholder="ld.global.v4, wgmma, sm_100, 9.7.15 ..." aria-label="Mnemonic"> '
        '<small id="mnemonic-count"></small>',
        "",
        "| form | syntax | section | since |",
        "|---|---|---|---|",
    ]
    for key, forms in isa_pages.chapters().items():
        for form in forms:
            title = f"{form.title.partition(': ')[2] or form.title} ({form.section})"
            page = f"{isa_pages.file_of(*key)}#{anchor(title)}"
            syntax = form.syntax.replace("|", "\\|")
            lines.append(f"| [{form.opcode}]({page}) | `` {syntax} `` | {form.section} | {form.since} |")
    return "\n".join(lines) + "\n"


def anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def nav(found: dict[str, str]) -> list:
    """Chapters as MkDocs wants them.  Titles are those of the pages."""

    def folder(name: str) -> list[str]:
        inside = sorted(page for page in found if page.rpartition("/")[0] == name)
        first = [page for page in (f"{name}/README.md", f"{name}/mnemonics.md", f"{name}/pyptx.md") if page in inside]
        return first + [page for page in inside if page not in first]

    made = []
    for chapter, names in CHAPTERS.items():
        listed: list = []
        for name in names:
            if name.endswith(".md"):
                listed.append(name)
            elif len(names) == 1:
                listed += folder(name)
            else:
                listed.append({"C++" if name.endswith("cpp") else "Python": folder(name)})
        made.append({chapter: listed})
    return made


def lay_out(folder: pathlib.Path) -> int:
    found = pages()
    shutil.rmtree(folder / "pages", ignore_errors=True)
    for name, text in found.items():
        path = folder / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pages" / "pictures")
    shutil.copytree(ROOT / "tools" / "site_assets", folder / "pages" / "assets", dirs_exist_ok=True)
    made = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "pages", "site_dir": "html", "nav": nav(found)}
    (folder / "mkdocs.yml").write_text(json.dumps(made, indent=1))  # JSON is YAML
    print(f"{len(found)} pages")
    return 0


# ---- what was built


class _Page(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def broken(folder: pathlib.Path) -> list[str]:
    """Links to files or places that are not there.  Those that leave the site are not followed."""
    read = {path: _Page(path.read_text()) for path in folder.rglob("*.html")}
    found = []
    for path, page in read.items():
        for link in page.links:
            target, _, place = link.partition("#")
            if re.match(r"[a-z]+:", link) or path.name == "404.html" or link == "#":
                continue
            target = urllib.parse.unquote(target.partition("?")[0])
            to = (path.parent / target).resolve() if target else path
            to = to / "index.html" if to.is_dir() else to
            place = urllib.parse.unquote(place)
            if not to.is_file() or (
                place and not place.startswith(("__", "q=")) and to in read and place not in read[to].anchors
            ):
                found.append(f"{path.relative_to(folder)}: {link}")
    return found


def unfound(folder: pathlib.Path) -> list[str]:
    """Opcodes that the search index does not have in a title, or that the table of forms lacks."""
    index = json.loads((folder / "search" / "search_index.json").read_text())
    titles = "\n".join(entry["title"] for entry in index["docs"])
    table = (folder / "isa" / "mnemonics" / "index.html").read_text()
    opcodes = {form.opcode for form in _core.forms()}
    return [name for name in sorted(opcodes) if not re.search(rf"\b{name}\b", titles) or f">{name}</a>" not in table]


def check(folder: pathlib.Path) -> int:
    wrong = [f"{link}: leads nowhere" for link in broken(folder / "html")]
    wrong += [f"{name}: not found by the search" for name in unfound(folder / "html")]
    print("\n".join(wrong) or "every link leads somewhere, every opcode is found")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("lay-out", "check"))
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    return (lay_out if arguments.what == "lay-out" else check)(arguments.folder)


if __name__ == "__main__":
    sys.exit(main())
