"""The torch examples run, on CPU tensors where there is no device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="skipped: no torch")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("name", ["torch_compile.py", "autograd.py"])
def test_example(name):
    subprocess.run([sys.executable, EXAMPLES / name], check=True)


def test_timeline(tmp_path):
    ran = subprocess.run(
        [sys.executable, EXAMPLES / "timeline.py", tmp_path], check=True, capture_output=True, text=True
    )
    assert "wgmma.wait_group" in ran.stdout and {each.name for each in tmp_path.iterdir()} == {
        "timeline.json",
        "timeline.svg",
    }
