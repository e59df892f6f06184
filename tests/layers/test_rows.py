"""Files of rows are read by people: no line is longer than a screen is wide."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 160
FILES = subprocess.run(
    ["git", "ls-files", "*.def"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split()


def too_long(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > WIDTH]


@pytest.mark.parametrize("name", FILES)
def test_width(name):
    assert not too_long((ROOT / name).read_text()), (
        "break the row: adjacent string literals are one text (ptx/isa/forms/wgmma.def)"
    )


def test_the_test_can_fail():
    assert too_long("a\n" + "b" * (WIDTH + 1)) == [2]
    assert "ptx/isa/forms/wgmma.def" in FILES
