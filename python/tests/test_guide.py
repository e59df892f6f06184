"""The guide runs: docs/guide/*.md, page by page, in the order of their blocks.

    ```python        is run, in one scope a page; its lines are counted from its own first one
    ```python gpu    is run by `-m gpu` alone
    ```python example  stands so in a file of examples/
    ```text, ```ptx  directly behind: what the block before prints.  `...` stands for any text, or on its own for any lines.

A block that raises has to be followed by the exception: its type and message.  Where the simulator does not know an instruction
yet, the kernel is assembled all the same and the page says in its skip what is missing.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyptx.errors import SimulationError
from pyptx.kernel import Kernel

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide"
PAGES = sorted(page.name for page in GUIDE.glob("*.md"))
FENCE = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```\n(\n```(?:text|ptx)\n(.*?)^```\n)?", re.S | re.M)
UNKNOWN = 5001  # the simulator does not know an instruction


@dataclass
class Block:
    language: str
    needs: str | None
    source: str
    output: str | None


def blocks_of(text: str) -> list[Block]:
    return [Block(m[1], m[2], m[3], m[5]) for m in FENCE.finditer(text)]


def agrees(printed: str, expected: str) -> bool:
    """Whether the text is what the page says, up to white space at the ends of lines and to `...`."""
    pattern = ""
    for line in expected.strip("\n").splitlines():
        line = line.strip()
        pattern += r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + r"\n"
    lines = "".join(line.strip() + "\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch(pattern, lines) is not None


def run(block: Block, name: str, scope: dict) -> tuple[str, Exception | None]:
    """What the block prints, and what it raises in the end."""
    linecache.cache[name] = (len(block.source), None, block.source.splitlines(True), name)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(block.source, name, "exec"), scope)
    except Exception as error:
        return f"{printed.getvalue()}{type(error).__name__}: {error}\n", error
    return printed.getvalue(), None


def is_unknown(error: Exception | None) -> bool:
    return isinstance(error, SimulationError) and any(each.code == UNKNOWN for each in error.diagnostics)


def run_page(page: str, device: bool) -> list[str]:
    """Runs its blocks; what the simulator does not know."""
    missing, scope = [], {"__name__": "guide"}
    name = page.partition("-")[2].removesuffix(".md").replace("-", "_") + ".py"
    for block in blocks_of((GUIDE / page).read_text()):
        if block.language != "python" or block.needs == "example" or (block.needs == "gpu" and not device):
            continue
        printed, error = run(block, name, scope)
        if is_unknown(error) and not agrees(printed, block.output or ""):
            missing.append(str(error).splitlines()[0])
            continue
        if error is not None and block.output is None:
            raise error
        if not agrees(printed, block.output or ""):
            pytest.fail(
                f"{page} says\n\n{block.output}\nand prints\n\n{printed}\nafter\n\n{block.source}", pytrace=False
            )
    for kernel in [each for each in scope.values() if isinstance(each, Kernel)]:
        for made in list(kernel._kept._kept.values()):
            assert made.resources().registers > 0
    return missing


@pytest.mark.parametrize("page", PAGES)
def test_page(page):
    if missing := run_page(page, device=False):
        pytest.skip(f"skipped: the rest runs; not on the simulator yet: {'; '.join(missing)}")


def on_hopper() -> bool:
    torch = pytest.importorskip("torch")
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


@pytest.mark.gpu
@pytest.mark.parametrize("page", [page for page in PAGES if "```python gpu" in (GUIDE / page).read_text()])
def test_page_on_a_gpu(page):
    if not on_hopper():
        pytest.skip("skipped: no sm_90 GPU")
    assert not run_page(page, device=True)


def test_every_fence_is_read():
    for page in PAGES:
        text = (GUIDE / page).read_text()
        fences = len(re.findall(r"^```\w+", text, re.M))
        read = sum(1 + (block.output is not None) for block in blocks_of(text))
        assert fences == read, page
        assert not re.search(r"^.{161,}$", text, re.M), page


def test_excerpts_are_of_the_examples():
    examples = [each.read_text() for each in (ROOT / "examples").glob("*.py")]
    for page in PAGES:
        for block in blocks_of((GUIDE / page).read_text()):
            if block.needs == "example":
                assert any(block.source in text for text in examples), f"{page}:\n{block.source}"


def test_links_lead_somewhere():
    for page in GUIDE.glob("*.md"):
        for target in re.findall(
            r"\[[^\]]+\]\(([^)#]+)[^)]*\)", re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.S | re.M)
        ):
            assert target.startswith("https://") or (GUIDE / target).exists(), f"{page.name}: {target}"


def test_the_index_has_every_page():
    index = (GUIDE / "README.md").read_text()
    assert all(f"({page})" in index for page in PAGES if page != "README.md")


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\nc\n", "a\n...\nc\n", True),
        ("\ta 0x12 b\n", "a 0x... b\n", True),
        ("a\nb\n", "a\n", False),
        ("a\n", "a\n...\nc\n", False),
        ("ab\n", "a.\n", False),
    ],
)
def test_agrees(printed, expected, same):
    assert agrees(printed, expected) is same
