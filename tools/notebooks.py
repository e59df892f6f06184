"""Runs the notebooks of examples/notebooks without Jupyter and writes what their cells print and show into them.

    python tools/notebooks.py [--check] [FILE...]      --check: exit 1 where a notebook does not show what its cells do

A cell whose tags have `raises-exception` has to raise, any other must not.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import linecache
import pathlib
import re
import sys
import warnings
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "notebooks"


def told(text: str) -> str:
    """Without addresses of memory, which are others each time."""
    return re.sub(r"\b0x[0-9a-f]{8,}", "0x...", text)


def lines(text: str) -> list[str]:
    return told(text).splitlines(keepends=True)


def shown(value: Any) -> dict[str, list[str]]:
    """What a notebook shows of the value of a cell's last line."""
    made = {"text/plain": lines(repr(value))}
    if draw := getattr(value, "_repr_html_", None):
        made["text/html"] = lines(draw())
    return made


def run_cell(source: str, number: int, scope: dict) -> list[dict]:
    """Its outputs, as the format of notebooks has them."""
    name = f"In [{number}]"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    body = ast.parse(source, name)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    printed, value, error = io.StringIO(), None, None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            exec(compile(body, name, "exec"), scope)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), name, "eval"), scope)
        except Exception as raised:
            error = raised
    outputs: list[dict] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        outputs.append(
            {"data": shown(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        )
    if error is not None:
        kind = type(error).__name__
        outputs.append(
            {"ename": kind, "evalue": told(str(error)), "output_type": "error", "traceback": lines(f"{kind}: {error}")}
        )
    return outputs


def run(notebook: dict) -> list[str]:
    """Fills the outputs in; what went otherwise than the cells say."""
    scope: dict = {"__name__": "__main__"}
    wrong = []
    for number, cell in enumerate((each for each in notebook["cells"] if each["cell_type"] == "code"), 1):
        cell["outputs"], cell["execution_count"] = run_cell("".join(cell["source"]), number, scope), number
        raised = [each for each in cell["outputs"] if each["output_type"] == "error"]
        if bool(raised) != ("raises-exception" in cell["metadata"].get("tags", [])):
            wrong.append(f"cell {number}: {''.join(raised[0]['traceback']) if raised else 'raises nothing'}")
    return wrong


def text_of(notebook: dict) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path, default=sorted(FOLDER.glob("*.ipynb")))
    arguments = parser.parse_args()
    status = 0
    for file in arguments.files:
        before = file.read_text()
        notebook = json.loads(before)
        wrong = run(notebook)
        after = text_of(notebook)
        if arguments.check and after != before:
            wrong.append("shows something else than its cells do: run tools/notebooks.py")
        elif not wrong:
            file.write_text(after)
        for each in wrong:
            print(f"{file.name}: {each}")
        status |= bool(wrong)
    return status


if __name__ == "__main__":
    sys.exit(main())
