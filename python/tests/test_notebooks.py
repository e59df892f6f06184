"""The notebooks of examples/notebooks run, and show what their cells do (tools/notebooks.py)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))

spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
notebooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebooks)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebook(file):
    pytest.importorskip("torch")
    before = file.read_text()
    notebook = json.loads(before)
    assert notebook["nbformat"] == 4 and all("id" in cell for cell in notebook["cells"])
    assert notebooks.run(notebook) == []
    assert notebooks.text_of(notebook) == before, "run tools/notebooks.py"


def cell(source: str, *tags: str) -> dict:
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source.splitlines(keepends=True)}


def test_what_a_cell_shows():
    notebook = {"cells": [cell("x = 2\nprint(x)\nx + 1"), cell("x / 0", "raises-exception"), cell("object()")]}
    assert notebooks.run(notebook) == []
    printed, value = notebook["cells"][0]["outputs"]
    assert printed["text"] == ["2\n"] and value["data"] == {"text/plain": ["3"]}
    assert notebook["cells"][1]["outputs"][0]["traceback"] == ["ZeroDivisionError: division by zero"]
    assert notebook["cells"][2]["outputs"][0]["data"]["text/plain"] == ["<object object at 0x...>"]


def test_a_cell_that_raises_has_to_say_so():
    wrong = notebooks.run({"cells": [cell("1 / 0"), cell("1", "raises-exception")]})
    assert wrong == ["cell 1: ZeroDivisionError: division by zero", "cell 2: raises nothing"]


def test_there_are_three_and_they_lead_to_each_other():
    assert len(NOTEBOOKS) == 3
    for file, after in zip(NOTEBOOKS, NOTEBOOKS[1:], strict=False):
        assert f"({after.name})" in file.read_text()
