"""The stub of pyptx._core, as it is installed: kept as a golden, and taken by type checkers on a sample of all families.

PYPTX_REBASE=1 writes the installed stub into the golden.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyptx
from pyptx import ptx

HERE = Path(__file__).parent
STUB = Path(pyptx.__file__).with_name("_core.pyi")
GOLDEN = HERE / "goldens" / "_core.pyi"
SAMPLE = HERE / "typed_sample.py"


def test_the_stub_is_the_golden():
    text = STUB.read_text()
    if os.environ.get("PYPTX_REBASE"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "look at the difference; PYPTX_REBASE=1 takes the new stub"


def run(*command) -> str:
    made = subprocess.run([sys.executable, "-m", *map(str, command)], capture_output=True, text=True, cwd=HERE)
    return made.stdout + made.stderr if made.returncode else ""


def checkers() -> list:
    mypy = ("mypy", "--strict")
    pyright = ("basedpyright", "--level", "error", "--pythonpath", sys.executable)
    return [pytest.param("mypy", mypy, id="mypy"), pytest.param("basedpyright", pyright, id="pyright")]


@pytest.mark.parametrize(("module", "command"), checkers())
def test_the_sample_has_types(module, command, tmp_path):
    pytest.importorskip(module, reason=f"no {module}")
    if module == "mypy":
        command = (*command, "--cache-dir", tmp_path)
    assert run(*command, SAMPLE) == ""
    wrong = tmp_path / "wrong.py"  # and they do look at the stub
    wrong.write_text('from pyptx import ptx\n\nptx.fence.thread("block")\nptx.mbarrier.init(1.5, None)\n')
    said = run(*command, wrong)
    assert len(re.findall(r"error", said)) >= 2, said


def test_every_public_name_of_ptx_says_what_it_is():
    text = STUB.read_text()
    for name in ptx.__all__:
        documented = (getattr(ptx, name).__doc__ or "").strip() or re.search(rf'class {name}[^:]*:\n    """', text)
        assert documented or name in ("inst", "tcgen05", "wgmma"), name


def test_the_sample_traces():
    scope: dict = {}
    exec(compile(SAMPLE.read_text(), str(SAMPLE), "exec"), scope)
    for traced in scope["KERNELS"]:
        assert "ret;" in traced.ptx()
