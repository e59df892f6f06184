"""The programs of docs/cpp.md and of the guide compile, run, and print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from pyptx import _core

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
# The pages, and how many programs each has at least.
PAGES = {"docs/cpp.md": 4, "docs/guide/13-cpp.md": 2, "docs/export.md": 1, "docs/ir.md": 1}


def pairs(page: str) -> list[tuple[str, str]]:
    """A program and what it prints."""
    return re.findall(r"^```cpp\n(.*?)^```\n\n```text\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)


@pytest.mark.parametrize("page", PAGES)
def test_each_program_has_its_output(page):
    assert len(pairs(page)) == (ROOT / page).read_text().count("```cpp") >= PAGES[page]


PROGRAMS = [(page, number) for page in PAGES for number in range(len(pairs(page)))]


def joined() -> str:
    """All programs as one, each in a namespace of its own; its argument says which runs.  Most of the time goes into the headers."""
    includes, bodies, calls = {}, [], []
    for i, (page, number) in enumerate(PROGRAMS):
        program = pairs(page)[number][0]
        assert program.count("int main() {") == 1
        own = re.findall(r"^#include .*\n", program, re.M)
        includes |= dict.fromkeys(own)
        for line in own:
            program = program.replace(line, "\n")
        program = program.replace("int main() {", "void run() {")
        bodies.append(f'namespace program_{i} {{\n#line 1 "{page}, program {number}"\n{program}}}\n')
        calls.append(f"    case {i}: return program_{i}::run(), 0;\n")
    chosen = f"int main(int, char** given) {{\n  switch (std::atoi(given[1])) {{\n{''.join(calls)}  }}\n}}\n"
    return f"#include <cstdlib>\n{''.join(includes)}{''.join(bodies)}{chosen}"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    libraries = sorted((BUILD / "ptx").glob("libptx_*.a"))
    if not libraries:
        pytest.skip("skipped: the C++ library is not built")
    folder = tmp_path_factory.mktemp("pages")
    source = folder / "pages.cpp"
    source.write_text(joined())
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-isystem", BUILD / "include", source]
    command += ["-o", folder / "pages", "-Wl,--start-group", *libraries, "-Wl,--end-group", "-pthread", "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder / "pages"


@pytest.mark.parametrize(("page", "number"), PROGRAMS)
def test_program(page, number, built, tmp_path):
    program, output = pairs(page)[number]
    if "ahead::" in program and "ptxas" not in _core.assembler_description():
        pytest.skip("skipped: no ptxas")
    assembler = Path(_core.assembler_description().partition("(")[2].rstrip(")")).parent
    environment = {**os.environ, "PATH": f"{assembler}:{os.environ['PATH']}"}
    done = subprocess.run(
        [built, str(PROGRAMS.index((page, number)))], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert (done.returncode, done.stdout) == (0, output), done.stderr
