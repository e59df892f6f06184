"""What tools/wheels.py refuses. The wheels themselves are made and tried by `make wheel` and `make wheels`."""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

sys.path.append(str(ROOT / "tools"))
import wheel_aarch64  # noqa: E402
import wheels  # noqa: E402


@pytest.mark.parametrize(
    "tag, module, size, why",
    [
        ("cp312-abi3-manylinux_2_28_x86_64", "_core.abi3.so", 1000, ""),
        ("cp310-cp310-manylinux_2_28_x86_64", "_core.cpython-310-x86_64-linux-gnu.so", 1000, ""),
        ("cp312-abi3-manylinux_2_28_x86_64", "_core.cpython-312-x86_64-linux-gnu.so", 1000, "is for one Python"),
        ("cp312-abi3-manylinux_2_24_x86_64.manylinux_2_34_x86_64", "_core.abi3.so", 1000, ""),
        ("cp312-abi3-manylinux_2_34_x86_64", "_core.abi3.so", 1000, "a glibc later than 2.28"),
        ("cp311-cp311-manylinux_2_34_aarch64", "_core.cpython-311-aarch64-linux-gnu.so", 1000, ""),
        ("cp312-abi3-linux_x86_64", "_core.abi3.so", 1000, "is for the machine that built it"),
        ("cp312-abi3-manylinux_2_28_x86_64", "_core.abi3.so", wheels.MOST, "bytes, more than 8388608"),
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


def test_a_wheel_gets_the_module_of_another_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(wheel_aarch64, "HERE", tmp_path)
    given, module = tmp_path / "pyptx-0.1.1-cp311-cp311-linux_x86_64.whl", tmp_path / "module.so"
    module.write_bytes(b"another machine's")
    with zipfile.ZipFile(given, "w") as packed:
        packed.writestr("pyptx/_core.cpython-311-x86_64-linux-gnu.so", b"this machine's")
        packed.writestr("pyptx-0.1.1.dist-info/WHEEL", "Tag: cp311-cp311-linux_x86_64\n")
        packed.writestr("pyptx-0.1.1.dist-info/RECORD", "")
    made = wheel_aarch64.with_module(given, module)
    assert made.name == "pyptx-0.1.1-cp311-cp311-linux_aarch64.whl"
    with zipfile.ZipFile(made) as packed:
        assert packed.read("pyptx-0.1.1.dist-info/WHEEL") == b"Tag: cp311-cp311-linux_aarch64\n"
        record = packed.read("pyptx-0.1.1.dist-info/RECORD").decode().splitlines()
        assert packed.read("pyptx/_core.cpython-311-aarch64-linux-gnu.so") == module.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(module.read_bytes()).digest()).rstrip(b"=").decode()
    assert f"pyptx/_core.cpython-311-aarch64-linux-gnu.so,sha256={digest},17" in record
    assert record[-1] == "pyptx-0.1.1.dist-info/RECORD,,"
