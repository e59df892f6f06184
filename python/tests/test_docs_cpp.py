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


@pytest.mark.parametrize(("page", "number"), [(page, number) for page in PAGES for number in range(len(pairs(page)))])
def test_program(page, number, tmp_path):
    libraries = sorted((BUILD / "ptx").glob("libptx_*.a"))
    if not libraries:
        pytest.skip("skipped: the C++ library is not built")
    program, output = pairs(page)[number]
    source = tmp_path / "page.cpp"
    source.write_text(program)
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-isystem", BUILD / "include", source]
    command += ["-o", tmp_path / "page", "-Wl,--start-group", *libraries, "-Wl,--end-group", "-pthread", "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    if "ahead::" in program and "ptxas" not in _core.assembler_description():
        pytest.skip("skipped: no ptxas")
    assembler = Path(_core.assembler_description().partition("(")[2].rstrip(")")).parent
    environment = {**os.environ, "PATH": f"{assembler}:{os.environ['PATH']}"}
    done = subprocess.run([tmp_path / "page"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout) == (0, output), done.stderr
