"""What transpiling and the tools for PTX files promise, asked of each module of a corpus, or of anybody's PTX.

    python tests/corpus/promises.py [FOLDER | FILE ...] [--only GLOB] [--jobs N]

Without a place: the cache of tools/corpus, and shared/corpus/ptx beside the repository.  A module that is legal, in each step of sugar: the
program in Python runs and prints the module, the program in C++ is written.  Any text: layout is stable and keeps the meaning; lint, stats
and diff answer.  A line for each thing that fails, then counts; the exit status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import fnmatch
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyptx import _core, codegen, ir, parser
from pyptx.tools import difference, layout, lint, stats

SHARED = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "ptx"
CACHE = Path(os.environ.get("PYPTX_CORPUS") or Path.home() / ".cache/pyptx/corpus") / "ptx"


def is_legal(source: bytes) -> bool:
    return not any(one.severity == "error" for one in parser.check(source))


def transpiled(source: bytes, sugar: str, count: collections.Counter) -> None:
    program = codegen.ptx_to_python(source, sugar=sugar)
    codegen.verify(source, program, names=sugar == "none")
    count["Python"] += 1
    count["functions as they were"] += program.count("# As it was:")
    count["C++"] += "std::string text() {" in codegen.ptx_to_cpp(source, sugar=sugar)


def laid_out(source: bytes) -> None:
    text, _ = layout.formatted(source)
    again, _ = layout.formatted(text)
    assert again == text, "a second pass changes the text again"
    if is_legal(source):
        one, other = (layout.formatted(_core.module_text_of(each).encode())[0] for each in (source, text))
        assert one == other, "the layout changes the module"


def compared(source: bytes) -> None:
    module = ir.Module(source)
    assert all(row.same for row in difference.of(module, module)), "a text differs from itself"


def asked(source: bytes, count: collections.Counter) -> Iterator[tuple[str, Callable[[], object]]]:
    """The promises, each with its name."""
    if is_legal(source):
        count["legal"] += 1
        for sugar in codegen.SUGARS:
            yield f"transpile {sugar}", lambda sugar=sugar: transpiled(source, sugar, count)
    yield "fmt", lambda: laid_out(source)
    yield "lint", lambda: lint.find(source, lint.chosen(["all"], []))
    yield "stats", lambda: stats.report(stats.of(ir.Module(source)))
    yield "diff", lambda: compared(source)


def look(path: Path) -> tuple[Path, list[str], collections.Counter]:
    source, wrong = path.read_bytes(), []
    count = collections.Counter(modules=1, bytes=len(source))
    for what, promise in asked(source, count):
        try:
            promise()
        except Exception as error:
            wrong.append(f"{path.name}: {what}: {type(error).__name__}: {str(error)[:300]}")
    return path, wrong, count


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("places", nargs="*", type=Path, default=[CACHE, SHARED])
    options.add_argument("--only", default="*", metavar="GLOB")
    options.add_argument("--jobs", type=int, default=1, metavar="N")
    given = options.parse_args()
    files = [file for place in given.places for file in ([place] if place.is_file() else sorted(place.rglob("*.ptx")))]
    files = [file for file in files if fnmatch.fnmatch(file.name, given.only)]
    if not files:
        sys.exit(f"there is no PTX in {', '.join(map(str, given.places))}: `tools/corpus build` makes the corpus")
    failed, total, started = [], collections.Counter(), time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        for path, wrong, count in pool.map(look, files):
            failed += wrong
            total += count
            for line in wrong:
                print(line, flush=True)
            print(f"[{total['modules']}/{len(files)}] {path.name}", file=sys.stderr, flush=True)
    print(f"{dict(total)}, {len(failed)} failed, {time.monotonic() - started:.0f} s")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
