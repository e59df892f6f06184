"""The snippets of the documentation run."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

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
    assert ".visible .entry" in capsys.readouterr().out
    a, b = torch.rand(size), torch.rand(size)
    out = torch.full((size,), float("nan"))
    assert torch.equal(scope["add"](a, b, out=out), a + b)


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
