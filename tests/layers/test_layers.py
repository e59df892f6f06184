"""The arrows of docs/architecture.md hold: a room of ptx/ includes only lower floors (and, where the page says so, a sibling)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"](ptx/([a-z]+)/[^">]+)[">]', re.MULTILINE)


def floors() -> tuple[dict[str, int], set[tuple[str, str]]]:
    """Room -> floor, and the pairs of siblings that the page allows, from the block after `### Direction`."""
    block = PAGE.read_text().split("### Direction", 1)[1].split("```", 2)[1]
    rooms, allowed = {}, set()
    for line in block.strip().splitlines():
        floor, _, rest = line.strip().partition(" ")
        names, _, remark = rest.partition("(")
        for name in names.split():
            rooms[name.rstrip("/")] = int(floor)
        allowed.update(re.findall(r"(\w+) may use (\w+)", remark))
    return rooms, allowed


def violations(text: str, room: str, rooms: dict[str, int], allowed: set[tuple[str, str]]) -> list[str]:
    found = []
    for path, target in INCLUDE.findall(text):
        if target == room or rooms.get(target, 99) < rooms[room] or (room, target) in allowed:
            continue
        found.append(path)
    return found


def sources() -> list[Path]:
    return sorted(
        p for p in (ROOT / "ptx").rglob("*") if p.suffix in {".h", ".cpp", ".def"} and p.parent != ROOT / "ptx"
    )


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_includes_point_downwards(path):
    rooms, allowed = floors()
    room = path.relative_to(ROOT / "ptx").parts[0]
    assert room in rooms, f"{room}/ has no floor in docs/architecture.md"
    assert not violations(path.read_text(), room, rooms, allowed)


def is_private(path: str) -> bool:
    """Headers in ptx/<room>/ are for everyone, those in a folder below it for the room (and its tests)."""
    return path.endswith(".h") and path.count("/") > 2


def private_includes(text: str, name: str) -> list[str]:
    """What `name` includes that is not for it: private headers of other rooms, and any where it is a public header."""
    room = name.split("/")[1]
    public_header = name.endswith(".h") and not is_private(name)
    return [path for path, target in INCLUDE.findall(text) if is_private(path) and (public_header or target != room)]


def users() -> list[Path]:
    folders = ("ptx", "python/src", "bench", "examples")
    return sorted(p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in {".h", ".cpp"})


@pytest.mark.parametrize("path", users(), ids=lambda p: str(p.relative_to(ROOT)))
def test_private_headers_stay_in_their_room(path):
    assert not private_includes(path.read_text(), str(path.relative_to(ROOT)))


def test_interop_and_below_know_no_python():
    for path in sources():
        assert "Python.h" not in path.read_text(), path


def test_the_test_can_fail():
    state = '#include "ptx/author/detail/state.h"\n'
    assert private_includes(state, "ptx/author/kernel.h") == ["ptx/author/detail/state.h"]
    assert private_includes(state, "python/src/values.cpp") == ["ptx/author/detail/state.h"]
    assert private_includes(state, "ptx/author/value.cpp") == []
    rooms, allowed = floors()
    assert violations('#include "ptx/sim/simulator.h"\n', "cuda", rooms, allowed) == ["ptx/sim/simulator.h"]
    assert violations('#include "ptx/ir/ir.h"\n', "base", rooms, allowed) == ["ptx/ir/ir.h"]
    assert violations('#include "ptx/check/check.h"\n', "author", rooms, allowed) == []
