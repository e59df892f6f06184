"""The table of docs/simulator.md beside float64: within its bounds, and what the page says."""

import pytest

accuracy = pytest.importorskip("accuracy", reason="skipped: no torch")


def test_kernels_are_near_float64():
    rows, fine = accuracy.accuracy()
    assert fine, "\n".join(rows)
    assert "\n".join(rows) in accuracy.PAGE.read_text()


def test_recorded_bytes():
    if not accuracy.CORPUS.exists():
        pytest.skip("skipped: no shared corpus")
    equal, total = accuracy.recorded()
    assert equal == total - 1  # vector8_extract is not PTX 9.1
