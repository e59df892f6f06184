"""Every row of diagnostic.def is provoked by a test: the library records the codes that it makes diagnostics of in the file that
PTX_RECORD_CODES names. The C++ test programs are run here; what they do not provoke stands in ELSEWHERE."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(p for p in (ROOT / "build/release/tests").glob("test_*") if p.is_file() and os.access(p, os.X_OK))
ROWS = re.findall(r"^DIAGNOSTIC\((\d+), (\w+),", (ROOT / "ptx/base/diagnostic.def").read_text(), re.MULTILINE)

# Codes that C++ tests do not provoke, or not on every machine -> the test that does, or what it needs.
ELSEWHERE = {
    "truth_of_register": "python/tests/test_kernel.py::test_if_of_a_register_is_refused",
    "assembler_changes": "python/tests/test_assembler.py::test_a_jit_that_links_is_refused_too",
    "gradient_needed": "python/tests/test_launch.py::test_a_gradient_that_would_be_lost_is_refused",
    "layout_mismatch": "python/tests/test_layout_mismatch.py::test_a_product_that_reads_otherwise_is_reported",
    "no_tensor_fence": "python/tests/test_tcgen05_reports.py::test_a_compilers_module_without_any_fence_has_one_report_of_them_on_request",
    "check_failed": "python/tests/test_print.py::test_a_check_that_fails_is_a_report_at_its_line",
    "assertion_failed": "python/tests/test_print.py::test_assert_of_another_compiler",
    "pending_negation": "python/tests/test_launch.py::test_a_pending_negation_or_conjugation_is_refused",
}


def recorded(file: Path) -> set[str]:
    return set(file.read_text().split()) if file.exists() else set()


@pytest.fixture(scope="module")
def provoked(tmp_path_factory) -> set[str]:
    if not PROGRAMS:
        pytest.skip("no C++ test programs in build/release")
    file = tmp_path_factory.mktemp("codes") / "codes.txt"
    environment = {**os.environ, "PTX_RECORD_CODES": str(file)}
    for program in PROGRAMS:
        subprocess.run([program], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    tests = sorted({test for test in ELSEWHERE.values() if "::" in test})
    if tests:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    return recorded(file)


@pytest.mark.parametrize("number, name", ROWS)
def test_code_is_provoked(number, name, provoked):
    needs = ELSEWHERE.get(name, "")
    if number not in provoked and needs and "::" not in needs:
        pytest.skip(needs)
    assert number in provoked, f"no test provokes PTX{number} {name}"


def test_what_is_provoked_elsewhere_exists():
    assert set(ELSEWHERE) <= {name for _, name in ROWS}


def test_numbers_are_sorted():
    numbers = [int(number) for number, _ in ROWS]
    assert numbers == sorted(set(numbers))
