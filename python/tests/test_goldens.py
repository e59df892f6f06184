"""The snippets of the authoring contract and the text they stand for.

A golden is the snippet, `---`, the text.  A text with a header is compared whole, one without by the body alone.  Where the
text differs from what earlier releases printed, a line `# differs: ...` in the golden says why.  PYPTX_REBASE=1 writes what is printed now into the goldens.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import pyptx
from pyptx import Layout, Tile, intrinsic, ptx, reg, smem, types

GOLDENS = sorted((Path(__file__).parent / "goldens").glob("*.txt"))
NAMES = {
    "Layout": Layout,
    "Tile": Tile,
    "intrinsic": intrinsic,
    "ptx": ptx,
    "reg": reg,
    "smem": smem,
    **{name: getattr(types, name) for name in types.__all__},
}


def read(path: Path) -> tuple[str, str, str]:
    """Options of the decorator, snippet, text."""
    head, _, text = path.read_text().partition("\n---\n")
    lines = [line for line in head.splitlines() if not line.startswith("#")]
    options = ""
    if lines and lines[0].startswith("@kernel("):
        options = lines.pop(0)[len("@kernel(") : -1]
    return options, "\n".join(lines), text


def trace(options: str, snippet: str) -> str:
    scope = dict(NAMES)
    given = eval(f"dict({options})", scope)
    tensors = "A, B" if "in_specs" in given else ""
    body = "\n".join("    " + line for line in snippet.splitlines())
    exec(compile(f"def k({tensors}):\n{body}\n", "<golden>", "exec"), scope)
    return pyptx.kernel(scope["k"], **given).ptx()


def body_of(text: str) -> str:
    return re.search(r"^\{\n(.*)^\}\n\Z", text, re.S | re.M).group(1)


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_text(path):
    options, snippet, text = read(path)
    printed = trace(options, snippet)
    if not text.startswith(".version"):
        printed = body_of(printed)
    if os.environ.get("PYPTX_REBASE") and printed != text:
        path.write_text(path.read_text().partition("\n---\n")[0] + "\n---\n" + printed)
    assert printed == text


def test_there_are_goldens():
    assert len(GOLDENS) > 30
