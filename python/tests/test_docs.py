"""The snippets of the documentation run."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

from pyptx import _core
from pyptx.codegen import ptx_to_python
from pyptx.errors import AuthoringError

ROOT = Path(__file__).resolve().parents[2]


def blocks_of(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)


@pytest.mark.parametrize("size", [1, 100, 128, 200, 1000])
def test_the_first_example_is_right_for_every_size(size, capsys):
    torch = pytest.importorskip("torch")
    scope: dict = {}
    name = "README.md, block 0"
    (block,) = blocks_of("README.md")
    linecache.cache[name] = (len(block), None, block.splitlines(True), name)
    exec(compile(block, name, "exec"), scope)
    printed = capsys.readouterr().out
    assert ".visible .entry" in printed and printed.splitlines()[-1] in (ROOT / "README.md").read_text()
    a, b = torch.rand(size), torch.rand(size)
    out = torch.full((size,), float("nan"))
    assert torch.equal(scope["add"](a, b, out=out), a + b)


def test_the_first_mistake_has_the_report_of_the_readme():
    pytest.importorskip("torch")
    (block,) = blocks_of("README.md")
    right, wrong = re.search(r"With `(.*?)` in place of `(.*?)`", (ROOT / "README.md").read_text()).groups()[::-1]
    assert block.count(right) == 1
    with pytest.raises(AuthoringError) as caught:
        exec(compile(block.replace(right, wrong), "add.py", "exec"), {})
    assert f"pyptx.errors.AuthoringError: {caught.value}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "page, printed",
    [
        ("docs/export.md", "scale.h"),
        ("docs/authoring.md", ".visible .entry"),
        ("docs/kernels.md", ""),
        ("docs/pictures.md", ""),
        ("docs/timeline.md", "tile is there"),
    ],
)
def test_snippets(page, printed, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some write files
    scope: dict = {}
    blocks = blocks_of(page)
    assert blocks
    for number, block in enumerate(blocks):
        name = f"{page}, block {number}"
        linecache.cache[name] = (len(block), None, block.splitlines(True), name)
        exec(compile(block, name, "exec"), scope)
    assert printed in capsys.readouterr().out


def test_what_the_transpiler_makes_of_its_first_example():
    page = (ROOT / "docs/transpiler.md").read_text()
    (text, *_) = re.findall(r"^```ptx\n(.*?)^```", page, re.S | re.M)
    text = f".version 8.0\n.target sm_80\n.address_size 64\n{text}"
    without, with_all = (block for block in blocks_of("docs/transpiler.md") if "def add():" in block)
    assert without in ptx_to_python(text)
    assert with_all in ptx_to_python(text, sugar="all")


# What pages of fragments take as given: the names that they use.
GIVEN = {
    "docs/simulator.md": """
import numpy, pyptx
from test_launch import make_scale
scale = make_scale()
def k(x):
    return scale(x)
def look(stop):
    pass
x = numpy.ones(64, numpy.float32)
""",
    "docs/sanitizer.md": """
import numpy, pyptx
from test_launch import make_scale
k, x = make_scale(), numpy.ones(64, numpy.float32)
""",
    "docs/pytorch.md": """
import torch, pyptx
from pyptx import Tile, kernel, kernels, ptx
from pyptx.types import f32
def rms_norm(x, w, eps=1e-6, out=None):
    return kernels.rms_norm(x, w, eps=eps, out=out)
def scale(x, factor):
    return x * factor
x, w = torch.ones(4, 8), torch.ones(8)
@kernel
def rms_norm_16_512():
    ptx.ret()
@kernel(in_specs=(Tile("M", "K", f32), Tile("K", "N", f32)), out_specs=(Tile("M", "N", f32),))
def gemm(A, B, C):
    ptx.ret()
""",
    "docs/torch_compile.md": """
import torch, pyptx
from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32
from test_launch import make_scale
scale = make_scale()
class Model(torch.nn.Module):
    def forward(self, x):
        return scale(x)
model, x, w = Model(), torch.ones(64), torch.ones(64, requires_grad=True)
@kernel(in_specs=(Tile(64, f32), Tile(64, f32)), out_specs=(Tile(64, f32),), block=(64, 1, 1))
def rms_norm(X, W, Y):
    px, pw, py = ptx.global_ptrs(X, W, Y)
    at = reg.from_(ptx.special.tid.x(), u32) * 4
    x = ptx.ld(f32, reg.scalar(f32), px + at)
    ptx.st(f32, py + at, x * ptx.ld(f32, reg.scalar(f32), pw + at))
    ptx.ret()
def rms_norm_backward(x, w, gradient):
    return gradient * w, gradient * x
""",
    "docs/jax.md": """
import jax
from pyptx.kernels import rms_norm
x, w = jax.numpy.ones((4, 8)), jax.numpy.ones(8)
""",
}


@pytest.mark.parametrize("page", GIVEN)
def test_fragments(page, monkeypatch, tmp_path):
    for package in ("torch", "jax", "numpy"):
        if f"import {package}" in GIVEN[page]:
            pytest.importorskip(package, reason=f"skipped: no {package}")
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    exec(GIVEN[page], scope)
    for number, block in enumerate(blocks_of(page)):
        if ("resources(" in block or "report(" in block) and "ptxas" not in _core.assembler_description():
            continue
        name = f"{page}, block {number}"
        linecache.cache[name] = (len(block), None, block.splitlines(True), name)
        exec(compile(block, name, "exec"), scope)
