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


def test_no_other_list_has_the_narrow_element_types():
    """What PyTorch and JAX call them: all rows, not one example.  Ready-made kernels ask for some by name."""
    rows = (ROOT / "ptx/arch/elements.def").read_text()
    names = re.findall(r'^ELEMENT\(\w+, "\w+", \d+, \d+, \w, "(\w+_\w+)"', rows, re.M)
    assert len(names) >= 7
    places = ["ptx/arch/elements.def", "python/pyptx/kernels/*"]
    assert {name: found for name in names if (found := elsewhere(name, places))} == {}


# Who names a new target in code: rows of the ISA and of quirks, kernels that are chosen by it, and messages on one instruction.
NAMES_TARGETS = (
    "ptx/isa/forms/*.def", "ptx/isa/slots.def", "ptx/author/families/*.def", "ptx/quirks/*", "python/pyptx/kernels/*",
    "ptx/check/rules_tensor.cpp", "ptx/sim/exec/*", "python/pyptx/compat/__init__.py",
)  # fmt: skip


def test_no_other_list_has_the_targets():
    rows = re.findall(r"^ARCHITECTURE\((\d+), \d+, (\d+)", (ROOT / "ptx/arch/targets.def").read_text(), re.M)
    new = "|".join(number for number, since in rows if int(since) >= 88)
    assert new.count("|") >= 4
    command = ["git", "grep", "-w", "-E", f"sm_({new})[af]?", "--", "ptx", "python/src", "python/pyptx", "tools"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    found = {}
    for name, text in (line.split(":", 1) for line in lines):
        code = re.sub(r"//.*|(?<!\S)#.*", "", text)
        if re.search(f"sm_({new})", code) and not any(fnmatch.fnmatch(name, place) for place in NAMES_TARGETS):
            found.setdefault(name, code.strip())
    assert found == {}


def test_bodies_are_given_modifiers_of_rows():
    """mods.def chooses among all modifiers: those that bodies ask for."""
    words = re.findall(r'^MOD\(\w+, "([^"]+)"\)', (ROOT / "ptx/sim/exec/mods.def").read_text(), re.M)
    known = re.findall(r'^MODIFIER\(\w+, "([^"]+)"\)', (ROOT / "ptx/author/modifiers.def").read_text(), re.M)
    assert len(words) > 50 and set(words) <= set(known) and len(words) == len(set(words))


def test_the_test_can_fail():
    assert elsewhere("szext", ["ptx/isa/forms/*.def"]) == ["ptx/sim/exec/integer.h"]
