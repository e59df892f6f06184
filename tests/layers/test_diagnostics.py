"""Every row of diagnostic.def has a test that names it, by enumerator (`Code::name`) or by number (`PTX1001`)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(r"^DIAGNOSTIC\((\d+), (\w+),", (ROOT / "ptx/base/diagnostic.def").read_text(), re.MULTILINE)


def _sources_of_tests() -> str:
    files = [*(ROOT / "tests").rglob("*.cpp"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "python/tests").rglob("*.py")]
    fixtures = (ROOT / "tests/fixtures").rglob("*")
    files += [p for p in fixtures if p.is_file() and p.suffix in {".ptx", ".txt", ".tsv"}]
    return "\n".join(p.read_text(errors="replace") for p in files if p != Path(__file__))


@pytest.fixture(scope="module")
def text() -> str:
    return _sources_of_tests()


@pytest.mark.parametrize("number, name", ROWS)
def test_code_has_a_refusal_test(number, name, text):
    assert re.search(rf"\b(Code::{name}|PTX{number})\b", text), f"no test names PTX{number} {name}"


def test_numbers_are_sorted():
    numbers = [int(number) for number, _ in ROWS]
    assert numbers == sorted(set(numbers))
