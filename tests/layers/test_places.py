"""The table of CONTRIBUTING.md: an example of each kind of addition stands in the files that the table names, and in no other."""

import fnmatch
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOALS = {
    "an instruction": 4,  # `or` counts: three for one instruction
    "a body": 2,
    "a function of a family": 2,
    "an element type of tensors": 2,
    "a target": 1,
}
APART = ("tests/", "python/tests/", "docs/", "bench/", "examples/", "fuzz/", "CONTRIBUTING.md", "README.md")


def table() -> dict[str, tuple[list[str], list[str]]]:
    """What is added -> patterns of its places, and examples."""
    rows = {}
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 5 and cells[1].startswith(("a ", "an ")):
            rows[cells[1]] = re.findall(r"`([^`]+)`", cells[2]), re.findall(r"`([^`]+)`", cells[3])
    return rows


def files_with(example: str) -> list[str]:
    words = ["-w", "-F", "-e", example] if example.isidentifier() else ["-F", "-e", example]
    found = subprocess.run(["git", "grep", "-l", *words], cwd=ROOT, capture_output=True, text=True)
    return [name for name in found.stdout.split() if not name.startswith(APART)]


def elsewhere(example: str, places: list[str]) -> list[str]:
    return [name for name in files_with(example) if not any(fnmatch.fnmatch(name, place) for place in places)]


def test_the_table_is_read():
    assert set(GOALS) <= set(table())


@pytest.mark.parametrize("what", table())
def test_places(what):
    places, examples = table()[what]
    assert len(places) <= GOALS.get(what, 2)
    assert examples
    for example in examples:
        assert files_with(example), f"{example} stands nowhere"
        assert not elsewhere(example, places), f"{example}, an example of {what}, stands in further files"


def test_bodies_are_given_modifiers_of_rows():
    """mods.def chooses among all modifiers: those that bodies ask for."""
    words = re.findall(r'^MOD\(\w+, "([^"]+)"\)', (ROOT / "ptx/sim/exec/mods.def").read_text(), re.M)
    known = re.findall(r'^MODIFIER\(\w+, "([^"]+)"\)', (ROOT / "ptx/author/modifiers.def").read_text(), re.M)
    assert len(words) > 50 and set(words) <= set(known) and len(words) == len(set(words))


def test_the_test_can_fail():
    assert elsewhere("szext", ["ptx/isa/forms/*.def"]) == ["ptx/sim/exec/integer.h"]
