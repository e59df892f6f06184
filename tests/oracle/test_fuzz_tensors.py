"""Random copies by tensor maps: the simulator and NumPy agree, and a wrong byte is found: fuzz_tensors.py."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="skipped: no numpy")
pytest.importorskip("torch", reason="skipped: no torch")
sys.path.insert(0, str(Path(__file__).parent))

import fuzz_tensors


def test_the_simulator_and_numpy_agree():
    for seed in range(40):
        kind, wrong = fuzz_tensors.compared(seed, gpu=False)
        assert not wrong, (kind, wrong)


def test_a_wrong_byte_is_found(monkeypatch):
    def off_by_one(*args):
        taken = fuzz_box(*args)
        taken.reshape(-1)[-1] += 1
        return taken

    fuzz_box = fuzz_tensors.box_of
    monkeypatch.setattr(fuzz_tensors, "box_of", off_by_one)
    assert any("differ" in fuzz_tensors.compared(seed, gpu=False)[1] for seed in (0, 1, 2))
