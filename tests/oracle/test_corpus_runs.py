"""Every file of ../shared/corpus/ptx that ptxas takes runs on the simulator and gives its result, or its line says why not."""

import csv
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from corpus_runs import CANNOT, CORPUS, RUNS, outcome

VERDICTS = CORPUS / "ptx_verdicts.tsv"


def accepted() -> list[str]:
    if not VERDICTS.exists():
        return []
    rows = csv.DictReader(VERDICTS.open(newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [row["file"] for row in rows if row["ptxas 13.5"] == "ok"]


@pytest.mark.skipif(not VERDICTS.exists(), reason="skipped: no ../shared/corpus")
def test_each_file_that_ptxas_takes_has_a_line():
    assert set(accepted()) == set(RUNS) | set(CANNOT)


@pytest.mark.parametrize("name", accepted())
def test_a_file_runs_before_and_after_transpilation(name):
    how, found = outcome(name)
    if name in CANNOT:
        assert CANNOT[name] in how
        return
    assert how == "runs" and not found
