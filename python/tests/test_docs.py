"""The snippets of the documentation run."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["docs/authoring.md"])
def test_snippets(page, capsys):
    scope: dict = {}
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)
    assert blocks
    for number, block in enumerate(blocks):
        name = f"{page}, block {number}"
        linecache.cache[name] = (len(block), None, block.splitlines(True), name)
        exec(compile(block, name, "exec"), scope)
    assert ".visible .entry" in capsys.readouterr().out
