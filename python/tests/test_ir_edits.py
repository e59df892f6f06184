"""Edits of modules, at random: the text stays legal, means what it meant but for the edit, and prints the rest as it was."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

import pyptx
from pyptx import _core, ir

hypothesis = pytest.importorskip("hypothesis", reason="skipped: no hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

# Ranges beside single registers, names like opcodes, labels on the line of a statement, comments with names in them, calls, tables.
TEXT = """\
.version 8.0 // head \\
.target sm_80
.address_size 64
.global .align 4 .b32 add[2] = {1, 2};
.func (.reg .b32 rv) twice(.reg .b32 a) { add.s32 rv, a, a; ret; } // twice: rv
/* the kernel, a */
.visible .entry rem(
\t.param .u64 .ptr .global in, // in: [in]
\t.param .u32 n
)
.maxntid 32
{
\t.reg .b32 min, r<0x6>, t<010>;   // min is a register
\t.reg .pred p, q<2>; .reg .b64 at;
\t.shared .align 8 .b8 tile[64];
\tld.param.u64 at, [in]; ld.param.u32 min, [n];
AGAIN:\tmin.s32 r1, min, t7; /* r1 */ rem.s32 r2, r1, min;
\ttable: .branchtargets AGAIN, OUT; brx.idx r2, table;
\t{ .reg .b32 r1; mov.b32 r1, tile; st.shared.b32 [r1+4], r2; }

\tcall (r3), twice, (r2);  // r2 r3
\tsetp.lt.s32 p|q1, r3, 9; @!q1 bra.uni OUT;
\tst.global.b32 [at], r3;
OUT: ret;
}
"""


def errors(module: ir.Module) -> list:
    return [one for one in module.check() if one.severity == "error"]


def words(text: str) -> list[str]:
    return re.findall(r"\S+", text)


def test_the_text_is_legal():
    assert not errors(pyptx.parse(TEXT))


NAMES = ["min", "r", "r1", "t", "t7", "p", "q", "q1", "at", "tile", "in", "n", "AGAIN", "OUT", "table"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["x", "%v", "$y_", "mul"])), min_size=1, max_size=4))
def test_rename(pairs):
    m = pyptx.parse(TEXT)
    for number, (old, new) in enumerate(pairs):
        try:
            m["rem"].rename(old, f"{new}_{'abcd'[number]}")
        except ValueError as error:
            assert "has no" in str(error) and old in [one for one, _ in pairs[:number]] + ["r1", "q1", "t7"]
    assert not errors(m), str(m)
    renamed = any(old in ("tile", "in", "n") for old, _ in pairs)  # names that are no matter of registers and labels
    assert renamed or not _core.module_difference(TEXT.encode(), bytes(m)), str(m)
    assert str(m).count("//") == TEXT.count("//") and "// in: [in]" in str(m) and "// r2 r3" in str(m)


@pytest.mark.parametrize("name", ["rem", "twice", "add", "ret", "b32", "r6", "t8", "gone", ""])
def test_names_of_others_are_refused(name):
    m = pyptx.parse(TEXT)
    with pytest.raises(ValueError, match="has no"):
        m["rem"].rename(name, "other")
    assert str(m) == TEXT


def test_a_range_has_a_name_without_a_digit_at_its_end():
    m = pyptx.parse(TEXT)
    with pytest.raises(ValueError, match="ends in a digit"):
        m["rem"].rename("r", "x0")
    m["rem"].rename("r2", "x0")
    assert not errors(m)


def test_a_comment_ends_at_its_line():
    m = pyptx.parse(TEXT)
    m["rem"].body[1].remove()
    assert "// min is a register\n\t.reg .b64 at;" in str(m) and not [
        one for one in errors(m) if "at" in one.message.split("`")
    ]


NEW = [
    "bar.sync 0;",
    "// a word",
    "nanosleep.u32 20; nanosleep.u32 30;",
    '.pragma "nounroll";',
    "mov.b32 r4, r5; // behind",
]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 30), st.booleans(), st.sampled_from(NEW))
def test_insert_and_remove(at, before, new):
    m = pyptx.parse(TEXT)
    body = m["rem"].body
    place = body[at % len(body)]
    if place.text in ("table:", ".branchtargets AGAIN, OUT;"):  # which belong together
        return
    made = place.insert_before(new) if before else place.insert_after(new)
    assert not errors(m) or "r4" in new, str(m)  # in front of their declaration
    kept = words(str(m))
    assert [word for word in words(TEXT) if word not in kept] == []
    for each in made:
        each.remove()
    assert not errors(m) and not _core.module_difference(TEXT.encode(), bytes(m)), str(m)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 30), st.integers(0, 30))
def test_move_there_and_back(one, other):
    m = pyptx.parse(TEXT)
    body = [each for each in m["rem"].body if isinstance(each, ir.Instruction)]
    moved, beside = body[one % len(body)], body[other % len(body)]
    if moved is beside:
        return
    items = m["rem"].body
    behind = items[items.index(moved) + 1] if moved is not items[-1] else None
    (there,) = beside.insert_before(moved)
    assert str(m).count(there.text) == TEXT.count(there.text)
    if behind is None:
        m["rem"].append(there)
    elif behind is not beside:
        behind.insert_before(there)
    assert not errors(m) and not _core.module_difference(TEXT.encode(), bytes(m)), str(m)
    assert sorted(words(str(m))) == sorted(words(TEXT)), str(m)


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, 30), max_size=6))
def test_what_is_left_stands_as_it_was(gone):
    m = pyptx.parse(TEXT)
    body = list(m["rem"].body)
    gone = {number for number in gone if number < len(body) and not isinstance(body[number], ir.Brace)}
    kept = [each.text for number, each in enumerate(body) if number not in gone]
    for number in gone:
        body[number].remove()
    assert [each.text for each in m["rem"].body] == kept == [each.text for each in pyptx.parse(str(m))["rem"].body]


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize("edited", [False, True])
def test_a_module_is_copied(copied, edited):
    module = pyptx.parse(".version 8.0\n.target sm_80\n.entry k() { .reg .u32 a; add.u32 a, a, 1; ret; }")
    if edited:
        module.find("add")[0].rename("a", "b")
    made = copied(module)
    assert str(made) == str(module)
    made.find("ret")[0].remove()
    assert "ret" not in str(made) and "ret" in str(module)
    for one in (module.functions[0], module.find("add")[0]):
        assert str(copied(one)) == str(one)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_statement_belongs_to_none_and_goes_anywhere(copied):
    module = pyptx.parse(".version 8.0\n.target sm_80\n.entry k() { .reg .u32 a; add.u32 a, a, 1; ret; }")
    add, other = module.find("add")[0], copied(module.functions[0])
    made = copied(add)
    assert made.function is None and made.module is None and other.module is None
    add.insert_after(made)
    made.replace_operand(2, "2")
    assert [str(i) for i in module.find("add")] == ["add.u32 a, a, 1;", "add.u32 a, a, 2;"]
    assert len(other.instructions) == 2 and other.instructions[0].function is other
    other.rename("a", "b")
    assert not errors(module) and "b" not in str(module.functions[0]).split("{")[1]


def test_lines_end_as_those_around():
    module = pyptx.parse(".version 8.0\r\n.target sm_80\r\n.entry k()\r\n{\r\n\t.reg .u32 a;\r\n\tret;\r\n}\r\n")
    module.find("ret")[0].insert_before("mov.u32 a, 1;\nadd.u32 a, a, 1;")
    assert "\t.reg .u32 a;\r\n\tmov.u32 a, 1;\r\n\tadd.u32 a, a, 1;\r\n\tret;" in str(module)
    assert str(module).count("\n") == str(module).count("\r\n") == 9
