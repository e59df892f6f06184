"""The programs of docs/cpp.md compile, run, and print what the page says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
PAIRS = re.findall(r"^```cpp\n(.*?)^```\n\n```text\n(.*?)^```", (ROOT / "docs/cpp.md").read_text(), re.S | re.M)


def test_each_program_has_its_output():
    assert len(PAIRS) == (ROOT / "docs/cpp.md").read_text().count("```cpp") >= 3


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_program(number, tmp_path):
    libraries = sorted((BUILD / "ptx").glob("libptx_*.a"))
    if not libraries:
        pytest.skip("skipped: the C++ library is not built")
    program, output = PAIRS[number]
    source = tmp_path / "page.cpp"
    source.write_text(program)
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-isystem", BUILD / "include", source]
    command += ["-o", tmp_path / "page", "-Wl,--start-group", *libraries, "-Wl,--end-group", "-pthread", "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert subprocess.run([tmp_path / "page"], capture_output=True, text=True, check=True).stdout == output
