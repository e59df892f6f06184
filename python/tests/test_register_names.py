"""Registers have the names of the author's source: in reports, at stops, in differences.  What is not certain has none."""

from __future__ import annotations

import linecache
import re
import sys

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from simulator_kernels import OF_64, X64, line_of  # noqa: E402

import pyptx  # noqa: E402
from pyptx import Tile, kernel, ptx, reg, smem  # noqa: E402
from pyptx.body import registers  # noqa: E402
from pyptx.errors import SimulationError  # noqa: E402
from pyptx.tools.debugger import Debugger  # noqa: E402
from pyptx.types import f32, s32, u32, u64  # noqa: E402

if sys.version_info < (3, 11):
    pytest.skip("skipped: Python 3.10 does not tell where an expression stands", allow_module_level=True)

ONE = dict(out_specs=(Tile(1, f32),), grid=(1, 1, 1), block=(1, 1, 1))


def pairs(rows) -> list[tuple]:
    """(row, name) of each register of each row."""
    return list(zip((row for row in rows for _ in range(row[3])), registers.names(rows), strict=True))


def names_of(function, *, used: bool = False) -> list[str]:
    """Of the registers that a body gets, in its order; or `used`, of those that it has as operands."""
    rows = kernel(**ONE)(function).specialise().module.registers.rows
    return [name for row, name in pairs(rows) if row[8].startswith("(") == used]


def named(body: str, before: str = "", *, used: bool = False, file: str = "names_here.py") -> list[str]:
    """Of a body as text, in which `t` is an integer and `x` a floating-point register that a helper returned."""
    source = f"{before}\ndef k(Y):\n    t, x = given()\n" + "".join(f"    {line}\n" for line in body.splitlines())
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope = {"given": given, "ptx": ptx, "reg": reg, "smem": smem, "f32": f32, "u32": u32, "s32": s32}
    exec(compile(source, file, "exec"), scope)
    names = names_of(scope["k"], used=used)
    return names if used else names[2:]


def given():
    return (*[reg.from_(ptx.special.tid.x(), u32)], *[reg.scalar(f32, init=1.0)])


# What each kind of statement calls its registers, "" what has no name.
STATEMENTS = [
    ("row = t + 4", ["row"]),
    ("row = t * 8 + (t - 1)", ["", "", "row"]),
    ("row: object = t + 4", ["row"]),
    ("first = second = t + 4", ["first"]),
    ("print(row := t + 4)", ["row"]),
    ("a, b = t + 1, t + 2", ["a", "b"]),
    ("a, (b, [c, d]) = t + 1, (t + 2, [t + 3, t + 4])", ["a", "b", "c", "d"]),
    ("[a, b] = t + 1, t + 2", ["a", "b"]),
    ("both = t + 1, t + 2", ["both[0]", "both[1]"]),
    ("by = {'low': t + 1, 2: t + 2, t: t + 3}", ["by['low']", "by[2]", ""]),
    ("n = 5\nn += t", ["n"]),
    ("low = (t - 1).as_(s32)", ["low"]),
    ("small = t < 5", ["small"]),
    ("no = -x", ["no"]),
    ("top = x.max(2.0)", ["top"]),
    ("one = t + 1 if True else t + 2", ["one"]),
    ("acc = reg.array(f32, 3)", ["acc[0]", "acc[1]", "acc[2]"]),
    ("a, b = reg.array(f32, 2)", ["a", "b"]),
    ("acc = [reg.scalar(f32) for _ in range(3)]", ["acc[0]", "acc[1]", "acc[2]"]),
    ("acc = tuple(reg.scalar(f32) for _ in range(1, 5, 2))", ["acc[0]", "acc[1]"]),
    ("acc = [[reg.scalar(f32) for _ in range(2)] for _ in (0, 1)]", ["acc[0][0]", "acc[0][1]", "acc[1][0]", "acc[1][1]"]),
    ("acc = [(reg.scalar(f32), t + 1) for _ in range(2)]", ["acc[0][0]", "acc #1", "acc[1][0]", "acc #2"]),
    ("for _ in range(2):\n    acc = [reg.array(f32, 2) for _ in range(1)]", [f"acc[0][{i}] #{n}" for n in (1, 2) for i in (0, 1)]),
    ("n = 2\nacc = [reg.scalar(f32) for _ in range(n)]", ["acc #1", "acc #2"]),
    ("acc = [reg.scalar(f32) for i in range(4) if i % 2]", ["acc #1", "acc #2"]),
    ("acc = {i: reg.scalar(f32) for i in range(2)}", ["acc #1", "acc #2"]),
    ("for i in range(3):\n    v = t + i", ["v #1", "v #2", "v #3"]),
    ("v = t + 1\nv = t + 2", ["v #1", "v #2"]),
    ("for k in ptx.range_(0, 4):\n    pass", ["k"]),
    ("class State:\n    pass\nstate = State()\nstate.row = t + 1", ["state.row"]),
    ("tile = smem.alloc(f32, 8)\ntile[t] = x\nv = tile[t,]", ["v"]),
    ("frag = reg.wgmma_frag(m=64, n=4, dtype=f32)", ["frag[0]", "frag[1]"]),
    ("v = ptx.warp.shfl('bfly', t, 1, 31)", ["v"]),
    ("v = (\n    reg\n    .scalar(f32)\n)", ["v"]),
    ("a = 'ä'; größe = t + 1", ["größe"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "names"), STATEMENTS, ids=[body for body, _ in STATEMENTS])
def test_a_statement_names_its_registers(body, names):
    found = named(body)
    assert [each for each in found if each] == [each for each in names if each], found


# None of these is what its line assigns to.
NAMELESS = [
    "total = sum([t, t, t], t)",
    "import functools, operator\ntotal = functools.reduce(operator.add, [t, t, t])",
    "made = list(map(reg.scalar, [f32, f32]))",
    "made = (lambda: t + 1)()",
    "made = str(t + 1)",
    "for made in enumerate(ptx.range_(0, 4)):\n    pass",
    "made = [*[t + 1], t]",
    "made, *rest = [t, t + 1]",
    "tile = smem.alloc(f32, 8)\ntile[t] = x * 2.0",
    "made = {}\nmade['row'] = t + 1",
    "def helper():\n    return t + 1\nmade = helper()",
    "class Like:\n    def __add__(self, other):\n        return t + t + other\nmade = Like() + 1",
    "made = reg.array(f32, 2)\nmade[0] = x + 1.0",
    "made = [reg.array(f32, 1)[0], t][1]",
]


@pytest.mark.parametrize("body", NAMELESS)
def test_what_is_not_certain_has_no_name(body):
    found = named(body)
    assert not [each for each in found if each and not each.startswith("made[")], found


def test_shadowed_builtins_count_nothing():
    assert named("acc = [reg.scalar(f32) for _ in range(4)]", "def range(n): return [0, 1]") == ["acc #1", "acc #2"]
    assert named("acc = list(reg.scalar(f32) for _ in range(2))", "def list(made): return [*made][:1]") == ["", ""]


def test_an_instruction_returns_its_destination():
    body = "v = ptx.inst.mov.f32(reg.scalar(f32), x)"
    assert named(body, "from pyptx import ptx") == ["v"]
    assert named(body, "from pyptx import ptx as p\nptx = p") == [""], "ptx may be anything"


USES = [
    ("v = t + 1", ["t"]),
    ("v = 1 + t", ["t"]),
    ("ptx.inst.mov.f32(x, 1.0)", ["x"]),
    ("ptx.addr(t)", ["t"]),
    ("ptx.warp.shfl('bfly', t, 1, 31)", ["t"]),
    ("ptx.inst.add.u32(t, *[t, t])", ["t"]),
    ("args = [x, x]\nptx.inst.mov.f32(*args)", [""]),
    ("from functools import partial\npartial(ptx.inst.add.u32, t)(t, 1)", [""]),
    ("move = ptx.inst.mov.f32\nmove(x, 1.0)", [""]),
    ("sum([t], 1)", [""]),
    ("both = [t]\nboth[0] + 1", [""]),
    ("v = reg.scalar(f32)\nw = v\nptx.inst.mov.f32(w, x)", ["x", ""]),
]


@pytest.mark.parametrize(("body", "names"), USES, ids=[body for body, _ in USES])
def test_the_first_use_names_what_a_helper_returned(body, names):
    assert named(body, "from pyptx import ptx", used=True) == names


def test_another_source_has_no_names():
    def k(Y):
        row = reg.scalar(f32, init=1.0)
        del row

    assert names_of(k) == ["row"]
    file, source = k.__code__.co_filename, linecache.getlines(k.__code__.co_filename)
    try:
        linecache.cache[file] = (1, None, [line.replace("row = reg", "raw = reg") for line in source], file)
        assert names_of(k) == [""], "the file was changed since it was imported"
        linecache.cache[file] = (1, None, ["def k(:\n"], file)
        assert names_of(k) == [""]
    finally:
        del linecache.cache[file]
    scope = {"reg": reg, "f32": f32}
    exec("def k(Y):\n    row = reg.scalar(f32)", scope)
    assert names_of(scope["k"]) == [""], "code without a source"


@ptx.func
def twice(v: f32) -> f32:
    doubled = v + v
    return doubled


def test_functions_have_their_own_names():
    def k(Y):
        a = reg.scalar(f32, init=1.0)
        b = twice(a)
        twice(b)

    rows = kernel(**ONE)(k).specialise().module.registers.rows
    of = [(row[0], name) for row, name in pairs(rows) if not row[8].startswith("(")]
    assert of == [("twice", "v"), ("twice", "doubled"), ("k", "a"), ("k", "b"), ("k", "")]


def test_a_rewritten_kernel_has_the_names_of_its_text():
    @kernel(**ONE)
    def k(Y):
        row = reg.scalar(f32, init=1.0)
        del row

    assert k.specialise().module.registers.rows
    assert k.rewritten(lambda module: None).specialise().module.registers is None


# On the simulator.


@kernel(**OF_64)
def undefined(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    t = reg.from_(ptx.special.tid.x(), u32)
    off = t * 4
    at = py + off
    total = reg.scalar(f32)
    v = reg.scalar(f32)
    acc = reg.array(f32, 2)
    ptx.inst.ld.global_.f32(v, ptx.addr(px + off))
    ptx.inst.mov.f32(acc[0], v)
    ptx.inst.mov.f32(acc[1], total)
    ptx.inst.st.global_.f32(ptx.addr(at), acc[1])
    ptx.ret()


def test_a_report_names_the_register():
    made = f"{__file__}:{line_of(undefined, 'total = reg')}"
    with pytest.raises(SimulationError) as error:
        undefined(X64)
    assert re.search(
        rf"uses a value made of `%f\d+` \(`total`, {re.escape(made)}\), which it never wrote", str(error.value)
    )
    assert "the line is" not in str(error.value)


@kernel(**OF_64)
def beyond(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    t = reg.from_(ptx.special.tid.x(), u32)
    at = px + t * 4
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(at, 4))
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
    ptx.ret()


def test_a_report_names_the_address():
    with pytest.raises(SimulationError, match="PTX5010") as error:
        beyond(X64)
    made = f"{__file__}:{line_of(beyond, 'at = px')}"
    assert re.search(rf"its address is `%rd\d+` \(`at`, {re.escape(made)}\) \+ 4", str(error.value))


@kernel(**OF_64)
def racing(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    t = reg.from_(ptx.special.tid.x(), u32)
    slots = smem.alloc(f32, 64)
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 4))
    own = reg.from_(slots, u32) + t * 4
    other = reg.from_(slots, u32) + (t ^ 63) * 4
    ptx.inst.st.shared.f32(ptx.addr(own), v)
    ptx.inst.ld.shared.f32(v, ptx.addr(other))
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
    ptx.ret()


def test_a_race_names_both_addresses():
    with pyptx.simulator(check="all", raises=False) as run:
        racing(X64)
    races = [each for each in run.reports if each.code == 5050]
    assert races
    notes = "\n".join(races[0].notes)
    assert re.search(r"^its address is `%r\d+` \(`(own|other)`", notes, re.M), notes
    assert re.search(r"^of the other, its address is `%r\d+` \(`(own|other)`", notes, re.M), notes


def test_a_value_from_a_caller_is_the_callers():
    @ptx.func(registers=True)
    def inner(at: u64, v: f32):
        ptx.inst.st.global_.f32(ptx.addr(at), v)

    @kernel(**OF_64)
    def outer(X, Y):
        nothing = reg.scalar(f32)
        inner(ptx.global_ptrs(Y)[0], nothing)
        ptx.ret()

    with pytest.raises(SimulationError, match=r"made of `%f\d+` \(`nothing`, "):
        outer(X64)


def test_a_stop_knows_the_names():
    seen = []

    def look(stop):
        all_of = stop.registers
        assert (all_of["t"].values == np.arange(32) + 32 * stop.warp).all()
        assert (all_of["off"].values == 4 * all_of["t"].values).all(), "a product that became one of 64 bits"
        assert all_of["acc[0]"].name != all_of["acc[1]"].name
        assert all_of["v"].called == "v" and all_of[all_of["v"].name] is all_of["v"]
        assert [each.called for each in all_of.all("acc")] == ["acc[0]", "acc[1]"]
        with pytest.raises(KeyError, match=r"2 registers are called 'acc': acc\[0\] \(%"):
            _ = all_of["acc"]
        with pytest.raises(KeyError, match=r"there are .*total \(%f"):
            _ = all_of["nobody"]
        assert {"px", "py", "t", "off", "at", "total", "v", "acc[0]", "acc[1]"} <= set(all_of.named)
        assert all_of["total"].line == line_of(undefined, "total = reg")
        seen.append(stop.warp)

    with pyptx.simulator(raises=False) as run:
        run.breakpoint(f"test_register_names.py:{line_of(undefined, 'acc[1], total')}", look)
        undefined(X64)
    assert seen


def test_the_debugger_on_the_terminal():
    commands = iter(["p t", "p acc", "v", "q"])
    written = []
    with pyptx.simulator() as run, pytest.raises(SimulationError, match="PTX5041"):
        run.breakpoint(line_of(undefined, "acc[1], total"), Debugger(lambda prompt: next(commands), written.append))
        undefined(X64)
    text = "\n".join(written)
    assert re.search(r"^t \(%r\d+, .*test_register_names.py:\d+\) \.(b|u)32: 0 1 2 3 ", text, re.M), text
    assert re.search(r"^acc\[0\] \(%f\w+, .*\) \.f32: 0 1 2", text, re.M), text
    assert re.search(r"^total \(%f\d+, .*\) \.f32: nothing has written it", text, re.M), text


def test_a_difference_names_the_value():
    def doubled(X, Y, *, factor=2.0):
        px, py = ptx.global_ptrs(X, Y)
        t = reg.from_(ptx.special.tid.x(), u32)
        v = reg.scalar(f32)
        ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 4))
        result = v * factor
        ptx.inst.st.global_.f32(ptx.addr(py + t * 4), result)
        ptx.ret()

    one, two = kernel(**OF_64)(doubled), kernel(**OF_64)(lambda X, Y: doubled(X, Y, factor=3.0))
    found = pyptx.diff(one, X64, against=two)
    assert re.fullmatch(rf"`%f\d+` \(`result`, {re.escape(__file__)}:\d+\)", found.value), found.value
    assert f" wrote it from {found.value}, and " in str(found)
