"""The kernels of the documentation that people have, verbatim."""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path

import pytest

import pyptx

ROOT = Path(__file__).resolve().parents[2]
SEEDS = Path(os.environ.get("PYPTX_SHARED", ROOT.parent / "shared")) / "seeds"
needs_seeds = pytest.mark.skipif(not SEEDS.is_dir(), reason="skipped: no shared/seeds")

sys.path.insert(0, str(ROOT))
from examples.rms_norm import build_rms_norm, rms_norm_reference  # noqa: E402


def seed(start: str) -> str:
    return next(SEEDS.glob(f"{start}*.txt")).read_text()


@needs_seeds
def test_the_example_is_the_seed():
    text = seed("000")
    function = text[text.index("def build_rms_norm") : text.index("k = build_rms_norm(16, 512)")].strip()
    assert function in (ROOT / "examples" / "rms_norm.py").read_text()


@needs_seeds
def test_the_seed_runs_on_cpu_tensors():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    text = seed("000")
    code = text[text.index("import torch\nfrom pyptx") : text.index("That call goes through")]
    scope: dict = {}
    torch.manual_seed(0)
    exec(code.replace(', device="cuda"', ""), scope)
    expected = rms_norm_reference(scope["x"], scope["w"])
    assert torch.allclose(scope["out"], expected, rtol=1e-5, atol=1e-6)


@needs_seeds
def test_the_first_page():
    text = seed("002")
    code = text[text.index("from pyptx import kernel, reg") : text.index("2.6 TB/s on H100")]
    scope: dict = {}
    exec(code, scope)
    printed = scope["rms_norm"].ptx(B=256, N=4096)
    assert printed.count("ld.global.v4.f32") == 8 and printed.count("fma.rn.f32") == 32
    assert printed.count("shfl.sync.bfly.b32") == 5


@needs_seeds
def test_signatures_of_the_reference_page():
    text = seed("003")
    page = re.search(r"kernel\(fn: .*", text).group(0)
    names = re.findall(r"(\w+): '", page)
    ours = inspect.signature(pyptx.kernel).parameters
    assert list(ours)[: len(names)] == names
    assert all(more.default is not inspect.Parameter.empty for more in list(ours.values())[len(names) :])


def test_text_of_the_example():
    text = build_rms_norm(16, 512).ptx()
    assert text.startswith(".version ") and text.endswith("}\n")
    assert text.count("ld.global.f32") == 32 and text.count("st.global.f32") == 16
    # Two rows of 512 floats are 4 KiB: offsets of rows are 64-bit products, right beyond 4 GiB.
    assert "mul.wide.u32" in text
