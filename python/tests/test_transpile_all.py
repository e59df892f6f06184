"""What transpiling promises, shown on everything that is there: fixtures, the corpus, C++ on a sample.

Each legal file, each step of sugar: the program in Python runs and writes its input.  Fixtures that run give the same bytes on the
simulator as before.  C++ is written for all, and compiled for `SAMPLE`, as one translation unit.
"""

from __future__ import annotations

import collections
import difflib
import itertools
import random
import re
import runpy
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyptx import _core, codegen

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
RUN = ROOT / "tests" / "fixtures" / "run"

sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from run_fixtures import Fixture  # noqa: E402
from test_transpile import FAMILIES, rounds, unroll, unrolled  # noqa: E402
from test_transpile_raised import RAISED  # noqa: E402
from test_transpile_rounds import REGISTERS, WAITS, blocks, spelled  # noqa: E402
from test_transpile_tensors import BLACKWELL, HOPPER  # noqa: E402

# By its path: in its folder a `triton` lies, which is no package.
promises = runpy.run_path(str(ROOT / "tests" / "corpus" / "promises.py"))
CACHE, SHARED, is_legal, transpiled = (promises[name] for name in ("CACHE", "SHARED", "is_legal", "transpiled"))

# Kernels of every kind that sugar makes something of: blocks, tables, functions, vectors, variables.
SAMPLE = [
    "run/atomics", "run/barriers", "run/calls", "run/calls_of_compilers", "run/divergence", "run/generic", "run/initial_values", "run/mbarriers", "run/switch",
    "run/vectors", "run/votes", "syntax/branches",
]  # fmt: skip


def texts(folder: Path) -> dict[str, bytes]:
    """The legal ones.  Of the cache those that CI builds: `make corpus` asks all of it (tests/corpus/promises.py)."""
    names = [row.split("\t") for row in (ROOT / "tests/corpus/manifest.tsv").read_text().splitlines()]
    part = {row[0] for row in names if row[3] == "yes"}
    files = [path for path in sorted(folder.rglob("*.ptx")) if folder != CACHE or path.name in part]
    found = {path.name: source for path in files if is_legal(source := path.read_bytes())}
    if not found:
        pytest.skip(f"skipped: no PTX in {folder}")
    return found


@pytest.mark.parametrize("sugar", codegen.SUGARS)
@pytest.mark.parametrize("folder", [SHARED, CACHE], ids=["shared", "corpus"])
def test_corpus(folder, sugar):
    wrong, count = [], collections.Counter()
    for name, source in texts(folder).items():
        try:
            transpiled(source, sugar, count)
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    print(f"{folder}, {sugar}: {dict(count)}")
    assert not wrong, "\n".join(wrong)


def launched(text: str, fixture: Fixture) -> list[bytes]:
    """What the buffers of a launch hold behind it."""
    values = [one if isinstance(one, bytes) else bytearray(one[0]) for one in fixture.arguments]
    grid, block = (tuple([*fixture.shape[key], 1, 1][:3]) for key in ("grid", "block"))
    _core.run_text(text.encode(), "", fixture.entry, grid, block, (1, 1, 1), fixture.shape["smem"][0], values)
    return [bytes(one) for one in values if isinstance(one, bytearray)]


@pytest.mark.parametrize("path", sorted(RUN.glob("*.ptx")), ids=lambda path: path.stem)
def test_same_bytes(path):
    fixture = Fixture(path)
    before = launched(fixture.text, fixture)
    assert any(before)
    for sugar in codegen.SUGARS:
        text = codegen.run(codegen.ptx_to_python(path.read_bytes(), sugar=sugar))
        assert launched(text, fixture) == before, sugar


def unit(programs: dict[str, str], folder: Path) -> Path:
    """One program that writes what each of several does: its number, how long it is, its text."""
    parts, calls = ["#include <cstdio>"], []
    for number, program in enumerate(programs.values()):
        (folder / f"{number}.cpp").write_text(program)
        parts += [f"#define program program_{number}", f"#define main main_{number}", f'#include "{number}.cpp"']
        parts += ["#undef program", "#undef main"]
        calls.append(f"  put({number}, program_{number}::text);")
    parts += ["void put(int number, std::string (*text)()) {", "  const std::string made = text();"]
    parts += [r'  std::printf("%d %zu\n%s", number, made.size(), made.c_str());', "}"]
    whole = folder / "all.cpp"
    whole.write_text("\n".join([*parts, "int main() {", *calls, "}", ""]))
    return whole


def check_cpp(sources: dict[str, bytes], sugars: tuple[str, ...], folder: Path) -> None:
    """The programs in C++ compile, and write the modules."""
    libraries = sorted((BUILD / "ptx").glob("libptx_*.a"))
    if not libraries:
        pytest.skip("skipped: the C++ library is not built")
    programs = {
        f"{name} {sugar}": codegen.ptx_to_cpp(source, sugar=sugar)
        for name, source in sources.items()
        for sugar in sugars
    }
    assert "for (int" in "".join(programs.values())
    started = time.monotonic()
    command = [
        "g++",
        "-std=c++20",
        "-O0",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-return-type",
        "-isystem",
        BUILD / "include",
    ]
    command += [unit(programs, folder), "-o", folder / "all", "-Wl,--start-group", *libraries, "-Wl,--end-group"]
    made = subprocess.run([*command, "-pthread", "-ldl"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:4000]
    printed = subprocess.run([folder / "all"], capture_output=True, check=True).stdout
    for number, key in enumerate(programs):
        head, _, printed = printed.partition(b"\n")
        index, size = map(int, head.split())
        text, printed = printed[:size].decode(), printed[size:]
        name, sugar = key.split()
        assert index == number
        if sugar == "none":
            assert text == _core.module_text_of(sources[name]), key
        else:
            assert not _core.module_difference(sources[name], text.encode()), key
    print(f"{len(programs)} programs in {time.monotonic() - started:.0f} s")


UNREAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k() {
	.local .align 8 .b8 depot[24];
	.reg .b32 %r<3>;
	.reg .b64 SP;
	.reg .b32 never;
	mov.b64 SP, depot;
	mov.b32 %r1, 5;
	ret;
}
"""


@pytest.mark.parametrize("sugar", codegen.SUGARS)
def test_registers_that_nobody_reads_bring_no_warning_in_cpp(sugar, tmp_path):
    if not (BUILD / "include" / "ptx").is_dir():
        pytest.skip("skipped: the C++ library is not built")
    (tmp_path / "k.cpp").write_text(codegen.ptx_to_cpp(UNREAD, sugar=sugar))
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-isystem", BUILD / "include"]
    made = subprocess.run([*command, tmp_path / "k.cpp"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:4000]


CONTAINER = ".version 8.0\n.target sm_80\n.visible .entry k() {"
LONG = {
    "braces": lambda n: CONTAINER + "{" * n + "}" * n + " ret; }\n",
    "functions": lambda n: (
        ".version 8.0\n.target sm_80\n"
        + "".join(f".func f{i}() {{ ret; }}\n" for i in range(n))
        + ".visible .entry k() {"
        + "".join(f" call f{i};" for i in range(n))
        + " ret; }\n"
    ),
    "variables": lambda n: CONTAINER + "{ .param .b32 param0; st.param.b32 [param0], 1; }" * n + " ret; }\n",
    "own names": lambda n: (
        CONTAINER + " .reg .b32 x;" + "{ .reg .b32 t; mov.b32 t, 1; mov.b32 x, t; }" * n + " ret; }\n"
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_a_text_twice_as_long_takes_twice_the_time(name):
    """And not four times. Three is halfway, and 0.1 s is what a machine may lose between."""
    for write, sugar in itertools.product((codegen.ptx_to_python, codegen.ptx_to_cpp), ("none", "all")):
        times = []
        for size in (4_000, 8_000):
            source = LONG[name](size).encode()
            started = time.process_time()
            program = write(source, sugar=sugar)
            times.append(time.process_time() - started)
            assert len(program) < 2000 * size
        assert times[1] < 3 * times[0] + 0.1, (write.__name__, sugar, times)


def test_cpp_compiles_and_writes_its_input(tmp_path):
    sources = {name: (ROOT / "tests" / "fixtures" / f"{name}.ptx").read_bytes() for name in SAMPLE}
    sources |= {"families": FAMILIES.encode(), "blackwell": BLACKWELL.encode(), "hopper": HOPPER.encode()}
    sources |= {name: source.encode() for name, source in RAISED.items()}
    for seed in range(12):  # runs that become loops
        body = unroll(rounds(random.Random(seed), 3))
        sources[f"unrolled-{seed}"] = unrolled(
            ["ld.param.u64 %rd1, [x];", *body, "$E:"],
            ".reg .b32 %r<400>; .reg .f32 %f<400>; .reg .b64 %rd<40>; .reg .pred %p<9>;",
        ).encode()
    for seed in range(6):  # with blocks in them
        body = spelled(blocks(random.Random(seed), 4), [0])
        sources[f"blocks-{seed}"] = unrolled([*body, "$OUT:"], REGISTERS).encode()
    sources["around"] = (
        b".version 8.0\n.target sm_80\n.global .u32 before;\n.visible .entry k() { ret; }\n.global .u32 between;\n"
        b'.visible .entry l() { ret; }\n.file 1 "a.cu"\n.section .debug_info { .b8 1 }\n.section .debug_macinfo { }\n'
    )
    sources |= {f"wait-{number}": source.encode() for number, source in enumerate(WAITS)}
    deep = "{ .reg .b32 t; mov.b32 t, 1; { .reg .b32 t; mov.b32 t, 2; } { .reg .b32 t; mov.b32 t, 3; }"
    sources["deep"] = f"{CONTAINER}{deep * 30}{'}' * 30}{deep * 20}{'}' * 20} ret; }}\n".encode()
    check_cpp(sources, codegen.SUGARS, tmp_path)


def test_cpp_of_real_modules(tmp_path):
    """Of each compiler whose PTX is there, and of what was written by hand, the largest module of up to 48 kB."""
    by_author: dict[str, tuple[int, Path]] = {}
    for folder in (SHARED, CACHE):
        for path in sorted(folder.rglob("*.ptx")):
            kind = re.search(r"\.sm_\w+\.(.+)\.ptx$", path.name) if folder == CACHE else re.match("(.+?)__", path.name)
            author, size = kind[1] if kind else "by hand", path.stat().st_size
            if size <= 48_000 and size > by_author.get(author, (0, path))[0] and is_legal(path.read_bytes()):
                by_author[author] = size, path
    if not by_author:
        pytest.skip(f"skipped: no PTX in {SHARED} and {CACHE}")
    print({author: path.name for author, (_, path) in by_author.items()})
    check_cpp({path.name: path.read_bytes() for _, path in by_author.values()}, ("none", "all"), tmp_path)


def test_cpp_is_formatted(tmp_path):
    if subprocess.run(["clang-format-19", "--version"], capture_output=True).returncode:
        pytest.skip("skipped: no clang-format-19")
    (tmp_path / ".clang-format").write_text((ROOT / ".clang-format").read_text() + "ReflowComments: false\n")
    wrong = []
    for name in set(SAMPLE) - {"run/calls", "run/calls_of_compilers"}:  # signatures, that is long lists of fields
        source = (ROOT / "tests" / "fixtures" / f"{name}.ptx").read_bytes()
        for sugar in codegen.SUGARS:
            file = tmp_path / f"{Path(name).name}_{sugar}.cpp"
            file.write_text(codegen.ptx_to_cpp(source, sugar=sugar))
            formatted = subprocess.run(["clang-format-19", file], capture_output=True, text=True, check=True).stdout
            for line in difflib.unified_diff(file.read_text().split("\n"), formatted.split("\n"), n=0, lineterm=""):
                # A list of fields that is too long has a line a field in clang-format; the tool fills its lines.
                if line.startswith("-") and not re.search(r"---|\{\.|^-\s+(\.|[\"}\w]+[}\"])", line):
                    wrong.append(f"{name} {sugar}: {line}")
    assert not wrong, "\n".join(wrong)
