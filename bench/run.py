"""Every benchmark of this machine, one after the other: the C++ programs of the build, then the Python ones.

Each prints what its columns mean before its figures.  docs/performance/ keeps the figures with machine, command and date.
"""

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = Path(os.environ.get("PYPTX_CORPUS", Path.home() / ".cache/pyptx/corpus")) / "ptx"  # made by `make corpus`


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--build", type=Path, default=HERE.parent / "build/release", help="where CMake built the programs"
    )
    arguments = parser.parse_args()

    print(f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    texts = [CORPUS if CORPUS.is_dir() else HERE.parent / "tests/fixtures"]
    given = {"bench_parse_print": texts, "bench_format_lint": texts[:1]}
    programs = [
        [path, *given.get(path.name, [])]
        for path in sorted((arguments.build / "bench").glob("bench_*"))
        if os.access(path, os.X_OK)
    ]
    programs += [[sys.executable, path] for path in sorted(HERE.glob("[!_]*.py")) if path != Path(__file__).resolve()]
    failed = 0
    for command in programs:
        print("\n==", *(Path(part).name for part in command), flush=True)
        failed += subprocess.run(command).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
