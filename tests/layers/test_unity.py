"""Sources of a room are compiled several at a time (PTX_UNITY), so their anonymous namespaces are one: two functions of one name
would be overloads of each other, and a call may reach the wrong one without an error."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = [p for p in sorted((ROOT / "ptx").iterdir()) if p.is_dir()] + [ROOT / "python" / "src"]
FUNCTION = re.compile(
    r"^(?:template.*>\n)?(?:constexpr |inline |static |\[\[[^\]]*\]\] ?)*[A-Za-z_][\w:<>,&* ]*?[ &*](\w+)\(", re.M
)


def alone(cmake: Path) -> tuple[str, ...]:
    """Sources that CMake compiles one at a time, as paths below its folder; those of -O3 are of whole folders."""
    listed = re.findall(r"set_source_files_properties\(([^)]*?)SKIP_UNITY", cmake.read_text(), re.S)
    return (*re.findall(r"[\w/]+\.cpp", " ".join(listed)), "sim/exec/", "sim/numerics/")


def functions(text: str) -> set[str]:
    hidden = re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.S | re.M)
    return {name for block in hidden for name in FUNCTION.findall(block)}


@pytest.mark.parametrize("room", ROOMS, ids=lambda p: p.name)
def test_a_name_is_one_function_of_the_room(room):
    skipped = alone(room.parent / "CMakeLists.txt")
    where = defaultdict(set)
    for path in room.rglob("*.cpp"):
        if not str(path.relative_to(room.parent)).startswith(skipped):
            for name in functions(path.read_text()):
                where[name].add(path.name)
    assert not {name: sorted(files) for name, files in where.items() if len(files) > 1}


def test_the_test_can_fail():
    assert functions("namespace {\n\nint typed(char c) {\n  return 0;\n}\n\n}  // namespace\n") == {"typed"}
    assert "src/values.cpp" in alone(ROOT / "python" / "CMakeLists.txt")


def test_the_build_does_not_name_nanobinds_library():
    """It is nanobind-static for Python 3.11, nanobind-static-abi3 from 3.12 on: a build that names one fails beside the other."""
    assert "nanobind-" not in (ROOT / "python" / "CMakeLists.txt").read_text()
