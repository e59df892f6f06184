"""The site is laid out whole: every page has a chapter, every link a page, everything public a place.  `make docs` builds it and follows
the links of what was built (tools/site_pages.py check)."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from pyptx import _core

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))


def tool(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


site = tool("site_pages")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return site.pages()


def outside_of_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`+[^`\n]*`+", "", text, flags=re.S | re.M)


def test_every_page_has_a_chapter(pages):
    def named(entry) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [name for each in (entry.values() if isinstance(entry, dict) else entry) for name in named(each)]

    listed = named(site.nav(pages))
    assert sorted(listed) == sorted(pages), "name the page in CHAPTERS of tools/site_pages.py"


def test_links_lead_to_pages(pages):
    pictures = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.svg")}
    for name, text in pages.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", outside_of_code(text)):
            target, _, place = link.partition("#")
            if link.startswith("https://"):
                continue
            to = (Path("/") / name).parent.joinpath(target).resolve().relative_to("/") if target else Path(name)
            assert str(to) in pages or str(to) in pictures, f"{name}: {link}"
            if place and str(to) in pages:
                headings = re.findall(r"^#+ (.*)$", pages[str(to)], re.M)
                assert place in {site.anchor(each.replace("`", "")) for each in headings}, f"{name}: {link}"


def test_the_repository_has_the_pages_that_readme_names():
    for file in ("README.md", "CONTRIBUTING.md"):
        for name in re.findall(r"`(docs/[\w/-]+\.md|tools/\w+\.py)`", (ROOT / file).read_text()):
            assert (ROOT / name).is_file(), f"{file}: {name}"


def test_the_api_has_what_is_public(pages):
    python = "\n".join(text for name, text in pages.items() if name.startswith("api/python/"))
    for heading in (
        "pyptx.kernel",
        "pyptx.Kernel.report",
        "pictures.fragment",
        "simulator.Options",
        "ir.Module",
        "ptx.mbarrier.try_wait",
    ):
        assert re.search(rf"^##+ {re.escape(heading)}$", python, re.M), heading
    for family, _, functions in _core.families():
        for name, *_ in functions:
            assert f"### {site.api_pages.names_of(family)}.{name}\n" in pages["api/python/families.md"]
    headers = {str(path.relative_to(ROOT)) for path in ROOT.glob("ptx/*/*.h") if "#pragma once" in path.read_text()}
    cpp = "\n".join(text for name, text in pages.items() if name.startswith("api/cpp/"))
    assert set(re.findall(r"^## (ptx/.*)$", cpp, re.M)) == headers
    assert "Finds or makes the Mnemonic." in cpp and "const Mnemonic* resolve(std::string_view text);" in cpp
    assert not re.search(r"^namespace|^}  // namespace", cpp, re.M)


def test_fences_are_closed_and_of_one_word(pages):
    for name, text in pages.items():
        fences = re.findall(r"^(```.*)$", text, re.M)
        assert len(fences) % 2 == 0 and all(re.fullmatch(r"```\w*", fence) for fence in fences), name


def test_every_form_is_in_the_table(pages):
    table = pages["isa/mnemonics.md"]
    assert table.count("\n| [") == len(_core.forms())
    assert "| [wgmma](15-asynchronous-warpgroup-level-matrix.md#wgmmamma_async-97155" in table


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("said:\n- a\n- b\n", "said:\n\n- a\n- b\n"),
        ("- a\n  more\n- b\n", "- a\n  more\n- b\n"),
        ("said:\n| a |\n|---|\n", "said:\n\n| a |\n|---|\n"),
        ("```python gpu\n- a\n```\n", "```python\n- a\n```\n"),
        ("```\nsaid:\n- a\n```\n", "```\nsaid:\n- a\n```\n"),
    ],
)
def test_what_the_site_reads_otherwise(before, after):
    assert site.plain(before) == after


def test_what_was_built_is_looked_at(tmp_path):
    """A broken link, a place that is not there, and an opcode that the search does not find are told."""
    html = tmp_path / "html"
    (html / "isa" / "mnemonics").mkdir(parents=True)
    (html / "search").mkdir()
    (html / "index.html").write_text(
        '<a href="isa/">x</a><a href="https://a.example/">y</a><a href="isa/mnemonics/#b">z</a>'
    )
    (html / "isa" / "mnemonics" / "index.html").write_text(
        '<p id="a"></p><a href="../../index.html">add</a><img src="no.svg">'
    )
    assert site.broken(html) == ["index.html: isa/", "index.html: isa/mnemonics/#b", "isa/mnemonics/index.html: no.svg"]
    (html / "search" / "search_index.json").write_text(json.dumps({"docs": [{"title": "add (9.7.1)"}]}))
    missing = site.unfound(html)
    assert "add" not in missing and "wgmma" in missing
    assert site.check(tmp_path) == 1
