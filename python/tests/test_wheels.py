"""What tools/wheels.py refuses. The wheels themselves are made and tried by `make wheel` and `make wheels`."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location("wheels", ROOT / "tools" / "wheels.py")
wheels = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wheels)


@pytest.mark.parametrize(
    "tag, module, size, why",
    [
        ("cp312-abi3-manylinux_2_34_x86_64", "_core.abi3.so", 1000, ""),
        ("cp310-cp310-manylinux_2_34_x86_64", "_core.cpython-310-x86_64-linux-gnu.so", 1000, ""),
        ("cp312-abi3-manylinux_2_34_x86_64", "_core.cpython-312-x86_64-linux-gnu.so", 1000, "is for one Python"),
        ("cp312-abi3-linux_x86_64", "_core.abi3.so", 1000, "is for the machine that built it"),
        ("cp312-abi3-manylinux_2_34_x86_64", "_core.abi3.so", wheels.MOST, "bytes, more than 8388608"),
    ],
)
def test_wheels_that_are_refused(tmp_path, tag, module, size, why):
    wheel = tmp_path / f"pyptx-0.1.1-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr(f"pyptx/{module}", bytes(size))
    assert why in wheels.refusal(wheel) and bool(why) == bool(wheels.refusal(wheel))


def test_what_is_no_python_is_refused(tmp_path):
    (tmp_path / "python3").write_text("#!/bin/sh\necho none\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    with pytest.raises(SystemExit, match="is no CPython with its headers and venv"):
        wheels.pythons([str(tmp_path / "python3")])
    if wheels.version_of(sys.executable):
        assert wheels.pythons([sys.executable]) == {sys.version_info[:2]: sys.executable}
