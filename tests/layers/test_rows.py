"""Files of rows are read by people: no line is longer than a screen is wide.  What is true of an instruction is a trait in its row:
C++ does not ask for names of opcodes or numbers of sections."""

import re
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


ASKS = re.compile(
    r'opcode\)?\)? *[!=]= *"|section\)?\.starts_with|mnemonics?(?:\[[^\]]*\])?(?:->text|\.text)?\.starts_with\("[a-z]'
)
ROOMS = ("isa", "check", "analysis", "lint", "quirks", "ir", "sim", "author", "interop", "cuda", "launch")
# A table by opcode that is the thing itself, not a fact beside a row: the file, and what it tells apart.
TELLS_APART = {
    "ptx/analysis/memory.cpp": "the arithmetic of integers that addresses are formed by",
    "ptx/check/function.cpp": "the family that one rule of the manual is about, tcgen05",
    "ptx/isa/rules_matrix.cpp": "whether `shape` is wmma's, for one rule of both",
    "ptx/lint/lint.cpp": "a rule about moves",
    "ptx/sim/exec/alternate.cpp": "which operation a body that serves several opcodes computes",
    "ptx/sim/exec/fragment_tables.cpp": "which figures of the manual show the fragments",
    "ptx/sim/exec/matrix_memory.cpp": "the same",
    "ptx/sim/watch/product_fences.cpp": "a rule about moves",
    "ptx/sim/watch/text_values.cpp": "a rule about moves and compare-and-swaps",
}


def asking() -> set[str]:
    files = [path for room in ROOMS for path in (ROOT / "ptx" / room).rglob("*") if path.suffix in (".cpp", ".h")]
    return {str(path.relative_to(ROOT)) for path in files if ASKS.search(path.read_text())}


def test_facts_of_instructions_are_traits():
    assert asking() - set(TELLS_APART) == set(), "make it a trait of the rows (ptx/isa/traits.def)"
    assert set(TELLS_APART) - asking() == set(), "no longer asks: take it off the list"


def test_asking_is_noticed():
    assert ASKS.search('match.form->text(match.form->opcode) == "membar"')
    assert ASKS.search('form->section.starts_with("9.7.13")')
    assert not ASKS.search("match.form->section == other.section")
