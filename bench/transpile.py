"""The transpiler on texts of compilers: how fast in processor time, and how many lines of a body are left with sugar.

Each argument is a file or a folder of PTX; without, the corpus of `make corpus` or the fixtures.  Files that are not legal are left
out.  `--verify` runs each program and compares, which takes longer than all else.
"""

import argparse
import os
import time
from pathlib import Path

from pyptx import codegen, parser

HERE = Path(__file__).resolve().parent
CORPUS = Path(os.environ.get("PYPTX_CORPUS", Path.home() / ".cache/pyptx/corpus")) / "ptx"
SHOWN = 12  # files whose lines are shown, the longest first


def files_of(paths: list[Path]) -> list[Path]:
    found = [sorted(path.rglob("*.ptx")) if path.is_dir() else [path] for path in paths]
    return [path for group in found for path in group]


def lines_of(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("paths", nargs="*", type=Path)
    arguments.add_argument("--verify", action="store_true", help="run each program and compare what it writes")
    given = arguments.parse_args()
    paths = given.paths or [CORPUS if CORPUS.is_dir() else HERE.parent / "tests/fixtures"]
    texts = [(path, path.read_bytes()) for path in files_of(paths)]
    legal = [(path, text) for path, text in texts if not any(d.severity == "error" for d in parser.check(text))]
    size = sum(len(text) for _, text in legal)
    lines: dict[str, list[int]] = {path.name: [] for path, _ in legal}
    wrong = 0
    for sugar in codegen.SUGARS:
        taken = 0.0
        for path, text in legal:
            start = time.process_time()
            program = codegen.ptx_to_python(text, sugar=sugar)
            taken += time.process_time() - start
            lines[path.name].append(lines_of(program))
            if given.verify:
                try:
                    codegen.verify(text, program, names=sugar == "none")
                except Exception as error:
                    wrong += 1
                    print(f"{path.name}, {sugar}: {type(error).__name__}: {error}")
        print(f"{sugar:6} {size / taken / 1e6:7.2f} MB/s   {len(legal)} of {len(texts)} files, {size / 1e6:.2f} MB")
    print(f"\n{'lines':<60}" + "".join(f"{sugar:>8}" for sugar in codegen.SUGARS) + "   all/none")
    for name, counts in sorted(lines.items(), key=lambda item: -item[1][0])[:SHOWN]:
        print(f"{name[:59]:<60}" + "".join(f"{count:8}" for count in counts) + f"{counts[-1] / counts[0]:10.2f}")
    return wrong > 0


if __name__ == "__main__":
    raise SystemExit(main())
