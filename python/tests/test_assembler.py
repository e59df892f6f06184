"""The assembler takes what the face writes: the goldens, the examples; and the C++ twins print the same text."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_goldens import GOLDENS, read, trace

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from examples.hopper_tile import build_hopper_tile  # noqa: E402
from examples.rms_norm import build_rms_norm  # noqa: E402

from pyptx.kernel import Kernel  # noqa: E402

needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="skipped: no ptxas")


def assemble(text: str, folder: Path) -> str:
    """What ptxas has to say, "" if it takes the text."""
    file = folder / "k.ptx"
    file.write_text(text)
    target = re.search(r"^\.target (\w+)", text, re.M).group(1)
    command = ["ptxas", f"-arch={target}", "-o", str(folder / "k.cubin"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


@needs_ptxas
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_goldens(path, tmp_path):
    options, snippet, _ = read(path)
    assert assemble(trace(options, snippet), tmp_path) == ""


READY_MADE = [value for name in ("elementwise", "rms_norm", "softmax", "copy2d")
              for value in vars(importlib.import_module(f"pyptx.kernels.{name}")).values() if isinstance(value, Kernel)]  # fmt: skip


@needs_ptxas
@pytest.mark.parametrize("kernel", READY_MADE, ids=lambda kernel: kernel.__name__)
def test_ready_made_kernels(kernel, tmp_path):
    assert assemble(kernel.ptx(), tmp_path) == ""


@needs_ptxas
@pytest.mark.parametrize("K", [64, 256])
def test_hopper_tile(K, tmp_path):
    assert assemble(build_hopper_tile(K).ptx(), tmp_path) == ""


@needs_ptxas
@pytest.mark.parametrize("lineinfo", [False, True])
def test_rms_norm(lineinfo, tmp_path):
    assert assemble(build_rms_norm(16, 512).ptx(lineinfo=lineinfo), tmp_path) == ""


def twin(name: str, *arguments: str) -> str:
    program = ROOT / "build" / "release" / "examples" / f"example_{name}"
    if not program.exists():
        pytest.skip("skipped: the C++ examples are not built")
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


def test_rms_norm_from_cpp():
    assert twin("rms_norm", "512") == build_rms_norm(16, 512).ptx()


@pytest.mark.parametrize("K", [64, 256, 4096])
def test_hopper_tile_from_cpp(K):
    assert twin("hopper_tile", str(K)) == build_hopper_tile(K).ptx()
