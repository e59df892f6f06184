"""The lines of fixtures/quirks, asked of the assembler: it takes what is marked `// taken`, and refuses the others."""

import pathlib
import re

import assembler
import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures/quirks"
LINE = re.compile(r"^\t(.*);  // (taken|refused)$", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ptx")), ids=lambda path: path.stem)
def test_quirks(path):
    newest = assembler.find()
    if not newest or newest.version < (13, 5):
        pytest.skip("no assembler of 13.5 or later")
    text = path.read_text()
    target = re.search(r"^\.target (\w+)", text, re.MULTILINE)[1]
    version = re.search(r"^\.version (\S+)", text, re.MULTILINE)[1]
    lines = dict(LINE.findall(text))
    judge = assembler.Judge(newest, target, version)
    try:
        verdicts = {line: "refused" if judge.refused([line], frozenset([line])) else "taken" for line in lines}
    finally:
        newest.close()
    assert verdicts == lines
